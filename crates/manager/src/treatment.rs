//! How the network treats flows: their loss and the time that it takes for their packets, and whether some are treated
//! significantly worse than others. These are the statistics of flow segregation (`segregation`, which has the
//! equations).

use rampmeter_units::{Bytes, Time};

/// Times in flight that differ by less than this, in seconds, are alike: hosts delay feedback, too.
const SAME_TIME: f64 = 0.01;

/// What happened to a flow's bytes since the last reset.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Counts {
    pub(crate) received: Bytes,
    pub(crate) lost: Bytes,
    /// The sum over all bytes of the seconds in flight, up to `at`.
    byte_seconds: f64,
    at: Time,
    /// The time of the reset, and the number of reports since.
    since: Time,
    reports: u64,
}

impl Counts {
    /// Restarts the counts.
    pub(crate) fn since(now: Time) -> Self {
        Self { at: now, since: now, ..Self::default() }
    }

    /// So many bytes were in flight since the last call.
    pub(crate) fn advance(&mut self, now: Time, in_flight: Bytes) {
        self.byte_seconds += in_flight.as_f64() * now.since(self.at).as_secs_f64();
        self.at = now;
    }

    /// A report of bytes that arrived and bytes that were lost.
    pub(crate) fn add(&mut self, received: Bytes, lost: Bytes) {
        self.received += received;
        self.lost += lost;
        self.reports += u64::from(received + lost > Bytes::ZERO);
    }

    /// Bytes that counted as lost were not. Those of before the reset no longer count.
    pub(crate) fn remove_lost(&mut self, bytes: Bytes) {
        self.lost = self.lost.saturating_sub(bytes);
    }
}

/// The same for several flows, in packets.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sample {
    pub(crate) all: f64,
    lost: f64,
    /// The sum over all packets of the seconds in flight.
    packet_seconds: f64,
    /// The longest mean time between the reports of a flow, in seconds.
    interval: f64,
}

impl Sample {
    pub(crate) fn of(counts: Counts, packet: Bytes) -> Self {
        let packets = |bytes: f64| bytes / packet.as_f64().max(1.0);
        let (received, lost) = (counts.received.as_f64(), counts.lost.as_f64());
        Self {
            all: packets(received + lost),
            lost: packets(lost),
            packet_seconds: packets(counts.byte_seconds),
            interval: counts.at.since(counts.since).as_secs_f64() / counts.reports.max(1) as f64,
        }
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            all: self.all + other.all,
            lost: self.lost + other.lost,
            packet_seconds: self.packet_seconds + other.packet_seconds,
            interval: self.interval.max(other.interval),
        }
    }

    /// The mean time of a packet in flight, in seconds: by Little's law the inverse of the throughput that each packet in
    /// flight gives.
    pub(crate) fn time(self) -> f64 {
        if self.all > 0.0 { self.packet_seconds / self.all } else { 0.0 }
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

    /// Whether `slower` has so much less throughput for each packet in flight. Reports that are rarer than the time in
    /// flight may cause it, so they prove nothing.
    fn is_faster_than(self, slower: Self) -> bool {
        slower.exceeds_time_of(self, 3.0)
    }

    fn exceeds_time_of(self, faster: Self, factor: f64) -> bool {
        self.time() > factor * faster.time() + SAME_TIME && 2.0 * self.interval < self.time()
    }

    /// Whether the loss of `other` exceeds this one by little, or by what chance explains, and the same is true of its
    /// time in flight.
    pub(crate) fn is_treated_like(self, other: Self) -> bool {
        let loses_alike = self.z(other) < 2.0 || other.loss() < 2.0 * self.loss() + 0.005;
        loses_alike && !other.exceeds_time_of(self, 2.0)
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
pub(crate) fn cut_by_loss(sorted: &[Sample]) -> Option<usize> {
    cut(sorted, Sample::z, Sample::is_treated_better_than)
}

/// The same for flows sorted by their time in flight.
pub(crate) fn cut_by_time(sorted: &[Sample]) -> Option<usize> {
    cut(sorted, |better, worse| worse.time() / better.time().max(1e-9), Sample::is_faster_than)
}

fn cut(
    sorted: &[Sample],
    difference: impl Fn(Sample, Sample) -> f64,
    differs: impl Fn(Sample, Sample) -> bool,
) -> Option<usize> {
    let sum = |samples: &[Sample]| samples.iter().fold(Sample::default(), |sum, sample| sum.and(*sample));
    let parts = |place: usize| (sum(&sorted[..place]), sum(&sorted[place..]));
    let by_place = (1..sorted.len()).map(|place| (place, difference(parts(place).0, parts(place).1)));
    let (place, _) = by_place.max_by(|a, b| a.1.total_cmp(&b.1))?;
    differs(parts(place).0, parts(place).1).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(all: u32, lost: u32) -> Sample {
        Sample { all: all.into(), lost: lost.into(), ..Sample::default() }
    }

    #[test]
    fn flows_are_cut_only_where_they_differ_significantly() {
        assert_eq!(cut_by_loss(&[sample(200, 1), sample(200, 2), sample(200, 40)]), Some(2));
        assert_eq!(cut_by_loss(&[sample(200, 1), sample(200, 41), sample(200, 40)]), Some(1));
        assert_eq!(cut_by_loss(&[sample(200, 4), sample(200, 6), sample(200, 9)]), None, "chance");
        assert_eq!(cut_by_loss(&[sample(40, 0), sample(40, 4)]), None, "too few");
        assert_eq!(cut_by_loss(&[sample(9000, 90), sample(9000, 180)]), None, "twice the loss is not enough");
        assert_eq!(cut_by_loss(&[sample(100, 0)]), None);
    }

    /// Packets that spend so many milliseconds in flight, with reports so many milliseconds apart.
    fn timed(time: u32, interval: u32) -> Sample {
        let packet_seconds = 0.1 * f64::from(time);
        Sample { all: 100.0, lost: 0.0, packet_seconds, interval: f64::from(interval) / 1e3 }
    }

    #[test]
    fn flows_are_cut_where_the_time_in_flight_triples() {
        assert_eq!(cut_by_time(&[timed(50, 5), timed(60, 5), timed(400, 5)]), Some(2));
        assert_eq!(cut_by_time(&[timed(50, 5), timed(400, 5), timed(450, 5)]), Some(1));
        assert_eq!(cut_by_time(&[timed(50, 5), timed(150, 5)]), None);
        assert_eq!(cut_by_time(&[timed(1, 1), timed(12, 1)]), None, "hosts");
        assert_eq!(cut_by_time(&[timed(50, 5), timed(400, 300)]), None, "rare reports");
    }

    /// Two packets for 100 ms, one of them for another 100 ms: 300 ms for two packets.
    #[test]
    fn the_time_in_flight_is_the_mean_over_all_bytes() {
        let (packet, at) = (Bytes::new(1000), |ms| Time::ZERO + rampmeter_units::Duration::from_millis(ms));
        let mut counts = Counts::since(at(50));
        for (ms, in_flight) in [(100, 0), (200, 2), (300, 1)] {
            counts.advance(at(ms), packet * in_flight);
            counts.add(if ms > 100 { packet } else { Bytes::ZERO }, Bytes::ZERO);
        }
        let sample = Sample::of(counts, packet);
        assert!((sample.time() - 0.15).abs() < 1e-9 && (sample.interval - 0.125).abs() < 1e-9, "{sample:?}");
    }

    /// The test of two proportions: 10 and 30 of 100 lost, p = 0.2, so 0.2 / sqrt(0.16 * 0.02) = sqrt(12.5).
    #[test]
    fn a_difference_is_measured_in_its_standard_deviations() {
        assert!((sample(100, 10).z(sample(100, 30)) - 12.5_f64.sqrt()).abs() < 1e-9);
        assert_eq!(sample(100, 0).z(sample(100, 0)), 0.0);
        assert_eq!(sample(100, 100).z(sample(100, 100)), 0.0);
    }
}
