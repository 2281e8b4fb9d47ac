//! The sockets of this host: each event of one tells its macroflow's controller what happened, and the controller's answer
//! is divided among the sockets of the macroflow.
//!
//! ```text
//! event of a socket ─► packets (`socket`) ─► controller of its macroflow ─► a decision for each of its sockets
//! ```
//!
//! A packet counts as arrived when its acknowledgement did: delays are those of the round trip. One acknowledgement may
//! report many packets; to a controller each is one, as in Rampmeter's own transport.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use rampmeter_control::registry::Factory;
use rampmeter_control::{
    Ack, AnyController, Arrival, Controller, History, Loss, LossKind, MarkCount, Notice, Path, RouterFeedback, Sent,
    spread,
};
use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Time};

use crate::Sharing;
use crate::shared::{Decision, Event, MAX_WINDOW, kind};
use crate::socket::InFlight;

/// Headers of IP and TCP, with the option for timestamps.
const HEADERS_V4: u64 = 52;
const HEADERS_V6: u64 = 72;

/// The kernel sends the packets of this time together.
const BUNCH: Duration = Duration::from_millis(1);

/// A controller without a rate is paced at so many windows in a round trip, as in the kernel: in slow start, and later.
const SLOW_START_PACE: f64 = 2.0;
const PACE: f64 = 1.2;

/// Where a controller has a rate and no limit to its window, so many round trips of that rate may be in flight.
const ROUNDS_IN_FLIGHT: f64 = 2.0;

/// The shortest retransmission timeout of Linux, and its round-trip times at least.
const MIN_TIMEOUT: Duration = Duration::from_millis(200);
const TIMEOUT_ROUNDS: u64 = 3;

/// Histories of so many destinations are kept.
const MAX_HISTORIES: usize = 4096;

/// Which sockets share a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Socket(u32, u32),
    Destination(IpAddr),
}

#[derive(Debug)]
struct Socket {
    generation: u32,
    /// The last event.
    number: u32,
    key: Key,
    addresses: [SocketAddr; 2],
    packets: InFlight,
    mss: u32,
    smoothed_rtt: Duration,
    /// When packets were acknowledged last.
    acked_at: Time,
    opened: Time,
    bytes_before: u64,
}

impl Socket {
    fn packet(&self) -> Bytes {
        let headers = if self.addresses[1].is_ipv4() { HEADERS_V4 } else { HEADERS_V6 };
        Bytes::new(u64::from(self.mss.max(1)) + headers)
    }
}

#[derive(Debug)]
struct Macroflow {
    controller: AnyController,
    /// `Controller::on_path` was called: a round-trip time is known.
    has_begun: bool,
    packet: Bytes,
    next: u64,
    in_flight: usize,
    min_rtt: Duration,
    recovering: bool,
    timeouts: u32,
    idle_since: Option<Time>,
    /// The packets of an acknowledgement, in a vector that stays.
    arrivals: Vec<Arrival>,
    sockets: Vec<u32>,
}

/// A connection that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Closed {
    /// This host's end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Payload that the other end has acknowledged.
    pub bytes: Bytes,
    /// From its establishment to its end.
    pub duration: Duration,
    /// Packets that were sent, retransmissions included.
    pub sent: u32,
    /// Of these, packets that were lost.
    pub lost: u32,
}

pub(crate) struct Host {
    make: Factory,
    random: Random,
    sharing: Sharing,
    now: Time,
    sockets: HashMap<u32, Socket>,
    macroflows: HashMap<Key, Macroflow>,
    histories: HashMap<IpAddr, Option<History>>,
    decisions: Vec<(u32, Decision)>,
    /// Connections that have ended since they were taken last.
    pub(crate) closed: Vec<Closed>,
}

fn micros(us: u32) -> Duration {
    Duration::from_micros(u64::from(us))
}

impl Host {
    pub(crate) fn new(make: Factory, random: Random, sharing: Sharing) -> Self {
        Self {
            make,
            random,
            sharing,
            now: Time::ZERO,
            sockets: HashMap::new(),
            macroflows: HashMap::new(),
            histories: HashMap::new(),
            decisions: Vec::new(),
            closed: Vec::new(),
        }
    }

    /// The number of sockets.
    pub(crate) fn len(&self) -> usize {
        self.sockets.len()
    }

    /// The decisions since they were taken last, each with the place of its socket.
    pub(crate) fn decisions(&mut self) -> impl Iterator<Item = (u32, Decision)> {
        self.decisions.drain(..)
    }

    /// A socket reported `event`; `addresses` are those of its two ends.
    pub(crate) fn on_event(&mut self, event: &Event, addresses: impl FnOnce() -> [SocketAddr; 2]) {
        self.now = self.now.max(Time::from_nanos(event.time_ns));
        if self.sockets.get(&event.socket).is_some_and(|socket| socket.generation != event.generation) {
            self.close(event.socket, None); // the event of its end was lost
        }
        if !self.sockets.contains_key(&event.socket) {
            if event.kind == kind::CLOSE {
                return;
            }
            self.open(event, addresses());
        }
        if let Some(key) = self.report(event) {
            self.decide(key);
        }
        if event.kind == kind::CLOSE {
            self.close(event.socket, Some(event));
        }
    }

    fn open(&mut self, event: &Event, addresses: [SocketAddr; 2]) {
        let key = match self.sharing {
            Sharing::Socket => Key::Socket(event.socket, event.generation),
            Sharing::Destination => Key::Destination(addresses[1].ip()),
        };
        let socket = Socket {
            generation: event.generation,
            number: event.number,
            key,
            addresses,
            packets: InFlight::from(event),
            mss: event.mss,
            smoothed_rtt: micros(event.smoothed_rtt_us),
            acked_at: self.now,
            opened: self.now,
            bytes_before: event.bytes_acked,
        };
        let packet = socket.packet();
        let seed = self.random.below(u64::MAX);
        let macroflow = self.macroflows.entry(key).or_insert_with(|| Macroflow {
            controller: (self.make)(Random::from_seed(seed)),
            has_begun: false,
            packet,
            next: 0,
            in_flight: 0,
            min_rtt: Duration::from_secs(3600),
            recovering: false,
            timeouts: 0,
            idle_since: None,
            arrivals: Vec::new(),
            sockets: Vec::new(),
        });
        macroflow.sockets.push(event.socket);
        self.sockets.insert(event.socket, socket);
    }

    /// Tells the controller what happened. Returns its macroflow if it has begun.
    fn report(&mut self, event: &Event) -> Option<Key> {
        let now = self.now;
        let socket = self.sockets.get_mut(&event.socket)?;
        let key = socket.key;
        let macroflow = self.macroflows.get_mut(&key)?;
        socket.number = event.number;
        if event.smoothed_rtt_us > 0 {
            socket.smoothed_rtt = micros(event.smoothed_rtt_us);
        }
        if event.min_rtt_us > 0 && event.min_rtt_us < u32::MAX {
            macroflow.min_rtt = macroflow.min_rtt.min(micros(event.min_rtt_us));
        }
        if !macroflow.has_begun {
            if event.smoothed_rtt_us == 0 {
                socket.packets = InFlight::from(event);
                return None;
            }
            let history = self.histories.get(&socket.addresses[1].ip()).copied().flatten();
            let mut path = Path::new(macroflow.packet, socket.smoothed_rtt, history);
            path.bunch = BUNCH;
            macroflow.min_rtt = macroflow.min_rtt.min(socket.smoothed_rtt);
            macroflow.controller.on_path(now, &path);
            macroflow.has_begun = true;
            socket.packets = InFlight::from(event);
        }
        if socket.mss != event.mss {
            socket.mss = event.mss;
            macroflow.packet = socket.packet();
            macroflow.controller.on_packet_size(now, macroflow.packet);
        }
        let changes = socket.packets.update(event);
        macroflow.report_sent(now, socket, changes.sent);
        let lost = macroflow.report_lost(now, socket, changes.lost, event);
        if changes.delivered > 0 {
            macroflow.report_arrivals(now, socket, event, [changes.delivered, changes.marked]);
        }
        macroflow.recovering = event.is_recovering() || lost;
        let excess = socket.packets.limit(event.in_flight);
        macroflow.in_flight -= excess;
        if excess > 0 {
            macroflow.controller.on_notice(now, Notice::Discarded);
        }
        if event.is_app_limited() {
            macroflow.controller.on_notice(now, Notice::AppLimited);
        }
        if macroflow.in_flight == 0 {
            macroflow.idle_since.get_or_insert(now);
        }
        if macroflow.controller.deadline() <= now {
            macroflow.controller.on_deadline(now);
        }
        Some(key)
    }

    fn close(&mut self, place: u32, event: Option<&Event>) {
        let Some(mut socket) = self.sockets.remove(&place) else { return };
        if let Some(event) = event {
            self.closed.push(Closed {
                local: socket.addresses[0],
                remote: socket.addresses[1],
                bytes: Bytes::new(event.bytes_acked.saturating_sub(socket.bytes_before)),
                duration: self.now.since(socket.opened),
                sent: event.sent,
                lost: event.lost,
            });
        }
        let Some(macroflow) = self.macroflows.get_mut(&socket.key) else { return };
        macroflow.sockets.retain(|other| *other != place);
        let left = socket.packets.limit(0);
        macroflow.in_flight -= left;
        if macroflow.has_begun {
            if left > 0 {
                macroflow.controller.on_notice(self.now, Notice::Discarded);
            }
            let destination = socket.addresses[1].ip();
            if self.histories.len() < MAX_HISTORIES || self.histories.contains_key(&destination) {
                macroflow.controller.remember(self.now, self.histories.entry(destination).or_default());
            }
        }
        if macroflow.sockets.is_empty() {
            self.macroflows.remove(&socket.key);
        } else {
            self.decide(socket.key);
        }
    }

    /// When a controller wants to be called.
    pub(crate) fn deadline(&self) -> Time {
        let begun = self.macroflows.values().filter(|macroflow| macroflow.has_begun);
        begun.map(|macroflow| macroflow.controller.deadline()).min().unwrap_or(Time::MAX)
    }

    /// Calls the controllers whose time has come.
    pub(crate) fn on_deadline(&mut self, now: Time) {
        self.now = self.now.max(now);
        let now = self.now;
        let is_due = |macroflow: &Macroflow| macroflow.has_begun && macroflow.controller.deadline() <= now;
        let due: Vec<Key> = self.macroflows.iter().filter(|(_, flow)| is_due(flow)).map(|(key, _)| *key).collect();
        for key in due {
            if let Some(macroflow) = self.macroflows.get_mut(&key) {
                macroflow.controller.on_deadline(now);
            }
            self.decide(key);
        }
    }

    /// Divides window and rate equally among the sockets that have something in flight; one that begins to send gets as
    /// much as if it were one of them.
    fn decide(&mut self, key: Key) {
        let Some(macroflow) = self.macroflows.get(&key) else { return };
        let controller = &macroflow.controller;
        let (window, rate) = (controller.window(), controller.rate());
        let pace = if controller.state() == "slow_start" { SLOW_START_PACE } else { PACE };
        let is_active = |place: &&u32| self.sockets.get(place).is_some_and(|socket| socket.packets.len() > 0);
        let active = macroflow.sockets.iter().filter(is_active).count();
        for place in &macroflow.sockets {
            let Some(socket) = self.sockets.get(place) else { continue };
            let flows = (active + usize::from(socket.packets.len() == 0)).max(1) as f64;
            let packet = socket.packet().as_f64();
            let rtt = socket.smoothed_rtt.as_secs_f64().max(1e-6);
            let most =
                rate.map_or(f64::INFINITY, |rate| ROUNDS_IN_FLIGHT * rate.as_bps_f64() / 8.0 * rtt + 10.0 * packet);
            let window = (window.as_f64().min(most) / flows / packet).floor().clamp(1.0, f64::from(MAX_WINDOW));
            let packets_per_second =
                rate.map_or(pace * window / rtt, |rate: Rate| rate.as_bps_f64() / 8.0 / flows / packet);
            let decision = Decision {
                generation: socket.generation,
                answers: socket.number,
                window: window as u32,
                rate: (packets_per_second * f64::from(socket.mss)) as u64,
            };
            self.decisions.push((*place, decision));
        }
    }
}

impl Macroflow {
    fn bytes(&self, packets: usize) -> Bytes {
        self.packet * packets as u64
    }

    fn report_sent(&mut self, now: Time, socket: &mut Socket, packets: u32) {
        if packets > 0
            && let Some(since) = self.idle_since.take()
        {
            let timeout = Duration::from_nanos(socket.smoothed_rtt.as_nanos().saturating_mul(TIMEOUT_ROUNDS));
            self.controller.on_idle(now, now.since(since), timeout.max(MIN_TIMEOUT));
        }
        for _ in 0..packets {
            socket.packets.add(self.next);
            self.in_flight += 1;
            let sent = Sent { number: self.next, bytes: self.packet, in_flight: self.bytes(self.in_flight) };
            self.controller.on_sent(now, &sent);
            self.next += 1;
        }
    }

    /// Whether packets were lost.
    fn report_lost(&mut self, now: Time, socket: &mut Socket, packets: u32, event: &Event) -> bool {
        let (mut lost, mut last) = (0, None);
        while lost < packets
            && let Some(number) = socket.packets.remove()
        {
            (lost, last) = (lost + 1, Some(number));
            self.in_flight -= 1;
        }
        let is_timeout = event.kind == kind::TIMEOUT;
        if lost == 0 && !is_timeout {
            return false;
        }
        let last_sent = self.next.saturating_sub(1);
        self.controller.on_loss(
            now,
            &Loss {
                kind: if is_timeout { LossKind::Persistent } else { LossKind::Transient },
                bytes: self.packet * u64::from(lost.max(1)),
                flight_size: self.packet * u64::from(event.unacked),
                number: last.unwrap_or(last_sent),
                last_sent,
                recovering: self.recovering,
                repeated_timeout: is_timeout && self.timeouts > 0,
            },
        );
        self.timeouts += u32::from(is_timeout);
        true
    }

    fn report_arrivals(&mut self, now: Time, socket: &mut Socket, event: &Event, [delivered, marked]: [u32; 2]) {
        self.timeouts = 0;
        let rtt = u32::try_from(event.rtt_us).ok().map(micros);
        let sent_at = Time::from_nanos(now.as_nanos().saturating_sub(rtt.unwrap_or(socket.smoothed_rtt).as_nanos()));
        let flight_size = self.packet * u64::from(event.unacked + delivered);
        let mut arrivals = std::mem::take(&mut self.arrivals);
        arrivals.clear();
        while arrivals.len() < delivered as usize
            && let Some(number) = socket.packets.remove()
        {
            let arrival = Arrival { number, bytes: self.packet, sent_at, received_at: now, ecn: Ecn::NotEct };
            arrivals.push(arrival);
        }
        spread(arrivals.iter_mut(), std::mem::replace(&mut socket.acked_at, now), self.min_rtt);
        for (left, arrival) in (0..arrivals.len() as u32).rev().zip(&arrivals) {
            self.in_flight -= 1;
            let ack = Ack {
                delivered: self.packet,
                in_flight: self.bytes(self.in_flight),
                rtt: rtt.filter(|_| left == 0),
                smoothed_rtt: socket.smoothed_rtt,
                min_rtt: self.min_rtt,
                arrivals: std::slice::from_ref(arrival),
                mark_count: Some(MarkCount { marks: u64::from(left < marked), number: arrival.number }),
                feedback: RouterFeedback::None,
                flight_size,
                last_sent: self.next.saturating_sub(1),
                recovering: event.is_recovering(),
                app_limited: event.is_app_limited(),
                nothing_to_send: event.is_app_limited(),
            };
            self.controller.on_ack(now, &ack);
        }
        self.arrivals = arrivals;
    }
}

#[cfg(test)]
mod tests;
