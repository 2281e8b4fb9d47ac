//! How late hosts are: what delays differ by although no queue of packets does.
//!
//! Schedulers, timers and virtual machines that wait for a processor hold packets up by anything from microseconds to
//! milliseconds, and the delays of a train say as much of them as of the link. The way back tells the two apart.
//! Receipts are small and mostly have it for themselves, so what *their* delays differ by is hosts. Both ends are late on
//! both ways, so packets are late by about as much.
//!
//! ```text
//! lateness = by so much, or less, were 8 of 10 receipts of the last 32 later than the first among them on the way back
//! ```
//!
//! What is later is taken for traffic. A path is remembered by it, since a transfer begins with a train and no receipts.
//! Clocks that drift or step don't matter: 32 receipts are compared with each other alone. A busy way back, or receipts
//! that wait for a timer, look like late hosts; PCP then lets a queue be that is as long, up to `MAX_JITTER`.

use rampmeter_units::{Duration, Time};

use crate::Arrival;

/// Receipts that are looked at.
const SAMPLES: usize = 32;

/// Of which this one, in order of size, is the lateness.
const QUANTILE: usize = 25;

/// After how many new ones it is found again.
const UPDATE_INTERVAL: usize = 8;

#[derive(Debug, Clone)]
pub(super) struct HostJitter {
    max: Duration,
    delays: [i64; SAMPLES],
    count: usize,
    estimate: Duration,
}

impl HostJitter {
    /// A path on which hosts were late by `past`; they never are by more than `most`.
    pub(super) fn new(past: Duration, max: Duration) -> Self {
        Self { max, delays: [0; SAMPLES], count: 0, estimate: past.min(max) }
    }

    /// A receipt came back for a packet that arrived just before it left.
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

    /// By how much hosts are late, most of the time.
    pub(super) fn estimate(&self) -> Duration {
        self.estimate
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::{Bytes, Ecn};

    use super::*;

    const REVERSE_DELAY: u64 = 10_000_000;
    const MAX: Duration = Duration::from_millis(5);

    /// What is found of a receipt a millisecond, each that much longer on its way by the clocks.
    fn run(extra: impl Fn(u64) -> u64) -> Duration {
        let mut host_jitter = HostJitter::new(Duration::from_millis(1), MAX);
        for number in 0..64 {
            let received_at = Time::from_nanos(number * 1_000_000);
            let (sent_at, bytes) = (received_at, Bytes::new(1000));
            let now = received_at + Duration::from_nanos(REVERSE_DELAY + extra(number));
            let arrival = Arrival { number, bytes, sent_at, received_at, ecn: Ecn::NotEct };
            host_jitter.on_arrival(now, &arrival);
        }
        host_jitter.estimate()
    }

    #[test]
    fn a_way_back_that_is_always_the_same_is_not_late() {
        assert_eq!(run(|_| 0), Duration::ZERO);
    }

    #[test]
    fn one_late_receipt_in_ten_does_not_count_and_every_second_one_does() {
        assert_eq!(run(|n| if n % 10 == 0 { 300_000 } else { 0 }), Duration::ZERO);
        assert_eq!(run(|n| if n % 2 == 0 { 300_000 } else { 0 }), Duration::from_micros(300));
    }

    #[test]
    fn beyond_the_most_it_is_traffic() {
        assert_eq!(run(|n| n % 2 * 1_000_000_000), MAX);
        assert_eq!(HostJitter::new(Duration::MAX, MAX).estimate(), MAX);
    }

    #[test]
    fn clocks_that_drift_and_step_are_not_late() {
        assert!(run(|n| n * 200) < Duration::from_micros(6), "200 parts per million");
        assert_eq!(run(|n| if n < 30 { 0 } else { 1_000_000_000 }), Duration::ZERO);
    }
}
