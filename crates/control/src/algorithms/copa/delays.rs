//! Round-trip times over the windows that Copa needs (section 2).
//!
//! ```text
//! RTTmin        minimum of the last 10 s                          the path without a queue
//! RTTstanding   minimum of the last srtt / 2                      the queue, without what delays single packets
//! d_q           RTTstanding - RTTmin                              section 2.1
//! nearly empty  min of 10 RTTs - RTTmin <= 0.1 (max of 10 RTTs - RTTmin)    section 2.2
//! ```

use std::cmp::Reverse;
use std::collections::VecDeque;

use rampmeter_units::{Duration, Time};

/// How long the minimum round-trip time lasts (section 2.1).
pub(super) const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);

/// The number of round trips in which the queue of Copa flows is nearly empty at least once.
const EMPTY_WITHIN: u64 = 10;

/// A window is divided into this many parts, of which each keeps one sample.
const PARTS: u64 = 32;

/// The minimum of a window of time.
#[derive(Debug, Clone)]
pub(super) struct Minimum<T> {
    /// Values that grow with their times: each is the minimum since the one before.
    samples: VecDeque<(Time, T)>,
}

impl<T: Ord + Copy> Minimum<T> {
    pub(super) fn new(now: Time, value: T) -> Self {
        let mut samples = VecDeque::with_capacity(PARTS as usize + 2);
        samples.push_back((now, value));
        Self { samples }
    }

    /// Adds `value`, and discards those that are older than `window`.
    pub(super) fn add(&mut self, now: Time, value: T, window: Duration) {
        while self.samples.back().is_some_and(|(_, last)| *last >= value) {
            self.samples.pop_back();
        }
        if self.samples.back().is_none_or(|(at, _)| now.since(*at) >= window / PARTS) {
            self.samples.push_back((now, value));
        }
        while self.samples.front().is_some_and(|(at, _)| now.since(*at) > window) {
            self.samples.pop_front();
        }
    }

    pub(super) fn get(&self) -> Option<T> {
        self.samples.front().map(|(_, value)| *value)
    }
}

#[derive(Debug, Clone)]
pub(super) struct Delays {
    min: Minimum<Duration>,
    standing: Minimum<Duration>,
    recent_min: Minimum<Duration>,
    recent_max: Minimum<Reverse<Duration>>,
    /// When delays were measured last, and the first time after a pause as long as `EMPTY_WITHIN`.
    last: Time,
    since: Time,
}

impl Delays {
    pub(super) fn new(now: Time, rtt: Duration) -> Self {
        let min = Minimum::new(now, rtt);
        Self {
            min: min.clone(),
            standing: min.clone(),
            recent_min: min,
            recent_max: Minimum::new(now, Reverse(rtt)),
            last: now,
            since: now,
        }
    }

    pub(super) fn add(&mut self, now: Time, rtt: Duration, smoothed_rtt: Duration) {
        if now.since(self.last) > smoothed_rtt * EMPTY_WITHIN {
            self.since = now;
        }
        self.last = now;
        self.min.add(now, rtt, MIN_RTT_WINDOW);
        self.standing.add(now, rtt, smoothed_rtt / 2);
        self.recent_min.add(now, rtt, smoothed_rtt * EMPTY_WITHIN);
        self.recent_max.add(now, Reverse(rtt), smoothed_rtt * EMPTY_WITHIN);
    }

    /// `RTTstanding`.
    pub(super) fn standing(&self) -> Duration {
        self.standing.get().unwrap_or_default()
    }

    /// `d_q`.
    pub(super) fn queueing(&self) -> Duration {
        self.standing().saturating_sub(self.min())
    }

    /// Whether the queue was nearly empty in the last `EMPTY_WITHIN` round trips, or may have been: in a pause nothing
    /// measures it.
    pub(super) fn was_nearly_empty(&self, smoothed_rtt: Duration) -> bool {
        if self.last.since(self.since) < smoothed_rtt * EMPTY_WITHIN {
            return true;
        }
        let min = self.min();
        let lowest = self.recent_min.get().unwrap_or_default().saturating_sub(min);
        let Reverse(highest) = self.recent_max.get().unwrap_or_default();
        lowest <= highest.saturating_sub(min) / 10
    }

    fn min(&self) -> Duration {
        self.min.get().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn at(millis: u64) -> Time {
        Time::ZERO + ms(millis)
    }

    #[test]
    fn a_minimum_lasts_its_window() {
        let mut min = Minimum::new(at(0), 9);
        for (millis, value, expected) in [(1, 5, 5), (50, 7, 5), (60, 6, 5), (101, 8, 5), (102, 8, 6), (161, 9, 8)] {
            min.add(at(millis), value, ms(100));
            assert_eq!(min.get(), Some(expected), "at {millis} ms");
        }
    }

    #[test]
    fn few_of_many_samples_are_kept() {
        let mut min = Minimum::new(at(0), 0);
        for n in 1..100_000 {
            min.add(Time::from_nanos(n * 10_000), n, ms(100));
            assert!(min.samples.len() <= PARTS as usize + 2);
        }
        assert!((989_000_000 - 100_000_000) / 10_000 < min.get().unwrap());
    }

    #[test]
    fn the_standing_queue_is_the_minimum_of_half_a_round_trip() {
        let mut delays = Delays::new(at(0), ms(100));
        for (millis, rtt, queue) in [(10, 120, 0), (40, 110, 0), (60, 130, 10), (80, 105, 5), (200, 130, 30)] {
            delays.add(at(millis), ms(rtt), ms(100));
            assert_eq!(delays.queueing(), ms(queue), "at {millis} ms");
        }
    }

    #[test]
    fn a_queue_is_nearly_empty_below_a_tenth_of_its_peak() {
        let mut delays = Delays::new(at(0), ms(100));
        for (millis, rtt, is_empty) in
            [(900, 150, true), (1002, 150, false), (1100, 104, true), (2000, 145, true), (2101, 145, false)]
        {
            delays.add(at(millis), ms(rtt), ms(100));
            assert_eq!(delays.was_nearly_empty(ms(100)), is_empty, "at {millis} ms");
        }
    }
}
