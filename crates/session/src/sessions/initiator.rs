//! Sessions that this host opens.

use std::net::SocketAddr;

use rampmeter_units::{Duration, Time};

use super::{Event, Sessions};
use crate::datagram::{self, Pattern, Token};
use crate::handshake::Handshake;
use crate::key::PublicKey;
use crate::session::{Asking, Session, SessionId, Stage, token_of};
use crate::stateless::{NO_COOKIE, are_equal};

/// The first wait for an answer, doubled each time up to 16 s.
const HELLO_TIMEOUT: Duration = Duration::from_secs(1);

/// The default number of `Hello`s to a host that does not answer: half a minute.
pub const MAX_HELLOS: u32 = 5;

impl Sessions {
    /// Opens a session; `None` if there are too many. If `responder` is known, packets can be sealed at once;
    /// otherwise after [`Event::Key`].
    pub fn open(&mut self, now: Time, to: SocketAddr, responder: Option<PublicKey>) -> Option<SessionId> {
        let asking = Asking {
            handshake: None,
            responder,
            cookie: NO_COOKIE,
            early: Vec::new(),
            resend_at: Time::MAX,
            attempts: 0,
        };
        let id = self.free_id()?;
        let mut session = Session::new(now, id, to, Stage::Asking(Box::new(asking)));
        session.peer_key = responder;
        self.insert(session);
        if responder.is_none() {
            self.asking.push(id);
            self.send_hello(now, id);
        }
        Some(id)
    }

    /// Sends a `Hello` of a new handshake, so that what is in it is not sent twice with the same key.
    pub(super) fn send_hello(&mut self, now: Time, id: SessionId) {
        let Some(slot) = self.member.slot(id) else { return };
        let Some(session) = self.slots.get_mut(slot).and_then(Option::as_mut) else { return };
        let Stage::Asking(asking) = &mut session.stage else { return };
        let (suite, own) = (self.config.suite, &self.config.own);
        let Some(mut handshake) = Handshake::initiator(suite, id.0, own, asking.responder, &mut *self.random) else {
            return;
        };
        let Some(noise) = handshake.write(&asking.early) else { return };
        let pattern = if asking.responder.is_some() {
            Pattern::Ik
        } else {
            asking.resend_at = now + HELLO_TIMEOUT * (1 << asking.attempts.min(4));
            Pattern::Xx
        };
        asking.attempts += 1;
        asking.handshake = Some(handshake);
        self.outgoing.push_back((session.address, datagram::hello(suite, pattern, id.0, &asking.cookie, &noise)));
    }

    /// Reads an `Answer`; `None` if it is not authentic.
    pub(super) fn on_answer(&mut self, id: SessionId, remote: u64, noise: &[u8]) -> Option<()> {
        let session = self.slots.get_mut(self.member.slot(id)?)?.as_mut().filter(|session| session.id == id)?;
        let Stage::Asking(asking) = &mut session.stage else { return Some(()) };
        let handshake = asking.handshake.as_mut()?;
        let token = token_of(&handshake.read(noise)?)?;
        let is_key_new = asking.responder.is_none();
        if is_key_new {
            session.prefix = datagram::finish(remote, &handshake.write(&[])?);
        }
        session.peer_key = handshake.peer_key();
        let (sealer, opener) = handshake.split();
        session.stage = Stage::Open(Box::new(sealer), Box::new(opener));
        session.remote = remote;
        session.reset_token = Some(token);
        let key = session.peer_key;
        self.by_remote.insert(remote, id);
        self.asking.retain(|&other| other != id);
        if let Some(key) = key.filter(|_| is_key_new) {
            self.events.push_back(Event::Key(id, key));
        }
        Some(())
    }

    /// Repeats the `Hello` with a cookie. Once for each `Hello`: a host that refuses its own cookies gets no stream of
    /// them.
    pub(super) fn on_retry(&mut self, now: Time, id: SessionId, cookie: Token) {
        let Some(Stage::Asking(asking)) = self.slot_mut(id).map(|session| &mut session.stage) else { return };
        if asking.cookie != cookie && asking.handshake.take().is_some() {
            asking.cookie = cookie;
            self.send_hello(now, id);
        }
    }

    pub(super) fn on_unknown_key(&mut self, id: SessionId) {
        let Some(session) = self.slot(id) else { return };
        if matches!(&session.stage, Stage::Asking(asking) if asking.responder.is_some()) {
            self.events.push_back(Event::WrongKey(id));
        }
    }

    pub(super) fn on_reset(&mut self, remote: u64, token: &Token) {
        let Some(&id) = self.by_remote.get(&remote) else { return };
        let expected = self.slot(id).and_then(|session| session.reset_token);
        if expected.is_some_and(|expected| are_equal(&expected, token)) {
            self.events.push_back(Event::Reset(id));
        }
    }

    /// The time at which [`Sessions::on_deadline`] must be called.
    pub fn deadline(&self) -> Time {
        self.asking.iter().filter_map(|&id| self.resend_at(id)).min().unwrap_or(Time::MAX)
    }

    fn resend_at(&self, id: SessionId) -> Option<Time> {
        match &self.slot(id)?.stage {
            Stage::Asking(asking) => Some(asking.resend_at),
            _ => None,
        }
    }

    /// Repeats the `Hello`s that are due.
    pub fn on_deadline(&mut self, now: Time) {
        for id in self.asking.clone() {
            if self.resend_at(id).is_none_or(|at| at > now) {
                continue;
            }
            let Some(session) = self.slot(id) else { continue };
            if matches!(&session.stage, Stage::Asking(asking) if asking.attempts >= self.config.max_hellos) {
                self.asking.retain(|&other| other != id);
                self.events.push_back(Event::NoAnswer(id));
            } else {
                self.send_hello(now, id);
            }
        }
    }
}
