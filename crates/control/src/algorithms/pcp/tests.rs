use super::drain::Outcome;
use super::pace::MAX_PACE;
use super::*;
use crate::testing::link::Link;
use crate::testing::{PACKET, loss};

const RTT: Duration = Duration::from_millis(50);

fn link(megabits: u64, buffer: f64) -> Link<Pcp> {
    Link::new(&Config::default(), Rate::from_bps(megabits * 1_000_000), RTT, buffer)
}

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// A flow on a path of 40 Mb/s and 50 ms, 250 packets, whose handshake waited for `wait`.
fn with_history(wait: Duration, change: impl FnOnce(&mut History)) -> Pcp {
    let rate = Rate::from_bps(40_000_000);
    let mut history = History { capacity: rate, ..History::new(rate, RTT) };
    change(&mut history);
    let mut pcp = Pcp::new(&Config::default(), Random::from_seed(1));
    pcp.on_path(Time::ZERO, &Path::new(PACKET, RTT + wait, Some(history)));
    pcp
}

#[test]
fn one_flow_fills_the_link_with_a_short_queue() {
    for (megabits, buffer) in [(8, 4.0), (40, 1.0), (40, 0.2), (400, 1.0)] {
        let mut flow = link(megabits, buffer);
        flow.run(Duration::from_secs(10));
        let lost = flow.lost;
        let share = flow.utilization(Duration::from_secs(10));
        assert!(share > 0.94, "{share} at {megabits} Mb/s");
        assert_eq!(flow.lost, lost, "{megabits} Mb/s");
        let queue = flow.rate.bytes_in(Duration::from_secs_f64(flow.sender.delays.last_wait));
        assert!(queue <= PACKET * 4, "{queue} at {megabits} Mb/s");
    }
}

#[test]
fn pairs_show_the_capacity() {
    let mut flow = link(40, 1.0);
    flow.run(Duration::from_secs(1));
    let capacity = flow.sender.capacity.by_pairs().unwrap();
    assert!((capacity - 5000.0).abs() < 1.0, "{capacity} packets a second");
}

#[test]
fn a_flow_uses_capacity_that_returns_within_round_trips() {
    let mut flow = link(40, 1.0);
    flow.run(Duration::from_secs(10));
    flow.set_rate(0.25);
    flow.run(Duration::from_secs(2));
    flow.set_rate(4.0);
    flow.run(RTT * 8);
    let share = flow.utilization(RTT * 8);
    assert!(share > 0.8, "{share}");
}

#[test]
fn the_handshake_sets_the_first_window() {
    assert_eq!(with_history(Duration::ZERO, |_| {}).window, 250.0 / 3.0, "an idle path");
    // One e-fold of the share for each seven packets of 0.2 ms.
    for (packets, window) in [(29.0, 4.58), (22.0, 12.4), (15.0, 33.8), (60.0, 2.0)] {
        let pcp = with_history(Duration::from_secs_f64(packets * 0.2e-3), |_| {});
        assert!((pcp.window - window).abs() < 0.1, "{packets} packets: {}", pcp.window);
    }
    let unknown = link(40, 1.0);
    assert_eq!(unknown.sender.window, 10.0);
}

#[test]
fn a_rigged_history_replaces_the_real_one_on_an_idle_path() {
    let config = Config { rigged: Some(Rate::from_bps(400_000_000)), ..Config::default() };
    let mut pcp = Pcp::new(&config, Random::from_seed(1));
    let history = History { capacity: Rate::from_bps(40_000_000), ..History::new(Rate::from_bps(40_000_000), RTT / 2) };
    for history in [None, Some(history)] {
        pcp.on_path(Time::ZERO, &Path::new(PACKET, RTT, history));
        assert_eq!(pcp.window, 2500.0 * start::FIRST_SHARE, "a third of the rate");
    }
}

#[test]
fn known_competing_traffic_starts_competitive_mode() {
    let competing = |history: &mut History| {
        history.competing_traffic = 1.0;
        history.competitive_rate = Rate::from_bps(8_000_000);
    };
    let pcp = with_history(Duration::from_millis(30), competing);
    assert_eq!((pcp.state(), pcp.window.round()), ("competitive_mode", 80.0));
    assert_eq!(with_history(Duration::ZERO, competing).state(), "running", "it is not there now");
    let long = with_history(Duration::from_millis(100), |_| {});
    assert_eq!(long.state(), "competitive_mode", "no PCP flows keep a queue of 500 packets");
    let doubted = with_history(Duration::from_millis(10), |history| history.competing_traffic = 0.5);
    assert_eq!(doubted.state(), "running", "one transfer may have been wrong");
}

#[test]
fn few_losses_change_nothing_and_many_limit_the_window() {
    let mut pcp = with_history(Duration::ZERO, |_| {});
    let window = pcp.window;
    pcp.capacity.on_round(1000.0, false);
    pcp.capacity.on_round(900.0, false);
    for number in 1..7 {
        pcp.on_loss(at(100), &loss(LossKind::Transient, number, 10));
    }
    assert_eq!(pcp.window, window);
    for number in 7..10 {
        pcp.on_loss(at(100), &loss(LossKind::Transient, number, 10));
    }
    let limit = 1000.0 * RTT.as_secs_f64();
    assert!((pcp.window - limit).abs() < 1e-9, "what arrives in a round trip: {}", pcp.window);
    pcp.on_notice(at(110), Notice::SpuriousLoss);
    assert_eq!((pcp.window, pcp.losses.limit(at(110), pcp.config.drain_every)), (window, f64::INFINITY));
}

#[test]
fn without_feedback_single_packets_leave() {
    let mut pcp = with_history(Duration::ZERO, |_| {});
    for number in 0..10 {
        pcp.on_sent(at(1), &Sent { number, bytes: PACKET, in_flight: PACKET });
    }
    pcp.on_loss(at(1000), &loss(LossKind::Persistent, 9, 9));
    assert_eq!((pcp.state(), Controller::window(&pcp)), ("feedback_timeout", PACKET));
    pcp.on_notice(at(1100), Notice::SpuriousLoss);
    pcp.on_ack(at(1100), &crate::testing::ack(1));
    assert_eq!(pcp.window, 250.0 / 3.0, "the path was blocked, and is as before");
}

#[test]
fn a_transfer_leaves_what_it_measured() {
    let mut flow = link(40, 1.0);
    flow.run(Duration::from_secs(5));
    let mut history = None;
    flow.sender.remember(flow.now, &mut history);
    let history = history.unwrap();
    assert!((history.capacity.as_bps_f64() / 40e6 - 1.0).abs() < 0.01, "{history:?}");
    assert!(history.min_rtt >= RTT && history.min_rtt < RTT + Duration::from_millis(1), "{history:?}");
    assert_eq!(history.competing_traffic, 0.0);
}

#[test]
fn two_transfers_beside_competing_traffic_are_certain() {
    let verdict = |before: f64, evidence: f64| {
        let mut pcp = with_history(Duration::ZERO, |history| history.competing_traffic = before);
        pcp.evidence = evidence;
        pcp.history().unwrap().competing_traffic
    };
    let first = verdict(0.0, -competitive::CLEAR);
    assert!(first <= start::SURE && verdict(first, -competitive::CLEAR) > start::SURE);
    assert_eq!((verdict(1.0, 0.0), verdict(1.0, competitive::CLEAR)), (1.0, 0.0));
}

/// What a drain of a queue of 20 ms shows.
fn outcome(others: f64, share: f64, lowest: f64) -> Outcome {
    Outcome { others, share, before: 0.02, lowest, is_floor: false }
}

#[test]
fn drains_decide_on_competitive_mode() {
    let after = |pcp: &mut Pcp, outcome: Outcome| {
        let estimate = pcp.estimate().unwrap();
        pcp.learn(at(2700), &outcome, &estimate);
        pcp.cubic.is_some()
    };
    let mut pcp = with_history(Duration::ZERO, |_| {});
    assert!(!after(&mut pcp, outcome(0.35, 0.1, 0.01)), "undecided");
    assert!(!after(&mut pcp, outcome(0.0, 0.1, 0.0005)), "the queue is short");
    assert!(!after(&mut pcp, outcome(0.0, 0.95, 0.01)), "it has the link");
    assert!(!after(&mut pcp, outcome(0.0, 0.1, 0.018)), "one drain does not outweigh the one before");
    assert!(after(&mut pcp, outcome(0.0, 0.1, 0.018)));
    assert!(after(&mut pcp, outcome(0.45, 0.1, 0.01)), "undecided");
    assert!(after(&mut pcp, outcome(0.9, 0.1, 0.004)), "one drain does not end it");
    assert!(!after(&mut pcp, outcome(0.9, 0.1, 0.004)));
    assert!(after(&mut pcp, outcome(0.0, 0.1, 0.018)), "evidence begins anew");
    assert!(!after(&mut pcp, outcome(0.0, 0.95, 0.018)), "nobody else is left");
}

#[test]
fn moments_without_a_queue_end_competitive_mode() {
    let mut pcp = with_history(Duration::ZERO, |_| {});
    pcp.compete(at(1000), 50.0);
    pcp.evidence = -competitive::CLEAR;
    for (moment, competes) in [(2400, true), (2500, true), (5000, false)] {
        pcp.busy_since = at(moment);
        pcp.drain(at(moment));
        assert_eq!(pcp.cubic.is_some(), competes, "{moment} ms");
    }
}

#[test]
fn where_the_path_varies_one_drain_decides_nothing() {
    let mut pcp = with_history(Duration::ZERO, |_| {});
    let estimate = Estimate { trust: 0.1, ..pcp.estimate().unwrap() };
    let first = (1..10).find(|_| {
        pcp.learn(at(2700), &outcome(0.0, 0.1, 0.018), &estimate);
        pcp.cubic.is_some()
    });
    assert_eq!(first, Some(4));
}

#[test]
fn a_drain_of_others_moves_a_window_to_its_share() {
    // The queue of ten flows, in packets of 0.2 ms.
    let packets = 1.0 + 7.0 * libm::log(10.0);
    let before = packets * 0.2e-3;
    let after = |window: f64, others: f64| {
        let mut pcp = with_history(Duration::ZERO, |_| {});
        pcp.set_window(window);
        let estimate = pcp.estimate().unwrap();
        pcp.learn(at(2700), &Outcome { before, ..outcome(others, window / 250.0, 0.0) }, &estimate);
        pcp.window
    };
    for window in [1.0_f64, 5.0, 100.0] {
        let moved = window * (25.0 / window).min(8.0).powf(0.25);
        assert!((after(window, 0.9) - moved).abs() < 1e-6, "{window} packets: {}", after(window, 0.9));
        assert_eq!(after(window, 0.2), window, "a queue of competing traffic shows no share");
    }
    assert_eq!(after(240.0, 0.9), 240.0, "it is alone");
}

#[test]
fn a_longer_path_is_found_by_its_drains() {
    let mut pcp = with_history(Duration::ZERO, |_| {});
    pcp.rtt = 0.09;
    pcp.delays.wait_of(1_000_000, 0.0);
    let estimate = pcp.estimate().unwrap();
    pcp.learn(at(2700), &Outcome { is_floor: true, ..outcome(0.5, 0.1, 0.015) }, &estimate);
    assert!((pcp.min_rtt - 0.05).abs() < 1e-9, "half of the others' traffic is not clear evidence");
    pcp.learn(at(2700), &Outcome { is_floor: true, ..outcome(0.9, 0.1, 0.015) }, &estimate);
    assert!((pcp.min_rtt - 0.065).abs() < 1e-9, "{}", pcp.min_rtt);
    assert_eq!(pcp.delays.wait_of(17_000_000, 0.0), 0.001);
    assert!((pcp.window - 250.0 / 3.0).abs() < 1e-9, "the queue was no queue: {}", pcp.window);
}

#[test]
fn a_clear_drain_ends_the_memory_of_competing_traffic() {
    let mut pcp = with_history(Duration::from_millis(30), |history| history.competing_traffic = 1.0);
    assert!(pcp.cubic.is_some());
    let estimate = pcp.estimate().unwrap();
    pcp.learn(at(2700), &outcome(0.9, 0.1, 0.004), &estimate);
    assert!(pcp.cubic.is_none() && pcp.history().unwrap().competing_traffic == 0.0);
}

#[test]
fn many_packets_without_receipts_take_no_memory() {
    let mut pcp = with_history(Duration::ZERO, |_| {});
    for number in 0..100_000 {
        pcp.set_window(if number % 2 == 0 { 10.0 } else { 20.0 });
        pcp.on_sent(at(number), &Sent { number, bytes: PACKET, in_flight: PACKET });
    }
    assert_eq!(pcp.sent_with.len(), MAX_WINDOWS);
}

#[test]
fn after_idle_time_a_third_of_the_capacity_is_left() {
    let mut pcp = with_history(Duration::ZERO, |_| {});
    pcp.set_window(250.0);
    pcp.on_idle(at(900), Duration::from_millis(500), Duration::from_secs(1));
    assert_eq!(pcp.window, 250.0);
    pcp.on_idle(at(9000), Duration::from_secs(5), Duration::from_secs(1));
    assert!((pcp.window - 250.0 / 3.0).abs() < 1e-9, "{}", pcp.window);
}

#[test]
fn larger_packets_keep_what_is_known() {
    let mut pcp = with_history(Duration::ZERO, |_| {});
    let bytes = Controller::window(&pcp);
    assert_eq!(pcp.delays.wait_of(20_000_000, 0.0), 0.0);
    pcp.on_packet_size(at(100), PACKET * 4);
    assert!(bytes.as_u64().abs_diff(Controller::window(&pcp).as_u64()) <= 4, "{}", Controller::window(&pcp));
    assert_eq!(pcp.estimate().unwrap().by_pairs, 1250.0);
    let wait = pcp.delays.wait_of(20_600_000, 0.0);
    assert!(wait < 1e-6, "it takes 0.8 ms instead of 0.2: {wait}");
    assert!((pcp.min_rtt - 0.0506).abs() < 1e-6, "{}", pcp.min_rtt);
}

fn sent(pcp: &mut Pcp, number: u64, bytes: Bytes) {
    pcp.on_sent(at(1), &Sent { number, bytes, in_flight: bytes });
}

/// A packet that left after a millisecond arrives after so many microseconds in transit.
fn arrives(pcp: &mut Pcp, number: u64, bytes: Bytes, micros: u64) {
    let received_at = at(1) + Duration::from_micros(micros);
    let arrival = Arrival { number, bytes, sent_at: at(1), received_at, ..Arrival::default() };
    pcp.on_ack(at(51), &crate::testing::arrived(&[arrival], RTT));
}

#[test]
fn a_short_packet_is_of_no_train_and_counts_as_a_full_one() {
    let (mut pcp, short) = (with_history(Duration::ZERO, |_| {}), Bytes::new(200));
    sent(&mut pcp, 0, short);
    assert_eq!((pcp.train, pcp.train_due), (None, true));
    sent(&mut pcp, 1, PACKET);
    assert_eq!(pcp.train, Some((1, 4)));
    // A full packet takes 0.2 ms on the link.
    arrives(&mut pcp, 0, short, 25_040);
    arrives(&mut pcp, 1, PACKET, 25_200);
    assert!(pcp.delays.last_wait < 1e-6, "{}", pcp.delays.last_wait);
}

#[test]
fn the_first_round_trip_measures_no_rate() {
    for bytes in [PACKET, Bytes::new(200)] {
        let mut pcp = Pcp::new(&Config::default(), Random::from_seed(1));
        pcp.on_path(Time::ZERO, &Path::new(PACKET, RTT, None));
        for number in 0..2 {
            sent(&mut pcp, 2 * number, bytes);
            arrives(&mut pcp, 2 * number, bytes, 25_000);
            assert_eq!(pcp.estimate().is_some(), number > 0, "{bytes}");
        }
    }
}

#[test]
fn transfers_of_one_round_trip_keep_the_history() {
    let mut known = with_history(Duration::ZERO, |_| {}).past;
    for _ in 0..3 {
        let mut pcp = Pcp::new(&Config::default(), Random::from_seed(1));
        pcp.on_path(Time::ZERO, &Path::new(PACKET, RTT, known));
        sent(&mut pcp, 0, PACKET);
        arrives(&mut pcp, 0, PACKET, 25_000);
        pcp.remember(at(60), &mut known);
        let capacity = known.map_or(Rate::ZERO, |known| known.capacity);
        assert!((capacity.as_bps_f64() / 40e6 - 1.0).abs() < 1e-6, "{capacity}");
    }
    let mut pcp = Pcp::new(&Config::default(), Random::from_seed(1));
    pcp.on_path(Time::ZERO, &Path::new(PACKET, RTT, None));
    (0..2).for_each(|number| sent(&mut pcp, number, PACKET));
    (0..2).for_each(|number| arrives(&mut pcp, number, PACKET, 25_000 + 200 * number));
    assert!(pcp.history().is_none(), "a receiver alone says what the pair shows");
}

#[test]
fn many_losses_in_the_first_round_trip_halve_the_window() {
    let mut pcp = Pcp::new(&Config::default(), Random::from_seed(1));
    pcp.on_path(Time::ZERO, &Path::new(PACKET, RTT, None));
    for number in 0..9 {
        pcp.on_loss(at(60), &loss(LossKind::Transient, number, 10));
    }
    assert_eq!(pcp.window, 5.0);
}

#[test]
fn only_a_long_stall_discards_measurements() {
    let mut pcp = with_history(Duration::ZERO, |_| {});
    sent(&mut pcp, 5, PACKET);
    for (ms, counts_from) in [(12, 0), (13, 6)] {
        pcp.on_notice(at(100), Notice::Stall { since: at(100 - ms) });
        assert_eq!(pcp.counts_from, counts_from, "{ms} ms, a quarter of 50");
    }
}

/// The packets of the first train, which left at 1 ms but for the last one, and arrived at these microseconds.
fn train(pcp: &mut Pcp, last_left: u64, arrived: [u64; 4]) {
    let micros = |micros| Time::ZERO + Duration::from_micros(micros);
    let arrivals = [0, 1, 2, 3].map(|number| {
        pcp.on_sent(at(1), &Sent { number, bytes: PACKET, in_flight: PACKET });
        let sent_at = micros(if number == 3 { last_left } else { 1000 });
        Arrival { number, bytes: PACKET, sent_at, received_at: micros(arrived[number as usize]), ..Arrival::default() }
    });
    pcp.on_ack(at(61), &crate::testing::arrived(&arrivals, RTT));
}

#[test]
fn the_last_packets_of_a_train_are_a_pair_if_they_left_together() {
    for (left, arrived, pairs, wait) in [(1000, 26_120, 10_000.0, 0.0), (6000, 36_000, 5000.0, 0.005)] {
        let mut pcp = with_history(Duration::ZERO, |_| {}); // its capacity is 5000 packets a second
        train(&mut pcp, left, [26_000, 26_010, 26_020, arrived]);
        assert!((pcp.capacity.by_pairs().unwrap() - pairs).abs() < 1.0, "{:?}", pcp.capacity.by_pairs());
        assert!((pcp.delays.last_wait - wait).abs() < 1e-9, "{}", pcp.delays.last_wait);
    }
}

#[test]
fn pairs_that_arrive_together_show_a_limited_rate() {
    let mut pcp = with_history(Duration::ZERO, |_| {});
    train(&mut pcp, 1000, [26_000; 4]);
    assert_eq!(pcp.capacity.by_pairs(), Some(MAX_PACE / 8000.0));
}

#[test]
fn slow_start_loses_nothing_in_a_short_buffer() {
    for megabits in [10, 40, 100] {
        let mut flow = link(megabits, 0.3);
        flow.run(Duration::from_secs(1));
        assert_eq!((flow.lost, flow.sender.in_slow_start), (Bytes::ZERO, false), "{megabits} Mb/s");
        let share = flow.utilization(Duration::from_secs(1));
        assert!(share > 0.94, "{share} at {megabits} Mb/s");
    }
}

#[test]
fn slow_start_goes_on_while_no_pair_is_known() {
    let config = Config { first_window: 1.0, ..Config::default() };
    let mut flow = Link::<Pcp>::new(&config, Rate::from_bps(40_000_000), RTT, 1.0);
    flow.run(RTT * 12); // 250 packets are eight doublings
    let share = flow.utilization(RTT * 4);
    assert!(share > 0.9, "{share}");
}
