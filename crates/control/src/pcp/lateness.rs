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
const EIGHT_OF_TEN: usize = 25;

/// After how many new ones it is found again.
const EVERY: usize = 8;

#[derive(Debug, Clone)]
pub(super) struct Lateness {
    most: Duration,
    ways: [i64; SAMPLES],
    seen: usize,
    found: Duration,
}

impl Lateness {
    /// A path on which hosts were late by `past`; they never are by more than `most`.
    pub(super) fn new(past: Duration, most: Duration) -> Self {
        Self { most, ways: [0; SAMPLES], seen: 0, found: past.min(most) }
    }

    /// A receipt came back for a packet that arrived just before it left.
    pub(super) fn on_arrival(&mut self, now: Time, arrival: &Arrival) {
        self.ways[self.seen % SAMPLES] = now.as_nanos().wrapping_sub(arrival.received_at.as_nanos()) as i64;
        self.seen += 1;
        if self.seen % EVERY == 0 {
            let mut ways = self.ways;
            let ways = &mut ways[..self.seen.min(SAMPLES)];
            ways.sort_unstable();
            let late = ways[ways.len() * EIGHT_OF_TEN / SAMPLES].saturating_sub(ways[0]);
            self.found = Duration::from_nanos(late.unsigned_abs()).min(self.most);
        }
    }

    /// By how much hosts are late, most of the time.
    pub(super) fn usual(&self) -> Duration {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::{Bytes, Ecn};

    use super::*;

    const WAY: u64 = 10_000_000;
    const MOST: Duration = Duration::from_millis(5);

    /// What is found of a receipt a millisecond, each that much longer on its way by the clocks.
    fn run(longer: impl Fn(u64) -> u64) -> Duration {
        let mut lateness = Lateness::new(Duration::from_millis(1), MOST);
        for number in 0..64 {
            let received_at = Time::from_nanos(number * 1_000_000);
            let (sent_at, bytes) = (received_at, Bytes::new(1000));
            let now = received_at + Duration::from_nanos(WAY + longer(number));
            let arrival = Arrival { number, bytes, sent_at, received_at, ecn: Ecn::NotEct };
            lateness.on_arrival(now, &arrival);
        }
        lateness.usual()
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
        assert_eq!(run(|n| n % 2 * 1_000_000_000), MOST);
        assert_eq!(Lateness::new(Duration::MAX, MOST).usual(), MOST);
    }

    #[test]
    fn clocks_that_drift_and_step_are_not_late() {
        assert!(run(|n| n * 200) < Duration::from_micros(6), "200 parts per million");
        assert_eq!(run(|n| if n < 30 { 0 } else { 1_000_000_000 }), Duration::ZERO);
    }
}
