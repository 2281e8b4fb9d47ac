//! Sessions that other hosts open, and what limits them.
//!
//! A handshake costs a fraction of a millisecond and, until its opener has answered, a place among the half-open
//! sessions. So a `Hello` is read only if the address that it comes from, and its network, are within their parts of
//! the rate ([`FairRate`](crate::fair_rate::FairRate)):
//!
//! - without a cookie, its address may be forged: few are read;
//! - with a cookie, its address is genuine;
//! - others cost one hash and are answered with a cookie, or not at all.
//!
//! A `Hello` that asks for another service or name is not read. Its refusals have a rate of their own, shared alike.
//!
//! When there are too many half-open sessions, the oldest one is discarded of the client with the most, in the network
//! with the most. Open sessions are [shared](crate::shares) by addresses and, if only listed keys are served, by keys.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::{AddAssign, Range};

use rampmeter_units::Time;
use serde::{Deserialize, Serialize};

use super::{Clients, Event, Opened, Renewals, Sessions};
use crate::datagram::{self, Denial, Pattern, Token};
use crate::frame::{Frame, Goodbye};
use crate::handshake::{Answered, Handshake, draw, prologue};
use crate::key::PublicKey;
use crate::purpose::Purpose;
use crate::route::Route;
use crate::seal::Suite;
use crate::session::{Session, SessionId, Stage};
use crate::shares::{Name, Sharer};
use crate::stateless::CookieCheck;

/// Handshakes a second without a cookie. Each takes two X25519 operations or more, a fifth of a millisecond together.
pub(crate) const HELLOS_A_SECOND: f64 = 200.0;

/// The same, with a cookie: a fifth of a core.
pub(crate) const HELLOS_WITH_COOKIE_A_SECOND: f64 = 1000.0;

/// Refusals a second of `Hello`s that are not read: for another service or name.
pub(crate) const REFUSALS_A_SECOND: f64 = 200.0;

/// Why another host's session was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Its key is not on the list.
    NotAuthorized,
    /// It expects another key of this host.
    OtherKey,
    /// It asks for another service.
    OtherService,
    /// It asks for a name that this host does not have.
    OtherName,
    /// There is no place for it.
    Busy,
}

impl Refusal {
    /// What a host that has keys is sent.
    fn goodbye(self) -> Goodbye {
        match self {
            Self::NotAuthorized | Self::OtherKey | Self::OtherService | Self::OtherName => Goodbye::NotAuthorized,
            Self::Busy => Goodbye::Busy,
        }
    }
}

/// What became of the `Hello`s of other hosts: their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Openers {
    /// Sessions that were opened.
    pub accepted: u64,
    /// Answered with a cookie.
    pub cookies: u64,
    /// Ignored: with a valid cookie, but beyond the part of their address or network, or with a forged one.
    pub over_rate: u64,
    /// Refused: they expect another key, ask for another service, or for a name that this host does not have.
    pub other_key: u64,
    /// Refused: their keys are not on the list.
    pub not_authorized: u64,
    /// Refused: there was no place.
    pub busy: u64,
    /// Opened and then discarded for others, before their openers had answered.
    pub displaced: u64,
}

impl AddAssign for Openers {
    fn add_assign(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.cookies += other.cookies;
        self.over_rate += other.over_rate;
        self.other_key += other.other_key;
        self.not_authorized += other.not_authorized;
        self.busy += other.busy;
        self.displaced += other.displaced;
    }
}

impl Sessions {
    #[allow(clippy::too_many_arguments, reason = "the fields of the datagram")]
    pub(super) fn on_hello(
        &mut self,
        now: Time,
        from: Route,
        bytes: &mut [u8],
        suite: Suite,
        pattern: Pattern,
        purpose: Purpose,
        hello: u64,
        cookie: &Token,
        noise: Range<usize>,
    ) -> Option<Opened> {
        if self.config.clients == Clients::None {
            return None;
        }
        if let Some((why, denial)) = self.denial(purpose) {
            if self.member.shared().refusals.take(now, from.remote.ip()) {
                self.outgoing.push_back((from, datagram::refused(hello, denial)));
            }
            self.count_refusal(from.remote, None, why);
            return None;
        }
        let known = self.by_hello.get(&(from.remote, hello)).copied();
        if known.and_then(|id| self.slot(id)).is_some_and(|session| session.has_read(&bytes[noise.clone()])) {
            return None; // a copy: the keys of another answer would replace those that the opener has
        }
        if !self.may_read(now, from, hello, cookie) {
            return None;
        }
        let ephemeral = draw(&mut *self.random);
        let prologue = prologue(suite, pattern, purpose, hello);
        let own = &self.config.own;
        let mut handshake = Handshake::responder(suite, pattern, &prologue, own, ephemeral.clone())?;
        let early = handshake.read(&bytes[noise.clone()]);
        // Without a known key nothing is encrypted yet: anyone may have written a packet there.
        let Some(early) = early.filter(|early| pattern == Pattern::Ik || early.is_empty()) else {
            if pattern == Pattern::Ik {
                self.outgoing.push_back((from, datagram::refused(hello, Denial::OtherKey)));
                self.count_refusal(from.remote, None, Refusal::OtherKey);
            }
            return None;
        };
        let peer_key = handshake.peer_key();
        let refusal = self.refusal(from.remote.ip(), peer_key, known);
        if let Some(refusal) = refusal {
            self.count_refusal(from.remote, peer_key, refusal);
            if pattern == Pattern::Xx {
                return None; // it has no keys yet to read a reason with, and asks again
            }
        } else if known.is_none() && self.half_open.len() >= self.config.max_half_open {
            self.displace();
        }
        // Refusals need an id, too, but no place.
        let id = match (known, refusal) {
            (Some(id), _) => id,
            (None, None) => self.free_id()?,
            (None, Some(_)) => SessionId(self.random.next_u64()),
        };
        let token = self.stateless.reset_token(id.0);
        let answer = datagram::answer(hello, id.0, &handshake.write(&token)?);
        let (stage, prefix) = match pattern {
            Pattern::Ik => {
                let (sealer, opener) = handshake.split();
                (Stage::Open(Box::new(sealer), Box::new(opener)), answer)
            }
            Pattern::Xx => {
                self.outgoing.push_back((from, answer));
                let (message, payload) = (bytes[noise.clone()].to_vec(), token.to_vec());
                let answered = Answered { handshake, suite, prologue, ephemeral, hello: message, payload };
                (Stage::Answering(Box::new(answered)), Vec::new())
            }
        };
        let mut session = Session::new(now, id, from, stage);
        (session.remote, session.peer_key, session.prefix) = (hello, peer_key, prefix);
        if let Some(refusal) = refusal {
            let goodbye = session.seal_frame(Frame::Goodbye(refusal.goodbye()));
            self.outgoing.extend(goodbye.map(|datagram| (from, datagram)));
            return None;
        }
        session.hello = Some((from.remote, hello));
        let before = known.and_then(|id| self.slot_mut(id)).map(|known| std::mem::take(&mut known.hello_keys));
        session.on_hello_read(before.unwrap_or_default(), &bytes[noise.clone()]);
        self.place(session, known);
        let place = noise.start..noise.start + early.len();
        bytes[place.clone()].copy_from_slice(&early);
        (!early.is_empty()).then_some(Opened { session: id, bytes: place })
    }

    /// Why a client that asks for this is refused.
    fn denial(&self, purpose: Purpose) -> Option<(Refusal, Denial)> {
        let has_name = self.config.names.as_ref().is_none_or(|names| names.contains(&purpose.name));
        match () {
            () if purpose.service != self.config.purpose.service => Some((Refusal::OtherService, Denial::OtherService)),
            () if !has_name => Some((Refusal::OtherName, Denial::OtherName)),
            () => None,
        }
    }

    /// Whether a `Hello` is read. Otherwise it gets a cookie, or nothing if it has a valid or a forged one.
    fn may_read(&mut self, now: Time, from: Route, hello: u64, cookie: &Token) -> bool {
        let has_room = self.half_open.len() <= self.config.max_half_open / 2;
        if has_room && self.member.shared().hellos.take(now, from.remote.ip()) {
            return true;
        }
        match self.stateless.check(now, cookie, from.remote, hello, &mut *self.random) {
            CookieCheck::Valid => self.may_compute(now, from.remote.ip()),
            CookieCheck::Retry(cookie) => {
                self.outgoing.push_back((from, datagram::retry(hello, &cookie)));
                self.openers.cookies += 1;
                false
            }
            CookieCheck::Forged => {
                self.openers.over_rate += 1;
                false
            }
        }
    }

    /// Whether a host with a genuine address may cause another handshake.
    fn may_compute(&mut self, now: Time, ip: IpAddr) -> bool {
        let is_permitted = self.member.shared().hellos_with_cookie.take(now, ip);
        self.openers.over_rate += u64::from(!is_permitted);
        is_permitted
    }

    /// Why a session is refused, if it is: a new one, or `known`, which has a place already.
    fn refusal(&mut self, ip: IpAddr, key: Option<PublicKey>, known: Option<SessionId>) -> Option<Refusal> {
        if key.is_some_and(|key| !self.config.clients.allow(key)) {
            return Some(Refusal::NotAuthorized);
        }
        let known = known.and_then(|id| self.slot(id));
        // The place of `known` is one that it may keep, and that its key may not have yet.
        let left = self.places_left() + usize::from(known.is_some());
        let charged = self.charged(key).filter(|_| known.is_none_or(|known| known.charged_key != key));
        let shared = self.member.shared();
        let has_place = known.is_some() || shared.addresses.permits(ip.into(), 1, left as u64);
        let may_charge = charged.is_none_or(|key| shared.keys.permits(key.into(), 1, left as u64));
        drop(shared);
        if left == 0 {
            self.events.push_back(Event::Full);
        }
        (!(has_place && may_charge)).then_some(Refusal::Busy)
    }

    fn count_refusal(&mut self, from: SocketAddr, key: Option<PublicKey>, refusal: Refusal) {
        let count = match refusal {
            Refusal::NotAuthorized => &mut self.openers.not_authorized,
            Refusal::OtherKey | Refusal::OtherService | Refusal::OtherName => &mut self.openers.other_key,
            Refusal::Busy => &mut self.openers.busy,
        };
        *count += 1;
        self.events.push_back(Event::Refused(from, key, refusal));
    }

    /// The key whose places are counted.
    fn charged(&self, key: Option<PublicKey>) -> Option<PublicKey> {
        key.filter(|_| matches!(self.config.clients, Clients::Listed(_)))
    }

    /// Keeps a session, in the place of `known` if there is one.
    fn place(&mut self, mut session: Session, known: Option<SessionId>) {
        session.charged_key = self.charged(session.peer_key);
        let (id, ip) = (session.id, session.first_address.ip());
        let mut shared = self.member.shared();
        if let Some(key) = session.charged_key {
            shared.keys.take(key.into(), 1);
        }
        shared.addresses.take(ip.into(), 1);
        drop(shared);
        if known.is_some() {
            if let Some(before) = self.slot_mut(id).map(|place| std::mem::replace(place, session)) {
                self.release(&before);
            }
            return;
        }
        self.openers.accepted += 1;
        self.half_open.push_back(id);
        self.by_hello.extend(session.hello.map(|hello| (hello, id)));
        self.insert(session);
    }

    /// Gives the places back of a session that another host opened.
    pub(super) fn release(&self, session: &Session) {
        let mut shared = self.member.shared();
        shared.addresses.give_back(session.first_address.ip().into(), 1);
        if let Some(key) = session.charged_key {
            shared.keys.give_back(key.into(), 1);
        }
    }

    /// Discards the oldest half-open session of the client with the most, in the network with the most.
    fn displace(&mut self) {
        let sharer = |id: &SessionId| self.slot(*id).map(|session| Sharer::from(session.first_address.ip()));
        let mut counts: BTreeMap<Name, usize> = BTreeMap::new();
        for Sharer { network, client } in self.half_open.iter().filter_map(sharer) {
            *counts.entry(network).or_default() += 1;
            *counts.entry(client).or_default() += 1;
        }
        let count = |id: &SessionId| sharer(id).map(|sharer| (counts[&sharer.network], counts[&sharer.client]));
        let most = self.half_open.iter().map(count).max();
        let oldest = self.half_open.iter().copied().find(|id| Some(count(id)) == most);
        if let Some(oldest) = oldest {
            self.discard(oldest);
            self.openers.displaced += 1;
        }
    }

    /// Reads a `Finish`; `None` if it is not authentic, or its host is not allowed.
    pub(super) fn on_finish(&mut self, now: Time, from: SocketAddr, id: SessionId, noise: &[u8]) -> Option<()> {
        let session = self.slot(id).filter(|session| session.route.remote == from)?;
        if !matches!(session.stage, Stage::Answering(_)) {
            return Some(());
        }
        // Its opener can send many, each of which fails late.
        if !self.may_compute(now, from.ip()) {
            return None;
        }
        let session = self.slots.get_mut(self.member.slot(id)?)?.as_mut()?;
        let Stage::Answering(answered) = &mut session.stage else { return Some(()) };
        answered.read(&self.config.own, noise)?;
        session.peer_key = answered.handshake.peer_key();
        let (sealer, opener) = answered.handshake.split();
        session.stage = Stage::Open(Box::new(sealer), Box::new(opener));
        session.renewal = Renewals::new(now);
        let key = session.peer_key?;
        let refusal = self.refusal(from.ip(), Some(key), Some(id));
        if let Some(refusal) = refusal {
            self.count_refusal(from, Some(key), refusal);
            self.goodbye(id, refusal.goodbye());
            return None;
        }
        if let Some(key) = self.charged(Some(key)) {
            self.member.shared().keys.take(key.into(), 1);
            self.slot_mut(id)?.charged_key = Some(key);
        }
        Some(())
    }
}
