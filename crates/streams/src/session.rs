//! A session: all streams between two hosts.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use rampmeter_control::AnyController;
use rampmeter_net::{ControllerPolicy, NotLent, SessionEnd};
use rampmeter_session::{PublicKey, SessionId};
use tokio::sync::{oneshot, watch};

use super::error::StreamError;
use super::link::{Command, Link, MakeController};
use super::stream::Stream;

/// A controller that cannot work as designed on the path to the other host, and what it does instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Degraded {
    /// The name of the controller.
    pub controller: &'static str,
    /// The reason ([`degraded_reason`](rampmeter_control::Controller::degraded_reason)).
    pub reason: &'static str,
}

/// A session with another host. Both ends open streams in it. It is a handle: its copies are of the same session, and
/// equal to it.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    id: SessionId,
    peer: PublicKey,
    address: SocketAddr,
    /// The name of the controller that replaces the endpoint's.
    controller: Mutex<Option<String>>,
    link: Arc<Link>,
    ended: watch::Receiver<Option<SessionEnd>>,
    answers: watch::Receiver<bool>,
    degraded: watch::Receiver<Option<Degraded>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("peer", &self.0.peer).finish_non_exhaustive()
    }
}

impl PartialEq for Session {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Session {}

impl Hash for Session {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl Session {
    pub(super) fn new(
        id: SessionId,
        peer: PublicKey,
        address: SocketAddr,
        link: Arc<Link>,
        ended: watch::Receiver<Option<SessionEnd>>,
        answers: watch::Receiver<bool>,
        degraded: watch::Receiver<Option<Degraded>>,
    ) -> Self {
        Self(Arc::new(Inner { id, peer, address, controller: Mutex::default(), link, ended, answers, degraded }))
    }

    pub(super) fn link(&self) -> &Link {
        &self.0.link
    }

    /// The public key of the other host.
    pub fn peer_key(&self) -> PublicKey {
        self.0.peer
    }

    /// The address that the other host had at first.
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Opens a stream.
    pub async fn open(&self) -> Result<Stream, StreamError> {
        let (reply, answer) = oneshot::channel();
        self.0.link.push(Command::Open(self.0.id, reply));
        answer.await.unwrap_or(Err(StreamError::Ended(self.end().unwrap_or(SessionEnd::Finished))))
    }

    /// The name of the controller that was set, if one was.
    pub fn controller(&self) -> Option<String> {
        self.0.controller.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the controller of the session's macroflow by one of this name.
    /// `make` is called at once, and again whenever the other host has another IP address; `None` leaves the present one.
    pub fn set_controller(&self, name: &str, make: impl FnMut() -> Option<AnyController> + Send + 'static) {
        *self.0.controller.lock().unwrap_or_else(PoisonError::into_inner) = Some(name.to_owned());
        self.0.link.push(Command::Control(self.0.id, MakeController(Box::new(make))));
    }

    /// The same with the controller that `policy` lends under this name; nothing changes if there is none.
    pub fn lend_controller(&self, policy: &Arc<ControllerPolicy>, name: &str) -> Result<(), NotLent> {
        policy.select(name)?;
        let (policy, lent) = (Arc::clone(policy), name.to_owned());
        self.set_controller(name, move || policy.select(&lent).ok());
        Ok(())
    }

    /// Asks the other host for an answer, and ends the session if there is none within five to six seconds. For a host
    /// that has a reason to expect none: without a check a silent session ends after a minute.
    pub fn check(&self) {
        self.0.link.push(Command::Check(self.0.id));
    }

    /// Ends the session; streams that are still open fail.
    pub fn close(&self) {
        self.0.link.push(Command::Close(self.0.id));
    }

    /// Waits for the end of the session.
    pub async fn ended(&self) -> SessionEnd {
        let mut ended = self.0.ended.clone();
        let end = ended.wait_for(Option::is_some).await.ok().and_then(|end| *end);
        end.unwrap_or(SessionEnd::Finished)
    }

    /// Waits until the other host answers, or does not answer any more. False if the session has ended.
    pub async fn answers(&self, answers: bool) -> bool {
        self.0.answers.clone().wait_for(|now| *now == answers).await.is_ok() && self.0.ended.borrow().is_none()
    }

    /// Waits until the controller of what this host sends is degraded in another way than `known`. `None` if the
    /// session has ended. Each reason is reported once for an address of the other host.
    pub async fn degraded(&self, known: Option<Degraded>) -> Option<Degraded> {
        let mut degraded = self.0.degraded.clone();
        let other = degraded.wait_for(|now| *now != known).await;
        other.ok().and_then(|now| *now)
    }

    /// Why it has ended, if it has.
    pub fn end(&self) -> Option<SessionEnd> {
        *self.0.ended.borrow()
    }
}
