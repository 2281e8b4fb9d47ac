//! What is counted of packets on a link, or on what takes a link's place.

use rampmeter_units::{Bytes, exact};
use serde::{Deserialize, Serialize};

use crate::Tally;

/// Counts over the time a link was watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Packets offered.
    pub offered: u64,
    /// Of these, packets that bring an application something: not acknowledgements.
    pub offered_data: u64,
    /// Packets the router refused, displaced or threw away later.
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
    /// With what the router did by itself.
    #[must_use]
    pub fn with(self, tally: Tally) -> Self {
        Self { dropped: self.dropped + tally.dropped_later, marked: tally.marked, ..self }
    }

    /// What has come to be counted since `before`.
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
