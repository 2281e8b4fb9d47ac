//! The sending timer: clamped exponential intervals with a mean of exactly `1 / rate`.
//!
//! An interval is sampled in units of its mean: `clamp(X, l, h)` with `X` exponential of mean `k`, where `k` makes the
//! mean after clamping one (derived):
//!
//! ```text
//! E[clamp(X, l, h)] = l + integral from l to h of P(X > x) dx = l + k (exp(-l/k) - exp(-h/k)) = 1
//! ```
//!
//! When the window changes, the timer is sampled again, as in the report. With unclamped exponential intervals that
//! would change nothing, because they have no memory. Clamped from below, it delays departures (derived, and tested): by
//! 0.1% with one acknowledgement a packet, 2% with ten, 15% with thirty. With bounds of 0.25 and 3 in place of 0.02 and
//! 8 the intervals are 1.12, 4.2 and 250 times as long. So the lower bound is small.

use rampmeter_units::{Duration, Random, Time};

/// The maximum delay of a departure, in mean intervals, that an earlier next departure makes up for.
const MAX_CATCH_UP: f64 = 1.0;

#[derive(Debug, Clone)]
pub(super) struct Timer {
    random: Random,
    min_interval: f64,
    max_interval: f64,
    /// `k`: the mean before clamping.
    mean: f64,
    /// Departures a second.
    rate: f64,
    /// The time of the next packet; in the past if the packet is late.
    next: Time,
}

impl Timer {
    pub(super) fn new(min_interval: f64, max_interval: f64, random: Random) -> Self {
        let mean = mean_before_clamping(min_interval, max_interval);
        Self { random, min_interval, max_interval, mean, rate: 0.0, next: Time::ZERO }
    }

    /// The next packet may be sent at once, and later ones at `rate` a second.
    pub(super) fn start(&mut self, now: Time, rate: f64) {
        (self.rate, self.next) = (rate, now);
    }

    /// The rate is `rate` from now on, and the interval is sampled again, unless it has ended.
    pub(super) fn set_rate(&mut self, now: Time, rate: f64) {
        self.rate = rate;
        if self.next > now {
            self.next = now + self.interval();
        }
    }

    /// A packet was sent. If the window or a busy machine delayed it by at most a mean interval, later packets are not
    /// delayed. A burst does not follow a longer stall.
    pub(super) fn sent(&mut self, now: Time) {
        let earliest = now - Duration::from_secs_f64(MAX_CATCH_UP / self.rate);
        self.next = self.next.max(earliest) + self.interval();
    }

    pub(super) fn next(&self) -> Time {
        self.next
    }

    fn interval(&mut self) -> Duration {
        let means = self.random.exponential(self.mean).clamp(self.min_interval, self.max_interval);
        Duration::from_secs_f64(means / self.rate)
    }
}

/// `k` of the equation above. Its left side grows with `k`, from `min_interval` at 0 to `max_interval`.
fn mean_before_clamping(min_interval: f64, max_interval: f64) -> f64 {
    let clamped = |k: f64| min_interval + k * (libm::exp(-min_interval / k) - libm::exp(-max_interval / k));
    let (mut low, mut high) = (1e-6, 1.0);
    while clamped(high) < 1.0 {
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if clamped(middle) < 1.0 { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer(min_interval: f64, max_interval: f64, seed: u64) -> Timer {
        Timer::new(min_interval, max_interval, Random::from_seed(seed))
    }

    #[test]
    fn the_mean_after_clamping_is_one_for_any_bounds() {
        for (min_interval, max_interval) in
            [(0.0, 1000.0), (0.02, 8.0), (0.25, 3.0), (0.1, 4.0), (0.0, 1.1), (0.9, 1.1), (0.9, 50.0), (0.5, 1.5)]
        {
            let mut timer = timer(min_interval, max_interval, 3);
            timer.start(Time::ZERO, 1000.0);
            let (count, mut min, mut max) = (200_000, f64::MAX, 0.0_f64);
            let mut now = Time::ZERO;
            for _ in 0..count {
                timer.sent(now);
                let next = timer.next();
                let interval = next.since(now).as_secs_f64() * 1e3;
                (min, max) = (min.min(interval), max.max(interval));
                now = next;
            }
            let mean = now.as_secs_f64() * 1e3 / f64::from(count);
            // No coefficient of variation is more than 1 here: three standard errors are 3 / sqrt(200000).
            assert!((mean - 1.0).abs() < 0.0067, "{min_interval} to {max_interval}: {mean}");
            assert!(min > min_interval - 1e-5 && max < max_interval + 1e-5, "{min} to {max}");
        }
        assert!((timer(0.0, 1000.0, 1).mean - 1.0).abs() < 1e-9, "with very wide bounds it is exponential");
    }

    #[test]
    fn re_sampling_delays_departures_by_the_laplace_transform() {
        // Acknowledgements arrive at Poisson times, `l` in a mean interval. The mean time between departures is (1 - f)
        // / (l f) mean intervals, with f = E exp(-l X) and X the clamped interval: with the default bounds 1.001 for
        // one acknowledgement a packet and 1.02 for ten, with 0.25 and 3 1.12 and 4.2.
        let cases = [0.5, 1.0, 3.0, 10.0].map(|l| [(0.02, 8.0, l), (0.25, 3.0, l)]);
        for &(min_interval, max_interval, l) in cases.as_flattened() {
            let k = mean_before_clamping(min_interval, max_interval);
            let (within, beyond) = ((-min_interval / k).exp(), (-max_interval / k).exp());
            let clamped = (1.0 - within) * (-l * min_interval).exp() + beyond * (-l * max_interval).exp();
            let between = (within * (-l * min_interval).exp() - beyond * (-l * max_interval).exp()) / (1.0 + l * k);
            let expected = (1.0 - clamped - between) / (l * (clamped + between));

            let (mut timer, mut random) = (timer(min_interval, max_interval, 5), Random::from_seed(6));
            let (mut now, mut count) = (Time::ZERO, 0.0);
            timer.start(now, 1000.0);
            while now < Time::ZERO + Duration::from_secs(20) {
                let step = Duration::from_secs_f64(random.exponential(1e-3 / l));
                while timer.next() <= now + step {
                    timer.sent(timer.next().max(now));
                    count += 1.0;
                }
                now += step;
                timer.set_rate(now, 1000.0);
            }
            let measured = now.as_secs_f64() * 1e3 / count;
            assert!(
                (measured / expected - 1.0_f64).abs() < 0.04,
                "{l} acknowledgements: {measured} mean intervals, not {expected}"
            );
        }
    }

    #[test]
    fn a_small_delay_is_made_up_for_and_no_burst_follows_a_stall() {
        let ms = |n: u64| Time::ZERO + Duration::from_millis(n);
        let mut timer = timer(0.9, 1.1, 1); // nearly even: 10 ms
        timer.start(ms(0), 100.0);
        timer.sent(ms(5));
        assert!(timer.next() <= ms(11), "{}", timer.next());
        timer.sent(ms(500));
        assert!((ms(499)..=ms(501)).contains(&timer.next()), "one packet may follow at once: {}", timer.next());
        timer.sent(ms(501));
        assert!(timer.next() >= ms(508), "{}", timer.next());
    }
}
