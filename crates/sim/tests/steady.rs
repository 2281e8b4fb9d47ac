//! Long-lived flows compared with theory.

mod common;

use common::Dumbbell;
use rampmeter_scenario::Outcome;

/// 24 packets of buffer are one round trip.
const TEN: &str = r#"rate = "10 Mb/s", delay = "8 ms", router = { kind = "drop-tail", packets = 24 }"#;

/// Goodput over the measured span, with headers, as a share of `bps`.
fn shares(outcome: &Outcome, seconds: f64, bps: f64) -> Vec<f64> {
    let share = |bytes: f64| bytes * 1.054 * 8.0 / seconds / bps;
    outcome.flows.iter().map(|flow| share(flow.delivered_measured.as_f64())).collect()
}

/// The bandwidth-delay product is 10 Mb/s x 20 ms = 25 kB, 24 packets. With a buffer of the same size, a window that
/// has filled the buffer still fills the link after it is halved.
#[test]
fn one_newreno_flow_fills_a_link_whose_buffer_is_one_round_trip() {
    let outcome = Dumbbell { duration: "60 s", warmup: "10 s", bottleneck: TEN, ..Dumbbell::default() }.run();
    let link = &outcome.links[0];
    assert!(link.utilization > 0.99, "{link:?}");
    assert!(link.queue.max_packets == 24 && link.counts.dropped > 0, "{link:?}");
    let share = shares(&outcome, 50.0, 10e6)[0];
    assert!((link.utilization - share).abs() < 0.01, "{share} of {link:?}");
}

#[test]
fn two_equal_flows_share_equally() {
    let outcome = Dumbbell {
        duration: "200 s",
        warmup: "20 s",
        bottleneck: TEN,
        hosts: 2,
        traffic: r#"arrivals = { count = 2, spread = "1 s" }"#,
        ..Dumbbell::default()
    }
    .run();
    let shares = shares(&outcome, 180.0, 10e6);
    assert!(shares.iter().all(|share| (0.35..0.65).contains(share)), "{shares:?}");
    assert!(shares.iter().sum::<f64>() > 0.97, "{shares:?}");
}

/// Mathis et al., *The macroscopic behavior of the TCP congestion avoidance algorithm*, 1997: the window is
/// `sqrt(3/2) / sqrt(p)` packets, with an acknowledgement for every packet.
#[test]
fn random_loss_gives_the_throughput_of_the_square_root_law() {
    for p in [0.01_f64, 0.001] {
        let loss = format!("loss = {{ per_packet = {p} }}, reverse = {{ loss = {{ per_packet = 0.0 }} }}");
        let bottleneck = &format!(r#"rate = "1 Gb/s", delay = "8 ms", router = {{ kind = "drop-tail" }}, {loss}"#);
        let outcome = Dumbbell { duration: "300 s", warmup: "10 s", bottleneck, ..Dumbbell::default() }.run();
        let packets_per_second = outcome.flows[0].delivered_measured.as_f64() / 1000.0 / 290.0;
        let expected = (1.5 / p).sqrt() / 0.020;
        let ratio = packets_per_second / expected;
        assert!((0.8..1.2).contains(&ratio), "p = {p}: {packets_per_second:.0} a second, {ratio:.2} of the law's");
    }
}

/// 10 Mb/s for half the time, 20 Mb/s for the other half.
#[test]
fn a_flow_follows_the_links_rate() {
    let outcome = Dumbbell {
        duration: "50 s",
        warmup: "10 s",
        bottleneck: r#"rate = "10 Mb/s", delay = "8 ms", router = { kind = "drop-tail", packets = 48 }, changes = [{ at = "30 s", rate = "20 Mb/s" }]"#,
        ..Dumbbell::default()
    }
    .run();
    assert!(outcome.links[0].utilization > 0.97, "{:?}", outcome.links[0]);
    let mean = shares(&outcome, 40.0, 15e6)[0];
    assert!((0.96..=1.0).contains(&mean), "{mean}");
}

/// The first flow stops halfway. From then on the other flow uses the whole link.
#[test]
fn a_flow_that_stops_leaves_its_share_to_the_other() {
    let outcome = Dumbbell {
        duration: "60 s",
        warmup: "35 s",
        bottleneck: TEN,
        hosts: 2,
        traffic: "arrivals = { count = 1 }",
        more: r#"
[[traffic]]
name = "first"
scheme = "it"
from = "source"
to = "sink"
duration = "30 s"
arrivals = { count = 1 }
"#,
        ..Dumbbell::default()
    }
    .run();
    let shares = shares(&outcome, 25.0, 10e6);
    let (first, other) = if outcome.flows[0].traffic == 1 { (0, 1) } else { (1, 0) };
    assert!(shares[first] == 0.0 && outcome.flows[first].delivered.as_u64() > 0, "{shares:?}");
    assert!(shares[other] > 0.97, "{shares:?}");
}

/// The bandwidth-delay product is 24 packets and the buffer 96, so a window of 120 packets fills the queue. A round trip
/// passes until a loss is known. Meanwhile slow start doubles the window, and loses at least the 120 packets by which
/// it grows. HyStart++ (RFC 9406) has grown by a quarter at most.
#[test]
fn hystart_loses_less_than_half_of_what_slow_start_loses() {
    let lost = |scheme| {
        let outcome = Dumbbell {
            duration: "4 s",
            drain: "0 s",
            bottleneck: r#"rate = "10 Mb/s", delay = "8 ms", router = { kind = "drop-tail", packets = 96 }"#,
            scheme,
            ..Dumbbell::default()
        }
        .run();
        assert!(outcome.links[0].utilization > 0.95, "{:?}", outcome.links[0]);
        outcome.links[0].counts.dropped
    };
    let with = lost(r#"controller = "cubic""#);
    let without = lost(r#"controller = "cubic", settings = { slow_start = "standard" }"#);
    assert!(without >= 120, "{without}");
    assert!(with * 2 < without, "{with} with and {without} without HyStart++");
}

/// The packets that one transfer of 10 MB loses over 50 Mb/s and 30 ms, whose buffer of 178 packets is one round trip.
fn lost_over_one_round_trip_of_buffer(scheme: &'static str) -> u64 {
    let outcome = Dumbbell {
        duration: "3 s",
        drain: "0 s",
        bottleneck: r#"rate = "50 Mb/s", delay = "13 ms", router = { kind = "drop-tail", packets = 178 }"#,
        scheme,
        traffic: r#"size = "10 MB", arrivals = { count = 1 }"#,
        ..Dumbbell::default()
    }
    .run();
    let seconds = outcome.flows[0].fct.unwrap().as_secs_f64();
    assert!(seconds < 1.2 * 10.54e6 * 8.0 / 50e6, "{seconds}");
    outcome.links[0].counts.dropped
}

/// 10 MB are 10 000 packets. Slow start ends at 1.5 bandwidth-delay products at most, and path and buffer hold two.
#[test]
fn the_queue_of_one_window_ends_slow_start_without_loss() {
    let lost = lost_over_one_round_trip_of_buffer(r#"controller = "cubic""#);
    assert_eq!(lost, 0);
}

/// Path and buffer hold 356 packets. Slow start has doubled that window when its first loss is detected, so it loses
/// 356. Then 0.7 of it is still 1.4 times what fits: it loses 0.4 x 356 in each round trip, until retransmissions are
/// lost too. If that reduces the window to 0.98 of what fits, these are at most two round trips.
#[test]
fn a_lost_retransmission_ends_the_losses_of_slow_start() {
    let settings =
        r#"controller = "cubic", settings = { slow_start = "standard" }, transport = { tail_loss_probe = true }"#;
    let lost = lost_over_one_round_trip_of_buffer(settings);
    assert!(lost <= 356 * 18 / 10, "{lost}");
}

/// In equilibrium each FAST flow has `alpha` packets in the queue, and there are no losses. Flows that start together
/// measure the path without its queue.
#[test]
fn fast_flows_keep_alpha_packets_each_in_the_queue() {
    for (flows, traffic) in [(1, "arrivals = { count = 1 }"), (4, "arrivals = { count = 4 }")] {
        let outcome = Dumbbell {
            duration: "60 s",
            warmup: "20 s",
            bottleneck: r#"rate = "50 Mb/s", delay = "38 ms", router = { kind = "drop-tail", packets = 500 }"#,
            hosts: flows,
            scheme: r#"controller = "fast", settings = { alpha = 25 }"#,
            traffic,
            ..Dumbbell::default()
        }
        .run();
        let link = &outcome.links[0];
        assert!(link.utilization > 0.99 && link.counts.dropped == 0, "{link:?}");
        let alpha = 25.0 * flows as f64;
        assert!((link.queue.mean_packets / alpha - 1.0).abs() < 0.1, "{link:?}");
    }
}

/// Of the packets of VCP end to end a share `idle` finds the link idle, where growth balances the decrease by the target
/// of 95%: `idle / 16 + AI = (1 - idle) 0.0125` for short queues. A flow has a quarter of 237 packets in a load interval,
/// so AI is 1 / (2 x 59 + 8), and `idle` 6%. The link works at least for the rest of the time, because `noise` makes
/// more packets count as idle.
#[test]
fn end_to_end_vcp_flows_share_without_a_queue() {
    let outcome = Dumbbell {
        duration: "120 s",
        warmup: "60 s",
        bottleneck: r#"rate = "10 Mb/s", delay = "38 ms", router = { kind = "drop-tail", packets = 95 }"#,
        hosts: 4,
        scheme: r#"controller = "vcp-end-to-end""#,
        traffic: r#"arrivals = { count = 4, spread = "1 s" }"#,
        ..Dumbbell::default()
    }
    .run();
    let link = &outcome.links[0];
    let idle = (0.0125 - 1.0 / (2.0 * 59.0 + 8.0)) / (0.0125 + 0.0625);
    assert!(link.utilization > 1.0 - idle && link.counts.dropped == 0, "{link:?}");
    assert!(link.queue.mean_packets < 4.0, "{link:?}"); // a packet of each flow
    let shares = shares(&outcome, 60.0, 10e6);
    assert!(shares.iter().all(|share| (0.225..0.26).contains(share)), "{shares:?}");
}
