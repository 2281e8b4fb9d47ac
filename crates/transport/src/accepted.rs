//! Connections opened by peers. A `Syn` proves nothing, so the number of half-open connections is small, and they are
//! discarded first.

use std::collections::{BTreeMap, VecDeque};

use crate::address::Address;
use crate::connection_id::ConnectionId;

#[derive(Debug)]
pub(crate) struct Accepted<A> {
    /// By their opener's address and its id for them, to recognize a repeated `Syn`.
    by_opener: BTreeMap<(A, u32), ConnectionId>,
    /// Connections whose opener has not yet shown that it receives this host's packets, oldest first.
    pub(crate) half_open: VecDeque<ConnectionId>,
}

impl<A: Address> Accepted<A> {
    pub(crate) fn new() -> Self {
        Self { by_opener: BTreeMap::new(), half_open: VecDeque::new() }
    }

    /// The connection that `opener` calls `remote`, if there is one.
    pub(crate) fn find(&self, opener: A, remote: u32) -> Option<ConnectionId> {
        self.by_opener.get(&(opener, remote)).copied()
    }

    /// Adds a half-open connection.
    pub(crate) fn insert(&mut self, opener: A, remote: u32, id: ConnectionId) {
        self.by_opener.insert((opener, remote), id);
        self.half_open.push_back(id);
    }

    /// The opener has proved its address.
    pub(crate) fn on_opened(&mut self, id: ConnectionId) {
        self.half_open.retain(|&other| other != id);
    }

    /// Removes a connection. `was_opened`: its opener had proved its address.
    pub(crate) fn remove(&mut self, opener: A, remote: u32, id: ConnectionId, was_opened: bool) {
        self.by_opener.remove(&(opener, remote));
        if !was_opened {
            self.on_opened(id);
        }
    }
}
