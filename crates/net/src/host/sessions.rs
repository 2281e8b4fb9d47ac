//! The sessions of a host, each with its connections.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use rampmeter_control::Controller;
use rampmeter_session::{Event as SessionEvent, Goodbye, MIN_HELLO_BYTES, PublicKey, SessionId, Sessions};
use rampmeter_transport::{CloseReason, Connection, ConnectionId, State};
use rampmeter_units::{Bytes, Duration, Time};
use rampmeter_wire::UDP_BYTES;

use super::{Event, Host, SessionEnd, log};
use crate::access::Access;
use crate::peer::Peer;
use crate::socket::max_payload;

/// A session without connections and without packets is discarded after one to two of these.
pub(super) const SESSION_SWEEP: Duration = Duration::from_secs(15);

/// The same, when there is no place for another one.
const MIN_SESSION_SWEEP: Duration = Duration::from_secs(1);

impl<C: Controller> Host<C> {
    /// Opens a session; `None` if there are too many, or if this host sends in clear. If the other host's key is known,
    /// connections can be opened at once; otherwise after [`Event::Key`].
    pub fn connect(&mut self, now: Time, address: SocketAddr, key: Option<PublicKey>) -> Option<SessionId> {
        self.sessions.as_mut()?.open(now, address, key)
    }

    /// Ends a session with a reason for the other host.
    pub fn disconnect(&mut self, now: Time, session: SessionId, reason: Goodbye) {
        self.end_connections(now, session, CloseReason::Finished);
        self.say_goodbye(session, reason);
    }

    /// Tells the other host of a session that [`Host::disconnect`] follows.
    pub fn announce_disconnect(&mut self, session: SessionId, reason: Goodbye) {
        if let Some(sessions) = &mut self.sessions {
            sessions.announce_goodbye(session, reason);
        }
    }

    /// Ends a session whose other host does not answer.
    pub fn end_unanswered(&mut self, now: Time, session: SessionId) {
        self.end_connections(now, session, CloseReason::TimedOut);
        self.say_goodbye(session, Goodbye::Finished);
    }

    fn say_goodbye(&mut self, session: SessionId, reason: Goodbye) {
        if let Some(sessions) = &mut self.sessions {
            sessions.goodbye(session, reason);
        }
    }

    fn end_connections(&mut self, now: Time, session: SessionId, reason: CloseReason) {
        for id in self.connections_of(session) {
            self.endpoint.end(now, id, reason);
        }
    }

    /// Serves the clients of `access`, whatever they are later.
    pub fn serve_clients(&mut self, access: Access) {
        self.access = Some(access);
    }

    /// Ends the sessions of clients that are no longer listed. To be called about once a second.
    pub fn check_clients(&mut self, now: Time) {
        let Some(clients) = self.access.as_ref().and_then(|access| access.changed(&mut self.access_seen)) else {
            return;
        };
        let revoked = self.sessions.as_mut().map(|sessions| sessions.set_clients(clients)).unwrap_or_default();
        for session in revoked {
            self.end(now, session, SessionEnd::NotAuthorized);
            self.say_goodbye(session, Goodbye::NotAuthorized);
        }
    }

    /// The sessions that have connections.
    fn used_sessions(&self) -> BTreeSet<SessionId> {
        self.streams.values().filter_map(|stream| stream.peer.session_id()).collect()
    }

    /// The connections of a session, oldest first.
    fn connections_of(&self, session: SessionId) -> Vec<ConnectionId> {
        let is_of = |peer: &Peer| matches!(peer, Peer::Session(id, _) if *id == session);
        self.streams.values().filter(|stream| is_of(&stream.peer)).map(|stream| stream.id).collect()
    }

    /// Whether the session is open.
    pub fn has_session(&self, session: SessionId) -> bool {
        self.sessions.as_ref().is_some_and(|sessions| sessions.address(session).is_some())
    }

    /// The time since the last packet of a session; `None` without connections.
    pub fn silence(&self, now: Time, session: SessionId) -> Option<Duration> {
        let is_used = self.streams.values().any(|stream| stream.peer.session_id() == Some(session));
        self.sessions.as_ref().filter(|_| is_used)?.silence(now, session)
    }

    /// Whether connections of the session have bytes in flight.
    pub fn awaits_feedback(&self, session: SessionId) -> bool {
        let in_flight = |id| self.endpoint.connection(id).map_or(Bytes::ZERO, Connection::in_flight);
        self.connections_of(session).into_iter().any(|id| in_flight(id) > Bytes::ZERO)
    }

    /// Retransmits at once what waits in connections of a session, whose path may carry packets again.
    pub fn retry(&mut self, now: Time, session: SessionId) {
        for id in self.connections_of(session) {
            self.endpoint.retry(now, id);
        }
    }

    /// Sends a packet that the other host of a session answers, in one of its connections.
    pub fn probe(&mut self, now: Time, session: SessionId) {
        let is_open = |id: &ConnectionId| self.endpoint.connection(*id).is_some_and(|c| c.state() == State::Open);
        if let Some(id) = self.connections_of(session).into_iter().find(is_open) {
            self.endpoint.probe(now, id);
        }
    }

    pub(super) fn on_session_events(&mut self, now: Time) {
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
                SessionEvent::Refused(from, key, why) => {
                    self.log.refused(now, from, key, why);
                    continue;
                }
                SessionEvent::Full => {
                    self.make_room(now);
                    continue;
                }
                SessionEvent::Denied(session, why) => (session, SessionEnd::Denied(why)),
                SessionEvent::Goodbye(session, Goodbye::NotAuthorized) => (session, SessionEnd::NotAuthorized),
                SessionEvent::Goodbye(session, Goodbye::Stopping) => (session, SessionEnd::Stopping),
                SessionEvent::Goodbye(session, Goodbye::Finished) => (session, SessionEnd::Finished),
                SessionEvent::Goodbye(session, Goodbye::Busy) => (session, SessionEnd::Busy),
                SessionEvent::Reset(session) => (session, SessionEnd::Restarted),
                SessionEvent::NoAnswer(session) => (session, SessionEnd::NoAnswer),
            };
            self.end(now, session, end);
            if let Some(sessions) = &mut self.sessions {
                sessions.discard(session);
            }
        }
    }

    /// Ends the connections of a session. The event for the application comes before those of the connections.
    fn end(&mut self, now: Time, session: SessionId, end: SessionEnd) {
        self.events.push_back(Event::SessionEnded(session, end));
        let reason = match end {
            SessionEnd::Finished => CloseReason::Finished,
            SessionEnd::NoAnswer => CloseReason::TimedOut,
            _ => CloseReason::Aborted,
        };
        self.end_connections(now, session, reason);
    }

    /// The other host of a session has another address. With another port only, as after a restart of a NAT, the path
    /// is most likely the same (RFC 9000 section 9.4).
    fn on_moved(&mut self, now: Time, session: SessionId, before: SocketAddr) {
        let address = self.sessions.as_ref().and_then(|sessions| sessions.address(session));
        let key = self.sessions.as_ref().and_then(|sessions| sessions.peer_key(session));
        let client = key.zip(self.access.as_ref()).map(|(key, access)| access.label(key));
        self.log.moved(now, client.as_deref(), before, address);
        let moved = self.streams.values_mut().filter(|stream| stream.peer.session_id() == Some(session));
        moved.for_each(|stream| stream.address = address);
        self.retry(now, session); // what went to the address before is lost
        if address.is_none_or(|address| address.ip() == before.ip()) {
            return;
        }
        for id in self.connections_of(session) {
            self.endpoint.on_new_path(now, id);
            self.limit_packet_size(id);
        }
        self.degraded.remove(&session);
        self.events.push_back(Event::Moved(session));
    }

    /// Packets of the connection are not larger than the interface to its peer takes.
    pub(super) fn limit_packet_size(&mut self, id: ConnectionId) {
        let Some(address) = self.peer(id) else { return };
        self.endpoint.limit_packet_size(id, || {
            let payload = max_payload(address).unwrap_or(MIN_HELLO_BYTES);
            Bytes::new((payload + UDP_BYTES) as u64)
        });
    }

    /// Discards unused sessions early, once a second at most, because another host has got no place.
    fn make_room(&mut self, now: Time) {
        let last_sweep = self.next_session_sweep - SESSION_SWEEP;
        if now.since(last_sweep) >= MIN_SESSION_SWEEP {
            self.sweep_sessions(now, MIN_SESSION_SWEEP);
        }
    }

    /// Discards sessions of other hosts that have no connection and have been silent for `time`.
    pub(super) fn sweep_sessions(&mut self, now: Time, time: Duration) {
        self.next_session_sweep = now + SESSION_SWEEP;
        let used = self.used_sessions();
        let Some(sessions) = &mut self.sessions else { return };
        let unused: Vec<_> = sessions.silent_for(now, time).filter(|id| !used.contains(id)).collect();
        log::discarded(unused.len());
        for id in unused {
            sessions.discard(id);
        }
        self.degraded.retain(|&id, _| sessions.address(id).is_some());
    }
}
