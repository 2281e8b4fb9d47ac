//! The engine: one thread with the sockets, the sessions and the connections of all streams.
//!
//! ```text
//! loop { wait for packets, deadlines and the alarm ──► events of the host ──► commands of tasks ──► pipes }
//! ```
//!
//! Its timers are those of the event loop, so paced packets leave on time, however busy the tasks are. `contact` has a
//! client's first contact with its server, `liveness` what it does when the other host is silent, `end` its end.

mod contact;
mod end;
mod liveness;
mod settings;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rampmeter_control::AnyController;
use rampmeter_net::{ContactError, EndReason, Event, EventLoop, Host, HostId, SessionEnd, set_min_timer_slack};
use rampmeter_session::shares::Sharer;
use rampmeter_session::{Goodbye, PublicKey, SessionId};
use rampmeter_trace::End;
use rampmeter_transport::{ConnectionId, State};
use rampmeter_units::{Duration, Time};
use tokio::sync::{mpsc, oneshot, watch};

pub(super) use self::settings::{Settings, Sharers};
use super::dial::{Connected, Dial};
use super::entry::Entry;
use super::error::{StreamEnd, StreamError};
use super::link::{Command, Link, MakeController};
use super::pipe::Pipe;
use super::session::{Degraded, Session};
use super::stream::Stream;

/// The maximum time for the delivery of finished streams when the engine ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// A session of the engine.
struct Member {
    session: Session,
    /// Who has the receive windows of its streams.
    sharer: Option<Sharer>,
    ended: watch::Sender<Option<SessionEnd>>,
    /// Whether the other host answers.
    answers: watch::Sender<bool>,
    /// The last way in which its controller was degraded.
    degraded: watch::Sender<Option<Degraded>>,
    /// Since when a packet of the other host is demanded.
    checked_at: Option<Time>,
    /// Its own controller on each new path, if it is not that of other sessions.
    make_controller: Option<MakeController>,
    /// Connections that are being opened.
    opening: BTreeSet<ConnectionId>,
    /// Connections that are open and have no owner yet.
    spare: VecDeque<ConnectionId>,
    /// Tasks that wait for a stream.
    waiting: VecDeque<oneshot::Sender<Result<Stream, StreamError>>>,
    /// Connections that the other host has opened and that have not ended.
    accepted: BTreeSet<ConnectionId>,
    /// Those of them without a byte so far, which are no streams yet: the other host has opened them in advance.
    silent: BTreeSet<ConnectionId>,
    /// Connections that wait for a place, the longest wait first, and whether they have bytes.
    late: VecDeque<(ConnectionId, bool)>,
}

impl Member {
    /// Streams that have ended need no place any more, although they remain for late packets.
    fn discard_ended(&mut self, host: &Host<AnyController>) {
        let is_open = |id: &ConnectionId| host.endpoint().connection(*id).is_some_and(|c| c.state() == State::Open);
        self.accepted.retain(is_open);
    }

    fn late_mut(&mut self, id: ConnectionId) -> Option<&mut (ConnectionId, bool)> {
        self.late.iter_mut().find(|late| late.0 == id)
    }
}

/// Gives a connection a file in the trace, if there is one.
fn trace_connection(host: &mut Host<AnyController>, settings: &Settings, id: ConnectionId, end: End) {
    let (Some(trace), Some(peer)) = (&settings.trace, host.peer(id)) else { return };
    if let Some(flow) = trace.add(&peer.to_string(), "a connection of rampmeter".to_owned()) {
        host.trace_flow(id, flow, end);
    }
}

pub(super) struct Engine {
    net: EventLoop<AnyController>,
    host: HostId,
    link: Arc<Link>,
    settings: Settings,
    streams: BTreeMap<ConnectionId, Entry>,
    sessions: BTreeMap<SessionId, Member>,
    incoming: mpsc::UnboundedSender<Stream>,
    dial: Option<Dial>,
    /// The server's address, of a client's engine.
    server: Option<SocketAddr>,
    rebound_at: Time,
    next_sweep: Time,
    /// The engine ends at this time at the latest.
    stop_at: Option<Time>,
}

impl Engine {
    pub(super) fn new(
        mut net: EventLoop<AnyController>,
        host: HostId,
        link: Arc<Link>,
        settings: Settings,
        incoming: mpsc::UnboundedSender<Stream>,
    ) -> Self {
        let start = net.now();
        if let (Some(trace), Some(host)) = (&settings.trace, net.host_mut(host)) {
            host.trace(trace.trace(), start);
        }
        Self {
            next_sweep: start + settings.sweep(),
            net,
            host,
            link,
            settings,
            streams: BTreeMap::new(),
            sessions: BTreeMap::new(),
            incoming,
            dial: None,
            server: None,
            rebound_at: Time::ZERO,
            stop_at: None,
        }
    }

    /// The way of commands to it.
    pub(super) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Runs until it is stopped, or the system fails.
    pub(super) fn run(mut self) {
        set_min_timer_slack();
        while !self.is_stopped() {
            if let Err(error) = self.run_once() {
                self.fail_dial(ContactError::System(error));
                break;
            }
        }
        self.end();
    }

    fn run_once(&mut self) -> io::Result<()> {
        let now = self.net.now();
        let until = if self.link.may_wait() { self.next_sweep.min(self.dial_deadline()) } else { now };
        let result = self.net.run_once(until);
        let commands = self.link.take();
        result?;
        while let Some((_, event)) = self.net.poll_event() {
            self.on_event(event);
        }
        for command in commands {
            self.on_command(command);
        }
        let now = self.net.now();
        self.check_dial(now);
        if self.next_sweep <= now {
            self.next_sweep = now + self.settings.sweep();
            self.sweep(now);
        }
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        let Some(at) = self.stop_at else { return false };
        let host = self.net.host(self.host);
        let is_delivering = |(id, entry): (&ConnectionId, &Entry)| host.is_some_and(|h| entry.is_delivering(*id, h));
        at <= self.net.now() || !self.streams.iter().any(is_delivering)
    }

    fn on_event(&mut self, event: Event) {
        let now = self.net.now();
        match event {
            Event::Key(session, key) => self.on_key(now, session, key),
            Event::Moved(session) => self.set_controller(now, session),
            Event::SessionEnded(session, end) => self.on_session_ended(now, session, end),
            Event::Opened(id, rtt) => self.on_opened(id, rtt),
            Event::Accepted(id, _) => self.on_accepted(now, id),
            Event::Readable(id) if !self.streams.contains_key(&id) => self.on_first_bytes(now, id),
            Event::Readable(id) | Event::Writable(id) => self.advance(now, id),
            Event::Closed(id, reason, _) => self.on_closed(now, id, reason),
            Event::SocketError(error) => match &self.dial {
                Some(dial) => {
                    let error = ContactError::reach(dial.address, error);
                    self.try_next_address(now, error);
                }
                None => self.rebind(now),
            },
            Event::Degraded(id, reason) => self.on_degraded(id, reason),
            Event::Datagram(..) => {}
        }
    }

    fn on_command(&mut self, command: Command) {
        let now = self.net.now();
        match command {
            Command::Update(id) => self.advance(now, id),
            Command::Open(session, reply) => match self.sessions.get_mut(&session) {
                Some(member) => {
                    member.waiting.push_back(reply);
                    self.serve_waiting(now, session);
                }
                None => drop(reply),
            },
            Command::Control(session, make) => {
                if let Some(member) = self.sessions.get_mut(&session) {
                    member.make_controller = Some(make);
                    self.set_controller(now, session);
                }
            }
            Command::Check(session) => {
                if let Some(member) = self.sessions.get_mut(&session) {
                    member.checked_at.get_or_insert(now); // the next sweep asks
                }
            }
            Command::Close(session) => {
                self.end_session(session, SessionEnd::Finished);
                if let Some(host) = self.net.host_mut(self.host) {
                    host.disconnect(now, session, Goodbye::Finished);
                }
            }
            Command::Stop => self.stop_at = self.stop_at.or(Some(now + CLOSE_TIMEOUT)),
        }
    }

    /// Gives the session's macroflow the session's own controller, if it has one.
    fn set_controller(&mut self, now: Time, session: SessionId) {
        let stream = self.streams.iter().find(|(_, entry)| entry.session == session).map(|(id, _)| *id);
        let Some(member) = self.sessions.get_mut(&session) else { return };
        let Some(id) = stream.or_else(|| member.spare.front().copied()) else { return };
        let controller = member.make_controller.as_mut().and_then(|make| (make.0)());
        if let (Some(controller), Some(host)) = (controller, self.net.host_mut(self.host)) {
            host.replace_controller(now, id, controller);
        }
    }

    fn advance(&mut self, now: Time, id: ConnectionId) {
        let (Some(entry), Some(host)) = (self.streams.get_mut(&id), self.net.host_mut(self.host)) else { return };
        entry.advance(now, id, host, &self.settings.windows);
    }

    fn add_session(&mut self, id: SessionId, key: PublicKey, address: SocketAddr) {
        let sharer = match self.settings.sharers {
            Sharers::One => None,
            Sharers::Networks => Some(address.ip().into()),
            Sharers::Keys => Some(Sharer::from(key)),
        };
        let (ended, end) = watch::channel(None);
        let (answers, answering) = watch::channel(true);
        let (degraded, degradation) = watch::channel(None);
        let link = Arc::clone(&self.link);
        self.sessions.entry(id).or_insert_with(|| Member {
            session: Session::new(id, key, address, link, end, answering, degradation),
            sharer,
            ended,
            answers,
            degraded,
            checked_at: None,
            make_controller: None,
            opening: BTreeSet::new(),
            spare: VecDeque::new(),
            waiting: VecDeque::new(),
            accepted: BTreeSet::new(),
            silent: BTreeSet::new(),
            late: VecDeque::new(),
        });
    }

    /// A stream of a connection, for its owner.
    fn stream(&mut self, now: Time, session: SessionId, id: ConnectionId) -> Option<Stream> {
        let member = self.sessions.get(&session)?;
        let pipe = Arc::new(Pipe::default());
        let stream = Stream::new(id, member.session.clone(), Arc::clone(&pipe));
        let first_window = self.settings.first_window();
        self.streams.insert(id, Entry::new(now, session, member.sharer, pipe, first_window));
        Some(stream)
    }

    fn on_opened(&mut self, id: ConnectionId, handshake: Duration) {
        let now = self.net.now();
        let mut members = self.sessions.iter_mut();
        let Some((&session, member)) = members.find(|(_, member)| member.opening.contains(&id)) else { return };
        member.opening.remove(&id);
        member.spare.push_back(id);
        if let Some(dial) = self.dial.take() {
            let (session, address, is_new_server) = (member.session.clone(), dial.address, dial.is_new_server);
            drop(dial.reply.send(Ok(Connected { session, address, handshake, is_new_server })));
        }
        self.serve_waiting(now, session);
    }

    /// Gives connections to tasks that wait for them, and opens those that are missing.
    fn serve_waiting(&mut self, now: Time, id: SessionId) {
        loop {
            let Some(member) = self.sessions.get_mut(&id) else { return };
            member.waiting.retain(|reply| !reply.is_closed());
            if member.waiting.is_empty() {
                break;
            }
            let Some(connection) = member.spare.pop_front() else { break };
            let reply = member.waiting.pop_front();
            let stream = self.stream(now, id, connection);
            if let (Some(reply), Some(stream)) = (reply, stream) {
                drop(reply.send(Ok(stream))); // a stream that nobody takes is dropped, and reset
            }
            self.advance(now, connection);
        }
        let spare = if self.server.is_some() { self.settings.spare } else { 0 };
        let Some(host) = self.net.host_mut(self.host) else { return };
        let Some(member) = self.sessions.get_mut(&id) else { return };
        while member.opening.len() + member.spare.len() < member.waiting.len() + spare {
            let opened = Some(()).filter(|()| self.settings.windows.take(member.sharer, self.settings.first_window()));
            let opened = opened.and_then(|()| host.open(now, id, &self.settings.transport));
            if let Some(connection) = opened {
                trace_connection(host, &self.settings, connection, End::Client);
            }
            let Some(connection) = opened else {
                if member.opening.is_empty() {
                    member.waiting.drain(..).for_each(|reply| drop(reply.send(Err(StreamError::TooManyStreams))));
                }
                return;
            };
            member.opening.insert(connection);
        }
    }

    fn on_accepted(&mut self, now: Time, id: ConnectionId) {
        let max_streams = self.settings.max_streams;
        let Some(host) = self.net.host_mut(self.host) else { return };
        let (Some(session), Some(key), Some(peer)) = (host.session(id), host.peer_key(id), host.peer(id)) else {
            return;
        };
        trace_connection(host, &self.settings, id, End::Server);
        let is_stopping = self.stop_at.is_some();
        self.add_session(session, key, peer);
        let (Some(member), Some(host)) = (self.sessions.get_mut(&session), self.net.host(self.host)) else { return };
        if member.accepted.len() >= max_streams {
            member.discard_ended(host);
        }
        let may_wait = member.late.len() < max_streams;
        if may_wait && !is_stopping && self.settings.windows.take(member.sharer, self.settings.first_window()) {
            member.late.push_back((id, false));
            self.place_late(now, session);
            return;
        }
        if let Some(host) = self.net.host_mut(self.host) {
            host.abort(now, id);
        }
    }

    /// Gives free places to connections of a session that wait for one.
    fn place_late(&mut self, now: Time, session: SessionId) {
        while let Some(member) = self.sessions.get_mut(&session) {
            let has_place = member.accepted.len() < self.settings.max_streams;
            // One that was opened in advance can wait.
            let next = member.late.iter().position(|late| late.1).unwrap_or(0);
            let Some((id, has_bytes)) = Some(next).filter(|_| has_place).and_then(|next| member.late.remove(next))
            else {
                return;
            };
            member.accepted.insert(id);
            member.silent.insert(id);
            if has_bytes {
                self.on_first_bytes(now, id);
            }
        }
    }

    /// A connection of the other host has its first bytes, or its end: it is a stream now, or waits for a place.
    fn on_first_bytes(&mut self, now: Time, id: ConnectionId) {
        let Some(session) = self.net.host(self.host).and_then(|host| host.session(id)) else { return };
        if let Some(late) = self.sessions.get_mut(&session).and_then(|member| member.late_mut(id)) {
            late.1 = true;
            return;
        }
        if !self.sessions.get_mut(&session).is_some_and(|member| member.silent.remove(&id)) {
            return;
        }
        if let Some(stream) = self.stream(now, session, id) {
            self.advance(now, id);
            drop(self.incoming.send(stream)); // a stream that nobody takes is dropped, and reset
        }
    }

    fn on_degraded(&self, id: ConnectionId, reason: &'static str) {
        let Some(host) = self.net.host(self.host) else { return };
        let member = host.session(id).and_then(|session| self.sessions.get(&session));
        let flow = host.endpoint().flow(id);
        let controller = flow.and_then(|flow| host.endpoint().manager().controller(flow)).map(AnyController::name);
        if let (Some(member), Some(controller)) = (member, controller) {
            member.degraded.send_replace(Some(Degraded { controller, reason }));
        }
    }

    fn on_closed(&mut self, now: Time, id: ConnectionId, reason: EndReason) {
        if let (Some(entry), Some(host)) = (self.streams.remove(&id), self.net.host_mut(self.host)) {
            let session = entry.session;
            if let Some(member) = self.sessions.get_mut(&session) {
                member.accepted.remove(&id);
            }
            entry.end(now, id, host, &self.settings.windows, reason.into());
            return self.place_late(now, session);
        }
        // A connection without an owner: of a client that dials, or in advance.
        let of = |member: &mut Member| {
            let before = member.spare.len();
            member.spare.retain(|&other| other != id);
            let waiting = member.late.len();
            member.late.retain(|&(other, _)| other != id);
            let is_silent = member.silent.remove(&id) && member.accepted.remove(&id);
            is_silent || member.opening.remove(&id) || member.spare.len() < before || member.late.len() < waiting
        };
        let found =
            self.sessions.iter_mut().find_map(|(session, member)| of(member).then_some((*session, member.sharer)));
        let Some((session, sharer)) = found else { return };
        self.settings.windows.give_back(sharer, self.settings.first_window());
        self.place_late(now, session);
        if let Some(dial) = &self.dial {
            let error = ContactError::no_answer(dial.address);
            return self.try_next_address(now, error);
        }
        // The other host has no place for another stream, or does not answer.
        if let Some(reply) = self.sessions.get_mut(&session).and_then(|member| member.waiting.pop_front()) {
            drop(reply.send(Err(StreamError::TooManyStreams)));
        }
    }

    /// Removes a session.
    fn discard(&mut self, session: SessionId) {
        if let Some(member) = self.sessions.remove(&session) {
            let connections =
                (member.opening.len() + member.spare.len() + member.silent.len() + member.late.len()) as u64;
            self.settings.windows.give_back(member.sharer, self.settings.first_window() * connections);
        }
    }

    fn end_session(&mut self, id: SessionId, end: SessionEnd) {
        let now = self.net.now();
        let of_session = self.streams.values_mut().filter(|entry| entry.session == id);
        of_session.for_each(|entry| entry.set_end(StreamEnd::Session(end)));
        if let Some(member) = self.sessions.get_mut(&id) {
            if let (Some(file), Some(host)) = (&self.settings.history, self.net.host_mut(self.host)) {
                let learnt = host.keep_history(now, id, member.session.address());
                if let Some((destination, history)) = learnt {
                    file.keep(destination, history);
                }
            }
            member.ended.send_replace(Some(end));
            member.waiting.drain(..).for_each(|reply| drop(reply.send(Err(StreamError::Ended(end)))));
            if self.server.is_some() {
                self.stop_at = Some(now); // a client has no other session
            }
        }
        self.discard(id);
    }
}
