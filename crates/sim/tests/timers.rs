//! Whole flows where timers matter: a path that becomes longer than the retransmission timeout, pauses, outages, and many
//! flows on a deep buffer.

mod common;

use common::Dumbbell;
use rampmeter_scenario::Outcome;

/// The payload of a packet of 1054 bytes.
const PAYLOAD: f64 = 1000.0 / 1054.0;

/// What the first flow delivers in the `seconds` that are measured, as a share of the payload that 20 Mb/s carry.
fn share(outcome: &Outcome, seconds: f64) -> f64 {
    outcome.flows[0].delivered_measured.as_f64() * 8.0 / (20e6 * PAYLOAD * seconds)
}

/// 40 ms become 620 ms, and no packet is lost. Each of these schemes has its full rate 20 s later, whatever its recovery
/// and its minimum timeout (RFC 6298 section 5, RFC 3522, RFC 4015). Linux's CUBIC and Reno have 0.99 and 1.00 of it.
#[test]
fn flows_recover_when_the_round_trip_jumps() {
    let bottleneck = r#"rate = "20 Mb/s", delay = "18 ms", router = { kind = "drop-tail", packets = 4000 }, changes = [{ at = "10 s", delay = "598 ms" }], reverse = { changes = [] }"#;
    for controller in ["reno", "newreno", "cubic", "cm", "prague", "stable", "pcp", "bbr"] {
        for transport in ["", r#"min_rto = "1 s""#, r#"recovery = "newreno", receive_window = "4 MB""#] {
            let scheme = &format!("controller = \"{controller}\", transport = {{ {transport} }}");
            let outcome =
                Dumbbell { duration: "50 s", warmup: "30 s", bottleneck, scheme, ..Dumbbell::default() }.run();
            let (share, counts) = (share(&outcome, 20.0), outcome.links[0].counts);
            assert!(share > 0.85, "{scheme}: {share:.3} of the rate, {counts:?}");
        }
    }
}

/// Frames of 50 packets every 100 ms, on 50 Mb/s and 40 ms: they take 8 ms, and half a round trip. The pause of 60 ms is
/// shorter than the minimum timeout, so the window does not restart (RFC 5681 section 4.1). Linux needs 28 ms. Paced
/// packets are spread over a round trip at most.
#[test]
fn a_pause_shorter_than_the_timeout_keeps_the_window() {
    let bottleneck = r#"rate = "50 Mb/s", delay = "18 ms", router = { kind = "drop-tail", packets = 300 }"#;
    let traffic = r#"media = { rate = "4 Mb/s", frames = 10 }, arrivals = { count = 1 }"#;
    let windows = ["newreno", "cubic", "ledbat", "dctcp", "bic"].map(|controller| (controller, 0.030));
    let paced = ["copa", "prague", "cm", "stable"].map(|controller| (controller, 0.070));
    for (controller, max) in windows.into_iter().chain(paced) {
        let scheme = &format!("controller = \"{controller}\"");
        let outcome = Dumbbell { duration: "20 s", bottleneck, scheme, traffic, ..Dumbbell::default() }.run();
        let median = outcome.flows[0].report.frame_delay_p50_s.expect("frames arrived");
        assert!(median < max, "{scheme}: {median} s");
    }
}

/// The link carries nothing for 1, 10 or 60 s, and is as before afterwards: the packets in its queue arrive, so that the
/// timeouts turn out to be spurious. PCP starts over with a third of its rate and tests the rest (PCP section 3.4).
#[test]
fn flows_recover_within_seconds_of_an_outage() {
    for (seconds, end) in [(1, 11), (10, 20), (60, 70)] {
        let bottleneck = &format!(
            r#"rate = "20 Mb/s", delay = "18 ms", router = {{ kind = "drop-tail", packets = 100 }}, changes = [{{ at = "10 s", rate = "0 b/s" }}, {{ at = "{end} s", rate = "20 Mb/s" }}], reverse = {{ changes = [], rate = "20 Mb/s" }}"#
        );
        let [duration, warmup] = [25, 5].map(|after| format!("{} s", end + after));
        let (duration, warmup) = (&*duration, &*warmup);
        for controller in ["newreno", "cubic", "bbr", "copa", "pcp", "prague"] {
            let scheme = &format!("controller = \"{controller}\"");
            let outcome = Dumbbell { duration, warmup, bottleneck, scheme, ..Dumbbell::default() }.run();
            let share = share(&outcome, 20.0);
            assert!(share > 0.85, "{controller} after {seconds} s: {share:.3} of the rate");
        }
    }
}

/// Ware, Mukerjee, Seshan and Sherry (IMC 2019): a BBRv1 and 16 CUBICs share a buffer of 64 bandwidth-delay products, so the
/// round trip grows to 2.6 s. The CUBICs share what they have (Jain's index with Linux's: 0.99).
#[test]
fn many_flows_on_a_deep_buffer_share_it() {
    let outcome = Dumbbell {
        duration: "200 s",
        warmup: "100 s",
        hosts: 17,
        bottleneck: r#"rate = "10 Mb/s", delay = "18 ms", router = { kind = "drop-tail", packets = 3036 }"#,
        scheme: r#"controller = "cubic""#,
        traffic: "arrivals = { count = 16 }",
        more: r#"
[scheme.other]
controller = "bbr1"
[[traffic]]
name = "other"
scheme = "other"
from = "source"
to = "sink"
arrivals = { count = 1 }
"#,
        ..Dumbbell::default()
    }
    .run();
    let rates = outcome.flows.iter().filter(|flow| flow.traffic == 0).map(|flow| flow.delivered_measured.as_f64());
    let (count, sum, squares) = rates.fold((0.0, 0.0, 0.0), |(n, sum, squares), x| (n + 1.0, sum + x, squares + x * x));
    let jain = sum * sum / (count * squares);
    assert!(count == 16.0 && jain > 0.95, "{jain}");
}
