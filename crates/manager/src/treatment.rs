//! How the network treats flows: their loss, and whether some lose significantly more than others. These are the
//! statistics of flow segregation (`segregation`, which has the equations).

use rampmeter_units::{Bytes, Time};

/// Bytes received and lost since the last reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LossCounts {
    pub(crate) received: Bytes,
    pub(crate) lost: Bytes,
}

/// The same for several flows, in packets.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sample {
    pub(crate) all: f64,
    lost: f64,
}

impl Sample {
    pub(crate) fn of(counts: LossCounts, packet: Bytes) -> Self {
        let packets = |bytes: Bytes| bytes.as_f64() / packet.as_f64().max(1.0);
        Self { all: packets(counts.received + counts.lost), lost: packets(counts.lost) }
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self { all: self.all + other.all, lost: self.lost + other.lost }
    }

    pub(crate) fn loss(self) -> f64 {
        if self.all > 0.0 { self.lost / self.all } else { 0.0 }
    }

    /// By how many standard deviations the loss of `worse` exceeds what chance explains.
    fn z(self, worse: Self) -> f64 {
        let p = self.and(worse).loss();
        let variance = p * (1.0 - p) * (1.0 / self.all + 1.0 / worse.all);
        if variance > 0.0 { (worse.loss() - self.loss()) / variance.sqrt() } else { 0.0 }
    }

    fn is_treated_better_than(self, worse: Self) -> bool {
        self.z(worse) > 3.0 && worse.loss() > 3.0 * self.loss() + 0.01
    }

    /// Whether the loss of `other` exceeds this one by little, or by what chance explains.
    pub(crate) fn is_treated_like(self, other: Self) -> bool {
        self.z(other) < 2.0 || other.loss() < 2.0 * self.loss() + 0.005
    }
}

/// The state of segregation of a macroflow.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Segregation {
    pub(crate) next_comparison: Time,
    /// Consecutive comparisons that found a difference.
    pub(crate) differences: u8,
    /// The macroflow that it was split from, and the earliest time of a merge.
    pub(crate) origin: Option<(u32, Time)>,
}

/// Cuts flows, sorted by loss, where the two parts differ most. Returns the number of flows that are treated better.
pub(crate) fn cut(sorted: &[Sample]) -> Option<usize> {
    let sum = |samples: &[Sample]| samples.iter().fold(Sample::default(), |sum, sample| sum.and(*sample));
    let places = (1..sorted.len()).map(|place| (place, sum(&sorted[..place]).z(sum(&sorted[place..]))));
    let (place, _) = places.max_by(|a, b| a.1.total_cmp(&b.1))?;
    sum(&sorted[..place]).is_treated_better_than(sum(&sorted[place..])).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(all: u32, lost: u32) -> Sample {
        Sample { all: all.into(), lost: lost.into() }
    }

    #[test]
    fn flows_are_cut_only_where_they_differ_significantly() {
        assert_eq!(cut(&[sample(200, 1), sample(200, 2), sample(200, 40)]), Some(2));
        assert_eq!(cut(&[sample(200, 1), sample(200, 41), sample(200, 40)]), Some(1));
        assert_eq!(cut(&[sample(200, 4), sample(200, 6), sample(200, 9)]), None, "chance");
        assert_eq!(cut(&[sample(40, 0), sample(40, 4)]), None, "too few");
        assert_eq!(cut(&[sample(9000, 90), sample(9000, 180)]), None, "twice the loss is not enough");
        assert_eq!(cut(&[sample(100, 0)]), None);
    }

    #[test]
    fn a_small_difference_is_no_different_treatment() {
        assert!(sample(500, 5).is_treated_like(sample(500, 9)));
        assert!(!sample(500, 5).is_treated_like(sample(500, 50)));
    }

    #[test]
    fn lost_packets_count_among_all() {
        let counts = LossCounts { received: Bytes::new(9000), lost: Bytes::new(1000) };
        let sample = Sample::of(counts, Bytes::new(1000));
        assert_eq!((sample.all, sample.loss()), (10.0, 0.1));
        assert_eq!(Sample::default().loss(), 0.0);
    }

    /// The test of two proportions: 10 and 30 of 100 lost, p = 0.2, so 0.2 / sqrt(0.16 * 0.02) = sqrt(12.5).
    #[test]
    fn a_difference_is_measured_in_its_standard_deviations() {
        assert!((sample(100, 10).z(sample(100, 30)) - 12.5_f64.sqrt()).abs() < 1e-9);
        assert_eq!(sample(100, 0).z(sample(100, 0)), 0.0);
        assert_eq!(sample(100, 100).z(sample(100, 100)), 0.0);
    }

    #[test]
    fn chance_and_small_differences_are_no_different_treatment() {
        assert!(sample(40, 0).is_treated_like(sample(40, 3)), "chance");
        assert!(sample(10_000, 100).is_treated_like(sample(10_000, 220)), "below 2.5%");
        assert!(!sample(10_000, 100).is_treated_like(sample(10_000, 260)));
    }
}
