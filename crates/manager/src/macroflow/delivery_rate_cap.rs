//! The delivery-rate cap: a limit on the reported rate, from the fastest delivery seen, where feedback has no packet
//! numbers.
//!
//! `window / rtt` is a rate only if the window is used and the round trip is the path's. Feedback without packet
//! numbers guarantees neither. Lost bytes that are not reported count as in flight for long, so the window seems used.
//! Programs that read acknowledgements in batches measure round trips of microseconds or of milliseconds. The number of
//! bytes that arrived is reliable. In slow start a window is up to three times the bytes that arrive in a round trip;
//! the cap is four times that number.
//!
//! *Choice*: the paper trusts the arguments of `cm_update` (section 3.1). This is RFC 7661's idea (section 4.2,
//! `pipeACK`), but applied to the path, not to the application: the maximum of all time counts, not that of the last
//! few round trips.

use rampmeter_units::{Bytes, Duration, Rate, Time};

/// Arrivals are counted over a round trip, or over at least this time, because a batch of acknowledgements covers a
/// longer time than the reading of it.
const MIN_SPAN: Duration = Duration::from_millis(10);

/// After so many spans without feedback the count restarts, because the arrival rate of the next feedback is unknown.
const MAX_PAUSE: u64 = 3;

/// The cap as a multiple of the fastest delivery rate.
const CAP_FACTOR: u64 = 4;

/// The state of the cap.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DeliveryRateCap {
    /// The start of the current count; `None` before the first feedback.
    since: Option<Time>,
    bytes: Bytes,
    /// The time of the last feedback.
    last: Time,
    /// The length of a count, from the last round trip reported.
    span: Duration,
    /// The fastest rate of a complete count; zero before the first one.
    best: Rate,
    /// The rate in the history of the path.
    historic: Rate,
}

impl DeliveryRateCap {
    /// Raises the cap to `rate`, which is in the history of the path.
    pub(super) fn raise_to(&mut self, rate: Rate) {
        self.historic = self.historic.max(rate);
    }

    /// Adds `bytes` that were reported as delivered at `now`.
    pub(super) fn add(&mut self, now: Time, bytes: Bytes, rtt: Duration) {
        self.span = rtt.max(MIN_SPAN);
        let pause = now.since(std::mem::replace(&mut self.last, now));
        let Some(since) = self.since.filter(|_| pause <= self.span * MAX_PAUSE) else {
            (self.since, self.bytes) = (Some(now), Bytes::ZERO);
            return;
        };
        self.bytes += bytes;
        let span = now.since(since);
        if span >= self.span {
            self.best = self.best.max(Rate::of(self.bytes, span));
            (self.since, self.bytes) = (Some(now), Bytes::ZERO);
        }
    }

    /// Whether anything has been reported.
    pub(super) fn has_reports(&self) -> bool {
        self.since.is_some()
    }

    /// The cap; [`Rate::MAX`] before the first complete count.
    pub(super) fn cap(&self) -> Rate {
        if self.best == Rate::ZERO {
            return Rate::MAX;
        }
        let seen = self.best.max(Rate::of(self.bytes, self.span));
        Rate::from_bps(seen.as_bps().saturating_mul(CAP_FACTOR)).max(self.historic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    #[test]
    fn the_cap_is_four_times_the_fastest_delivery() {
        let mut cap = DeliveryRateCap::default();
        for ms in 0..=40 {
            cap.add(Time::ZERO + Duration::from_millis(ms), Bytes::new(1000), RTT);
            assert_eq!(cap.cap() == Rate::MAX, ms < 20, "known after a round trip");
        }
        assert_eq!(cap.cap(), Rate::from_bps(32_000_000));
        cap.add(Time::ZERO + Duration::from_secs(9), Bytes::new(1000), RTT);
        assert_eq!(cap.cap(), Rate::from_bps(32_000_000), "a pause does not lower the cap");
        cap.raise_to(Rate::from_bps(50_000_000));
        assert_eq!(cap.cap(), Rate::from_bps(50_000_000));
    }

    #[test]
    fn the_first_feedback_after_a_pause_does_not_count() {
        let mut cap = DeliveryRateCap::default();
        for second in 0..5 {
            cap.add(Time::ZERO + Duration::from_secs(second), Bytes::new(1000), RTT);
        }
        assert_eq!(cap.cap(), Rate::MAX);
        let feedback_after = |ms| {
            let mut cap = DeliveryRateCap::default();
            for ms in [0, ms] {
                cap.add(Time::ZERO + Duration::from_millis(ms), Bytes::new(1000), RTT);
            }
            cap.cap()
        };
        assert_eq!((feedback_after(60) < Rate::MAX, feedback_after(61)), (true, Rate::MAX), "three round trips");
    }

    #[test]
    fn a_batch_of_acknowledgements_does_not_raise_the_cap() {
        let mut cap = DeliveryRateCap::default();
        // A packet takes 20 us; the program reads a hundred acknowledgements every 5 ms, a microsecond apart.
        for n in 0..1000 {
            let at = Duration::from_millis(5) * (n / 100) + Duration::from_micros(n % 100);
            cap.add(Time::ZERO + at, Bytes::new(1000), Duration::from_micros(20));
        }
        let rate = cap.cap().as_bps_f64() / 4.0;
        assert!((150e6..250e6).contains(&rate), "{rate} b/s, 160 Mb/s arrived");
    }
}
