//! The output of an endpoint: packets to send, new payload, events.

use rampmeter_units::{Duration, Ecn};
use rampmeter_wire::Packet;

use crate::connection::{CloseReason, Statistics};
use crate::connection_id::ConnectionId;

/// An event for the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The handshake is complete; its round-trip time.
    Opened(ConnectionId, Duration),
    /// The same, for a connection that a peer opened.
    Accepted(ConnectionId, Duration),
    /// Its controller cannot work as designed on this path, and why
    /// ([`degraded_reason`](rampmeter_control::Controller::degraded_reason)), or it has a
    /// [`Fault`](rampmeter_control::Fault). Reported when the reason changes.
    Degraded(ConnectionId, &'static str),
    /// The connection has ended; its name is no longer valid.
    Closed(ConnectionId, CloseReason, Statistics),
}

/// A packet to send.
#[derive(Debug, Clone, Copy)]
pub struct Transmit<A> {
    /// The receiver.
    pub to: A,
    /// Its header.
    pub packet: Packet,
    /// The ECN code to send it with.
    pub ecn: Ecn,
    /// The connection of the packet.
    pub connection: ConnectionId,
    /// The offset of its payload in the connection's stream.
    pub offset: u64,
    /// The number of zeros that follow the packet in its datagram: a probe has some.
    pub padding: u16,
}

/// How a packet leaves whose header is elsewhere: see [`Transmit`], which is both.
#[derive(Debug, Clone, Copy)]
pub struct Envelope<A> {
    /// The receiver.
    pub to: A,
    /// The ECN code to send it with.
    pub ecn: Ecn,
    /// The connection of the packet.
    pub connection: ConnectionId,
    /// The offset of its payload in the connection's stream.
    pub offset: u64,
    /// The number of zeros that follow the packet in its datagram.
    pub padding: u16,
}

impl<A> Envelope<A> {
    /// The envelope of a packet without payload and padding.
    pub(crate) fn new(to: A, connection: ConnectionId, ecn: Ecn) -> Self {
        Self { to, ecn, connection, offset: 0, padding: 0 }
    }

    /// This envelope, with the header.
    pub(crate) fn with(self, packet: &Packet) -> Transmit<A> {
        let Self { to, ecn, connection, offset, padding } = self;
        Transmit { to, packet: *packet, ecn, connection, offset, padding }
    }
}

/// New payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// The connection.
    pub connection: ConnectionId,
    /// Its offset in the peer's stream.
    pub offset: u64,
    /// Its offset in the packet's payload.
    pub skip: usize,
    /// Its length.
    pub len: usize,
}
