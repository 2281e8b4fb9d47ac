//! The clients of a daemon: whose they are, which flows they have, and what their owners use of the daemon's memory.
//!
//! A client names its flows by ids of its own choice; only its own ids reach a flow.

use std::collections::HashMap;

use rampmeter_manager::{Owner, Quotas};

use crate::limits;

/// The memory that a waiting datagram takes besides its bytes.
const DATAGRAM_BYTES: u64 = 64;

#[derive(Debug, Default)]
struct Client {
    owner: Owner,
    /// Its flows by the slot of the id: the manager's index plus one, zero for none.
    indexes: Vec<u32>,
}

#[derive(Debug)]
pub(super) struct Clients {
    by_number: HashMap<u32, Client>,
    flows: Quotas,
    /// Bytes of waiting datagrams.
    queued: Quotas,
}

impl Clients {
    pub(super) fn new() -> Self {
        let (flows, queued) = (Quotas::new(limits::MAX_ALL_FLOWS), Quotas::new(limits::MAX_ALL_QUEUED));
        Self { by_number: HashMap::new(), flows, queued }
    }

    /// A client of `owner` connects. Clients that have not been added have the default owner.
    pub(super) fn add(&mut self, client: u32, owner: Owner) {
        self.by_number.insert(client, Client { owner, indexes: Vec::new() });
    }

    pub(super) fn owner(&self, client: u32) -> Owner {
        self.by_number.get(&client).map(|client| client.owner).unwrap_or_default()
    }

    /// The flows of `owner`, and the bytes of its waiting datagrams.
    pub(super) fn used(&self, owner: Owner) -> (u64, u64) {
        (self.flows.used(owner), self.queued.used(owner))
    }

    /// The manager's index of the client's flow in the slot of this id.
    pub(super) fn flow(&self, client: u32, id: u32) -> Option<usize> {
        let entry = *self.by_number.get(&client)?.indexes.get(limits::slot(id))?;
        entry.checked_sub(1).map(|index| index as usize)
    }

    /// Whether the client may open another flow.
    pub(super) fn may_open(&self, client: u32) -> bool {
        self.flows.permits(self.owner(client), 1)
    }

    /// The client has opened a flow, in a free slot.
    pub(super) fn opened(&mut self, client: u32, id: u32, index: usize) {
        let (client, slot) = (self.by_number.entry(client).or_default(), limits::slot(id));
        if client.indexes.len() <= slot {
            client.indexes.resize(slot + 1, 0);
        }
        client.indexes[slot] = index as u32 + 1;
        self.flows.take(client.owner, 1);
    }

    /// The client's flow has ended, with datagrams of `queued` bytes in its queue.
    pub(super) fn ended(&mut self, client: u32, id: u32, owner: Owner, datagrams: usize, queued: u64) {
        let indexes = self.by_number.get_mut(&client).map(|client| &mut client.indexes);
        if let Some(entry) = indexes.and_then(|indexes| indexes.get_mut(limits::slot(id))) {
            *entry = 0;
        }
        self.flows.give_back(owner, 1);
        self.queued.give_back(owner, queued + datagrams as u64 * DATAGRAM_BYTES);
    }

    /// A datagram of `bytes` bytes is to wait in the daemon. Returns whether its owner may use so much.
    pub(super) fn enqueue(&mut self, owner: Owner, bytes: u64) -> bool {
        self.queued.take(owner, bytes + DATAGRAM_BYTES)
    }

    /// Such a datagram has left.
    pub(super) fn dequeue(&mut self, owner: Owner, bytes: u64) {
        self.queued.give_back(owner, bytes + DATAGRAM_BYTES);
    }

    /// Removes a client. Returns its flows, which must be ended.
    pub(super) fn remove(&mut self, client: u32) -> Vec<usize> {
        let indexes = self.by_number.remove(&client).unwrap_or_default().indexes;
        indexes.into_iter().filter_map(|entry| entry.checked_sub(1).map(|index| index as usize)).collect()
    }
}
