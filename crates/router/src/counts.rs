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
