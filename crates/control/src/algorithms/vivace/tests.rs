//! The equations of the paper, and whole flows on one link in virtual time.

use super::*;
use crate::testing::PACKET;
use crate::testing::link::Link;

const RTT: Duration = Duration::from_millis(30);

fn flow(megabits: u64, buffer: f64) -> Link<Vivace> {
    Link::new(&Config::default(), Rate::from_bps(megabits * 1_000_000), RTT, buffer)
}

#[test]
fn the_rate_doubles_until_the_utility_falls() {
    let mut flow = flow(50, 2.0);
    let end = Time::ZERO + Duration::from_secs(3);
    flow.run_until(end, |flow| matches!(flow.sender.phase, Phase::Probe { .. }));
    let rate = flow.sender.rate / 1e6;
    assert!(flow.now < end && (25.0..75.0).contains(&rate), "{rate} Mb/s at {:?}", flow.now);
}

/// A sender at 100 Mb/s that probes.
fn probing() -> Vivace {
    let mut vivace = Vivace::new(&Config::default(), Random::from_seed(1));
    vivace.on_path(Time::ZERO, &Path::new(PACKET, RTT, None));
    vivace.rate = 100e6;
    vivace.phase = vivace.probe();
    vivace
}

/// Ten packets sent at `rate`, of which `lost` are lost; the round-trip time grows by `growth` of the time.
fn interval(rate: f64, lost: u64, growth: f64) -> Interval {
    let mut intervals = Intervals::default();
    intervals.begin(Time::ZERO, 0, rate, RTT);
    for number in 0..10 {
        intervals.on_sent(number, PACKET);
        let sent_at = Duration::from_millis(3 * number);
        if number < lost {
            intervals.on_lost(number, PACKET);
        } else {
            intervals.on_delivered(number, PACKET, Time::ZERO + sent_at, RTT + sent_at.scale(growth));
        }
    }
    intervals.close(Time::ZERO + RTT, 10);
    intervals.take_result(Time::ZERO + RTT, RTT).unwrap()
}

#[test]
fn the_utility_is_that_of_equation_1() {
    // 50 Mb/s: 50^0.9 = 33.81; a delay that grows by 2% costs 900 50 0.02 = 900, a loss of 10% 11.35 50 0.1.
    for (lost, growth, expected) in [(0, 0.0, 33.8122), (0, 0.02, 33.8122 - 900.0), (1, 0.0, 33.8122 - 56.75)] {
        let utility = Vivace::utility(&interval(50e6, lost, growth));
        assert!((utility - expected).abs() < 0.01, "{lost} {growth}: {utility}");
    }
}

#[test]
fn both_probes_determine_the_change() {
    // Without loss or delay the gradient is (105^0.9 - 95^0.9) / 10 = 0.568.
    for rates in [[105e6, 95e6], [95e6, 105e6]] {
        let mut vivace = probing();
        vivace.on_result(&interval(rates[0], 0, 0.0));
        assert_eq!(vivace.rate, 100e6, "one result is not enough");
        vivace.on_result(&interval(rates[1], 0, 0.0));
        assert!((vivace.rate - 100.568e6).abs() < 1e3, "{}", vivace.rate);
    }
    let mut vivace = probing();
    vivace.on_result(&interval(105e6, 0, 0.02));
    vivace.on_result(&interval(95e6, 0, 0.0));
    assert_eq!(vivace.rate, 95e6, "the delay costs 189 Mb/s for each, so the bound of 5% applies");
}

#[test]
fn after_three_changes_in_a_row_the_amplifier_grows_by_two() {
    // 1, 2, 3, then 2 k - 3: 5, 7. The sixth change, in the other direction, counts as the first one.
    let mut vivace = probing();
    for (gradient, change) in [(0.1, 0.1), (0.1, 0.2), (0.1, 0.3), (0.1, 0.5), (0.1, 0.7), (-0.1, -0.1), (-0.1, -0.2)] {
        let before = vivace.rate;
        vivace.change(gradient);
        assert!((vivace.rate - before - change * 1e6).abs() < 1.0, "{change}: {}", vivace.rate - before);
    }
}

#[test]
fn the_bound_of_a_change_grows_until_the_direction_changes() {
    let mut vivace = probing();
    for (gradient, share) in [(100.0, 0.05), (100.0, 0.15), (100.0, 0.25), (-100.0, -0.05), (-100.0, -0.15)] {
        let before = vivace.rate;
        vivace.change(gradient);
        assert!((vivace.rate / before - 1.0 - share).abs() < 1e-6, "{share}: {}", vivace.rate / before);
    }
}

#[test]
fn a_change_within_the_bound_lowers_the_next_bound() {
    // Section 4.2. A gradient of 3.4 changes the rate by (2 4 - 3) 3.4 = 17 Mb/s, about a tenth: within the bounds from
    // 0.15 on. So the next bound is 0.15, where the next step would be 0.35.
    let mut vivace = probing();
    (0..3).for_each(|_| vivace.change(100.0));
    let before = vivace.rate;
    vivace.change(3.4);
    assert!((vivace.rate - before - 17e6).abs() < 1.0, "{}", vivace.rate - before);
    let before = vivace.rate;
    vivace.change(100.0);
    assert!((vivace.rate / before - 1.15).abs() < 1e-6, "{}", vivace.rate / before);
}

#[test]
fn a_slower_link_is_noticed_within_seconds() {
    let mut flow = flow(50, 2.0);
    flow.run(Duration::from_secs(10));
    flow.set_rate(0.2);
    flow.run(Duration::from_secs(10));
    let rate = flow.sender.rate / 1e6;
    assert!((7.0..11.5).contains(&rate), "{rate}");
}
