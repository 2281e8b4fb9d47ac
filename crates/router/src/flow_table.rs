//! State per flow, for as long as a router cares about the flow and no longer.
//!
//! A flow gets a slot; a released slot goes to the next new flow together with what its state has allocated. Memory is
//! that of the most flows known *at once*, however many come and go.

use std::collections::HashMap;
use std::ops::{Index, IndexMut};

/// The flows a router knows.
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

    /// The slot of `flow`; one with the state that an earlier flow left behind if it is new.
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

    /// Forgets the flow in `slot`.
    pub(crate) fn release(&mut self, slot: usize) {
        let forgotten = self.slots.remove(&self.states[slot].0);
        debug_assert_eq!(forgotten, Some(slot));
        self.free.push(slot);
    }

    /// Flows known now.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Slots there are: the most flows known at once so far.
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
    fn a_million_flows_one_after_another_take_one_slot() {
        let mut flows = FlowTable::<()>::default();
        for flow in 0..1_000_000 {
            let slot = flows.find_or_take(flow);
            assert_eq!((flows.flow(slot), flows.find(flow)), (flow, Some(slot)));
            flows.release(slot);
        }
        assert_eq!((flows.len(), flows.capacity()), (0, 1));
    }
}
