//! The target utilization, `gamma`, and its automatic adjustment (VCP section V, equation 14).
//!
//! Flows settle above the target because of their additive increase, at `gamma + alpha / (kappa P)`. To settle at
//! `gamma*`, the router adjusts `gamma` by a step at a time:
//!
//! ```text
//! every T_gamma:   gamma += sgn(gamma* - u) delta_gamma          eq. (14)
//! ```
//!
//! `u`, the "low-pass filtered link utilization", is here the mean over the last `T_gamma`: bytes sent over the link's
//! capacity. *Deviation*: `gamma` stays between [`MIN`] and [`MAX`], to which an idle link drives it.
//!
//! With graded codes senders settle at the same load factor whatever the target is, so the target is an integrator: in
//! each load interval `gamma += GAIN (gamma* - load)`, with the load that includes half of the queue.
//! `python/rampmeter/theory/vcp_plus.py` computes where that is stable.

use std::cmp::Ordering;

use rampmeter_units::{Bytes, Duration, Time};

use super::Config;

/// The minimum of an adjusted target.
pub(crate) const MIN: f64 = 0.5;
/// The maximum of an adjusted target: a higher target would cause a standing queue.
pub(crate) const MAX: f64 = 1.0;

/// The integrator's gain in a load interval: an eighth of `kappa`, so that the target follows slowly behind the senders.
const GAIN: f64 = 1.0 / 32.0;
/// `gamma*` with graded codes.
const GRADED_GOAL: f64 = 0.99;

#[derive(Debug, Default)]
pub(super) struct Target {
    /// `gamma`
    share: f64,
    rule: Rule,
}

#[derive(Debug, Default)]
enum Rule {
    #[default]
    Constant,
    /// Equation (14).
    Steps(Box<Steps>),
    /// With graded codes. If the load stays the same, a settled target does too.
    Integral { goal: f64, settled: bool },
}

/// `gamma*`, `delta gamma`, `T_gamma` and the measurements since the last adjustment.
#[derive(Debug, Default)]
struct Steps {
    goal: f64,
    step: f64,
    every: Duration,
    at: Time,
    sent: Bytes,
    /// The bytes that the link could send since the last adjustment.
    capacity: f64,
}

impl Target {
    pub(super) fn new(config: &Config, graded: bool) -> Self {
        let rule = match config.goal {
            goal if graded => Rule::Integral { goal: goal.unwrap_or(GRADED_GOAL), settled: false },
            None => Rule::Constant,
            Some(goal) => Rule::Steps(Box::new(Steps {
                goal,
                step: config.goal_step,
                every: config.goal_interval,
                at: Time::ZERO + config.goal_interval,
                ..Steps::default()
            })),
        };
        Self { share: config.target, rule }
    }

    pub(super) fn share(&self) -> f64 {
        self.share
    }

    /// The time of the next adjustment, if intervals without packets follow; [`Time::MAX`] for never.
    pub(super) fn next_adjustment(&self) -> Time {
        match &self.rule {
            Rule::Steps(steps) => steps.at,
            Rule::Integral { settled: false, .. } => Time::ZERO,
            Rule::Constant | Rule::Integral { .. } => Time::MAX,
        }
    }

    pub(super) fn count_departure(&mut self, bytes: Bytes) {
        if let Rule::Steps(steps) = &mut self.rule {
            steps.sent += bytes;
        }
    }

    /// Load intervals with a total capacity of `capacity` bytes have ended, the last at `now`. In all of them the load
    /// was `load` of the capacity.
    pub(super) fn after_intervals(&mut self, now: Time, load: f64, capacity: f64) {
        match &mut self.rule {
            Rule::Constant => {}
            Rule::Steps(steps) => self.share = steps.after_intervals(self.share, now, capacity),
            Rule::Integral { goal, settled } => {
                let previous = self.share;
                if capacity > 0.0 {
                    self.share = (self.share + GAIN * (*goal - load)).clamp(MIN, MAX);
                }
                *settled = self.share == previous;
            }
        }
    }
}

impl Steps {
    /// The new share of the capacity.
    fn after_intervals(&mut self, share: f64, now: Time, capacity: f64) -> f64 {
        self.capacity += capacity;
        if now < self.at {
            return share;
        }
        let utilization = self.sent.as_f64() / self.capacity;
        let step = match utilization.total_cmp(&self.goal) {
            _ if self.capacity <= 0.0 => 0.0,
            Ordering::Less => self.step,
            Ordering::Equal => 0.0,
            Ordering::Greater => -self.step,
        };
        self.at = now + self.every;
        (self.sent, self.capacity) = (Bytes::ZERO, 0.0);
        (share + step).clamp(MIN, MAX) // eq. (14)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The target after `periods` adjustments, each after ten intervals of 200 ms at `utilization`.
    fn after(periods: u64, utilization: f64) -> f64 {
        let config = Config { goal: Some(0.95), goal_interval: Duration::from_secs(2), ..Config::default() };
        let mut target = Target::new(&config, false);
        for n in 1..=periods * 10 {
            target.count_departure(Bytes::new((utilization * 1000.0) as u64));
            target.after_intervals(Time::ZERO + Duration::from_millis(200 * n), utilization, 1000.0);
        }
        target.share()
    }

    #[test]
    fn the_target_moves_in_steps_until_the_goal_is_reached() {
        assert!((after(1, 0.97) - 0.97).abs() < 1e-12);
        assert!((after(5, 0.97) - 0.93).abs() < 1e-12);
        assert!((after(1, 0.90) - 0.99).abs() < 1e-12);
        assert_eq!(after(100, 0.95), 0.98);
    }

    #[test]
    fn the_target_stays_within_its_bounds() {
        assert_eq!(after(100, 1.0), MIN);
        assert_eq!(after(100, 0.1), MAX);
    }
}
