//! Round-trip time: smoothed mean, deviation and the retransmission timeout (RFC 6298), and the minimum.

use rampmeter_units::Duration;

/// A measured round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RoundTrip {
    pub(crate) smoothed: Duration,
    pub(crate) min: Duration,
}

/// RFC 6298's estimator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RttEstimator {
    smoothed: Option<Duration>,
    deviation: Duration,
    min: Duration,
}

impl Default for RttEstimator {
    fn default() -> Self {
        Self { smoothed: None, deviation: Duration::ZERO, min: Duration::MAX }
    }
}

impl RttEstimator {
    /// Adds a measurement.
    pub fn sample(&mut self, rtt: Duration) {
        self.min = self.min.min(rtt);
        let Some(smoothed) = self.smoothed else {
            self.smoothed = Some(rtt); // RFC 6298 (2.2)
            self.deviation = rtt / 2;
            return;
        };
        // RFC 6298 (2.3): alpha = 1/8, beta = 1/4.
        self.deviation = (self.deviation * 3 + smoothed.abs_diff(rtt)) / 4;
        self.smoothed = Some((smoothed * 7 + rtt) / 8);
    }

    /// Adds the first measurement after a spurious timeout: the timeout is at least three times as long (RFC 4015 section
    /// 3).
    pub fn on_spurious_timeout(&mut self, rtt: Duration) {
        self.min = self.min.min(rtt);
        self.smoothed = self.smoothed.max(Some(rtt));
        self.deviation = self.deviation.max(rtt / 2);
    }

    /// The smoothed round-trip time; zero before the first measurement.
    pub fn smoothed(&self) -> Duration {
        self.smoothed.unwrap_or_default()
    }

    /// The minimum round-trip time; [`Duration::MAX`] before the first measurement.
    pub fn min(&self) -> Duration {
        self.min
    }

    /// The retransmission timeout, at least `min`; `initial` before the first measurement (RFC 6298 (2.1), (2.4)).
    pub fn timeout(&self, initial: Duration, min: Duration) -> Duration {
        // The clock's granularity G is a nanosecond: max(G, 4 RTTVAR) is 4 RTTVAR.
        self.smoothed.map_or(initial, |smoothed| (smoothed + self.deviation * 4).max(min))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_path_has_its_rtt_and_a_timeout_close_to_it() {
        let mut rtt = RttEstimator::default();
        let (initial, min) = (Duration::from_secs(1), Duration::from_millis(1));
        assert_eq!(rtt.timeout(initial, min), initial);
        rtt.sample(Duration::from_millis(20));
        assert_eq!(rtt.timeout(initial, min), Duration::from_millis(60)); // R + 4 R/2
        for _ in 0..100 {
            rtt.sample(Duration::from_millis(20));
        }
        assert_eq!(rtt.smoothed(), Duration::from_millis(20));
        assert!(rtt.timeout(initial, min) < Duration::from_millis(21));
        assert_eq!(rtt.timeout(initial, initial), initial);
        rtt.sample(Duration::from_millis(10));
        assert_eq!(rtt.min(), Duration::from_millis(10));
    }

    /// RFC 6298 (2.2), (2.3) after 100 ms and 200 ms: RTTVAR = 3/4 * 50 + 1/4 * 100, SRTT = 7/8 * 100 + 1/8 * 200.
    #[test]
    fn a_longer_round_trip_counts_an_eighth_its_deviation_a_quarter() {
        let mut rtt = RttEstimator::default();
        (1..=2).for_each(|n| rtt.sample(Duration::from_millis(100 * n)));
        assert_eq!(rtt.smoothed(), Duration::from_micros(112_500));
        assert_eq!(rtt.timeout(Duration::ZERO, Duration::ZERO), Duration::from_micros(112_500 + 4 * 62_500));
    }
}
