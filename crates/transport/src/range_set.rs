//! Disjoint ranges of stream bytes, in order: what a receiver holds beyond a hole, or what a sender has as selectively
//! acknowledged.

/// A set of byte offsets as disjoint, non-touching ranges `start..end`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RangeSet {
    ranges: Vec<(u64, u64)>,
}

/// The maximum number of ranges: a peer that sends every second byte must not cause a list of half its window.
pub(crate) const MAX_RANGES: usize = 4096;

impl RangeSet {
    /// Adds `start..end` and calls `fresh` for each part that was not in the set, in order. If the set would become too
    /// fragmented, adds nothing and returns false.
    pub(crate) fn insert(&mut self, start: u64, end: u64, mut fresh: impl FnMut(u64, u64)) -> bool {
        if start >= end {
            return true;
        }
        // The ranges that overlap or touch start..end.
        let first = self.ranges.partition_point(|&(_, e)| e < start);
        let last = first + self.ranges[first..].partition_point(|&(s, _)| s <= end);
        if first == last && self.ranges.len() >= MAX_RANGES {
            return false;
        }
        let mut at = start;
        for &(s, e) in &self.ranges[first..last] {
            if at < s {
                fresh(at, s);
            }
            at = at.max(e);
        }
        if at < end {
            fresh(at, end);
        }
        if first == last {
            self.ranges.insert(first, (start, end));
        } else {
            self.ranges[first].0 = self.ranges[first].0.min(start);
            self.ranges[first].1 = self.ranges[last - 1].1.max(end);
            self.ranges.drain(first + 1..last);
        }
        true
    }

    pub(crate) fn remove_below(&mut self, end: u64) {
        if self.ranges.first().is_none_or(|&(start, _)| start >= end) {
            return;
        }
        let removed = self.ranges.partition_point(|&(_, e)| e <= end);
        self.ranges.drain(..removed);
        if let Some(first) = self.ranges.first_mut() {
            first.0 = first.0.max(end);
        }
    }

    pub(crate) fn containing(&self, at: u64) -> Option<(u64, u64)> {
        let index = self.ranges.partition_point(|&(_, e)| e <= at);
        self.ranges.get(index).copied().filter(|&(start, _)| start <= at)
    }

    pub(crate) fn first(&self) -> Option<(u64, u64)> {
        self.ranges.first().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_behaves_like_a_set_of_numbers(
            operations in prop::collection::vec((0u64..60, 0u64..12, prop::bool::weighted(0.1)), 0..60),
        ) {
            let mut set = RangeSet::default();
            let mut model = BTreeSet::new();
            for (start, len, remove) in operations {
                if remove {
                    set.remove_below(start);
                    model.retain(|&n| n >= start);
                    continue;
                }
                let mut fresh = Vec::new();
                prop_assert!(set.insert(start, start + len, |s, e| fresh.extend(s..e)));
                let expected: Vec<u64> = (start..start + len).filter(|n| !model.contains(n)).collect();
                prop_assert_eq!(fresh, expected);
                model.extend(start..start + len);
                let flat: Vec<u64> = set.iter().flat_map(|(s, e)| s..e).collect();
                prop_assert_eq!(flat, model.iter().copied().collect::<Vec<_>>());
                prop_assert!(set.ranges.windows(2).all(|w| w[0].1 < w[1].0));
            }
            for n in 0..80 {
                prop_assert_eq!(set.containing(n).is_some(), model.contains(&n));
            }
        }
    }

    #[test]
    fn fragments_are_bounded() {
        let mut set = RangeSet::default();
        for n in 0..MAX_RANGES as u64 {
            assert!(set.insert(2 * n, 2 * n + 1, |_, _| {}));
        }
        assert!(!set.insert(1 << 40, (1 << 40) + 1, |_, _| {}));
        assert!(set.insert(1, 2, |_, _| {}), "filling a hole is always possible");
        assert!(size_of_val(&set.ranges[..]) <= 64 << 10 && set.ranges.capacity() <= MAX_RANGES);
    }
}
