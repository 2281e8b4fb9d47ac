//! Places that may each hold a key, and which of the keys is the least: a knockout tournament over the places.
//!
//! Setting, changing or clearing a key costs one match a round, log n in all, and nothing is allocated unless there are
//! more places than ever before. A heap would be as quick for the least key alone; here flows come and go in the middle
//! and stand in two orders at once.

use std::cmp::Reverse;

/// Keys by place.
#[derive(Debug)]
pub(super) struct Least<K> {
    /// The key at each place. No key loses against any.
    keys: Vec<Option<Reverse<K>>>,
    /// Winner 1 is that of all, winner i is that of winners 2i and 2i + 1, and the last half is the places themselves.
    winners: Vec<u32>,
}

impl<K: Ord + Copy> Least<K> {
    pub(super) const fn new() -> Self {
        Self { keys: Vec::new(), winners: Vec::new() }
    }

    /// The place of the least key, and the key.
    pub(super) fn first(&self) -> Option<(u32, K)> {
        let place = *self.winners.get(1)?;
        self.keys[place as usize].map(|Reverse(key)| (place, key))
    }

    pub(super) fn set(&mut self, place: u32, key: K) {
        if place as usize >= self.keys.len() {
            self.grow((place as usize + 1).next_power_of_two());
        }
        self.put(place, Some(Reverse(key)));
    }

    pub(super) fn clear(&mut self, place: u32) {
        if self.keys.get(place as usize).is_some_and(Option::is_some) {
            self.put(place, None);
        }
    }

    fn put(&mut self, place: u32, key: Option<Reverse<K>>) {
        self.keys[place as usize] = key;
        let mut game = usize::midpoint(self.keys.len(), place as usize);
        while game > 0 {
            self.play(game);
            game /= 2;
        }
    }

    fn play(&mut self, game: usize) {
        let (a, b) = (self.winners[2 * game], self.winners[2 * game + 1]);
        self.winners[game] = if self.keys[b as usize] > self.keys[a as usize] { b } else { a };
    }

    fn grow(&mut self, places: usize) {
        self.keys.resize(places, None);
        self.winners.clear();
        self.winners.resize(places, 0);
        self.winners.extend(0..places as u32);
        (1..places).rev().for_each(|game| self.play(game));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_least_is_the_least(calls in prop::collection::vec((0u32..40, prop::option::of(0u64..1000)), 0..200)) {
            let mut least = Least::new();
            let mut known = std::collections::BTreeMap::new();
            for (place, key) in calls {
                if let Some(key) = key {
                    least.set(place, (key, place));
                    known.insert(place, (key, place));
                } else {
                    least.clear(place);
                    known.remove(&place);
                }
                let expected = known.iter().min_by_key(|(_, key)| **key).map(|(place, key)| (*place, *key));
                prop_assert_eq!(least.first(), expected);
            }
        }
    }
}
