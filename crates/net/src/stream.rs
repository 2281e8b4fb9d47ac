//! The bytes of one connection: what its application wrote and the peer lacks, what arrived and is unread.

use std::net::SocketAddr;

use rampmeter_transport::{Connection, ConnectionId, ReceiveBuffer, SendBuffer};
use rampmeter_units::Time;
use rampmeter_wire::{Packet, unwrap};

/// Room that is worth waiting for in a buffer of `capacity`.
pub(crate) fn worthwhile(capacity: usize) -> usize {
    (64 * 1024).min(capacity / 2)
}

/// Packets with payload that arrived, and how many were on their way: what the receiver knows of loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrivals {
    /// That arrived.
    pub packets: u64,
    /// Between the first number seen and the highest.
    pub sent: u64,
}

impl Arrivals {
    /// Packets that did not arrive, as far as can be told. Counts other flows' packets, too, where a macroflow has many.
    pub fn missing(&self) -> u64 {
        self.sent.saturating_sub(self.packets)
    }
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: ConnectionId,
    pub(crate) peer: SocketAddr,
    pub(crate) outgoing: SendBuffer,
    pub(crate) incoming: ReceiveBuffer,
    /// Bytes of the peer's stream that have arrived without a hole.
    pub(crate) arrived: u64,
    /// Bytes of it that the application has taken.
    pub(crate) taken: u64,
    /// The peer's stream has arrived whole.
    pub(crate) ended: bool,
    /// The application has been told that there is something to read, and has not read since.
    told_readable: bool,
    /// The application waits for room.
    pub(crate) wants_room: bool,
    /// When the peer last sent anything.
    pub(crate) heard: Time,
    /// It was given up because it kept silent.
    pub(crate) vanished: bool,
    first_number: Option<u64>,
    pub(crate) arrivals: Arrivals,
}

/// What the application should be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct News {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

impl Stream {
    pub(crate) fn new(now: Time, id: ConnectionId, peer: SocketAddr) -> Self {
        Self {
            id,
            peer,
            outgoing: SendBuffer::default(),
            incoming: ReceiveBuffer::default(),
            arrived: 0,
            taken: 0,
            ended: false,
            told_readable: false,
            wants_room: false,
            heard: now,
            vanished: false,
            first_number: None,
            arrivals: Arrivals::default(),
        }
    }

    /// A packet of the peer arrived and its payload is stored; `capacity` bounds what may wait to be delivered.
    pub(crate) fn refresh(&mut self, now: Time, packet: &Packet, connection: &Connection, capacity: usize) -> News {
        self.heard = now;
        if packet.sequence_len() > 0 {
            self.count(packet.number);
        }
        self.outgoing.release(connection.acknowledged());
        let (arrived, ended) = (connection.arrived(), connection.is_received());
        let more = arrived > self.arrived || (ended && !self.ended);
        (self.arrived, self.ended) = (arrived, ended);
        let room = capacity.saturating_sub(self.outgoing.len());
        let readable = more && !self.told_readable;
        let writable = self.wants_room && room >= worthwhile(capacity);
        self.told_readable |= readable;
        self.wants_room &= !writable;
        News { readable, writable }
    }

    fn count(&mut self, number: u32) {
        let reference = self.first_number.map_or(0, |first| first + self.arrivals.sent);
        let number = unwrap(reference, number);
        let first = *self.first_number.get_or_insert(number);
        self.arrivals.packets += 1;
        self.arrivals.sent = self.arrivals.sent.max((number + 1).saturating_sub(first));
    }

    /// Moves what can be read to the end of `out`; says how much.
    pub(crate) fn read(&mut self, out: &mut Vec<u8>) -> usize {
        self.told_readable = false;
        let count = self.incoming.read(self.arrived, out);
        self.taken += count as u64;
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_in_the_numbers_are_losses() {
        let mut arrivals = Arrivals { packets: 98, sent: 100 };
        assert_eq!(arrivals.missing(), 2);
        arrivals.packets = 101; // duplicates
        assert_eq!(arrivals.missing(), 0);
    }
}
