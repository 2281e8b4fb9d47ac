//! The sending timer: clamped exponential intervals with a mean of exactly `1 / rate`, even if the rate changes often.
//!
//! An interval is sampled in units of its mean: `clamp(X, l, h)` with `X` exponential of mean `k`, where `k` makes the
//! mean after clamping one (derived):
//!
//! ```text
//! E[clamp(X, l, h)] = l + integral from l to h of P(X > x) dx = l + k (exp(-l/k) - exp(-h/k)) = 1
//! ```
//!
//! The report re-samples the timer when the window changes (`redraw`). Because intervals are clamped from below, this
//! delays departures again and again: by 12% with one acknowledgement a packet [derived, and tested]. So by default the
//! interval is sampled once and counts down at the current rate: departures are a renewal process in the time `integral
//! of rate dt`, with a mean of one departure a unit for any number of rate changes. With unclamped exponential
//! intervals both would be the same.

use rampmeter_units::{Duration, Stream, Time};

/// The maximum delay of a departure, in mean intervals, that an earlier next departure makes up for.
const MAX_CATCH_UP: f64 = 1.0;

#[derive(Debug, Clone)]
pub(super) struct Timer {
    random: Stream,
    min_interval: f64,
    max_interval: f64,
    /// `k`: the mean before clamping.
    mean: f64,
    /// Departures a second.
    rate: f64,
    /// The remaining part of the interval at `as_of`, in mean intervals; negative if the departure is late.
    remaining: f64,
    as_of: Time,
}

impl Timer {
    pub(super) fn new(min_interval: f64, max_interval: f64, random: Stream) -> Self {
        let mean = mean_before_clamping(min_interval, max_interval);
        Self { random, min_interval, max_interval, mean, rate: 0.0, remaining: 0.0, as_of: Time::ZERO }
    }

    /// The next packet may be sent at once, and later ones at `rate` a second.
    pub(super) fn start(&mut self, now: Time, rate: f64) {
        (self.rate, self.remaining, self.as_of) = (rate, 0.0, now);
    }

    /// The rate is `rate` from now on. With `redraw` the interval is sampled again, unless it has ended.
    pub(super) fn set_rate(&mut self, now: Time, rate: f64, redraw: bool) {
        self.run(now);
        self.rate = rate;
        if redraw && self.remaining > 0.0 {
            self.remaining = self.interval();
        }
    }

    /// A packet was sent. If the window or a busy machine delayed it by at most a mean interval, later packets are not
    /// delayed. A burst does not follow a longer stall.
    pub(super) fn sent(&mut self, now: Time) {
        self.run(now);
        self.remaining = self.remaining.max(-MAX_CATCH_UP) + self.interval();
    }

    /// The time of the next packet; in the past if the packet is late.
    pub(super) fn next(&self) -> Time {
        self.as_of + Duration::from_secs_f64(self.remaining.max(0.0) / self.rate)
    }

    fn interval(&mut self) -> f64 {
        self.random.exponential(self.mean).clamp(self.min_interval, self.max_interval)
    }

    fn run(&mut self, now: Time) {
        self.remaining -= now.since(self.as_of).as_secs_f64() * self.rate;
        self.as_of = now;
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
        Timer::new(min_interval, max_interval, Stream::from_seed(seed))
    }

    #[test]
    fn the_mean_after_clamping_is_one_for_any_bounds() {
        for (min_interval, max_interval) in
            [(0.0, 1000.0), (0.25, 3.0), (0.1, 4.0), (0.0, 1.1), (0.9, 1.1), (0.9, 50.0), (0.5, 1.5)]
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
    fn the_rate_is_exact_at_any_frequency_of_rate_changes() {
        // The rate changes `changes` times a mean interval, between half and one and a half of 1000 a second.
        for changes in [0.3, 1.0, 10.0, 100.0] {
            let (mut timer, mut random) = (timer(0.25, 3.0, 5), Stream::from_seed(6));
            let (mut now, mut rate, mut due, mut count) = (Time::ZERO, 1000.0, 0.0, 0.0);
            timer.start(now, rate);
            while now < Time::ZERO + Duration::from_secs(20) {
                let step = Duration::from_secs_f64(random.exponential(1e-3 / changes));
                while timer.next() <= now + step {
                    let at = timer.next().max(now);
                    timer.sent(at);
                    count += 1.0;
                }
                now += step;
                due += step.as_secs_f64() * rate;
                rate = 500.0 + 1000.0 * random.uniform();
                timer.set_rate(now, rate, false);
            }
            // Intervals have a coefficient of variation of 0.82: three standard errors over 20000 are 1.7%.
            assert!((count / due - 1.0_f64).abs() < 0.018, "{changes}: {count} of {due}");
        }
    }

    #[test]
    fn re_sampling_delays_departures_by_the_laplace_transform() {
        // Acknowledgements arrive at Poisson times, `l` in a mean interval. The mean time between departures is (1 - f)
        // / (l f) mean intervals, with f = E exp(-l X) and X the clamped interval: 1.12 for one acknowledgement a
        // packet, 4.2 for ten.
        let (min_interval, max_interval, k) = (0.25, 3.0, mean_before_clamping(0.25, 3.0));
        for l in [0.5, 1.0, 3.0, 10.0] {
            let (within, beyond) = ((-min_interval / k).exp(), (-max_interval / k).exp());
            let clamped = (1.0 - within) * (-l * min_interval).exp() + beyond * (-l * max_interval).exp();
            let between = (within * (-l * min_interval).exp() - beyond * (-l * max_interval).exp()) / (1.0 + l * k);
            let expected = (1.0 - clamped - between) / (l * (clamped + between));

            let (mut timer, mut random) = (timer(min_interval, max_interval, 5), Stream::from_seed(6));
            let (mut now, mut count) = (Time::ZERO, 0.0);
            timer.start(now, 1000.0);
            while now < Time::ZERO + Duration::from_secs(20) {
                let step = Duration::from_secs_f64(random.exponential(1e-3 / l));
                while timer.next() <= now + step {
                    timer.sent(timer.next().max(now));
                    count += 1.0;
                }
                now += step;
                timer.set_rate(now, 1000.0, true);
            }
            let measured = now.as_secs_f64() * 1e3 / count;
            assert!(
                (measured / expected - 1.0_f64).abs() < 0.04,
                "{l} acknowledgements: {measured} mean intervals, not {expected}"
            );
        }
    }

    #[test]
    fn an_interval_that_has_ended_is_not_sampled_again() {
        let mut timer = timer(0.25, 3.0, 1);
        timer.start(Time::ZERO, 100.0);
        timer.set_rate(Time::ZERO, 50.0, true);
        assert_eq!(timer.next(), Time::ZERO);
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
