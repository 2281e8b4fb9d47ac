//! Host jitter: delay differences that hosts cause, not a queue of packets.
//!
//! Schedulers, timers and virtual machines that wait for a processor delay packets by microseconds to milliseconds, in
//! both directions alike. Receipts are small and mostly meet no queue on the reverse path, so differences between
//! *their* delays come from hosts:
//!
//! ```text
//! host jitter = delay on the reverse path that 8 of 10 of the last 32 receipts do not exceed, minus their minimum
//! ```
//!
//! Longer delays count as traffic. The host jitter is part of a path's history, because a transfer starts with a train
//! and without receipts. Clocks that drift or step do not matter, because 32 receipts are compared only with each
//! other. A busy reverse path, or receipts that wait for a timer, look like host jitter. PCP then accepts a queue of
//! that length, up to `MAX_JITTER`.

use rampmeter_units::{Duration, Time};

use crate::Arrival;

/// The number of receipts in an estimate.
const SAMPLES: usize = 32;

/// The index of the receipt, in order of delay, whose delay gives the estimate.
const QUANTILE: usize = 25;

/// The number of new receipts after which the estimate is updated.
const UPDATE_INTERVAL: usize = 8;

#[derive(Debug, Clone)]
pub(super) struct HostJitter {
    max: Duration,
    delays: [i64; SAMPLES],
    count: usize,
    /// The current estimate.
    pub(super) estimate: Duration,
}

impl HostJitter {
    /// A path whose host jitter was `past` in earlier transfers; estimates are at most `max`.
    pub(super) fn new(past: Duration, max: Duration) -> Self {
        Self { max, delays: [0; SAMPLES], count: 0, estimate: past.min(max) }
    }

    /// A receipt arrived for a packet that had arrived just before the receipt was sent.
    pub(super) fn on_arrival(&mut self, now: Time, arrival: &Arrival) {
        self.delays[self.count % SAMPLES] = now.as_nanos().wrapping_sub(arrival.received_at.as_nanos()) as i64;
        self.count += 1;
        if self.count % UPDATE_INTERVAL == 0 {
            let mut delays = self.delays;
            let delays = &mut delays[..self.count.min(SAMPLES)];
            delays.sort_unstable();
            let jitter = delays[delays.len() * QUANTILE / SAMPLES].saturating_sub(delays[0]);
            self.estimate = Duration::from_nanos(jitter.unsigned_abs()).min(self.max);
        }
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::{Bytes, Ecn};

    use super::*;

    const REVERSE_DELAY: u64 = 10_000_000;
    const MAX: Duration = Duration::from_millis(5);

    /// The estimate with one receipt every millisecond, each delayed by `extra` nanoseconds.
    fn run(extra: impl Fn(u64) -> u64) -> Duration {
        let mut host_jitter = HostJitter::new(Duration::from_millis(1), MAX);
        for number in 0..64 {
            let received_at = Time::from_nanos(number * 1_000_000);
            let (sent_at, bytes) = (received_at, Bytes::new(1000));
            let now = received_at + Duration::from_nanos(REVERSE_DELAY + extra(number));
            let arrival = Arrival { number, bytes, sent_at, received_at, ecn: Ecn::NotEct };
            host_jitter.on_arrival(now, &arrival);
        }
        host_jitter.estimate
    }

    #[test]
    fn constant_reverse_delays_are_no_jitter() {
        assert_eq!(run(|_| 0), Duration::ZERO);
    }

    #[test]
    fn one_late_receipt_in_ten_is_ignored_but_not_one_in_two() {
        assert_eq!(run(|n| if n % 10 == 0 { 300_000 } else { 0 }), Duration::ZERO);
        assert_eq!(run(|n| if n % 2 == 0 { 300_000 } else { 0 }), Duration::from_micros(300));
    }

    #[test]
    fn the_estimate_of_earlier_transfers_holds_for_eight_receipts() {
        let mut host_jitter = HostJitter::new(Duration::from_millis(1), MAX);
        for number in 1..=8 {
            assert_eq!(host_jitter.estimate, Duration::from_millis(1));
            let received_at = Time::from_nanos(number * 1_000_000);
            host_jitter.on_arrival(received_at, &Arrival { number, received_at, ..Arrival::default() });
        }
        assert_eq!(host_jitter.estimate, Duration::ZERO);
    }

    #[test]
    fn jitter_above_the_maximum_is_traffic() {
        assert_eq!(run(|n| n % 2 * 1_000_000_000), MAX);
        assert_eq!(HostJitter::new(Duration::MAX, MAX).estimate, MAX);
    }

    #[test]
    fn clock_drift_and_clock_steps_are_no_jitter() {
        assert!(run(|n| n * 200) < Duration::from_micros(6), "200 parts per million");
        assert_eq!(run(|n| if n < 30 { 0 } else { 1_000_000_000 }), Duration::ZERO);
    }
}
