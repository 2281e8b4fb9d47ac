use super::*;
use crate::router::tests::{ENVIRONMENT, TestParcel, ms};

const CLASSIC: TestParcel = TestParcel::new(1, 1000);
const L4S: TestParcel = TestParcel { ecn: Ecn::Ect1, ..TestParcel::new(2, 1000) };

fn router(config: &Config) -> DualPi2<TestParcel> {
    config.check().unwrap();
    DualPi2::new(config, ENVIRONMENT, Random::from_seed(1))
}

/// A router that never updates `p'`, which is `base`.
fn fixed(base: f64) -> DualPi2<TestParcel> {
    DualPi2 { base, ..router(&Config { update: Duration::MAX, ..Config::default() }) }
}

fn offer(router: &mut DualPi2<TestParcel>, now: Time, packets: u64, packet: TestParcel) {
    (0..packets).for_each(|_| assert_eq!(router.enqueue(now, packet), Verdict::Queued));
}

/// The fractions of 10,000 packets like `packet` that leave marked and that do not leave.
fn signals(base: f64, packet: TestParcel) -> [f64; 2] {
    let mut router = fixed(base);
    for _ in 0..10_000 {
        offer(&mut router, ms(0), 1, packet);
        router.dequeue(ms(0));
    }
    let Tally { marked, dropped_from_queue } = router.tally();
    [marked, dropped_from_queue].map(|count| count as f64 / 10_000.0)
}

fn assert_close(actual: [f64; 2], expected: [f64; 2]) {
    let is_close = actual.iter().zip(expected).all(|(actual, expected)| (actual - expected).abs() < 2e-4);
    assert!(is_close, "{actual:?}, not {expected:?}");
}

#[test]
fn classic_packets_get_the_square_and_l4s_ones_twice_the_base() {
    for p in [0.01, 0.1, 0.3, 0.49] {
        assert_close(signals(p, CLASSIC), [0.0, p * p]);
        assert_close(signals(p, CLASSIC.capable()), [p * p, 0.0]);
        assert_close(signals(p, L4S), [2.0 * p, 0.0]);
    }
}

#[test]
fn in_overload_both_classes_are_dropped() {
    for p in [0.5, 0.7, 1.0] {
        let squared = p * p;
        for packet in [CLASSIC, CLASSIC.capable()] {
            assert_close(signals(p, packet), [0.0, squared]);
        }
        assert_close(signals(p, L4S), [1.0 - squared, squared]); // the others are all marked
    }
}

#[test]
fn the_base_follows_excess_and_growth_of_the_longer_delay() {
    // Waits of L4S and classic packets at 32 ms, the delay before, and the step of p', in ms.
    for (l4s, classic, before, step) in [
        (0, 25, 25, 0.16 * 0.010),
        (0, 25, 20, 0.16 * 0.010 + 3.2 * 0.005),
        (20, 5, 20, 0.16 * 0.005),
        (0, 5, 15, -0.16 * 0.010 - 3.2 * 0.010),
    ] {
        let mut router = router(&Config::default());
        (router.base, router.previous_delay) = (0.2, Duration::from_millis(before));
        router.update_at = ms(32);
        for (wait, packet) in [(l4s, L4S), (classic, CLASSIC)] {
            router.class(packet == L4S).packets.push(ms(32 - wait), packet);
        }
        router.catch_up(ms(40));
        assert!((router.base - 0.2 - step).abs() < 1e-12, "{l4s} {classic} {before}: {}", router.base);
    }
}

#[test]
fn l4s_packets_are_marked_by_their_own_delay() {
    // From 0.8 to 1.2 ms; a packet that is alone is no queue.
    for (micros, alone, marks) in [(800, false, 0), (1000, false, 500), (1200, false, 1000), (9000, true, 0)] {
        let mut router = fixed(0.0);
        let at = |n: u64| Time::ZERO + Duration::from_micros(micros * n);
        for n in 0..=1000 {
            if alone && n > 0 {
                assert!(router.dequeue(at(n)).is_some());
            }
            offer(&mut router, at(n), 1, L4S);
            if !alone && n > 0 {
                assert!(router.dequeue(at(n)).is_some());
            }
        }
        assert!(router.tally().marked.abs_diff(marks) <= 2, "{micros} us: {}", router.tally().marked);
    }
}

#[test]
fn classic_packets_get_their_share_but_wait_for_l4s_packets() {
    for (classic_share, expected) in [(0.1, 100), (0.25, 250)] {
        let mut router = router(&Config { classic_share, packets: Some(2000), ..Config::default() });
        offer(&mut router, ms(0), 1000, L4S);
        offer(&mut router, ms(0), 1000, CLASSIC);
        let left: Vec<_> = (0..1000).map(|_| router.dequeue(ms(0)).unwrap().flow).collect();
        assert_eq!(left[0], 2);
        let classic = left.iter().filter(|flow| **flow == 1).count();
        assert!(classic.abs_diff(expected) <= 1, "{classic}");
    }
}

#[test]
fn with_a_time_shift_classic_packets_wait_that_much_longer() {
    for (waited, first) in [(50, 2), (51, 1)] {
        let mut router = router(&Config { scheduler: Scheduler::TimeShifted, ..Config::default() });
        offer(&mut router, ms(0), 1, CLASSIC);
        offer(&mut router, ms(waited), 1, L4S);
        assert_eq!(router.dequeue(ms(waited)).unwrap().flow, first);
    }
}

#[test]
fn ect1_and_ce_are_l4s_and_each_class_has_its_delays() {
    let mut router = fixed(0.0);
    router.measure_delays();
    for (code, waits) in [(Ecn::Ect1, 1), (Ecn::Ce, 3), (Ecn::Ect0, 10), (Ecn::NotEct, 20)] {
        offer(&mut router, ms(0), 1, TestParcel { ecn: code, ..CLASSIC });
        assert!(router.dequeue(ms(waits)).is_some());
    }
    let ClassDelays { l4s, classic } = router.delays().unwrap();
    assert_eq!((l4s.packets, classic.packets), (2, 2));
    assert!((l4s.mean_s - 0.002).abs() < 1e-12 && (classic.mean_s - 0.015).abs() < 1e-12, "{l4s:?} {classic:?}");
}
