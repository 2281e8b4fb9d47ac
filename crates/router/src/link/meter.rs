//! The distribution of a queue's length over time, each length weighted by its duration.

use rampmeter_units::Time;
use serde::{Deserialize, Serialize};

use crate::Backlog;

/// Measures one queue. Exact: it receives every change.
#[derive(Debug, Clone, Default)]
pub struct QueueMeter {
    since: Time,
    last: Time,
    now: Backlog,
    /// Nanoseconds at each length in packets; the last entry holds all longer ones.
    at_length: Vec<u64>,
    byte_nanos: u128,
    /// Bytes squared, times nanoseconds.
    square_nanos: u128,
    packet_nanos: u128,
    max_packets: u64,
}

/// The number of distinct lengths; longer queues count as the last one in percentiles, and exactly elsewhere.
const LENGTHS: usize = 1 << 16;

/// A queue's statistics over the time of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct QueueSummary {
    /// Mean packets in the queue.
    pub mean_packets: f64,
    /// Mean bytes in the queue.
    pub mean_bytes: f64,
    /// Standard deviation of the bytes in the queue.
    pub sd_bytes: f64,
    /// The median length, in packets.
    pub p50_packets: u64,
    /// The 90th percentile of the length, in packets.
    pub p90_packets: u64,
    /// The 99th percentile of the length, in packets.
    pub p99_packets: u64,
    /// The maximum length, in packets.
    pub max_packets: u64,
}

impl QueueMeter {
    /// Starts measuring a queue at `now`.
    pub fn new(now: Time, backlog: Backlog) -> Self {
        Self { since: now, last: now, now: backlog, max_packets: backlog.packets, ..Self::default() }
    }

    /// The length of the queue has changed to `backlog`.
    pub fn on_change(&mut self, now: Time, backlog: Backlog) {
        let nanos = now.since(self.last).as_nanos();
        if nanos > 0 {
            let length = (self.now.packets as usize).min(LENGTHS - 1);
            if self.at_length.len() <= length {
                self.at_length.resize(length + 1, 0);
            }
            self.at_length[length] += nanos;
            let (nanos, bytes) = (u128::from(nanos), u128::from(self.now.bytes.as_u64()));
            self.packet_nanos += nanos * u128::from(self.now.packets);
            self.byte_nanos += nanos * bytes;
            self.square_nanos += nanos * bytes * bytes;
            self.last = now;
        }
        self.now = backlog;
        self.max_packets = self.max_packets.max(backlog.packets);
    }

    /// The statistics up to `now`.
    pub fn summary(&self, now: Time) -> QueueSummary {
        let mut done = self.clone();
        done.on_change(now, self.now);
        let total = done.last.since(done.since).as_nanos();
        if total == 0 {
            return QueueSummary { max_packets: done.max_packets, ..QueueSummary::default() };
        }
        let quantile = |q: f64| {
            let target = q * total as f64;
            let mut sum = 0.0;
            let reached = done.at_length.iter().position(|&nanos| {
                sum += nanos as f64;
                sum >= target
            });
            reached.unwrap_or(done.at_length.len().saturating_sub(1)) as u64
        };
        let mean = |sum: u128| sum as f64 / total as f64;
        let mean_bytes = mean(done.byte_nanos);
        QueueSummary {
            mean_packets: mean(done.packet_nanos),
            mean_bytes,
            sd_bytes: (mean(done.square_nanos) - mean_bytes * mean_bytes).max(0.0).sqrt(),
            p50_packets: quantile(0.5),
            p90_packets: quantile(0.9),
            p99_packets: quantile(0.99),
            max_packets: done.max_packets,
        }
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Bytes;

    use super::*;

    fn backlog(packets: u64, bytes: u64) -> Backlog {
        Backlog { packets, bytes: Bytes::new(bytes) }
    }

    #[test]
    fn lengths_are_weighted_by_time() {
        let at = Time::from_nanos;
        let mut meter = QueueMeter::new(at(0), backlog(0, 0));
        meter.on_change(at(60), backlog(10, 1000)); // 60 at 0
        meter.on_change(at(90), backlog(2, 200)); // 30 at 10
        let summary = meter.summary(at(100)); // 10 at 2
        assert_eq!(summary.mean_packets, 3.2);
        assert_eq!(summary.mean_bytes, 320.0);
        // 0.6 of (0 - 320)^2, 0.3 of (1000 - 320)^2, 0.1 of (200 - 320)^2
        assert!((summary.sd_bytes - 201_600_f64.sqrt()).abs() < 1e-9);
        assert_eq!((summary.p50_packets, summary.p90_packets, summary.max_packets), (0, 10, 10));
    }

    #[test]
    fn percentiles_count_very_long_queues_as_the_longest_length() {
        let meter = QueueMeter::new(Time::ZERO, backlog(100_000, 0));
        let summary = meter.summary(Time::from_nanos(1));
        assert_eq!((summary.p50_packets, summary.max_packets, summary.mean_packets), (65_535, 100_000, 100_000.0));
    }

    #[test]
    fn without_duration_only_the_maximum_is_known() {
        let summary = QueueMeter::new(Time::ZERO, backlog(3, 300)).summary(Time::ZERO);
        assert_eq!(summary, QueueSummary { max_packets: 3, ..QueueSummary::default() });
    }
}
