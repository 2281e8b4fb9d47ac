//! All sessions of one host.
//!
//! ```text
//! datagram in   ──► receive ──► the place of the transport's packets in it, opened
//! packet out    ──► seal    ──► a datagram, appended to the caller's buffer
//! then          ──► poll_transmit: what the sessions send themselves; poll_event
//!
//! sessions/initiator    sessions that this host opens
//! sessions/responder    sessions that other hosts open, and what limits them
//! sessions/renewal      other keys for an open session
//! ```

mod initiator;
mod renewal;
mod responder;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::ops::Range;

use rampmeter_units::{Duration, Time};
use rampmeter_wire::unwrap;
use rand::RngCore;
pub(crate) use responder::{HELLOS_A_SECOND, HELLOS_WITH_COOKIE_A_SECOND, REFUSALS_A_SECOND};
pub use responder::{Openers, Refusal};

pub(crate) use self::renewal::Renewals;
use crate::datagram::{self, Datagram, Denial, MAX_OVERHEAD, RESET_BYTES, SEALED_HEADER, sealed_header};
use crate::frame::{Challenge, Frame, Goodbye};
use crate::group::Member;
use crate::key::{KeyPair, PublicKey};
use crate::purpose::{Name, Purpose};
use crate::route::Route;
use crate::seal::{MAX_FORGED, Suite};
use crate::session::{Session, SessionId, Stage};
use crate::stateless::Stateless;

/// Resets sent a second.
pub(crate) const RESETS_A_SECOND: f64 = 100.0;

/// The maximum size of a packet in a `Hello`.
const MAX_EARLY: usize = 512;

/// The size of a datagram with a challenge or a response.
const CHALLENGE_BYTES: usize = MAX_OVERHEAD + 1 + size_of::<Challenge>();

/// Which hosts may open sessions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Clients {
    /// None: this host only opens sessions itself.
    #[default]
    None,
    /// All.
    Anyone,
    /// Those with one of these keys.
    Listed(BTreeSet<PublicKey>),
}

impl Clients {
    fn allow(&self, key: PublicKey) -> bool {
        match self {
            Self::None => false,
            Self::Anyone => true,
            Self::Listed(keys) => keys.contains(&key),
        }
    }
}

/// The settings of a host's sessions.
#[derive(Debug)]
pub struct Config {
    /// The host's own key.
    pub own: KeyPair,
    /// What the sessions are for, that this host opens. Other hosts must ask for the same service.
    pub purpose: Purpose,
    /// The names that other hosts may ask for; `None` for any.
    pub names: Option<BTreeSet<Name>>,
    /// The port that other hosts reach this one at.
    pub port: u16,
    /// Which hosts may open sessions.
    pub clients: Clients,
    /// The AEAD of the sessions that this host opens.
    pub suite: Suite,
    /// The maximum number of sessions, of all members of the host's group.
    pub max_sessions: usize,
    /// The maximum number of the host's own sessions whose initiator has not proved its address.
    pub max_half_open: usize,
}

impl Config {
    /// The settings of a host that opens sessions.
    pub fn client(own: KeyPair, purpose: Purpose) -> Self {
        Self {
            own,
            purpose,
            names: None,
            port: 0,
            clients: Clients::None,
            suite: Suite::fastest(),
            max_sessions: 1024,
            max_half_open: 0,
        }
    }
}

/// What happened to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The responder's key was not known, and is this. Packets can be sealed: the session is good for use if the key
    /// is the right one.
    Key(SessionId, PublicKey),
    /// The other host has another address; the one before.
    Moved(SessionId, SocketAddr),
    /// The other host has not answered, and somebody says why.
    Denied(SessionId, Denial),
    /// The other host has ended the session.
    Goodbye(SessionId, Goodbye),
    /// The other host does not know the session: it was restarted. Or so many forged packets have come that another
    /// session is needed.
    Reset(SessionId),
    /// The other host does not answer.
    NoAnswer(SessionId),
    /// Another host's session was refused; its address and key.
    Refused(SocketAddr, Option<PublicKey>, Refusal),
    /// All sessions are in use: the host may discard some.
    Full,
}

/// Packets of the transport, opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Their session.
    pub session: SessionId,
    /// Their place in the datagram.
    pub bytes: Range<usize>,
}

/// The sessions of a host.
pub struct Sessions {
    config: Config,
    member: Member,
    random: Box<dyn RngCore + Send>,
    slots: Vec<Option<Session>>,
    free: Vec<usize>,
    /// Sessions opened by others, by their address and their id.
    by_hello: BTreeMap<(SocketAddr, u64), SessionId>,
    /// Those whose initiator has not proved its address, oldest first.
    half_open: VecDeque<SessionId>,
    /// Sessions opened by this host, by the other host's id.
    by_remote: BTreeMap<u64, SessionId>,
    /// Sessions whose `Hello` is repeated by a timer.
    asking: Vec<SessionId>,
    stateless: Stateless,
    openers: Openers,
    outgoing: VecDeque<(Route, Vec<u8>)>,
    events: VecDeque<Event>,
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").field("config", &self.config).field("slots", &self.slots).finish_non_exhaustive()
    }
}

impl Sessions {
    /// No sessions yet, of a host that shares its port with no other. `random` must be unpredictable.
    pub fn new(config: Config, random: impl RngCore + Send + 'static) -> Self {
        Self::of_member(Member::alone(), config, random)
    }

    /// The same for a member of a group. All members have the same `config`.
    pub fn of_member(member: Member, config: Config, random: impl RngCore + Send + 'static) -> Self {
        let mut random: Box<dyn RngCore + Send> = Box::new(random);
        let stateless = Stateless::new(
            &config.own,
            config.purpose.service,
            config.port,
            config.names.iter().flatten(),
            &mut *random,
        );
        Self {
            config,
            member,
            random,
            slots: Vec::new(),
            free: Vec::new(),
            by_hello: BTreeMap::new(),
            half_open: VecDeque::new(),
            by_remote: BTreeMap::new(),
            asking: Vec::new(),
            stateless,
            openers: Openers::default(),
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Other hosts may open sessions from now on if `clients` has them. Returns the sessions of keys that it does not have.
    pub fn set_clients(&mut self, clients: Clients) -> Vec<SessionId> {
        self.config.clients = clients;
        let is_revoked = |session: &&Session| {
            !session.is_own() && session.peer_key.is_some_and(|key| !self.config.clients.allow(key))
        };
        self.slots.iter().flatten().filter(is_revoked).map(|session| session.id).collect()
    }

    /// The public key of this host.
    pub fn own_key(&self) -> PublicKey {
        self.config.own.public()
    }

    /// The number of sessions.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there are no sessions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What became of the `Hello`s of other hosts so far.
    pub fn openers(&self) -> Openers {
        self.openers
    }

    fn slot(&self, id: SessionId) -> Option<&Session> {
        self.slots.get(self.member.slot(id)?)?.as_ref().filter(|session| session.id == id)
    }

    fn slot_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.slots.get_mut(self.member.slot(id)?)?.as_mut().filter(|session| session.id == id)
    }

    /// The address of the other host.
    pub fn address(&self, id: SessionId) -> Option<SocketAddr> {
        self.slot(id).map(|session| session.route.remote)
    }

    /// The address of the other host when the session was opened.
    pub fn first_address(&self, id: SessionId) -> Option<SocketAddr> {
        self.slot(id).map(|session| session.first_address)
    }

    /// The key of the other host, once it is known.
    pub fn peer_key(&self, id: SessionId) -> Option<PublicKey> {
        self.slot(id)?.peer_key
    }

    fn places_left(&self) -> usize {
        let left = self.config.max_sessions.saturating_sub(self.member.shared().sessions);
        left.min(self.member.max_slots().saturating_sub(self.len()))
    }

    fn free_id(&mut self) -> Option<SessionId> {
        if self.places_left() == 0 {
            return None;
        }
        let slot = self.free.last().copied().unwrap_or(self.slots.len());
        Some(self.member.id(slot, self.random.next_u64()))
    }

    /// Adds a session that has the id of the last call of `free_id`.
    fn insert(&mut self, session: Session) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(session);
        self.member.shared().sessions += 1;
    }

    /// Discards a session. The other host learns it from a [`Sessions::goodbye`] before, or from a reset later.
    pub fn discard(&mut self, id: SessionId) {
        let (Some(_), Some(slot)) = (self.slot(id), self.member.slot(id)) else { return };
        let Some(session) = self.slots[slot].take() else { return };
        self.free.push(slot);
        self.member.shared().sessions -= 1;
        self.half_open.retain(|&other| other != id);
        self.asking.retain(|&other| other != id);
        if self.by_remote.get(&session.remote) == Some(&id) {
            self.by_remote.remove(&session.remote);
        }
        if let Some(hello) = session.hello {
            self.by_hello.remove(&hello);
            self.release(&session);
        }
    }

    /// Tells the other host that this one ends the session soon: a copy of what [`Sessions::goodbye`] sends.
    pub fn announce_goodbye(&mut self, id: SessionId, reason: Goodbye) {
        self.send_frame(id, Frame::Goodbye(reason), None);
    }

    /// Ends a session with a reason for the other host. Nothing acknowledges it, so a host that has shown its address gets
    /// three copies.
    pub fn goodbye(&mut self, id: SessionId, reason: Goodbye) {
        let copies = if self.slot(id).is_some_and(|session| session.confirmed) { 3 } else { 1 };
        (0..copies).for_each(|_| self.send_frame(id, Frame::Goodbye(reason), None));
        self.discard(id);
    }

    /// Appends a datagram to `out` whose plain bytes `write` appends, and returns where to send it. `None`, and nothing
    /// is appended, if there is nothing to send now: a packet before the answer of the other host goes with the `Hello`
    /// ([`Sessions::poll_transmit`]), and one after too long a time without other keys is lost.
    pub fn seal(
        &mut self,
        now: Time,
        id: SessionId,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>) -> bool,
    ) -> Option<Route> {
        self.renew(now, id);
        let session = self.slot_mut(id)?;
        if let Stage::Asking(asking) = &mut session.stage {
            let mut early = Vec::new();
            if asking.responder.is_some() && write(&mut early) && early.len() <= MAX_EARLY {
                asking.early = early;
                self.send_hello(now, id);
            }
            return None;
        }
        if session.renewal.seals_too_late(now) {
            // Only the initiator can ask for other keys: this makes it.
            if !session.is_own() {
                self.send_frame(id, Frame::Padding, None);
            }
            return None;
        }
        session.seal(out, write).then_some(session.route)
    }

    fn send_frame(&mut self, id: SessionId, frame: Frame, to: Option<Route>) {
        let Some(session) = self.slot_mut(id) else { return };
        let to = to.unwrap_or(session.route);
        if let Some(datagram) = session.seal_frame(frame) {
            self.outgoing.push_back((to, datagram));
        }
    }

    /// Handles a datagram that came over `from`. If it has packets of the transport, they are opened in place.
    pub fn receive(&mut self, now: Time, from: Route, bytes: &mut [u8]) -> Option<Opened> {
        match Datagram::parse(bytes)? {
            Datagram::Hello { suite, pattern, purpose, id, cookie, noise } => {
                self.on_hello(now, from, bytes, suite, pattern, purpose, id, &cookie, noise)
            }
            Datagram::Answer { to, id, noise } => {
                let rest = noise.end;
                self.on_answer(now, SessionId(to), id, &bytes[noise])?;
                self.on_rest(now, from, bytes, rest)
            }
            Datagram::Finish { to, noise } => {
                let rest = noise.end;
                self.on_finish(now, from.remote, SessionId(to), &bytes[noise])?;
                self.on_rest(now, from, bytes, rest)
            }
            Datagram::Sealed { to, number } => {
                if self.slot(SessionId(to)).is_none() {
                    self.send_reset(now, from, to, bytes.len());
                    return None;
                }
                self.on_sealed(now, from, SessionId(to), number, bytes, 0)
            }
            Datagram::Retry { to, cookie } => {
                self.on_retry(now, SessionId(to), cookie);
                None
            }
            Datagram::Refused { to, why } => {
                self.on_denied(now, SessionId(to), why);
                None
            }
            Datagram::Reset { of, token } => {
                self.on_reset(of, &token);
                None
            }
        }
    }

    /// What follows a handshake message in its datagram.
    fn on_rest(&mut self, now: Time, from: Route, bytes: &mut [u8], start: usize) -> Option<Opened> {
        let Datagram::Sealed { to, number } = Datagram::parse(&bytes[start..])? else { return None };
        self.on_sealed(now, from, SessionId(to), number, bytes, start)
    }

    fn send_reset(&mut self, now: Time, from: Route, of: u64, received: usize) {
        if self.config.clients == Clients::None || self.member.slot(SessionId(of)).is_none() {
            return; // another member may have it: the kernel coalesces packets of two sessions from one socket
        }
        // Shorter than what it answers, so that two hosts without state do not answer each other without end.
        if received > RESET_BYTES && self.member.shared().resets.take(now) {
            self.outgoing.push_back((from, datagram::reset(of, &self.stateless.reset_token(of))));
        }
    }

    fn on_sealed(
        &mut self,
        now: Time,
        from: Route,
        id: SessionId,
        number: u32,
        bytes: &mut [u8],
        start: usize,
    ) -> Option<Opened> {
        let session = self.slots.get_mut(self.member.slot(id)?)?.as_mut().filter(|session| session.id == id)?;
        let Stage::Open(_, opener) = &session.stage else { return None };
        let number = unwrap(opener.next(), number);
        let received = bytes.len();
        let body = start + SEALED_HEADER;
        let opened = session.open(now, number, &sealed_header(id.0, number), &mut bytes[body..]);
        let opened = opened.map(|(plain, is_late)| (plain.len(), is_late));
        let Stage::Open(_, opener) = &session.stage else { return None };
        let Some((len, is_late)) = opened else {
            if opener.forged >= MAX_FORGED {
                self.events.push_back(Event::Reset(id));
            }
            return None;
        };
        let end = body + len;
        if is_late {
            self.on_late(now, id, &bytes[body..end]);
            return None;
        }
        let is_newest = opener.next() == number + 1;
        session.last_received = now;
        if !session.confirmed {
            session.on_confirmed();
            self.half_open.retain(|&other| other != id);
        }
        // An address that may be forged gets one datagram at most for each that came from it, and no larger one.
        let mut answer = None;
        if is_newest && session.route.remote != from.remote {
            let challenge = session.on_other_address(now, from.remote, self.random.next_u64());
            answer = challenge.map(Frame::Challenge);
        }
        let mut rest = &bytes[body..end];
        while let Some(frame) = Frame::take(&mut rest) {
            match frame {
                Frame::Padding => {}
                Frame::Challenge(challenge) => answer = answer.or(Some(Frame::Response(challenge))),
                Frame::Response(response) => {
                    if let Some(before) = self.slot_mut(id)?.on_response(from, response) {
                        self.events.push_back(Event::Moved(id, before));
                    }
                }
                Frame::Renewal(message) => self.on_renewal(now, id, &message),
                Frame::Renewed(message) => self.on_renewed(now, id, &message),
                Frame::Goodbye(reason) => {
                    self.events.push_back(Event::Goodbye(id, reason));
                    return None;
                }
            }
        }
        let place = end - rest.len()..end;
        if let Some(frame) = answer.filter(|_| received >= CHALLENGE_BYTES) {
            self.send_frame(id, frame, Some(from));
        }
        (!place.is_empty()).then_some(Opened { session: id, bytes: place })
    }

    /// The next datagram that the sessions send themselves, and where.
    pub fn poll_transmit(&mut self) -> Option<(Route, Vec<u8>)> {
        self.outgoing.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The time since the last authentic packet of a session, or since it was opened.
    pub fn silence(&self, now: Time, id: SessionId) -> Option<Duration> {
        self.slot(id).map(|session| now.since(session.last_received))
    }

    /// Sessions opened by other hosts, without packets for `time`. Those of this host end with [`Event::NoAnswer`], or
    /// when its application no longer needs them.
    pub fn silent_for(&self, now: Time, time: Duration) -> impl Iterator<Item = SessionId> {
        let is_silent = move |session: &&Session| session.hello.is_some() && now.since(session.last_received) >= time;
        self.slots.iter().flatten().filter(is_silent).map(|session| session.id)
    }
}

#[cfg(test)]
mod tests;
