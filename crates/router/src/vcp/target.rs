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
//! capacity. *Deviations*: `gamma` stays between [`MIN`] and [`MAX`]; and it does not change after a `T_gamma` without
//! overload, because then the target does not limit the senders, and an idle link would drive it to its bound.

use std::cmp::Ordering;

use rampmeter_units::{Bytes, Duration, LoadRegion, Time};

use super::Config;

/// The minimum of an adjusted target.
pub(super) const MIN: f64 = 0.5;
/// The maximum of an adjusted target: a higher target would cause a standing queue.
pub(super) const MAX: f64 = 1.0;

#[derive(Debug, Default)]
pub(super) struct Target {
    /// `gamma`
    share: f64,
    /// `gamma*`, `delta gamma`, `T_gamma` and the measurements since the last adjustment.
    adjusting: Option<Box<Adjusting>>,
}

#[derive(Debug, Default)]
struct Adjusting {
    goal: f64,
    step: f64,
    every: Duration,
    at: Time,
    sent: Bytes,
    /// The bytes that the link could send since the last adjustment.
    capacity: f64,
    was_overloaded: bool,
}

impl Target {
    pub(super) fn new(config: &Config) -> Self {
        let adjusting = config.goal.map(|goal| {
            Box::new(Adjusting {
                goal,
                step: config.goal_step,
                every: config.goal_interval,
                at: Time::ZERO + config.goal_interval,
                ..Adjusting::default()
            })
        });
        Self { share: config.target, adjusting }
    }

    pub(super) fn share(&self) -> f64 {
        self.share
    }

    /// The time of the next adjustment; never, without a goal.
    pub(super) fn next_adjustment(&self) -> Time {
        self.adjusting.as_ref().map_or(Time::MAX, |adjusting| adjusting.at)
    }

    pub(super) fn count_departure(&mut self, bytes: Bytes) {
        if let Some(adjusting) = &mut self.adjusting {
            adjusting.sent += bytes;
        }
    }

    /// Load intervals with a total capacity of `capacity` bytes have ended, the last at `now`; all were in `region`.
    pub(super) fn after_intervals(&mut self, now: Time, region: LoadRegion, capacity: f64) {
        let Some(adjusting) = &mut self.adjusting else { return };
        adjusting.capacity += capacity;
        adjusting.was_overloaded |= region == LoadRegion::Over;
        if now < adjusting.at {
            return;
        }
        if adjusting.was_overloaded && adjusting.capacity > 0.0 {
            let utilization = adjusting.sent.as_f64() / adjusting.capacity;
            let step = match utilization.total_cmp(&adjusting.goal) {
                Ordering::Less => adjusting.step,
                Ordering::Equal => 0.0,
                Ordering::Greater => -adjusting.step,
            };
            self.share = (self.share + step).clamp(MIN, MAX); // eq. (14)
        }
        adjusting.at = now + adjusting.every;
        (adjusting.sent, adjusting.capacity, adjusting.was_overloaded) = (Bytes::ZERO, 0.0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The target after `periods` adjustments, each after ten intervals of 200 ms at `utilization`.
    fn after(periods: u64, utilization: f64, region: LoadRegion) -> f64 {
        let config = Config { goal: Some(0.95), goal_interval: Duration::from_secs(2), ..Config::default() };
        let mut target = Target::new(&config);
        for n in 1..=periods * 10 {
            target.count_departure(Bytes::new((utilization * 1000.0) as u64));
            target.after_intervals(Time::ZERO + Duration::from_millis(200 * n), region, 1000.0);
        }
        target.share()
    }

    #[test]
    fn the_target_moves_in_steps_until_the_goal_is_reached() {
        assert!((after(1, 0.97, LoadRegion::Over) - 0.97).abs() < 1e-12);
        assert!((after(5, 0.97, LoadRegion::Over) - 0.93).abs() < 1e-12);
        assert!((after(1, 0.90, LoadRegion::Over) - 0.99).abs() < 1e-12);
        assert_eq!(after(100, 0.95, LoadRegion::Over), 0.98);
    }

    #[test]
    fn the_target_stays_within_its_bounds() {
        assert_eq!(after(100, 1.0, LoadRegion::Over), MIN);
        assert_eq!(after(100, 0.1, LoadRegion::Over), MAX);
    }

    #[test]
    fn the_target_is_constant_without_overload() {
        assert_eq!(after(100, 0.3, LoadRegion::Low), 0.98);
    }
}
