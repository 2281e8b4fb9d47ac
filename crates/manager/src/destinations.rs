//! The state that a host keeps per destination.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;

use rampmeter_control::History;
use rampmeter_units::{Duration, Time};

use crate::careful_resume::Saved;
use crate::rtt::RoundTrip;

/// Where packets go, as far as congestion control is concerned: an address without a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination(pub u128);

impl From<IpAddr> for Destination {
    /// The address as one of IPv6: IPv4 addresses are mapped.
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => Self(ip.to_ipv6_mapped().to_bits()),
            IpAddr::V6(ip) => Self(ip.to_bits()),
        }
    }
}

/// Whose flows these are. Flows of different owners share neither macroflows nor history: a macroflow trusts the
/// reports of all its flows, so an owner could otherwise lower the rate of others by false losses, or take all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Owner(pub u32);

/// A destination of an owner's flows: what shares a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) owner: Owner,
    pub(crate) destination: Destination,
}

impl From<Destination> for Place {
    /// That of the only owner.
    fn from(destination: Destination) -> Self {
        Self { owner: Owner::default(), destination }
    }
}

/// The maximum number of destinations with history and without flows; the one unused for longest is removed first.
pub const MAX_DESTINATIONS: usize = 10_000;

/// The state of one destination.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) history: Option<History>,
    /// The macroflow that new flows join, where flows share one.
    pub(crate) macroflow: Option<u32>,
    pub(crate) last_used: Time,
    /// The round trip that the last macroflow measured.
    pub(crate) round_trip: Option<RoundTrip>,
    /// The window for Careful Resume. A macroflow that may use it takes it.
    pub(crate) saved: Option<Saved>,
    /// How long flows that are treated differently remain separate.
    pub(crate) separation: Duration,
}

/// The state by destination.
#[derive(Debug, Default)]
pub(crate) struct Destinations(pub(crate) BTreeMap<Place, Known>);

impl Destinations {
    /// Begins a flow to `place`. If the table is full, removes the destination unused for longest.
    pub(crate) fn enter(&mut self, now: Time, place: Place) -> &mut Known {
        if self.0.len() >= MAX_DESTINATIONS && !self.0.contains_key(&place) {
            self.remove_oldest();
        }
        let known = self.0.entry(place).or_default();
        known.last_used = now;
        known
    }

    /// Removes the destination unused for longest, of the owner with most of them, if there are too many. Those with a
    /// macroflow are in use, and do not count.
    fn remove_oldest(&mut self) {
        let idle = || self.0.iter().filter(|(_, known)| known.macroflow.is_none());
        let mut counts = BTreeMap::new();
        idle().for_each(|(place, _)| *counts.entry(place.owner).or_insert(0) += 1);
        if counts.values().sum::<usize>() < MAX_DESTINATIONS {
            return;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count).map(|(owner, _)| owner);
        let oldest = idle().filter(|(place, _)| Some(place.owner) == most).min_by_key(|(_, known)| known.last_used);
        if let Some(oldest) = oldest.map(|(place, _)| *place) {
            self.0.remove(&oldest);
        }
    }

    pub(crate) fn import_history(&mut self, destination: Destination, history: History) {
        let count = self.0.len();
        if let Entry::Vacant(place) = self.0.entry(destination.into())
            && count < MAX_DESTINATIONS
        {
            place.insert(Known { history: Some(history), ..Known::default() });
        }
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Rate;

    use super::*;

    #[test]
    fn an_owner_cannot_displace_the_history_of_others() {
        let mut destinations = Destinations::default();
        let place = |owner, n| Place { owner: Owner(owner), destination: Destination(n) };
        for n in 0..10 {
            destinations.enter(Time::ZERO, place(1, n));
        }
        for n in 0..3 * MAX_DESTINATIONS as u128 / 2 {
            destinations.enter(Time::from_nanos(1), place(2, n));
        }
        assert_eq!(destinations.0.len(), MAX_DESTINATIONS);
        assert!((0..10).all(|n| destinations.0.contains_key(&place(1, n))));
    }

    #[test]
    fn a_full_table_replaces_the_destination_unused_for_longest() {
        let mut destinations = Destinations::default();
        let history = History::new(Rate::from_bps(1000), Duration::from_millis(1));
        for n in 0..=MAX_DESTINATIONS as u128 {
            destinations.import_history(Destination(n), history);
        }
        assert_eq!(destinations.0.len(), MAX_DESTINATIONS, "an import replaces none");
        let place = |n: u128| Place::from(Destination(n));
        assert_eq!(destinations.0[&place(0)].history, Some(history));
        for n in 0..MAX_DESTINATIONS as u128 {
            destinations.enter(Time::from_nanos(1 + n as u64), place(n));
        }
        assert_eq!(destinations.0.len(), MAX_DESTINATIONS, "all of them were known");
        destinations.enter(Time::MAX, place(u128::MAX));
        assert_eq!(destinations.0.len(), MAX_DESTINATIONS);
        assert!(!destinations.0.contains_key(&place(0)) && destinations.0.contains_key(&place(1)));
        destinations.enter(Time::MAX, place(2)).macroflow = Some(0);
        destinations.enter(Time::MAX, place(u128::MAX - 1));
        assert_eq!(destinations.0.len(), MAX_DESTINATIONS + 1, "one is in use and does not count");
    }
}
