//! The states of a probe: what is sent and when, and what a result changes.

use super::*;
use crate::testing::{self, PACKET, RTT};

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
fn a_timeout_halves_the_base_rate_unless_few_packets_left() {
    for (packets, factor) in [(2, 1.0), (9, 0.5)] {
        let mut world = World::established();
        let base = world.sender.base.unwrap();
        let sent = world.send(packets);
        world.lose(LossKind::Persistent, sent[0].1);
        assert_eq!(world.sender.base, Some(base.scale(factor)));
    }
}
