//! Sessions that this host opens.

use std::net::SocketAddr;

use rampmeter_units::{Duration, Time};

use super::{Event, Renewals, Sessions};
use crate::datagram::{self, Denial, Pattern, Token};
use crate::handshake::{Handshake, prologue};
use crate::key::PublicKey;
use crate::session::{Asking, Session, SessionId, Stage, token_of};
use crate::stateless::{NO_COOKIE, are_equal};

/// The first wait for an answer, doubled each time up to 16 s.
const HELLO_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a right answer may follow a false one.
const DENIAL_TIMEOUT: Duration = Duration::from_secs(4);

/// The number of `Hello`s to a host that does not answer and whose key is not known: half a minute.
const MAX_HELLOS: u32 = 5;

impl Sessions {
    /// Opens a session; `None` if there are too many. If `responder` is known, packets can be sealed at once;
    /// otherwise after [`Event::Key`].
    pub fn open(&mut self, now: Time, to: SocketAddr, responder: Option<PublicKey>) -> Option<SessionId> {
        let asking = Asking {
            handshake: None,
            responder,
            cookie: NO_COOKIE,
            early: Vec::new(),
            retried: false,
            denied: None,
            resend_at: Time::MAX,
            attempts: 0,
        };
        let id = self.free_id()?;
        let mut session = Session::new(now, id, to.into(), Stage::Asking(Box::new(asking)));
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
        let (suite, purpose, own) = (self.config.suite, self.config.purpose, &self.config.own);
        let pattern = if asking.responder.is_some() { Pattern::Ik } else { Pattern::Xx };
        let prologue = prologue(suite, pattern, purpose, id.0);
        let Some(mut handshake) = Handshake::initiator(suite, &prologue, own, asking.responder, &mut *self.random)
        else {
            return;
        };
        let Some(noise) = handshake.write(&asking.early) else { return };
        if pattern == Pattern::Xx {
            asking.resend_at = now + HELLO_TIMEOUT * (1 << asking.attempts.min(4));
        }
        asking.attempts += 1;
        asking.retried = false;
        asking.handshake = Some(handshake);
        self.outgoing
            .push_back((session.route, datagram::hello(suite, pattern, purpose, id.0, &asking.cookie, &noise)));
    }

    /// Reads an `Answer`; `None` if it is not authentic.
    pub(super) fn on_answer(&mut self, now: Time, id: SessionId, remote: u64, noise: &[u8]) -> Option<()> {
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
        session.renewal = Renewals::new(now);
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

    /// Repeats the `Hello` with a cookie, once for each attempt: anybody may have made the cookie.
    pub(super) fn on_retry(&mut self, now: Time, id: SessionId, cookie: Token) {
        let Some(asking) = self.asking_mut(id).filter(|asking| !asking.retried && asking.attempts > 0) else { return };
        asking.cookie = cookie;
        self.send_hello(now, id);
        if let Some(asking) = self.asking_mut(id) {
            asking.retried = true;
        }
    }

    /// Notes why there is no answer. The right host may still answer.
    pub(super) fn on_denied(&mut self, now: Time, id: SessionId, why: Denial) {
        let Some(asking) = self.asking_mut(id) else { return };
        let is_new = asking.denied.is_none() && (asking.responder.is_some() || why != Denial::OtherKey);
        if is_new {
            asking.denied = Some((why, now + DENIAL_TIMEOUT));
            self.asking.retain(|&other| other != id);
            self.asking.push(id);
        }
    }

    fn asking_mut(&mut self, id: SessionId) -> Option<&mut Asking> {
        match &mut self.slot_mut(id)?.stage {
            Stage::Asking(asking) => Some(asking),
            _ => None,
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
        let due = |asking: &Asking| asking.denied.map_or(Time::MAX, |(_, at)| at).min(asking.resend_at);
        self.asking.iter().filter_map(|&id| self.asking_of(id)).map(due).min().unwrap_or(Time::MAX)
    }

    fn asking_of(&self, id: SessionId) -> Option<&Asking> {
        match &self.slot(id)?.stage {
            Stage::Asking(asking) => Some(asking),
            _ => None,
        }
    }

    /// Repeats the `Hello`s that are due, and ends sessions without an answer.
    pub fn on_deadline(&mut self, now: Time) {
        for id in self.asking.clone() {
            let Some(asking) = self.asking_of(id) else { continue };
            let ended = match asking.denied {
                Some((why, at)) if at <= now => Event::Denied(id, why),
                _ if asking.resend_at > now => continue,
                _ if asking.attempts >= MAX_HELLOS => Event::NoAnswer(id),
                _ => {
                    self.send_hello(now, id);
                    continue;
                }
            };
            self.asking.retain(|&other| other != id);
            self.events.push_back(ended);
        }
    }
}
