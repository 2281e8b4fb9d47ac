//! A histogram of delays.
//!
//! A world with a real clock handles every event slightly late. The delay shows whether a run was disturbed by a busy
//! machine. The histogram's bins are an eighth of a power of two wide, so percentiles are accurate to 13%.

use rampmeter_scenario::HostJitter;
use rampmeter_units::Duration;

/// Bins per power of two.
const BINS: u32 = 8;

#[derive(Debug, Clone)]
pub(crate) struct Delays {
    counts: Vec<u64>,
    max: Duration,
}

impl Default for Delays {
    fn default() -> Self {
        Self { counts: vec![0; (64 * BINS) as usize], max: Duration::ZERO }
    }
}

impl Delays {
    pub(crate) fn record(&mut self, late: Duration) {
        self.counts[bin(late.as_nanos())] += 1;
        self.max = self.max.max(late);
    }

    /// `None` if nothing was recorded.
    pub(crate) fn summary(&self) -> Option<HostJitter> {
        let total: u64 = self.counts.iter().sum();
        let quantile = |q: f64| {
            let target = (q * total as f64).ceil() as u64;
            let mut sum = 0;
            let found = self.counts.iter().position(|count| {
                sum += count;
                sum >= target
            });
            Duration::from_nanos(upper(found.unwrap_or(0))).min(self.max)
        };
        (total > 0).then(|| HostJitter { p50: quantile(0.5), p99: quantile(0.99), max: self.max })
    }
}

/// The bin of `nanos`: its power of two and the three bits after the first.
fn bin(nanos: u64) -> usize {
    let nanos = nanos.max(u64::from(BINS));
    let power = nanos.ilog2();
    (power * BINS + (nanos >> (power - 3) & 7) as u32) as usize
}

/// The largest number in a bin.
fn upper(bin: usize) -> u64 {
    let (power, eighth) = (bin as u32 / BINS, bin as u64 % u64::from(BINS));
    let size = 1u64 << power.saturating_sub(3);
    (1u64 << power).saturating_add(size.saturating_mul(eighth + 1)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_accurate_to_an_eighth() {
        let mut delays = Delays::default();
        assert_eq!(delays.summary(), None);
        for micros in 1..=1000 {
            delays.record(Duration::from_micros(micros));
        }
        let HostJitter { p50, p99, max } = delays.summary().unwrap();
        for (got, exact) in [(p50, 500e-6), (p99, 990e-6), (max, 1e-3)] {
            assert!((exact..=exact * 1.13).contains(&got.as_secs_f64()), "{got} for {exact}");
        }
    }
}
