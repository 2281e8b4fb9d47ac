//! Rate compensation: reduce the rate while a queue stands and while it grows (section 3.2).
//!
//! ```text
//! delay:  (max-delay - min-delay) / max-delay      one-way, over the last round trip
//! gap:    (out - in) / out                         of the spacing of packets on arriving and leaving
//! ```
//!
//! The sum is the *pressure* on a flow: the share of its rate that it should give up. It is computed after every
//! acknowledgement, and cuts of the last round trip are subtracted from it. Where it is negative, more rate is
//! available, and it limits the test rate of a probe.
//!
//! *Delay.* Clocks differ by an unknown offset, so half of the minimum round-trip time replaces `min-delay` in the
//! denominator: `q / (min_rtt / 2 + q)`. `q` is the queue above the flow's target (`growth`): the lowest level of the
//! last `STANDING_ROUNDS` round trips, or the current excess over the ceiling. A share of the cut is made
//! (`delay_gain`; the paper: 1), because every flow cuts its rate for the same queue, and the effect is visible one
//! round trip later: with a gain of 1 the link is idle after each cut. XCP's analysis of the same loop gives 0.226 of
//! the queue and 0.4 of the rate mismatch per round trip.
//!
//! *Gap.* A single gap is mostly noise, so all gaps of a round trip are used together: the line through the delays has
//! the slope `s = (out - in) / in`, and the cut is `s / (1 + s)`. For a small slope, which may be noise, a share of it
//! is cut (`GAP_GAIN`); for a slope that shows an overloaded link (`OVERLOAD_SLOPE`), all of it.

use std::collections::VecDeque;

use rampmeter_units::{Duration, Time};

use super::Config;
use super::config::{FORWARD_SHARE, GAP_GAIN, MAX_CUT, OVERLOAD_SLOPE};
use super::queue::View;

/// The maximum number of cuts stored individually. More cuts in one round trip are added to the last.
const MAX_CUTS: usize = 128;

#[derive(Debug, Clone)]
pub(super) struct Compensation {
    /// The cuts of the last round trip.
    cuts: VecDeque<(Time, f64)>,
    /// Their sum.
    sum: f64,
}

impl Compensation {
    pub(super) fn new() -> Self {
        Self { cuts: VecDeque::with_capacity(MAX_CUTS), sum: 0.0 }
    }

    /// The share of its rate that a flow with this target queue should give up in this round trip. Negative where more
    /// rate is available.
    pub(super) fn pressure(
        config: &Config,
        view: &View,
        target: Duration,
        ceiling: Duration,
        min_rtt: Duration,
    ) -> f64 {
        let target = target.as_secs_f64();
        // A queue that stood for some round trips is an excess; a current queue below the target leaves room.
        let queue = view.standing.as_secs_f64();
        let excess = (queue - target).max((view.level.as_secs_f64() - target).min(0.0));
        let above = view.level.as_secs_f64() - ceiling.as_secs_f64();
        let share = |queue: f64| queue / (min_rtt.as_secs_f64() * FORWARD_SHARE + queue.max(0.0));
        let delay = share(excess).max(share(above));
        let gap = if view.slope > OVERLOAD_SLOPE {
            view.slope / (1.0 + view.slope)
        } else {
            GAP_GAIN * view.slope / (1.0 + view.slope.max(0.0))
        };
        let pressure = config.delay_gain * delay + gap;
        if pressure.is_nan() { 0.0 } else { pressure }
    }

    /// This share was cut for another reason.
    pub(super) fn on_cut(&mut self, now: Time, share: f64) {
        self.raise(now, self.sum + share);
    }

    /// The share to cut from the base rate now, in addition to the cuts of the last round trip.
    pub(super) fn cut(&mut self, now: Time, rtt: Duration, pressure: f64) -> f64 {
        let before = self.cuts.len();
        while self.cuts.front().is_some_and(|(at, _)| now.since(*at) > rtt) {
            self.cuts.pop_front();
        }
        if self.cuts.len() < before {
            self.sum = self.cuts.iter().map(|(_, share)| share).sum();
        }
        self.raise(now, pressure.min(MAX_CUT))
    }

    /// Adds a cut for the difference between the required cut and the recent cuts, and returns it.
    fn raise(&mut self, now: Time, required: f64) -> f64 {
        let share = required - self.sum;
        if share <= 0.0 {
            return 0.0;
        }
        if self.cuts.len() == MAX_CUTS {
            self.cuts[MAX_CUTS - 1].1 += share;
        } else {
            self.cuts.push_back((now, share));
        }
        self.sum += share;
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    fn view(level: f64, slope: f64) -> View {
        let level = Duration::from_secs_f64(level / 1e3);
        View { level, standing: level, slope, ..View::default() }
    }

    /// The paper's rules for delays: no target, full cuts.
    fn paper() -> Config {
        Config { target: 0.0, delay_gain: 1.0, ..Config::default() }
    }

    fn assert_near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9, "{value} for {expected}");
    }

    #[test]
    fn a_queue_cuts_its_share_of_the_maximum_delay() {
        assert_near(Compensation::pressure(&paper(), &view(2.5, 0.0), Duration::ZERO, RTT, RTT), 2.5 / 12.5);
    }

    #[test]
    fn gaps_that_grow_cut_by_the_overload() {
        // The link needs 1.25 ms for a packet, and one leaves every millisecond: (1.25 - 1) / 1.25.
        assert_near(Compensation::pressure(&paper(), &view(0.0, 0.25), Duration::ZERO, RTT, RTT), GAP_GAIN * 0.2);
    }

    #[test]
    fn a_queue_at_the_target_cuts_nothing() {
        let config = Config { delay_gain: 0.2, ..paper() };
        let target = Duration::from_millis(2);
        assert_near(Compensation::pressure(&config, &view(2.0, 0.0), target, target * 3, RTT), 0.0);
        assert_near(Compensation::pressure(&config, &view(1.0, 0.0), target, target * 3, RTT), -0.02);
        assert_near(Compensation::pressure(&config, &view(2.0, -0.1), target, target * 3, RTT), GAP_GAIN * -0.1);
    }

    #[test]
    fn small_slopes_cut_in_part_and_large_ones_in_full() {
        assert_near(Compensation::pressure(&paper(), &view(0.0, 0.1), Duration::ZERO, RTT, RTT), GAP_GAIN * 0.1 / 1.1);
        assert_near(Compensation::pressure(&paper(), &view(0.0, 0.3), Duration::ZERO, RTT, RTT), GAP_GAIN * 0.3 / 1.3);
        assert_near(Compensation::pressure(&paper(), &view(0.0, 1.0), Duration::ZERO, RTT, RTT), 0.5);
    }

    #[test]
    fn a_standing_excess_and_a_level_above_the_ceiling_cut() {
        let config = Config { delay_gain: 0.2, ..paper() };
        let target = Duration::from_millis(2);
        assert_near(Compensation::pressure(&config, &view(3.0, 0.0), target, target * 3, RTT), 0.2 / 11.0);
        for (level, expected) in [(5.0, 0.0), (8.0, 0.2 * 2.0 / 12.0)] {
            let view = View { standing: Duration::ZERO, ..view(level, 0.0) };
            assert_near(Compensation::pressure(&config, &view, target, target * 3, RTT), expected);
        }
    }

    #[test]
    fn a_cut_counts_for_a_round_trip_whatever_its_reason() {
        let ms = |n: u64| Time::ZERO + Duration::from_millis(n);
        let mut compensation = Compensation::new();
        for (at, expected) in [(0, 0.25), (20, 0.0), (21, 0.25), (71, 0.25)] {
            assert_near(compensation.cut(ms(at), RTT, 0.25), expected);
        }
        let mut compensation = Compensation::new();
        (0..2).for_each(|_| compensation.on_cut(ms(0), 0.1));
        assert_near(compensation.cut(ms(1), RTT, 0.25), 0.05);
    }

    #[test]
    fn many_small_cuts_add_up_to_the_pressure() {
        let us = |n: u64| Time::ZERO + Duration::from_micros(n);
        let mut compensation = Compensation::new();
        for n in 1..=200 {
            assert_near(compensation.cut(us(n), RTT, n as f64 * 0.002), 0.002);
        }
        assert_near(compensation.cut(us(20_001), RTT, 0.4), 0.0);
        assert_near(compensation.cut(us(20_002), RTT, 0.4), 0.002); // the first cut was a round trip ago
    }

    #[test]
    fn a_queue_cuts_once_per_round_trip() {
        let mut compensation = Compensation::new();
        let ms = |n: u64| Time::ZERO + Duration::from_millis(n);
        let cuts: Vec<f64> = (0..45).map(|n| compensation.cut(ms(n), RTT, 0.25)).collect();
        assert_eq!(cuts.iter().filter(|cut| **cut > 0.0).count(), 3);
        assert_near(cuts.iter().sum(), 0.75);
    }

    #[test]
    fn no_round_trip_cuts_more_than_half() {
        let mut compensation = Compensation::new();
        let cuts = (0..20).map(|n| {
            let now = Time::ZERO + Duration::from_millis(n);
            compensation.cut(now, RTT, 0.9 + n as f64)
        });
        assert_near(cuts.sum(), 0.5);
    }
}
