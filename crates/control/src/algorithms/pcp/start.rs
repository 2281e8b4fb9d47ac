//! The first window, from the history of earlier transfers, and what a transfer leaves to the next (section 3.4).
//!
//! ```text
//! no history                first_window packets, at least doubled every round trip until they fill the path or delays grow
//! history, idle path        a third of the capacity
//! history, a queue          the share that the queue shows (`estimate`), at most a third of the capacity
//! competing traffic         the last window in competitive mode; it is known from earlier transfers, or the queue is longer
//!                           than that of PCP flows
//! ```
//!
//! The queue is the handshake's round-trip time less the minimum of earlier transfers.

use rampmeter_units::{Duration, Rate, Time};

use super::competitive::CLEAR;
use super::delays::Delays;
use super::estimate::{Capacity, Estimate, HEADROOM};
use super::pace::MAX_PACE;
use super::{MAX_FACTOR, MAX_RTT, Pcp, seconds};
use crate::{History, Path};

/// The share of the capacity with which a flow starts on an idle path (section 3.4).
pub(super) const FIRST_SHARE: f64 = 1.0 / 3.0;

/// The minimum number of packets in the first round trip on a path that others use.
const MIN_FIRST: f64 = 2.0;

/// Two transfers in a row that met competing traffic are more than this.
pub(super) const SURE: f64 = 0.5;

/// The path is idle if the handshake waited no longer than this, in packet times.
const IDLE_WAIT: f64 = 0.5;

impl Pcp {
    /// Starts on `path`.
    pub(super) fn start(&mut self, now: Time, path: &Path) {
        let real = path.history.filter(|past| past.capacity > Rate::ZERO);
        let rigged = |rate| History { capacity: rate, ..History::new(rate, path.rtt) }; // section 4.2.3
        self.past = self.config.rigged.map(rigged).or(real);
        let past = |of: fn(&History) -> f64| self.past.as_ref().map_or(0.0, of);
        self.capacity = Capacity::new(past(|past| past.capacity.as_bps_f64()) / self.packet_bits());
        // Where the path varies, pairs do not show what it carries.
        self.capacity.on_round(past(|past| past.base_rate.as_bps_f64()) / self.packet_bits() / HEADROOM, true);
        self.delays = Delays::new(now, past(|past| past.variation.as_secs_f64()));
        self.rtt = seconds(path.rtt);
        self.min_rtt = self.past.map_or(self.rtt, |past| seconds(past.min_rtt).min(self.rtt));
        self.set_window(self.config.first_window);
        self.in_slow_start = self.past.is_none();
        let Some((past, estimate)) = self.past.zip(self.estimate()) else { return };
        let wait = (self.rtt - self.min_rtt - estimate.own_wait).max(0.0);
        let share = FIRST_SHARE * estimate.bdp();
        if wait <= IDLE_WAIT / estimate.by_pairs + estimate.variation {
            self.set_window(share.max(self.config.first_window));
            return;
        }
        if past.competing_traffic > SURE || wait > estimate.longest() {
            let last = past.competitive_rate.as_bps_f64() / self.packet_bits() * self.rtt;
            self.compete(now, last.max(self.config.first_window));
        } else {
            self.set_window(estimate.share(wait).min(share).max(MIN_FIRST));
        }
    }

    /// What the next transfer to this destination starts with. A transfer of one round trip, or whose window was never
    /// judged, keeps the rates of those before.
    pub(super) fn history(&self) -> Option<History> {
        let estimate: Estimate = self.estimate().filter(|_| self.capacity.max_delivered() > 0.0)?;
        let rate =
            |packets_per_second: f64| Rate::from_bps_f64((packets_per_second * self.packet_bits()).min(MAX_PACE));
        // A route that became longer. A queue that stood all the time looks the same, so it counts by an eighth.
        let is_measured = self.cubic.is_none() && self.measured_rtt <= MAX_RTT;
        let rise = if is_measured { (self.measured_rtt - self.min_rtt).max(0.0) } else { 0.0 };
        let min_rtt = Duration::from_secs_f64(self.min_rtt + rise / 8.0);
        let past = self.past.map_or(0.0, |past| past.competing_traffic.clamp(0.0, 1.0));
        let competing_traffic = match self.evidence {
            evidence if evidence <= -CLEAR => f64::midpoint(1.0, past),
            evidence if evidence >= CLEAR => 0.0,
            _ => past,
        };
        let base_rate = self.past.map_or(Rate::ZERO, |past| past.base_rate);
        // At least one other flow has as much.
        let competitive =
            if self.cubic.is_some() { (self.window / self.rtt).min(estimate.by_pairs / 2.0) } else { 0.0 };
        Some(History {
            // Receivers may be wrong about pairs, but not about what arrived.
            capacity: rate(estimate.by_pairs.min(MAX_FACTOR * self.capacity.max_delivered())),
            variation: Duration::from_secs_f64(self.delays.variation.clamp(0.0, 1.0)),
            competing_traffic,
            competitive_rate: rate(competitive),
            ..History::new(if self.best > 0.0 { rate(self.best / self.min_rtt) } else { base_rate }, min_rtt)
        })
    }
}
