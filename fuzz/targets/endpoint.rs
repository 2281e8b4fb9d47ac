//! A host among strangers: an endpoint that accepts, and whatever datagrams and applications may do to it.
//!
//! ```text
//!   four strangers, who see what is sent to them ──► packets of any content, aimed or not ──► endpoint ──► answers
//! ```
//!
//! It never panics. A stranger who has not shown that it gets our packets is never sent more bytes than it sent. A
//! connection never takes in what its window has no room for, and there are never more connections than allowed.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use rampmeter_control::Registry;
use rampmeter_transport::{
    Config, ConnectionId, Endpoint, EndpointConfig, Event, ReceiveBuffer, Recovery, SendBuffer, State,
};
use rampmeter_units::{Bytes, Duration, Ecn, Rate, Stream, Time};
use rampmeter_wire::{Kind, List, Packet, Receipt, RouterFeedback, Sack, UDP_BYTES, decode, encode};

const CONTROLLERS: [&str; 4] = ["pcp", "newreno", "reno", "fair-share"];
const STRANGERS: u8 = 4;
const MAX_CONNECTIONS: usize = 6;
const MAX_HALF_OPEN: usize = 3;
const WINDOW: u64 = 4_000;

/// Packets that one step may move: enough for any window here, few enough to find a loop.
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
    /// Any bytes at all.
    Bytes {
        from: u8,
        bytes: Vec<u8>,
    },
    /// A packet; `aimed` at what the endpoint last sent there: its fields then are small distances.
    Packet {
        from: u8,
        aimed: bool,
        ecn: u8,
        packet: Shape,
    },
    /// A peer as it should be: acknowledges the last packet sent to it.
    Acknowledge {
        from: u8,
    },
    /// Time passes, up to a minute; deadlines are kept.
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
    ping: bool,
    receipts: Vec<(i32, u8, u64)>,
    sacks: Vec<(i32, i32)>,
    feedback: Option<(u64, u64)>,
    echoed_feedback: Option<(u64, u64)>,
}

/// What one stranger has seen and done.
#[derive(Debug, Default)]
struct Stranger {
    received: u64,
    sent: u64,
    /// One of its connections was accepted, or was opened by us: it has shown that it gets our packets.
    known: bool,
    /// The last packet that it got.
    last: Packet,
    /// The endpoint's name for the latest connection with it.
    connection: u32,
}

struct App {
    id: ConnectionId,
    to_send: SendBuffer,
    received: ReceiveBuffer,
    taken: u64,
}

struct Host {
    now: Time,
    endpoint: Endpoint<rampmeter_control::AnyController, u32>,
    config: Config,
    strangers: Vec<Stranger>,
    apps: BTreeMap<u32, App>,
}

fuzz_target!(|story: Story| {
    let mut host = Host::new(&story);
    for step in &story.steps {
        host.step(step);
        host.attend();
    }
    // In the end it is quiet: whoever is left alone gives up.
    for _ in 0..200 {
        let next = host.endpoint.deadline();
        if next == Time::MAX {
            break;
        }
        host.now = host.now.max(next);
        host.endpoint.on_deadline(host.now);
        host.attend();
    }
});

impl Host {
    fn new(story: &Story) -> Self {
        let controller = CONTROLLERS[usize::from(story.controller) % CONTROLLERS.len()];
        let factory = Registry::default().factory(controller, &toml::Table::new()).expect("it is in the registry");
        let config = Config {
            recovery: [Recovery::Sack, Recovery::NewReno, Recovery::Reno][usize::from(story.recovery) % 3],
            delayed_ack: Duration::from_millis(if story.delayed_ack { 200 } else { 0 }),
            first_sequence: Some(story.first_sequence),
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
            factory(Stream::from_seed(made))
        };
        Self {
            now: Time::from_nanos(1_000_000_000),
            endpoint: Endpoint::new(limits, make, Stream::from_seed(0)),
            config,
            strangers: (0..STRANGERS).map(|_| Stranger::default()).collect(),
            apps: BTreeMap::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Bytes { from, bytes } => self.arrive(*from, bytes, Ecn::NotEct),
            Step::Packet { from, aimed, ecn, packet } => {
                let stranger = &self.strangers[usize::from(from % STRANGERS)];
                let bytes = packet.encode(aimed.then_some(stranger));
                self.arrive(*from, &bytes, Ecn::from_bits(*ecn));
            }
            Step::Acknowledge { from } => {
                let bytes = self.strangers[usize::from(from % STRANGERS)].acknowledge(self.now);
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
                    self.attend();
                }
                self.now = self.now.max(until);
            }
            Step::Open { to } => {
                let to = to % STRANGERS;
                if let Some(id) = self.endpoint.open(self.now, u32::from(to), &self.config) {
                    // Whom we call we send to unasked.
                    self.strangers[usize::from(to)].known = true;
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
                app.taken += read;
                self.endpoint.consume(now, id, read);
            }
        }
    }

    fn app(&mut self, index: u8) -> Option<&mut App> {
        let place = usize::from(index) % self.apps.len().max(1);
        self.apps.values_mut().nth(place)
    }

    fn with(
        &mut self,
        index: u8,
        act: impl FnOnce(&mut Endpoint<rampmeter_control::AnyController, u32>, Time, ConnectionId),
    ) {
        if let Some(id) = self.app(index).map(|app| app.id) {
            act(&mut self.endpoint, self.now, id);
        }
    }

    /// A datagram comes in.
    fn arrive(&mut self, from: u8, bytes: &[u8], ecn: Ecn) {
        let from = from % STRANGERS;
        self.strangers[usize::from(from)].received += (bytes.len() + UDP_BYTES) as u64;
        let Ok((packet, payload)) = decode(bytes) else { return };
        if let Some(news) = self.endpoint.receive(self.now, u32::from(from), &packet, ecn, self.now) {
            let id = news.connection;
            let arrived = self.endpoint.connection(id).map(|connection| connection.arrived());
            let app = self.apps.entry(id.number()).or_insert_with(|| App::new(id));
            assert!(news.len > 0 && news.skip + news.len <= payload.len());
            assert!(news.offset + news.len as u64 <= app.taken + WINDOW, "more than there is room for");
            assert!(news.offset >= app.taken, "what has been taken comes again");
            assert!(arrived.is_none_or(|arrived| arrived <= app.taken + WINDOW));
            app.received.store(news.offset, &payload[news.skip..news.skip + news.len]);
        }
    }

    /// Events and packets, until there are no more.
    fn attend(&mut self) {
        for round in 0.. {
            assert!(round < MAX_PACKETS, "sends without end");
            self.events();
            let Some(transmit) = self.endpoint.poll_transmit(self.now) else { break };
            let mut bytes = Vec::new();
            encode(&transmit.packet, &mut bytes);
            let payload = usize::from(transmit.packet.payload);
            if payload > 0 {
                let app = self.apps.get(&transmit.connection.number()).expect("it sends what somebody wrote");
                assert!(app.to_send.copy(transmit.offset, payload, &mut bytes), "bytes that were never written");
            }
            assert!((bytes.len() + UDP_BYTES) as u64 <= self.config.packet.as_u64(), "larger than it may be");
            let open = self.endpoint.connection(transmit.connection).is_some_and(|c| c.state() != State::HalfOpen);
            let stranger = &mut self.strangers[transmit.to as usize];
            stranger.known |= open;
            stranger.sent += (bytes.len() + UDP_BYTES) as u64;
            if matches!(transmit.packet.kind, Kind::Syn | Kind::SynAck) {
                stranger.connection = transmit.packet.number;
            }
            stranger.last = transmit.packet;
            assert!(
                stranger.known || stranger.sent <= stranger.received,
                "{} bytes for {} of a stranger's",
                stranger.sent,
                stranger.received
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
                        self.strangers[peer as usize].known = true;
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
        Self { id, to_send: SendBuffer::default(), received: ReceiveBuffer::default(), taken: 0 }
    }
}

impl Stranger {
    /// What a well-meaning peer would answer to the last packet.
    fn acknowledge(&mut self, now: Time) -> Vec<u8> {
        let last = self.last;
        let mut packet = Packet {
            kind: if last.kind == Kind::Syn { Kind::SynAck } else { Kind::Data },
            connection: self.connection,
            number: if last.kind == Kind::Syn { 7 } else { 0 },
            // A `SynAck` adds which attempt the `Syn` was.
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
    fn encode(&self, at: Option<&Stranger>) -> Vec<u8> {
        let last = at.map_or(Packet::default(), |stranger| stranger.last);
        let near = |base: u32, distance: i32| {
            // Mostly close by.
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
            connection: at.map_or(self.connection, |stranger| stranger.connection),
            number: self.number as u32,
            sequence: near(last.acknowledgement, self.sequence),
            acknowledgement: near(last.sequence.wrapping_add(last.sequence_len() as u32), self.acknowledgement),
            window: self.window,
            payload: self.payload % 1500,
            fin: self.fin,
            ping: self.ping,
            receipts: List::default(),
            sacks: List::default(),
            feedback: feedback(self.feedback),
            echoed_feedback: feedback(self.echoed_feedback),
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
