//! A binary min-heap of slots whose keys can change and which can be taken out from anywhere, all in O(log n).
//!
//! It remembers where each slot stands, so a slot is found without a search. Slots are small numbers (see
//! [`crate::flow_table`]); equal keys come in an order that depends only on the calls made.

/// Marks a slot that is not in the heap.
const ABSENT: usize = usize::MAX;

/// The heap.
#[derive(Debug, Default)]
pub(crate) struct IndexedHeap<K> {
    entries: Vec<(K, usize)>,
    /// Where each slot stands in `entries`.
    places: Vec<usize>,
}

impl<K: Ord + Copy> IndexedHeap<K> {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The least key and its slot.
    pub(crate) fn first(&self) -> Option<(K, usize)> {
        self.entries.first().copied()
    }

    /// The key of `slot`.
    pub(crate) fn key(&self, slot: usize) -> Option<K> {
        let place = *self.places.get(slot)?;
        self.entries.get(place).map(|(key, _)| *key)
    }

    /// Puts `slot` in or changes its key.
    pub(crate) fn set(&mut self, slot: usize, key: K) {
        if self.places.len() <= slot {
            self.places.resize(slot + 1, ABSENT);
        }
        let place = if self.places[slot] == ABSENT {
            self.entries.push((key, slot));
            self.places[slot] = self.entries.len() - 1;
            self.entries.len() - 1
        } else {
            self.entries[self.places[slot]].0 = key;
            self.places[slot]
        };
        self.settle(place);
    }

    /// Takes `slot` out, if it is in.
    pub(crate) fn remove(&mut self, slot: usize) {
        let Some(&place) = self.places.get(slot) else { return };
        if place == ABSENT {
            return;
        }
        self.places[slot] = ABSENT;
        self.entries.swap_remove(place);
        if let Some(&(_, moved)) = self.entries.get(place) {
            self.places[moved] = place;
            self.settle(place);
        }
    }

    /// Moves the entry at `place` up or down to where its key belongs.
    fn settle(&mut self, mut place: usize) {
        while place > 0 && self.entries[place].0 < self.entries[(place - 1) / 2].0 {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
        loop {
            let (left, right) = (2 * place + 1, 2 * place + 2);
            let key = |at: usize| self.entries.get(at).map(|(key, _)| *key);
            let Some(left_key) = key(left) else { return };
            let least = if key(right).is_some_and(|right_key| right_key < left_key) { right } else { left };
            if self.entries[place].0 <= self.entries[least].0 {
                return;
            }
            self.swap(place, least);
            place = least;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.entries.swap(a, b);
        self.places[self.entries[a].1] = a;
        self.places[self.entries[b].1] = b;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_least_key_comes_first_whatever_was_changed_or_removed(
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
