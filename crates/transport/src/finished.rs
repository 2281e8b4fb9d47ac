//! Connections that have ended completely, for peers that do not know it: all of their last acknowledgements were lost,
//! in an outage longer than connections linger. Such a peer retransmits for minutes. Each time the answer is that
//! everything has arrived.
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

/// The number of connections that are kept, of all peers and of one of them.
const MAX_KEPT: usize = 4096;
const MAX_OF_PEER: usize = 512;

/// The fields of the answer.
#[derive(Debug, Clone, Copy)]
struct Last {
    ended_at: Time,
    id: ConnectionId,
    /// The peer's id.
    remote: u32,
    first_sequence: u32,
}

#[derive(Debug)]
pub(crate) struct Finished<A> {
    /// By peer, and this host's number of the connection.
    kept: BTreeMap<(A, u32), Last>,
    /// The oldest first; some of them are no longer kept.
    order: VecDeque<(Time, A, u32)>,
}

impl<A: Copy + Ord> Finished<A> {
    pub(crate) fn new() -> Self {
        Self { kept: BTreeMap::new(), order: VecDeque::new() }
    }

    /// Keeps a connection that has ended completely.
    pub(crate) fn keep(&mut self, now: Time, peer: A, id: ConnectionId, remote: u32, first_sequence: u32) {
        while let Some(&(ended_at, _, _)) = self.order.front() {
            if self.order.len() < MAX_KEPT && now.since(ended_at) < LIFETIME {
                break;
            }
            self.discard_at(0);
        }
        if self.kept.range((peer, 0)..=(peer, u32::MAX)).count() >= MAX_OF_PEER
            && let Some(oldest) = self.order.iter().position(|(_, other, _)| *other == peer)
        {
            self.discard_at(oldest);
        }
        self.order.push_back((now, peer, id.number()));
        self.kept.insert((peer, id.number()), Last { ended_at: now, id, remote, first_sequence });
    }

    fn discard_at(&mut self, place: usize) {
        let Some((ended_at, peer, number)) = self.order.remove(place) else { return };
        // Numbers are used again.
        if self.kept.get(&(peer, number)).is_some_and(|last| last.ended_at == ended_at) {
            self.kept.remove(&(peer, number));
        }
    }

    /// A new connection has the number `connection`.
    pub(crate) fn discard(&mut self, peer: A, connection: u32) {
        self.kept.remove(&(peer, connection));
    }

    /// The answer to a packet from `from` for this host's connection with this number.
    pub(crate) fn answer(&self, now: Time, from: A, connection: u32) -> Option<Reset<A>> {
        let last = self.kept.get(&(from, connection)).filter(|last| now.since(last.ended_at) < LIFETIME)?;
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

    /// Keeps connection `number` with the peer at `peer`, which ended after so many seconds.
    fn keep(finished: &mut Finished<u32>, seconds: u64, peer: u32, number: u32) {
        let ended_at = Time::ZERO + Duration::from_secs(seconds);
        finished.keep(ended_at, peer, ConnectionId::from_number(number), 7, 1000);
    }

    fn is_answered(finished: &Finished<u32>, seconds: u64, peer: u32, number: u32) -> bool {
        finished.answer(Time::ZERO + Duration::from_secs(seconds), peer, number).is_some()
    }

    #[test]
    fn only_the_peer_of_a_connection_gets_an_answer() {
        let mut finished = Finished::new();
        keep(&mut finished, 0, 5, 1);
        let (to, packet, id) = finished.answer(Time::ZERO, 5, 1).unwrap();
        assert_eq!((to, id.number(), packet.connection, packet.sequence, packet.fin), (5, 1, 7, 1000, true));
        assert!(!is_answered(&finished, 0, 6, 1) && !is_answered(&finished, 0, 5, 2));
        finished.discard(5, 1);
        assert!(!is_answered(&finished, 0, 5, 1));
    }

    #[test]
    fn few_connections_are_kept_and_a_peer_displaces_its_own() {
        let mut finished = Finished::new();
        keep(&mut finished, 0, 6, 1);
        (0..1000).for_each(|number| keep(&mut finished, 0, 5, number));
        assert_eq!((finished.kept.len(), finished.order.len()), (MAX_OF_PEER + 1, MAX_OF_PEER + 1));
        assert!(
            is_answered(&finished, 0, 6, 1) && is_answered(&finished, 0, 5, 488) && !is_answered(&finished, 0, 5, 487)
        );
        (0..5000).for_each(|peer| keep(&mut finished, 1, peer, 9));
        assert_eq!((finished.kept.len(), finished.order.len()), (MAX_KEPT, MAX_KEPT));
    }

    #[test]
    fn a_connection_is_kept_for_two_minutes_whatever_its_number() {
        let mut finished = Finished::new();
        keep(&mut finished, 0, 5, 1);
        assert!(is_answered(&finished, 119, 5, 1) && !is_answered(&finished, 120, 5, 1));
        keep(&mut finished, 119, 5, 1);
        keep(&mut finished, 120, 5, 2);
        assert!(is_answered(&finished, 121, 5, 1));
        keep(&mut finished, 239, 5, 3);
        assert_eq!((finished.kept.len(), finished.order.len()), (2, 2));
    }
}
