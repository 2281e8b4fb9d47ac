//! The clock with which a host timestamps arriving packets. The clocks of two hosts differ: they have an offset, run at
//! different rates, and are read with a delay. Real clocks do so by themselves; this one has a given error, so that its
//! effect on controllers can be tested.

use rampmeter_units::{Duration, Time};

/// The error of a host's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clock {
    /// Its offset from the world's clock at the beginning.
    pub offset: Duration,
    /// Its drift in parts per million; quartz drifts by up to a hundred or so.
    pub drift_ppm: i32,
    /// The maximum delay of a timestamp, uniformly distributed.
    pub jitter: Duration,
}

impl Clock {
    /// The reading for a packet that arrives at `at` by the world's clock.
    pub(crate) fn read(self, at: Time) -> Time {
        if self == Self::default() {
            return at;
        }
        let drift = i128::from(at.as_nanos()) * i128::from(self.drift_ppm) / 1_000_000;
        let delay = self.jitter.scale(mixed(at.as_nanos()) as f64 / u64::MAX as f64);
        Time::from_nanos((at + self.offset + delay).as_nanos().saturating_add_signed(drift as i64))
    }
}

/// A pseudo-random number that is the same in every run (Steele, Lea and Flood, `SplitMix`, 2014).
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_has_the_given_offset_and_drift() {
        let at = Time::from_nanos(10_000_000_000);
        assert_eq!(Clock::default().read(at), at);
        let ahead_by_3_s = Clock { offset: Duration::from_secs(3), ..Clock::default() };
        assert_eq!(ahead_by_3_s.read(at), Time::from_nanos(13_000_000_000));
        for (drift_ppm, reading) in [(200, 10_002_000_000), (-200, 9_998_000_000)] {
            assert_eq!(Clock { drift_ppm, ..Clock::default() }.read(at), Time::from_nanos(reading));
        }
    }

    #[test]
    fn jitter_is_uniform_up_to_its_maximum() {
        let jitter = Duration::from_micros(50);
        let clock = Clock { jitter, ..Clock::default() };
        let delay: Vec<u64> =
            (0..1000).map(|n| n * 7919).map(|n| clock.read(Time::from_nanos(n)).as_nanos() - n).collect();
        assert!(delay.iter().all(|delay| *delay <= 50_000));
        let mean = delay.iter().sum::<u64>() / 1000;
        assert!((23_000..27_000).contains(&mean), "{mean}");
    }
}
