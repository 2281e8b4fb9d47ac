//! Host jitter: delay differences that hosts cause, not a queue of packets.
//!
//! Schedulers, timers and virtual machines that wait for a processor delay packets by microseconds to milliseconds, in
//! both directions alike, and all the time. A queue mostly stands in one direction, and comes and goes:
//!
//! ```text
//! spread      = delay that 8 of 10 of the last 32 packets do not exceed, minus their minimum
//! host jitter = the lowest spread, taken every 8 receipts, of the forward and of the reverse path: of the last 32 or
//!               of the last 8 to 16 round trips, whichever is longer
//! ```
//!
//! Longer delays count as traffic. The host jitter is part of a path's history, because a transfer starts with a train
//! and without receipts. Clocks that drift or step do not matter, because 32 delays are compared only with each other.
//!
//! A queue on the reverse path must not count: PCP accepts a queue as long as the host jitter, and with PCP in both
//! directions each one's queue permits the other's. Queues of many flows rise and fall with a period of about eight
//! round trips (`STANDING_ROUNDS`), so in a shorter time the queue may never be empty. `studies/pcp/NOTES.md` has
//! the designs that were compared.

use rampmeter_units::{Duration, Time};

use super::config::STANDING_ROUNDS;
use super::queue::Minimum;
use crate::Arrival;

/// The number of delays in a spread.
const SAMPLES: usize = 32;

/// The index of the packet, in order of delay, whose delay gives the spread.
const QUANTILE: usize = 25;

/// The number of new receipts after which the estimate is updated.
const UPDATE_INTERVAL: usize = 8;

/// The minimum number of spreads of which the lowest is the estimate.
const SPREADS: usize = 32;

#[derive(Debug, Clone)]
pub(super) struct HostJitter {
    max: Duration,
    /// The last delays of packets and of receipts, in nanoseconds.
    forward: [i64; SAMPLES],
    reverse: [i64; SAMPLES],
    count: usize,
    /// The smaller spreads of both directions, in nanoseconds.
    spreads: [i64; SPREADS],
    /// The lowest one of the last round trips.
    lowest: Minimum,
    /// The current estimate.
    pub(super) estimate: Duration,
}

impl HostJitter {
    /// A path whose host jitter was `past` in earlier transfers; estimates are at most `max`.
    pub(super) fn new(past: Duration, max: Duration) -> Self {
        let (forward, reverse) = ([0; SAMPLES], [0; SAMPLES]);
        let (spreads, lowest) = ([i64::MAX; SPREADS], Minimum::default());
        Self { max, forward, reverse, count: 0, spreads, lowest, estimate: past.min(max) }
    }

    /// A receipt arrived for a packet that had arrived just before the receipt was sent; `rtt` is the smoothed
    /// round-trip time.
    pub(super) fn on_arrival(&mut self, now: Time, arrival: &Arrival, rtt: Duration) {
        let delay = |from: Time, to: Time| to.as_nanos().wrapping_sub(from.as_nanos()) as i64;
        let place = self.count % SAMPLES;
        self.forward[place] = delay(arrival.sent_at, arrival.received_at);
        self.reverse[place] = delay(arrival.received_at, now);
        self.count += 1;
        if self.count % UPDATE_INTERVAL == 0 {
            let delays = self.count.min(SAMPLES);
            let spread = spread(&self.forward[..delays]).min(spread(&self.reverse[..delays]));
            self.spreads[self.count / UPDATE_INTERVAL % SPREADS] = spread;
            let recent = self.lowest.update(now, spread, rtt * (2 * STANDING_ROUNDS));
            let lowest = self.spreads.iter().copied().fold(recent, i64::min);
            self.estimate = Duration::from_nanos(lowest.unsigned_abs()).min(self.max);
        }
    }
}

/// The delay that 8 of 10 do not exceed, minus their minimum.
fn spread(delays: &[i64]) -> i64 {
    let mut sorted = [0; SAMPLES];
    let sorted = &mut sorted[..delays.len()];
    sorted.copy_from_slice(delays);
    sorted.sort_unstable();
    sorted[sorted.len() * QUANTILE / SAMPLES].saturating_sub(sorted[0])
}

#[cfg(test)]
mod tests {
    use rampmeter_units::{Bytes, Ecn};

    use super::*;

    const DELAY: u64 = 10_000_000;
    const RTT: Duration = Duration::from_millis(20);
    const MAX: Duration = Duration::from_millis(5);

    /// The estimate with a receipt every millisecond; packets and receipts are delayed by as many nanoseconds more.
    fn run(forward: impl Fn(u64) -> u64, reverse: impl Fn(u64) -> u64) -> Duration {
        run_for(64, RTT, forward, reverse)
    }

    /// The same with so many receipts and this round-trip time.
    fn run_for(receipts: u64, rtt: Duration, forward: impl Fn(u64) -> u64, reverse: impl Fn(u64) -> u64) -> Duration {
        let mut host_jitter = HostJitter::new(Duration::from_millis(1), MAX);
        for number in 0..receipts {
            let sent_at = Time::from_nanos(number * 1_000_000);
            let received_at = sent_at + Duration::from_nanos(DELAY + forward(number));
            let now = received_at + Duration::from_nanos(DELAY + reverse(number));
            let arrival = Arrival { number, bytes: Bytes::new(1000), sent_at, received_at, ecn: Ecn::NotEct };
            host_jitter.on_arrival(now, &arrival, rtt);
        }
        host_jitter.estimate
    }

    /// Alternately none and `jitter`.
    fn alternately(jitter: u64) -> impl Fn(u64) -> u64 {
        move |n| n % 2 * jitter
    }

    #[test]
    fn constant_delays_are_no_jitter() {
        assert_eq!(run(|_| 0, |_| 0), Duration::ZERO);
    }

    #[test]
    fn delays_that_vary_in_both_directions_are_jitter() {
        assert_eq!(run(alternately(300_000), alternately(200_000)), Duration::from_micros(200));
    }

    #[test]
    fn a_queue_in_one_direction_is_no_jitter() {
        assert_eq!(run(alternately(4_000_000), |_| 0), Duration::ZERO);
        assert_eq!(run(|_| 0, alternately(4_000_000)), Duration::ZERO);
    }

    #[test]
    fn queues_in_both_directions_that_were_away_are_no_jitter() {
        let queue = |n: u64| if n < 16 { 0 } else { alternately(4_000_000)(n) };
        assert_eq!(run(queue, queue), Duration::ZERO);
        assert_eq!(run(|n| queue(n + 16), |n| queue(n + 16)), Duration::from_millis(4));
    }

    /// Half of 16 round trips is 160 ms here, the time of 20 spreads.
    #[test]
    fn a_queue_that_was_away_is_remembered_for_8_to_16_round_trips() {
        let queue = |n: u64| if n < 16 { 0 } else { alternately(4_000_000)(n) };
        for (receipts, estimate) in [(150, 0), (300, 0), (330, 4)] {
            assert_eq!(run_for(receipts, RTT, queue, queue), Duration::from_millis(estimate), "{receipts}");
        }
    }

    /// Sixteen of these round trips are the time of two spreads.
    #[test]
    fn a_queue_that_was_away_is_remembered_for_32_spreads() {
        let queue = |n: u64| if n < 16 { 0 } else { alternately(4_000_000)(n) };
        for (receipts, estimate) in [(64, 0), (272, 0), (280, 4)] {
            let jitter = run_for(receipts, Duration::from_millis(1), queue, queue);
            assert_eq!(jitter, Duration::from_millis(estimate), "{receipts}");
        }
    }

    #[test]
    fn one_late_receipt_in_ten_is_ignored_but_not_one_in_two() {
        let late = |n: u64| if n % 10 == 0 { 300_000 } else { 0 };
        assert_eq!(run(late, late), Duration::ZERO);
        assert_eq!(run(alternately(300_000), alternately(300_000)), Duration::from_micros(300));
    }

    #[test]
    fn the_estimate_of_earlier_transfers_holds_for_eight_receipts() {
        let mut host_jitter = HostJitter::new(Duration::from_millis(1), MAX);
        for number in 1..=8 {
            assert_eq!(host_jitter.estimate, Duration::from_millis(1));
            let received_at = Time::from_nanos(number * 1_000_000);
            let arrival = Arrival { number, received_at, ..Arrival::default() };
            host_jitter.on_arrival(received_at, &arrival, RTT);
        }
        assert_eq!(host_jitter.estimate, Duration::ZERO);
    }

    #[test]
    fn jitter_above_the_maximum_is_traffic() {
        assert_eq!(run(alternately(1_000_000_000), alternately(1_000_000_000)), MAX);
        assert_eq!(HostJitter::new(Duration::MAX, MAX).estimate, MAX);
    }

    #[test]
    fn clock_drift_and_clock_steps_are_no_jitter() {
        assert!(run(|n| n * 200, |_| 0) < Duration::from_micros(6), "200 parts per million");
        assert_eq!(run(|n| if n < 30 { 0 } else { 1_000_000_000 }, |_| 0), Duration::ZERO);
    }
}
