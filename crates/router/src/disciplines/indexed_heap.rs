//! A binary min-heap of slots whose keys can change and which can be removed from any position, all in O(log n). Slots
//! are those of [`crate::disciplines::flow_table`]; the order of equal keys depends only on the calls made.

/// Marks a slot that is not in the heap.
const ABSENT: usize = usize::MAX;

/// The heap.
#[derive(Debug, Default)]
pub(crate) struct IndexedHeap<K> {
    entries: Vec<(K, usize)>,
    /// The position of each slot in `entries`.
    positions: Vec<usize>,
}

impl<K: Ord + Copy> IndexedHeap<K> {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The smallest key and its slot.
    pub(crate) fn first(&self) -> Option<(K, usize)> {
        self.entries.first().copied()
    }

    /// The key of `slot`.
    pub(crate) fn key(&self, slot: usize) -> Option<K> {
        let position = *self.positions.get(slot)?;
        self.entries.get(position).map(|(key, _)| *key)
    }

    /// Inserts `slot` or changes its key.
    pub(crate) fn set(&mut self, slot: usize, key: K) {
        if self.positions.len() <= slot {
            self.positions.resize(slot + 1, ABSENT);
        }
        if self.positions[slot] == ABSENT {
            self.positions[slot] = self.entries.len();
            self.entries.push((key, slot));
        }
        let position = self.positions[slot];
        self.entries[position].0 = key;
        self.restore_order(position);
    }

    /// Removes `slot`, if it is in the heap.
    pub(crate) fn remove(&mut self, slot: usize) {
        let Some(&position) = self.positions.get(slot) else { return };
        if position == ABSENT {
            return;
        }
        self.positions[slot] = ABSENT;
        self.entries.swap_remove(position);
        if let Some(&(_, moved)) = self.entries.get(position) {
            self.positions[moved] = position;
            self.restore_order(position);
        }
    }

    /// Moves the entry at `position` up or down to its position.
    fn restore_order(&mut self, mut position: usize) {
        while position > 0 && self.entries[position].0 < self.entries[(position - 1) / 2].0 {
            self.swap(position, (position - 1) / 2);
            position = (position - 1) / 2;
        }
        loop {
            let (left, right) = (2 * position + 1, 2 * position + 2);
            let key = |at: usize| self.entries.get(at).map(|(key, _)| *key);
            let Some(left_key) = key(left) else { return };
            let smallest = if key(right).is_some_and(|right_key| right_key < left_key) { right } else { left };
            if self.entries[position].0 <= self.entries[smallest].0 {
                return;
            }
            self.swap(position, smallest);
            position = smallest;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.entries.swap(a, b);
        self.positions[self.entries[a].1] = a;
        self.positions[self.entries[b].1] = b;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_smallest_key_is_first_after_any_change_or_removal(
            steps in prop::collection::vec((0usize..12, prop::option::of(0u32..20)), 0..200),
        ) {
            let (mut heap, mut plain) = (IndexedHeap::default(), BTreeMap::new());
            for (slot, key) in steps {
                if let Some(key) = key {
                    heap.set(slot, key);
                    plain.insert(slot, key);
                } else {
                    heap.remove(slot);
                    plain.remove(&slot);
                }
                prop_assert_eq!(heap.len(), plain.len());
                prop_assert_eq!(heap.first().map(|(key, _)| key), plain.values().min().copied());
                prop_assert_eq!(heap.key(slot), plain.get(&slot).copied());
            }
        }
    }
}
