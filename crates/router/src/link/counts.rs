//! The packet counts of a link, or of a component that replaces a link.

use rampmeter_units::{Bytes, exact};
use serde::{Deserialize, Serialize};

use crate::Tally;

/// Counts over the time of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Packets offered.
    pub offered: u64,
    /// Packets offered that carry application data: no acknowledgements.
    pub offered_data: u64,
    /// Packets that the router refused, displaced or dropped from its queue.
    pub dropped: u64,
    /// Packets marked.
    pub marked: u64,
    /// Packets lost at random after transmission.
    pub lost: u64,
    /// Packets transmitted.
    pub transmitted: u64,
    /// Bytes transmitted.
    #[serde(with = "exact")]
    pub transmitted_bytes: Bytes,
}

impl Counts {
    /// Adds the router's own counts.
    #[must_use]
    pub fn with(self, tally: Tally) -> Self {
        Self { dropped: self.dropped + tally.dropped_from_queue, marked: tally.marked, ..self }
    }

    /// The counts since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            offered: self.offered - before.offered,
            offered_data: self.offered_data - before.offered_data,
            dropped: self.dropped - before.dropped,
            marked: self.marked - before.marked,
            lost: self.lost - before.lost,
            transmitted: self.transmitted - before.transmitted,
            transmitted_bytes: self.transmitted_bytes - before.transmitted_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_since_a_time_are_differences() {
        let counts = |n: u64| Counts {
            offered: 7 * n,
            offered_data: 6 * n,
            dropped: 5 * n,
            marked: 4 * n,
            lost: 3 * n,
            transmitted: 2 * n,
            transmitted_bytes: Bytes::new(n),
        };
        assert_eq!(counts(100).since(counts(30)), counts(70));
        let tally = Tally { dropped_from_queue: 9, marked: 8 };
        assert_eq!(counts(1).with(tally), Counts { dropped: 14, marked: 8, ..counts(1) });
    }
}
