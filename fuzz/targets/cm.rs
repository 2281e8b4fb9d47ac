//! The Congestion Manager's protocol with untrusted peers: messages, and a host that exchanges them with such peers.
//!
//! ```text
//!   peers that read their answers ──► messages of any content, aimed or not ──► agent ──► answers
//! ```
//!
//! The agent never panics. An accepted message decodes to the same value after it is encoded again. A peer without an
//! open flow never receives more bytes than it sent. The bytes in flight of a flow never exceed the bytes that it sent.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use rampmeter_control::Algorithm;
use rampmeter_control::cm::{Cm, Config};
use rampmeter_manager::{Agent, AgentConfig, Destination, FlowId, Grouping, Manager, OwnHeader, Owner, Sharing};
use rampmeter_units::{Bytes, Duration, Ecn, Random, Time};
use rampmeter_wire::{
    CM_HEADER_BYTES, CmHeader, CmKind, CmMessage, Count, MAX_COUNTS, Response, UDP_BYTES, cm_decode, cm_encode,
    cm_encoded_len,
};

const PEERS: u8 = 4;
const MAX_FLOWS: usize = 6;
const PACKET: Bytes = Bytes::new(1500);

/// Maximum number of messages in a step: enough for all that wait, few enough to detect a loop.
const MAX_MESSAGES: usize = 10_000;

#[derive(Debug, Arbitrary)]
struct Story {
    sequenced: bool,
    /// The agent's minimum timeout in milliseconds.
    min_timeout: u8,
    steps: Vec<Step>,
}

#[derive(Debug, Arbitrary)]
enum Step {
    /// Arbitrary bytes.
    Bytes {
        from: u8,
        bytes: Vec<u8>,
    },
    /// A message. If `aimed`, its numbers are small distances from those of the last message to the peer.
    Message {
        from: u8,
        aimed: bool,
        ecn: u8,
        refuse: bool,
        shape: Shape,
    },
    /// A correct answer to the last message.
    Answer {
        from: u8,
        counted: u16,
        /// The peer knows the whole secret of a `Syn`.
        knows_secret: bool,
    },
    /// The program of a flow starts to send from a socket of its own, or has sent packets; with the right tag?
    Program {
        flow: u8,
        payload: u16,
        packets: u8,
        tag: Option<u32>,
    },
    /// Data from a program of a peer, with the right tag or with this one.
    Own {
        from: u8,
        ecn: u8,
        refuse: bool,
        tag: Option<u32>,
        shape: Shape,
    },
    /// Time passes, up to a minute, with all deadlines.
    Wait {
        micros: u32,
    },
    Open {
        to: u8,
    },
    Send {
        flow: u8,
        payload: u16,
        packets: u8,
    },
    Close {
        flow: u8,
    },
    Hint {
        to: u8,
        weights: Vec<(u32, u32)>,
    },
    Unreachable {
        to: u8,
    },
}

#[derive(Debug, Clone, Arbitrary)]
struct Shape {
    kind: u8,
    protocol: u8,
    sequence: i32,
    flow: i32,
    last: i32,
    marked: bool,
    missed: bool,
    flows: u16,
    counts: Vec<(i32, u32)>,
    payload: u16,
}

/// The state of one peer.
#[derive(Debug, Default)]
struct Peer {
    received: u64,
    sent: u64,
    /// Whether a flow was opened to the peer, so that it gets messages without a request.
    known: bool,
    last: u32,
    flow: u32,
    request: Option<CmHeader>,
    /// The last `Syn` that it sent.
    syn: Option<CmHeader>,
}

struct Flow {
    id: FlowId,
    to: u8,
    sent: u64,
}

struct Host {
    now: Time,
    agent: Agent<u8>,
    manager: Manager<Cm>,
    random: Random,
    flows: Vec<Flow>,
    peers: Vec<Peer>,
}

fuzz_target!(|story: Story| {
    let config = AgentConfig { sequenced: story.sequenced, ..AgentConfig::default() };
    let mut host = Host {
        now: Time::from_nanos(1_000_000_000),
        agent: Agent::with_min_timeout(config, Duration::from_millis(story.min_timeout.into())),
        manager: Manager::new(Sharing { grouping: Grouping::PerDestination, ..Sharing::default() }),
        random: Random::from_seed(0),
        flows: Vec::new(),
        peers: (0..PEERS).map(|_| Peer::default()).collect(),
    };
    for step in &story.steps {
        host.step(step);
        host.collect_output();
    }
});

impl Host {
    fn step(&mut self, step: &Step) {
        let now = self.now;
        match step {
            Step::Bytes { from, bytes } => self.arrive(from % PEERS, bytes, Ecn::NotEct, false),
            Step::Message { from, aimed, ecn, refuse, shape } => {
                let from = from % PEERS;
                let bytes = shape.encode(aimed.then_some(&self.peers[usize::from(from)]));
                self.arrive(from, &bytes, Ecn::from_bits(*ecn), *refuse);
            }
            Step::Answer { from, counted, knows_secret } => self.answer(from % PEERS, *counted, *knows_secret),
            Step::Program { flow, payload, packets, tag } => {
                let Some(place) = usize::from(*flow).checked_rem(self.flows.len()) else { return };
                let flow = &mut self.flows[place];
                self.agent.use_own_socket(flow.id, Owner(u32::from(flow.to % 2)));
                let header = self.agent.own_header(flow.id);
                if let Some(header) = header {
                    let peer = &mut self.peers[usize::from(flow.to)];
                    (peer.last, peer.flow) = (header.first, header.flow);
                }
                let tag = tag.or(header.map(|header| header.tag));
                for _ in 0..*packets {
                    let whole = self.agent.sent_by_program(now, flow.id, usize::from(*payload), tag);
                    let whole = whole.expect("the flow is open");
                    self.manager.notify(now, flow.id, whole);
                    flow.sent += whole.as_u64();
                }
            }
            Step::Own { from, ecn, refuse, tag, shape } => {
                let from = from % PEERS;
                let bytes = Shape { kind: 0, ..shape.clone() }.encode(Some(&self.peers[usize::from(from)]));
                let peer = &mut self.peers[usize::from(from)];
                peer.sent += (bytes.len() + UDP_BYTES) as u64;
                let Ok((CmMessage::Header(header), payload)) = cm_decode(&bytes) else { return };
                let ecn = Ecn::from_bits(*ecn);
                let right = peer.syn.map(|syn| OwnHeader::new(&syn, header.flow).tag);
                let tag = tag.or(right).unwrap_or_default();
                let delivery = self.agent.receive_own(now, from, &header, tag, payload.len(), ecn);
                if let Some(delivery) = delivery {
                    assert_eq!(delivery.flow, header.flow);
                    if *refuse {
                        self.agent.refuse(from, &header);
                    }
                }
            }
            Step::Wait { micros } => {
                let until = now + Duration::from_micros(u64::from(micros % 60_000_000));
                for _ in 0..1000 {
                    let next = self.agent.deadline().min(self.manager.deadline());
                    if next > until {
                        break;
                    }
                    self.now = self.now.max(next);
                    self.manager.on_deadline(self.now);
                    self.agent.on_deadline(self.now, &mut self.manager);
                    self.collect_output();
                }
                self.now = self.now.max(until);
            }
            Step::Open { to } if self.flows.len() < MAX_FLOWS => {
                let to = to % PEERS;
                let make = || Cm::new(&Config::default(), Random::from_seed(1));
                let id = self.manager.open(now, Destination(to.into()), make);
                self.agent.open(now, id, to, PACKET, &mut self.random, &mut self.manager);
                self.peers[usize::from(to)].known = true;
                self.flows.push(Flow { id, to, sent: 0 });
            }
            Step::Open { .. } => {}
            Step::Send { flow, payload, packets } => {
                let Some(place) = usize::from(*flow).checked_rem(self.flows.len()) else { return };
                let flow = &mut self.flows[place];
                for _ in 0..*packets {
                    let header = self.agent.send(now, flow.id, 17, usize::from(*payload), &mut self.manager);
                    flow.sent += (usize::from(*payload) + UDP_BYTES + CM_HEADER_BYTES) as u64;
                    if let Some(header) = header {
                        let peer = &mut self.peers[usize::from(flow.to)];
                        (peer.last, peer.flow) = (header.sequence, header.flow);
                    }
                }
            }
            Step::Close { flow } => {
                if let Some(place) = usize::from(*flow).checked_rem(self.flows.len()) {
                    let closed = self.flows.swap_remove(place);
                    self.agent.close(closed.id);
                    self.manager.close(now, closed.id);
                }
            }
            Step::Hint { to, weights } => {
                let weights: Vec<Count> = weights.iter().map(|&(flow, count)| Count { flow, count }).collect();
                self.agent.hint(to % PEERS, &weights);
            }
            Step::Unreachable { to } => self.agent.on_unreachable(now, to % PEERS),
        }
    }

    /// The answer of a correct peer.
    fn answer(&mut self, from: u8, counted: u16, knows_secret: bool) {
        let peer = &self.peers[usize::from(from)];
        let Some(request) = peer.request else { return };
        let message = match request.kind {
            CmKind::Probe => CmMessage::Response(Box::new(Response {
                this_probe: request.sequence,
                last_probe: request.sequence.wrapping_sub(1),
                flows: 1,
                counts: vec![Count { flow: peer.flow, count: counted.into() }],
                ..Response::default()
            })),
            _ => {
                let flow = if knows_secret { request.flow } else { 0 };
                CmMessage::Header(CmHeader { flow, ..CmHeader::control(CmKind::SynAck, request.sequence) })
            }
        };
        let mut bytes = Vec::new();
        cm_encode(&message, &mut bytes);
        self.arrive(from, &bytes, Ecn::NotEct, false);
    }

    /// A datagram arrives.
    fn arrive(&mut self, from: u8, bytes: &[u8], ecn: Ecn, refuse: bool) {
        self.peers[usize::from(from)].sent += (bytes.len() + UDP_BYTES) as u64;
        let Ok((message, payload)) = cm_decode(bytes) else { return };
        let mut again = Vec::new();
        cm_encode(&message, &mut again);
        assert_eq!(again.len(), cm_encoded_len(&message));
        again.extend(payload);
        assert_eq!(cm_decode(&again), Ok((message.clone(), payload)), "the encoded message decodes to another value");
        if let CmMessage::Header(syn @ CmHeader { kind: CmKind::Syn, .. }) = &message {
            self.peers[usize::from(from)].syn = Some(*syn);
        }
        let delivery = self.agent.receive(self.now, from, &message, payload.len(), ecn, &mut self.manager);
        if let (Some(delivery), CmMessage::Header(header)) = (delivery, &message) {
            assert_eq!((delivery.flow, header.kind), (header.flow, CmKind::Data));
            if refuse {
                self.agent.refuse(from, header);
            }
        }
        while let Some(refused) = self.agent.poll_refused() {
            assert!(
                self.flows.iter().any(|flow| flow.id == refused && flow.to == from),
                "a flow of another peer was refused"
            );
        }
    }

    /// Collects all messages to send.
    fn collect_output(&mut self) {
        for count in 0.. {
            assert!(count < MAX_MESSAGES, "endless changes");
            let Some(changed) = self.agent.poll_changed() else { break };
            assert!(self.flows.iter().any(|flow| flow.id == changed), "a closed flow has changed");
        }
        for count in 0.. {
            assert!(count < MAX_MESSAGES, "endless output");
            let Some((to, message)) = self.agent.poll_transmit() else { break };
            let peer = &mut self.peers[usize::from(to)];
            peer.received += (cm_encoded_len(&message) + UDP_BYTES) as u64;
            if let CmMessage::Header(header) = &message {
                peer.last = header.sequence;
                peer.request = Some(*header).filter(|header| matches!(header.kind, CmKind::Syn | CmKind::Probe));
            }
            assert!(
                peer.known || peer.received <= peer.sent,
                "{} bytes for {} of an unknown peer",
                peer.received,
                peer.sent
            );
        }
        for flow in &self.flows {
            assert!(self.manager.in_flight(flow.id).as_u64() <= flow.sent);
        }
    }
}

impl Shape {
    fn encode(&self, at: Option<&Peer>) -> Vec<u8> {
        let near = |base: Option<u32>, distance: i32| {
            // Mostly small distances.
            base.map_or(distance as u32, |base| base.wrapping_add((distance % 512) as u32))
        };
        let sequence = near(at.map(|peer| peer.last), self.sequence);
        let count = |&(flow, count): &(i32, u32)| Count { flow: near(at.map(|peer| peer.flow), flow), count };
        let counts: Vec<Count> = self.counts.iter().take(MAX_COUNTS).map(count).collect();
        let kinds = [CmKind::Data, CmKind::Syn, CmKind::SynAck, CmKind::Reset, CmKind::Probe];
        let message = match self.kind % 8 {
            5 => CmMessage::Response(Box::new(Response {
                this_probe: sequence,
                last_probe: near(Some(sequence), self.last),
                marked: self.marked,
                missed: self.missed,
                flows: self.flows.max(counts.len() as u16),
                counts,
            })),
            6 => CmMessage::Hints { probe: sequence, weights: counts.into() },
            kind => CmMessage::Header(CmHeader {
                kind: kinds[usize::from(kind % 5)],
                protocol: self.protocol,
                sequence,
                flow: near(at.map(|peer| peer.flow), self.flow),
            }),
        };
        let mut bytes = Vec::new();
        cm_encode(&message, &mut bytes);
        if matches!(message, CmMessage::Header(CmHeader { kind: CmKind::Data, .. })) {
            bytes.resize(bytes.len() + usize::from(self.payload % 1500), 0xa5);
        }
        bytes
    }
}
