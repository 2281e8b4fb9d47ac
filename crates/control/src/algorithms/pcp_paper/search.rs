//! The next test rate, and the time of the next probe (section 3.3).
//!
//! ```text
//! accepted:            test *= 2
//! rejected:            test /= 2, at least the minimum: 1% of the base rate
//! rejected there:      interval *= 2, up to 100 round trips; the next probe is at a random time within it
//! ```

use rampmeter_units::{Duration, Random, Rate, Time};

use super::config::MAX_INTERVAL;

#[derive(Debug, Clone)]
pub(super) struct Search {
    test: Rate,
    /// The interval of one probe, in round trips; 1 while the search goes on.
    interval: f64,
}

impl Search {
    /// A search that starts with `test`.
    pub(super) fn new(test: Rate) -> Self {
        Self { test, interval: 1.0 }
    }

    /// The test rate, within these bounds.
    pub(super) fn test(&self, min: Rate, max: Rate) -> Rate {
        self.test.min(max).max(min)
    }

    /// A probe for `test` was accepted.
    pub(super) fn accepted(&mut self, test: Rate) {
        self.test = test + test;
        self.interval = 1.0;
    }

    /// A probe for `test` was rejected; `min` is the minimum test rate.
    pub(super) fn rejected(&mut self, test: Rate, min: Rate) {
        if test <= min {
            self.interval = (self.interval * 2.0).min(MAX_INTERVAL);
        }
        self.test = test.scale(0.5).max(min);
    }

    /// The time of the next probe: never two in one round trip.
    pub(super) fn next(&self, now: Time, started: Time, rtt: Duration, random: &mut Random) -> Time {
        let wait = if self.interval > 1.0 { rtt.scale(self.interval * random.uniform()) } else { Duration::ZERO };
        (now + wait).max(started + rtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: Rate = Rate::from_bps(1_000);

    fn mbps(n: f64) -> Rate {
        Rate::from_bps_f64(n * 1e6)
    }

    #[test]
    fn a_success_doubles_and_a_failure_halves_the_next_test_rate() {
        let mut search = Search::new(mbps(4.0));
        search.accepted(mbps(4.0));
        assert_eq!(search.test(MIN, Rate::MAX), mbps(8.0));
        search.rejected(mbps(8.0), MIN);
        assert_eq!(search.test(MIN, Rate::MAX), mbps(4.0));
    }

    #[test]
    fn the_test_rate_stays_within_its_bounds() {
        let mut search = Search::new(mbps(1.0));
        assert_eq!(search.test(MIN, mbps(0.5)), mbps(0.5));
        for _ in 0..20 {
            search.rejected(search.test(MIN, Rate::MAX), MIN);
        }
        assert_eq!(search.test(MIN, Rate::MAX), MIN);
    }

    #[test]
    fn failures_at_the_minimum_space_probes_up_to_100_rtts() {
        let rtt = Duration::from_millis(20);
        let mut random = Random::from_seed(1);
        let mut search = Search::new(MIN);
        let mut intervals = Vec::new();
        for _ in 0..9 {
            search.rejected(MIN, MIN);
            intervals.push(search.interval);
            let waits = (0..1000).map(|_| search.next(Time::ZERO, Time::ZERO, rtt, &mut random).since(Time::ZERO));
            let (shortest, longest) = waits.fold((Duration::MAX, rtt), |(s, l), wait| (s.min(wait), l.max(wait)));
            let max = rtt.scale(search.interval);
            assert!(shortest >= rtt && longest <= max && longest > max.scale(0.9), "{shortest} {longest}");
        }
        assert_eq!(intervals, [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0, 100.0, 100.0]);
        search.accepted(MIN);
        assert_eq!(search.next(Time::ZERO + rtt * 3, Time::ZERO, rtt, &mut random), Time::ZERO + rtt * 3);
    }
}
