//! The one-way delays of the last round trip's packets.
//!
//! A small packet takes less time on a link than a large one, so only packets of about the largest size seen are
//! compared. Packets that arrive in close succession are skipped.

use std::collections::VecDeque;

use rampmeter_units::{Bytes, Duration, Time};

use crate::Arrival;
use crate::line::Line;

/// The maximum number of packets.
const SAMPLES: usize = 128;

/// A packet that arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample<T> {
    /// When its acknowledgement arrived.
    pub(crate) at: Time,
    pub(crate) sent_at: Time,
    /// Its one-way delay.
    pub(crate) delay: i64,
    /// What else counts of it.
    pub(crate) more: T,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Delays<T> {
    pub(crate) samples: VecDeque<Sample<T>>,
    /// The largest packet seen.
    pub(crate) largest: Bytes,
    sorted: Vec<i64>,
}

impl<T> Delays<T> {
    pub(crate) fn new() -> Self {
        Self { samples: VecDeque::with_capacity(SAMPLES), largest: Bytes::ZERO, sorted: Vec::with_capacity(SAMPLES) }
    }

    /// Adds a packet to the last round trip of `rtt`. `None` if it is skipped, else whether it is larger than all
    /// before, which then do not count any more.
    pub(crate) fn add(&mut self, now: Time, arrival: &Arrival, rtt: Duration, more: T) -> Option<bool> {
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
        self.samples.push_back(Sample { at: now, sent_at: arrival.sent_at, delay: arrival.one_way_delay(), more });
        Some(is_larger)
    }

    /// The delays, in no particular order.
    pub(crate) fn unsorted(&mut self) -> &mut [i64] {
        self.sorted.clear();
        self.sorted.extend(self.samples.iter().map(|sample| sample.delay));
        &mut self.sorted
    }

    /// The line through the delays above `min_delay` of the packets that count.
    pub(crate) fn line(&self, min_delay: i64, counts: impl Fn(&Sample<T>) -> bool) -> Option<Line> {
        let origin = self.samples.front()?.sent_at.as_nanos();
        Line::fit(self.samples.iter().filter(|sample| counts(sample)).map(|sample| {
            let x = sample.sent_at.as_nanos().wrapping_sub(origin) as i64;
            (x as f64, sample.delay.wrapping_sub(min_delay) as f64)
        }))
    }
}
