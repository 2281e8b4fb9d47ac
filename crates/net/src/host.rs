//! One host on the wire: an endpoint, the socket it speaks through, and the bytes of its connections.
//!
//! The endpoint decides, the socket moves packets, the streams hold bytes; a host only carries things between them. It
//! never waits: a [`crate::Loop`] says when. An application acts through the methods here and learns through [`Event`]s.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;

use rampmeter_control::Controller;
use rampmeter_manager::{Delivery, Share};
use rampmeter_transport::{CloseReason, Config, ConnectionId, Endpoint, Statistics};
use rampmeter_units::{Duration, Ecn, Time};
use rampmeter_wire::{CM_VERSION, Kind, cm_decode, cm_encode, decode, encode};

use crate::clock::Clock;
use crate::socket::{ReceiveBatch, SendBatch, Sending, Socket};
use crate::stream::{Arrivals, Stream, worthwhile};

/// Batches one host moves each way before it is others' turn.
const BATCHES_A_TURN: usize = 4;

/// A send buffer has at least this many bytes.
const LEAST_BUFFER: usize = 4096;

/// What a host may hold, and how long it listens to silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes a connection keeps for its peer at most, sent and not acknowledged ones included.
    pub send_buffer: usize,
    /// A connection whose peer is silent for this long is given up; [`Duration::MAX`] waits for ever. A connection may
    /// be silent because nobody has anything to say: the application sees to it that somebody has.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { send_buffer: 4 << 20, patience: Duration::from_secs(10) }
    }
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Both streams were delivered whole.
    Finished,
    /// The peer broke it off.
    Reset,
    /// This end broke it off.
    Aborted,
    /// The peer fell silent.
    Vanished,
}

/// Something the application should know.
#[derive(Debug)]
pub enum Event {
    /// A connection that we opened stands; the handshake took this long.
    Opened(ConnectionId, Duration),
    /// A connection that a peer opened stands.
    Accepted(ConnectionId, Duration),
    /// There is something to read, or the peer's stream has ended. Told once until the application reads.
    Readable(ConnectionId),
    /// There is room to write. Told once after a write that did not fit.
    Writable(ConnectionId),
    /// A datagram of a peer's flow of datagrams has arrived: whose, and how many bytes it has.
    Datagram(SocketAddr, Delivery, usize),
    /// A connection's controller can't work as its scheme does, and why ([`Controller::hindrance`]). Told once.
    Hindered(ConnectionId, &'static str),
    /// It is over. What arrived can still be read until the loop's next turn.
    Closed(ConnectionId, Ended, Statistics),
    /// The kernel reports that packets do not reach their peer, or can't leave. Connections go on trying.
    Trouble(io::Error),
}

/// One host.
#[derive(Debug)]
pub struct Host<C> {
    endpoint: Endpoint<C, SocketAddr>,
    socket: Socket,
    limits: Limits,
    /// By the connection's number.
    streams: BTreeMap<u32, Stream>,
    outgoing: SendBatch,
    /// The kernel took no more; it says when it does.
    blocked: bool,
    events: VecDeque<Event>,
    next_sweep: Time,
    /// What was last read had payload: its sender waits for an answer.
    answers: bool,
    /// Datagrams that were no packets.
    garbage: u64,
}

impl<C: Controller> Host<C> {
    /// A host that speaks through `socket`.
    pub fn new(endpoint: Endpoint<C, SocketAddr>, socket: Socket, limits: Limits) -> Self {
        Self {
            endpoint,
            socket,
            limits: Limits { send_buffer: limits.send_buffer.max(LEAST_BUFFER), ..limits },
            streams: BTreeMap::new(),
            outgoing: SendBatch::default(),
            blocked: false,
            events: VecDeque::new(),
            next_sweep: Time::MAX,
            answers: false,
            garbage: 0,
        }
    }

    /// Opens a connection; `None` if there are too many.
    pub fn open(&mut self, now: Time, peer: SocketAddr, config: &Config) -> Option<ConnectionId> {
        let id = self.endpoint.open(now, peer, config)?;
        self.admit(now, id, peer);
        Some(id)
    }

    /// What part of its macroflow a connection is to have.
    pub fn share(&mut self, id: ConnectionId, share: Share) {
        self.endpoint.share(id, share);
    }

    fn admit(&mut self, now: Time, id: ConnectionId, peer: SocketAddr) {
        self.streams.insert(id.number(), Stream::new(now, id, peer));
        if self.limits.patience < Duration::MAX {
            self.next_sweep = self.next_sweep.min(now + self.limits.patience / 8);
        }
    }

    /// Adds as much of `bytes` to the stream as there is room for; says how much. If it is not all, [`Event::Writable`]
    /// follows.
    pub fn write(&mut self, now: Time, id: ConnectionId, bytes: &[u8]) -> usize {
        let room = self.room(id);
        let Some(stream) = self.streams.get_mut(&id.number()) else { return 0 };
        let count = room.min(bytes.len());
        stream.outgoing.write(&bytes[..count]);
        stream.wants_room |= count < bytes.len();
        self.endpoint.write(now, id, count as u64);
        count
    }

    /// Room for this many bytes to write.
    pub fn room(&self, id: ConnectionId) -> usize {
        let kept = self.streams.get(&id.number()).map(|stream| stream.outgoing.len());
        kept.map_or(0, |kept| self.limits.send_buffer.saturating_sub(kept))
    }

    /// Whether there is so much room that [`Event::Writable`] would tell.
    pub fn is_roomy(&self, id: ConnectionId) -> bool {
        self.room(id) >= worthwhile(self.limits.send_buffer)
    }

    /// Asks for [`Event::Writable`] once there is more room.
    pub fn await_room(&mut self, id: ConnectionId) {
        if let Some(stream) = self.streams.get_mut(&id.number()) {
            stream.wants_room = true;
        }
    }

    /// Moves what has arrived to the end of `out`; says how much.
    pub fn read(&mut self, now: Time, id: ConnectionId, out: &mut Vec<u8>) -> usize {
        let Some(stream) = self.streams.get_mut(&id.number()) else { return 0 };
        let count = stream.read(out);
        self.endpoint.consume(now, id, count as u64);
        count
    }

    /// Whether the peer's stream has ended and all of it has been read.
    pub fn is_read(&self, id: ConnectionId) -> bool {
        self.streams.get(&id.number()).is_some_and(|stream| stream.ended && stream.taken == stream.arrived)
    }

    /// Ends our stream after what has been written.
    pub fn finish(&mut self, now: Time, id: ConnectionId) {
        self.endpoint.finish(now, id);
    }

    /// Ends our stream after what has been sent; the rest of what was written is forgotten.
    pub fn finish_early(&mut self, now: Time, id: ConnectionId) {
        self.endpoint.finish_early(now, id);
    }

    /// Puts another controller in charge of what this connection sends.
    pub fn replace_controller(&mut self, now: Time, id: ConnectionId, controller: C) {
        self.endpoint.replace_controller(now, id, controller);
    }

    /// Breaks a connection off.
    pub fn abort(&mut self, now: Time, id: ConnectionId) {
        self.endpoint.abort(now, id);
    }

    /// The peer's address.
    pub fn peer(&self, id: ConnectionId) -> Option<SocketAddr> {
        self.streams.get(&id.number()).map(|stream| stream.peer)
    }

    /// What of the peer's packets arrived.
    pub fn arrivals(&self, id: ConnectionId) -> Arrivals {
        self.streams.get(&id.number()).map_or_else(Arrivals::default, |stream| stream.arrivals)
    }

    /// The endpoint, to act on its flows of datagrams, whose bytes are all zero.
    pub fn endpoint_mut(&mut self) -> &mut Endpoint<C, SocketAddr> {
        &mut self.endpoint
    }

    /// The endpoint, to look at.
    pub fn endpoint(&self) -> &Endpoint<C, SocketAddr> {
        &self.endpoint
    }

    /// The socket.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Datagrams that came in and were no packets.
    pub fn garbage(&self) -> u64 {
        self.garbage
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The application has been told that this connection is over, and has had its chance to read.
    pub(crate) fn forget(&mut self, id: ConnectionId) {
        self.streams.remove(&id.number());
    }

    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked
    }

    pub(crate) fn unblock(&mut self) {
        self.blocked = false;
    }

    /// Whether what comes in may wait until the next deadline, if that is soon: no window waits for acknowledgements, and
    /// no peer for ours.
    pub(crate) fn is_patient(&self) -> bool {
        !self.blocked && !self.answers && !self.endpoint.manager().awaits_feedback()
    }

    /// The thread was late since `since` ([`Controller::on_stall`]).
    pub(crate) fn on_stall(&mut self, now: Time, since: Time) {
        self.endpoint.on_stall(now, since);
    }

    /// When [`Host::serve`] is wanted.
    pub(crate) fn deadline(&self) -> Time {
        self.endpoint.deadline().min(self.next_sweep)
    }

    /// Takes packets in. True if there may be more.
    pub(crate) fn receive(&mut self, clock: &mut Clock, batch: &mut ReceiveBatch) -> bool {
        self.answers = false;
        for _ in 0..BATCHES_A_TURN {
            let more = match self.socket.receive(batch) {
                Ok(more) => more,
                Err(error) => {
                    self.trouble(error);
                    return true;
                }
            };
            for (datagram, bytes) in batch.iter() {
                let now = clock.now();
                let arrived_at = datagram.stamp.map_or(now, |stamp| clock.arrival(stamp, now));
                self.on_datagram(now, datagram.from, datagram.ecn, arrived_at, bytes);
                // An acknowledgement has room for few receipts: it is written before the next packet is looked at, even if
                // the kernel gave us many at once.
                self.fill(now);
                if self.outgoing.is_full() {
                    self.transmit(clock);
                }
            }
            self.transmit(clock);
            if !more {
                return false;
            }
        }
        true
    }

    fn on_datagram(&mut self, now: Time, from: SocketAddr, ecn: Ecn, arrived_at: Time, bytes: &[u8]) {
        if bytes.first().is_some_and(|first| first >> 4 == CM_VERSION) {
            return self.on_message(now, from, ecn, bytes);
        }
        let Ok((packet, payload)) = decode(bytes) else {
            self.garbage += 1;
            return;
        };
        self.answers |= packet.kind != Kind::Data || packet.payload > 0 || packet.ping;
        let fresh = self.endpoint.receive(now, from, &packet, ecn, arrived_at);
        self.collect(now); // a packet may open the connection that its payload is for
        if packet.kind == Kind::Syn {
            return;
        }
        let Some(stream) = self.streams.get_mut(&packet.connection).filter(|stream| stream.peer == from) else {
            return;
        };
        if let Some(fresh) = fresh {
            stream.incoming.store(fresh.offset, &payload[fresh.skip..][..fresh.len]);
        }
        let Some(connection) = self.endpoint.connection(stream.id) else { return };
        let news = stream.refresh(now, &packet, connection, self.limits.send_buffer);
        if news.readable {
            self.events.push_back(Event::Readable(stream.id));
        }
        if news.writable {
            self.events.push_back(Event::Writable(stream.id));
        }
    }

    /// Another Congestion Manager's message, or a datagram under its header.
    fn on_message(&mut self, now: Time, from: SocketAddr, ecn: Ecn, bytes: &[u8]) {
        let Ok((message, payload)) = cm_decode(bytes) else {
            self.garbage += 1;
            return;
        };
        self.answers = true;
        let delivery = self.endpoint.receive_message(now, from, &message, payload.len(), ecn);
        self.events.extend(delivery.map(|delivery| Event::Datagram(from, delivery, payload.len())));
    }

    /// Does what is due and sends what may leave. True if there is more than one host's share of a turn.
    pub(crate) fn serve(&mut self, clock: &Clock) -> bool {
        let now = clock.now();
        if self.next_sweep <= now {
            self.sweep(now);
        }
        if self.endpoint.deadline() <= now {
            self.endpoint.on_deadline(now);
        }
        let more = self.transmit(clock);
        self.collect(now);
        more
    }

    fn transmit(&mut self, clock: &Clock) -> bool {
        for _ in 0..BATCHES_A_TURN {
            self.fill(clock.now());
            if self.outgoing.is_empty() {
                return false;
            }
            match self.socket.send(&mut self.outgoing) {
                Sending::Done => {}
                Sending::Blocked => {
                    self.blocked = true;
                    return false;
                }
                Sending::Refused(error) => self.trouble(error),
            }
        }
        true
    }

    /// Writes packets that may leave now, as many as the kernel takes at once.
    fn fill(&mut self, now: Time) {
        while !self.blocked && !self.outgoing.is_full() && self.push_next(now) {}
    }

    fn push_next(&mut self, now: Time) -> bool {
        if self.push_message() {
            return true;
        }
        let Some(transmit) = self.endpoint.poll_transmit(now) else { return self.push_message() };
        let (packet, len) = (&transmit.packet, usize::from(transmit.packet.payload));
        let stream = self.streams.get(&transmit.connection.number());
        self.outgoing.push(transmit.to, transmit.ecn, |bytes| {
            encode(packet, bytes);
            len == 0 || stream.is_some_and(|stream| stream.outgoing.copy(transmit.offset, len, bytes))
        });
        true
    }

    fn push_message(&mut self) -> bool {
        let Some(message) = self.endpoint.poll_message() else { return false };
        self.outgoing.push(message.to, message.ecn, |bytes| {
            if let Some(message) = &message.message {
                cm_encode(message, bytes);
            }
            bytes.resize(bytes.len() + usize::from(message.payload), 0);
            true
        });
        true
    }

    /// Gives up connections whose peers have been silent for too long.
    fn sweep(&mut self, now: Time) {
        for stream in self.streams.values_mut() {
            if now.since(stream.heard) >= self.limits.patience {
                stream.vanished = true;
                self.endpoint.abort(now, stream.id);
            }
        }
        self.next_sweep = if self.streams.is_empty() { Time::MAX } else { now + self.limits.patience / 8 };
    }

    fn collect(&mut self, now: Time) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                rampmeter_transport::Event::Opened(id, rtt) => self.events.push_back(Event::Opened(id, rtt)),
                rampmeter_transport::Event::Accepted(id, rtt) => {
                    let Some(peer) = self.endpoint.peer(id) else { continue };
                    self.admit(now, id, peer);
                    self.events.push_back(Event::Accepted(id, rtt));
                }
                rampmeter_transport::Event::Hindered(id, why) => self.events.push_back(Event::Hindered(id, why)),
                rampmeter_transport::Event::Closed(id, reason, statistics) => {
                    // One that was never accepted is nobody's concern.
                    let Some(stream) = self.streams.get(&id.number()) else { continue };
                    let ended = match reason {
                        CloseReason::Finished => Ended::Finished,
                        CloseReason::Reset => Ended::Reset,
                        CloseReason::Aborted if !stream.vanished => Ended::Aborted,
                        CloseReason::Aborted | CloseReason::TimedOut => Ended::Vanished,
                    };
                    self.events.push_back(Event::Closed(id, ended, statistics));
                }
            }
        }
    }

    /// Reported once until the application looks, since every packet may meet the same trouble.
    fn trouble(&mut self, error: io::Error) {
        if !self.events.iter().any(|event| matches!(event, Event::Trouble(_))) {
            self.events.push_back(Event::Trouble(error));
        }
    }
}
