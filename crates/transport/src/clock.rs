//! The clock by which a host says when packets arrived. No two hosts' clocks agree: they show different times, run at
//! different speeds, and are read a little late. Real ones do so by themselves; this one does as it is told, to see what
//! controllers make of it.

use rampmeter_units::{Duration, Time};

/// How a host's clock is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clock {
    /// By how much it is ahead of the world's at the beginning.
    pub ahead: Duration,
    /// How much faster it runs, in parts per million; quartz is off by up to a hundred or so.
    pub fast: i32,
    /// A packet is noted up to this late, evenly at random.
    pub jitter: Duration,
}

impl Clock {
    /// What it shows for a packet that arrives at `at` by the world's clock.
    pub(crate) fn show(self, at: Time) -> Time {
        if self == Self::default() {
            return at;
        }
        let drift = i128::from(at.as_nanos()) * i128::from(self.fast) / 1_000_000;
        let late = self.jitter.scale(mixed(at.as_nanos()) as f64 / u64::MAX as f64);
        Time::from_nanos((at + self.ahead + late).as_nanos().saturating_add_signed(drift as i64))
    }
}

/// As good as random, and the same in every run (Steele, Lea and Flood, `SplitMix`, 2014).
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
    fn it_is_off_as_it_is_told() {
        let at = Time::from_nanos(10_000_000_000);
        assert_eq!(Clock::default().show(at), at);
        let off = Clock { ahead: Duration::from_secs(3), ..Clock::default() };
        assert_eq!(off.show(at), Time::from_nanos(13_000_000_000));
        for (fast, shows) in [(200, 10_002_000_000), (-200, 9_998_000_000)] {
            assert_eq!(Clock { fast, ..Clock::default() }.show(at), Time::from_nanos(shows));
        }
    }

    #[test]
    fn jitter_is_spread_evenly_up_to_its_most() {
        let jitter = Duration::from_micros(50);
        let clock = Clock { jitter, ..Clock::default() };
        let late: Vec<u64> =
            (0..1000).map(|n| n * 7919).map(|n| clock.show(Time::from_nanos(n)).as_nanos() - n).collect();
        assert!(late.iter().all(|late| *late <= 50_000));
        let mean = late.iter().sum::<u64>() / 1000;
        assert!((23_000..27_000).contains(&mean), "{mean}");
    }
}
