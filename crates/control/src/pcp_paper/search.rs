//! The next test rate, and the time of the next probe (section 3.3).

use rampmeter_units::{Duration, Rate, Stream, Time};

use super::Config;

#[derive(Debug, Clone)]
pub(super) struct Search {
    test: Rate,
    /// The interval of one probe, in round trips.
    interval: f64,
}

impl Search {
    /// A search whose first probe asks for `test`.
    pub(super) fn new(test: Rate) -> Self {
        Self { test, interval: 1.0 }
    }

    /// The test rate, within these bounds.
    pub(super) fn test(&self, min: Rate, max: Rate) -> Rate {
        self.test.min(max).max(min)
    }

    /// A probe for `test` was accepted.
    pub(super) fn on_accepted(&mut self, test: Rate) {
        self.test = test.scale(2.0);
        self.interval = 1.0;
    }

    /// A probe for `test` was rejected; `min` is the minimum test rate.
    pub(super) fn on_rejected(&mut self, config: &Config, test: Rate, min: Rate) {
        self.test = test.scale(0.5).max(min);
        if test <= min {
            self.interval = (self.interval * 2.0).min(config.max_interval);
        }
    }

    /// The time of the next probe, after one that `started` then: never two in one round trip.
    pub(super) fn next(&self, now: Time, started: Time, rtt: Duration, random: &mut Stream) -> Time {
        let wait = if self.interval > 1.0 { rtt.scale(self.interval * random.uniform()) } else { Duration::ZERO };
        (now + wait).max(started + rtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mbps(n: f64) -> Rate {
        Rate::from_bps_f64(n * 1e6)
    }

    #[test]
    fn a_success_doubles_and_a_failure_halves_the_next_test_rate() {
        let mut search = Search::new(mbps(4.0));
        search.on_accepted(mbps(4.0));
        assert_eq!(search.test(Rate::ZERO, Rate::MAX), mbps(8.0));
        search.on_rejected(&Config::default(), mbps(8.0), Rate::ZERO);
        assert_eq!(search.test(Rate::ZERO, Rate::MAX), mbps(4.0));
    }

    #[test]
    fn no_probe_asks_for_less_than_the_minimum() {
        let (min, mut search) = (mbps(0.4), Search::new(mbps(1.0)));
        for _ in 0..10 {
            search.on_rejected(&Config::default(), search.test(min, Rate::MAX), min);
        }
        assert_eq!(search.test(min, Rate::MAX), min);
    }

    #[test]
    fn failures_at_the_minimum_space_probes_up_to_100_round_trips() {
        let (config, min, rtt) = (Config::default(), mbps(0.4), Duration::from_millis(20));
        let (mut search, mut random) = (Search::new(min), Stream::from_seed(1));
        let mut intervals = Vec::new();
        for _ in 0..9 {
            search.on_rejected(&config, min, min);
            intervals.push(search.interval);
            let waits = (0..1000).map(|_| search.next(Time::ZERO, Time::ZERO, rtt, &mut random).since(Time::ZERO));
            let (shortest, longest) = waits.fold((Duration::MAX, rtt), |(s, l), wait| (s.min(wait), l.max(wait)));
            assert!(
                shortest >= rtt && longest <= rtt.scale(search.interval) && longest > rtt.scale(search.interval * 0.9)
            );
        }
        assert_eq!(intervals, [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0, 100.0, 100.0]);
        search.on_accepted(min);
        let now = Time::ZERO + rtt * 3;
        assert_eq!(search.next(now, Time::ZERO, rtt, &mut random), now);
    }
}
