//! What BBR measures of a path: round trips, maxima, the minimum round-trip time, bursts of acknowledgements, and whether
//! the path is full. BBRv1 (`bbr1`) measures the same.

use rampmeter_units::{Bytes, Duration, Rate, Time};

use crate::delivery_rate::RateSample;

/// Packet-timed round trips: one ends with the acknowledgement of a packet that was sent after its start (section
/// "`round_count`").
#[derive(Debug, Clone, Default)]
pub(crate) struct Rounds {
    /// `round_count`.
    pub(crate) count: u64,
    /// `round_start`: the last acknowledgement ended a round trip.
    pub(crate) is_start: bool,
    /// `next_round_delivered`: packets sent after this many delivered bytes end it.
    ends_at: Bytes,
}

impl Rounds {
    pub(crate) fn update(&mut self, sample: &RateSample, delivered: Bytes) {
        self.is_start = sample.delivered > Bytes::ZERO && sample.prior_delivered >= self.ends_at;
        if self.is_start {
            self.count += 1;
            self.restart(delivered);
        }
    }

    /// `StartRound`: a round trip starts now.
    pub(crate) fn restart(&mut self, delivered: Bytes) {
        self.ends_at = delivered;
    }
}

/// The maximum of the last `N` periods, the current one included.
#[derive(Debug, Clone)]
pub(crate) struct WindowedMax<T, const N: usize> {
    periods: [T; N],
    current: usize,
}

impl<T: Copy + Default, const N: usize> Default for WindowedMax<T, N> {
    fn default() -> Self {
        Self { periods: [T::default(); N], current: 0 }
    }
}

impl<T: Copy + Ord + Default, const N: usize> WindowedMax<T, N> {
    pub(crate) fn get(&self) -> T {
        self.periods.into_iter().max().unwrap_or_default()
    }

    pub(crate) fn add(&mut self, value: T) {
        let current = &mut self.periods[self.current];
        *current = value.max(*current);
    }

    /// A period ends.
    pub(crate) fn advance(&mut self) {
        self.current = (self.current + 1) % N;
        self.periods[self.current] = T::default();
    }
}

/// Whether the path is full: the delivery rate grew by less than a quarter in each of three round trips (section
/// "Exiting Acceleration Based on Bandwidth Plateau").
#[derive(Debug, Clone, Default)]
pub(crate) struct FullPipe {
    /// `full_bw_reached`: it has been full.
    pub(crate) reached: bool,
    /// `full_bw_now`: it is full.
    pub(crate) now: bool,
    /// `full_bw`.
    baseline: Rate,
    /// `full_bw_count`.
    count: u32,
}

impl FullPipe {
    /// `ResetFullBW`, with the rate from which growth counts.
    pub(crate) fn restart(&mut self, baseline: Rate) {
        *self = Self { reached: self.reached, now: false, baseline, count: 0 };
    }

    /// `CheckFullBWReached`, at the end of each round trip.
    pub(crate) fn update(&mut self, rate: Rate, is_app_limited: bool) {
        if self.now || is_app_limited {
            return;
        }
        if rate >= self.baseline.scale(1.25) {
            self.restart(rate);
            return;
        }
        self.count += 1;
        self.now = self.count >= 3;
        self.reached |= self.now;
    }
}

/// The minimum round-trip time of the last 10 s, and when the path is to be drained to measure it again (section
/// "ProbeRTT Logic").
#[derive(Debug, Clone, Default)]
pub(crate) struct MinRtt {
    /// `min_rtt`.
    pub(crate) value: Duration,
    /// `min_rtt_stamp`.
    measured_at: Time,
    /// `probe_rtt_min_delay`: the minimum of the last `interval`.
    recent: Duration,
    /// `probe_rtt_min_stamp`.
    pub(crate) recent_at: Time,
    /// `probe_rtt_expired`.
    pub(crate) is_expired: bool,
}

impl MinRtt {
    /// `MinRTTFilterLen`.
    const WINDOW: Duration = Duration::from_secs(10);

    pub(crate) fn new(now: Time, rtt: Duration) -> Self {
        Self { value: rtt, measured_at: now, recent: rtt, recent_at: now, is_expired: false }
    }

    /// `UpdateMinRTT`: the path is to be drained if no minimum was measured for `interval`.
    pub(crate) fn update(&mut self, now: Time, rtt: Option<Duration>, interval: Duration) {
        self.is_expired = now > self.recent_at + interval;
        if let Some(rtt) = rtt
            && (rtt < self.recent || self.is_expired)
        {
            (self.recent, self.recent_at) = (rtt, now);
        }
        if self.recent < self.value || now > self.measured_at + Self::WINDOW {
            (self.value, self.measured_at) = (self.recent, self.recent_at);
        }
    }
}

/// How many more bytes than the path's rate explains are acknowledged in a burst (section "`extra_acked`").
#[derive(Debug, Clone, Default)]
pub(crate) struct AckAggregation {
    /// `extra_acked_interval_start`.
    since: Time,
    /// `extra_acked_delivered`.
    delivered: Bytes,
    /// Of the last 10 round trips (`ExtraAckedFilterLen`).
    max: WindowedMax<Bytes, 10>,
}

impl AckAggregation {
    /// `extra_acked`.
    pub(crate) fn extra(&self) -> Bytes {
        self.max.get()
    }

    /// No acknowledgement was due before `now`: an interval begins, without the bytes of the last one. As Linux's
    /// `bbr_cwnd_event`; the draft's `HandleRestartFromIdle` keeps the bytes, so that each idle time adds to them.
    pub(crate) fn restart(&mut self, now: Time) {
        (self.delivered, self.since) = (Bytes::ZERO, now);
    }

    /// A round trip ended. Before the path was full, only the last one counts.
    pub(crate) fn end_round(&mut self, was_full: bool) {
        if was_full {
            self.max.advance();
        } else {
            self.max = WindowedMax::default();
        }
    }

    /// `UpdateACKAggregation`: `delivered` bytes, where the path delivers `rate` and the window is `window`.
    pub(crate) fn update(&mut self, now: Time, delivered: Bytes, rate: Rate, window: Bytes) {
        let mut expected = rate.bytes_in(now.since(self.since));
        if self.delivered <= expected {
            (self.delivered, self.since, expected) = (Bytes::ZERO, now, Bytes::ZERO);
        }
        self.delivered += delivered;
        self.max.add(self.delivered.saturating_sub(expected).min(window));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ms;

    fn acknowledged(prior_delivered: u64) -> RateSample {
        let (delivered, prior_delivered) = (Bytes::new(1000), Bytes::new(prior_delivered));
        RateSample { delivered, prior_delivered, ..RateSample::default() }
    }

    #[test]
    fn a_packet_sent_after_the_start_of_a_round_trip_ends_it() {
        let mut rounds = Rounds::default();
        rounds.update(&RateSample::default(), Bytes::ZERO);
        assert!(!rounds.is_start, "no sample ends no round trip");
        let mut ends = |prior_delivered, delivered| {
            rounds.update(&acknowledged(prior_delivered), Bytes::new(delivered));
            (rounds.is_start, rounds.count)
        };
        assert_eq!(ends(0, 5000), (true, 1));
        assert_eq!(ends(4999, 9000), (false, 1));
        assert_eq!(ends(5000, 10_000), (true, 2));
        assert_eq!(ends(10_000, 11_000), (true, 3));
    }

    #[test]
    fn three_round_trips_without_growth_fill_the_pipe() {
        let mut pipe = FullPipe::default();
        for (n, rate) in [8_000_000, 16_000_000, 32_000_000, 39_000_000, 39_000_000, 39_000_000].into_iter().enumerate()
        {
            assert!(!pipe.reached, "{n}");
            pipe.update(Rate::from_bps(rate), false);
            pipe.update(Rate::ZERO, true); // the application's limits say nothing
        }
        assert!(pipe.reached && pipe.now);
    }

    #[test]
    fn a_minimum_is_replaced_after_ten_seconds() {
        let mut min = MinRtt::new(ms(0), Duration::from_millis(20));
        for second in 1..=10 {
            min.update(ms(1000 * second), Some(Duration::from_millis(30)), Duration::from_secs(5));
            assert_eq!(min.value, Duration::from_millis(20));
            assert_eq!(min.is_expired, second == 6, "after 5 s and not again in the next five");
        }
        min.update(ms(10_001), Some(Duration::from_millis(31)), Duration::from_secs(5));
        assert_eq!(min.value, Duration::from_millis(30));
    }

    #[test]
    fn a_burst_of_acknowledgements_counts_beyond_the_expected_bytes() {
        // 8 Mb/s are 1000 bytes a ms. After 10 ms 12 kB arrive at once: 2 kB more than expected, then 10 kB each 10 ms.
        let rate = Rate::from_bps(8_000_000);
        let mut aggregation = AckAggregation::default();
        let mut acknowledge = |at, bytes| {
            aggregation.update(ms(at), Bytes::new(bytes), rate, Bytes::new(50_000));
            aggregation.extra()
        };
        assert_eq!(acknowledge(0, 1_000), Bytes::new(1_000));
        assert_eq!(acknowledge(0, 11_000), Bytes::new(12_000));
        assert_eq!(acknowledge(10, 10_000), Bytes::new(12_000), "12 kB were expected by 12 ms");
    }

    #[test]
    fn the_bytes_before_an_idle_time_are_no_part_of_a_burst() {
        // 8 Mb/s are 1000 bytes a ms. A frame of 12 kB each 100 ms arrives at this rate, after a first packet at once.
        let rate = Rate::from_bps(8_000_000);
        let mut aggregation = AckAggregation::default();
        for frame in 0..20 {
            aggregation.restart(ms(100 * frame));
            (20..32).for_each(|at| aggregation.update(ms(100 * frame + at), Bytes::new(1000), rate, Bytes::MAX));
            assert_eq!(aggregation.extra(), Bytes::new(1000), "{frame}");
        }
    }
}
