//! Connections that others opened. A `Syn` proves nothing, so those whose opener has not answered yet are few and are
//! the first to go.

use std::collections::{BTreeMap, VecDeque};

use crate::address::Address;
use crate::connection_id::ConnectionId;

#[derive(Debug)]
pub(crate) struct Accepted<A> {
    /// By their opener's address and its id for them, to recognise a repeated `Syn`.
    by_opener: BTreeMap<(A, u32), ConnectionId>,
    /// Those whose opener has not yet shown that it gets our packets, oldest first.
    half_open: VecDeque<ConnectionId>,
}

impl<A: Address> Accepted<A> {
    pub(crate) fn new() -> Self {
        Self { by_opener: BTreeMap::new(), half_open: VecDeque::new() }
    }

    /// The connection that `opener` calls `remote`, if there is one.
    pub(crate) fn find(&self, opener: A, remote: u32) -> Option<ConnectionId> {
        self.by_opener.get(&(opener, remote)).copied()
    }

    /// It begins, half open.
    pub(crate) fn insert(&mut self, opener: A, remote: u32, id: ConnectionId) {
        self.by_opener.insert((opener, remote), id);
        self.half_open.push_back(id);
    }

    /// It is half open no more.
    pub(crate) fn on_opened(&mut self, id: ConnectionId) {
        self.half_open.retain(|&other| other != id);
    }

    /// It is over. `was_opened`: it was not half open to the end.
    pub(crate) fn remove(&mut self, opener: A, remote: u32, id: ConnectionId, was_opened: bool) {
        self.by_opener.remove(&(opener, remote));
        if !was_opened {
            self.on_opened(id);
        }
    }

    /// How many are half open.
    pub(crate) fn half_open(&self) -> usize {
        self.half_open.len()
    }

    /// Which of those has been so for longest.
    pub(crate) fn oldest_half_open(&self) -> Option<ConnectionId> {
        self.half_open.front().copied()
    }
}
