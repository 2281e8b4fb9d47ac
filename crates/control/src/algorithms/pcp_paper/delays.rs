//! The one-way delays of the last round trip's packets.
//!
//! A small packet takes less time on a link than a large one, so only packets of about the largest size seen are
//! compared. Packets that arrive in close succession are skipped.

use std::collections::VecDeque;

use rampmeter_units::{Bytes, Duration, Time};

use crate::Arrival;
use crate::parts::line::Line;

/// The maximum number of packets.
const SAMPLES: usize = 128;

/// A packet that arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// When its acknowledgement arrived.
    at: Time,
    sent_at: Time,
    /// Its one-way delay.
    pub(super) delay: i64,
    /// Whether it was sent at the base rate, between two probes.
    pub(super) is_base: bool,
    /// The share of the base rate that was cut after it.
    pub(super) cut: f64,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Delays {
    pub(super) samples: VecDeque<Sample>,
    /// The largest packet seen.
    largest: Bytes,
    sorted: Vec<i64>,
}

impl Delays {
    pub(super) fn new() -> Self {
        Self { samples: VecDeque::with_capacity(SAMPLES), largest: Bytes::ZERO, sorted: Vec::with_capacity(SAMPLES) }
    }

    /// Adds a packet to the last round trip of `rtt`. `None` if it is skipped, else whether it is larger than all
    /// before, which then do not count any more.
    pub(super) fn add(&mut self, now: Time, arrival: &Arrival, rtt: Duration, is_base: bool) -> Option<bool> {
        let is_larger = arrival.bytes > self.largest + self.largest / 4;
        if is_larger {
            self.largest = arrival.bytes;
            self.samples.clear();
        }
        let is_close = self.samples.back().is_some_and(|last| now.since(last.at) < rtt / SAMPLES as u64);
        if is_close || arrival.bytes < self.largest - self.largest / 4 {
            return None;
        }
        while self.samples.len() == SAMPLES || self.samples.front().is_some_and(|first| now.since(first.at) > rtt) {
            self.samples.pop_front();
        }
        let delay = arrival.one_way_delay();
        self.samples.push_back(Sample { at: now, sent_at: arrival.sent_at, delay, is_base, cut: 0.0 });
        Some(is_larger)
    }

    /// The delays, in no particular order.
    pub(super) fn unsorted(&mut self) -> &mut [i64] {
        self.sorted.clear();
        self.sorted.extend(self.samples.iter().map(|sample| sample.delay));
        &mut self.sorted
    }

    /// The line through the delays above `min_delay` of the packets that count.
    pub(super) fn line(&self, min_delay: i64, counts: impl Fn(&Sample) -> bool) -> Option<Line> {
        let origin = self.samples.front()?.sent_at.as_nanos();
        Line::fit(self.samples.iter().filter(|sample| counts(sample)).map(|sample| {
            let x = sample.sent_at.as_nanos().wrapping_sub(origin) as i64;
            (x as f64, sample.delay.wrapping_sub(min_delay) as f64)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(128);

    /// The result for a packet of `bytes` that arrives `at` this time, and the number of packets that count after it.
    fn add(delays: &mut Delays, at: Duration, bytes: u64) -> (Option<bool>, usize) {
        let arrival = Arrival { bytes: Bytes::new(bytes), ..Arrival::default() };
        (delays.add(Time::ZERO + at, &arrival, RTT, true), delays.samples.len())
    }

    #[test]
    fn packets_of_three_to_five_quarters_are_compared() {
        let mut delays = Delays::new();
        let sizes = [1000, 750, 749, 1250, 1251, 939, 938];
        let found = (1..).zip(sizes).map(|(n, bytes)| add(&mut delays, RTT / 64 * n, bytes));
        let (larger, compared) = (Some(true), Some(false));
        let expected = [(larger, 1), (compared, 2), (None, 2), (compared, 3), (larger, 1), (compared, 2), (None, 2)];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn packets_within_a_128th_of_the_round_trip_are_skipped() {
        let mut delays = Delays::new();
        for (micros, packets) in [(0, 1), (500, 1), (999, 1), (1000, 2), (128_000, 3), (129_000, 3), (129_001, 3)] {
            let found = add(&mut delays, Duration::from_micros(micros), 1000);
            assert_eq!(found.1, packets, "at {micros} us");
        }
    }
}
