//! Connections that have ended completely, for peers that do not know it: all of their last acknowledgements were lost,
//! in an outage longer than connections linger. Such a peer retransmits for minutes. Each time the
//! answer is that everything has arrived.
//!
//! TCP keeps a connection for two minutes instead (RFC 9293 section 3.6.1, TIME-WAIT). Here a connection has more state,
//! and hosts end many.

use std::collections::{BTreeMap, VecDeque};

use rampmeter_units::{Duration, Time};
use rampmeter_wire::{Kind, Packet};

use crate::connection_id::ConnectionId;
use crate::resets::Reset;

/// Longer than the time between two retransmissions.
const LIFETIME: Duration = Duration::from_secs(120);

/// The number of connections, of all peers.
const MAX_KEPT: usize = 4096;

/// What the answer to a peer has.
#[derive(Debug, Clone, Copy)]
struct Last<A> {
    peer: A,
    id: ConnectionId,
    /// The peer's id.
    remote: u32,
    first_sequence: u32,
}

#[derive(Debug)]
pub(crate) struct Finished<A> {
    /// By this host's number of the connection.
    kept: BTreeMap<u32, Last<A>>,
    /// The oldest first.
    order: VecDeque<(Time, u32)>,
}

impl<A: Copy + Eq> Finished<A> {
    pub(crate) fn new() -> Self {
        Self { kept: BTreeMap::new(), order: VecDeque::new() }
    }

    /// Keeps a connection that has ended completely.
    pub(crate) fn keep(&mut self, now: Time, peer: A, id: ConnectionId, remote: u32, first_sequence: u32) {
        while let Some(&(at, number)) = self.order.front() {
            if self.order.len() < MAX_KEPT && now.since(at) < LIFETIME {
                break;
            }
            self.order.pop_front();
            self.kept.remove(&number);
        }
        self.order.push_back((now, id.number()));
        self.kept.insert(id.number(), Last { peer, id, remote, first_sequence });
    }

    /// The answer to a packet from `from` for this host's connection with this number.
    pub(crate) fn answer(&self, from: A, connection: u32) -> Option<Reset<A>> {
        let last = self.kept.get(&connection).filter(|last| last.peer == from)?;
        let packet = Packet {
            kind: Kind::Reset,
            fin: true,
            connection: last.remote,
            sequence: last.first_sequence,
            ..Packet::default()
        };
        Some((from, packet, last.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> ConnectionId {
        ConnectionId::from_number(number)
    }

    #[test]
    fn only_the_peer_of_a_connection_gets_an_answer() {
        let mut finished = Finished::new();
        finished.keep(Time::ZERO, 5, id(1), 7, 1000);
        let (to, packet, connection) = finished.answer(5, 1).unwrap();
        assert_eq!((to, connection, packet.connection, packet.sequence, packet.fin), (5, id(1), 7, 1000, true));
        assert!(finished.answer(6, 1).is_none() && finished.answer(5, 2).is_none());
    }

    #[test]
    fn few_connections_are_kept_and_for_two_minutes() {
        let mut finished = Finished::new();
        (0..5000).for_each(|number| finished.keep(Time::ZERO, 5, id(number), 7, 1000));
        assert_eq!((finished.kept.len(), finished.order.len()), (MAX_KEPT, MAX_KEPT));
        assert!(finished.answer(5, 903).is_none() && finished.answer(5, 904).is_some());
        finished.keep(Time::ZERO + LIFETIME, 5, id(5000), 7, 1000);
        assert_eq!((finished.kept.len(), finished.order.len()), (1, 1));
    }
}
