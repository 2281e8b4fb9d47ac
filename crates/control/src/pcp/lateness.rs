//! How late hosts are: what delays differ by although no queue does.
//!
//! Schedulers, timers and virtual machines that wait for a processor hold packets up by anything from microseconds to
//! milliseconds, and the delays of a train say as much of them as of the link. The way back tells the two apart.
//! Receipts are small and have it mostly for themselves, so what *their* delays differ by is hosts. Both ends are late
//! on both ways, so packets are late by about as much.
//!
//! ```text
//! lateness = 8 of 10 receipts of the last 32 took no longer than this beyond the shortest way back
//! ```
//!
//! What is later is taken for traffic. A path is remembered by it, since a transfer begins with a train and no receipts.
//!
//! A busy way back looks like late hosts; PCP then lets a queue be that is as long as the one there, up to `most_late`.

use rampmeter_units::{Duration, Time};

use super::Config;
use super::queue::Least;
use crate::Arrival;

/// Receipts that are looked at.
const SAMPLES: usize = 32;

/// Of which this one, in order of size, is the lateness.
const EIGHT_OF_TEN: usize = 25;

/// After how many new ones it is found again.
const EVERY: usize = 8;

#[derive(Debug, Clone)]
pub(super) struct Lateness {
    shortest: Least,
    ways: [i64; SAMPLES],
    seen: usize,
    found: Duration,
}

impl Lateness {
    /// A path on which hosts were late by `past`.
    pub(super) fn new(past: Duration) -> Self {
        Self { shortest: Least::default(), ways: [0; SAMPLES], seen: 0, found: past }
    }

    /// A receipt came back for a packet that arrived just before it left.
    pub(super) fn on_arrival(&mut self, config: &Config, now: Time, arrival: &Arrival) {
        let way = now.as_nanos().wrapping_sub(arrival.received_at.as_nanos()) as i64;
        let shortest = self.shortest.update(now, way, config.min_delay_expiry);
        self.ways[self.seen % SAMPLES] = way;
        self.seen += 1;
        if self.seen % EVERY == 0 {
            let mut ways = self.ways;
            let ways = &mut ways[..self.seen.min(SAMPLES)];
            let place = ways.len() * EIGHT_OF_TEN / SAMPLES;
            let late = ways.select_nth_unstable(place).1.wrapping_sub(shortest);
            self.found = Duration::from_nanos(late.max(0) as u64).min(config.most_late);
        }
    }

    /// It.
    pub(super) fn get(&self) -> Duration {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::{Bytes, Ecn};

    use super::*;

    const WAY: u64 = 10_000_000;

    fn run(late: impl Fn(u64) -> u64) -> Duration {
        let mut lateness = Lateness::new(Duration::from_millis(1));
        for number in 0..64 {
            let received_at = Time::from_nanos(number * 1_000_000);
            let (sent_at, bytes) = (received_at, Bytes::new(1000));
            let now = received_at + Duration::from_nanos(WAY + late(number));
            let arrival = Arrival { number, bytes, sent_at, received_at, ecn: Ecn::NotEct };
            lateness.on_arrival(&Config::default(), now, &arrival);
        }
        lateness.get()
    }

    #[test]
    fn a_way_back_that_is_always_the_same_is_not_late() {
        assert_eq!(run(|_| 0), Duration::ZERO);
    }

    #[test]
    fn one_receipt_in_ten_is_not_looked_at_and_half_of_them_are() {
        assert_eq!(run(|n| if n % 10 == 0 { 300_000 } else { 0 }), Duration::ZERO);
        assert_eq!(run(|n| if n % 2 == 0 { 300_000 } else { 0 }), Duration::from_micros(300));
    }

    #[test]
    fn beyond_the_most_it_is_traffic() {
        assert_eq!(run(|n| n % 2 * 1_000_000_000), Config::default().most_late);
    }
}
