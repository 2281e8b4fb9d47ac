//! Beside competing traffic, which does not drain, a flow takes CUBIC's window (section 3.5: tit for tat).
//!
//! Drains are evidence for or against it, which adds up until it is clear:
//!
//! ```text
//! evidence = evidence + (others - 0.4) / noise^2      the sum, and each drain's part, from -3 to 3
//! noise^2  = 0.25^2 + (1 - trust) 0.63^2              where a path varies, its capacity changes during a drain
//! enter    at -3; or, where nothing is known about the path, at the end of slow start; or at the start, if the queue is
//!          longer than that of PCP flows
//! leave    at 3, with evidence 0; or if a drain shows that the flow is alone
//! ```
//!
//! In competitive mode a moment to drain without a queue counts like a drain in which all others drained. A drain that
//! leaves no more than the target is no evidence of competing traffic.
//!
//! Among PCP flows the queue before a drain shows each its share (`estimate`), to which its window moves a part of the way:
//!
//! ```text
//! W = W (share / W)^(trust / 4)
//! ```
//!
//! On a long fast path the target alone makes windows equal only in about `C R / 7` round trips.
//!
//! CUBIC (RFC 9438) begins in slow start with the window that fills the path without a queue, and ends it when delays grow
//! (HyStart++).

use rampmeter_units::{Duration, Random, Time};

use super::drain::Outcome;
use super::estimate::Estimate;
use super::{MAX_FACTOR, MAX_WINDOW, Pcp};
use crate::cubic::{self, Cubic};
use crate::{Algorithm, Controller, Path};

/// The share of its window that a flow keeps when it leaves competitive mode.
const KEPT: f64 = 0.7;

/// The evidence that is clear.
pub(super) const CLEAR: f64 = 3.0;

/// What a drain shows if the others' traffic neither drains nor does not.
const UNDECIDED: f64 = 0.4;

/// The standard deviation of `others` on a link of constant rate, and that which a path without trust adds.
const NOISE: f64 = 0.25;
const NOISE_OF_VARIATION: f64 = 0.63;

/// A queue stands if it was not empty for so many round trips.
const STANDS_ROUNDS: f64 = 40.0;

/// A flow with this share of the link is alone.
const ALONE: f64 = 0.9;

/// At a drain a window moves this part of the way to its share, on a logarithmic scale. From 0.1 to 0.7 windows are as
/// even, and larger moves cost more of a fast link.
const TO_SHARE: f64 = 0.25;

/// A drain that leaves more than the sum of so many packet times and so many times the variation shows a longer path.
const LONGER_PACKETS: f64 = 4.0;
const LONGER_VARIATIONS: f64 = 2.0;

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
        (self.cubic, self.evidence) = (None, 0.0);
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
        if wait > estimate.shared_target(self.window) || stands && !is_alone {
            self.drain.begin(every, self.min_rtt, self.rtt, wait, self.window, self.random.uniform());
            self.delays.forget();
        } else if self.cubic.is_some() {
            self.weigh(1.0, &estimate);
            if self.evidence >= CLEAR {
                self.cooperate();
            }
        }
    }

    /// Takes the share of the others' traffic that seems to have drained as evidence.
    fn weigh(&mut self, others: f64, estimate: &Estimate) {
        let variance = NOISE.powi(2) + (1.0 - estimate.trust) * NOISE_OF_VARIATION.powi(2);
        let shown = ((others - UNDECIDED) / variance).clamp(-CLEAR, CLEAR);
        self.evidence = (self.evidence + shown).clamp(-CLEAR, CLEAR);
    }

    /// What a drain shows about other flows and about the path.
    pub(super) fn learn(&mut self, now: Time, outcome: &Outcome, estimate: &Estimate) {
        let competes = self.cubic.is_some();
        // By pairs: where they show nothing, the capacity is little more than the flow's own rate.
        let is_alone = outcome.share * estimate.capacity > ALONE * estimate.by_pairs;
        let others = if is_alone {
            1.0
        } else if outcome.lowest > estimate.shared_target(self.window) {
            outcome.others
        } else {
            outcome.others.max(UNDECIDED)
        };
        self.weigh(others, estimate);
        if competes && is_alone {
            self.evidence = CLEAR; // nobody else is left
        }
        let min_rise = self.delays.variation * LONGER_VARIATIONS + LONGER_PACKETS / estimate.by_pairs;
        let is_longer = others > UNDECIDED && outcome.is_floor && (min_rise..self.rtt).contains(&outcome.lowest);
        if is_longer && self.evidence >= CLEAR {
            self.delays.shift(outcome.lowest);
            self.min_rtt = (self.min_rtt + outcome.lowest).min(self.rtt);
        }
        if competes && self.evidence >= CLEAR {
            if let Some(past) = &mut self.past {
                past.competing_traffic = 0.0;
            }
            self.cooperate();
        } else if !competes && self.evidence <= -CLEAR {
            self.compete(now, self.best.min(estimate.bdp()).max(self.window));
        }
        let is_shared = outcome.others > UNDECIDED && outcome.before <= estimate.longest();
        if !competes && !is_alone && !is_longer && is_shared && self.evidence > 0.0 {
            self.move_to_share(now, outcome.before, estimate);
        }
    }

    /// The queue of `before` seconds was one of PCP flows, so it shows each its share.
    fn move_to_share(&mut self, now: Time, before: f64, estimate: &Estimate) {
        let ratio = estimate.share(before - estimate.own_wait) / self.window;
        let factor = libm::pow(ratio.clamp(1.0 / MAX_FACTOR, MAX_FACTOR), TO_SHARE * estimate.trust);
        let limit = self.losses.limit(now, self.config.drain_every) * self.min_rtt;
        self.set_window((self.window * factor).min(limit));
        self.ignore_sent();
    }
}
