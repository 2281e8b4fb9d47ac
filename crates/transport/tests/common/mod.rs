//! Two endpoints in virtual time over a channel that loses, duplicates and reorders packets, with real bytes and real
//! encodings.
//!
//! ```text
//!  opener ──── one-way delay, faults ────► accepter
//!         ◄─── one-way delay, faults ────
//! ```

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use rampmeter_control::{AnyController, Registry};
use rampmeter_transport::{
    CloseReason, Config, ConnectionId, Endpoint, EndpointConfig, Event, ReceiveBuffer, SendBuffer, Statistics,
};
use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Time};
use rampmeter_wire::{UDP_BYTES, decode_first, encode};

/// What the channel does to packets, in each direction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    pub(crate) loss: f64,
    pub(crate) duplication: f64,
    /// Probability that a packet is delayed by up to `hold`.
    pub(crate) reordering: f64,
    pub(crate) hold: Duration,
    /// Probability that a byte is corrupted; checksums (UDP's) turn that into a loss.
    pub(crate) corruption: f64,
}

pub(crate) struct End {
    pub(crate) endpoint: Endpoint<AnyController, u32>,
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) to_send: SendBuffer,
    pub(crate) received: ReceiveBuffer,
    pub(crate) read: Vec<u8>,
    pub(crate) closed: Option<(CloseReason, Statistics)>,
    pub(crate) rtt: Option<Duration>,
    finished: bool,
}

pub(crate) type Filter = Box<dyn FnMut(usize, &rampmeter_wire::Packet) -> bool>;

pub(crate) type Lie = Box<dyn FnMut(Time, usize, &mut rampmeter_wire::Packet)>;

pub(crate) type Recoder = Box<dyn FnMut(usize, Ecn) -> Option<Ecn>>;

pub(crate) struct Pair {
    pub(crate) now: Time,
    pub(crate) ends: [End; 2],
    pub(crate) delay: Duration,
    pub(crate) faults: Faults,
    /// From now on all packets are lost.
    pub(crate) dead: bool,
    pub(crate) passed: u64,
    random: Random,
    in_flight: BTreeMap<(Time, u64), (usize, Vec<u8>, Ecn)>,
    sequence: u64,
    /// Called for each packet that leaves, with its sender; false loses the packet.
    pub(crate) filter: Filter,
    /// Called for each packet that leaves, before the filter, with the time and its sender, who lies.
    pub(crate) lie: Lie,
    /// The path from the opener to the accepter has a rate, and a queue that holds packets for this long.
    pub(crate) bottleneck: Option<(Rate, Duration)>,
    /// Larger packets are lost, IP header included.
    pub(crate) mtu: u64,
    /// The time from which on the bottleneck is idle. Pairs with the same one share their bottleneck.
    pub(crate) idle_from: Rc<Cell<Time>>,
    /// Packets with an ECN code that wait for longer in the bottleneck's queue are marked.
    pub(crate) marks_from: Duration,
    /// Called for each packet that leaves, with the length of its payload and its ECN code; returns the code with which
    /// it arrives, or `None` if the packet is lost.
    pub(crate) recode: Recoder,
}

impl Pair {
    pub(crate) fn new(controller: &str, config: &Config, seed: u64) -> Self {
        let settings = if controller == "fixed-rate" { "rate = '1 Mb/s'" } else { "" };
        Self::with(controller, settings, config, seed)
    }

    pub(crate) fn with(controller: &str, settings: &str, config: &Config, seed: u64) -> Self {
        let factory = Registry::default().factory(controller, &settings.parse().unwrap()).unwrap();
        let end = |accept: Option<Config>, salt: u64| {
            let factory = factory.clone();
            let mut made = 0;
            let make = move || {
                made += 1;
                factory(Random::from_seed(seed ^ salt ^ made))
            };
            let config = EndpointConfig { accept, ..EndpointConfig::default() };
            End {
                endpoint: Endpoint::new(config, make, Random::from_seed(seed ^ salt)),
                connection: None,
                to_send: SendBuffer::default(),
                received: ReceiveBuffer::default(),
                read: Vec::new(),
                closed: None,
                rtt: None,
                finished: false,
            }
        };
        let mut pair = Self {
            now: Time::ZERO,
            ends: [end(None, 0x100), end(Some(config.clone()), 0x200)],
            delay: Duration::from_millis(10),
            faults: Faults::default(),
            dead: false,
            passed: 0,
            random: Random::from_seed(seed),
            in_flight: BTreeMap::new(),
            sequence: 0,
            filter: Box::new(|_, _| true),
            lie: Box::new(|_, _, _| {}),
            bottleneck: None,
            mtu: u64::MAX,
            idle_from: Rc::default(),
            marks_from: Duration::MAX,
            recode: Box::new(|_, ecn| Some(ecn)),
        };
        pair.ends[0].connection = pair.ends[0].endpoint.open(Time::ZERO, 1, config);
        pair
    }

    /// `end` writes `bytes`, then ends its stream.
    pub(crate) fn send(&mut self, end: usize, bytes: &[u8]) {
        self.ends[end].to_send.write(bytes);
        self.try_write(end);
    }

    fn try_write(&mut self, end: usize) {
        let e = &mut self.ends[end];
        let Some(id) = e.connection else { return };
        if !e.finished {
            e.finished = true;
            e.endpoint.write(self.now, id, e.to_send.len() as u64);
            e.endpoint.finish(self.now, id);
        }
    }

    /// Runs until both connections have ended or `limit` has passed. Returns whether both have ended.
    pub(crate) fn run(&mut self, limit: Duration) -> bool {
        run_together(std::slice::from_mut(self), limit)
    }

    /// The time of the next event.
    fn next(&self) -> Time {
        let packet = self.in_flight.keys().next().map_or(Time::MAX, |(at, _)| *at);
        self.ends.iter().map(|e| e.endpoint.deadline()).fold(packet, Time::min)
    }

    /// Handles everything that is due.
    fn step(&mut self) {
        self.now = self.now.max(self.next());
        while let Some(entry) = self.in_flight.first_entry().filter(|e| e.key().0 <= self.now) {
            let (to, bytes, ecn) = entry.remove();
            self.deliver(to, &bytes, ecn);
            self.flush(); // as in every world: a packet is answered before the next one is handled
        }
        for e in &mut self.ends {
            if e.endpoint.deadline() <= self.now {
                e.endpoint.on_deadline(self.now);
            }
        }
        self.flush();
    }

    fn has_ended(&self) -> bool {
        self.ends.iter().all(|e| e.closed.is_some())
    }

    fn deliver(&mut self, to: usize, datagram: &[u8], ecn: Ecn) {
        let (packet, payload, padding) = decode_first(datagram).expect("the channel only loses whole packets");
        assert!(padding.iter().all(|&byte| byte == 0));
        self.passed += 1;
        let (now, from) = (self.now, 1 - to as u32);
        let e = &mut self.ends[to];
        if let Some(new) = e.endpoint.receive(now, from, &packet, ecn, now) {
            e.received.store(new.offset, &payload[new.skip..new.skip + new.len]);
            let arrived = e.endpoint.connection(new.connection).map_or(0, rampmeter_transport::Connection::arrived);
            let taken = e.received.read(arrived, &mut e.read);
            e.endpoint.consume(now, new.connection, taken as u64);
        }
    }

    fn flush(&mut self) {
        for from in 0..2 {
            while let Some(event) = self.ends[from].endpoint.poll_event() {
                let e = &mut self.ends[from];
                match event {
                    Event::Opened(id, rtt) | Event::Accepted(id, rtt) => {
                        e.rtt = Some(rtt);
                        e.connection = Some(id);
                        self.try_write(from);
                    }
                    Event::Degraded(..) => {}
                    Event::Closed(_, reason, statistics) => e.closed = Some((reason, statistics)),
                }
            }
            while let Some(mut transmit) = self.ends[from].endpoint.poll_transmit(self.now) {
                assert_eq!(transmit.to, 1 - from as u32);
                (self.lie)(self.now, from, &mut transmit.packet);
                let mut bytes = Vec::new();
                encode(&transmit.packet, &mut bytes);
                let payload = usize::from(transmit.packet.payload);
                let copied = self.ends[from].to_send.copy(transmit.offset, payload, &mut bytes);
                assert!(copied || payload == 0, "requested bytes that were never written");
                bytes.resize(bytes.len() + usize::from(transmit.padding), 0);
                let fits = bytes.len() as u64 + UDP_BYTES as u64 <= self.mtu;
                let passes = (self.filter)(from, &transmit.packet) && fits;
                let ecn = (self.recode)(payload, transmit.ecn);
                if let Some(ecn) = ecn.filter(|_| passes && !self.dead) {
                    self.put(1 - from, bytes, ecn);
                }
            }
        }
    }

    fn put(&mut self, to: usize, bytes: Vec<u8>, ecn: Ecn) {
        let faults = self.faults;
        let corrupted = self.random.chance(1.0 - (1.0 - faults.corruption).powi(bytes.len() as i32));
        if corrupted || self.random.chance(faults.loss) {
            return;
        }
        if self.random.chance(faults.duplication) {
            self.schedule(to, bytes.clone(), ecn);
        }
        self.schedule(to, bytes, ecn);
    }

    fn schedule(&mut self, to: usize, bytes: Vec<u8>, ecn: Ecn) {
        let delayed = self.random.chance(self.faults.reordering);
        let mut extra = if delayed { self.faults.hold.scale(self.random.uniform()) } else { Duration::ZERO };
        let mut ecn = ecn;
        if let Some((rate, queue)) = self.bottleneck.filter(|_| to == 1) {
            let waits = self.idle_from.get().since(self.now);
            if waits > queue {
                return;
            }
            extra += waits;
            ecn = if ecn != Ecn::NotEct && waits > self.marks_from { Ecn::Ce } else { ecn };
            let idle_from = self.now + waits + rate.time_to_send(Bytes::new((bytes.len() + UDP_BYTES) as u64));
            self.idle_from.set(idle_from);
        }
        self.sequence += 1;
        self.in_flight.insert((self.now + self.delay + extra, self.sequence), (to, bytes, ecn));
    }
}

/// Runs pairs at the same time until all their connections have ended or `limit` has passed. Returns whether they have
/// ended.
pub(crate) fn run_together(pairs: &mut [Pair], limit: Duration) -> bool {
    let (until, max_steps) = (pairs[0].now + limit, 300_000 * pairs.len());
    pairs.iter_mut().for_each(Pair::flush);
    for _ in 0..max_steps {
        let open = pairs.iter_mut().filter(|pair| !pair.has_ended()).map(|pair| (pair.next(), pair));
        let Some((next, pair)) = open.min_by_key(|(next, _)| *next) else { return true };
        if next > until || next == Time::MAX {
            for pair in pairs.iter_mut() {
                pair.now = until;
            }
            return false;
        }
        pair.step();
    }
    let ends: Vec<_> = pairs.iter().flat_map(|pair| &pair.ends).map(|end| &end.endpoint).collect();
    panic!("too many steps at {}: {ends:?}", pairs[0].now);
}

/// The controller called `name`.
pub(crate) fn controller(name: &str, seed: u64) -> AnyController {
    Registry::default().factory(name, &toml::Table::new()).unwrap()(Random::from_seed(seed))
}

/// Bytes that differ between positions, so that misplaced bytes are detected.
pub(crate) fn pattern(len: usize, salt: u8) -> Vec<u8> {
    (0..len).map(|n| (n as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0] ^ salt).collect()
}
