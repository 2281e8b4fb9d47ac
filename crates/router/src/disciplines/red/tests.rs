//! One router at fixed averages, against the formulas of the papers.

use super::*;
use crate::router::tests::{ENVIRONMENT, TestParcel, ms};

/// The average equals the queue, thresholds are 2 and 4 packets; `p_b` is `max_p` at 4 and 1 at 8.
fn quick() -> Config {
    Config { min_th: Some(2.0), max_th: Some(4.0), weight: Some(1.0), wait: false, ..Config::default() }
}

fn red(config: &Config) -> Red<TestParcel> {
    config.check().unwrap();
    Red::new(config, ENVIRONMENT, Random::from_seed(1)) // 8 Mb/s: a packet a millisecond
}

/// Packets of 1000 bytes that find a queue of `waiting` packets: the numbers of `offered` packets dropped and
/// marked.
fn dropped_and_marked(config: &Config, waiting: u64, packet: TestParcel, offered: u32) -> (u32, u64) {
    let mut red = red(config);
    while red.backlog().packets < waiting {
        let _ = red.queue.enqueue(ms(0), TestParcel::new(0, 1000));
    }
    let mut dropped = 0;
    for _ in 0..offered {
        dropped += u32::from(red.enqueue(ms(0), packet) != Verdict::Queued);
        while red.backlog().packets > waiting && red.queue.dequeue(ms(0)).is_some() {}
    }
    (dropped, red.tally().marked)
}

#[test]
fn the_average_follows_arrivals_and_decays_while_idle() {
    let mut red = red(&Config { weight: Some(0.25), ..Config::default() });
    for expected in [0.0, 250.0, 0.75 * 250.0 + 0.25 * 2000.0] {
        let _ = red.enqueue(ms(0), TestParcel::new(1, 1000));
        assert_eq!(red.average, expected);
    }
    let before = red.average;
    (0..3).for_each(|n| assert!(red.dequeue(ms(n)).is_some()));
    // The last packet is sent by 3 ms; the link is then idle for four packet times, and an arrival finds an empty
    // queue.
    let _ = red.enqueue(ms(7), TestParcel::new(1, 1000));
    assert!((red.average - before * 0.75_f64.powi(5)).abs() < 1e-9, "{}", red.average);
}

#[test]
fn gaps_between_marks_are_uniform() {
    for (wait, from, to) in [(true, 10, 19), (false, 1, 9)] {
        let (mut random, mut gaps) = (Random::from_seed(3), [0; 20]);
        let rounds = 20_000;
        for _ in 0..rounds {
            // Slightly more than 0.1, so that rounding does not decide whether 10 p is 1.
            let gap = (1..30).find(|count| random.chance(spread(0.1 + 1e-12, f64::from(*count), wait))).unwrap();
            gaps[usize::try_from(gap).unwrap()] += 1;
        }
        let each = rounds / (to - from + 1);
        for (gap, times) in gaps.into_iter().enumerate() {
            let expected = if (from..=to).contains(&(gap as i32)) { each } else { 0 };
            assert!((times - expected).abs() <= expected / 8, "{times} gaps of {gap}, wait {wait}");
        }
    }
}

#[test]
fn the_last_possible_packet_is_always_marked() {
    // p_a = p_b / (1 - count p_b), with `wait` from count p_b = 1 on: p_b / (2 - count p_b).
    for (count, wait, expected) in
        [(0.0, false, 0.5), (1.0, false, 1.0), (2.0, false, 1.0), (1.0, true, 0.0), (2.0, true, 0.5), (4.0, true, 1.0)]
    {
        assert_eq!(spread(0.5, count, wait), expected, "{count} packets, wait {wait}");
    }
}

#[test]
fn thresholds_and_weight_follow_from_the_rate() {
    // Half of 5 ms, in packets of 1000 bytes, at least 5.
    for (bps, packets) in [(500_000, 5.0), (50_000_000, 15.625), (5_000_000_000, 1562.5)] {
        let parameters = Parameters::new(&Config::default(), Rate::from_bps(bps));
        assert_eq!((parameters.min_th, parameters.max_th), (packets * 1e3, packets * 3e3));
        let capacity = bps as f64 / 8000.0;
        assert!((parameters.weight - (1.0 - (-1.0 / capacity).exp())).abs() < 1e-9);
    }
    let mut red = red(&Config::default());
    red.on_rate(ms(0), Rate::from_bps(50_000_000));
    assert_eq!(red.parameters.min_th, 15_625.0);
}

#[test]
fn between_the_thresholds_only_capable_packets_are_marked() {
    let packet = TestParcel::new(1, 1000);
    assert_eq!(dropped_and_marked(&quick(), 1, packet.capable(), 1000), (0, 0));
    // p_b = max_p / 2: gaps of 1 to 19 packets, 10 on average, or of 1 to 3.
    for (max_p, expected) in [(0.1, 950..1050), (0.5, 4850..5150)] {
        let (dropped, marked) = dropped_and_marked(&Config { max_p, ..quick() }, 3, packet.capable(), 10_000);
        assert!(dropped == 0 && expected.contains(&marked), "{marked}");
    }
    for (config, packet) in [(quick(), packet), (Config { ecn: false, ..quick() }, packet.capable())] {
        let (dropped, marked) = dropped_and_marked(&config, 3, packet, 10_000);
        assert!(marked == 0 && (950..1050).contains(&dropped), "{dropped}");
    }
}

#[test]
fn above_max_th_all_packets_are_dropped_at_once_or_gently() {
    let capable = TestParcel::new(1, 1000).capable();
    // All but the first, at which the average exceeds `min_th`.
    assert_eq!(dropped_and_marked(&Config { gentle: false, ..quick() }, 4, capable, 100), (99, 0));
    assert_eq!(dropped_and_marked(&quick(), 8, capable, 100), (99, 0));
    assert_eq!(dropped_and_marked(&Config { mark_up_to: Some(1.0), ..quick() }, 8, capable, 100), (0, 99));
    // p_b = 0.1 + 0.9 (5 - 4) / 4 = 0.325: gaps of 1 (0.481), 2 (0.481) or 3 (0.037), 1.556 on average.
    let (dropped, marked) = dropped_and_marked(&quick(), 5, capable, 10_000);
    assert!(marked == 0 && (6300..6560).contains(&dropped), "{dropped}");
}

#[test]
fn max_p_rises_by_increments_and_falls_by_tenths() {
    let mut red = red(&Config { adaptive: true, max_p: 0.02, ..quick() });
    for (average, seconds, expected) in [
        (3700.0, 1, 0.025), // a quarter more
        (3000.0, 2, 0.025), // within the middle fifth
        (2500.0, 3, 0.0225),
    ] {
        red.average = average;
        red.adapt(ms(1000 * seconds));
        assert!((red.max_p - expected).abs() < 1e-12, "{} at {seconds} s", red.max_p);
    }
    for (average, bound) in [(9000.0, 0.5..0.52), (0.0, 0.008..0.01)] {
        red.average = average;
        (0..1000).for_each(|n| red.adapt(ms(n)));
        assert!(bound.contains(&red.max_p), "{}", red.max_p);
    }
}
