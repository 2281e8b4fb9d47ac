//! One host on the wire: an endpoint, its socket, and the streams of its connections.
//!
//! The endpoint decides, the socket sends and receives packets, the streams store bytes; a host connects them. It never
//! waits: a [`crate::EventLoop`] calls it when it is due. An application calls the methods of a host and receives
//! [`Event`]s.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddr;

use rampmeter_control::Controller;
use rampmeter_manager::{Delivery, Share};
use rampmeter_session::{
    Event as SessionEvent, Goodbye, MAX_OVERHEAD, MIN_HELLO_BYTES, PublicKey, SessionId, Sessions,
};
use rampmeter_transport::{CloseReason, Config, Connection, ConnectionId, Endpoint, State, Statistics, Transmit};
use rampmeter_units::{Bytes, Duration, Ecn, Time};
use rampmeter_wire::{CM_VERSION, Kind, Packet, cm_decode, cm_encode, decode, decode_first, encode, encoded_len};

use crate::clock::Clock;
use crate::peer::Peer;
use crate::socket::{ReceiveBatch, SendBatch, SendResult, Socket};
use crate::stream::{Arrivals, Stream, min_write_space, send_space};

/// The maximum number of batches that a host sends or receives before other hosts run.
const BATCHES_A_RUN: usize = 4;

const MIN_SEND_BUFFER: usize = 4096;

/// The maximum size of acknowledgements in one datagram, which every path of QUIC carries (RFC 9000 section 14).
const MAX_ACKS: usize = MIN_HELLO_BYTES - MAX_OVERHEAD;

/// A session without connections and without packets is discarded after one to two of these.
const SESSION_SWEEP: Duration = Duration::from_secs(15);

/// Packets that are due less than this apart may leave together: from 200 Mb/s on in packets of 1250 bytes. To space
/// them one by one takes more time than everything else that a sender does.
const BUNCH: Duration = Duration::from_micros(100);

/// The limits of a host's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The size of a connection's send buffer: bytes not sent and bytes not acknowledged.
    pub send_buffer: usize,
    /// The maximum number of bytes of a connection that are written and not sent. With few of them, what the
    /// application writes next leaves soon.
    pub unsent: usize,
    /// A connection is aborted when its peer has sent nothing for this long; [`Duration::MAX`] for never. A peer
    /// without data is silent, too, so the application's protocol must make peers send, for example heartbeats.
    pub peer_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { send_buffer: 4 << 20, unsent: usize::MAX, peer_timeout: Duration::from_secs(10) }
    }
}

impl Limits {
    /// The free space at which a writer is notified.
    pub(crate) fn min_write_space(&self) -> usize {
        min_write_space(self.send_buffer.min(self.unsent))
    }
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// Both streams were delivered completely.
    Finished,
    /// The peer aborted it.
    Reset,
    /// This end aborted it.
    Aborted,
    /// The peer stopped responding.
    PeerTimeout,
    /// The peer acknowledged what it had not received.
    FalseFeedback,
}

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEnd {
    /// The other host does not have the expected key.
    WrongKey,
    /// This host's key is not on the other host's list.
    NotAuthorized,
    /// The other host has sent and received all that it wanted.
    Finished,
    /// The other host stops.
    Stopping,
    /// The other host was restarted.
    Restarted,
    /// The other host does not answer.
    NoAnswer,
}

/// An event for the application.
#[derive(Debug)]
pub enum Event {
    /// The key of a host that was not known. The application decides whether it opens connections in the session.
    Key(SessionId, PublicKey),
    /// A session has ended, and its connections with it.
    SessionEnded(SessionId, SessionEnd),
    /// A connection that this host opened is established; with the duration of the handshake.
    Opened(ConnectionId, Duration),
    /// A connection that a peer opened is established; with the duration of the handshake.
    Accepted(ConnectionId, Duration),
    /// There are bytes to read, or the peer's stream has ended. Reported once until the application reads.
    Readable(ConnectionId),
    /// There is space to write. Reported once after a write that did not fit.
    Writable(ConnectionId),
    /// A datagram of a peer's datagram flow has arrived: the peer, the delivery and the payload's size.
    Datagram(SocketAddr, Delivery, usize),
    /// A connection's controller is degraded, with the reason ([`Controller::degraded_reason`]). Reported once.
    Degraded(ConnectionId, &'static str),
    /// The connection has ended. Received bytes can be read until the loop's next run.
    Closed(ConnectionId, EndReason, Statistics),
    /// The kernel reports that packets do not reach their peer or cannot be sent. Connections keep trying.
    SocketError(io::Error),
}

/// Acknowledgements for one peer, encoded, which leave in one datagram.
#[derive(Debug, Default)]
struct Acks {
    to: Option<Peer>,
    bytes: Vec<u8>,
}

/// One host.
#[derive(Debug)]
pub struct Host<C> {
    endpoint: Endpoint<C, Peer>,
    /// None if packets are sent in clear.
    sessions: Option<Sessions>,
    socket: Socket,
    limits: Limits,
    /// Streams by the connection's number.
    streams: BTreeMap<u32, Stream>,
    outgoing: SendBatch,
    acks: Acks,
    /// Whether the kernel's send buffer is full; the socket becomes writable when it has space.
    pub(crate) blocked: bool,
    pub(crate) events: VecDeque<Event>,
    next_sweep: Time,
    next_session_sweep: Time,
    /// Whether the last packets read had payload, so that their sender waits for a reply.
    expects_reply: bool,
}

impl<C: Controller> Host<C> {
    /// A host that sends and receives in encrypted sessions through `socket`.
    pub fn new(mut endpoint: Endpoint<C, Peer>, sessions: Sessions, socket: Socket, limits: Limits) -> Self {
        endpoint.allow_bunches(BUNCH);
        let next_session_sweep = Time::ZERO + SESSION_SWEEP;
        Self { sessions: Some(sessions), next_session_sweep, ..Self::in_clear(endpoint, socket, limits) }
    }

    /// A host that sends and receives in clear: for scenarios, whose streams carry no data.
    pub fn in_clear(endpoint: Endpoint<C, Peer>, socket: Socket, limits: Limits) -> Self {
        Self {
            endpoint,
            sessions: None,
            socket,
            limits: Limits { send_buffer: limits.send_buffer.max(MIN_SEND_BUFFER), ..limits },
            streams: BTreeMap::new(),
            outgoing: SendBatch::default(),
            acks: Acks::default(),
            blocked: false,
            events: VecDeque::new(),
            next_sweep: Time::MAX,
            next_session_sweep: Time::MAX,
            expects_reply: false,
        }
    }

    /// Opens a session; `None` if there are too many, or if this host sends in clear. If the other host's key is known,
    /// connections can be opened at once; otherwise after [`Event::Key`].
    pub fn connect(&mut self, now: Time, address: SocketAddr, key: Option<PublicKey>) -> Option<SessionId> {
        self.sessions.as_mut()?.open(now, address, key)
    }

    /// Ends a session with a reason for the other host.
    pub fn disconnect(&mut self, now: Time, session: SessionId, reason: Goodbye) {
        for id in self.connections_of(session) {
            self.endpoint.on_peer_finished(now, id);
        }
        if let Some(sessions) = &mut self.sessions {
            sessions.goodbye(session, reason);
        }
    }

    /// The sessions that have connections.
    fn used_sessions(&self) -> BTreeSet<SessionId> {
        self.streams.values().filter_map(|stream| stream.peer.session_id()).collect()
    }

    /// Ends all sessions because this host stops.
    pub fn disconnect_all(&mut self, now: Time) {
        for session in self.used_sessions() {
            self.disconnect(now, session, Goodbye::Stopping);
        }
    }

    /// Opens a connection in a session; `None` if there are too many, or no such session.
    pub fn open(&mut self, now: Time, session: SessionId, config: &Config) -> Option<ConnectionId> {
        let address = self.sessions.as_ref()?.first_address(session)?;
        self.open_to(now, Peer::session(session, address), config)
    }

    /// Opens a connection in clear; `None` if there are too many.
    pub fn open_in_clear(&mut self, now: Time, peer: SocketAddr, config: &Config) -> Option<ConnectionId> {
        self.open_to(now, peer.into(), config)
    }

    fn open_to(&mut self, now: Time, peer: Peer, config: &Config) -> Option<ConnectionId> {
        let id = self.endpoint.open(now, peer, config)?;
        self.add_stream(now, id, peer);
        Some(id)
    }

    /// Sets the connection's share of its macroflow.
    pub fn share(&mut self, id: ConnectionId, share: Share) {
        self.endpoint.share(id, share);
    }

    fn add_stream(&mut self, now: Time, id: ConnectionId, peer: Peer) {
        self.streams.insert(id.number(), Stream::new(now, id, peer));
        if self.limits.peer_timeout < Duration::MAX {
            self.next_sweep = self.next_sweep.min(now + self.limits.peer_timeout / 8);
        }
    }

    /// Appends as many of `bytes` to the stream as fit into the send buffer. Returns their number. If not all fit,
    /// [`Event::Writable`] follows.
    pub fn write(&mut self, now: Time, id: ConnectionId, bytes: &[u8]) -> usize {
        let send_space = self.send_space(id);
        let Some(stream) = self.streams.get_mut(&id.number()) else { return 0 };
        let count = send_space.min(bytes.len());
        stream.outgoing.write(&bytes[..count]);
        stream.wants_space |= count < bytes.len();
        self.endpoint.write(now, id, count as u64);
        count
    }

    /// The number of bytes that the connection takes now.
    pub fn send_space(&self, id: ConnectionId) -> usize {
        let buffered = self.streams.get(&id.number()).map(|stream| stream.outgoing.len());
        let unsent = self.endpoint.connection(id).map(Connection::unsent);
        buffered.zip(unsent).map_or(0, |(buffered, unsent)| send_space(&self.limits, buffered, unsent))
    }

    /// Whether the free space is large enough for [`Event::Writable`].
    pub fn is_writable(&self, id: ConnectionId) -> bool {
        self.send_space(id) >= self.limits.min_write_space()
    }

    /// Requests [`Event::Writable`] for when there is more space.
    pub fn notify_writable(&mut self, id: ConnectionId) {
        if let Some(stream) = self.streams.get_mut(&id.number()) {
            stream.wants_space = true;
        }
    }

    /// Moves received bytes to the end of `out`. Returns their number.
    pub fn read(&mut self, now: Time, id: ConnectionId, out: &mut impl for<'a> Extend<&'a u8>) -> usize {
        self.read_up_to(now, id, usize::MAX, out)
    }

    /// The same, up to `max` bytes. If more are left, [`Event::Readable`] is not reported before another read.
    pub fn read_up_to(
        &mut self,
        now: Time,
        id: ConnectionId,
        max: usize,
        out: &mut impl for<'a> Extend<&'a u8>,
    ) -> usize {
        let Some(stream) = self.streams.get_mut(&id.number()) else { return 0 };
        let count = stream.read(max, out);
        self.endpoint.consume(now, id, count as u64);
        count
    }

    /// Whether the peer's stream has ended and the application has read all of it.
    pub fn is_read_to_end(&self, id: ConnectionId) -> bool {
        self.streams.get(&id.number()).is_some_and(|stream| stream.ended && stream.consumed == stream.arrived)
    }

    /// Ends this host's stream after the bytes written so far.
    pub fn finish(&mut self, now: Time, id: ConnectionId) {
        self.endpoint.finish(now, id);
    }

    /// Ends this host's stream after the bytes sent so far; unsent bytes are discarded.
    pub fn finish_early(&mut self, now: Time, id: ConnectionId) {
        self.endpoint.finish_early(now, id);
    }

    /// Replaces the controller of the connection's macroflow.
    pub fn replace_controller(&mut self, now: Time, id: ConnectionId, controller: C) {
        self.endpoint.replace_controller(now, id, controller);
    }

    /// Puts a connection into the macroflow of another one of the same session. False if that is not possible.
    pub fn join_macroflow(&mut self, now: Time, id: ConnectionId, other: ConnectionId) -> bool {
        self.session(id) == self.session(other) && self.endpoint.join_macroflow(now, id, other).is_ok()
    }

    /// Aborts a connection.
    pub fn abort(&mut self, now: Time, id: ConnectionId) {
        self.endpoint.abort(now, id);
    }

    /// The peer's address.
    pub fn peer(&self, id: ConnectionId) -> Option<SocketAddr> {
        match self.streams.get(&id.number())?.peer {
            Peer::Clear(address) => Some(address),
            Peer::Session(session, _) => self.sessions.as_ref()?.address(session),
        }
    }

    /// The connection's session; `None` in clear.
    pub fn session(&self, id: ConnectionId) -> Option<SessionId> {
        self.streams.get(&id.number())?.peer.session_id()
    }

    /// Whether the session is open.
    pub fn has_session(&self, session: SessionId) -> bool {
        self.sessions.as_ref().is_some_and(|sessions| sessions.address(session).is_some())
    }

    /// The time since the last packet of a session's connections; `None` without connections.
    pub fn silence(&self, now: Time, session: SessionId) -> Option<Duration> {
        let of_session = self.streams.values().filter(|stream| stream.peer.session_id() == Some(session));
        of_session.map(|stream| now.since(stream.last_received)).min()
    }

    /// Whether connections of the session have bytes in flight.
    pub fn awaits_feedback(&self, session: SessionId) -> bool {
        let in_flight = |id| self.endpoint.connection(id).map_or(Bytes::ZERO, Connection::in_flight);
        self.connections_of(session).into_iter().any(|id| in_flight(id) > Bytes::ZERO)
    }

    /// Sends a packet that the other host of a session answers, in one of its connections.
    pub fn probe(&mut self, now: Time, session: SessionId) {
        let is_open = |id: &ConnectionId| self.endpoint.connection(*id).is_some_and(|c| c.state() == State::Open);
        if let Some(id) = self.connections_of(session).into_iter().find(is_open) {
            self.endpoint.probe(now, id);
        }
    }

    /// The peer's public key.
    pub fn peer_key(&self, id: ConnectionId) -> Option<PublicKey> {
        match self.streams.get(&id.number())?.peer {
            Peer::Clear(_) => None,
            Peer::Session(session, _) => self.sessions.as_ref()?.peer_key(session),
        }
    }

    /// The counts of the peer's packets.
    pub fn arrivals(&self, id: ConnectionId) -> Arrivals {
        self.streams.get(&id.number()).map_or_else(Arrivals::default, |stream| stream.arrivals)
    }

    /// The endpoint, for calls about its datagram flows, whose payload is all zero.
    pub fn endpoint_mut(&mut self) -> &mut Endpoint<C, Peer> {
        &mut self.endpoint
    }

    /// The endpoint, for reading.
    pub fn endpoint(&self) -> &Endpoint<C, Peer> {
        &self.endpoint
    }

    /// The socket.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    pub(crate) fn replace_socket(&mut self, socket: Socket) -> Socket {
        self.blocked = false;
        std::mem::replace(&mut self.socket, socket)
    }

    /// Discards a connection whose `Closed` event the application has received.
    pub(crate) fn discard(&mut self, id: ConnectionId) {
        self.streams.remove(&id.number());
    }

    /// Whether arrivals may stay in the kernel until the next deadline, if that is soon: no window waits for
    /// acknowledgements, and no peer waits for a reply.
    pub(crate) fn can_defer_receiving(&self) -> bool {
        !self.blocked && !self.expects_reply && !self.endpoint.manager().awaits_feedback()
    }

    /// The thread stalled from `since` on ([`Controller::on_stall`]).
    pub(crate) fn on_stall(&mut self, now: Time, since: Time) {
        self.endpoint.on_stall(now, since);
    }

    /// The time at which [`Host::serve`] is due.
    pub(crate) fn deadline(&self) -> Time {
        let sessions = self.sessions.as_ref().map_or(Time::MAX, Sessions::deadline);
        self.endpoint.deadline().min(self.next_sweep).min(self.next_session_sweep).min(sessions)
    }

    /// Receives packets. True if there may be more.
    pub(crate) fn receive(&mut self, clock: &mut Clock, batch: &mut ReceiveBatch) -> bool {
        self.expects_reply = false;
        for _ in 0..BATCHES_A_RUN {
            let more = match self.socket.receive(batch) {
                Ok(more) => more,
                Err(error) => {
                    self.report_socket_error(error);
                    return true;
                }
            };
            for (datagram, packets) in batch.iter_mut() {
                let now = clock.now();
                let arrived_at = datagram.stamp.map_or(now, |stamp| clock.arrival(stamp, now));
                for bytes in packets {
                    self.on_datagram(now, datagram.from, datagram.ecn, arrived_at, bytes);
                    // An acknowledgement has space for few receipts: it is encoded before the next packet is
                    // processed, even if the kernel returned many packets at once.
                    self.acknowledge(now);
                }
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

    fn on_datagram(&mut self, now: Time, from: SocketAddr, ecn: Ecn, arrived_at: Time, bytes: &mut [u8]) {
        let Some(sessions) = &mut self.sessions else {
            return self.on_clear_datagram(now, from, ecn, arrived_at, bytes);
        };
        let opened = sessions.receive(now, from, bytes);
        let address = opened.as_ref().and_then(|opened| sessions.first_address(opened.session));
        self.on_session_events(now);
        let (Some(opened), Some(address)) = (opened, address) else { return };
        let peer = Peer::session(opened.session, address);
        let mut rest = &bytes[opened.bytes];
        while let Ok((packet, payload, others)) = decode_first(rest) {
            self.on_packet(now, peer, ecn, arrived_at, &packet, payload);
            rest = others;
        }
    }

    fn on_clear_datagram(&mut self, now: Time, from: SocketAddr, ecn: Ecn, arrived_at: Time, bytes: &[u8]) {
        if bytes.first().is_some_and(|first| first >> 4 == CM_VERSION) {
            return self.on_message(now, from, ecn, bytes);
        }
        if let Ok((packet, payload)) = decode(bytes) {
            self.on_packet(now, from.into(), ecn, arrived_at, &packet, payload);
        }
    }

    fn on_packet(&mut self, now: Time, from: Peer, ecn: Ecn, arrived_at: Time, packet: &Packet, payload: &[u8]) {
        self.expects_reply |= packet.kind != Kind::Data || packet.payload > 0 || packet.ping;
        let accepted = self.endpoint.receive(now, from, packet, ecn, arrived_at);
        self.collect(now); // a packet may open the connection that its payload is for
        if packet.kind == Kind::Syn {
            return;
        }
        let Some(stream) = self.streams.get_mut(&packet.connection).filter(|stream| stream.peer == from) else {
            return;
        };
        if let Some(accepted) = accepted {
            stream.incoming.store(accepted.offset, &payload[accepted.skip..][..accepted.len]);
        }
        let Some(connection) = self.endpoint.connection(stream.id) else { return };
        let events = stream.on_packet(now, packet, connection, &self.limits);
        self.events.extend(events.into_iter().flatten());
    }

    fn on_session_events(&mut self, now: Time) {
        while let Some(event) = self.sessions.as_mut().and_then(Sessions::poll_event) {
            let (session, end) = match event {
                SessionEvent::Key(session, key) => {
                    self.events.push_back(Event::Key(session, key));
                    continue;
                }
                SessionEvent::Moved(session, before) => {
                    self.on_moved(now, session, before);
                    continue;
                }
                // Its opener never proved its address, so there are no streams.
                SessionEvent::Discarded(_) => continue,
                SessionEvent::WrongKey(session) => (session, SessionEnd::WrongKey),
                SessionEvent::Goodbye(session, Goodbye::NotAuthorized) => (session, SessionEnd::NotAuthorized),
                SessionEvent::Goodbye(session, Goodbye::Stopping) => (session, SessionEnd::Stopping),
                SessionEvent::Goodbye(session, Goodbye::Finished) => (session, SessionEnd::Finished),
                SessionEvent::Reset(session) => (session, SessionEnd::Restarted),
                SessionEvent::NoAnswer(session) => (session, SessionEnd::NoAnswer),
            };
            self.end(now, session, end);
            if let Some(sessions) = &mut self.sessions {
                sessions.discard(session);
            }
        }
    }

    /// The connections of a session, oldest first.
    fn connections_of(&self, session: SessionId) -> Vec<ConnectionId> {
        let is_of = |peer: &Peer| matches!(peer, Peer::Session(id, _) if *id == session);
        self.streams.values().filter(|stream| is_of(&stream.peer)).map(|stream| stream.id).collect()
    }

    /// Ends the connections of a session. The event for the application comes before those of the connections.
    fn end(&mut self, now: Time, session: SessionId, end: SessionEnd) {
        self.events.push_back(Event::SessionEnded(session, end));
        for id in self.connections_of(session) {
            match end {
                SessionEnd::Finished => self.endpoint.on_peer_finished(now, id),
                _ => self.endpoint.abort(now, id),
            }
        }
    }

    /// The other host of a session has another address. With another port only, as after a restart of a NAT, the path
    /// is most likely the same (RFC 9000 section 9.4).
    fn on_moved(&mut self, now: Time, session: SessionId, before: SocketAddr) {
        let address = self.sessions.as_ref().and_then(|sessions| sessions.address(session));
        if address.is_none_or(|address| address.ip() == before.ip()) {
            return;
        }
        for id in self.connections_of(session) {
            self.endpoint.on_new_path(now, id);
        }
    }

    /// A message of another Congestion Manager, or a datagram with its header.
    fn on_message(&mut self, now: Time, from: SocketAddr, ecn: Ecn, bytes: &[u8]) {
        let Ok((message, payload)) = cm_decode(bytes) else { return };
        self.expects_reply = true;
        let delivery = self.endpoint.receive_message(now, from.into(), &message, payload.len(), ecn);
        self.events.extend(delivery.map(|delivery| Event::Datagram(from, delivery, payload.len())));
    }

    /// Runs what is due and sends packets. True if more is left than one host may send in a run.
    pub(crate) fn serve(&mut self, clock: &Clock) -> bool {
        let now = clock.now();
        if self.next_sweep <= now {
            self.sweep(now);
        }
        if self.next_session_sweep <= now {
            self.sweep_sessions(now);
        }
        if let Some(sessions) = self.sessions.as_mut().filter(|sessions| sessions.deadline() <= now) {
            sessions.on_deadline(now);
            self.on_session_events(now);
        }
        if self.endpoint.deadline() <= now {
            self.endpoint.on_deadline(now);
        }
        let more = self.transmit(clock);
        self.collect(now);
        more
    }

    fn transmit(&mut self, clock: &Clock) -> bool {
        for _ in 0..BATCHES_A_RUN {
            self.fill(clock.now());
            if self.outgoing.is_empty() {
                return false;
            }
            match self.socket.send(&mut self.outgoing) {
                SendResult::Done => {}
                SendResult::Blocked => {
                    self.blocked = true;
                    return false;
                }
                SendResult::Refused(error) => self.report_socket_error(error),
            }
        }
        true
    }

    /// Encodes packets that may be sent now, up to a full batch.
    fn fill(&mut self, now: Time) {
        self.acknowledge(now);
        self.seal_acks(now);
        while !self.blocked && !self.outgoing.is_full() && self.push_next(now) {}
    }

    /// Encodes the acknowledgements that are due. Those of one session leave together, in few datagrams.
    fn acknowledge(&mut self, now: Time) {
        while !self.blocked {
            let Some(transmit) = self.endpoint.poll_control(now) else { break };
            if matches!(transmit.to, Peer::Clear(_)) || transmit.packet.kind != Kind::Data {
                self.push(now, &transmit);
                continue;
            }
            let len = self.acks.bytes.len() + encoded_len(&transmit.packet);
            if self.acks.to != Some(transmit.to) || len > MAX_ACKS {
                self.seal_acks(now);
            }
            self.acks.to = Some(transmit.to);
            encode(&transmit.packet, &mut self.acks.bytes);
        }
    }

    /// Adds the encoded acknowledgements to the packets to send.
    fn seal_acks(&mut self, now: Time) {
        let (Some(Peer::Session(session, _)), Some(sessions)) = (self.acks.to.take(), &mut self.sessions) else {
            return;
        };
        let acks = &self.acks.bytes;
        self.outgoing.push(Ecn::NotEct, |bytes| {
            sessions.seal(now, session, bytes, |bytes| {
                bytes.extend_from_slice(acks);
                true
            })
        });
        self.acks.bytes.clear();
    }

    fn push_next(&mut self, now: Time) -> bool {
        if let Some((to, datagram)) = self.sessions.as_mut().and_then(Sessions::poll_transmit) {
            self.outgoing.push(Ecn::NotEct, |bytes| {
                bytes.extend(datagram);
                Some(to)
            });
            return true;
        }
        if self.push_message() {
            return true;
        }
        let Some(transmit) = self.endpoint.poll_transmit(now) else { return self.push_message() };
        self.push(now, &transmit);
        true
    }

    /// Encodes and seals a packet.
    fn push(&mut self, now: Time, transmit: &Transmit<Peer>) {
        let (packet, len) = (&transmit.packet, usize::from(transmit.packet.payload));
        let stream = self.streams.get(&transmit.connection.number());
        let write = |bytes: &mut Vec<u8>| {
            encode(packet, bytes);
            len == 0 || stream.is_some_and(|stream| stream.outgoing.copy(transmit.offset, len, bytes))
        };
        self.outgoing.push(transmit.ecn, |bytes| match (transmit.to, &mut self.sessions) {
            (Peer::Clear(address), _) => write(bytes).then_some(address),
            (Peer::Session(session, _), sessions) => sessions.as_mut()?.seal(now, session, bytes, write),
        });
    }

    fn push_message(&mut self) -> bool {
        let Some(message) = self.endpoint.poll_message() else { return false };
        self.outgoing.push(message.ecn, |bytes| {
            if let Some(message) = &message.message {
                cm_encode(message, bytes);
            }
            bytes.resize(bytes.len() + usize::from(message.payload), 0);
            match message.to {
                Peer::Clear(address) => Some(address),
                Peer::Session(..) => None,
            }
        });
        true
    }

    /// Discards sessions that have no connection and have been silent for a while.
    fn sweep_sessions(&mut self, now: Time) {
        self.next_session_sweep = now + SESSION_SWEEP;
        let used = self.used_sessions();
        let Some(sessions) = &mut self.sessions else { return };
        let unused: Vec<_> = sessions.silent_for(now, SESSION_SWEEP).filter(|id| !used.contains(id)).collect();
        for id in unused {
            sessions.discard(id);
        }
    }

    /// Aborts connections whose peers have sent nothing for too long.
    fn sweep(&mut self, now: Time) {
        for stream in self.streams.values_mut() {
            if now.since(stream.last_received) >= self.limits.peer_timeout {
                stream.timed_out = true;
                self.endpoint.abort(now, stream.id);
            }
        }
        self.next_sweep = if self.streams.is_empty() { Time::MAX } else { now + self.limits.peer_timeout / 8 };
    }

    fn collect(&mut self, now: Time) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                rampmeter_transport::Event::Opened(id, rtt) => self.events.push_back(Event::Opened(id, rtt)),
                rampmeter_transport::Event::Accepted(id, rtt) => {
                    let Some(peer) = self.endpoint.peer(id) else { continue };
                    self.add_stream(now, id, peer);
                    self.events.push_back(Event::Accepted(id, rtt));
                }
                rampmeter_transport::Event::Degraded(id, reason) => self.events.push_back(Event::Degraded(id, reason)),
                rampmeter_transport::Event::Closed(id, reason, statistics) => {
                    // A connection that was never accepted has no stream and no event.
                    let Some(stream) = self.streams.get(&id.number()) else { continue };
                    let ended = match reason {
                        CloseReason::Finished => EndReason::Finished,
                        CloseReason::Reset => EndReason::Reset,
                        CloseReason::Aborted if !stream.timed_out => EndReason::Aborted,
                        CloseReason::FalseFeedback => EndReason::FalseFeedback,
                        CloseReason::Aborted | CloseReason::TimedOut => EndReason::PeerTimeout,
                    };
                    self.events.push_back(Event::Closed(id, ended, statistics));
                }
            }
        }
    }

    /// Reports an error once until the application reads it, since every packet may cause the same one.
    fn report_socket_error(&mut self, error: io::Error) {
        if !self.events.iter().any(|event| matches!(event, Event::SocketError(_))) {
            self.events.push_back(Event::SocketError(error));
        }
    }
}
