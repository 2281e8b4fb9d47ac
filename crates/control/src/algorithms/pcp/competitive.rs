//! Beside competing traffic, which does not drain, a flow takes CUBIC's window (section 3.5: tit for tat).
//!
//! ```text
//! enter   a drain in which few of the others drained, and which left the queue above the target; or, where nothing is
//!         known about the path, the end of slow start
//! leave   a drain in which most of the others drained, or this flow has two thirds of the link; or a moment to drain
//!         without a queue above the target
//! ```
//!
//! CUBIC (RFC 9438) begins in slow start with the flow's greatest window of 16 round trips, and ends it when delays grow
//! (HyStart++).

use rampmeter_units::{Duration, Random, Time};

use super::config::{FEW, MOST, WHOLE_LINK};
use super::drain::Outcome;
use super::estimate::Estimate;
use super::{MAX_WINDOW, Pcp};
use crate::cubic::{self, Cubic};
use crate::{Algorithm, Controller, Path};

/// The share of its window that a flow keeps when it leaves competitive mode.
const KEPT: f64 = 0.7;

/// A queue that was not empty for so many round trips is drained, whatever its length: the minimum delay may be wrong.
const NEVER_EMPTY_ROUNDS: f64 = 40.0;

/// A drain ends competitive mode only if it shortened the wait to this part: chance does less.
const CLEARLY_LESS: f64 = 0.7;

/// A greater share of the link than this shows that the capacity is wrong.
const MAX_SHARE: f64 = 1.3;

impl Pcp {
    /// Takes CUBIC's window, at first `packets`.
    pub(super) fn compete(&mut self, now: Time, packets: f64) {
        let config =
            cubic::Config { initial_window: packets.clamp(2.0, MAX_WINDOW) as u64, ..cubic::Config::default() };
        let mut cubic = Cubic::new(&config, Random::from_seed(0)); // it uses no random numbers
        cubic.on_path(now, &Path::new(self.packet, Duration::from_secs_f64(self.rtt), None));
        self.set_window(packets);
        (self.cubic, self.in_slow_start, self.before_loss) = (Some(cubic), false, 0.0);
    }

    /// Leaves competitive mode.
    fn cooperate(&mut self) {
        self.cubic = None;
        self.windows.clear();
        self.set_window(self.window * self.min_rtt / self.rtt * KEPT);
        self.ignore_sent();
    }

    /// Drains at common moments, and learns from it. Returns whether the window must stay as it is.
    pub(super) fn drain(&mut self, now: Time, estimate: &Estimate) -> bool {
        let (every, wait) = (self.config.drain_every, self.delays.last_wait);
        let target = estimate.target(self.window);
        if self.drain.is_due(now, every, self.min_rtt) && !self.drain.is_on() {
            let never_empty = now.since(self.busy_since).as_secs_f64() > NEVER_EMPTY_ROUNDS * self.min_rtt;
            if wait > target || never_empty {
                self.drain.begin(every, self.min_rtt, self.rtt, wait, self.window);
                self.delays.forget();
            } else if self.cubic.is_some() {
                self.cooperate(); // no competing traffic keeps a queue
            }
        }
        let (outcome, ended) = self.drain.conclude(now, estimate.by_pairs, self.min_rtt);
        if ended {
            self.ignore_sent();
        }
        if let Some(outcome) = outcome.filter(|outcome| outcome.share < MAX_SHARE) {
            self.learn(now, &outcome, target, estimate.by_pairs);
        }
        self.drain.is_on() || ended
    }

    /// What a drain shows about the path and about other flows.
    pub(super) fn learn(&mut self, now: Time, outcome: &Outcome, target: f64, by_pairs: f64) {
        let is_longer = outcome.lowest > self.delays.variation * 2.0 + 4.0 / by_pairs && outcome.lowest < self.rtt;
        if outcome.is_floor && is_longer {
            self.delays.shift(outcome.lowest);
            self.min_rtt = (self.min_rtt + outcome.lowest).min(self.rtt);
        }
        if outcome.before <= target {
            return;
        }
        let alone = outcome.share > WHOLE_LINK;
        if outcome.others > MOST || alone {
            self.met_competing = Some(false);
            if self.cubic.is_some() && (alone || outcome.lowest < outcome.before * CLEARLY_LESS) {
                self.cooperate();
            }
        } else if outcome.others < FEW && outcome.lowest > target {
            self.met_competing = Some(true);
            if self.cubic.is_none() && self.config.compete {
                let window = self.windows.iter().copied().fold(self.window, f64::max);
                self.compete(now, window);
            }
        }
    }
}
