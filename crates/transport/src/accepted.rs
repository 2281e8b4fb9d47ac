//! Connections opened by peers.
//!
//! A `Syn` proves nothing, so the number of half-open connections is small. One more replaces one of the network with the
//! most of them, and there of the peer (a session, where hosts have sessions) with the most, its oldest: a peer that
//! floods a host with openers replaces its own (longest queue drop: Suter and others, 1998, for the buffers of routers).

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use rampmeter_manager::Destination;

use crate::address::Address;
use crate::connection_id::ConnectionId;

#[derive(Debug)]
pub(crate) struct Accepted<A> {
    /// By their opener's address and its id for them, to recognize a repeated `Syn`.
    by_opener: BTreeMap<(A, u32), ConnectionId>,
    half_open: BTreeMap<Destination, Network<A>>,
    /// The number of half-open connections.
    len: usize,
    /// The number of connections so far: the age of the next one.
    inserted: u64,
}

/// The half-open connections of a network: of each peer, oldest first, with their ages.
#[derive(Debug)]
struct Network<A> {
    peers: BTreeMap<A, VecDeque<(u64, ConnectionId)>>,
    len: usize,
}

impl<A: Address> Network<A> {
    /// The oldest connection of the peer with the most.
    fn of_largest_peer(&self) -> Option<(u64, ConnectionId)> {
        let oldest = self.peers.values().filter_map(|ids| Some((Reverse(ids.len()), *ids.front()?)));
        oldest.min().map(|(_, oldest)| oldest)
    }
}

impl<A: Address> Accepted<A> {
    pub(crate) fn new() -> Self {
        Self { by_opener: BTreeMap::new(), half_open: BTreeMap::new(), len: 0, inserted: 0 }
    }

    /// The connection that `opener` calls `remote`, if there is one.
    pub(crate) fn find(&self, opener: A, remote: u32) -> Option<ConnectionId> {
        self.by_opener.get(&(opener, remote)).copied()
    }

    /// The number of connections whose opener has not yet shown that it receives this host's packets.
    pub(crate) fn half_open(&self) -> usize {
        self.len
    }

    /// The half-open connection that another one replaces.
    pub(crate) fn to_replace(&self) -> Option<ConnectionId> {
        let largest = self.half_open.values().map(|network| network.len).max()?;
        let networks = self.half_open.values().filter(|network| network.len == largest);
        networks.filter_map(Network::of_largest_peer).min().map(|(_, id)| id)
    }

    /// Adds a half-open connection.
    pub(crate) fn insert(&mut self, opener: A, remote: u32, id: ConnectionId) {
        self.by_opener.insert((opener, remote), id);
        let network = self.half_open.entry(opener.network());
        let network = network.or_insert_with(|| Network { peers: BTreeMap::new(), len: 0 });
        network.peers.entry(opener).or_default().push_back((self.inserted, id));
        network.len += 1;
        self.len += 1;
        self.inserted += 1;
    }

    /// The opener has proved its address.
    pub(crate) fn on_opened(&mut self, opener: A, id: ConnectionId) {
        let Some(network) = self.half_open.get_mut(&opener.network()) else { return };
        let Some(ids) = network.peers.get_mut(&opener) else { return };
        let before = ids.len();
        ids.retain(|&(_, other)| other != id);
        let removed = before - ids.len();
        network.len -= removed;
        self.len -= removed;
        if ids.is_empty() {
            network.peers.remove(&opener);
        }
        if network.len == 0 {
            self.half_open.remove(&opener.network());
        }
    }

    /// Removes a connection. `was_opened`: its opener had proved its address.
    pub(crate) fn remove(&mut self, opener: A, remote: u32, id: ConnectionId, was_opened: bool) {
        self.by_opener.remove(&(opener, remote));
        if !was_opened {
            self.on_opened(opener, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn one_more_replaces_the_oldest_of_the_largest_network_and_peer() {
        let mut accepted = Accepted::<SocketAddr>::new();
        // Peers with two, three and one in a network; one with four in another; one with four in a third.
        let openers = ["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1", "10.0.1.1:1", "10.0.2.1:1"];
        let order = [3, 0, 1, 2, 4, 0, 1, 1, 3, 3, 3, 4, 4, 4];
        for (number, &at) in order.iter().enumerate() {
            accepted.insert(openers[at].parse().unwrap(), number as u32, ConnectionId::first(number, 0));
        }
        let mut replaced = Vec::new();
        while let Some(id) = accepted.to_replace() {
            let number = id.index();
            accepted.remove(openers[order[number]].parse().unwrap(), number as u32, id, false);
            replaced.push(number);
        }
        // The first network has six, of them the second peer three. With four in each, the oldest of any goes first.
        assert_eq!(replaced[..3], [2, 1, 0]);
        assert_eq!((replaced.len(), accepted.half_open(), accepted.half_open.len()), (14, 0, 0));
    }
}
