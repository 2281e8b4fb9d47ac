//! Trains and their results.

use rampmeter_units::Ecn;

use super::*;

const PACKET: Bytes = Bytes::new(1000);
const BASE: Rate = Rate::from_bps(4_000_000);
const TEST: Rate = Rate::from_bps(4_000_000); // together one packet per millisecond
const FLAT: Duration = Duration::from_micros(10);

/// A train of one packet every `stretch` milliseconds with these one-way delays in microseconds.
fn train(stretch: u64, delays: &[i64]) -> Probe {
    let mut probe = Probe::new(delays.len(), 0.0);
    probe.start(Time::ZERO, BASE, TEST, delays.len());
    for (i, delay) in delays.iter().enumerate() {
        let sent_at = Time::ZERO + Duration::from_millis(1000 + stretch * i as u64);
        probe.on_sent(sent_at, i as u64, PACKET);
        probe.on_arrival(&arrival(i as u64, sent_at, *delay));
    }
    probe
}

fn arrival(number: u64, sent_at: Time, delay: i64) -> Arrival {
    let received_at = Time::from_nanos(sent_at.as_nanos().wrapping_add_signed(delay * 1000));
    Arrival { number, bytes: PACKET, sent_at, received_at, ecn: Ecn::NotEct }
}

fn accepted(probe: &Probe) -> usize {
    let mut random = Random::from_seed(1);
    (0..1000).filter(|_| matches!(probe.judge(FLAT, 0, &mut random), ProbeResult::Accepted(_))).count()
}

#[test]
fn flat_or_falling_delays_are_accepted_and_growing_ones_are_not() {
    assert_eq!(accepted(&train(1, &[50; 5])), 1000);
    assert_eq!(accepted(&train(1, &[500, 400, 300, 200, 100])), 1000);
    assert_eq!(accepted(&train(1, &[50, 52, 54, 56, 58])), 1000); // grows by less than FLAT
    assert_eq!(accepted(&train(1, &[100, 200, 300, 400, 500])), 0);
}

#[test]
fn growth_above_the_clocks_resolution_is_not_flat() {
    let judge = |delays: &[i64]| train(1, delays).judge(RESOLUTION, 0, &mut Random::from_seed(1));
    assert_eq!(judge(&[50; 5]), ProbeResult::Accepted(TEST));
    assert_eq!(judge(&[50, 51, 52, 53, 54]), ProbeResult::Rejected);
}

#[test]
fn the_noisier_the_delays_the_more_chance_decides() {
    let clear = accepted(&train(1, &[100, 110, 135, 145, 160]));
    let noisy = accepted(&train(1, &[100, 300, 20, 330, 160]));
    assert!(clear < 60 && (300..500).contains(&noisy), "{clear} {noisy}");
}

#[test]
fn an_unknown_clock_offset_changes_nothing() {
    let offset = -40_000_000_000; // the receiver's clock is 11 hours behind, which gives times before zero
    assert_eq!(accepted(&train(1, &[offset; 5])), 1000);
    assert_eq!(accepted(&train(1, &[1, 2, 3, 4, 5].map(|i| offset + 100 * i))), 0);
}

#[test]
fn a_stall_makes_a_failure_inconclusive_but_no_success() {
    let mut flat = train(1, &[50; 5]);
    flat.host_stalled = true;
    assert_eq!(accepted(&flat), 1000);
    let mut growing = train(1, &[100, 200, 300, 400, 500]);
    growing.host_stalled = true;
    assert_eq!(growing.judge(FLAT, 0, &mut Random::from_seed(1)), ProbeResult::Inconclusive);
}

#[test]
fn two_lost_packets_reject_a_train_and_one_does_not() {
    let mut probe = train(1, &[50; 5]);
    probe.receipts[2] = None;
    probe.received = 4;
    probe.on_loss(2);
    assert!(probe.is_complete(0) && probe.is_complete(1));
    let accepted =
        |probe: &Probe, missing| probe.judge(FLAT, missing, &mut Random::from_seed(1)) != ProbeResult::Rejected;
    assert!(accepted(&probe, 1) && !accepted(&probe, 0));
    probe.on_loss(3);
    assert!(probe.is_complete(1) && !accepted(&probe, 1));
}

#[test]
fn one_late_packet_is_ignored_but_a_growing_queue_is_not() {
    let slope = |outlier, delays: &[i64]| {
        let mut probe = train(1, delays);
        probe.outlier = outlier;
        probe.line().unwrap().slope
    };
    assert!(slope(0.0, &[0, 0, 0, 0, 9000]) > 1.0);
    assert!(slope(4.0, &[0, 0, 0, 9000]) > 1.0, "of fewer than five packets all count");
    assert_eq!(slope(4.0, &[0, 0, 0, 0, 9000]), 0.0);
    assert!((slope(4.0, &[0, 500, 1000, 1500, 2000]) - 0.5).abs() < 1e-9);
    assert!((slope(4.0, &[0, 600, 300, 800, 1000]) - slope(0.0, &[0, 600, 300, 800, 1000])).abs() < 1e-9);
}

#[test]
fn a_missing_receipt_rejects_the_train_unless_permitted() {
    let mut probe = Probe::new(5, 0.0);
    probe.start(Time::ZERO, BASE, TEST, 5);
    for i in 0..5 {
        let sent_at = Time::ZERO + Duration::from_millis(i);
        probe.on_sent(sent_at, i, PACKET);
        if i != 2 {
            probe.on_arrival(&arrival(i, sent_at, 50));
            probe.on_arrival(&arrival(i, sent_at, 50)); // a repeated receipt counts once
        }
    }
    assert!(!probe.is_complete(0));
    assert_eq!(probe.judge(FLAT, 0, &mut Random::from_seed(1)), ProbeResult::Rejected);
    assert_eq!(probe.judge(FLAT, 1, &mut Random::from_seed(1)), ProbeResult::Accepted(TEST));
}

#[test]
fn a_pair_shows_the_capacity_and_belongs_to_the_train() {
    let mut probe = Probe::new(3, 0.0);
    probe.start(Time::ZERO, BASE, TEST, 3);
    probe.add_pair();
    let ms = |n: u64| Time::ZERO + Duration::from_millis(n);
    for i in 0..3 {
        assert!(!probe.wants_second());
        probe.on_sent(ms(i), i, PACKET);
        probe.on_arrival(&arrival(i, ms(i), 50));
    }
    assert!(probe.wants_second() && !probe.is_sent() && !probe.is_complete(0) && !probe.contains(3));
    probe.on_sent(ms(2), 3, PACKET);
    assert!(probe.is_sent() && probe.contains(3) && !probe.is_complete(0));
    probe.on_arrival(&arrival(3, ms(2), 250)); // 8000 bits, 0.2 ms behind the other packet
    assert!(probe.is_complete(0));
    assert_eq!(probe.pair_rate(), Some(PairRate { rate: Rate::from_bps(40_000_000), weight: 1.0 }));
    assert_eq!((probe.median_delay(), probe.count_waits(|_| true).all), (50_000, 3));
    assert_eq!(probe.judge(FLAT, 0, &mut Random::from_seed(1)), ProbeResult::Accepted(TEST));
}

#[test]
fn bunches_take_the_place_of_packets() {
    let mut probe = Probe::new(3, 0.0);
    probe.start(Time::ZERO, BASE.scale(4.0), TEST.scale(4.0), 3); // four packets per millisecond
    probe.set_bunch(4);
    probe.add_pair();
    let mut number = 0;
    let mut send = |probe: &mut Probe, micros: u64, delay: i64| {
        let sent_at = Time::ZERO + Duration::from_micros(micros);
        for in_bunch in 0..4 {
            probe.on_sent(sent_at, number, PACKET);
            probe.on_arrival(&arrival(number, sent_at, delay + 50 * in_bunch));
            number += 1;
        }
    };
    for bunch in 0..3 {
        assert!(!probe.wants_second());
        send(&mut probe, bunch * 1000, 50);
    }
    assert!(probe.wants_second() && probe.second_at() > Time::ZERO + Duration::from_millis(2));
    send(&mut probe, 2000, 250); // 32,000 bits, 0.2 ms behind the other bunch
    assert!(probe.is_complete(0) && probe.contains(15) && !probe.contains(16));
    assert_eq!(probe.pair_rate(), Some(PairRate { rate: Rate::from_bps(160_000_000), weight: 1.0 }));
    assert_eq!((probe.median_delay(), probe.count_waits(|_| true).all), (50_000, 3));
    assert_eq!(probe.judge(FLAT, 0, &mut Random::from_seed(1)), ProbeResult::Accepted(TEST.scale(4.0)));
}

/// A bunch of more packets than one buffer takes leaves in two.
#[test]
fn a_pairs_second_bunch_leaves_after_all_of_the_first() {
    let mut probe = Probe::new(3, 0.0);
    probe.start(Time::ZERO, BASE, TEST, 3);
    probe.set_bunch(2);
    probe.add_pair();
    for (number, micros) in [0, 5, 1000, 1005, 2000, 2005].into_iter().enumerate() {
        probe.on_sent(Time::ZERO + Duration::from_micros(micros), number as u64, PACKET);
    }
    assert!(probe.wants_second() && probe.second_at() > Time::ZERO + Duration::from_micros(2005));
    assert_eq!((probe.last_sent_at, probe.bytes), (Time::ZERO + Duration::from_micros(2000), PACKET * 4));
}

#[test]
fn a_pair_whose_first_packet_waited_has_little_weight() {
    let mut probe = Probe::new(3, 0.0);
    probe.start(Time::ZERO, BASE, TEST, 3);
    probe.add_pair();
    for (number, millis, delay) in [(0, 0, 50), (1, 1, 50), (2, 2, 2240), (3, 2, 2250)] {
        let sent_at = Time::ZERO + Duration::from_millis(millis);
        probe.on_sent(sent_at, number, PACKET);
        probe.on_arrival(&arrival(number, sent_at, delay));
    }
    let pair = probe.pair_rate().unwrap();
    assert_eq!(pair.rate, Rate::from_bps(800_000_000));
    assert!(pair.weight < 0.01, "{pair:?}");
}

#[test]
fn the_weight_of_a_pair_is_its_spread_over_both_waits() {
    for (delays, expected) in [([150, 350], Some(0.5)), ([50, 250], Some(1.0)), ([250, 250], None)] {
        let mut probe = Probe::new(3, 0.0);
        probe.start(Time::ZERO, BASE, TEST, 3);
        probe.add_pair();
        for (number, millis, delay) in [(0, 0, 50), (1, 1, 50), (2, 2, delays[0]), (3, 2, delays[1])] {
            let sent_at = Time::ZERO + Duration::from_millis(millis);
            probe.on_sent(sent_at, number, PACKET);
            probe.on_arrival(&arrival(number, sent_at, delay));
        }
        assert_eq!(probe.pair_rate().map(|pair| pair.weight), expected, "{delays:?}");
    }
}

#[test]
fn the_wait_of_a_train_is_the_median() {
    assert_eq!(train(1, &[50, 10, 30, 20, 40]).median_delay(), 30_000);
    assert_eq!(train(1, &[90, 10, 30]).median_delay(), 30_000);
}

#[test]
fn a_train_of_two_bunches_is_too_short_to_end_early() {
    let mut probe = Probe::new(5, 0.0);
    probe.start(Time::ZERO, BASE, TEST, 5);
    probe.set_bunch(4);
    (0..11).for_each(|number| probe.on_sent(Time::ZERO, number, PACKET));
    assert!(!probe.end_early());
    probe.on_sent(Time::ZERO, 11, PACKET);
    assert!(probe.end_early() && probe.is_sent());
}

#[test]
fn a_train_grants_no_more_than_it_sent() {
    let mut random = Random::from_seed(1);
    assert_eq!(train(1, &[50; 5]).judge(FLAT, 0, &mut random), ProbeResult::Accepted(TEST));
    assert_eq!(train(2, &[50; 5]).judge(FLAT, 0, &mut random), ProbeResult::Inconclusive);
    let mut probe = train(1, &[50; 5]);
    probe.last_sent_at = Time::ZERO + Duration::from_millis(1006); // 4 packets in 6 ms: 5.3 Mb/s
    assert_eq!(probe.judge(FLAT, 0, &mut random), ProbeResult::Accepted(Rate::from_bps(1_333_333)));
}
