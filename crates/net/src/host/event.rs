//! What a host reports to its application.

use std::io;
use std::net::SocketAddr;

use rampmeter_manager::Delivery;
use rampmeter_session::{Denial, PublicKey, SessionId};
use rampmeter_transport::{CloseReason, ConnectionId, Statistics};
use rampmeter_units::Duration;

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// Both streams were delivered completely.
    Finished,
    /// The peer aborted it.
    Reset,
    /// This end aborted it.
    Aborted,
    /// The peer stopped responding.
    PeerTimeout,
    /// The peer acknowledged what it had not received.
    FalseFeedback,
}

impl From<CloseReason> for EndReason {
    fn from(reason: CloseReason) -> Self {
        match reason {
            CloseReason::Finished => Self::Finished,
            CloseReason::Reset => Self::Reset,
            CloseReason::Aborted => Self::Aborted,
            CloseReason::FalseFeedback => Self::FalseFeedback,
            CloseReason::TimedOut => Self::PeerTimeout,
        }
    }
}

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEnd {
    /// The other host has not answered, and somebody at its address says why.
    Denied(Denial),
    /// This host's key is not on the other host's list.
    NotAuthorized,
    /// The other host has sent and received all that it wanted.
    Finished,
    /// The other host stops.
    Stopping,
    /// The other host was restarted.
    Restarted,
    /// The other host has no place for another session.
    Busy,
    /// The other host does not answer.
    NoAnswer,
}

/// An event for the application.
#[derive(Debug)]
pub enum Event {
    /// The key of a host that was not known. The application decides whether it opens connections in the session.
    Key(SessionId, PublicKey),
    /// The other host of a session has another IP address. The controller is a new one, as the endpoint makes them.
    Moved(SessionId),
    /// A session has ended, and its connections with it.
    SessionEnded(SessionId, SessionEnd),
    /// A connection that this host opened is established; with the duration of the handshake.
    Opened(ConnectionId, Duration),
    /// A connection that a peer opened is established; with the duration of the handshake.
    Accepted(ConnectionId, Duration),
    /// There are bytes to read, or the peer's stream has ended. Reported once until the application reads.
    Readable(ConnectionId),
    /// There is space to write. Reported once after a write that did not fit.
    Writable(ConnectionId),
    /// A datagram of a peer's datagram flow has arrived: the peer, the delivery and the payload's size.
    Datagram(SocketAddr, Delivery, usize),
    /// A connection's controller is degraded, with the reason
    /// ([`Controller::degraded_reason`](rampmeter_control::Controller::degraded_reason)). Each reason is reported once in
    /// a session, until the session moves to another address; in clear once for each connection.
    Degraded(ConnectionId, &'static str),
    /// The connection has ended. Received bytes can be read until the loop's next run.
    Closed(ConnectionId, EndReason, Statistics),
    /// The kernel reports that packets do not reach their peer or cannot be sent. Connections keep trying.
    SocketError(io::Error),
}
