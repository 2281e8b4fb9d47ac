//! What to ask for next, and when (section 3.3).
//!
//! ```text
//! accepted:            test *= 2
//! rejected:            test /= 2, down to the floor: 1% of the base rate
//! rejected there:      interval *= 2, up to 100 round trips; the next probe comes at random within it
//! ```
//!
//! *Deviation*: the floor is at least 0.3 packets a round trip (`MIN_PROBE`). A flow that compensation has brought down
//! to a few packets a second would otherwise ask for a hundredth of that, with trains that take seconds, and starve
//! beside an idle link. Figure 4 in the simulator, one seed: mean response at load 0.60, 0.75, 0.90 is 425, 973, 5028 ms
//! without and 342, 589, 1285 ms with it, its deviation at 0.90 21.5 and 2.4 s; ten long flows' Jain index 0.28 and 0.93.

use rampmeter_units::{Duration, Rate, Stream, Time};

use super::Config;
use super::config::{MAX_BACKOFF, MIN_STEP};

#[derive(Debug, Clone)]
pub(super) struct Search {
    test: Rate,
    /// Round trips in which one probe is placed; 1 while the search goes on.
    interval: f64,
}

impl Search {
    /// A search that begins with `test`.
    pub(super) fn new(test: Rate) -> Self {
        Self { test, interval: 1.0 }
    }

    /// The rate to ask for on top of `base`; `min` is the least worth asking for.
    pub(super) fn test(&self, config: &Config, base: Rate, min: Rate) -> Rate {
        let room = config.fastest.saturating_sub(base);
        self.test.min(room).max(Self::floor(base, min))
    }

    /// Goes on from `test`, which something else than the search found worth asking for.
    pub(super) fn set_test_rate(&mut self, test: Rate) {
        self.test = test;
    }

    pub(super) fn accepted(&mut self, test: Rate) {
        self.test = test + test;
        self.interval = 1.0;
    }

    /// A probe for `test` failed.
    pub(super) fn rejected(&mut self, test: Rate, base: Rate, min: Rate) {
        let floor = Self::floor(base, min);
        if test <= floor {
            self.interval = (self.interval * 2.0).min(MAX_BACKOFF);
        }
        self.test = test.scale(0.5).max(floor);
    }

    /// When the next probe may begin: never two in one round trip.
    pub(super) fn next(&self, now: Time, started: Time, rtt: Duration, random: &mut Stream) -> Time {
        let placed = if self.interval > 1.0 { rtt.scale(self.interval * random.uniform()) } else { Duration::ZERO };
        (now + placed).max(started + rtt)
    }

    fn floor(base: Rate, min: Rate) -> Rate {
        base.scale(MIN_STEP).max(min).max(Rate::from_bps(1))
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
        let config = Config::default();
        let mut search = Search::new(mbps(4.0));
        search.accepted(mbps(4.0));
        assert_eq!(search.test(&config, mbps(4.0), MIN), mbps(8.0));
        search.rejected(mbps(8.0), mbps(4.0), MIN);
        assert_eq!(search.test(&config, mbps(4.0), MIN), mbps(4.0));
    }

    #[test]
    fn no_probe_asks_for_less_than_a_hundredth_of_the_base_rate() {
        let config = Config::default();
        let mut search = Search::new(mbps(1.0));
        for _ in 0..10 {
            search.rejected(search.test(&config, mbps(40.0), MIN), mbps(40.0), MIN);
        }
        assert_eq!(search.test(&config, mbps(40.0), MIN), mbps(0.4));
    }

    #[test]
    fn a_slow_flow_asks_for_what_is_worth_asking() {
        let config = Config::default();
        let mut search = Search::new(mbps(1.0));
        for _ in 0..10 {
            search.rejected(search.test(&config, mbps(0.05), MIN), mbps(0.05), MIN);
        }
        assert_eq!(search.test(&config, mbps(0.05), MIN), MIN);
    }

    #[test]
    fn failures_at_the_floor_space_probes_up_to_a_hundred_round_trips() {
        let (base, rtt) = (mbps(40.0), Duration::from_millis(20));
        let mut random = Stream::from_seed(1);
        let mut search = Search::new(mbps(0.4));
        let mut intervals = Vec::new();
        for _ in 0..9 {
            search.rejected(mbps(0.4), base, MIN);
            intervals.push(search.interval);
            for _ in 0..100 {
                let next = search.next(Time::ZERO, Time::ZERO, rtt, &mut random);
                assert!(next >= Time::ZERO + rtt && next <= Time::ZERO + rtt.scale(search.interval));
            }
        }
        assert_eq!(intervals, [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0, 100.0, 100.0]);
        search.accepted(mbps(0.4));
        assert_eq!(search.next(Time::ZERO + rtt * 3, Time::ZERO, rtt, &mut random), Time::ZERO + rtt * 3);
    }
}
