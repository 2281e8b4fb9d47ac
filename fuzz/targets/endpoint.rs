//! An endpoint that accepts connections from untrusted peers, with arbitrary datagrams and application calls.
//!
//! ```text
//!   four peers that read their answers ──► packets of any content, aimed or not ──► endpoint ──► answers
//! ```
//!
//! The endpoint never panics. A peer whose address is not validated never receives more bytes than it sent. A
//! connection never accepts bytes beyond its window, and the number of connections never exceeds the limit.
#![no_main]

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use rampmeter_control::{AnyController, Registry};
use rampmeter_net::ControllerPolicy;
use rampmeter_transport::{
    Config, ConnectionId, Endpoint, EndpointConfig, Event, ReceiveBuffer, Recovery, SendBuffer, State,
};
use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Time};
use rampmeter_wire::{Kind, List, Packet, Proof, Receipt, RouterFeedback, Sack, UDP_BYTES, decode, encode};

type Factory = Arc<dyn Fn(Random) -> AnyController + Send + Sync>;

/// The controllers that clients may choose for their files, and as a server's own one that gets its rate from routers.
static CONTROLLERS: LazyLock<Vec<Factory>> = LazyLock::new(|| {
    let registry = Registry::default();
    let make_own = registry.factory("fair-share", &toml::Table::new()).expect("it is in the registry");
    let policy = ControllerPolicy::new("fair-share", make_own, &registry, Random::from_seed(1));
    let names = registry.list().filter(|(name, _)| policy.select(name).is_ok()).map(|(name, _)| name);
    names.map(|name| registry.factory(name, &toml::Table::new()).expect("it is in the registry")).collect()
});

const PEERS: u8 = 4;
const MAX_CONNECTIONS: usize = 6;
const MAX_HALF_OPEN: usize = 3;
const WINDOW: u64 = 4_000;

/// Maximum number of packets in a step: enough for any window here, few enough to detect a loop.
const MAX_PACKETS: usize = 5_000;

#[derive(Debug, Arbitrary)]
struct Story {
    controller: u8,
    recovery: u8,
    delayed_ack: bool,
    first_sequence: u32,
    steps: Vec<Step>,
}

#[derive(Debug, Arbitrary)]
enum Step {
    /// Arbitrary bytes.
    Bytes {
        from: u8,
        bytes: Vec<u8>,
    },
    /// A packet. If `aimed`, its fields are small distances from those of the last packet to the peer.
    Packet {
        from: u8,
        aimed: bool,
        ecn: u8,
        packet: Shape,
    },
    /// A correct acknowledgement of the last packet to the peer.
    Acknowledge {
        from: u8,
    },
    /// Time passes, up to a minute, with all deadlines.
    Wait {
        micros: u32,
    },
    Open {
        to: u8,
    },
    Write {
        connection: u8,
        bytes: u16,
    },
    Finish {
        connection: u8,
    },
    FinishEarly {
        connection: u8,
    },
    Abort {
        connection: u8,
    },
    Read {
        connection: u8,
    },
}

#[derive(Debug, Arbitrary)]
struct Shape {
    kind: u8,
    connection: u32,
    number: i32,
    sequence: i32,
    acknowledgement: i32,
    window: u32,
    payload: u16,
    fin: bool,
    pings: u8,
    receipts: Vec<(i32, u8, u64)>,
    sacks: Vec<(i32, i32)>,
    feedback: Option<(u64, u64)>,
    echoed_feedback: Option<(u64, u64)>,
    proof: Option<(i32, u64, u8)>,
}

/// The state of one peer.
#[derive(Debug, Default)]
struct Peer {
    received: u64,
    sent: u64,
    /// Whether its address is validated: a connection was accepted from the peer or opened to it.
    known: bool,
    /// The last packet that it received.
    last: Packet,
    /// The endpoint's number of the latest connection with it.
    connection: u32,
}

struct App {
    id: ConnectionId,
    to_send: SendBuffer,
    received: ReceiveBuffer,
    consumed: u64,
}

struct Host {
    now: Time,
    endpoint: Endpoint<AnyController, u32>,
    config: Config,
    peers: Vec<Peer>,
    apps: BTreeMap<u32, App>,
}

fuzz_target!(|story: Story| {
    let mut host = Host::new(&story);
    for step in &story.steps {
        host.step(step);
        host.collect_output();
    }
    // At the end connections without a peer time out, until there are no deadlines.
    for _ in 0..200 {
        let next = host.endpoint.deadline();
        if next == Time::MAX {
            break;
        }
        host.now = host.now.max(next);
        host.endpoint.on_deadline(host.now);
        host.collect_output();
    }
});

impl Host {
    fn new(story: &Story) -> Self {
        let factory = CONTROLLERS[usize::from(story.controller) % CONTROLLERS.len()].clone();
        let config = Config {
            recovery: [Recovery::Sack, Recovery::NewReno, Recovery::Reno][usize::from(story.recovery) % 3],
            delayed_ack: Duration::from_millis(if story.delayed_ack { 200 } else { 0 }),
            first_sequence: Some(story.first_sequence),
            max_packet: Bytes::new(1500),
            receive_window: Bytes::new(WINDOW),
            ..Config::default()
        };
        let limits = EndpointConfig {
            accept: Some(config.clone()),
            max_connections: MAX_CONNECTIONS,
            max_half_open: MAX_HALF_OPEN,
            ..EndpointConfig::default()
        };
        let mut made = 0;
        let make = move || {
            made += 1;
            factory(Random::from_seed(made))
        };
        Self {
            now: Time::from_nanos(1_000_000_000),
            endpoint: Endpoint::new(limits, make, Random::from_seed(0)),
            config,
            peers: (0..PEERS).map(|_| Peer::default()).collect(),
            apps: BTreeMap::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Bytes { from, bytes } => self.arrive(*from, bytes, Ecn::NotEct),
            Step::Packet { from, aimed, ecn, packet } => {
                let peer = &self.peers[usize::from(from % PEERS)];
                let bytes = packet.encode(aimed.then_some(peer));
                self.arrive(*from, &bytes, Ecn::from_bits(*ecn));
            }
            Step::Acknowledge { from } => {
                let bytes = self.peers[usize::from(from % PEERS)].acknowledge(self.now);
                self.arrive(*from, &bytes, Ecn::NotEct);
            }
            Step::Wait { micros } => {
                let until = self.now + Duration::from_micros(u64::from(micros % 60_000_000));
                for _ in 0..1000 {
                    let next = self.endpoint.deadline();
                    if next > until {
                        break;
                    }
                    self.now = self.now.max(next);
                    self.endpoint.on_deadline(self.now);
                    self.collect_output();
                }
                self.now = self.now.max(until);
            }
            Step::Open { to } => {
                let to = to % PEERS;
                if let Some(id) = self.endpoint.open(self.now, u32::from(to), &self.config) {
                    // The endpoint may send to peers that it connects to.
                    self.peers[usize::from(to)].known = true;
                    self.apps.insert(id.number(), App::new(id));
                }
            }
            Step::Write { connection, bytes } => {
                let now = self.now;
                let Some(app) = self.app(*connection) else { return };
                app.to_send.write(&vec![0x5a; usize::from(*bytes)]);
                let id = app.id;
                self.endpoint.write(now, id, u64::from(*bytes));
            }
            Step::Finish { connection } => self.with(*connection, Endpoint::finish),
            Step::FinishEarly { connection } => self.with(*connection, Endpoint::finish_early),
            Step::Abort { connection } => self.with(*connection, Endpoint::abort),
            Step::Read { connection } => {
                let now = self.now;
                let Some(id) = self.app(*connection).map(|app| app.id) else { return };
                let arrived = self.endpoint.connection(id).map_or(0, |connection| connection.arrived());
                let Some(app) = self.apps.get_mut(&id.number()) else { return };
                let mut bytes = Vec::new();
                let read = app.received.read(arrived, &mut bytes) as u64;
                app.consumed += read;
                self.endpoint.consume(now, id, read);
            }
        }
    }

    fn app(&mut self, index: u8) -> Option<&mut App> {
        let place = usize::from(index) % self.apps.len().max(1);
        self.apps.values_mut().nth(place)
    }

    fn with(&mut self, index: u8, act: impl FnOnce(&mut Endpoint<AnyController, u32>, Time, ConnectionId)) {
        if let Some(id) = self.app(index).map(|app| app.id) {
            act(&mut self.endpoint, self.now, id);
        }
    }

    /// A datagram arrives.
    fn arrive(&mut self, from: u8, bytes: &[u8], ecn: Ecn) {
        let from = from % PEERS;
        self.peers[usize::from(from)].received += (bytes.len() + UDP_BYTES) as u64;
        let Ok((packet, payload)) = decode(bytes) else { return };
        if let Some(data) = self.endpoint.receive(self.now, u32::from(from), &packet, ecn, self.now) {
            let id = data.connection;
            let arrived = self.endpoint.connection(id).map(|connection| connection.arrived());
            let app = self.apps.entry(id.number()).or_insert_with(|| App::new(id));
            assert!(data.len > 0 && data.skip + data.len <= payload.len());
            assert!(data.offset + data.len as u64 <= app.consumed + WINDOW, "bytes beyond the window");
            assert!(data.offset >= app.consumed, "bytes were delivered twice");
            assert!(arrived.is_none_or(|arrived| arrived <= app.consumed + WINDOW));
            app.received.store(data.offset, &payload[data.skip..data.skip + data.len]);
        }
    }

    /// Processes all events and packets.
    fn collect_output(&mut self) {
        for round in 0.. {
            assert!(round < MAX_PACKETS, "endless output");
            self.events();
            let Some(transmit) = self.endpoint.poll_transmit(self.now) else { break };
            let mut bytes = Vec::new();
            encode(&transmit.packet, &mut bytes);
            let payload = usize::from(transmit.packet.payload);
            if payload > 0 {
                let app = self.apps.get(&transmit.connection.number()).expect("the connection has an application");
                assert!(app.to_send.copy(transmit.offset, payload, &mut bytes), "sent bytes that were never written");
            }
            bytes.resize(bytes.len() + usize::from(transmit.padding), 0);
            let max = self.config.packet.max(self.config.max_packet);
            assert!((bytes.len() + UDP_BYTES) as u64 <= max.as_u64(), "the packet exceeds the limit");
            let open = self.endpoint.connection(transmit.connection).is_some_and(|c| c.state() != State::HalfOpen);
            let peer = &mut self.peers[transmit.to as usize];
            peer.known |= open;
            peer.sent += (bytes.len() + UDP_BYTES) as u64;
            if matches!(transmit.packet.kind, Kind::Syn | Kind::SynAck) {
                peer.connection = transmit.packet.number;
            }
            peer.last = transmit.packet;
            assert!(
                peer.known || peer.sent <= peer.received,
                "{} bytes for {} of an unknown peer",
                peer.sent,
                peer.received
            );
        }
        self.events();
        assert!(self.endpoint.connections() <= MAX_CONNECTIONS);
    }

    fn events(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Opened(..) | Event::Degraded(..) => {}
                Event::Accepted(id, _) => {
                    if let Some(peer) = self.endpoint.peer(id) {
                        self.peers[peer as usize].known = true;
                    }
                    self.apps.entry(id.number()).or_insert_with(|| App::new(id));
                }
                Event::Closed(id, ..) => drop(self.apps.remove(&id.number())),
            }
        }
    }
}

impl App {
    fn new(id: ConnectionId) -> Self {
        Self { id, to_send: SendBuffer::default(), received: ReceiveBuffer::default(), consumed: 0 }
    }
}

impl Peer {
    /// The answer of a correct peer to the last packet.
    fn acknowledge(&mut self, now: Time) -> Vec<u8> {
        let last = self.last;
        let mut packet = Packet {
            kind: if last.kind == Kind::Syn { Kind::SynAck } else { Kind::Data },
            connection: self.connection,
            number: if last.kind == Kind::Syn { 7 } else { 0 },
            // A `SynAck` adds the attempt number of the `Syn`.
            acknowledgement: match last.kind {
                Kind::Syn => last.sequence.wrapping_add(last.acknowledgement),
                _ => last.sequence.wrapping_add(last.sequence_len() as u32),
            },
            sequence: last.acknowledgement,
            window: 50_000,
            ..Packet::default()
        };
        if last.payload > 0 {
            packet.receipts.push(Receipt { number: last.number, ecn: Ecn::NotEct, received_at: now });
        }
        let mut bytes = Vec::new();
        encode(&packet, &mut bytes);
        bytes
    }
}

impl Shape {
    fn encode(&self, at: Option<&Peer>) -> Vec<u8> {
        let last = at.map_or(Packet::default(), |peer| peer.last);
        let near = |base: u32, distance: i32| {
            // Mostly small distances.
            let distance = if at.is_some() && distance % 8 != 0 { distance % 4096 } else { distance };
            base.wrapping_add(distance as u32)
        };
        let feedback = |told: Option<(u64, u64)>| {
            told.map_or(RouterFeedback::None, |(share, queue)| RouterFeedback::FairShare {
                share: Rate::from_bps(share),
                queue: Bytes::new(queue),
            })
        };
        let mut packet = Packet {
            kind: match self.kind {
                0..=159 => Kind::Data,
                160..=207 => Kind::Syn,
                208..=239 => Kind::SynAck,
                _ => Kind::Reset,
            },
            connection: at.map_or(self.connection, |peer| peer.connection),
            number: self.number as u32,
            sequence: near(last.acknowledgement, self.sequence),
            acknowledgement: near(last.sequence.wrapping_add(last.sequence_len() as u32), self.acknowledgement),
            window: self.window,
            payload: self.payload % 1500,
            fin: self.fin,
            ping: self.pings & 1 != 0,
            probe: self.pings & 2 != 0,
            receipts: List::default(),
            sacks: List::default(),
            feedback: feedback(self.feedback),
            echoed_feedback: feedback(self.echoed_feedback),
            proof: self.proof.map(|(number, arrived, sum)| Proof { number: near(last.number, number), arrived, sum }),
        };
        for &(number, ecn, received_at) in &self.receipts {
            packet.receipts.push(Receipt {
                number: near(last.number, number),
                ecn: Ecn::from_bits(ecn),
                received_at: Time::from_nanos(received_at >> 2),
            });
        }
        for &(start, end) in &self.sacks {
            packet.sacks.push(Sack { start: near(last.sequence, start), end: near(last.sequence, end) });
        }
        let mut bytes = Vec::new();
        encode(&packet, &mut bytes);
        bytes.resize(bytes.len() + usize::from(packet.payload), 0xa5);
        bytes
    }
}
