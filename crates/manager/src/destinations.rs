//! The state that a host keeps per destination.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;

use rampmeter_control::History;
use rampmeter_units::{Duration, Time};

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

/// The maximum number of destinations with history; the one unused for longest is removed first.
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
    /// The time of the last use, where all flows share a macroflow.
    pub(crate) last_busy: Option<Time>,
    /// How long flows that are treated differently remain separate.
    pub(crate) separation: Duration,
}

/// The state by destination.
#[derive(Debug, Default)]
pub(crate) struct Destinations(pub(crate) BTreeMap<Destination, Known>);

impl Destinations {
    /// Begins a flow to `destination`. If the table is full, removes the destination unused for longest; those with a
    /// macroflow are kept.
    pub(crate) fn enter(&mut self, now: Time, destination: Destination) -> &mut Known {
        if self.0.len() >= MAX_DESTINATIONS && !self.0.contains_key(&destination) {
            let idle = self.0.iter().filter(|(_, known)| known.macroflow.is_none());
            if let Some(oldest) = idle.min_by_key(|(_, known)| known.last_used).map(|(destination, _)| *destination) {
                self.0.remove(&oldest);
            }
        }
        let known = self.0.entry(destination).or_default();
        known.last_used = now;
        known
    }

    pub(crate) fn import_history(&mut self, destination: Destination, history: History) {
        let count = self.0.len();
        if let Entry::Vacant(place) = self.0.entry(destination) {
            if count < MAX_DESTINATIONS {
                place.insert(Known { history: Some(history), ..Known::default() });
            }
        }
    }
}
