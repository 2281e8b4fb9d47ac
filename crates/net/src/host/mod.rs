//! One host on the wire: an endpoint, its socket, and the streams of its connections.
//!
//! The endpoint decides, the socket sends and receives packets, the streams store bytes; a host connects them. It never
//! waits: a [`crate::EventLoop`] calls it when it is due. An application calls the methods of a host and receives
//! [`Event`]s.
//!
//! ```text
//! host             what an application calls, and what is due
//! host/receive     datagrams from the socket     host/send    packets to the socket
//! host/sessions    encrypted sessions            host/event   what the application learns
//! host/status      what an operator learns       host/log     one line for each connection
//! ```

mod event;
mod log;
mod receive;
mod send;
mod sessions;
pub(crate) mod status;
mod tracing;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddr;

pub use event::{EndReason, Event, SessionEnd};
pub use log::LineLimit;
use log::Log;
use rampmeter_control::{Controller, History};
use rampmeter_manager::{Destination, Share};
use rampmeter_session::{PublicKey, SessionId, Sessions};
use rampmeter_trace::Cause;
use rampmeter_transport::{Address, Config, ConnectionId, Endpoint, Event as TransportEvent};
use rampmeter_units::{Bytes, Duration, Time};
use send::Acks;
use sessions::SESSION_SWEEP;
use tracing::Tracing;

use crate::access::Access;
use crate::clock::Clock;
use crate::peer::Peer;
use crate::socket::{SendBatch, Socket};
use crate::stream::{Arrivals, Stream, min_write_space};

/// The maximum number of batches that a host sends or receives before other hosts run.
const BATCHES_A_RUN: usize = 4;

const MIN_SEND_BUFFER: usize = 4096;

/// Packets that are due less than half of this apart may leave together, for this long at their rate: from 120 Mb/s on
/// in packets of 1500 bytes. To space them one by one takes more time than everything else that a sender does.
const BUNCH: Duration = Duration::from_micros(200);

/// The largest receive window, and the largest send buffer: 1 Gb/s over 130 ms.
pub const MAX_WINDOW: Bytes = Bytes::new(16 << 20);

/// The limits of a host's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The size of a connection's send buffer: bytes not sent and bytes not acknowledged. [`Host::extend_send_buffer`] makes
    /// those larger that limit a rate.
    pub send_buffer: usize,
    /// The maximum number of bytes of a connection that are written and not sent. With few of them, what the
    /// application writes next leaves soon.
    pub unsent: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { send_buffer: 4 << 20, unsent: 1 << 20 }
    }
}

impl Limits {
    /// The free space at which a writer is notified.
    pub(crate) fn min_write_space(&self) -> usize {
        min_write_space(self.send_buffer.min(self.unsent))
    }
}

/// One host.
#[derive(Debug)]
pub struct Host<C> {
    endpoint: Endpoint<C, Peer>,
    /// None if packets are sent in clear, by scenarios only.
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
    /// Bytes of UDP payload received.
    received_bytes: u64,
    /// The reasons for which controllers were degraded that have been reported for each session.
    degraded: BTreeMap<SessionId, BTreeSet<&'static str>>,
    log: Log,
    /// The clients of a server.
    access: Option<Access>,
    access_seen: u64,
    next_session_sweep: Time,
    /// Whether the last packets read had payload, so that their sender waits for a reply.
    expects_reply: bool,
    tracing: Option<Box<Tracing>>,
}
impl<C: Controller> Host<C> {
    /// A host that sends and receives in encrypted sessions through `socket`.
    pub fn new(endpoint: Endpoint<C, Peer>, sessions: Sessions, socket: Socket, limits: Limits) -> Self {
        let next_session_sweep = Time::ZERO + SESSION_SWEEP;
        Self { sessions: Some(sessions), next_session_sweep, ..Self::without_sessions(endpoint, socket, limits) }
    }

    /// A host that sends and receives in clear: for scenarios, whose streams carry no data.
    #[cfg(feature = "clear")]
    pub fn in_clear(endpoint: Endpoint<C, Peer>, socket: Socket, limits: Limits) -> Self {
        Self::without_sessions(endpoint, socket, limits)
    }

    fn without_sessions(mut endpoint: Endpoint<C, Peer>, socket: Socket, limits: Limits) -> Self {
        endpoint.allow_bunches(BUNCH);
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
            received_bytes: 0,
            degraded: BTreeMap::new(),
            log: Log::default(),
            access: None,
            access_seen: 0,
            next_session_sweep: Time::MAX,
            expects_reply: false,
            tracing: None,
        }
    }

    /// Opens a connection in a session; `None` if there are too many, or no such session.
    pub fn open(&mut self, now: Time, session: SessionId, config: &Config) -> Option<ConnectionId> {
        let address = self.sessions.as_ref()?.first_address(session)?;
        self.open_to(now, Peer::session(session, address), config)
    }

    /// Opens a connection in clear; `None` if there are too many, or if this host sends in sessions.
    #[cfg(feature = "clear")]
    pub fn open_in_clear(&mut self, now: Time, peer: SocketAddr, config: &Config) -> Option<ConnectionId> {
        if self.sessions.is_some() {
            return None;
        }
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
        let address = match peer {
            Peer::Clear(address) => Some(address),
            Peer::Session(session, _) => self.sessions.as_ref().and_then(|sessions| sessions.address(session)),
        };
        let key = peer.session_id().and_then(|session| self.sessions.as_ref()?.peer_key(session));
        let client = key.zip(self.access.as_ref()).map(|(key, access)| access.label(key));
        self.streams.insert(id.number(), Stream::new(now, id, peer, address, client, self.limits.send_buffer));
    }

    /// Appends as many of `bytes` to the stream as fit into the send buffer. Returns their number. If not all fit,
    /// [`Event::Writable`] follows.
    pub fn write(&mut self, now: Time, id: ConnectionId, bytes: &[u8]) -> usize {
        let send_space = self.send_space(id);
        let Some(stream) = self.streams.get_mut(&id.number()) else { return 0 };
        let count = send_space.min(bytes.len());
        stream.outgoing.write(&bytes[..count]);
        stream.wants_space |= count < bytes.len();
        self.trace_cause(Cause::Application);
        self.endpoint.write(now, id, count as u64);
        count
    }

    /// The number of bytes that the connection takes now.
    pub fn send_space(&self, id: ConnectionId) -> usize {
        let stream = self.streams.get(&id.number()).zip(self.endpoint.connection(id));
        stream.map_or(0, |(stream, connection)| stream.send_space(connection, &self.limits))
    }

    /// Whether the send buffer has too little space for [`Event::Writable`], so that the bytes in it limit the rate.
    pub fn is_full(&self, id: ConnectionId) -> bool {
        let stream = self.streams.get(&id.number());
        stream.is_some_and(|stream| stream.buffer_space() < self.limits.min_write_space())
    }

    /// Makes the send buffer of a connection larger by `more` bytes.
    pub fn extend_send_buffer(&mut self, id: ConnectionId, more: usize) {
        if let Some(stream) = self.streams.get_mut(&id.number()) {
            stream.send_buffer += more;
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

    /// What a session that began at `address` has shown of its path, of what the sessions after it begin with.
    pub fn keep_history(
        &mut self,
        now: Time,
        session: SessionId,
        address: SocketAddr,
    ) -> Option<(Destination, History)> {
        let peer = Peer::session(session, address);
        let history = self.endpoint.manager().history_of(now, peer.session(), peer.destination())?;
        self.endpoint.keep_history(now, peer.destination(), history);
        Some((peer.destination(), history))
    }

    /// The connection's session; `None` in clear.
    pub fn session(&self, id: ConnectionId) -> Option<SessionId> {
        self.streams.get(&id.number())?.peer.session_id()
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

    /// The thread stalled from `since` on ([`Notice::Stall`](rampmeter_control::Notice::Stall)).
    pub(crate) fn on_stall(&mut self, now: Time, since: Time) {
        self.endpoint.on_stall(now, since);
    }

    /// The time at which [`Host::serve`] is due.
    pub(crate) fn deadline(&self) -> Time {
        let sessions = self.sessions.as_ref().map_or(Time::MAX, Sessions::deadline);
        self.endpoint.deadline().min(self.next_session_sweep).min(sessions)
    }

    /// Runs what is due and sends packets. True if more is left than one host may send in a run.
    pub(crate) fn serve(&mut self, clock: &Clock) -> bool {
        let now = clock.now();
        if self.next_session_sweep <= now {
            self.sweep_sessions(now, SESSION_SWEEP);
        }
        if let Some(sessions) = self.sessions.as_mut().filter(|sessions| sessions.deadline() <= now) {
            sessions.on_deadline(now);
            self.on_session_events(now);
        }
        if self.endpoint.deadline() <= now {
            self.endpoint.on_deadline(now);
            self.trace_deadline(now);
        }
        let more = self.transmit(clock);
        self.collect(now);
        more
    }

    fn collect(&mut self, now: Time) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                TransportEvent::Opened(id, rtt) => {
                    self.limit_packet_size(id);
                    self.events.push_back(Event::Opened(id, rtt));
                }
                TransportEvent::Accepted(id, rtt) => {
                    let Some(peer) = self.endpoint.peer(id) else { continue };
                    self.add_stream(now, id, peer);
                    self.limit_packet_size(id);
                    if let Some(stream) = self.streams.get(&id.number()) {
                        self.log.accepted(now, stream, rtt);
                    }
                    self.events.push_back(Event::Accepted(id, rtt));
                }
                TransportEvent::Degraded(id, reason) => self.on_degraded(now, id, reason),
                TransportEvent::Closed(id, reason, statistics) => {
                    // A connection that was never accepted has no stream and no event.
                    let Some(stream) = self.streams.get(&id.number()) else { continue };
                    let ended = EndReason::from(reason);
                    self.log.ended(now, stream, &statistics, ended);
                    self.events.push_back(Event::Closed(id, ended, statistics));
                }
            }
        }
    }

    /// Connections of a session share a path, so a reason is reported for one of them only.
    fn on_degraded(&mut self, now: Time, id: ConnectionId, reason: &'static str) {
        let is_new = self.session(id).is_none_or(|session| self.degraded.entry(session).or_default().insert(reason));
        if is_new {
            self.log.degraded(now, self.streams.get(&id.number()), reason);
            self.events.push_back(Event::Degraded(id, reason));
        }
    }

    /// Reports an error once until the application reads it, since every packet may cause the same one.
    fn report_socket_error(&mut self, error: io::Error) {
        if !self.events.iter().any(|event| matches!(event, Event::SocketError(_))) {
            self.events.push_back(Event::SocketError(error));
        }
    }
}
