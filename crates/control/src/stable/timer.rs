//! When packets leave: a clamped exponential timer whose mean interval is `1 / rate` exactly, whenever the rate moves.
//!
//! An interval is drawn in units of its mean: `clamp(X, l, h)` with `X` exponential of mean `k`, where `k` makes the mean
//! after clamping one (derived):
//!
//! ```text
//! E[clamp(X, l, h)] = l + integral from l to h of P(X > x) dx = l + k (exp(-l/k) - exp(-h/k)) = 1
//! ```
//!
//! The report re-samples the timer when the window moves (`redraw`). Clamped from below, a fresh interval at
//! every acknowledgement puts departures off again and again, and the more acknowledgements the more: by 12% with one
//! acknowledgement a packet [derived, and tested]. So by default the interval is drawn once and
//! runs down at the rate of the moment: departures are a renewal process in the time `integral of rate dt`, which has one
//! departure a unit in the mean however often the rate moves. Of an exponential interval nobody could tell the
//! difference: what is left of it is distributed as a fresh one.

use rampmeter_units::{Duration, Stream, Time};

/// How much of its lateness a departure makes up for, in mean intervals: the next one is that much earlier.
const MADE_UP_FOR: f64 = 1.0;

#[derive(Debug, Clone)]
pub(super) struct Timer {
    random: Stream,
    shortest: f64,
    longest: f64,
    /// `k`: the mean before clamping.
    mean: f64,
    /// Departures a second.
    rate: f64,
    /// What is left of the interval at `as_of`, in mean intervals; negative if the departure is late.
    left: f64,
    as_of: Time,
}

impl Timer {
    pub(super) fn new(shortest: f64, longest: f64, random: Stream) -> Self {
        let mean = mean_before_clamping(shortest, longest);
        Self { random, shortest, longest, mean, rate: 0.0, left: 0.0, as_of: Time::ZERO }
    }

    /// The next packet may leave at once, and those that follow at `rate` a second.
    pub(super) fn start(&mut self, now: Time, rate: f64) {
        (self.rate, self.left, self.as_of) = (rate, 0.0, now);
    }

    /// The rate is `rate` from now on.
    pub(super) fn set_rate(&mut self, now: Time, rate: f64) {
        self.run(now);
        self.rate = rate;
    }

    /// As `set_rate`, and the interval is drawn anew unless it is over.
    pub(super) fn redraw(&mut self, now: Time, rate: f64) {
        self.set_rate(now, rate);
        if self.left > 0.0 {
            self.left = self.interval();
        }
    }

    /// A packet has left. One that left late, because the window or a busy machine kept it, does not delay those behind it,
    /// up to a mean interval: a longer stall is not followed by a burst.
    pub(super) fn sent(&mut self, now: Time) {
        self.run(now);
        self.left = self.left.max(-MADE_UP_FOR) + self.interval();
    }

    /// When the next packet leaves; in the past if it is late.
    pub(super) fn next(&self) -> Time {
        self.as_of + Duration::from_secs_f64(self.left.max(0.0) / self.rate)
    }

    fn interval(&mut self) -> f64 {
        self.random.exponential(self.mean).clamp(self.shortest, self.longest)
    }

    fn run(&mut self, now: Time) {
        self.left -= now.since(self.as_of).as_secs_f64() * self.rate;
        self.as_of = now;
    }
}

/// `k` of the equation above: its left side grows with `k`, from `shortest` at 0 to `longest`.
fn mean_before_clamping(shortest: f64, longest: f64) -> f64 {
    let clamped = |k: f64| shortest + k * (libm::exp(-shortest / k) - libm::exp(-longest / k));
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

    fn timer(shortest: f64, longest: f64, seed: u64) -> Timer {
        Timer::new(shortest, longest, Stream::from_seed(seed))
    }

    #[test]
    fn the_mean_after_clamping_is_one_whatever_the_bounds() {
        for (shortest, longest) in
            [(0.0, 1000.0), (0.25, 3.0), (0.1, 4.0), (0.0, 1.1), (0.9, 1.1), (0.9, 50.0), (0.5, 1.5)]
        {
            let mut timer = timer(shortest, longest, 3);
            timer.start(Time::ZERO, 1000.0);
            let (count, mut least, mut most) = (200_000, f64::MAX, 0.0_f64);
            let mut now = Time::ZERO;
            for _ in 0..count {
                timer.sent(now);
                let next = timer.next();
                let interval = next.since(now).as_secs_f64() * 1e3;
                (least, most) = (least.min(interval), most.max(interval));
                now = next;
            }
            let mean = now.as_secs_f64() * 1e3 / f64::from(count);
            // No spread is more than 1 here: three standard errors are 3 / sqrt(200000).
            assert!((mean - 1.0).abs() < 0.0067, "{shortest} to {longest}: {mean}");
            assert!(least > shortest - 1e-5 && most < longest + 1e-5, "{least} to {most}");
        }
        assert!((timer(0.0, 1000.0, 1).mean - 1.0).abs() < 1e-9, "without bounds to speak of it is exponential");
    }

    #[test]
    fn the_rate_is_kept_however_often_it_moves() {
        // The rate moves `moves` times a mean interval, between half and one and a half of 1000 a second.
        for moves in [0.3, 1.0, 10.0, 100.0] {
            let (mut timer, mut random) = (timer(0.25, 3.0, 5), Stream::from_seed(6));
            let (mut now, mut rate, mut due, mut count) = (Time::ZERO, 1000.0, 0.0, 0.0);
            timer.start(now, rate);
            while now < Time::ZERO + Duration::from_secs(20) {
                let step = Duration::from_secs_f64(random.exponential(1e-3 / moves));
                while timer.next() <= now + step {
                    let at = timer.next().max(now);
                    timer.sent(at);
                    count += 1.0;
                }
                now += step;
                due += step.as_secs_f64() * rate;
                rate = 500.0 + 1000.0 * random.uniform();
                timer.set_rate(now, rate);
            }
            // Intervals spread by 0.82: three standard errors over 20000 are 1.7%.
            assert!((count / due - 1.0_f64).abs() < 0.018, "{moves}: {count} of {due}");
        }
    }

    #[test]
    fn drawn_anew_at_acknowledgements_it_falls_behind_as_its_laplace_transform_says() {
        // Acknowledgements at Poisson times, `l` in a mean interval: each departure takes (1 - f) / (l f) of it, with
        // f = E exp(-l X), X the clamped interval. 1.12 for one acknowledgement a packet, 4.2 for ten.
        let (shortest, longest, k) = (0.25, 3.0, mean_before_clamping(0.25, 3.0));
        for l in [0.5, 1.0, 3.0, 10.0] {
            let (within, beyond) = ((-shortest / k).exp(), (-longest / k).exp());
            let clamped = (1.0 - within) * (-l * shortest).exp() + beyond * (-l * longest).exp();
            let between = (within * (-l * shortest).exp() - beyond * (-l * longest).exp()) / (1.0 + l * k);
            let takes = (1.0 - clamped - between) / (l * (clamped + between));

            let (mut timer, mut random) = (timer(shortest, longest, 5), Stream::from_seed(6));
            let (mut now, mut count) = (Time::ZERO, 0.0);
            timer.start(now, 1000.0);
            while now < Time::ZERO + Duration::from_secs(20) {
                let step = Duration::from_secs_f64(random.exponential(1e-3 / l));
                while timer.next() <= now + step {
                    timer.sent(timer.next().max(now));
                    count += 1.0;
                }
                now += step;
                timer.redraw(now, 1000.0);
            }
            let seen = now.as_secs_f64() * 1e3 / count;
            assert!((seen / takes - 1.0_f64).abs() < 0.04, "{l} acknowledgements: {seen} mean intervals, not {takes}");
        }
    }

    #[test]
    fn lateness_is_made_up_for_but_a_stall_is_not_followed_by_a_burst() {
        let ms = |n: u64| Time::ZERO + Duration::from_millis(n);
        let mut timer = timer(0.9, 1.1, 1); // nearly even: 10 ms
        timer.start(ms(0), 100.0);
        timer.sent(ms(5));
        assert!(timer.next() <= ms(11), "{}", timer.next());
        timer.sent(ms(500));
        assert!((ms(499)..=ms(501)).contains(&timer.next()), "one may follow: {}", timer.next());
        timer.sent(ms(501));
        assert!(timer.next() >= ms(508), "{}", timer.next());
    }
}
