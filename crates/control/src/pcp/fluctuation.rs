//! The part of the queue that comes and goes by itself.
//!
//! A radio link serves its stations in turns, and its rate follows the channel: packets wait, and then all leave, however
//! little the flow sends. A flow that cuts its rate for each such wait leaves most of the link idle.
//!
//! ```text
//! w - 3 s      w: the wait of the latest packet, s: the standing queue. Positive on average where less than a third of
//!              the queue stands
//! its mean     over a quarter of the time after which minima expire
//! the lowest   of these means until they expire, less a twentieth of the minimum round-trip time, and at most that time
//! ```
//!
//! The target queue is longer by the result, or a part of it, the ceiling by 3.3 times as much, and a queue that is no longer counts as empty (`judgement`,
//! `drain`). What flows cause themselves mostly stands, so flows on links of a constant rate keep their short queues: with
//! `w - s` ten long-lived flows had 20 packets queued in place of 16, with `w - 3 s` they have 17. The lowest mean leaves
//! out the queues of other flows that come and go. `docs/pcp.md` has the designs that were compared.

use rampmeter_units::{Duration, Time};

use super::lowest::Lowest;

/// The number of means in the time after which minima expire.
const MEANS: u64 = 4;

/// A queue fluctuates if its mean is longer than this multiple of the standing queue.
const OF_STANDING: f64 = 3.0;

/// The share of the minimum round-trip time that does not count. Flows that share a fast link measure different small
/// values: sixteen of them have a Jain's index of 0.89 if it counts, and 0.93 if it does not.
const NEGLIGIBLE: f64 = 0.05;

#[derive(Debug, Clone, Default)]
pub(super) struct Fluctuation {
    /// The start of the current mean and the time of its latest wait; none before the first wait.
    span: Option<(Time, Time)>,
    /// The integral of `w - 3 s` over time, in s^2.
    integral: f64,
    /// The time that it covers.
    covered: Duration,
    lowest: Lowest,
}

impl Fluctuation {
    /// The latest packet waited for `wait`, and `standing` is the standing queue. A pause counts as one round trip at
    /// most. Means expire after `expiry`.
    pub(super) fn on_wait(&mut self, now: Time, rtt: Duration, wait: Duration, standing: Duration, expiry: Duration) {
        let (since, last) = self.span.unwrap_or((now, now));
        let span = now.since(last).min(rtt);
        self.integral += (wait.as_secs_f64() - OF_STANDING * standing.as_secs_f64()) * span.as_secs_f64();
        self.covered += span;
        self.span = Some((since, now));
        if now.since(since) > expiry / MEANS && self.covered > Duration::ZERO {
            let mean = self.integral / self.covered.as_secs_f64();
            self.lowest.update(now, (mean * 1e9) as i64, expiry);
            (self.span, self.integral, self.covered) = (Some((now, now)), 0.0, Duration::ZERO);
        }
    }

    /// The part of the queue that the flow tolerates, where the path's minimum round-trip time is `min_rtt`.
    pub(super) fn tolerated(&self, min_rtt: Duration) -> Duration {
        let lowest = Duration::from_nanos(self.lowest.get().unwrap_or(0).max(0) as u64);
        lowest.saturating_sub(min_rtt.scale(NEGLIGIBLE)).min(min_rtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);
    const EXPIRY: Duration = Duration::from_secs(10);

    /// The time at which a flow starts.
    const START: Time = Time::from_nanos(100_000_000_000);

    /// The tolerance after `seconds` in which the wait, in milliseconds, is `wait(n)` in the n-th millisecond, and 1 ms
    /// of it stands.
    fn after(seconds: u64, wait: impl Fn(u64) -> u64) -> Duration {
        let mut fluctuation = Fluctuation::default();
        for n in 0..seconds * 1000 {
            let (now, wait) = (START + Duration::from_millis(n), Duration::from_millis(wait(n)));
            fluctuation.on_wait(now, RTT, wait, Duration::from_millis(1), EXPIRY);
        }
        fluctuation.tolerated(RTT)
    }

    // Waits of 1 to 10 ms: 5.5 ms on average, of which 3 ms count as standing, and 2 ms are negligible.
    #[test]
    fn the_mean_wait_beyond_three_standing_queues_is_tolerated() {
        let tolerated = after(9, |n| 1 + n % 10).as_secs_f64();
        assert!((tolerated - 0.0005).abs() < 0.0001, "{tolerated}");
    }

    #[test]
    fn a_queue_of_which_a_third_stands_is_not_tolerated() {
        assert_eq!(after(9, |n| if n % 4 < 3 { 1 } else { 9 }), Duration::ZERO); // 3 ms on average
        assert!(after(9, |n| 1 + n % 10) > Duration::ZERO);
    }

    #[test]
    fn a_fluctuation_that_pauses_is_not_tolerated() {
        assert_eq!(after(9, |n| if (3000..6000).contains(&n) { 1 } else { 1 + n % 10 }), Duration::ZERO);
    }

    #[test]
    fn a_pause_expires() {
        assert!(after(21, |n| if n < 3000 { 1 } else { 1 + n % 10 }) > Duration::ZERO);
    }

    #[test]
    fn at_most_a_round_trip_is_tolerated() {
        assert_eq!(after(9, |n| 1 + n % 200), RTT);
    }

    #[test]
    fn nothing_is_tolerated_before_the_first_mean() {
        assert_eq!(after(2, |n| 1 + n % 10), Duration::ZERO);
        assert!(after(3, |n| 1 + n % 10) > Duration::ZERO);
    }

    // Between two waits, 2 ms at first and 9 ms after a pause of a second, lies one round trip of 40 ms at most.
    #[test]
    fn a_pause_counts_as_one_round_trip() {
        let mut fluctuation = Fluctuation::default();
        let ms = Duration::from_millis;
        for n in 0..=2500 {
            fluctuation.on_wait(START + ms(n), RTT, ms(2), Duration::ZERO, EXPIRY);
        }
        fluctuation.on_wait(START + ms(3500), RTT, ms(9), Duration::ZERO, EXPIRY);
        let expected = (2500.0 * 2.0 + 40.0 * 9.0) / 2540.0 - 2.0;
        assert!((fluctuation.tolerated(RTT).as_secs_f64() * 1e3 - expected).abs() < 0.01);
    }
}
