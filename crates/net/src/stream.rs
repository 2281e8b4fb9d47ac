//! The buffers of one connection: bytes written and not acknowledged, bytes received and not read.

use std::net::SocketAddr;

use rampmeter_transport::{Connection, ConnectionId, ReceiveBuffer, SendBuffer};
use rampmeter_units::Time;
use rampmeter_wire::{Kind, Packet};

use crate::host::{Event, Limits};
use crate::peer::Peer;

/// The free space of a buffer of `capacity` at which a writer is notified.
pub(crate) fn min_write_space(capacity: usize) -> usize {
    (64 * 1024).min(capacity / 2)
}

/// The receiver's packet counts, from which it estimates loss: packets with payload that arrived, and packets sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrivals {
    /// Packets received.
    pub packets: u64,
    /// Packets sent, from the first packet number received to the highest.
    pub sent: u64,
}

impl Arrivals {
    /// Packets missing so far. In clear, where a macroflow has several flows, packets of the other flows count, too.
    pub fn missing(&self) -> u64 {
        self.sent.saturating_sub(self.packets)
    }
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: ConnectionId,
    pub(crate) peer: Peer,
    /// The peer's address, which remains known when its session has ended.
    pub(crate) address: Option<SocketAddr>,
    /// The key of a client, and its comment, for the log.
    pub(crate) client: Option<String>,
    pub(crate) opened_at: Time,
    pub(crate) outgoing: SendBuffer,
    /// Its size.
    pub(crate) send_buffer: usize,
    pub(crate) incoming: ReceiveBuffer,
    /// Bytes of the peer's stream received in order.
    pub(crate) arrived: u64,
    /// Bytes of it that the application has read.
    pub(crate) consumed: u64,
    /// Whether the peer's stream has arrived completely.
    pub(crate) ended: bool,
    /// Whether `Readable` was reported since the application last read.
    reported_readable: bool,
    /// Whether the application waits for space in the send buffer.
    pub(crate) wants_space: bool,
    first_number: Option<u64>,
    pub(crate) arrivals: Arrivals,
}

impl Stream {
    pub(crate) fn new(
        now: Time,
        id: ConnectionId,
        peer: Peer,
        address: Option<SocketAddr>,
        client: Option<String>,
        send_buffer: usize,
    ) -> Self {
        Self {
            id,
            peer,
            address,
            client,
            opened_at: now,
            outgoing: SendBuffer::default(),
            send_buffer,
            incoming: ReceiveBuffer::default(),
            arrived: 0,
            consumed: 0,
            ended: false,
            reported_readable: false,
            wants_space: false,
            first_number: None,
            arrivals: Arrivals::default(),
        }
    }

    /// Processes a packet of the peer whose payload has been stored. Returns the events for the application.
    pub(crate) fn on_packet(
        &mut self,
        packet: &Packet,
        connection: &Connection,
        limits: &Limits,
    ) -> [Option<Event>; 2] {
        if packet.kind == Kind::Data && (packet.sequence_len() > 0 || packet.probe) {
            let last = self.first_number.map_or(0, |first| first + self.arrivals.sent);
            self.count(connection.place(last, packet.number));
        }
        self.outgoing.release(connection.acknowledged());
        let (arrived, ended) = (connection.arrived(), connection.is_received());
        let more = arrived > self.arrived || (ended && !self.ended);
        (self.arrived, self.ended) = (arrived, ended);
        let readable = more && !self.reported_readable;
        self.reported_readable |= readable;
        [readable.then_some(Event::Readable(self.id)), self.writable(connection, limits)]
    }

    /// The event for an application that waits for space, if there is enough now.
    pub(crate) fn writable(&mut self, connection: &Connection, limits: &Limits) -> Option<Event> {
        let writable = self.wants_space && self.send_space(connection, limits) >= limits.min_write_space();
        self.wants_space &= !writable;
        writable.then_some(Event::Writable(self.id))
    }

    /// The bytes for which the send buffer has space.
    pub(crate) fn buffer_space(&self) -> usize {
        self.send_buffer.saturating_sub(self.outgoing.len())
    }

    /// The bytes that the connection takes: its send buffer has space for them, and few enough have not been sent.
    pub(crate) fn send_space(&self, connection: &Connection, limits: &Limits) -> usize {
        let unsent = usize::try_from(connection.unsent()).unwrap_or(usize::MAX);
        self.buffer_space().min(limits.unsent.saturating_sub(unsent))
    }

    /// Counts a packet with its place among those that its sender has sent.
    fn count(&mut self, number: u64) {
        let first = *self.first_number.get_or_insert(number);
        self.arrivals.packets += 1;
        self.arrivals.sent = self.arrivals.sent.max((number + 1).saturating_sub(first));
    }

    /// Moves up to `max` readable bytes to the end of `out`. Returns their number. If more are left, `Readable` is not
    /// reported before another read.
    pub(crate) fn read(&mut self, max: usize, out: &mut impl for<'a> Extend<&'a u8>) -> usize {
        let until = self.arrived.min(self.consumed.saturating_add(max as u64));
        self.reported_readable = until < self.arrived;
        let count = self.incoming.read(until, out);
        self.consumed += count as u64;
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_in_the_packet_numbers_are_losses() {
        let mut arrivals = Arrivals { packets: 98, sent: 100 };
        assert_eq!(arrivals.missing(), 2);
        arrivals.packets = 101; // duplicates
        assert_eq!(arrivals.missing(), 0);
    }
}
