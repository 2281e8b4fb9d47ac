//! Proportional Integral controller Enhanced: a router that drops or marks arriving packets at random, with a
//! probability that is adapted until the queueing delay is at its target (Pan, Natarajan, Baker, White, RFC 8033).
//!
//! ```text
//! every t_update:   p += scale(p) (alpha (delay - target) + beta (delay - previous delay))     section 4.2
//! ```
//!
//! `alpha` moves the delay to the target, `beta` prevents overshoot; `scale` makes steps small where `p` is small. The
//! delay is that of the packet that left last (section 4.3, by timestamps), and 0 once the queue is empty. During the
//! first `burst` of a congestion no packet is dropped (section 4.4).
//!
//! Of the RFC's options it implements ECN (section 5.1) and the cap on the adjustment (5.5). It is always active (5.3 switches it off while the queue is below a third of the buffer).
//!
//! There is no timer: updates that were due are made up for when the next packet arrives or leaves.
//!
//! *Deviation*: the minimum queue below which no packet is dropped is two packets, not twice a mean size in bytes.

use rampmeter_units::{Bytes, Duration, Random, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::disciplines::buffer::Room;
use crate::disciplines::timed_queue::TimedQueue;
use crate::{Backlog, Discipline, Environment, Parcel, Router, Settings, Tally, Verdict, check_range, ensure};

/// PIE's settings.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The maximum number of packets in the queue.
    pub packets: Option<u64>,
    /// The maximum number of bytes in the queue.
    pub bytes: Option<Bytes>,
    /// The target queueing delay (RFC 8033, section 4.2).
    #[default(Duration::from_millis(15))]
    pub target: Duration,
    /// The interval between updates of the probability, `t_update`.
    #[default(Duration::from_millis(15))]
    pub update: Duration,
    /// The increase of the probability for each second of delay above the target, an update.
    #[default(0.125)]
    pub alpha: f64,
    /// The increase for each second by which the delay has grown.
    #[default(1.25)]
    pub beta: f64,
    /// The burst allowance: the time at the start of a congestion without drops (section 4.4).
    #[default(Duration::from_millis(150))]
    pub burst: Duration,
    /// Mark ECN-capable packets instead of dropping them.
    #[default(true)]
    pub ecn: bool,
    /// The probability from which ECN-capable packets are dropped, too (section 5.1).
    #[default(0.1)]
    pub mark_up_to: f64,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        let times = self.target > Duration::ZERO && self.update > Duration::ZERO;
        ensure(times, "`target` and `update` must be above 0: \"15 ms\" is recommended for both")?;
        check_range("alpha", self.alpha, 0.0001..=1000.0, "per second; 0.125 is recommended")?;
        check_range("beta", self.beta, 0.0001..=1000.0, "per second; 1.25 is recommended")?;
        check_range("mark_up_to", self.mark_up_to, 0.0..=1.0, "as a probability; 0.1 is recommended")?;
        Room::check(self.packets, self.bytes)
    }
}

/// A PIE queue.
#[derive(Debug)]
pub struct Pie<P> {
    config: Config,
    room: Room,
    queue: TimedQueue<P>,
    random: Random,
    /// The drop probability.
    probability: f64,
    /// The queueing delay of the packet that left last.
    delay: Duration,
    /// The delay at the last update.
    previous_delay: Duration,
    /// The remaining burst allowance.
    burst: Duration,
    update_at: Time,
    tally: Tally,
}

impl<P: Parcel> Pie<P> {
    /// Makes the updates that were due by `now`.
    fn catch_up(&mut self, now: Time) {
        while self.update_at <= now {
            if self.is_at_rest() {
                let updates = now.since(self.update_at).as_nanos() / self.config.update.as_nanos() + 1;
                self.update_at += self.config.update * updates;
                return;
            }
            self.update();
            self.update_at += self.config.update;
        }
    }

    /// Whether updates have no effect.
    fn is_at_rest(&self) -> bool {
        let none = Duration::ZERO;
        self.probability == 0.0 && self.delay == none && self.previous_delay == none && self.burst == self.config.burst
    }

    fn update(&mut self) {
        let Config { target, alpha, beta, .. } = self.config;
        let (delay, before) = (self.delay.as_secs_f64(), self.previous_delay.as_secs_f64());
        let mut step = scale(self.probability) * (alpha * (delay - target.as_secs_f64()) + beta * (delay - before));
        if self.probability >= 0.1 {
            step = step.min(0.02); // section 5.5
        }
        self.probability += step;
        if delay == 0.0 && before == 0.0 {
            self.probability *= 0.98; // section 4.2: the congestion has ended
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        let low = target / 2;
        self.burst = if self.probability == 0.0 && self.delay < low && self.previous_delay < low {
            self.config.burst
        } else {
            self.burst.saturating_sub(self.config.update)
        };
        self.previous_delay = self.delay;
    }

    /// Whether the packet that arrives is to be marked or dropped (section 4.1).
    fn chooses(&mut self) -> bool {
        let is_short = self.previous_delay < self.config.target / 2 && self.probability < 0.2;
        let is_exempt = self.burst > Duration::ZERO || is_short || self.queue.backlog().packets <= 2;
        !is_exempt && self.random.chance(self.probability)
    }
}

/// Section 4.2: scales steps to the magnitude of the probability `p`.
pub(crate) fn scale(p: f64) -> f64 {
    const STEPS: [(f64, f64); 6] =
        [(0.000_001, 2048.0), (0.000_01, 512.0), (0.000_1, 128.0), (0.001, 32.0), (0.01, 8.0), (0.1, 2.0)];
    STEPS.iter().find(|(below, _)| p < *below).map_or(1.0, |(_, divisor)| 1.0 / divisor)
}

impl<P: Parcel + Send> Discipline<P> for Pie<P> {
    type Config = Config;

    fn new(config: &Config, _environment: Environment, random: Random) -> Self {
        Self {
            config: config.clone(),
            room: Room::new(config.packets, config.bytes),
            queue: TimedQueue::default(),
            random,
            probability: 0.0,
            delay: Duration::ZERO,
            previous_delay: Duration::ZERO,
            burst: config.burst,
            update_at: Time::ZERO + config.update,
            tally: Tally::default(),
        }
    }
}

impl<P: Parcel> Router<P> for Pie<P> {
    fn enqueue(&mut self, now: Time, mut packet: P) -> Verdict<P> {
        self.catch_up(now);
        if !self.room.fits(self.queue.backlog(), packet.bytes()) {
            return Verdict::Dropped(packet);
        }
        if self.chooses() {
            let may_mark = self.config.ecn && self.probability < self.config.mark_up_to;
            if !(may_mark && self.tally.mark(&mut packet)) {
                return Verdict::Dropped(packet);
            }
        }
        self.queue.push(now, packet);
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        self.catch_up(now);
        let (waited, packet) = self.queue.pop(now)?;
        self.delay = if self.queue.backlog().packets > 0 { waited } else { Duration::ZERO };
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::tests::{ENVIRONMENT, TestParcel, ms};

    const PACKET: TestParcel = TestParcel::new(1, 1000);

    fn pie(config: &Config) -> Pie<TestParcel> {
        Pie::new(config, ENVIRONMENT, Random::from_seed(1))
    }

    /// A queue of ten packets with a delay of `delay` ms, no burst allowance, and the drop probability `probability`.
    fn congested(config: &Config, delay: u64, probability: f64) -> Pie<TestParcel> {
        let mut pie = pie(config);
        (0..10).for_each(|_| pie.queue.push(ms(0), PACKET));
        pie.burst = Duration::ZERO;
        (pie.delay, pie.previous_delay) = (Duration::from_millis(delay), Duration::from_millis(delay));
        pie.probability = probability;
        pie
    }

    #[test]
    fn the_probability_follows_excess_and_growth_of_the_delay() {
        // Delays now and before in ms, p, and the RFC's step.
        for (delay, before, p, step) in [
            (35, 35, 0.2, 0.125 * 0.020),
            (25, 15, 0.2, 0.125 * 0.010 + 1.25 * 0.010),
            (15, 20, 0.2, 1.25 * -0.005),
            (0, 20, 0.2, 0.125 * -0.015 + 1.25 * -0.020), // only two empty queues in succession end the congestion
            (35, 35, 0.05, 0.125 * 0.020 / 2.0),
            (35, 35, 0.01, 0.125 * 0.020 / 2.0),
            (35, 35, 0.005, 0.125 * 0.020 / 8.0),
            (35, 35, 0.000_5, 0.125 * 0.020 / 32.0),
            (35, 35, 0.000_05, 0.125 * 0.020 / 128.0),
            (35, 35, 0.000_005, 0.125 * 0.020 / 512.0),
            (35, 35, 0.0, 0.125 * 0.020 / 2048.0),
            (135, 15, 0.2, 0.02), // section 5.5, instead of 0.165
        ] {
            let mut pie = congested(&Config::default(), delay, p);
            pie.previous_delay = Duration::from_millis(before);
            pie.update();
            assert!((pie.probability - p - step).abs() < 1e-12, "{delay} {before} {p}: {}", pie.probability);
        }
    }

    #[test]
    fn without_a_queue_probability_and_burst_are_reset() {
        let mut pie = congested(&Config::default(), 0, 0.5);
        pie.update();
        assert!((pie.probability - (0.5 - 0.125 * 0.015) * 0.98).abs() < 1e-12);
        while pie.queue.pop(ms(0)).is_some() {}
        pie.catch_up(ms(60_000));
        assert_eq!((pie.probability, pie.burst), (0.0, Duration::from_millis(150)));
        assert!(pie.is_at_rest() && pie.update_at > ms(60_000) && pie.update_at <= ms(60_015));
        assert_eq!(pie.next_tick(), Time::MAX);
    }

    #[test]
    fn capable_packets_are_marked_below_a_probability_of_a_tenth() {
        for (p, packet, marked) in
            [(0.09, PACKET.capable(), true), (0.09, PACKET, false), (0.1, PACKET.capable(), false)]
        {
            let mut pie = congested(&Config { update: Duration::MAX, ..Config::default() }, 20, p);
            let dropped = (0..10_000).filter(|_| pie.enqueue(ms(0), packet) != Verdict::Queued).count();
            let expected = 10_000.0 * p;
            let signals = if marked { pie.tally().marked as f64 } else { dropped as f64 };
            assert!((signals - expected).abs() < 0.12 * expected, "{signals} of 10,000 at {p}");
            assert_eq!(if marked { dropped as u64 } else { pie.tally().marked }, 0);
        }
    }
}
