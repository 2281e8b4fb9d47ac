//! Per-flow state, kept only while a router needs it.
//!
//! A flow has a slot; a released slot is reused by the next new flow, together with the memory of its state.

use std::collections::HashMap;
use std::ops::{Index, IndexMut};

/// The flows that a router knows.
#[derive(Debug, Default)]
pub(crate) struct FlowTable<T> {
    slots: HashMap<u64, usize>,
    states: Vec<(u64, T)>,
    free: Vec<usize>,
}

impl<T: Default> FlowTable<T> {
    /// The slot of `flow`, if it is known.
    pub(crate) fn find(&self, flow: u64) -> Option<usize> {
        self.slots.get(&flow).copied()
    }

    /// The slot of `flow`; for a new flow, perhaps one with the state of an earlier flow.
    pub(crate) fn find_or_take(&mut self, flow: u64) -> usize {
        *self.slots.entry(flow).or_insert_with(|| {
            if let Some(slot) = self.free.pop() {
                self.states[slot].0 = flow;
                return slot;
            }
            self.states.push((flow, T::default()));
            self.states.len() - 1
        })
    }

    /// The flow in `slot`.
    pub(crate) fn flow(&self, slot: usize) -> u64 {
        self.states[slot].0
    }

    /// Removes the flow in `slot`.
    pub(crate) fn release(&mut self, slot: usize) {
        let removed = self.slots.remove(&self.states[slot].0);
        debug_assert_eq!(removed, Some(slot));
        self.free.push(slot);
    }

    /// The number of flows.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The number of slots: the maximum number of flows known at once so far.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.states.len()
    }
}

impl<T> Index<usize> for FlowTable<T> {
    type Output = T;
    fn index(&self, slot: usize) -> &T {
        &self.states[slot].1
    }
}

impl<T> IndexMut<usize> for FlowTable<T> {
    fn index_mut(&mut self, slot: usize) -> &mut T {
        &mut self.states[slot].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_successive_flows_use_one_slot() {
        let mut flows = FlowTable::<()>::default();
        for flow in 0..1_000_000 {
            let slot = flows.find_or_take(flow);
            assert_eq!((flows.flow(slot), flows.find(flow)), (flow, Some(slot)));
            flows.release(slot);
        }
        assert_eq!((flows.len(), flows.capacity()), (0, 1));
    }
}
