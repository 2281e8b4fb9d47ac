//! What a host remembers of the destinations that it has had flows to.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use rampmeter_control::History;
use rampmeter_units::{Duration, Time};

use crate::rtt::RoundTrip;

/// Where packets go, as far as congestion is concerned: an address without a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination(pub u128);

/// Destinations remembered at most; the one unused for longest is forgotten first.
pub const MAX_DESTINATIONS: usize = 10_000;

/// What is known of one.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) history: Option<History>,
    /// The macroflow that new flows join where flows share one.
    pub(crate) macroflow: Option<u32>,
    pub(crate) last_used: Time,
    /// The round trip as the last macroflow measured it.
    pub(crate) round_trip: Option<RoundTrip>,
    /// When the last flow of a macroflow that all flows share was closed.
    pub(crate) left: Option<Time>,
    /// How long flows that are treated differently stay apart.
    pub(crate) apart: Duration,
}

/// What is remembered, by destination.
#[derive(Debug, Default)]
pub(crate) struct Destinations(BTreeMap<Destination, Known>);

impl Destinations {
    pub(crate) fn get(&self, destination: Destination) -> Option<&Known> {
        self.0.get(&destination)
    }

    pub(crate) fn get_mut(&mut self, destination: Destination) -> Option<&mut Known> {
        self.0.get_mut(&destination)
    }

    pub(crate) fn entry(&mut self, destination: Destination) -> &mut Known {
        self.0.entry(destination).or_default()
    }

    /// A flow to `destination` begins. Makes room if need be; a destination that has a macroflow is not forgotten.
    pub(crate) fn enter(&mut self, now: Time, destination: Destination) -> &mut Known {
        if self.0.len() >= MAX_DESTINATIONS && !self.0.contains_key(&destination) {
            let idle = self.0.iter().filter(|(_, known)| known.macroflow.is_none());
            if let Some(oldest) = idle.min_by_key(|(_, known)| known.last_used).map(|(destination, _)| *destination) {
                self.0.remove(&oldest);
            }
        }
        let known = self.entry(destination);
        known.last_used = now;
        known
    }

    pub(crate) fn recall(&mut self, destination: Destination, history: History) {
        let count = self.0.len();
        if let Entry::Vacant(place) = self.0.entry(destination) {
            if count < MAX_DESTINATIONS {
                place.insert(Known { history: Some(history), ..Known::default() });
            }
        }
    }
}
