//! How loaded the link is: rules R.1 to R.3 and equation (1) of VCP (sections III-B and III-E).
//!
//! ```text
//! R.1  a packet of s bytes arrives:   lambda += s
//! R.2  every t_q:                     q~ = a q~ + (1 - a) q(t)
//! R.3  every t_rho:                   rho = (lambda + kappa_q q~) / (gamma C t_rho),   lambda = 0      eq. (1)
//! ```
//!
//! **The timers need no ticks.** A queue changes only when a packet comes or goes. Samples that were due since then have
//! all found the same queue, so they are taken together just before the next packet changes it: nothing is lost, and an
//! idle router sleeps. After a long silence it is the same from one interval to the next, and those between are skipped.
//! Both timers start at time zero; at the same instant R.2 comes first, then R.3, then packets.
//!
//! `lambda` counts all that is offered: acknowledgements too, for they take their part of the link, and packets that are
//! then dropped, for they are demand. `C` is the rate at the interval's end: after a change, what matters is what fits now.

use rampmeter_units::{Bytes, Duration, LoadRegion, Rate, Time};

use super::Config;
use super::target::Target;

/// Bytes by which what is remembered of the queue may differ from the queue and still count as the same.
const SAME: f64 = 1e-6;

#[derive(Debug)]
pub(super) struct Load {
    rate: Rate,
    interval: Duration,
    sampling: Duration,
    /// `a`
    memory: f64,
    /// `kappa_q`
    weight: f64,
    transition: f64,
    target: Target,
    /// `lambda`: bytes that came in this interval.
    came: Bytes,
    /// `q~`, in bytes.
    persistent: f64,
    next_sample: Time,
    next_measure: Time,
    factor: f64,
}

impl Load {
    pub(super) fn new(config: &Config, rate: Rate) -> Self {
        Self {
            rate,
            interval: config.load_interval,
            sampling: config.queue_interval,
            memory: config.queue_memory,
            weight: config.queue_weight,
            transition: config.transition,
            target: Target::new(config),
            came: Bytes::ZERO,
            persistent: 0.0,
            next_sample: Time::ZERO + config.queue_interval,
            next_measure: Time::ZERO + config.load_interval,
            factor: 0.0,
        }
    }

    /// The last interval's load factor, `rho`; 0 before the first has passed.
    pub(super) fn factor(&self) -> f64 {
        self.factor
    }

    /// The load factor's region. A link without a rate is overloaded.
    pub(super) fn region(&self) -> LoadRegion {
        if self.factor < self.transition {
            LoadRegion::Low
        } else if self.factor < 1.0 {
            LoadRegion::High
        } else {
            LoadRegion::Over
        }
    }

    /// Does all that was due up to `now`, through which time `queue` has waited.
    pub(super) fn advance(&mut self, now: Time, queue: Bytes) {
        if now < self.next_sample && now < self.next_measure {
            return;
        }
        while self.next_measure <= now {
            self.sample(self.next_measure, queue);
            let silent = self.came == Bytes::ZERO && self.persistent == queue.as_f64();
            self.measure(1);
            if silent {
                let until = now.min(self.target.next_adjustment());
                let same = whole(until.since(self.next_measure), self.interval).saturating_sub(1);
                self.next_measure += self.interval * same;
                self.measure(same);
            }
            self.next_measure += self.interval;
        }
        self.sample(now, queue);
    }

    /// R.1
    pub(super) fn count_arrival(&mut self, bytes: Bytes) {
        self.came += bytes;
    }

    pub(super) fn count_departure(&mut self, bytes: Bytes) {
        self.target.count_departure(bytes);
    }

    /// R.2, for every sample up to `now`.
    fn sample(&mut self, now: Time, queue: Bytes) {
        let queue = queue.as_f64();
        while self.next_sample <= now {
            if (self.persistent - queue).abs() < SAME {
                self.persistent = queue;
                self.next_sample += self.sampling * (whole(now.since(self.next_sample), self.sampling) + 1);
                return;
            }
            self.persistent = self.memory * self.persistent + (1.0 - self.memory) * queue;
            self.next_sample += self.sampling;
        }
    }

    /// R.3, for the last of so many `intervals` that are all the same.
    fn measure(&mut self, intervals: u64) {
        let capacity = self.rate.as_bps_f64() / 8.0 * self.interval.as_secs_f64();
        let demand = self.came.as_f64() + self.weight * self.persistent;
        self.factor = if capacity > 0.0 { demand / (self.target.share() * capacity) } else { f64::INFINITY }; // eq. (1)
        self.came = Bytes::ZERO;
        let region = self.region();
        self.target.after_intervals(self.next_measure, region, capacity * intervals as f64);
    }

    pub(super) fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
    }
}

/// How many whole `part`s there are in `span`.
fn whole(span: Duration, part: Duration) -> u64 {
    span.as_nanos() / part.as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    // 8 Mb/s are 200 kB in 200 ms, 196 kB of them at 98%.
    const RATE: Rate = Rate::from_bps(8_000_000);

    fn ms(n: u64) -> Time {
        Time::ZERO + Duration::from_millis(n)
    }

    fn load() -> Load {
        Load::new(&Config::default(), RATE)
    }

    #[test]
    fn the_load_factor_is_what_came_and_half_the_queue_over_98_percent_of_the_link() {
        let mut load = load();
        load.count_arrival(Bytes::new(98_000));
        load.advance(ms(199), Bytes::new(19_600));
        assert_eq!(load.factor(), 0.0);
        load.advance(ms(200), Bytes::new(19_600));
        // 20 samples: q~ = q (1 - a^20)
        let persistent = 19_600.0 * (1.0 - 0.875_f64.powi(20));
        assert!((load.factor() - (98_000.0 + 0.5 * persistent) / 196_000.0).abs() < 1e-12, "{}", load.factor());
        load.advance(ms(400), Bytes::ZERO);
        // The queue had gone by the next sample; 20 more of nothing.
        let persistent = persistent * 0.875_f64.powi(20);
        assert!((load.factor() - 0.5 * persistent / 196_000.0).abs() < 1e-12, "{}", load.factor());
    }

    #[test]
    fn regions_begin_at_80_and_at_100_percent() {
        for (bytes, region) in [
            (0, LoadRegion::Low),
            (156_799, LoadRegion::Low),
            (156_800, LoadRegion::High),
            (195_999, LoadRegion::High),
            (196_000, LoadRegion::Over),
            (900_000, LoadRegion::Over),
        ] {
            let mut load = load();
            load.count_arrival(Bytes::new(bytes));
            load.advance(ms(200), Bytes::ZERO);
            assert_eq!(load.region(), region, "{bytes}");
        }
    }

    /// The rules as one would write them down, a timer that fires for every sample and every interval.
    fn ticking(events: &[(u64, u64, u64)]) -> Vec<f64> {
        let (mut persistent, mut queue, mut came, mut factor, mut at) = (0.0, 0.0, 0.0, 0.0, 0);
        let mut factors = Vec::new();
        for &(time, bytes, waiting) in events {
            while at < time {
                at += 10;
                persistent = 0.875 * persistent + 0.125 * queue;
                if at % 200 == 0 {
                    factor = (came + 0.5 * persistent) / 196_000.0;
                    came = 0.0;
                }
            }
            factors.push(factor);
            came += bytes as f64;
            queue = waiting as f64;
        }
        factors
    }

    proptest::proptest! {
        #[test]
        fn taking_samples_together_is_the_same_as_one_by_one(
            steps in proptest::collection::vec((0u64..300, 0u64..50_000, 0u64..50_000, 0u8..20), 1..60),
        ) {
            let (mut load, mut now, mut queue) = (load(), 0, 0);
            let (mut events, mut factors) = (Vec::new(), Vec::new());
            for (gap, bytes, waiting, rare) in steps {
                now += 10 * if rare == 0 { gap * 1000 } else { gap };
                events.push((now, bytes, waiting));
                load.advance(ms(now), Bytes::new(queue));
                factors.push(load.factor());
                load.count_arrival(Bytes::new(bytes));
                queue = waiting;
            }
            for (ours, plain) in factors.iter().zip(ticking(&events)) {
                proptest::prop_assert!((ours - plain).abs() < 1e-9, "{ours} {plain}");
            }
        }

        #[test]
        fn a_target_that_adjusts_itself_is_the_same_whether_silence_is_skipped_or_not(
            steps in proptest::collection::vec((0u64..100, 0u64..300_000), 1..40),
        ) {
            let config = Config { goal: Some(0.4), goal_interval: Duration::from_secs(1), ..Config::default() };
            let (mut skips, mut ticks) = (Load::new(&config, RATE), Load::new(&config, RATE));
            let mut now = 0;
            for (gap, bytes) in steps {
                let before = now;
                now += 100 * gap;
                for at in (before..now).step_by(10) {
                    ticks.advance(ms(at), Bytes::ZERO);
                }
                for load in [&mut skips, &mut ticks] {
                    load.advance(ms(now), Bytes::ZERO);
                    load.count_arrival(Bytes::new(bytes));
                    load.count_departure(Bytes::new(bytes));
                }
                proptest::prop_assert_eq!(skips.target.share(), ticks.target.share());
                proptest::prop_assert_eq!(skips.factor(), ticks.factor());
            }
        }
    }

    #[test]
    fn a_year_of_silence_costs_nothing() {
        let mut load = load();
        load.count_arrival(Bytes::new(1_000_000));
        load.advance(ms(1), Bytes::new(500_000));
        load.advance(Time::ZERO + Duration::from_secs(365 * 86_400), Bytes::ZERO);
        assert_eq!(load.factor(), 0.0);
        assert!(load.next_measure > Time::ZERO + Duration::from_secs(365 * 86_400));
    }

    #[test]
    fn what_fits_is_told_by_the_rate_at_the_end_and_a_link_without_a_rate_is_overloaded() {
        let mut load = load();
        load.count_arrival(Bytes::new(98_000));
        load.set_rate(Rate::from_bps(4_000_000));
        load.advance(ms(200), Bytes::ZERO);
        assert!((load.factor() - 1.0).abs() < 1e-12);
        load.set_rate(Rate::ZERO);
        load.advance(ms(400), Bytes::ZERO);
        assert_eq!(load.region(), LoadRegion::Over);
        load.set_rate(Rate::MAX);
        load.count_arrival(Bytes::new(1_000_000_000));
        load.advance(ms(600), Bytes::ZERO);
        assert_eq!(load.region(), LoadRegion::Low);
    }
}
