//! Beside competing traffic, which does not drain, a flow takes CUBIC's window (section 3.5: tit for tat).
//!
//! Drains are evidence for or against it, which adds up until it is clear:
//!
//! ```text
//! evidence = evidence + (others - 0.4) / noise^2      from -3 to 3
//! noise^2  = 0.25^2 + (variation / fall)^2            where the path varies, a drain shows less
//! enter    at -3, if a drain leaves the queue above the target; or, where nothing is known about the path, at the end of
//!          slow start; or at the start, if the queue is longer than that of PCP flows
//! leave    at 3, or at a moment to drain without a queue above the target
//! ```
//!
//! CUBIC (RFC 9438) begins in slow start with the window that fills the path without a queue, and ends it when delays grow
//! (HyStart++).

use rampmeter_units::{Duration, Random, Time};

use super::drain::Outcome;
use super::estimate::Estimate;
use super::{MAX_WINDOW, Pcp};
use crate::cubic::{self, Cubic};
use crate::{Algorithm, Controller, Path};

/// The share of its window that a flow keeps when it leaves competitive mode.
const KEPT: f64 = 0.7;

/// The evidence that is clear.
pub(super) const CLEAR: f64 = 3.0;

/// What a drain shows if the others' traffic neither drains nor does not.
const UNDECIDED: f64 = 0.4;

/// The standard deviation of `others` on a link of constant rate.
const NOISE: f64 = 0.25;

/// A queue stands if it was not empty for so many round trips.
const STANDS_ROUNDS: f64 = 40.0;

/// A flow with this share of the link is alone.
const ALONE: f64 = 0.9;

impl Pcp {
    /// Takes CUBIC's window, at first `packets`.
    pub(super) fn compete(&mut self, now: Time, packets: f64) {
        let config =
            cubic::Config { initial_window: packets.clamp(2.0, MAX_WINDOW) as u64, ..cubic::Config::default() };
        let mut cubic = Cubic::new(&config, Random::from_seed(0)); // it uses no random numbers
        cubic.on_path(now, &Path::new(self.packet, Duration::from_secs_f64(self.rtt), None));
        self.set_window(packets);
        (self.cubic, self.in_slow_start, self.before_loss) = (Some(cubic), false, None);
    }

    /// Leaves competitive mode.
    fn cooperate(&mut self) {
        self.cubic = None;
        self.set_window(self.window * self.min_rtt / self.rtt * KEPT);
        self.ignore_sent();
    }

    /// Drains the queue at a common moment.
    pub(super) fn drain(&mut self, now: Time) {
        let (every, wait) = (self.config.drain_every, self.delays.last_wait);
        if !self.drain.is_due(now, every, self.min_rtt) || self.drain.is_on() {
            return;
        }
        let Some(estimate) = self.estimate() else { return };
        // A queue that stands is about the target of each flow that shares it: all of them drain it.
        let stands = now.since(self.busy_since).as_secs_f64() > STANDS_ROUNDS * self.min_rtt;
        let is_alone = self.window > ALONE * estimate.bdp();
        if wait > estimate.target(self.window) || stands && !is_alone {
            self.drain.begin(every, self.min_rtt, self.rtt, wait, self.window, self.random.uniform());
            self.delays.forget();
        } else if self.cubic.is_some() {
            self.evidence = 0.0; // no competing traffic keeps a queue
            self.cooperate();
        }
    }

    /// What a drain shows about other flows and about the path.
    pub(super) fn learn(&mut self, now: Time, outcome: &Outcome, estimate: &Estimate, target: f64) {
        // A queue that a drain makes as short as the target is none of competing traffic.
        let least = if outcome.lowest > target { -0.5 } else { UNDECIDED };
        let others = if outcome.share > ALONE { 1.0 } else { outcome.others.clamp(least, 1.5) };
        let variance = NOISE * NOISE + (estimate.variation / outcome.fall).powi(2);
        self.evidence = (self.evidence + (others - UNDECIDED) / variance).clamp(-CLEAR, CLEAR);
        if self.evidence >= CLEAR {
            let is_longer = outcome.lowest > self.delays.variation * 2.0 + 4.0 / estimate.by_pairs;
            if outcome.is_floor && is_longer && outcome.lowest < self.rtt {
                self.delays.shift(outcome.lowest);
                self.min_rtt = (self.min_rtt + outcome.lowest).min(self.rtt);
            }
            if self.cubic.is_some() {
                self.cooperate();
            }
        } else if self.evidence <= -CLEAR && self.cubic.is_none() {
            self.compete(now, self.best.min(estimate.bdp()).max(self.window));
        }
    }
}
