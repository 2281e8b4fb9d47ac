//! The equations of both variants, and slowdowns in virtual time.

use super::*;
use crate::rules::tests::TestFlow;
use crate::testing::{PACKET, arrived};
use crate::{Arrival, Controller, LossKind};

const BASE: Duration = Duration::from_millis(100);

fn config(variant: Variant) -> Config {
    Config { variant, ..Config::default() }
}

/// A flow that has measured its base delay, with a window of `window` packets.
fn flow(variant: Variant, window: f64) -> TestFlow<LedbatRules> {
    let mut flow = TestFlow::<LedbatRules>::new(&config(variant), BASE);
    flow.ack();
    flow.rules_mut().phase = Phase::Avoidance { until: Time::MAX };
    flow.rules_mut().threshold = window;
    flow.set(window);
    flow
}

/// The change of the window in a round trip with a queueing delay of `millis`.
fn change(variant: Variant, window: f64, millis: u64) -> f64 {
    let mut flow = flow(variant, window);
    flow.now += BASE * 20; // the earlier delay is older than a round trip
    flow.rtt = BASE + Duration::from_millis(millis);
    // One acknowledgement of the round trip: the window changes little, so the sum is as large.
    flow.ack() * window
}

#[test]
fn ledbat_grows_by_the_distance_from_its_target() {
    for (millis, expected) in [(0, 1.0), (50, 0.5), (100, 0.0), (150, -0.5), (300, -2.0)] {
        let change = change(Variant::Rfc6817, 100.0, millis);
        assert!((change - expected).abs() < 1e-9, "{millis} ms: {change}");
    }
}

#[test]
fn ledbat_plus_plus_grows_by_its_gain_up_to_the_target() {
    // A base of 100 ms: GAIN is 1 / ceil(120 / 100). Above the target: 1/2 - 100 (q / 60 ms - 1), at least -50.
    for (millis, expected) in [(0, 0.5), (60, 0.5), (66, 0.5 - 10.0), (120, -50.0), (600, -50.0)] {
        let change = change(Variant::PlusPlus, 100.0, millis);
        assert!((change - expected).abs() < 1e-6, "{millis} ms: {change}");
    }
}

#[test]
fn the_gain_is_between_a_sixteenth_and_one() {
    for (millis, expected) in [(1, 16.0), (8, 15.0), (20, 6.0), (60, 2.0), (61, 2.0), (120, 1.0), (500, 1.0)] {
        let mut flow = TestFlow::<LedbatRules>::new(&Config::default(), Duration::from_millis(millis));
        flow.ack();
        assert_eq!(flow.rules().gain(), 1.0 / expected, "{millis} ms");
    }
}

/// Simulates round trips until `is_over`, and returns the time that passes.
fn until(flow: &mut TestFlow<LedbatRules>, is_over: impl Fn(&TestFlow<LedbatRules>) -> bool) -> Duration {
    let since = flow.now;
    while !is_over(flow) {
        assert!(flow.now.since(since) < Duration::from_secs(600), "{:?}", flow.rules());
        flow.now += flow.rtt / flow.window().max(1.0) as u64;
        flow.ack();
    }
    flow.now.since(since)
}

#[test]
fn slow_start_ends_at_three_quarters_of_the_target() {
    let mut flow = TestFlow::<LedbatRules>::new(&config(Variant::PlusPlus), BASE);
    until(&mut flow, |flow| flow.window() > 100.0);
    flow.rtt = BASE + Duration::from_millis(45);
    (0..3).for_each(|_| _ = flow.round());
    assert!(matches!(flow.rules().phase, Phase::SlowStart { .. }));
    flow.rtt = BASE + Duration::from_millis(46);
    (0..2).for_each(|_| _ = flow.round());
    assert!(matches!(flow.rules().phase, Phase::Avoidance { .. }));
}

#[test]
fn a_slowdown_takes_two_round_trips_and_a_tenth_of_the_time() {
    let mut flow = TestFlow::<LedbatRules>::new(&config(Variant::PlusPlus), BASE);
    until(&mut flow, |flow| flow.window() > 100.0);
    flow.lose(LossKind::Transient); // ends the initial slow start
    let window = flow.window();
    let wait = until(&mut flow, |flow| flow.window() == 2.0).as_secs_f64();
    assert!((wait - 0.2).abs() < 0.01, "the initial slowdown: {wait}");
    let frozen = until(&mut flow, |flow| flow.window() > 2.0).as_secs_f64();
    assert!((0.19..0.26).contains(&frozen), "an acknowledgement arrives every 50 ms: {frozen}");
    // With GAIN 1/2 an acknowledgement adds half a packet: from 2 to 50 in 2 ln 25 = 6.4 round trips.
    let ramp = until(&mut flow, |flow| flow.window() >= window).as_secs_f64();
    assert!((0.55..0.75).contains(&ramp), "{ramp}");
    let interval = until(&mut flow, |flow| flow.window() == 2.0).as_secs_f64();
    assert!((interval / (frozen + ramp) - 9.0).abs() < 0.3, "{interval}");
}

#[test]
fn ledbat_measures_one_way_delays_and_its_successor_round_trips() {
    for (variant, queue) in [(Variant::Rfc6817, 50), (Variant::PlusPlus, 30)] {
        let mut flow = TestFlow::<LedbatRules>::new(&config(variant), BASE);
        for (second, one_way, rtt) in [(0, 10, 100), (1, 60, 130)] {
            let sent_at = Time::ZERO + Duration::from_secs(second);
            let received_at = sent_at + Duration::from_millis(one_way);
            let arrivals = [Arrival { bytes: PACKET, sent_at, received_at, ..Arrival::default() }];
            let rtt = Duration::from_millis(rtt);
            flow.tcp.on_ack(sent_at + rtt, &arrived(&arrivals, rtt));
        }
        assert_eq!(flow.rules().delays.queueing(), Duration::from_millis(queue), "{variant:?}");
    }
}
