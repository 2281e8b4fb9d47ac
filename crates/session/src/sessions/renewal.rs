//! Other keys for an open session. Two minutes after the last handshake, if there is something to send, the host that
//! has opened the session begins another one (Noise's IK) within the session. So a key that leaks, of a session or in
//! what a stopped process leaves, opens two minutes of packets, as with `WireGuard`.
//!
//! While no answer arrives, the old keys go on until they are three minutes old (`WireGuard`'s `REJECT_AFTER_TIME`).
//! From then on they carry the messages of this exchange and nothing else: those are authentic by the hosts' own keys.
//!
//! ```text
//! initiator   Renewal ──►                                    seals with the new keys ──►
//! responder            ◄── Renewed, opens with the new ones                           ◄── seals with them, too
//! ```

use rampmeter_units::{Duration, Time};

use super::Sessions;
use crate::datagram::Pattern;
use crate::frame::{Frame, Renewal, Renewed};
use crate::handshake::{Handshake, draw, renewal_prologue};
use crate::seal::Key;
use crate::session::{Session, SessionId, Stage};

/// The age of keys at which the initiator asks for others.
pub(super) const RENEW_AFTER: Duration = Duration::from_secs(120);

/// The age of keys at which both hosts refuse packets of them.
pub(super) const REJECT_AFTER: Duration = Duration::from_secs(180);

/// A responder computes no other keys before this time.
const MIN_AGE: Duration = Duration::from_secs(60);

/// The time after which the initiator asks again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The handshakes of a session after the first.
#[derive(Debug)]
pub(crate) struct Renewals {
    /// When the key that seals was first used, and the one that opens.
    pub(crate) sealing_since: Time,
    opening_since: Time,
    /// When the key that opened before is discarded, if it is of another handshake.
    discard_at: Time,
    /// The initiator's handshake, its message, and when it was sent.
    pub(crate) asked: Option<Box<(Handshake, Renewal, Time)>>,
    /// The last message that the responder has read, its answer, and the key that it will seal with.
    pub(crate) answered: Option<Box<(Renewal, Renewed, Option<Key>)>>,
}

impl Renewals {
    /// Those of a session with new keys.
    pub(crate) fn new(now: Time) -> Self {
        Self { sealing_since: now, opening_since: now, discard_at: Time::MAX, asked: None, answered: None }
    }

    /// Whether the key that seals is too old.
    pub(super) fn seals_too_late(&self, now: Time) -> bool {
        now.since(self.sealing_since) >= REJECT_AFTER
    }
}

impl Sessions {
    /// Asks for other keys if those of the session are old.
    pub(super) fn renew(&mut self, now: Time, id: SessionId) {
        let is_due = |session: &&Session| {
            let asked_at = session.renewal.asked.as_ref().map(|asked| asked.2);
            session.is_own()
                && session.confirmed
                && now.since(session.renewal.sealing_since) >= RENEW_AFTER
                && asked_at.is_none_or(|at| now.since(at) >= ASK_AGAIN)
        };
        let Some(session) = self.slot(id).filter(is_due) else { return };
        let (Stage::Open(sealer, _), Some(peer)) = (&session.stage, session.peer_key) else { return };
        let (suite, prologue) = (sealer.suite(), renewal_prologue(id.0, session.remote));
        let asked = match self.slot_mut(id).and_then(|session| session.renewal.asked.take()) {
            Some(asked) => Some((asked.0, asked.1)),
            None => Handshake::initiator(suite, &prologue, &self.config.own, Some(peer), &mut *self.random).and_then(
                |mut handshake| {
                    let message = handshake.write(&[])?.try_into().ok()?;
                    Some((handshake, message))
                },
            ),
        };
        let Some((handshake, message)) = asked else { return };
        self.send_frame(id, Frame::Renewal(message), None);
        if let Some(session) = self.slot_mut(id) {
            session.renewal.asked = Some(Box::new((handshake, message, now)));
        }
    }

    /// A packet of a key that is too old. It may show the initiator that the responder needs other keys, or has them and
    /// waits for the first packet that is sealed with them.
    pub(super) fn on_late(&mut self, now: Time, id: SessionId, mut plain: &[u8]) {
        while let Some(frame) = Frame::take(&mut plain) {
            match frame {
                Frame::Renewal(message) => self.on_renewal(now, id, &message),
                Frame::Renewed(message) => self.on_renewed(now, id, &message),
                _ => {}
            }
        }
        self.renew(now, id);
        if self.slot(id).is_some_and(|session| session.is_own() && !session.renewal.seals_too_late(now)) {
            self.send_frame(id, Frame::Padding, None);
        }
    }

    /// The initiator asks for other keys, perhaps again.
    pub(super) fn on_renewal(&mut self, now: Time, id: SessionId, message: &Renewal) {
        let Some(answer) = self.answer_renewal(now, id, message) else { return };
        self.send_frame(id, Frame::Renewed(answer), None);
    }

    fn answer_renewal(&mut self, now: Time, id: SessionId, message: &Renewal) -> Option<Renewed> {
        let session = self.slots.get_mut(self.member.slot(id)?)?.as_mut().filter(|session| !session.is_own())?;
        if let Some(answered) = session.renewal.answered.as_ref().filter(|answered| answered.0 == *message) {
            return Some(answered.1);
        }
        let Stage::Open(sealer, opener) = &mut session.stage else { return None };
        if now.since(session.renewal.opening_since) < MIN_AGE || opener.is_renewing() {
            return None;
        }
        let (suite, prologue) = (sealer.suite(), renewal_prologue(session.remote, id.0));
        let ephemeral = draw(&mut *self.random);
        let mut handshake = Handshake::responder(suite, Pattern::Ik, &prologue, &self.config.own, ephemeral)?;
        handshake.read(message)?;
        if handshake.peer_key() != session.peer_key {
            return None;
        }
        let answer = handshake.write(&[])?.try_into().ok()?;
        let (own, peers) = handshake.keys();
        opener.renew(Key::new(suite, &peers));
        session.renewal.answered = Some(Box::new((*message, answer, Some(Key::new(suite, &own)))));
        Some(answer)
    }

    /// The responder has answered.
    pub(super) fn on_renewed(&mut self, now: Time, id: SessionId, message: &Renewed) {
        let Some(session) = self.slot_mut(id) else { return };
        let Stage::Open(sealer, opener) = &mut session.stage else { return };
        let Some(mut asked) = session.renewal.asked.take() else { return };
        if asked.0.read(message).is_none() {
            session.renewal.asked = Some(asked); // somebody who has the session's keys forged it: the peer's may follow
            return;
        }
        let (own, peers) = asked.0.keys();
        sealer.renew(Key::new(sealer.suite(), &own));
        opener.renew(Key::new(sealer.suite(), &peers));
        session.renewal.sealing_since = now;
    }
}

impl Session {
    /// Opens a packet. The responder seals with other keys once the initiator does. True if the key that opened it is
    /// too old for anything but a renewal.
    pub(crate) fn open<'a>(
        &mut self,
        now: Time,
        number: u64,
        header: &[u8],
        sealed: &'a mut [u8],
    ) -> Option<(&'a mut [u8], bool)> {
        let Stage::Open(sealer, opener) = &mut self.stage else { return None };
        let renewal = &mut self.renewal;
        if renewal.discard_at <= now {
            opener.discard_previous();
            renewal.discard_at = Time::MAX;
        }
        let was_renewing = opener.is_renewing();
        let plain = opener.open(number, header, sealed)?;
        if was_renewing && !opener.is_renewing() {
            (renewal.opening_since, renewal.discard_at) = (now, now + (REJECT_AFTER - RENEW_AFTER));
            if let Some(key) = renewal.answered.as_mut().and_then(|answered| answered.2.take()) {
                sealer.renew(key);
                renewal.sealing_since = now;
            }
        }
        Some((plain, now.since(renewal.opening_since) >= REJECT_AFTER))
    }
}
