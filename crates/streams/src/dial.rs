//! A client's first contact with its server.

use std::net::SocketAddr;

use rampmeter_net::{ContactError, Trusted};
use rampmeter_session::SessionId;
use rampmeter_units::{Duration, Time};
use tokio::sync::oneshot;

use super::session::Session;

/// A first contact that has not succeeded yet.
#[derive(Debug)]
pub(super) struct Dial {
    pub(super) trusted: Trusted,
    pub(super) address: SocketAddr,
    /// The session of the present attempt.
    pub(super) session: Option<SessionId>,
    /// Addresses to be tried after this one.
    pub(super) others: Vec<SocketAddr>,
    /// The duration of an attempt at one address.
    pub(super) timeout: Duration,
    /// When the present attempt ends.
    pub(super) deadline: Time,
    pub(super) is_new_server: bool,
    pub(super) reply: oneshot::Sender<Result<Connected, ContactError>>,
}

/// A session that a client has opened.
#[derive(Debug)]
pub(super) struct Connected {
    pub(super) session: Session,
    pub(super) address: SocketAddr,
    pub(super) handshake: Duration,
    pub(super) is_new_server: bool,
}
