//! Rate compensation: reduce the base rate while a queue builds or stands at the bottleneck (section 3.2).
//!
//! ```text
//! gap      (out - in) / out                       of the spacing of base packets, on arriving and on leaving
//! delay    (max_delay - min_delay) / max_delay    of the one-way delays of all packets
//! cut      gap + delay, at most half of the rate, minus the cuts of the last round trip
//! ```
//!
//! The cut is computed after every acknowledgement from the packets of the last round trip. The lowest tenth and the
//! highest tenth of their delays are discarded as outliers. `max_delay` is the highest of the rest, `min_delay` the
//! lowest of all round trips.

use std::collections::VecDeque;

use rampmeter_units::{Bytes, Duration, Time};

use super::Config;
use super::tit_for_tat::TitForTat;
use crate::Arrival;
use crate::line::Line;

/// The number of delays kept per round trip. Packets that arrive in closer succession are skipped.
const SAMPLES: usize = 128;

/// The age at which `min_delay` expires, in case the route has become longer. The paper gives no number.
const MIN_DELAY_EXPIRY: Duration = Duration::from_secs(10);

/// A packet of the last round trip.
#[derive(Debug, Clone, Copy)]
struct Sample {
    acknowledged_at: Time,
    sent_at: Time,
    delay: i64,
    /// Whether it was sent at the base rate, between two probes.
    is_base: bool,
    /// The share of the base rate that was cut after it.
    cut: f64,
}

#[derive(Debug, Clone)]
pub(super) struct Compensation {
    samples: VecDeque<Sample>,
    sorted: Vec<i64>,
    /// The largest packet seen. Smaller ones take less time on a link, so they are not compared.
    size: Bytes,
    /// The lowest delay, and when it was last observed.
    min_delay: Option<(Time, i64)>,
    tit_for_tat: TitForTat,
}

impl Compensation {
    pub(super) fn new() -> Self {
        Self {
            samples: VecDeque::with_capacity(SAMPLES),
            sorted: Vec::with_capacity(SAMPLES),
            size: Bytes::ZERO,
            min_delay: None,
            tit_for_tat: TitForTat::default(),
        }
    }

    /// A packet was acknowledged; the round-trip time is `rtt`. Returns the share of the base rate to cut.
    pub(super) fn on_arrival(
        &mut self,
        config: &Config,
        now: Time,
        arrival: &Arrival,
        is_base: bool,
        rtt: Duration,
        min_rtt: Duration,
    ) -> f64 {
        if !self.add(now, arrival, is_base, rtt) {
            return 0.0;
        }
        let (lowest, max_delay) = self.without_outliers(config.outliers);
        let queue = max_delay.saturating_sub(self.min_delay(now, lowest)).max(0) as f64;
        // Clocks differ, so `min_delay` itself is unknown. Half of the minimum round-trip time replaces it.
        let delay = queue / (min_rtt.as_nanos() as f64 / 2.0 + queue);
        let gap = self.gap(lowest, max_delay);
        let recent: f64 = self.samples.iter().map(|sample| sample.cut).sum();
        let divisor = self.tit_for_tat.divisor(config, now, rtt, queue, recent);
        let required = ((gap + delay) / divisor).min(config.max_cut);
        let cut = (required - recent).max(0.0);
        if let Some(last) = self.samples.back_mut() {
            last.cut = cut;
        }
        cut
    }

    /// Adds the packet to the last round trip. Returns false if it was skipped.
    fn add(&mut self, now: Time, arrival: &Arrival, is_base: bool, rtt: Duration) -> bool {
        if arrival.bytes > self.size + self.size / 4 {
            (self.size, self.min_delay) = (arrival.bytes, None);
            self.samples.clear();
        }
        let too_small = arrival.bytes < self.size - self.size / 4;
        let too_close = self.samples.back().is_some_and(|last| now.since(last.acknowledged_at) < rtt / SAMPLES as u64);
        if too_small || too_close {
            return false;
        }
        while self.samples.len() == SAMPLES || self.samples.front().is_some_and(|s| now.since(s.acknowledged_at) > rtt)
        {
            self.samples.pop_front();
        }
        let (sent_at, delay) = (arrival.sent_at, arrival.one_way_delay());
        self.samples.push_back(Sample { acknowledged_at: now, sent_at, delay, is_base, cut: 0.0 });
        true
    }

    /// The lowest and the highest delay of the last round trip, outliers aside.
    fn without_outliers(&mut self, outliers: f64) -> (i64, i64) {
        self.sorted.clear();
        self.sorted.extend(self.samples.iter().map(|sample| sample.delay));
        self.sorted.sort_unstable();
        let discarded = (self.sorted.len() as f64 * outliers) as usize;
        (self.sorted[discarded], self.sorted[self.sorted.len() - 1 - discarded])
    }

    /// The lowest delay observed so far, unless it has expired.
    fn min_delay(&mut self, now: Time, lowest: i64) -> i64 {
        let kept = self.min_delay.filter(|&(at, min)| min < lowest && now.since(at) <= MIN_DELAY_EXPIRY);
        self.min_delay.insert(kept.unwrap_or((now, lowest))).1
    }

    /// The share by which gaps between base packets have grown on the path. A line through their delays has the slope
    /// `(out - in) / in`.
    fn gap(&self, lowest: i64, highest: i64) -> f64 {
        let Some(first) = self.samples.front() else { return 0.0 };
        let base = self.samples.iter().filter(|s| s.is_base && (lowest..=highest).contains(&s.delay));
        let points = base.map(|s| {
            let x = s.sent_at.as_nanos().wrapping_sub(first.sent_at.as_nanos()) as i64;
            (x as f64, s.delay.wrapping_sub(first.delay) as f64)
        });
        let slope = Line::fit(points).map_or(0.0, |line| line.slope.max(0.0));
        slope / (1.0 + slope)
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Ecn;

    use super::*;

    const RTT: Duration = Duration::from_millis(20);
    const PACKET: Bytes = Bytes::new(1000);

    fn ms(n: f64) -> Duration {
        Duration::from_secs_f64(n / 1e3)
    }

    /// Acknowledges a packet that left at `sent`, in milliseconds, and took `delay`. Returns the cut.
    fn acknowledge(compensation: &mut Compensation, sent: f64, delay: f64, bytes: Bytes) -> f64 {
        let sent_at = Time::ZERO + ms(sent);
        let arrival = Arrival { number: 0, bytes, sent_at, received_at: sent_at + ms(delay), ecn: Ecn::NotEct };
        compensation.on_arrival(&Config::default(), sent_at + RTT, &arrival, true, RTT, RTT)
    }

    /// The cuts for `packets` base packets, one per millisecond, with these delays in milliseconds.
    fn cuts(packets: u32, delay: impl Fn(u32) -> f64) -> Vec<f64> {
        let mut compensation = Compensation::new();
        (0..packets).map(|i| acknowledge(&mut compensation, f64::from(i), delay(i), PACKET)).collect()
    }

    fn assert_near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-6, "{value} for {expected}");
    }

    #[test]
    fn regular_delays_cut_nothing() {
        assert_eq!(cuts(60, |_| 10.0).iter().sum::<f64>(), 0.0);
    }

    #[test]
    fn a_queue_cuts_its_share_of_the_maximum_delay() {
        let mut compensation = Compensation::new();
        acknowledge(&mut compensation, 0.0, 10.0, PACKET);
        assert_near(acknowledge(&mut compensation, 1000.0, 12.5, PACKET), 2.5 / 12.5);
    }

    #[test]
    fn a_standing_queue_cuts_once_a_round_trip() {
        let mut compensation = Compensation::new();
        acknowledge(&mut compensation, 0.0, 10.0, PACKET);
        let cuts: Vec<f64> =
            (0..63).map(|i| acknowledge(&mut compensation, f64::from(1000 + i), 12.5, PACKET)).collect();
        assert_eq!(cuts.iter().filter(|cut| **cut > 0.0).count(), 3);
        assert_near(cuts.iter().sum(), 3.0 * 0.2);
    }

    #[test]
    fn a_gap_that_grows_cuts_by_the_overload() {
        // The link needs 1.25 ms for a packet, and one leaves every millisecond: (1.25 - 1) / 1.25.
        let mut compensation = Compensation::new();
        for i in 0..8 {
            acknowledge(&mut compensation, f64::from(i), 10.0 + 0.25 * f64::from(i), PACKET);
        }
        assert_near(compensation.gap(i64::MIN, i64::MAX), 0.2);
    }

    #[test]
    fn gaps_of_probe_packets_do_not_count() {
        let mut compensation = Compensation::new();
        for i in 0..8 {
            let sent_at = Time::ZERO + RTT / 20 * i;
            let received_at = sent_at + ms(10.0) + RTT / 80 * i;
            let arrival = Arrival { number: i, bytes: PACKET, sent_at, received_at, ecn: Ecn::NotEct };
            compensation.on_arrival(&Config::default(), sent_at + RTT, &arrival, false, RTT, RTT);
        }
        assert_eq!(compensation.gap(i64::MIN, i64::MAX), 0.0);
    }

    #[test]
    fn no_round_trip_cuts_more_than_half() {
        let cuts = cuts(40, |i| 10.0 + 100.0 * f64::from(i));
        for round_trip in cuts.windows(20) {
            assert!(round_trip.iter().sum::<f64>() <= 0.5 + 1e-9);
        }
        assert_near(cuts[..20].iter().sum(), 0.5);
    }

    #[test]
    fn one_outlier_in_ten_cuts_nothing() {
        assert_eq!(cuts(60, |i| if i % 12 == 11 { 12.0 } else { 10.0 }).iter().sum::<f64>(), 0.0);
    }

    #[test]
    fn a_longer_route_is_no_queue_after_min_delay_expires() {
        let cuts = cuts(15_000, |i| if i < 1000 { 10.0 } else { 15.0 });
        assert!(cuts[10_000..10_900].iter().sum::<f64>() > 0.1);
        assert_eq!(cuts[11_100..].iter().sum::<f64>(), 0.0);
    }

    #[test]
    fn an_offset_between_the_clocks_changes_nothing() {
        assert_near(
            cuts(10, |i| if i == 9 { 12.5 } else { 10.0 })[9],
            cuts(10, |i| if i == 9 { 9e6 + 2.5 } else { 9e6 })[9],
        );
    }

    #[test]
    fn packets_of_different_sizes_are_not_compared() {
        let mut compensation = Compensation::new();
        for i in 0..60 {
            let (bytes, delay) = if i % 2 == 0 { (PACKET / 5, 10.0) } else { (PACKET, 18.0) };
            assert_eq!(acknowledge(&mut compensation, f64::from(i), delay, bytes), 0.0);
        }
    }
}
