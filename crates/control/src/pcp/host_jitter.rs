//! Host jitter: delay differences that hosts cause, not a queue of packets.
//!
//! Schedulers, timers and virtual machines that wait for a processor delay packets by microseconds to milliseconds, in
//! both directions alike, and each packet anew. A queue mostly stands in one direction, and changes little from one
//! packet to the next. So what changes in both directions between two receipts comes from hosts:
//!
//! ```text
//! change      = the smaller change of delay, of the forward and of the reverse path, between two receipts in a row
//! host jitter = the change that 8 of 10 of the last 32 do not exceed
//! ```
//!
//! Receipts further apart than the longest jitter that counts do not matter: a flow as slow as that spaces its packets
//! by more. Larger changes count as traffic. The host jitter is part of a path's history, because a transfer starts with
//! a train and without receipts. Clocks that drift or step do not matter, because receipts are compared only with each
//! other.
//!
//! A queue on the reverse path must not count: PCP accepts a queue as long as the host jitter, and with PCP in both
//! directions each one's queue permits the other's. `docs/pcp.md` has the designs that were compared.

use rampmeter_units::{Duration, Time};

use crate::Arrival;

/// The number of changes in an estimate.
const SAMPLES: usize = 32;

/// The index, in order of size, of the change that is the estimate.
const QUANTILE: usize = 25;

/// The number of new changes after which the estimate is updated.
const UPDATE_INTERVAL: usize = 8;

#[derive(Debug, Clone)]
pub(super) struct HostJitter {
    max: Duration,
    /// The last receipt.
    last: Option<Receipt>,
    changes: [u64; SAMPLES],
    count: usize,
    /// The current estimate.
    pub(super) estimate: Duration,
}

/// When a receipt arrived, and the delays of the packet and of the receipt, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Receipt {
    at: Time,
    forward: i64,
    reverse: i64,
}

impl HostJitter {
    /// A path whose host jitter was `past` in earlier transfers; estimates are at most `max`.
    pub(super) fn new(past: Duration, max: Duration) -> Self {
        Self { max, last: None, changes: [0; SAMPLES], count: 0, estimate: past.min(max) }
    }

    /// A receipt arrived for a packet that had arrived just before the receipt was sent.
    pub(super) fn on_arrival(&mut self, now: Time, arrival: &Arrival) {
        let delay = |from: Time, to: Time| to.as_nanos().wrapping_sub(from.as_nanos()) as i64;
        let (sent_at, received_at) = (arrival.sent_at, arrival.received_at);
        let receipt = Receipt { at: now, forward: delay(sent_at, received_at), reverse: delay(received_at, now) };
        let Some(last) = self.last.replace(receipt).filter(|last| now.since(last.at) <= self.max) else { return };
        let change = |last: i64, this: i64| this.wrapping_sub(last).unsigned_abs();
        self.changes[self.count % SAMPLES] =
            change(last.forward, receipt.forward).min(change(last.reverse, receipt.reverse));
        self.count += 1;
        if self.count % UPDATE_INTERVAL == 0 {
            let mut changes = self.changes;
            let changes = &mut changes[..self.count.min(SAMPLES)];
            changes.sort_unstable();
            self.estimate = Duration::from_nanos(changes[changes.len() * QUANTILE / SAMPLES]).min(self.max);
        }
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::{Bytes, Ecn};

    use super::*;

    const DELAY: u64 = 10_000_000;
    const MAX: Duration = Duration::from_millis(5);

    /// The estimate with a receipt every `interval` nanoseconds; packets and receipts are delayed by as many more.
    fn run(interval: u64, forward: impl Fn(u64) -> u64, reverse: impl Fn(u64) -> u64) -> Duration {
        let mut host_jitter = HostJitter::new(Duration::from_millis(1), MAX);
        for number in 0..65 {
            let sent_at = Time::from_nanos(number * interval);
            let received_at = sent_at + Duration::from_nanos(DELAY + forward(number));
            let now = received_at + Duration::from_nanos(DELAY + reverse(number));
            let arrival = Arrival { number, bytes: Bytes::new(1000), sent_at, received_at, ecn: Ecn::NotEct };
            host_jitter.on_arrival(now, &arrival);
        }
        host_jitter.estimate
    }

    /// Alternately none and `jitter`.
    fn alternately(jitter: u64) -> impl Fn(u64) -> u64 {
        move |n| n % 2 * jitter
    }

    #[test]
    fn constant_delays_are_no_jitter() {
        assert_eq!(run(1_000_000, |_| 0, |_| 0), Duration::ZERO);
    }

    #[test]
    fn delays_that_change_in_both_directions_are_jitter() {
        assert_eq!(run(1_000_000, alternately(300_000), alternately(200_000)), Duration::from_micros(200));
    }

    #[test]
    fn a_queue_in_one_direction_is_no_jitter() {
        for queue in [200_000, 4_000_000] {
            assert_eq!(run(1_000_000, alternately(queue), |_| 0), Duration::ZERO);
            assert_eq!(run(1_000_000, |_| 0, alternately(queue)), Duration::ZERO);
        }
    }

    #[test]
    fn queues_that_grow_count_by_their_growth_between_two_receipts() {
        assert_eq!(run(1_000_000, |n| n * 100_000, |n| n * 100_000), Duration::from_micros(100));
    }

    #[test]
    fn one_late_receipt_in_ten_is_ignored_but_not_one_in_two() {
        let late = |n: u64| if n % 10 == 0 { 300_000 } else { 0 };
        assert_eq!(run(1_000_000, late, late), Duration::ZERO);
        assert_eq!(run(1_000_000, alternately(300_000), alternately(300_000)), Duration::from_micros(300));
    }

    #[test]
    fn receipts_that_are_far_apart_change_nothing() {
        assert_eq!(
            run(6_000_000, alternately(300_000), alternately(300_000)),
            Duration::from_millis(1),
            "the first one"
        );
    }

    #[test]
    fn the_estimate_of_earlier_transfers_holds_for_eight_changes() {
        let mut host_jitter = HostJitter::new(Duration::from_millis(1), MAX);
        for number in 0..=8 {
            assert_eq!(host_jitter.estimate, Duration::from_millis(1));
            let received_at = Time::from_nanos(number * 1_000_000);
            host_jitter.on_arrival(received_at, &Arrival { number, received_at, ..Arrival::default() });
        }
        assert_eq!(host_jitter.estimate, Duration::ZERO);
    }

    #[test]
    fn jitter_above_the_maximum_is_traffic() {
        let arrival = |n: u64| Arrival {
            number: n,
            received_at: Time::from_nanos(DELAY + n % 2 * 1_000_000_000),
            ..Arrival::default()
        };
        let mut host_jitter = HostJitter::new(Duration::ZERO, MAX);
        (0..65).for_each(|n| host_jitter.on_arrival(Time::from_nanos(2 * DELAY + n * 1000), &arrival(n)));
        assert_eq!(host_jitter.estimate, MAX);
        assert_eq!(HostJitter::new(Duration::MAX, MAX).estimate, MAX);
    }

    #[test]
    fn clock_drift_and_clock_steps_are_no_jitter() {
        assert!(run(1_000_000, |n| n * 200, |_| 0) < Duration::from_micros(1), "200 parts per million");
        assert_eq!(run(1_000_000, |n| if n < 30 { 0 } else { 1_000_000_000 }, |_| 0), Duration::ZERO);
    }
}
