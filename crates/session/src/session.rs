//! One session: its keys, and the address of the other host.

use std::collections::VecDeque;
use std::net::SocketAddr;

use rampmeter_units::{Duration, Time};

use crate::datagram::{Denial, TOKEN, Token, sealed_header};
use crate::frame::{Challenge, Frame};
use crate::handshake::{Answered, Handshake};
use crate::key::{KEY, PublicKey};
use crate::route::Route;
use crate::seal::{Opener, Sealer};
use crate::sessions::Renewals;

/// A session's name at its host: never used twice, and hard to guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub(crate) u64);

/// Bits of an id that are an index into the host's table; the others are random.
const INDEX_BITS: u32 = 20;

impl SessionId {
    pub(crate) const MAX_SESSIONS: usize = 1 << INDEX_BITS;

    pub(crate) fn new(index: usize, draw: u64) -> Self {
        Self(draw << INDEX_BITS | index as u64)
    }

    /// The lower half of the id: that of no other open session, since the index is in it.
    pub fn lower_half(self) -> u32 {
        self.0 as u32
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize % Self::MAX_SESSIONS
    }
}

/// The wait for a response from a new address before another challenge is sent.
const CHALLENGE_INTERVAL: Duration = Duration::from_millis(500);

/// `Hello`s of a session whose copies are recognized: more than an initiator sends before it gives up.
const HELLOS_KEPT: usize = 8;

/// How far the handshake is.
#[derive(Debug)]
pub(crate) enum Stage {
    /// A `Hello` was sent, or will be with the first packet.
    Asking(Box<Asking>),
    /// The other host does not know this one's key: its `Finish` is to come.
    Answering(Box<Answered>),
    /// Packets can be sealed and opened.
    Open(Box<Sealer>, Box<Opener>),
}

/// The initiator before the answer.
#[derive(Debug)]
pub(crate) struct Asking {
    /// The handshake of the last `Hello`.
    pub(crate) handshake: Option<Handshake>,
    pub(crate) responder: Option<PublicKey>,
    pub(crate) cookie: Token,
    /// The packet in the `Hello`, if the responder's key is known.
    pub(crate) early: Vec<u8>,
    /// Whether the last `Hello` followed a `Retry`: there is one for each.
    pub(crate) retried: bool,
    /// Why there is no answer, as somebody says, and when it counts.
    pub(crate) denied: Option<(Denial, Time)>,
    /// When to repeat the `Hello`. With a known key the transport's `Syn` repeats it.
    pub(crate) resend_at: Time,
    pub(crate) attempts: u32,
}

/// An address from which packets have come, and which has not proved itself.
#[derive(Debug)]
struct Candidate {
    address: SocketAddr,
    challenge: Challenge,
    asked_at: Time,
}

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// The other host's id; 0 until it is known.
    pub(crate) remote: u64,
    pub(crate) route: Route,
    pub(crate) first_address: SocketAddr,
    pub(crate) peer_key: Option<PublicKey>,
    pub(crate) stage: Stage,
    /// A sealed packet has arrived: the other host has the keys, and its address is right.
    pub(crate) confirmed: bool,
    /// The handshake message that goes before each packet until the session is confirmed.
    pub(crate) prefix: Vec<u8>,
    /// The token of the other host's resets.
    pub(crate) reset_token: Option<Token>,
    /// The address and the id of the `Hello` that opened it, if the other host did.
    pub(crate) hello: Option<(SocketAddr, u64)>,
    /// The ephemeral keys of the `Hello`s read until the session is confirmed. Each `Hello` has a key of its own.
    pub(crate) hello_keys: VecDeque<[u8; KEY]>,
    /// The key that has a place for it, if this host serves listed keys only.
    pub(crate) charged_key: Option<PublicKey>,
    pub(crate) last_received: Time,
    pub(crate) renewal: Renewals,
    candidate: Option<Candidate>,
}

impl Session {
    pub(crate) fn new(now: Time, id: SessionId, route: Route, stage: Stage) -> Self {
        Self {
            id,
            remote: 0,
            route,
            first_address: route.remote,
            peer_key: None,
            stage,
            confirmed: false,
            prefix: Vec::new(),
            reset_token: None,
            hello: None,
            hello_keys: VecDeque::new(),
            charged_key: None,
            last_received: now,
            renewal: Renewals::new(now),
            candidate: None,
        }
    }

    /// Whether the message of a `Hello` is a copy of one that was read. Of a confirmed session every one is.
    pub(crate) fn has_read(&self, message: &[u8]) -> bool {
        self.confirmed || self.hello_keys.iter().any(|key| message.starts_with(key))
    }

    /// Notes that the message of a `Hello` was read, after those of `before`.
    pub(crate) fn on_hello_read(&mut self, before: VecDeque<[u8; KEY]>, message: &[u8]) {
        self.hello_keys = before;
        self.hello_keys.truncate(HELLOS_KEPT - 1);
        if let Some(key) = message.first_chunk() {
            self.hello_keys.push_front(*key);
        }
    }

    /// A sealed packet has arrived.
    pub(crate) fn on_confirmed(&mut self) {
        self.confirmed = true;
        (self.prefix, self.hello_keys) = (Vec::new(), VecDeque::new());
    }

    /// Whether this host has opened it.
    pub(crate) fn is_own(&self) -> bool {
        self.hello.is_none()
    }

    /// Appends a sealed datagram to `out`, whose plain bytes `write` appends. False, and nothing is appended, if the
    /// session is not open or `write` returns false.
    pub(crate) fn seal(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        let Stage::Open(sealer, _) = &mut self.stage else { return false };
        let start = out.len();
        out.extend(&self.prefix);
        let header = sealed_header(self.remote, sealer.next());
        out.extend(header);
        let body = out.len();
        if !write(out) {
            out.truncate(start);
            return false;
        }
        let tag = sealer.seal(&header, &mut out[body..]);
        out.extend(tag.as_ref());
        true
    }

    /// A sealed datagram with one frame.
    pub(crate) fn seal_frame(&mut self, frame: Frame) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let sealed = self.seal(&mut out, |bytes| {
            frame.encode(bytes);
            true
        });
        sealed.then_some(out)
    }

    /// The newest packet came from another address: the challenge to send there, unless one was sent a moment ago.
    pub(crate) fn on_other_address(&mut self, now: Time, from: SocketAddr, draw: u64) -> Option<Challenge> {
        let known = self.candidate.as_ref().filter(|candidate| candidate.address == from);
        if known.is_some_and(|candidate| now < candidate.asked_at + CHALLENGE_INTERVAL) {
            return None;
        }
        // The same bytes again: a round trip may take longer than the interval.
        let challenge = known.map_or(draw.to_be_bytes(), |candidate| candidate.challenge);
        self.candidate = Some(Candidate { address: from, challenge, asked_at: now });
        Some(challenge)
    }

    /// A response to a challenge. Returns the address before, if `from` has now proved to be the other host's.
    pub(crate) fn on_response(&mut self, from: Route, response: Challenge) -> Option<SocketAddr> {
        let proof = |candidate: &mut Candidate| candidate.address == from.remote && candidate.challenge == response;
        self.candidate.take_if(proof)?;
        Some(std::mem::replace(&mut self.route, from).remote)
    }
}

/// The token in the payload of an answer.
pub(crate) fn token_of(payload: &[u8]) -> Option<Token> {
    payload.first_chunk::<TOKEN>().copied()
}
