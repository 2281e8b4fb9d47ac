//! Two Congestion Managers and a network between them that loses, duplicates, delays and marks packets.

use proptest::prelude::*;
use rampmeter_control::Algorithm;
use rampmeter_control::cm::{Cm, Config};
use rampmeter_manager::{Agent, AgentConfig, Delivery, Destination, FlowId, Grouping, Manager, Scheduling, Sharing};
use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Streams, Time};
use rampmeter_wire::{CmHeader, CmKind, CmMessage, Count};

const PAYLOAD: usize = 1000;
const PACKET: Bytes = Bytes::new(1040);
const ONE_WAY: Duration = Duration::from_millis(50);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn manager() -> Manager<Cm> {
    Manager::new(Sharing {
        grouping: Grouping::PerDestination,
        scheduling: Scheduling::RoundRobin,
        ..Sharing::default()
    })
}

/// What the network does to packets.
#[derive(Debug, Clone, Copy, Default)]
struct Faults {
    loss: f64,
    duplication: f64,
    /// The maximum additional delay of packets.
    jitter: Duration,
    marks: f64,
}

struct Network {
    now: Time,
    faults: Faults,
    one_way: Duration,
    /// The bottleneck: its rate, the longest time that a packet may wait there, and the time at which it is free.
    link: (Rate, Duration),
    free_at: Time,
    random: Random,
    /// Sorted by time: arrival, whether to the receiver, message, payload.
    in_transit: Vec<(Time, bool, CmMessage, usize, Ecn)>,
    sender: Agent<u8>,
    manager: Manager<Cm>,
    receiver: Option<Agent<u8>>,
    /// Flows that always have something to send.
    flows: Vec<FlowId>,
    sent: u64,
    delivered: Vec<Delivery>,
    /// The times at which data was sent.
    departures: Vec<Time>,
}

impl Network {
    fn new(config: AgentConfig, faults: Faults, seed: u64) -> Self {
        let streams = Streams::new(seed);
        Self {
            now: Time::ZERO,
            faults,
            one_way: ONE_WAY,
            link: (Rate::MAX, Duration::MAX),
            free_at: Time::ZERO,
            random: streams.stream("network", 0),
            in_transit: Vec::new(),
            sender: Agent::new(config),
            manager: manager(),
            receiver: Some(Agent::new(config)),
            flows: Vec::new(),
            sent: 0,
            delivered: Vec::new(),
            departures: Vec::new(),
        }
    }

    fn open(&mut self) -> FlowId {
        let flow = self.manager.open(self.now, Destination(1), || Cm::new(&Config::default(), Random::from_seed(1)));
        self.sender.open(self.now, flow, 1, PACKET, &mut self.random, &mut self.manager);
        self.flows.push(flow);
        flow
    }

    fn put(&mut self, to_receiver: bool, message: &CmMessage, payload: usize) {
        let mut wait = Duration::ZERO;
        if to_receiver {
            let free_at = self.free_at.max(self.now);
            if free_at.since(self.now) > self.link.1 {
                return;
            }
            self.free_at = free_at + self.link.0.time_to_send(Bytes::new(payload as u64 + 40));
            wait = self.free_at.since(self.now);
        }
        let duplication = 1 + usize::from(self.random.uniform() < self.faults.duplication);
        for _ in 0..duplication {
            if self.random.uniform() >= self.faults.loss {
                let at = self.now + wait + self.one_way + self.faults.jitter.scale(self.random.uniform());
                let marked = payload > 0 && self.random.uniform() < self.faults.marks;
                let ecn = if marked { Ecn::Ce } else { Ecn::Ect0 };
                let place = self.in_transit.partition_point(|(other, ..)| *other <= at);
                self.in_transit.insert(place, (at, to_receiver, message.clone(), payload, ecn));
            }
        }
    }

    /// Runs for `span` in steps of a millisecond; data is sent while `sending`.
    fn run(&mut self, span: Duration, sending: bool) {
        let end = self.now + span;
        let mut unused = manager();
        while self.now < end {
            self.now += ms(1);
            let now = self.now;
            while self.in_transit.first().is_some_and(|(at, ..)| *at <= now) {
                let (_, to_receiver, message, payload, ecn) = self.in_transit.remove(0);
                if !to_receiver {
                    self.sender.receive(now, 1, &message, payload, ecn, &mut self.manager);
                } else if let Some(receiver) = &mut self.receiver {
                    self.delivered.extend(receiver.receive(now, 0, &message, payload, ecn, &mut unused));
                }
            }
            self.manager.on_deadline(now);
            self.sender.on_deadline(now, &mut self.manager);
            if sending {
                self.flows.clone().into_iter().for_each(|flow| self.manager.request(now, flow, false));
                while let Some(grant) = self.manager.grant(now) {
                    let header = self.sender.send(now, grant.flow, 17, PAYLOAD, &mut self.manager);
                    self.sent += 1;
                    self.departures.push(now);
                    if let Some(header) = header {
                        self.put(true, &CmMessage::Header(header), PAYLOAD);
                    }
                    self.manager.request(now, grant.flow, false);
                }
            }
            while let Some((_, message)) = self.sender.poll_transmit() {
                self.put(true, &message, 0);
            }
            while let Some((_, message)) = self.receiver.as_mut().and_then(Agent::poll_transmit) {
                self.put(false, &message, 0);
            }
        }
    }

    fn window(&self) -> u64 {
        self.manager.query(self.now, self.flows[0]).unwrap().window.as_u64() / PACKET.as_u64()
    }

    fn in_flight(&self) -> Bytes {
        self.manager.query(self.now, self.flows[0]).unwrap().in_flight
    }

    fn sent_between(&self, from: u64, to: u64) -> usize {
        self.departures.iter().filter(|at| (ms(from)..ms(to)).contains(&at.since(Time::ZERO))).count()
    }
}

#[test]
fn data_does_not_wait_for_the_handshake() {
    let mut network = Network::new(AgentConfig::default(), Faults::default(), 1);
    network.open();
    network.run(ms(99), true);
    assert!(network.sent >= 1, "data does not wait");
    assert!(network.delivered.is_empty(), "but has no header yet");
    network.run(ms(901), true);
    assert!(!network.delivered.is_empty());
    assert_eq!(network.manager.query(network.now, network.flows[0]).unwrap().min_rtt, ONE_WAY * 2);
    assert!(network.window() > 60, "slow start: {}", network.window());
}

#[test]
fn data_to_a_receiver_without_a_cm_ages_to_one_packet_a_second() {
    let mut network = Network::new(AgentConfig::default(), Faults::default(), 1);
    network.receiver = None;
    network.open();
    network.run(ms(20_000), true);
    assert!(network.delivered.is_empty());
    let last = network.sent_between(10_000, 20_000);
    assert!((8..=11).contains(&last), "a packet a second: {last}");
}

#[test]
fn the_system_may_report_that_there_is_no_cm() {
    let mut network = Network::new(AgentConfig::default(), Faults::default(), 1);
    network.receiver = None;
    network.open();
    network.run(ms(10), true);
    network.sender.on_unreachable(network.now, 1);
    let mut requests = 0;
    for _ in 0..50 {
        network.run(ms(100), true);
        requests += network.in_transit.iter().filter(|(_, to_receiver, ..)| *to_receiver).count();
    }
    assert_eq!(requests, 0);
}

#[test]
fn a_sender_restarts_after_its_receiver_has_crashed() {
    let mut network = Network::new(AgentConfig::default(), Faults::default(), 1);
    network.open();
    network.run(ms(1000), true);
    network.receiver = Some(Agent::new(AgentConfig::default()));
    let before = network.delivered.len();
    network.run(ms(2000), true);
    assert!(network.delivered.len() > before + 50);
    network.run(ms(3000), false);
    assert_eq!(network.in_flight(), Bytes::ZERO, "bytes of unknown outcome do not remain in flight");
}

#[test]
fn a_sender_is_accepted_again_after_a_crash() {
    let mut network = Network::new(AgentConfig::default(), Faults::default(), 1);
    network.open();
    network.run(ms(1000), true);
    (network.sender, network.manager) = (Agent::new(AgentConfig::default()), manager());
    network.flows.clear();
    network.in_transit.clear();
    network.open();
    let before = network.delivered.len();
    network.run(ms(1000), true);
    assert!(network.delivered.len() > before + 50);
}

#[test]
fn the_rate_ages_without_the_receiver_and_recovers_with_it() {
    let mut network = Network::new(AgentConfig::default(), Faults::default(), 1);
    network.open();
    network.run(ms(1000), true);
    network.faults.loss = 1.0;
    network.run(ms(4000), true);
    let parts = [1150, 1250, 1350, 1450].map(|from| network.sent_between(from, from + 100));
    assert!(parts.windows(2).all(|pair| pair[1] * 3 <= pair[0] * 2), "{parts:?}");
    assert!(network.sent_between(3000, 5000) <= 3);
    network.faults.loss = 0.0;
    network.run(ms(3000), true);
    assert!(network.sent_between(7000, 8000) > 50);
}

/// A bottleneck of 10 Mb/s with a queue of 100 ms, and a round trip of 20 ms without it. Returns the mean rate that a
/// flow is given and the rate that it delivers, after a minute and for another; `clocked`: it sends at the rate that it
/// is given, without requests.
fn given_and_delivered(clocked: bool) -> (f64, f64) {
    let mut network = Network::new(AgentConfig::default(), Faults::default(), 1);
    (network.one_way, network.link) = (ms(10), (Rate::from_bps(10_000_000), ms(100)));
    let flow = network.open();
    let (mut given, mut credit) = (0.0, Bytes::ZERO);
    for step in 0..120_000 {
        if step == 60_000 {
            network.delivered.clear();
            given = 0.0;
        }
        let rate = network.manager.query(network.now, flow).unwrap().rate;
        given += rate.as_bps_f64() / 60_000.0;
        credit += rate.bytes_in(ms(1));
        while clocked && credit >= PACKET {
            credit -= PACKET;
            if let Some(header) = network.sender.send(network.now, flow, 17, PAYLOAD, &mut network.manager) {
                network.put(true, &CmMessage::Header(header), PAYLOAD);
            }
        }
        network.run(ms(1), !clocked);
    }
    (given, (network.delivered.len() as u64 * PACKET.as_u64() * 8) as f64 / 60.0)
}

/// Section 4.1: the rate is the window per round trip. A packet counts as in flight for a round trip after the next
/// probe, so that at the time of a response three half round trips of packets are in flight.
#[test]
fn probes_let_a_window_pass_in_one_and_a_half_round_trips() {
    let (given, delivered) = given_and_delivered(false);
    assert!((given / delivered - 1.5).abs() < 0.1, "{given} given, {delivered} delivered");
}

/// The window then ends at the rate that the path delivers, not at the bytes that wait for feedback.
#[test]
fn a_flow_that_sends_at_the_rate_it_is_given_delivers_it() {
    let (given, delivered) = given_and_delivered(true);
    assert!((given / delivered - 1.0).abs() < 0.05, "{given} given, {delivered} delivered");
    assert!(delivered > 9e6, "{delivered} of 10 Mb/s");
}

#[test]
fn the_receivers_hints_are_the_senders_weights() {
    let mut network = Network::new(AgentConfig::default(), Faults { loss: 0.1, ..Faults::default() }, 1);
    let flows = [network.open(), network.open()];
    network.run(ms(1000), true);
    let names = flows.map(|flow| network.sender.name(flow).unwrap());
    let hints = [Count { flow: names[0], count: 1 }, Count { flow: names[1], count: 3 }];
    network.receiver.as_mut().unwrap().hint(0, &hints);
    network.run(ms(1000), true);
    network.delivered.clear();
    network.run(ms(9000), true);
    let arrived = names.map(|name| network.delivered.iter().filter(|delivery| delivery.flow == name).count() as f64);
    assert!((2.5..3.5).contains(&(arrived[1] / arrived[0])), "{arrived:?}");
}

#[test]
fn a_refused_flow_is_reported_and_others_continue() {
    let mut network = Network::new(AgentConfig::default(), Faults::default(), 1);
    let flows = [network.open(), network.open()];
    network.run(ms(1000), true);
    let flow = network.sender.name(flows[1]).unwrap();
    let sequence = network.sender.send(network.now, flows[1], 17, PAYLOAD, &mut network.manager).unwrap().sequence;
    let refused = CmHeader { kind: CmKind::Data, protocol: 17, sequence, flow };
    network.put(true, &CmMessage::Header(refused), PAYLOAD);
    network.run(ms(60), false);
    network.receiver.as_mut().unwrap().refuse(0, &CmHeader { sequence: sequence.wrapping_add(9), ..refused });
    network.run(ms(110), false);
    assert_eq!(network.sender.poll_refused(), None, "it names no packet of ours");
    network.receiver.as_mut().unwrap().refuse(0, &refused);
    network.run(ms(110), false);
    assert_eq!(network.sender.poll_refused(), Some(flows[1]));
    network.sender.close(flows[1]);
    let header = network.sender.send(network.now, flows[0], 17, PAYLOAD, &mut network.manager).unwrap();
    assert!(header.sequence.wrapping_sub(sequence) < 1000, "the sequence has not restarted");
}

#[test]
fn a_host_that_may_stall_has_a_longer_timeout() {
    let overdue_after = |timeout: Duration| {
        let mut network = Network::new(AgentConfig::default(), Faults::default(), 1);
        network.sender = Agent::with_min_timeout(AgentConfig::default(), timeout);
        network.open();
        network.run(ms(1000), true);
        network.faults.loss = 1.0;
        let rate = |network: &Network| network.manager.query(network.now, network.flows[0]).unwrap().rate;
        let before = rate(&network);
        (0..1000).find(|_| {
            network.run(ms(1), true);
            rate(&network) < before.scale(0.6)
        })
    };
    assert!(overdue_after(Duration::ZERO).unwrap() < 250);
    assert!((600..800).contains(&overdue_after(ms(600)).unwrap()));
}

#[test]
fn responses_count_however_much_the_round_trip_grows() {
    for (before, after) in [(ms(2), ms(30)), (ms(2), ms(70)), (ms(2), ms(250)), (ms(2), ms(9000)), (ms(5), ms(1000))] {
        for min_timeout in [Duration::ZERO, ms(100)] {
            let mut network = Network::new(AgentConfig::default(), Faults::default(), 1);
            network.sender = Agent::with_min_timeout(AgentConfig::default(), min_timeout);
            let flow = network.open();
            // A program with a clock of its own sends a packet each millisecond.
            let run = |network: &mut Network, span: Duration| {
                let end = network.now + span;
                while network.now < end {
                    if let Some(header) = network.sender.send(network.now, flow, 17, PAYLOAD, &mut network.manager) {
                        network.put(true, &CmMessage::Header(header), PAYLOAD);
                    }
                    network.run(ms(1), false);
                }
                network.sender.peers().next().unwrap().responses
            };
            network.one_way = before;
            run(&mut network, ms(1000));
            network.one_way = after;
            let (early, late) = (run(&mut network, after * 2), run(&mut network, after));
            assert!(late >= early + 4, "{before:?}, then {after:?}, {min_timeout:?}: {early}, {late}");
            let rtt = network.manager.query(network.now, flow).unwrap().smoothed_rtt;
            assert!(rtt >= after, "{before:?}, then {after:?}, {min_timeout:?}: {rtt:?}");
        }
    }
}

fn window_after(span: Duration, faults: Faults) -> u64 {
    let mut network = Network::new(AgentConfig::default(), faults, 1);
    network.open();
    network.run(span, true);
    network.window()
}

#[test]
fn marks_and_losses_halve_the_window_and_reordering_does_not() {
    let fine = Faults::default();
    let calm = window_after(ms(1500), fine);
    for (loss, marks) in [(0.05, 0.0), (0.0, 0.05)] {
        let window = window_after(ms(1500), Faults { loss, marks, ..fine });
        assert!(window * 10 < calm, "{loss} lost, {marks} marked: {window} of {calm} packets");
    }
    let (calm, reordered) = (window_after(ms(900), fine), window_after(ms(900), Faults { jitter: ms(2), ..fine }));
    assert!(reordered * 2 > calm, "{reordered} of {calm} packets");
}

#[test]
fn untrusted_peers_change_nothing() {
    let mut network = Network::new(AgentConfig::default(), Faults::default(), 1);
    network.open();
    network.run(ms(1000), true);
    let window = network.window();
    let kinds = [CmKind::Syn, CmKind::SynAck, CmKind::Reset, CmKind::Probe, CmKind::Data];
    let mut random = Random::from_seed(3);
    let mut unused = manager();
    for round in 0..10_000u32 {
        let sequence = random.below(1 << 32) as u32;
        let header = CmHeader { kind: kinds[round as usize % 5], protocol: 17, sequence, flow: 0 };
        let message = CmMessage::Header(header);
        network.sender.receive(network.now, 1, &message, 8, Ecn::Ce, &mut network.manager);
        network.receiver.as_mut().unwrap().receive(network.now, 0, &message, 8, Ecn::Ce, &mut unused);
        let hints = CmMessage::Hints { probe: sequence, weights: [Count { flow: 0, count: 9 }].into() };
        network.sender.receive(network.now, 1, &hints, 0, Ecn::Ce, &mut network.manager);
    }
    assert_eq!(network.window(), window);
    let mut answers = 0;
    while network.receiver.as_mut().unwrap().poll_transmit().is_some() {
        answers += 1;
    }
    assert!(answers <= 10_000);
    while network.sender.poll_transmit().is_some() {}
    let before = network.delivered.len();
    network.run(ms(500), true);
    assert!(network.delivered.len() > before + 50, "the exchange continues");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn nothing_stays_in_flight_under_any_faults(
        seed in 0u64..1000,
        loss in 0.0..0.4f64,
        duplication in 0.0..0.3f64,
        jitter in 0u64..80,
        sequenced: bool,
    ) {
        let faults = Faults { loss, duplication, jitter: ms(jitter), marks: 0.0 };
        let mut network = Network::new(AgentConfig { sequenced, ..AgentConfig::default() }, faults, seed);
        network.open();
        network.open();
        network.run(ms(5000), true);
        network.faults = Faults::default();
        network.run(ms(60_000), false);
        prop_assert_eq!(network.in_flight(), Bytes::ZERO);
    }

    #[test]
    fn no_message_panics(
        messages in prop::collection::vec((0u8..7, any::<u32>(), 0u32..5, any::<bool>()), 0..200),
    ) {
        let mut network = Network::new(AgentConfig::default(), Faults::default(), 1);
        network.open();
        network.run(ms(300), true);
        for (kind, number, flow, flag) in messages {
            let counts = vec![Count { flow, count: number }; 3];
            let header = |kind| CmMessage::Header(CmHeader { kind, protocol: 17, sequence: number, flow });
            let message = match kind {
                0 => header(CmKind::Data),
                1 => header(CmKind::Syn),
                2 => header(CmKind::SynAck),
                3 => header(CmKind::Reset),
                4 => header(CmKind::Probe),
                5 => CmMessage::Hints { probe: number, weights: counts.into() },
                _ => CmMessage::Response(Box::new(rampmeter_wire::Response {
                    this_probe: number, last_probe: number.wrapping_sub(flow), marked: flag, missed: !flag, flows: 3, counts,
                })),
            };
            network.put(flag, &message, 100);
            network.run(ms(1), true);
        }
    }
}
