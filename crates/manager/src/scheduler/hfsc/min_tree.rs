//! A tournament tree: slots that may each hold a key, and the minimum of these keys.
//!
//! Setting, changing or clearing a key takes one comparison per level, log n in all. Memory is allocated only when the
//! number of slots exceeds its previous maximum. A heap would be as fast for the minimum alone; here flows come and go
//! in the middle and are in two orders at once.

use std::cmp::Reverse;

/// Keys by slot.
#[derive(Debug)]
pub(super) struct MinTree<K> {
    /// The key of each slot. An empty slot loses every comparison.
    keys: Vec<Option<Reverse<K>>>,
    /// Entry 1 is the winner of all, entry i the winner of entries 2i and 2i + 1; the last half is the slots
    /// themselves.
    tree: Vec<u32>,
}

impl<K: Ord + Copy> MinTree<K> {
    pub(super) const fn new() -> Self {
        Self { keys: Vec::new(), tree: Vec::new() }
    }

    /// The slot of the minimum key, and the key.
    pub(super) fn first(&self) -> Option<(u32, K)> {
        let slot = *self.tree.get(1)?;
        self.keys[slot as usize].map(|Reverse(key)| (slot, key))
    }

    pub(super) fn set(&mut self, slot: u32, key: K) {
        if slot as usize >= self.keys.len() {
            self.grow((slot as usize + 1).next_power_of_two());
        }
        self.put(slot, Some(Reverse(key)));
    }

    pub(super) fn clear(&mut self, slot: u32) {
        if self.keys.get(slot as usize).is_some_and(Option::is_some) {
            self.put(slot, None);
        }
    }

    fn put(&mut self, slot: u32, key: Option<Reverse<K>>) {
        self.keys[slot as usize] = key;
        let mut entry = usize::midpoint(self.keys.len(), slot as usize);
        while entry > 0 {
            self.compare(entry);
            entry /= 2;
        }
    }

    fn compare(&mut self, entry: usize) {
        let (a, b) = (self.tree[2 * entry], self.tree[2 * entry + 1]);
        self.tree[entry] = if self.keys[b as usize] > self.keys[a as usize] { b } else { a };
    }

    fn grow(&mut self, slots: usize) {
        self.keys.resize(slots, None);
        self.tree.clear();
        self.tree.resize(slots, 0);
        self.tree.extend(0..slots as u32);
        (1..slots).rev().for_each(|entry| self.compare(entry));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_is_the_minimum(calls in prop::collection::vec((0u32..40, prop::option::of(0u64..1000)), 0..200)) {
            let mut tree = MinTree::new();
            let mut known = std::collections::BTreeMap::new();
            for (slot, key) in calls {
                if let Some(key) = key {
                    tree.set(slot, (key, slot));
                    known.insert(slot, (key, slot));
                } else {
                    tree.clear(slot);
                    known.remove(&slot);
                }
                let expected = known.iter().min_by_key(|(_, key)| **key).map(|(slot, key)| (*slot, *key));
                prop_assert_eq!(tree.first(), expected);
            }
        }
    }
}
