//! The rules, one at a time; `tests/closed_loops.rs` has flows over a link.

mod graded;
mod pacing;

use proptest::prelude::*;

use super::*;
use crate::Arrival;
use crate::testing::{self, PACKET, ack, ms};

const LOW: Ecn = Ecn::Ect1;
const HIGH: Ecn = Ecn::Ect0;

fn vcp(config: &Config) -> Vcp {
    let mut vcp = Vcp::new(config, Random::from_seed(1));
    vcp.on_path(Time::ZERO, &Path::new(PACKET, Duration::from_millis(200), None));
    vcp
}

fn with_window(window: u64) -> Vcp {
    vcp(&Config { initial_window: window, ..Config::default() })
}

/// Acknowledges packets that arrived with the given codes.
fn acknowledge(vcp: &mut Vcp, now: Time, rtt: u64, codes: &[Ecn]) {
    let arrivals: Vec<_> = codes.iter().map(|&ecn| Arrival { ecn, bytes: PACKET, ..Arrival::default() }).collect();
    let rtt = Duration::from_millis(rtt);
    vcp.on_ack(now, &Ack { arrivals: &arrivals, smoothed_rtt: rtt, min_rtt: rtt, ..ack(codes.len() as u64) });
}

/// Acknowledges a packet with a code during loss recovery: the path check counts it, and the window does not grow.
fn acknowledge_in_recovery(vcp: &mut Vcp, ecn: Ecn) {
    let arrivals = [Arrival { ecn, bytes: PACKET, ..Arrival::default() }];
    let rtt = Duration::from_millis(80);
    vcp.on_ack(ms(0), &Ack { arrivals: &arrivals, smoothed_rtt: rtt, min_rtt: rtt, recovering: true, ..ack(1) });
}

fn loss(kind: LossKind) -> Loss {
    Loss { flight_size: PACKET * 1000, ..testing::loss(kind, 10, 20) }
}

/// Feedback with counts reports a mark.
fn mark(vcp: &mut Vcp, now: Time, number: u64, last_sent: u64) {
    let rtt = Duration::from_millis(80);
    let flight_size = PACKET * 1000;
    vcp.on_ack(now, &Ack { smoothed_rtt: rtt, min_rtt: rtt, flight_size, ..testing::mark(number, last_sent) });
}

fn assert_close(actual: f64, expected: f64) {
    assert!((actual - expected).abs() < 1e-9, "{actual} instead of {expected}");
}

// Eq. (6): a round trip of low load multiplies the window by 1.0625^(rtt / 200 ms), up to 2.5 of them.
#[test]
fn low_load_multiplies_the_window_equally_at_any_round_trip() {
    for (rtt, intervals) in [(200, 1.0), (100, 0.5), (20, 0.1), (500, 2.5), (2000, 2.5)] {
        let mut vcp = with_window(100);
        for _ in 0..100 {
            acknowledge(&mut vcp, ms(rtt), rtt, &[LOW]);
        }
        assert_close(vcp.window, 100.0 * 1.0625_f64.powf(intervals));
    }
}

// Eq. (8): a window of acknowledgements adds (rtt / 200 ms)^2 packets, up to 10; eq. (7) rtt / 200 ms.
#[test]
fn high_load_adds_by_the_square_of_the_round_trip() {
    for (fairness, rtt, expected) in [
        (Fairness::Rate, 200, 1.0),
        (Fairness::Rate, 80, 0.16),
        (Fairness::Rate, 600, 9.0),
        (Fairness::Rate, 800, 10.0),
        (Fairness::Window, 80, 0.4),
        (Fairness::Tcp, 80, 1.0),
    ] {
        let mut vcp = vcp(&Config { initial_window: 50, fairness, ..Config::default() });
        acknowledge(&mut vcp, ms(0), rtt, &[HIGH]);
        assert_close(vcp.window, 50.0 + expected / 50.0);
    }
}

#[test]
fn weights_and_tcps_alpha_scale_only_additive_growth() {
    for (weight, tcp_friendly, alpha) in [(3.0, false, 3.0), (1.0, true, 0.2), (2.0, true, 0.4)] {
        let config = Config { weight, tcp_friendly, initial_window: 50, ..Config::default() };
        let mut vcp = vcp(&config);
        acknowledge(&mut vcp, ms(0), 200, &[HIGH]);
        assert_close(vcp.window, 50.0 + alpha / 50.0);
        let before = vcp.window;
        acknowledge(&mut vcp, ms(0), 200, &[LOW]);
        assert_close(vcp.window, before + 0.0625);
    }
}

// S.3 at 0 ms with a round trip of 100 ms: frozen until 200 ms, additive until 300 ms, with any codes.
#[test]
fn overload_cuts_once_then_freezes_then_adds_for_a_round_trip() {
    let mut vcp = with_window(80);
    acknowledge(&mut vcp, ms(0), 100, &[LOW]);
    let before = vcp.window;
    acknowledge(&mut vcp, ms(1000), 100, &[Ecn::Ce]);
    assert_close(vcp.window, 0.875 * before);
    let cut = vcp.window;
    for code in [Ecn::Ce, HIGH, LOW] {
        acknowledge(&mut vcp, ms(1199), 100, &[code]);
        assert_eq!(vcp.window, cut);
    }
    for code in [Ecn::Ce, HIGH, LOW] {
        let before = vcp.window;
        acknowledge(&mut vcp, ms(1200), 100, &[code]);
        assert_close(vcp.window, before + 0.25 / before);
    }
    let before = vcp.window;
    acknowledge(&mut vcp, ms(1300), 100, &[LOW]);
    assert_close(vcp.window, before + 1.0625_f64.sqrt() - 1.0);
    let before = vcp.window;
    acknowledge(&mut vcp, ms(1300), 100, &[Ecn::Ce]);
    assert_close(vcp.window, 0.875 * before);
}

// Rule S.3: max(1, beta W); by default less than a packet may remain.
#[test]
fn the_smallest_window_remains_after_overload() {
    for (min_window, expected) in [(1.0, 1.0), (0.9, 0.9), (0.05, 0.875)] {
        let mut vcp = vcp(&Config { initial_window: 1, min_window, ..Config::default() });
        acknowledge(&mut vcp, ms(0), 200, &[Ecn::Ce]);
        assert_close(vcp.window, expected);
        assert_eq!(vcp.window(), PACKET, "one packet is sent every few round trips");
    }
}

// A window of 11 is cut to 9.625: ten packets with the probability of 0.625, or always nine.
#[test]
fn fractions_of_a_packet_round_at_random_or_down() {
    let ten_after_a_cut = |rounding, seed| {
        let config = Config { initial_window: 11, rounding, ..Config::default() };
        let mut vcp = Vcp::<false>::new(&config, Random::from_seed(seed));
        vcp.on_path(Time::ZERO, &Path::new(PACKET, Duration::from_millis(200), None));
        acknowledge(&mut vcp, ms(0), 200, &[Ecn::Ce]);
        assert_close(vcp.window, 9.625);
        vcp.window() == PACKET * 10
    };
    let up = (0..1000).filter(|&seed| ten_after_a_cut(Rounding::Random, seed)).count();
    assert!((570..680).contains(&up), "{up} of 1000"); // a standard deviation is 15
    assert!(!(0..1000).any(|seed| ten_after_a_cut(Rounding::Down, seed)));
}

#[test]
fn an_acknowledgement_of_two_packets_is_two_acknowledgements() {
    let (mut each, mut delayed) = (with_window(20), with_window(20));
    for _ in 0..2 {
        acknowledge(&mut each, ms(0), 80, &[LOW]);
    }
    acknowledge(&mut delayed, ms(0), 80, &[LOW, LOW]);
    assert_close(delayed.window, each.window);
    acknowledge(&mut delayed, ms(0), 80, &[LOW, HIGH]);
    acknowledge(&mut each, ms(0), 80, &[LOW]);
    acknowledge(&mut each, ms(0), 80, &[HIGH]);
    assert_close(delayed.window, each.window);
}

#[test]
fn on_a_path_that_clears_codes_the_sender_behaves_as_tcp() {
    let mut vcp = with_window(100);
    for n in 0..8 {
        assert_eq!((vcp.fault(), vcp.degraded_reason()), (None, None));
        acknowledge(&mut vcp, ms(n), 200, &[Ecn::NotEct]);
    }
    assert_eq!(vcp.fault(), Some(PathFault::ClearsCodes));
    assert!(vcp.degraded_reason().unwrap().contains("clears ECN codes"));
    assert_close(vcp.window, 101.0); // the eighth already counts: slow start
    assert_eq!(vcp.ecn(), Some(LOW)); // to detect its end
    vcp.on_loss(ms(9), &loss(LossKind::Transient));
    assert_close(vcp.window, 50.5);
    acknowledge(&mut vcp, ms(9), 200, &[Ecn::NotEct]);
    assert_close(vcp.window, 50.5 + 1.0 / 50.5);
    for n in 10..18 {
        acknowledge(&mut vcp, ms(n), 200, &[LOW]);
    }
    assert_eq!(vcp.fault(), None);
}

#[test]
fn marks_of_classic_routers_cause_tcps_reaction_once_detected() {
    let mut vcp = with_window(128);
    for (n, number, left) in [(1, 10, 112.0), (2, 20, 98.0), (3, 30, 85.75), (4, 40, 42.875)] {
        acknowledge_in_recovery(&mut vcp, LOW);
        mark(&mut vcp, ms(n * 1000), number, number + 5);
        assert_close(vcp.window, left);
    }
    mark(&mut vcp, ms(4100), 44, 60);
    assert_close(vcp.window, 42.875);
    for (number, growth) in [(45, 0.0), (46, 1.0 / 42.875)] {
        let arrivals = [Arrival { number, ecn: LOW, bytes: PACKET, ..Arrival::default() }];
        vcp.on_ack(ms(5000), &Ack { arrivals: &arrivals, ..ack(1) });
        assert_close(vcp.window, 42.875 + growth);
    }
    acknowledge(&mut vcp, ms(6000), 80, &[HIGH]);
    assert_eq!(vcp.fault(), None);
}

// With the paper's rule a round of S.2 after a cut would add 0.16 packets at 80 ms, more than the cut removed. It adds
// half of the 1/8 of a cut, and below one packet 1/16 of one times W^(3/4).
#[test]
fn a_cut_and_its_round_of_growth_reduce_a_small_window() {
    for (cut, added) in [(0.0625, 0.0625 / 8.0), (1.0, 0.0625), (2.0, 0.125), (4.0, 0.16)] {
        let mut vcp = with_window(1);
        vcp.window = cut / 0.875;
        vcp.rtt = Duration::from_millis(80);
        vcp.cut(ms(1000));
        assert_close(vcp.window, cut);
        vcp.grow(Growth::AfterCut, cut); // a round trip's packets
        assert_close(vcp.window, cut + added);
    }
}

// One packet is always in flight, so with a queue a round has more packets than the window.
#[test]
fn below_a_packet_a_cut_with_a_standing_queue_is_not_undone() {
    for (window, srtt, grows) in [(0.5, 100, true), (0.5, 101, false), (1.0, 101, true)] {
        let mut vcp = with_window(1);
        (vcp.rtt, vcp.srtt) = (Duration::from_millis(80), Duration::from_millis(srtt));
        vcp.cut(ms(1000));
        vcp.window = window;
        let growth = vcp.growth(ms(1201), Some(LoadRegion::Over));
        assert_eq!(growth, if grows { Growth::AfterCut } else { Growth::None });
    }
}

proptest! {
    #[test]
    fn the_window_has_a_minimum_and_is_cut_once_in_200_ms(
        events in prop::collection::vec((0..500u64, 1..3000u64, 0..4u8), 1..300),
    ) {
        let mut vcp = with_window(10);
        let (mut now, mut last_cut) = (ms(0), None);
        for (gap, rtt, code) in events {
            now += Duration::from_millis(gap);
            let (before, is_vcp) = (vcp.window, vcp.fault().is_none());
            acknowledge(&mut vcp, now, rtt, &[Ecn::from_bits(code)]);
            prop_assert!(vcp.window >= 0.05 && vcp.window <= before + 10.0 && vcp.window() >= PACKET);
            if is_vcp && vcp.window < before {
                prop_assert_eq!(vcp.window, (before * 0.875).max(0.05));
                prop_assert!(last_cut.is_none_or(|cut| now.since(cut) >= Duration::from_millis(200)));
                last_cut = Some(now);
            }
        }
    }
}
