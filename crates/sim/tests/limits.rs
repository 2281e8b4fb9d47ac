//! Flows that something other than their controller limits say so in results, and others do not.

mod common;

use common::Dumbbell;
use rampmeter_scenario::{DegradedSummary, Outcome, Plan};

const LINK: &str =
    r#"rate = "10 Mb/s", delay = "8 ms", router = { kind = "drop-tail", packets = 100 }, loss = { per_packet = 0 }"#;

/// The reasons, and the first flow.
fn degraded(dumbbell: &Dumbbell<'_>) -> (Vec<String>, Outcome) {
    let plan: Plan = dumbbell.plan();
    let outcome = common::run(&plan);
    (DegradedSummary::all(&plan, &outcome).into_iter().map(|it| it.reason).collect(), outcome)
}

fn with<'a>(bottleneck: &'a str, scheme: &'a str) -> Dumbbell<'a> {
    Dumbbell { duration: "30 s", bottleneck, scheme, ..Dumbbell::default() }
}

/// 10 Mb/s and 20 ms need 25 kB. A window of 10 kB gives two fifths of it.
#[test]
fn a_receive_window_below_the_bandwidth_delay_product_is_named() {
    for controller in ["newreno", "cubic", "bbr", "pcp", "copa", "vegas", "prague"] {
        let scheme = format!(r#"controller = "{controller}", transport = {{ receive_window = "10 kB" }}"#);
        let (reasons, outcome) = degraded(&with(LINK, scheme.leak()));
        let [reason] = &reasons[..] else { panic!("{controller}: {reasons:?} {:?}", outcome.flows[0].limits) };
        assert!(reason.contains("receive window of 10 kB") && reason.contains("\"50 kB\""), "{controller}: {reason}");
        let share = outcome.flows[0].limits.receive_window_share().unwrap();
        assert!(outcome.links[0].utilization < 0.5 && share > 0.6, "{controller}: {share} {:?}", outcome.links[0]);
    }
}

/// 10 Gb/s and 302 ms need 378 MB. In 8 s a flow sends for half of the time before a window of 16 MB stops it.
#[test]
fn a_small_window_full_for_less_than_half_is_named() {
    let link = r#"rate = "10 Gb/s", delay = "149 ms", router = { kind = "drop-tail", packets = 250000 }"#;
    let (reasons, outcome) = degraded(&Dumbbell { duration: "8 s", ..with(link, r#"controller = "bbr""#) });
    let share = outcome.flows[0].limits.receive_window_share().unwrap();
    let [reason] = &reasons[..] else { panic!("{share} {reasons:?}") };
    assert!((0.2..0.5).contains(&share) && reason.contains("more than a tenth of its time"), "{share} {reason}");
    assert!(reason.contains("receive_window = \"760 MB\""), "{reason}");
}

/// Copa keeps some packets in the queue, so a window of 1.1 bandwidth-delay products stops it at times. The link is busy.
#[test]
fn a_larger_window_that_is_full_at_times_is_not_named() {
    let scheme = r#"controller = "copa", transport = { receive_window = "28 kB" }"#;
    let (reasons, outcome) = degraded(&with(LINK, scheme));
    let share = outcome.flows[0].limits.receive_window_share().unwrap();
    assert!((0.1..0.5).contains(&share) && outcome.links[0].utilization > 0.95, "{share} {:?}", outcome.links[0]);
    assert_eq!(reasons, [""; 0]);
}

#[test]
fn flows_that_their_controller_limits_are_not_degraded() {
    let lossy = LINK.replace("per_packet = 0", "per_packet = 0.01");
    for bottleneck in [LINK, lossy.leak()] {
        for controller in ["newreno", "reno", "cubic", "bbr", "bbr1", "pcp", "copa", "vegas", "ledbat", "vivace", "cm"]
        {
            let (reasons, outcome) = degraded(&with(bottleneck, format!(r#"controller = "{controller}""#).leak()));
            assert_eq!(reasons, [""; 0], "{controller}: {:?}", outcome.flows[0].limits);
        }
    }
}

#[test]
fn a_flow_that_its_application_limits_is_not_degraded() {
    for controller in ["newreno", "bbr", "pcp"] {
        let scheme = format!(r#"controller = "{controller}""#);
        let media = r#"media = { rate = "1 Mb/s" }, arrivals = { count = 1 }"#;
        let (reasons, outcome) = degraded(&Dumbbell { traffic: media, ..with(LINK, scheme.leak()) });
        let limits = outcome.flows[0].limits;
        assert_eq!(reasons, [""; 0], "{controller}: {limits:?}");
        assert!(limits.busy.as_secs_f64() < 25.0 && limits.receive_window_share() == Some(0.0), "{limits:?}");
    }
}

#[test]
fn a_flow_without_a_link_waits_for_timeouts() {
    let gone = r#"rate = "10 Mb/s", delay = "8 ms", router = { kind = "drop-tail", packets = 100 },
                  changes = [{ at = "5 s", rate = "0 b/s" }]"#;
    let (reasons, outcome) = degraded(&with(gone, r#"controller = "newreno""#));
    let [reason] = &reasons[..] else { panic!("{reasons:?} {:?}", outcome.flows[0].limits) };
    assert!(reason.contains("retransmission timeouts"), "{reason}");
}

/// Where half of the acknowledgements are lost, half of the packets have no receipt.
#[test]
fn lost_receipts_are_named_where_the_controller_needs_them() {
    let lossy = r#"rate = "10 Mb/s", delay = "8 ms", router = { kind = "drop-tail", packets = 100 },
                   reverse = { loss = { per_packet = 0.5 } }"#;
    for (controller, is_named) in [("pcp-paper", true), ("vcp-end-to-end", true), ("pcp", false), ("newreno", false)] {
        let (reasons, outcome) = degraded(&with(lossy, format!(r#"controller = "{controller}""#).leak()));
        let share = outcome.flows[0].limits.without_receipt_share().unwrap();
        assert!((0.3..0.7).contains(&share), "{controller}: {share}");
        let named = reasons.iter().filter(|reason| reason.contains("without their arrival times")).count();
        assert_eq!(named, usize::from(is_named), "{controller}: {reasons:?}");
    }
}
