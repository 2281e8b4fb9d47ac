//! What an endpoint hands to its world: packets to send, payload that is news, events.

use rampmeter_units::{Duration, Ecn};
use rampmeter_wire::Packet;

use crate::connection::{CloseReason, Statistics};
use crate::connection_id::ConnectionId;

/// Something the application should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The handshake is done; it took this long.
    Opened(ConnectionId, Duration),
    /// The same, for a connection that a peer opened.
    Accepted(ConnectionId, Duration),
    /// Its controller can't work as its scheme does, and why ([`degraded_reason`](rampmeter_control::Controller::hindrance)).
    /// Told once for each reason that is another one than the last.
    Degraded(ConnectionId, &'static str),
    /// It is over; its name means nothing any more.
    Closed(ConnectionId, CloseReason, Statistics),
}

/// A packet to send.
#[derive(Debug, Clone, Copy)]
pub struct Transmit<A> {
    /// Where to.
    pub to: A,
    /// Its header.
    pub packet: Packet,
    /// The ECN code to send it with.
    pub ecn: Ecn,
    /// Whose packet it is.
    pub connection: ConnectionId,
    /// Where its payload starts in the connection's stream.
    pub offset: u64,
}

/// Payload that is news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Whose.
    pub connection: ConnectionId,
    /// Its place in the peer's stream.
    pub offset: u64,
    /// Where it starts in the packet's payload.
    pub skip: usize,
    /// How much.
    pub len: usize,
}
