//! What an operator learns of a host.

use std::net::IpAddr;

use rampmeter_control::Controller;
use rampmeter_manager::PathState;
use rampmeter_session::{Openers, Sessions};
use rampmeter_units::{Bytes, Duration, Time};
use serde::{Deserialize, Serialize};

use super::Host;

/// Paths in a [`Status`]: those with the highest rates.
pub const MAX_PATHS: usize = 32;

/// The state of a host.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Status {
    /// Open sessions, and those whose openers have not answered yet.
    pub sessions: usize,
    /// Open connections: one for each stream.
    pub streams: usize,
    /// Bytes of UDP payload received.
    pub received_bytes: u64,
    /// Bytes of UDP payload sent.
    pub sent_bytes: u64,
    /// What became of other hosts' handshakes.
    pub openers: Openers,
    /// Paths in use, those with the highest rates first.
    pub paths: Vec<Path>,
    /// The number of further paths.
    pub other_paths: usize,
}

/// The path of flows that share congestion control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Path {
    /// The other host.
    pub peer: IpAddr,
    /// The controller.
    pub controller: String,
    /// The controller's state ([`Controller::state`]).
    pub state: String,
    /// Why the controller cannot work as designed on this path ([`Controller::degraded_reason`]); none while it does.
    pub degraded: Option<String>,
    /// The permitted rate.
    pub rate_bps: u64,
    /// The window; none if only a rate applies.
    pub window_bytes: Option<u64>,
    /// Bytes in flight.
    pub in_flight_bytes: u64,
    /// The smoothed round-trip time.
    pub rtt_s: f64,
    /// The minimum round-trip time.
    pub min_rtt_s: f64,
    /// The difference of both: the time that packets wait in queues.
    pub queue_delay_s: f64,
    /// Flows on it.
    pub flows: usize,
    /// Bytes sent, headers included, as in the next two.
    pub sent_bytes: u64,
    /// Bytes delivered.
    pub delivered_bytes: u64,
    /// Bytes lost.
    pub lost_bytes: u64,
    /// Packets that arrived with a mark of congestion.
    pub marked_packets: u64,
}

impl Status {
    /// Adds the state of another host, such as that of another thread of a server.
    pub(crate) fn add(&mut self, other: Self) {
        self.sessions += other.sessions;
        self.streams += other.streams;
        self.received_bytes += other.received_bytes;
        self.sent_bytes += other.sent_bytes;
        self.openers += other.openers;
        self.paths.extend(other.paths);
        self.paths.sort_by_key(|path| std::cmp::Reverse(path.rate_bps));
        self.other_paths += other.other_paths + self.paths.len().saturating_sub(MAX_PATHS);
        self.paths.truncate(MAX_PATHS);
    }
}

impl Path {
    fn new<C: Controller>(path: &PathState<'_, C>, name: &str) -> Self {
        let (status, totals) = (path.status, path.totals);
        Self {
            peer: IpAddr::V6(path.destination.0.into()).to_canonical(),
            controller: name.to_owned(),
            state: path.controller.state().to_owned(),
            degraded: path.controller.degraded_reason().map(str::to_owned),
            rate_bps: status.rate.as_bps(),
            window_bytes: (status.window < Bytes::MAX).then(|| status.window.as_u64()),
            in_flight_bytes: status.in_flight.as_u64(),
            rtt_s: status.smoothed_rtt.as_secs_f64(),
            min_rtt_s: status.min_rtt.as_secs_f64(),
            queue_delay_s: status.smoothed_rtt.saturating_sub(status.min_rtt).as_secs_f64(),
            flows: status.flows,
            sent_bytes: totals.sent.as_u64(),
            delivered_bytes: totals.delivered.as_u64(),
            lost_bytes: totals.lost.as_u64(),
            marked_packets: totals.marked,
        }
    }
}

impl<C: Controller> Host<C> {
    /// The state of this host, whose controllers have names by `name`.
    pub fn status(&self, now: Time, name: impl Fn(&C) -> &'static str) -> Status {
        // Before its handshake a path has no round trip, and so no rate.
        let is_measured = |path: &PathState<'_, C>| path.status.min_rtt < Duration::MAX;
        let mut paths: Vec<_> = self.endpoint.manager().paths(now).filter(is_measured).collect();
        paths.sort_by_key(|path| std::cmp::Reverse(path.status.rate));
        Status {
            sessions: self.sessions.as_ref().map_or(0, Sessions::len),
            streams: self.streams.len(),
            received_bytes: self.received_bytes,
            sent_bytes: self.outgoing.pushed(),
            openers: self.sessions.as_ref().map(Sessions::openers).unwrap_or_default(),
            other_paths: paths.len().saturating_sub(MAX_PATHS),
            paths: paths.iter().take(MAX_PATHS).map(|path| Path::new(path, name(path.controller))).collect(),
        }
    }
}
