//! The states of a single probe: what may be sent and when, and what a result changes.

pub(super) mod reactions;

use rampmeter_units::Ecn;

use super::config::MIN_PROBE;
use super::probe::PairRate;
use super::*;
use crate::Arrival;
use crate::testing::{self, Departed, PACKET, RTT, arrived};

/// The loss of the first of ten `packet`s.
pub(super) fn loss(packet: Bytes) -> Loss {
    Loss { bytes: packet, flight_size: packet * 10, ..testing::loss(LossKind::Transient, 0, 9) }
}

/// A sender in a world without delays of hosts.
pub(super) type World = testing::World<Pcp>;

impl World {
    fn new() -> Self {
        Self::with(&Config { compete: false, ..Config::default() }, None)
    }

    /// At each of these milliseconds a packet arrives that waited for `wait` milliseconds. The path carries the base
    /// rate.
    fn arrive(&mut self, at: impl Iterator<Item = u64>, wait: u64) {
        for at in at {
            let rtt = RTT + Duration::from_millis(wait);
            let last = std::mem::replace(&mut self.now, Time::ZERO + Duration::from_millis(at));
            let delivered = self.sender.base.bytes_in(self.now.since(last)).max(PACKET);
            let received_at = self.now - RTT / 2;
            let arrivals =
                [Arrival { number: at, bytes: PACKET, sent_at: self.now - rtt, received_at, ecn: Ecn::NotEct }];
            self.sender.on_ack(self.now, &Ack { min_rtt: RTT, delivered, ..arrived(&arrivals, rtt) });
        }
    }

    /// The train that starts now, with the packet right behind it.
    pub(super) fn train(&mut self) -> Vec<Departed> {
        let mut sent = Vec::new();
        while self.sender.phase == Phase::Sending {
            sent.extend(self.send(1));
        }
        sent
    }

    /// A sender whose first probe was accepted and whose second train has not started.
    fn established() -> Self {
        let mut world = Self::new();
        let train = world.train();
        world.acknowledge(&train, Duration::ZERO);
        world
    }
}

/// Ten packets per round trip.
fn first_rate() -> Rate {
    Rate::of(PACKET * 10, RTT)
}

#[test]
fn a_flow_without_history_starts_with_ten_packets_per_rtt() {
    let mut world = World::new();
    assert_eq!(world.sender.base, first_rate());
    let train = world.train();
    assert_eq!(train.len(), 6, "a train of five and one right behind it");
    assert_eq!(train[5].0, train[4].0);
    assert!(train.iter().all(|(_, _, bytes)| *bytes == PACKET));
    let next = world.send(2);
    assert_eq!(next[1].0.since(next[0].0), Duration::from_millis(2));
}

#[test]
fn packets_of_a_fast_flow_leave_in_bunches_where_allowed() {
    for (bunch, together) in [(0, 1), (20, 2), (100, 12), (1_000_000, MAX_BUNCH)] {
        let mut world = World::new();
        let rate = Rate::from_bps(1_000_000_000);
        let sender = &mut world.sender;
        (sender.bunch, sender.base, sender.phase) = (Duration::from_micros(bunch), rate, Phase::Waiting(Time::MAX));
        sender.pacer.reset(world.now);
        let sent = world.send(4 * together as usize);
        let starts: Vec<_> = sent.chunks(together as usize).map(|bunch| bunch[0].0).collect();
        assert!(sent.chunks(together as usize).all(|bunch| bunch.iter().all(|packet| packet.0 == bunch[0].0)));
        assert!(starts.windows(2).all(|pair| pair[1].since(pair[0]) == rate.time_to_send(PACKET * together)));
    }
}

#[test]
fn an_accepted_test_rate_is_used_at_once() {
    let world = World::established();
    let base = first_rate() + Rate::of(PACKET, RTT).scale(MIN_PROBE);
    assert_eq!((world.sender.base, world.sender.phase), (base, Phase::Sending));
    assert!(world.sender.rate() > Some(base));
}

#[test]
fn the_receipt_timeout_doubles_with_unanswered_trains() {
    let mut world = World::new();
    let mut waits = Vec::new();
    for _ in 0..3 {
        let train = world.train();
        let until = world.sender.deadline();
        waits.push(until.since(train[5].0));
        world.sender.on_deadline(until - Duration::from_nanos(1));
        assert_ne!(world.sender.phase, Phase::Sending);
        world.now = until;
        world.sender.on_deadline(until);
        world.now = world.now.max(world.sender.deadline().min(until + RTT * 4));
        world.sender.on_deadline(world.now);
    }
    assert_eq!(waits, [200, 400, 800].map(Duration::from_millis));
}

#[test]
fn two_lost_packets_reject_their_train_and_one_does_not() {
    let mut world = World::established();
    let (base, train, test) = (world.sender.base, world.train(), world.sender.probe.test);
    for number in [0, train[2].1] {
        world.lose(LossKind::Transient, number);
        assert!(matches!(world.sender.phase, Phase::Listening(_)));
    }
    world.lose(LossKind::Transient, train[3].1);
    assert_eq!(world.sender.base, base);
    assert!(!matches!(world.sender.phase, Phase::Listening(_)));
    assert_eq!(world.sender.search.test(world.sender.min_test(), Rate::MAX), test.scale(0.5));
}

#[test]
fn no_probe_asks_for_less_than_a_hundredth_of_the_base_rate() {
    let mut world = World::established();
    let min_test = |base| {
        world.sender.base = Rate::from_bps(base);
        world.sender.min_test()
    };
    assert_eq!([40_000_000, 1_000_000].map(min_test), [400_000, 120_000].map(Rate::from_bps), "or 0.3 packets an RTT");
}

#[test]
fn without_feedback_the_rate_is_halved_down_to_a_minimum() {
    let mut world = World::established();
    let base = world.sender.base;
    let isolated = world.send(1)[0].1;
    world.lose(LossKind::Persistent, isolated);
    assert_eq!(world.sender.base, base, "a single loss");
    world.send(3);
    world.lose(LossKind::Persistent, isolated);
    assert_eq!(world.sender.base, base.scale(0.5));
    for _ in 0..50 {
        world.lose(LossKind::Persistent, 0);
    }
    assert_eq!(world.sender.base, Rate::of(PACKET, MAX_GAP));
}

#[test]
fn without_feedback_one_packet_leaves_for_each_timeout() {
    let mut world = World::established();
    let sent = world.send(3);
    assert!(world.sender.window() > PACKET * 3);
    for _ in 0..5 {
        world.lose(LossKind::Persistent, 0);
        assert_eq!(world.sender.window(), PACKET);
    }
    world.acknowledge(&sent[..1], Duration::ZERO);
    assert!(world.sender.window() > PACKET * 3, "feedback has arrived");
}

#[test]
fn a_train_that_the_application_ends_early_has_a_result() {
    let mut world = World::new();
    let train = world.send(3);
    world.sender.on_notice(world.now, Notice::AppLimited);
    assert!(matches!(world.sender.phase, Phase::Listening(_)));
    world.acknowledge(&train, Duration::ZERO);
    assert!(world.sender.base > first_rate());
}

#[test]
fn after_an_idle_time_the_flow_starts_with_a_third() {
    let mut world = World::established();
    let base = first_rate().scale(6.0);
    world.sender.base = base;
    world.sender.on_idle(world.now, Duration::from_millis(200), Duration::from_millis(200));
    assert_eq!(world.sender.base, base);
    world.sender.on_idle(world.now, Duration::from_millis(300), Duration::from_millis(200));
    assert_eq!(world.sender.base, base.scale(1.0 / 3.0));
}

#[test]
fn a_train_takes_longer_than_the_host_jitter() {
    let first_train = |host_jitter| {
        let history = History { host_jitter, ..History::new(Rate::from_bps(6_000_000), RTT) };
        World::with(&Config::default(), Some(history)).train().len() - 1
    };
    // 6 Mb/s in packets of 1000 bytes: one every 1.33 ms.
    assert_eq!(first_train(Duration::ZERO), 5);
    assert_eq!(first_train(Duration::from_millis(3)), 7);
    assert_eq!(first_train(Duration::from_millis(5)), 12);
}

/// `lost` of twenty packets are reported as lost, and a packet arrives one round trip later.
fn after_losses(config: &Config, lost: u64) -> (Rate, World) {
    let mut world = World::with(config, Some(History::new(Rate::from_bps(6_000_000), RTT)));
    let train = world.train();
    world.acknowledge(&train, Duration::ZERO);
    let base = world.sender.base;
    world.next += 20;
    for number in world.next - lost..world.next {
        let loss = Loss { number, last_sent: world.next - 1, flight_size: PACKET, recovering: true, ..loss(PACKET) };
        world.sender.on_loss(world.now, &loss);
    }
    world.now += RTT * 2;
    world.sender.react_to_excess_loss(world.now);
    (base, world)
}

#[test]
fn excess_loss_halves_the_rate_and_ends_the_train() {
    let (base, world) = after_losses(&Config::default(), 4);
    assert_eq!(world.sender.base, base);
    let (base, mut world) = after_losses(&Config::default(), 12);
    assert_eq!(world.sender.base, base.scale(0.5));
    assert_eq!(world.sender.phase, Phase::Waiting(world.now + RTT));
    assert_eq!(world.sender.next_test(world.now + RTT), None, "no probe on a lossy path");
    let small_step = (world.sender.base.scale(1.0 / 16.0)).max(world.sender.min_probe());
    let test = world.sender.next_test(world.sender.probe.started + RTT * 100);
    assert_eq!(test, Some(small_step), "except one in 100 round trips, by a small step after a jump that failed");
}

#[test]
fn losses_detected_by_the_timer_halve_the_rate_once() {
    let after = |flight_size| {
        let mut world = World::established();
        let base = world.sender.base;
        world.send(flight_size);
        let lost = Loss { kind: LossKind::Persistent, bytes: PACKET * 20, number: 100, last_sent: 100, ..loss(PACKET) };
        world.sender.on_loss(world.now, &lost);
        world.now += RTT * 2;
        world.sender.react_to_excess_loss(world.now);
        (world.sender.base.as_bps_f64() / base.as_bps_f64(), world.sender.excess_loss.is_lossy(0.1))
    };
    assert_eq!(after(1), (0.5, true), "because of the losses");
    assert_eq!(after(3), (0.5, true), "because there was no feedback");
}

#[test]
fn a_train_shorter_than_the_host_jitter_detects_its_queue() {
    let host_jitter = Duration::from_millis(5);
    let history = History { host_jitter, ..History::new(Rate::from_bps(300_000_000), RTT) };
    let mut world = World::with(&Config::default(), Some(history));
    let base = world.sender.base;
    let train = world.train();
    let span = train.last().unwrap().0.since(train[0].0);
    assert!(span < host_jitter, "{span}");
    // Twice the path's rate: the queue grows by the length of the train.
    world.acknowledge(&train, span / (train.len() as u64 - 1));
    assert!(world.sender.base <= base, "{} {base}", world.sender.base);
}

#[test]
fn a_train_that_a_stall_delayed_does_not_lower_the_next_test() {
    let next_test = |stalls: bool| {
        let mut world = World::with(&Config::default(), Some(History::new(Rate::from_bps(30_000_000), RTT)));
        let train = world.train();
        let test = world.sender.probe.test;
        if stalls {
            world.sender.on_notice(train[4].0, Notice::Stall { since: train[3].0 });
        }
        world.acknowledge(&train[..5], Duration::from_millis(1)); // without the pair, which would show the capacity
        world.now = world.sender.deadline();
        world.sender.on_deadline(world.now);
        world.sender.search.test(world.sender.min_test(), Rate::MAX).as_bps_f64() / test.as_bps_f64()
    };
    assert_eq!((next_test(true), next_test(false)), (1.0, 0.5));
}

/// A flow in competitive mode with a queue of 30 ms, 112 packets on a link of 30 Mb/s, up to a common drain.
fn draining() -> World {
    let mut world = World::with(&Config::default(), Some(History::new(Rate::from_bps(30_000_000), RTT)));
    world.arrive((1500..2000).step_by(5), 0);
    let window = PACKET * 60;
    world.sender.enter_competitive_mode(world.now, competitive::new_cubic(world.now, PACKET, window, RTT));
    world.arrive((2000..2500).step_by(5), 30);
    assert!(world.sender.competitive.is_on() && !world.sender.drain.is_on());
    world.arrive(2500..2501, 30);
    assert!(world.sender.drain.is_on());
    world
}

#[test]
fn a_drain_that_others_join_ends_competitive_mode() {
    let mut world = draining();
    let rate = world.sender.base;
    world.arrive(2505..2605, 4);
    assert!(!world.sender.competitive.is_on());
    assert!(world.sender.base <= rate.scale(0.7), "{} of {rate}", world.sender.base);
    let mut world = draining();
    world.arrive(2505..2605, 20);
    assert!(world.sender.competitive.is_on(), "this flow alone removed that much");
}

#[test]
fn a_flow_with_unknown_capacity_drains_as_if_it_had_it_all() {
    let mut world = World::with(&Config::default(), None);
    world.sender.enter_competitive_mode(Time::ZERO, competitive::new_cubic(Time::ZERO, PACKET, PACKET * 20, RTT));
    assert_eq!(world.sender.capacity_share(), 1.0);
    world.sender.path_history.on_pair(PairRate { rate: Rate::of(PACKET * 50, RTT), weight: 1.0 });
    assert_eq!(world.sender.capacity_share(), 0.4);
}

#[test]
fn the_state_of_a_cooperative_flow_is_the_phase_of_its_probe() {
    let mut world = World::new();
    assert_eq!(world.sender.state(), "probe_sending");
    world.train();
    assert_eq!(world.sender.state(), "probe_listening");
    (0..2).for_each(|number| world.lose(LossKind::Transient, number));
    assert_eq!(world.sender.state(), "probe_waiting");
    world.lose(LossKind::Persistent, world.next - 1);
    assert_eq!(world.sender.state(), "feedback_timeout");
}

#[test]
fn competitive_mode_follows_slow_start_and_has_drains() {
    let mut world = World::with(&Config::default(), None);
    assert_eq!(world.sender.state(), "slow_start");
    world.sender.on_loss(Time::ZERO + RTT, &loss(PACKET));
    assert_eq!(world.sender.state(), "competitive_mode");
    assert_eq!(draining().sender.state(), "drain");
}
