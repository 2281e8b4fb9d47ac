//! The load factor of the link: rules R.1 to R.3 and equation (1) of VCP (sections III-B and III-E).
//!
//! ```text
//! R.1  a packet of s bytes arrives:   lambda += s
//! R.2  every t_q:                     q~ = a q~ + (1 - a) q(t)
//! R.3  every t_rho:                   rho = (lambda + kappa_q q~) / (gamma C t_rho),   lambda = 0      eq. (1)
//! ```
//!
//! **The timers need no ticks.** All samples that were due since the queue last changed see the same queue, so they are
//! computed together just before the next change, and an idle router never wakes up. After a long idle time, equal
//! intervals are skipped. Both timers start at time zero; at the same instant R.2 comes first, then R.3, then packets.
//!
//! `lambda` counts everything offered: acknowledgements too, because they use the link, and packets that are then
//! dropped, because they are demand. `C` is the rate at the interval's end.

use rampmeter_units::{Bytes, Duration, LoadRegion, Rate, Time};

use super::Config;
use super::config::QUEUE_INTERVAL;
use super::target::Target;

/// `a`: the weight of the previous average in the average queue.
const QUEUE_MEMORY: f64 = 0.875;

/// The difference in bytes below which the average queue and the queue count as equal.
const TOLERANCE: f64 = 1e-6;

#[derive(Debug, Default)]
pub(super) struct Load {
    rate: Rate,
    config: Config,
    target: Target,
    /// `lambda`: bytes that arrived in this interval.
    arrived: Bytes,
    /// `q~`, in bytes.
    average_queue: f64,
    next_sample: Time,
    next_measure: Time,
    factor: f64,
}

impl Load {
    pub(super) fn new(config: &Config, graded: bool, rate: Rate) -> Self {
        Self {
            rate,
            config: config.clone(),
            target: Target::new(config, graded),
            next_sample: Time::ZERO + QUEUE_INTERVAL,
            next_measure: Time::ZERO + config.load_interval,
            ..Self::default()
        }
    }

    /// The last interval's load factor, `rho`; 0 before the first interval has ended.
    pub(super) fn factor(&self) -> f64 {
        self.factor
    }

    /// The load factor's region. A link without a rate is overloaded.
    pub(super) fn region(&self) -> LoadRegion {
        if self.factor < self.config.transition {
            LoadRegion::Low
        } else if self.factor < 1.0 {
            LoadRegion::High
        } else {
            LoadRegion::Over
        }
    }

    /// Does all that was due up to `now`; `queue` is the backlog since the last call.
    pub(super) fn advance(&mut self, now: Time, queue: Bytes) {
        while self.next_measure <= now {
            self.sample(self.next_measure, queue);
            let idle = self.arrived == Bytes::ZERO && self.average_queue == queue.as_f64();
            self.measure(1);
            if idle {
                let until = now.min(self.target.next_adjustment());
                let equal = periods(until.since(self.next_measure), self.config.load_interval).saturating_sub(1);
                self.next_measure += self.config.load_interval * equal;
                self.measure(equal);
            }
            self.next_measure += self.config.load_interval;
        }
        self.sample(now, queue);
    }

    /// R.1
    pub(super) fn count_arrival(&mut self, bytes: Bytes) {
        self.arrived += bytes;
    }

    pub(super) fn count_departure(&mut self, bytes: Bytes) {
        self.target.count_departure(bytes);
    }

    /// R.2, for every sample due by `now`.
    fn sample(&mut self, now: Time, queue: Bytes) {
        let queue = queue.as_f64();
        while self.next_sample <= now {
            if (self.average_queue - queue).abs() < TOLERANCE {
                self.average_queue = queue;
                self.next_sample += QUEUE_INTERVAL * (periods(now.since(self.next_sample), QUEUE_INTERVAL) + 1);
                return;
            }
            self.average_queue = QUEUE_MEMORY * self.average_queue + (1.0 - QUEUE_MEMORY) * queue;
            self.next_sample += QUEUE_INTERVAL;
        }
    }

    /// R.3, for the last of `intervals` equal intervals.
    fn measure(&mut self, intervals: u64) {
        let capacity = self.rate.as_bps_f64() / 8.0 * self.config.load_interval.as_secs_f64();
        let demand = self.arrived.as_f64() + self.config.queue_weight * self.average_queue;
        self.factor = if capacity > 0.0 { demand / (self.target.share() * capacity) } else { f64::INFINITY }; // eq. (1)
        self.arrived = Bytes::ZERO;
        self.target.after_intervals(self.next_measure, demand / capacity, capacity * intervals as f64);
    }

    pub(super) fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
    }
}

/// The number of whole `part`s in `span`.
fn periods(span: Duration, part: Duration) -> u64 {
    span.as_nanos() / part.as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::tests::ms;

    // 8 Mb/s are 200 kB in 200 ms, 196 kB of them at 98%.
    const RATE: Rate = Rate::from_bps(8_000_000);

    fn load() -> Load {
        Load::new(&Config::default(), false, RATE)
    }

    #[test]
    fn the_load_is_arrivals_and_half_the_queue_over_the_target() {
        let mut load = load();
        load.count_arrival(Bytes::new(98_000));
        load.advance(ms(199), Bytes::new(19_600));
        assert_eq!(load.factor(), 0.0);
        load.advance(ms(200), Bytes::new(19_600));
        // 20 samples: q~ = q (1 - a^20)
        let average_queue = 19_600.0 * (1.0 - 0.875_f64.powi(20));
        assert!((load.factor() - (98_000.0 + 0.5 * average_queue) / 196_000.0).abs() < 1e-12, "{}", load.factor());
        load.advance(ms(400), Bytes::ZERO);
        // The queue was empty at the next sample; 20 samples of an empty queue.
        let average_queue = average_queue * 0.875_f64.powi(20);
        assert!((load.factor() - 0.5 * average_queue / 196_000.0).abs() < 1e-12, "{}", load.factor());
    }

    /// The rules in their plain form, with a timer for every sample and every interval.
    fn ticking(events: &[(u64, u64, u64)]) -> Vec<f64> {
        let (mut average_queue, mut queue, mut arrived, mut factor, mut at) = (0.0, 0.0, 0.0, 0.0, 0);
        let mut factors = Vec::new();
        for &(time, bytes, waiting) in events {
            while at < time {
                at += 10;
                average_queue = 0.875 * average_queue + 0.125 * queue;
                if at % 200 == 0 {
                    factor = (arrived + 0.5 * average_queue) / 196_000.0;
                    arrived = 0.0;
                }
            }
            factors.push(factor);
            arrived += bytes as f64;
            queue = waiting as f64;
        }
        factors
    }

    proptest::proptest! {
        #[test]
        fn samples_taken_together_equal_samples_one_by_one(
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
        fn an_adjusted_target_is_the_same_if_idle_time_is_skipped(
            steps in proptest::collection::vec((0u64..100, 0u64..300_000, 0u64..300_000), 1..40), graded: bool,
        ) {
            let in_steps = Config { goal: Some(0.4), goal_interval: Duration::from_secs(1), ..Config::default() };
            let config = if graded { Config::default() } else { in_steps };
            let (mut skips, mut ticks) = (Load::new(&config, graded, RATE), Load::new(&config, graded, RATE));
            let (mut now, mut queue) = (0, Bytes::ZERO);
            for (gap, bytes, waiting) in steps {
                let before = now;
                now += 100 * gap;
                for at in (before..now).step_by(10) {
                    ticks.advance(ms(at), queue);
                }
                for load in [&mut skips, &mut ticks] {
                    load.advance(ms(now), queue);
                    load.count_arrival(Bytes::new(bytes));
                    load.count_departure(Bytes::new(bytes));
                }
                queue = Bytes::new(waiting);
                proptest::prop_assert_eq!(skips.target.share(), ticks.target.share());
                proptest::prop_assert_eq!(skips.factor(), ticks.factor());
            }
        }
    }

    #[test]
    fn a_century_of_idle_time_takes_no_time() {
        let end = Time::ZERO + Duration::from_secs(100 * 365 * 86_400);
        // Half of 400 kB is the capacity. In VCP+ that is more than the goal and lowers the target to its minimum.
        for (graded, queue, factor) in [(false, 0, 0.0), (true, 0, 0.0), (false, 400, 1.0 / 0.98), (true, 400, 2.0)] {
            let mut load = Load::new(&Config::default(), graded, RATE);
            load.count_arrival(Bytes::new(1_000_000));
            load.advance(end, Bytes::new(queue * 1000));
            assert!((load.factor() - factor).abs() < 1e-12, "{}", load.factor());
            assert!(load.next_measure > end);
        }
    }

    #[test]
    fn the_rate_at_the_intervals_end_sets_the_capacity() {
        let mut load = load();
        load.count_arrival(Bytes::new(98_000));
        load.set_rate(Rate::from_bps(4_000_000));
        load.advance(ms(200), Bytes::ZERO);
        assert!((load.factor() - 1.0).abs() < 1e-12);
        load.set_rate(Rate::ZERO);
        load.advance(ms(400), Bytes::ZERO);
        assert_eq!((load.factor(), load.region()), (f64::INFINITY, LoadRegion::Over));
        load.set_rate(Rate::MAX);
        load.count_arrival(Bytes::new(1_000_000_000));
        load.advance(ms(600), Bytes::ZERO);
        assert_eq!(load.region(), LoadRegion::Low);
    }
}
