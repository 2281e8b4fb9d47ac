//! The states of a probe: what is sent and when, and what a result changes.

use super::*;
use crate::testing::{self, PACKET, RTT, mark};

type World = testing::World<PcpPaper>;

impl World {
    fn new() -> Self {
        Self::with(&Config::default(), None)
    }

    /// A sender whose first probe was accepted. The second one is about to start.
    fn established() -> Self {
        let mut world = Self::new();
        let probe = world.send(9);
        world.acknowledge(&probe, Duration::ZERO);
        world
    }
}

#[test]
fn the_first_probe_is_a_packet_in_five_over_half_a_round_trip() {
    let probe = World::new().send(9);
    assert_eq!(probe.len(), 5);
    for (i, (at, _, bytes)) in (0..).zip(probe) {
        assert_eq!((at, bytes), (Time::ZERO + RTT / 10 * i, PACKET / 5));
    }
}

#[test]
fn with_history_the_first_probe_asks_for_a_third_of_it() {
    let world = World::with(&Config::default(), Some(History::new(Rate::from_bps(30_000_000), RTT)));
    assert_eq!(world.sender.rate(), Some(Rate::from_bps(10_000_000)));
}

#[test]
fn before_the_first_success_one_probe_is_sent_per_rtt() {
    let mut world = World::new();
    let first = world.send(9);
    assert_eq!(world.sender.departure().at, Time::MAX);
    world.acknowledge(&first, Duration::from_millis(1));
    assert_eq!(world.sender.base, None);
    let second = world.send(9);
    assert_eq!(second.len(), 5);
    assert!(second[0].0 >= first[0].0 + RTT);
    assert_eq!(second[1].0.since(second[0].0), RTT / 5); // half the rate
}

#[test]
fn a_success_adds_the_test_rate_at_once() {
    let mut world = World::established();
    assert_eq!(world.sender.base, Some(Rate::of(PACKET, RTT / 2)));
    // The next probe is on top of that and asks for twice as much.
    assert_eq!(world.sender.rate(), Some(Rate::of(PACKET * 3, RTT / 2)));
    world.send(5);
    assert_eq!(world.sender.rate(), world.sender.base);
}

#[test]
fn probes_have_full_packets_from_k_packets_per_rtt_on() {
    let mut world = World::established(); // two packets per round trip
    for bytes in [PACKET / 5, PACKET] {
        let probe = world.send(5);
        assert!(probe.iter().all(|sent| sent.2 == bytes), "{probe:?}");
        assert_eq!(world.sender.departure().bytes, PACKET, "base packets are full");
        world.acknowledge(&probe, Duration::ZERO); // six packets per round trip
    }
}

#[test]
fn a_queue_reduces_the_base_rate() {
    let mut world = World::established();
    let probe = world.send(5);
    world.acknowledge(&probe, Duration::ZERO);
    let base = world.sender.base.unwrap();
    let packets = world.send(20);
    world.acknowledge(&packets, Duration::from_micros(100));
    assert!(world.sender.base.unwrap() < base.scale(0.95));
}

#[test]
fn delays_of_probe_packets_show_a_queue_but_no_gap() {
    let mut world = World::with(&Config::default(), Some(History::new(Rate::from_bps(12_000_000), RTT)));
    let first = world.send(5);
    world.acknowledge(&first, Duration::ZERO);
    let (base, probe) = (world.sender.base.unwrap(), world.send(5));
    assert_eq!((base, probe[4].2), (Rate::from_bps(4_000_000), PACKET));
    world.acknowledge(&probe, Duration::from_micros(100));
    // A queue of 0.4 ms beside 10 ms; the gaps of 0.7 ms, which grow by 15%, would triple the cut.
    let left = world.sender.base.unwrap().as_bps_f64() / base.as_bps_f64();
    assert!((left - 10.0 / 10.4).abs() < 2e-3, "{left}");
}

#[test]
fn a_probe_may_take_several_round_trips() {
    let history = History::new(Rate::from_bps(120_000), RTT);
    let probe = World::with(&Config::default(), Some(history)).send(9);
    assert_eq!(probe[4].0.since(probe[0].0), RTT * 8); // 5 times 200 bytes at 40 kb/s
}

#[test]
fn an_unanswered_probe_is_rejected_and_the_wait_doubles() {
    let mut world = World::new();
    let mut waits = Vec::new();
    for _ in 0..3 {
        let probe = world.send(9);
        let until = world.sender.deadline();
        waits.push(until.since(probe[4].0));
        world.sender.on_deadline(until - Duration::from_nanos(1));
        assert_eq!(world.sender.departure().at, Time::MAX);
        world.now = until;
        world.sender.on_deadline(until);
    }
    assert_eq!(waits, [200, 400, 800].map(Duration::from_millis));
}

#[test]
fn a_lost_probe_packet_halves_the_next_test_rate() {
    let mut world = World::established();
    let (base, test) = (world.sender.base, world.sender.probe.test);
    let probe = world.send(5);
    world.lose(LossKind::Transient, probe[2].1);
    assert_eq!((world.sender.base, world.sender.phase), (base, Phase::Waiting(probe[0].0 + RTT)));
    world.sender.on_deadline(probe[0].0 + RTT);
    assert_eq!(world.sender.probe.test, test.scale(0.5));
}

#[test]
fn single_losses_and_marks_leave_the_base_rate() {
    let mut world = World::established();
    let base = world.sender.base;
    let packets = world.send(20);
    world.lose(LossKind::Transient, packets[10].1);
    world.sender.on_ack(world.now, &mark(packets[11].1, packets[19].1));
    assert_eq!(world.sender.base, base);
}

#[test]
fn a_timeout_halves_the_base_rate_unless_few_packets_left() {
    for (packets, factor) in [(2, 1.0), (9, 0.5)] {
        let mut world = World::established();
        let base = world.sender.base.unwrap();
        let sent = world.send(packets);
        world.lose(LossKind::Persistent, sent[0].1);
        assert_eq!(world.sender.base, Some(base.scale(factor)));
    }
}

#[test]
fn after_spurious_timeouts_a_flow_probes_for_a_third() {
    let mut world = World::established();
    let base = world.sender.base.unwrap();
    let sent = world.send(9);
    (0..2).for_each(|_| world.lose(LossKind::Persistent, sent[0].1));
    assert_eq!(world.sender.base, Some(base.scale(0.25)));
    world.sender.on_notice(world.now, Notice::SpuriousLoss);
    assert_eq!((world.sender.base, world.sender.rate()), (None, Some(base.scale(1.0 / 3.0))));
}

#[test]
fn after_an_idle_time_a_flow_probes_for_a_third_of_its_rate() {
    let mut world = World::established();
    let base = world.sender.base.unwrap();
    world.sender.on_idle(world.now, Duration::from_millis(200), Duration::from_millis(200));
    assert_eq!(world.sender.base, Some(base));
    world.sender.on_idle(world.now, Duration::from_millis(300), Duration::from_millis(200));
    assert_eq!((world.sender.base, world.sender.rate()), (None, Some(base.scale(1.0 / 3.0))));
}

#[test]
fn round_trips_can_replace_one_way_delays() {
    // Arrival times show growing delays. All round-trip times are equal.
    let accepted = |round_trip| {
        let mut world = World::with(&Config { round_trip, ..Config::default() }, None);
        let probe = world.send(9);
        world.acknowledge(&probe, Duration::from_millis(1));
        world.sender.base.is_some()
    };
    assert_eq!([false, true].map(accepted), [false, true]);
}

#[test]
fn the_minimum_test_rate_is_a_hundredth_or_a_packet_in_5_s() {
    let mut world = World::established();
    let min = Rate::of(PACKET, MAX_WAIT);
    for (base, min_test) in [(Rate::from_bps(40_000_000), Rate::from_bps(400_000)), (min, min)] {
        world.sender.base = Some(base);
        assert_eq!(world.sender.min_test(), min_test);
    }
    world.sender.set_base(Rate::ZERO);
    assert_eq!(world.sender.base, Some(min));
}

#[test]
fn another_packet_size_ends_a_probe() {
    let mut world = World::established();
    assert_eq!(world.sender.phase, Phase::Sending);
    world.sender.on_packet_size(world.now, PACKET * 2);
    assert_eq!((world.sender.departure().bytes, world.sender.phase), (PACKET * 2, Phase::Waiting(world.now)));
}

#[test]
fn losses_of_other_packets_do_not_end_a_probe() {
    let mut world = World::established();
    let probe = world.send(2);
    world.lose(LossKind::Transient, 0);
    assert_eq!(world.sender.phase, Phase::Sending);
    world.lose(LossKind::Transient, probe[1].1);
    assert_ne!(world.sender.phase, Phase::Sending);
}

#[test]
fn a_wrong_first_test_halves_the_trust_of_the_history() {
    for (growth, trust) in [(0, 1.0), (1000, 0.5)] {
        let mut history = Some(History::new(Rate::from_bps(30_000_000), RTT));
        let mut world = World::with(&Config::default(), history);
        for growth in [growth, 0] {
            let probe = world.send(5);
            world.acknowledge(&probe, Duration::from_micros(growth));
        }
        world.sender.remember(world.now, &mut history);
        assert_eq!(history.unwrap().trust, trust, "{growth}");
    }
}

#[test]
fn the_state_is_the_phase_of_the_probe() {
    let mut world = World::new();
    assert_eq!(world.sender.state(), "probe_sending");
    world.send(9);
    assert_eq!(world.sender.state(), "probe_listening");
    world.lose(LossKind::Transient, 0);
    assert_eq!(world.sender.state(), "probe_waiting");
}
