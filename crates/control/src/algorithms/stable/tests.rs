//! The sender alone, and on a path that marks at random, compared with the theory of section 2.

use std::collections::VecDeque;

use super::*;
use crate::testing::{PACKET, arrived, loss, mark};
use crate::{Arrival, MarkCount, Settings};

fn stable(config: &Config, rtt: Duration) -> Stable {
    config.check().unwrap();
    let mut stable = Stable::new(config, Random::from_seed(11));
    stable.on_path(Time::ZERO, &Path::new(PACKET, rtt, None));
    stable
}

/// A sender in steady state, after soft start.
fn steady(config: &Config, rtt: Duration, window: f64) -> Stable {
    let config = Config { soft_start_marks: 0, initial_window: window, ..config.clone() };
    stable(&config, rtt)
}

fn arrivals(codes: &[Ecn]) -> Vec<Arrival> {
    codes.iter().map(|&ecn| Arrival { bytes: PACKET, ecn, ..Arrival::default() }).collect()
}

fn acknowledge(stable: &mut Stable, now: Time, rtt: Duration, codes: &[Ecn]) {
    stable.on_ack(now, &arrived(&arrivals(codes), rtt));
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn each_packet_counts_by_its_own_code_and_in_order() {
    let config = Config { gain: 0.05, ..Config::default() };
    let mut one = steady(&config, MS * 100, 10.0); // S T = 1: a = b = 0.05
    acknowledge(&mut one, Time::ZERO, MS * 100, &[Ecn::Ect0, Ecn::Ce]);
    assert!((one.packets() - 10.05 * 0.95).abs() < 1e-12, "{}", one.packets());
    acknowledge(&mut one, Time::ZERO, MS * 100, &[Ecn::Ce, Ecn::Ce]);
    assert!((one.packets() - 10.05 * 0.95_f64.powi(3)).abs() < 1e-12, "{}", one.packets());
}

#[test]
fn the_sharing_constant_is_exact_also_with_a_capped_decrease() {
    let config = Config { gain: 0.05, sharing: 10.0, max_decrease: 0.125, ..Config::default() };
    for (millis, a, b) in [(1, 0.00125, 0.125), (10, 0.0125, 0.125), (40, 0.05, 0.125), (200, 0.05, 0.025)] {
        let rtt = MS * millis;
        let mut stable = steady(&config, MS * 77, 10.0);
        acknowledge(&mut stable, Time::ZERO, rtt, &[]); // updates the estimate of T
        let gains = stable.gains();
        assert!((gains.0 - a).abs() < 1e-12 && (gains.1 - b).abs() < 1e-12, "{millis} ms: {gains:?}");
        assert!((gains.0 / (gains.1 * rtt.as_secs_f64()) - 10.0).abs() < 1e-9);
    }
}

#[test]
fn in_overload_the_rate_falls_as_fast_as_theory_predicts() {
    // All packets are marked. A round trip has w acknowledgements, so a factor f takes log f / (w log(1 / (1 - b))) of
    // them.
    let (config, rtt) = (Config { gain: 0.05, ..Config::default() }, MS * 100);
    let mut stable = steady(&config, rtt, 100.0);
    let mut marks = 0.0_f64;
    while stable.packets() > 25.0 {
        acknowledge(&mut stable, Time::ZERO, rtt, &[Ecn::Ce]);
        marks += 1.0;
    }
    let rounds = 4.0_f64.ln() / (100.0 * (1.0 / 0.95_f64).ln());
    assert!((marks / 100.0 - rounds).abs() < 0.01, "{} round trips, not {rounds}", marks / 100.0);
}

#[test]
fn without_marks_growth_takes_equal_round_trips_at_any_window() {
    let (config, rtt) = (Config { gain: 0.05, ..Config::default() }, MS * 100);
    let rounds = 2.0_f64.ln() / 1.05_f64.ln();
    for window in [20.0, 2000.0] {
        let mut stable = steady(&config, rtt, window);
        let mut count = 0.0;
        while stable.packets() < 2.0 * window {
            let packets = stable.packets();
            let acks = packets as usize;
            for _ in 0..acks {
                acknowledge(&mut stable, Time::ZERO, rtt, &[Ecn::Ect0]);
            }
            count += acks as f64 / packets; // a round trip, without the fraction of a packet
        }
        assert!((count - rounds).abs() < 1.0, "{window}: {count} round trips, not {rounds}");
    }
}

/// Reports `losses` losses from `second` on, a second apart, in which ten packets would have been marked.
fn lose(stable: &mut Stable, second: u64, losses: u64) {
    for n in second..second + losses {
        let at = Time::ZERO + Duration::from_secs(n);
        stable.on_loss(at, &loss(LossKind::Transient, n * 10, n * 10));
    }
}

#[test]
fn losses_before_the_first_mark_are_reported_as_degraded() {
    let mut stable = steady(&Config::default(), MS * 100, 10.0);
    lose(&mut stable, 1, 2);
    assert_eq!(stable.degraded_reason(), None);
    lose(&mut stable, 3, 1);
    assert!(stable.degraded_reason().is_some());
    stable.on_notice(Time::ZERO, Notice::SpuriousLoss);
    assert_eq!(stable.degraded_reason(), None, "the last of them was spurious");
    let at = Time::ZERO + Duration::from_secs(4);
    stable.on_loss(at, &Loss { repeated_timeout: true, ..loss(LossKind::Persistent, 40, 40) });
    assert_eq!(stable.degraded_reason(), None, "a repeated timeout indicates a disconnected host, not the path");
    lose(&mut stable, 5, 1);
    assert!(stable.degraded_reason().is_some());
    acknowledge(&mut stable, Time::ZERO, MS * 100, &[Ecn::Ce]);
    assert_eq!(stable.degraded_reason(), None);
    lose(&mut stable, 6, 6);
    assert_eq!(stable.degraded_reason(), None);
}

#[test]
fn a_counted_mark_is_one_marked_packet() {
    let mut stable = steady(&Config::default(), MS * 100, 10.0);
    let two =
        Ack { delivered: PACKET * 2, mark_count: Some(MarkCount { marks: 0, number: 0 }), ..arrived(&[], MS * 100) };
    stable.on_ack(Time::ZERO, &two);
    assert!((stable.packets() - 10.04).abs() < 1e-12);
    stable.on_ack(Time::ZERO, &Ack { smoothed_rtt: MS * 100, ..mark(3, 20) });
    assert!((stable.packets() - 10.04 * 0.98).abs() < 1e-12);
    stable.on_ack(Time::ZERO, &two);
    assert!((stable.packets() - (10.04 * 0.98 + 0.02)).abs() < 1e-12, "of two packets one was marked");
}

#[test]
fn packets_whose_receipts_were_lost_do_not_count() {
    // Two packets are delivered. The receipts of one of them, then of both, were in lost acknowledgements.
    for (codes, window) in [(vec![Ecn::Ect0], 10.02), (vec![Ecn::Ce], 9.8), (vec![], 10.0)] {
        let mut stable = steady(&Config::default(), MS * 100, 10.0);
        let codes = arrivals(&codes);
        stable.on_ack(Time::ZERO, &Ack { delivered: PACKET * 2, ..arrived(&codes, MS * 100) });
        assert!((stable.packets() - window).abs() < 1e-12, "{}", stable.packets());
    }
}

/// Measurements of a flow on a path with a constant round-trip time that marks each packet with the same probability.
struct Measured {
    /// Packets a second.
    rate: f64,
    /// The mean of the window over acknowledged packets.
    window: f64,
    /// Its coefficient of variation.
    variation: f64,
}

/// Simulates a flow whose acknowledgements report `batch` packets each.
fn over_a_marking_path(config: &Config, rtt: Duration, p: f64, seconds: u64, batch: usize) -> Measured {
    let mut stable = steady(config, rtt, (config.sharing * (1.0 - p) / p * rtt.as_secs_f64()).max(config.min_window));
    let mut random = Random::from_seed(17);
    let mut in_transit: VecDeque<Time> = VecDeque::new();
    let (mut now, mut number, mut waiting) = (Time::ZERO, 0, Vec::new());
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0_f64);
    while now < Time::ZERO + Duration::from_secs(seconds) {
        let in_flight = PACKET * (in_transit.len() + waiting.len()) as u64;
        let fits = in_flight == Bytes::ZERO || in_flight + PACKET <= stable.window();
        let departs = if fits { stable.departure().at.max(now) } else { Time::MAX };
        let arrives = in_transit.front().map_or(Time::MAX, |&sent| sent + rtt);
        now = departs.min(arrives);
        if arrives <= departs {
            in_transit.pop_front();
            let ecn = if random.chance(p) { Ecn::Ce } else { Ecn::Ect0 };
            waiting.push(Arrival { bytes: PACKET, ecn, ..Arrival::default() });
            if waiting.len() >= batch || in_transit.is_empty() {
                for _ in 0..waiting.len() {
                    (sum, squares) = (sum + stable.packets(), squares + stable.packets().powi(2));
                    count += 1.0;
                }
                stable.on_ack(now, &arrived(&waiting, rtt));
                waiting.clear();
            }
        } else {
            in_transit.push_back(now);
            number += 1;
            stable.on_sent(now, &Sent { number, bytes: PACKET, in_flight: in_flight + PACKET });
        }
    }
    let window = sum / count;
    Measured {
        rate: number as f64 / seconds as f64,
        window,
        variation: (squares / count / window.powi(2) - 1.0).sqrt(),
    }
}

#[test]
fn under_random_marking_the_rate_is_that_of_the_response_curve() {
    // The mean over acknowledgements is S T (1 - p) / p, with a variation of sqrt(b / (2 - b) / (1 - p)). The mean over
    // time is less by the square of that.
    let config = Config::default();
    for (millis, p, seconds) in
        [(10, 0.02, 4000), (100, 0.02, 6000), (200, 0.02, 12_000), (10, 0.15, 9000), (100, 0.15, 20_000)]
    {
        let rtt = MS * millis;
        let b = steady(&config, rtt, 1.0).gains().1;
        let curve = config.sharing * (1.0 - p) / p;
        let c2 = b / (2.0 - b) / (1.0 - p);
        for batch in [1, 2] {
            let measured = over_a_marking_path(&config, rtt, p, seconds, batch);
            let case = format!("{millis} ms, p = {p}, batches of {batch}");
            let rate = measured.rate / (curve * (1.0 - c2));
            assert!((rate - 1.0).abs() < 0.03, "{case}: {rate} of the response curve");
            let window = measured.window / (curve * rtt.as_secs_f64());
            assert!((window - 1.0).abs() < 0.03, "{case}: window {window}");
            let variation = measured.variation / c2.sqrt();
            assert!((variation - 1.0).abs() < 0.1, "{case}: variation {variation}");
        }
    }
}
