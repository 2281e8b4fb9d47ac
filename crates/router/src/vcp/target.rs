//! The target utilization, `gamma`, and how it finds its value by itself (VCP section V, equation 14).
//!
//! The model's flows settle above the target, by what their additive growth is worth: `gamma + alpha / (kappa P)`. To end
//! at `gamma*` the router tries values for `gamma`, a step at a time:
//!
//! ```text
//! every T_gamma:   gamma += sgn(gamma* - u) delta_gamma          eq. (14)
//! ```
//!
//! `u`, the "low-pass filtered link utilization", is here the mean over the last `T_gamma`: bytes that left over what the
//! link could carry. *Deviations*: `gamma` stays between [`LEAST`] and [`MOST`]; and it stays as it is where the link was
//! never overloaded in a `T_gamma`, for then it is not the target that holds senders back, and an idle link would drive it
//! to the bound. Without a goal it never changes.

use rampmeter_units::{Bytes, Duration, LoadRegion, Time};

use super::Config;

/// The lowest value of an adjusted target.
pub(super) const LEAST: f64 = 0.5;
/// The highest value of an adjusted target: more than the link carries would ask for a queue.
pub(super) const MOST: f64 = 1.0;

#[derive(Debug)]
pub(super) struct Target {
    /// `gamma`
    share: f64,
    /// `gamma*`, `delta gamma`, `T_gamma` and what has been seen since the last adjustment.
    adjusting: Option<Box<Adjusting>>,
}

#[derive(Debug)]
struct Adjusting {
    goal: f64,
    step: f64,
    every: Duration,
    at: Time,
    left: Bytes,
    /// What the link could carry meanwhile, in bytes.
    capacity: f64,
    was_over: bool,
}

impl Target {
    pub(super) fn new(config: &Config) -> Self {
        let adjusting = config.goal.map(|goal| {
            Box::new(Adjusting {
                goal,
                step: config.goal_step,
                every: config.goal_interval,
                at: Time::ZERO + config.goal_interval,
                left: Bytes::ZERO,
                capacity: 0.0,
                was_over: false,
            })
        });
        Self { share: config.target, adjusting }
    }

    pub(super) fn share(&self) -> f64 {
        self.share
    }

    /// When the intervals up to then are to be told; never, without a goal.
    pub(super) fn next_adjustment(&self) -> Time {
        self.adjusting.as_ref().map_or(Time::MAX, |adjusting| adjusting.at)
    }

    pub(super) fn count_departure(&mut self, bytes: Bytes) {
        if let Some(adjusting) = &mut self.adjusting {
            adjusting.left += bytes;
        }
    }

    /// Load intervals in which the link could carry `capacity` bytes have ended, the last at `now`, and were in `region`.
    pub(super) fn after_intervals(&mut self, now: Time, region: LoadRegion, capacity: f64) {
        let Some(adjusting) = &mut self.adjusting else { return };
        adjusting.capacity += capacity;
        adjusting.was_over |= region == LoadRegion::Over;
        if now < adjusting.at {
            return;
        }
        if adjusting.was_over && adjusting.capacity > 0.0 {
            let utilization = adjusting.left.as_f64() / adjusting.capacity;
            let step = if utilization < adjusting.goal {
                adjusting.step
            } else if utilization > adjusting.goal {
                -adjusting.step
            } else {
                0.0
            };
            self.share = (self.share + step).clamp(LEAST, MOST); // eq. (14)
        }
        adjusting.at = now + adjusting.every;
        (adjusting.left, adjusting.capacity, adjusting.was_over) = (Bytes::ZERO, 0.0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The target after ten intervals of 200 ms at `utilization` each, again and again, `periods` times.
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
    fn the_target_goes_a_step_towards_the_goal_and_stops_there() {
        assert!((after(1, 0.97, LoadRegion::Over) - 0.97).abs() < 1e-12);
        assert!((after(5, 0.97, LoadRegion::Over) - 0.93).abs() < 1e-12);
        assert!((after(1, 0.90, LoadRegion::Over) - 0.99).abs() < 1e-12);
        assert_eq!(after(100, 0.95, LoadRegion::Over), 0.98);
    }

    #[test]
    fn it_keeps_within_its_bounds() {
        assert_eq!(after(100, 1.0, LoadRegion::Over), LEAST);
        assert_eq!(after(100, 0.1, LoadRegion::Over), MOST);
    }

    #[test]
    fn senders_that_do_not_need_the_link_leave_it_alone() {
        assert_eq!(after(100, 0.3, LoadRegion::Low), 0.98);
    }
}
