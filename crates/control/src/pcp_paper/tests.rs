//! The life of a probe: what leaves and when, and what a verdict changes.

use rampmeter_units::Ecn;

use super::*;
use crate::testing::{PACKET, RTT, arrived, loss, mark};

/// A sender whose packets leave as soon as they may.
struct World {
    pcp: PcpPaper,
    now: Time,
    next: u64,
}

/// When a packet left, its number and its size.
type Departed = (Time, u64, Bytes);

impl World {
    fn new() -> Self {
        Self::with(&Config::default(), None)
    }

    fn with(config: &Config, history: Option<History>) -> Self {
        let mut pcp = PcpPaper::new(config, Stream::from_seed(1));
        pcp.on_path(Time::ZERO, &Path::new(PACKET, RTT, history));
        Self { pcp, now: Time::ZERO, next: 0 }
    }

    /// A sender whose first probe was accepted. The second one is about to start.
    fn established() -> Self {
        let mut world = Self::new();
        let probe = world.send(9);
        world.acknowledge(&probe, Duration::ZERO);
        world
    }

    /// Sends at most `max` packets, or until no more may leave.
    fn send(&mut self, max: usize) -> Vec<Departed> {
        let mut departed = Vec::new();
        while departed.len() < max && self.pcp.departure().at < Time::MAX {
            let Departure { at, bytes, .. } = self.pcp.departure();
            self.now = self.now.max(at);
            departed.push((self.now, self.next, bytes));
            self.pcp.on_sent(self.now, &Sent { number: self.next, bytes, outstanding: bytes });
            self.next += 1;
        }
        departed
    }

    /// Acknowledges packets, the first a round trip after the last has left, the others as they were spaced. Each takes
    /// `growth` longer than the one before.
    fn acknowledge(&mut self, packets: &[Departed], growth: Duration) {
        let begin = self.now + RTT;
        for (i, &(sent_at, number, bytes)) in (0..).zip(packets) {
            self.now = begin + sent_at.since(packets[0].0);
            let received_at = sent_at + RTT / 2 + growth * i;
            let arrivals = &[Arrival { number, bytes, sent_at, received_at, ecn: Ecn::NotEct }];
            self.pcp.on_ack(self.now, &arrived(arrivals, RTT));
        }
    }

    fn lose(&mut self, kind: LossKind, number: u64) {
        self.pcp.on_loss(self.now, &loss(kind, number, self.next - 1));
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
    assert_eq!(world.pcp.rate(), Some(Rate::from_bps(10_000_000)));
}

#[test]
fn before_the_first_success_only_probes_leave_one_a_round_trip() {
    let mut world = World::new();
    let first = world.send(9);
    assert_eq!(world.pcp.departure().at, Time::MAX);
    world.acknowledge(&first, Duration::from_millis(1));
    assert_eq!(world.pcp.base, None);
    let second = world.send(9);
    assert_eq!(second.len(), 5);
    assert!(second[0].0 >= first[0].0 + RTT);
    assert_eq!(second[1].0.since(second[0].0), RTT / 5); // half the rate
}

#[test]
fn a_success_adds_the_test_rate_at_once() {
    let mut world = World::established();
    assert_eq!(world.pcp.base, Some(Rate::of(PACKET, RTT / 2)));
    // The next probe is on top of that and asks for twice as much.
    assert_eq!(world.pcp.rate(), Some(Rate::of(PACKET * 3, RTT / 2)));
    let probe = world.send(5);
    assert!(probe.iter().all(|(_, _, bytes)| *bytes == PACKET));
    assert_eq!(world.pcp.rate(), world.pcp.base);
}

#[test]
fn a_queue_reduces_the_base_rate() {
    let mut world = World::established();
    let probe = world.send(5);
    world.acknowledge(&probe, Duration::ZERO);
    let base = world.pcp.base.unwrap();
    let packets = world.send(20);
    world.acknowledge(&packets, Duration::from_micros(100));
    assert!(world.pcp.base.unwrap() < base.scale(0.95));
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
        let until = world.pcp.deadline();
        waits.push(until.since(probe[4].0));
        world.pcp.on_deadline(until - Duration::from_nanos(1));
        assert_eq!(world.pcp.departure().at, Time::MAX);
        world.now = until;
        world.pcp.on_deadline(until);
    }
    assert_eq!(waits, [200, 400, 800].map(Duration::from_millis));
}

#[test]
fn a_lost_probe_packet_halves_the_next_test_rate() {
    let mut world = World::established();
    let (base, test) = (world.pcp.base, world.pcp.probe.test());
    let probe = world.send(5);
    world.lose(LossKind::Transient, probe[2].1);
    assert_eq!((world.pcp.base, world.pcp.phase), (base, Phase::Waiting(probe[0].0 + RTT)));
    world.pcp.on_deadline(probe[0].0 + RTT);
    assert_eq!(world.pcp.probe.test(), test.scale(0.5));
}

#[test]
fn single_losses_and_marks_leave_the_base_rate() {
    let mut world = World::established();
    let base = world.pcp.base;
    let packets = world.send(20);
    world.lose(LossKind::Transient, packets[10].1);
    world.pcp.on_ack(world.now, &mark(packets[11].1, packets[19].1));
    assert_eq!(world.pcp.base, base);
}

#[test]
fn a_timeout_halves_the_base_rate_unless_few_packets_left() {
    for (packets, factor) in [(2, 1.0), (9, 0.5)] {
        let mut world = World::established();
        let base = world.pcp.base.unwrap();
        let sent = world.send(packets);
        world.lose(LossKind::Persistent, sent[0].1);
        assert_eq!(world.pcp.base, Some(base.scale(factor)));
    }
}

#[test]
fn after_a_silence_the_flow_probes_for_a_third_of_its_rate() {
    let mut world = World::established();
    let base = world.pcp.base.unwrap();
    world.pcp.on_idle(world.now, Duration::from_millis(50), Duration::from_millis(200));
    assert_eq!(world.pcp.base, Some(base));
    world.pcp.on_idle(world.now, Duration::from_millis(300), Duration::from_millis(200));
    assert_eq!((world.pcp.base, world.pcp.rate()), (None, Some(base.scale(1.0 / 3.0))));
}

#[test]
fn round_trips_stand_in_for_one_way_delays() {
    // Arrival times say that delays grow. All round trips are equal.
    let accepted = |round_trip| {
        let mut world = World::with(&Config { round_trip, ..Config::default() }, None);
        let probe = world.send(9);
        world.acknowledge(&probe, Duration::from_millis(1));
        world.pcp.base.is_some()
    };
    assert_eq!([false, true].map(accepted), [false, true]);
}
