//! The distribution of the queueing delays of packets: of all packets of a link (`waits.rs`), and of two classes, those of
//! L4S (ECT(1) or CE on arrival) and all others (RFC 9331), where a router has a queue for each. A world with a real clock
//! has another: how late it is.
//!
//! Delays of packets are measured while a link is measured ([`crate::Router::measure_delays`]), when packets leave.

use rampmeter_units::Duration;
use serde::{Deserialize, Serialize};

/// Every power of two is divided into so many buckets: percentiles are at most 3% too high.
const PER_OCTAVE: u64 = 32;

/// The packets that have left, by their delay.
#[derive(Debug, Clone, Default)]
pub struct Delays {
    /// The number of packets in each bucket.
    counts: Vec<u64>,
    packets: u64,
    nanos: u128,
    max: Duration,
}

/// The delays of both classes.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ClassDelays {
    /// Packets that arrived with ECT(1) or CE.
    pub l4s: DelaySummary,
    /// All others.
    pub classic: DelaySummary,
}

/// Delays of packets.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct DelaySummary {
    /// The number of packets that left.
    pub packets: u64,
    /// The mean time from arrival to the start of transmission, in seconds; 0 without packets.
    pub mean_s: f64,
    /// Half of the packets waited at most this long, in seconds: the upper end of a bucket.
    pub p50_s: f64,
    /// The same of 95% of the packets.
    pub p95_s: f64,
    /// The same of 99% of the packets.
    pub p99_s: f64,
}

impl Delays {
    /// A packet left after it had waited for `delay`.
    pub fn add(&mut self, delay: Duration) {
        let nanos = delay.as_nanos();
        let bucket = bucket(nanos) as usize;
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.packets += 1;
        self.nanos += u128::from(nanos);
        self.max = self.max.max(delay);
    }

    /// The longest delay.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// The mean and the percentiles.
    pub fn summary(&self) -> DelaySummary {
        if self.packets == 0 {
            return DelaySummary::default();
        }
        let mean_s = self.nanos as f64 / self.packets as f64 / 1e9;
        let [p50_s, p95_s, p99_s] = [0.5, 0.95, 0.99].map(|share| self.quantile(share));
        DelaySummary { packets: self.packets, mean_s, p50_s, p95_s, p99_s }
    }

    /// The delay that a `share` of the packets does not exceed, in seconds.
    fn quantile(&self, share: f64) -> f64 {
        let mut left = (self.packets as f64 * share).ceil() as u64;
        let reached = self.counts.iter().position(|&packets| {
            let is_here = packets >= left;
            left -= left.min(packets);
            is_here
        });
        upper_end(reached.unwrap_or_default() as u64) as f64 / 1e9
    }
}

/// The bucket of a delay: small ones have their own, and from there on every power of two is divided.
fn bucket(nanos: u64) -> u64 {
    if nanos < PER_OCTAVE {
        return nanos;
    }
    let octave = u64::from(nanos.ilog2() - PER_OCTAVE.ilog2());
    octave * PER_OCTAVE + (nanos >> octave)
}

/// The longest delay in `bucket`.
fn upper_end(bucket: u64) -> u64 {
    if bucket < PER_OCTAVE {
        return bucket;
    }
    let octave = bucket / PER_OCTAVE - 1;
    ((bucket - octave * PER_OCTAVE + 1) << octave) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_in_order_and_3_percent_wide() {
        for nanos in (0..100).chain([1_000, 999_999, 1 << 20, (1 << 40) + 12_345, u64::MAX / 2]) {
            let end = upper_end(bucket(nanos));
            assert!(end >= nanos && end <= nanos + nanos / PER_OCTAVE, "{nanos}: {end}");
            assert_eq!(bucket(end + 1), bucket(nanos) + 1, "{nanos}");
        }
    }

    #[test]
    fn the_mean_is_exact_and_the_percentile_within_3_percent() {
        let mut delays = Delays::default();
        (1..=1000).for_each(|n| delays.add(Duration::from_micros(n)));
        let summary = delays.summary();
        assert_eq!((summary.packets, summary.mean_s, delays.max()), (1000, 500.5e-6, Duration::from_millis(1)));
        assert!((990e-6..=990e-6 * 1.032).contains(&summary.p99_s), "{}", summary.p99_s);
        assert_eq!(Delays::default().summary(), DelaySummary::default());
    }
}
