//! A client's first contact with its server: one address after the other, until one answers with the right key.

use rampmeter_net::{ContactError, SessionEnd, Socket};
use rampmeter_session::{Denial, Goodbye, PublicKey, SessionId};
use rampmeter_units::Time;

use super::super::dial::Dial;
use super::Engine;

impl Engine {
    /// Begins to contact a server.
    pub(crate) fn dial(&mut self, dial: Dial) {
        self.server = Some(dial.address);
        self.dial = Some(dial);
        self.attempt(self.net.now());
    }

    /// Tries to reach the server at the present address.
    fn attempt(&mut self, now: Time) {
        let Some(dial) = &mut self.dial else { return };
        dial.deadline = now + dial.timeout;
        let (address, expected) = (dial.address, dial.trusted.expected());
        self.server = Some(address);
        let session = self.net.host_mut(self.host).and_then(|host| host.connect(now, address, expected));
        match (session, expected) {
            (Some(session), Some(key)) => self.begin(now, session, key),
            (Some(_), None) => {} // the server's key comes first
            (None, _) => self.fail_dial(ContactError::no_answer(address)),
        }
    }

    /// The server's key is known: opens the first streams.
    fn begin(&mut self, now: Time, session: SessionId, key: PublicKey) {
        let Some(dial) = &self.dial else { return };
        self.add_session(session, key, dial.address);
        let Some(host) = self.net.host_mut(self.host) else { return };
        let first = host.open(now, session, &self.settings.transport);
        self.settings.windows.take(None, self.settings.first_window());
        if let (Some(member), Some(id)) = (self.sessions.get_mut(&session), first) {
            member.opening.insert(id);
        }
    }

    pub(super) fn on_key(&mut self, now: Time, session: SessionId, key: PublicKey) {
        let Some(dial) = &mut self.dial else { return };
        match dial.trusted.check(key) {
            Ok(is_new) => {
                dial.is_new_server = is_new;
                self.begin(now, session, key);
            }
            Err(error) => self.fail_dial(error),
        }
    }

    /// When the present attempt ends.
    pub(super) fn dial_deadline(&self) -> Time {
        self.dial.as_ref().map_or(Time::MAX, |dial| dial.deadline)
    }

    /// Ends an attempt that has taken too long.
    pub(super) fn check_dial(&mut self, now: Time) {
        if let Some(dial) = self.dial.as_ref().filter(|dial| dial.deadline <= now) {
            let error = ContactError::no_answer(dial.address);
            self.try_next_address(now, error);
        }
    }

    /// The server does not answer at the present address.
    pub(super) fn try_next_address(&mut self, now: Time, error: ContactError) {
        let Some(dial) = &mut self.dial else { return };
        let Some(address) = dial.others.pop() else { return self.fail_dial(error) };
        dial.address = address;
        for session in self.sessions.keys().copied().collect::<Vec<_>>() {
            self.forget(session);
            if let Some(host) = self.net.host_mut(self.host) {
                host.disconnect(now, session, Goodbye::Finished);
            }
        }
        match Socket::connect(address).and_then(|socket| self.net.replace_socket(self.host, socket)) {
            Ok(()) => self.attempt(now),
            Err(reason) => self.try_next_address(now, ContactError::reach(address, reason)),
        }
    }

    pub(super) fn fail_dial(&mut self, error: ContactError) {
        if let Some(dial) = self.dial.take() {
            drop(dial.reply.send(Err(error)));
            self.stop_at = Some(self.net.now());
        }
    }

    pub(super) fn on_session_ended(&mut self, now: Time, session: SessionId, end: SessionEnd) {
        let Some(address) = self.dial.as_ref().map(|dial| dial.address) else {
            return self.end_session(session, end);
        };
        self.forget(session);
        match end {
            // Asks for its key, to say what it is.
            SessionEnd::Denied(Denial::OtherKey) => {
                if let Some(host) = self.net.host_mut(self.host) {
                    host.connect(now, address, None);
                }
            }
            SessionEnd::Denied(why) => {
                if let Some(name) = self.dial.as_ref().map(|dial| dial.trusted.server().to_owned()) {
                    self.try_next_address(now, ContactError::denied(address, &name, why));
                }
            }
            SessionEnd::NotAuthorized => {
                if let Some(own) = self.dial.as_ref().map(|dial| dial.trusted.own_key()) {
                    self.fail_dial(ContactError::NotAuthorized { address, own });
                }
            }
            SessionEnd::Busy => self.try_next_address(now, ContactError::Busy(address)),
            SessionEnd::Finished | SessionEnd::Stopping | SessionEnd::Restarted | SessionEnd::NoAnswer => {
                self.try_next_address(now, ContactError::no_answer(address));
            }
        }
    }
}
