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

use rampmeter_units::{Duration, Time};

use super::config::{MAX_CUT, OUTLIERS};
use super::delays::Delays;
use super::tit_for_tat::TitForTat;
use crate::Arrival;

/// The age at which `min_delay` expires, in case the route has become longer. The paper gives no number.
const MIN_DELAY_EXPIRY: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub(super) struct Compensation {
    delays: Delays,
    /// The lowest delay, and when it was last observed.
    min_delay: Option<(Time, i64)>,
    tit_for_tat: TitForTat,
}

impl Compensation {
    pub(super) fn new() -> Self {
        Self { delays: Delays::new(), min_delay: None, tit_for_tat: TitForTat::default() }
    }

    /// A packet was acknowledged; the round-trip time is `rtt`. Returns the share of the base rate to cut.
    pub(super) fn on_arrival(
        &mut self,
        now: Time,
        arrival: &Arrival,
        is_base: bool,
        rtt: Duration,
        min_rtt: Duration,
    ) -> f64 {
        let Some(is_larger) = self.delays.add(now, arrival, rtt, is_base) else { return 0.0 };
        if is_larger {
            self.min_delay = None;
        }
        let (lowest, max_delay) = self.without_outliers();
        let queue = max_delay.saturating_sub(self.min_delay(now, lowest)).max(0) as f64;
        // Clocks differ, so `min_delay` itself is unknown. Half of the minimum round-trip time replaces it.
        let delay = queue / (min_rtt.as_nanos() as f64 / 2.0 + queue);
        let gap = self.gap(lowest, max_delay);
        let recent: f64 = self.delays.samples.iter().map(|sample| sample.cut).sum();
        let divisor = self.tit_for_tat.divisor(now, rtt, queue, recent);
        let required = ((gap + delay) / divisor).min(MAX_CUT);
        let cut = (required - recent).max(0.0);
        if let Some(last) = self.delays.samples.back_mut() {
            last.cut = cut;
        }
        cut
    }

    /// The lowest and the highest delay of the last round trip, outliers aside.
    fn without_outliers(&mut self) -> (i64, i64) {
        let delays = self.delays.unsorted();
        delays.sort_unstable();
        let discarded = (delays.len() as f64 * OUTLIERS) as usize;
        (delays[discarded], delays[delays.len() - 1 - discarded])
    }

    /// The lowest delay observed so far, unless it has expired.
    fn min_delay(&mut self, now: Time, lowest: i64) -> i64 {
        let kept = self.min_delay.filter(|&(at, min)| min < lowest && now.since(at) <= MIN_DELAY_EXPIRY);
        self.min_delay.insert(kept.unwrap_or((now, lowest))).1
    }

    /// The share by which gaps between base packets have grown on the path. A line through their delays has the slope
    /// `(out - in) / in`.
    fn gap(&self, lowest: i64, highest: i64) -> f64 {
        let Some(first) = self.delays.samples.front() else { return 0.0 };
        let line = self.delays.line(first.delay, |s| s.is_base && (lowest..=highest).contains(&s.delay));
        let slope = line.map_or(0.0, |line| line.slope.max(0.0));
        slope / (1.0 + slope)
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::{Bytes, Ecn};

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
        compensation.on_arrival(sent_at + RTT, &arrival, true, RTT, RTT)
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
    fn an_offset_between_the_clocks_changes_nothing() {
        assert_near(
            cuts(10, |i| if i == 9 { 12.5 } else { 10.0 })[9],
            cuts(10, |i| if i == 9 { 9e6 + 2.5 } else { 9e6 })[9],
        );
    }
}
