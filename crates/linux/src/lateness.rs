//! How late things happened.
//!
//! A world whose clock is real does everything a little late. How late tells a good run from one on a busy machine. Kept
//! as a histogram whose steps are an eighth of a power of two: percentiles are right to 13% and cost nothing to keep.

use rampmeter_scenario::HostJitter;
use rampmeter_units::Duration;

/// Steps per power of two.
const STEPS: u32 = 8;

/// Counts how often something was how late.
#[derive(Debug, Clone)]
pub(crate) struct Delays {
    counts: Vec<u64>,
    max: Duration,
}

impl Default for Delays {
    fn default() -> Self {
        Self { counts: vec![0; (64 * STEPS) as usize], max: Duration::ZERO }
    }
}

impl Delays {
    pub(crate) fn record(&mut self, late: Duration) {
        self.counts[step(late.as_nanos())] += 1;
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

/// The step that holds `nanos`: its power of two and the three bits after the first.
fn step(nanos: u64) -> usize {
    let nanos = nanos.max(u64::from(STEPS));
    let power = nanos.ilog2();
    (power * STEPS + (nanos >> (power - 3) & 7) as u32) as usize
}

/// The largest number in a step.
fn upper(step: usize) -> u64 {
    let (power, eighth) = (step as u32 / STEPS, step as u64 % u64::from(STEPS));
    let size = 1u64 << power.saturating_sub(3);
    (1u64 << power).saturating_add(size.saturating_mul(eighth + 1)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_an_eighth() {
        let mut delays = Delays::default();
        assert_eq!(delays.summary(), None);
        for micros in 1..=1000 {
            delays.record(Duration::from_micros(micros));
        }
        let HostJitter { p50, p99, max } = delays.summary().unwrap();
        for (got, right) in [(p50, 500e-6), (p99, 990e-6), (max, 1e-3)] {
            assert!((right..=right * 1.13).contains(&got.as_secs_f64()), "{got} for {right}");
        }
    }
}
