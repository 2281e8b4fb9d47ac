//! How long to spin before sleeping. To wake a sleeping process takes tens of microseconds, and an answer often comes
//! within one; but spinning takes a core from other processes. So the spin time grows while events come often, and
//! spinning stops for a while after it has failed several times in a row.
//!
//! If both sides sleep, each wakes the other late, so neither gains from spinning alone. Therefore the spin time also
//! grows at intervals that are much longer than the longest spin.

use rampmeter_units::Duration;

/// The first spin time after a long idle time.
const MIN_SPIN: Duration = Duration::from_micros(2);
/// Longer intervals than this shorten the spin time.
const MAX_INTERVAL: Duration = Duration::from_micros(250);
/// The number of failed spins at the maximum time before spinning stops.
const MAX_FAILED: u32 = 8;
/// The number of events before spinning is tried again.
const RETRY_AFTER: u32 = 64;

/// If the other side runs on its own core, its answer takes no longer than this.
const BUSY_WAIT: Duration = Duration::from_micros(1);

/// The pause between two checks, after spinning for `spun`. On a busy machine the other side may be waiting for this
/// core, which is then yielded.
pub(crate) fn pause(spun: Duration) {
    if spun < BUSY_WAIT { std::hint::spin_loop() } else { std::thread::yield_now() }
}

/// An adaptive spin time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spin {
    /// The current spin time.
    pub(crate) current: Duration,
    max: Duration,
    failed: u32,
    skip: u32,
}

impl Spin {
    /// At most `max`; zero never spins.
    pub(crate) fn new(max: Duration) -> Self {
        Self { current: MIN_SPIN.min(max), max, failed: 0, skip: 0 }
    }

    /// An event came after a wait of `wait`.
    pub(crate) fn on_wait(&mut self, wait: Duration) {
        if wait <= self.current {
            self.failed = 0;
        } else if self.skip > 0 {
            self.skip -= 1;
        } else if wait > MAX_INTERVAL {
            self.current = self.current / 2;
        } else if self.current < self.max {
            self.current = (self.current * 2).max(MIN_SPIN).min(self.max);
        } else {
            self.failed += 1;
            if self.failed >= MAX_FAILED {
                *self = Self { current: Duration::ZERO, failed: 0, skip: RETRY_AFTER, ..*self };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_micros(50);

    fn after(spin: &mut Spin, times: u32, micros: u64) -> Duration {
        (0..times).for_each(|_| spin.on_wait(Duration::from_micros(micros)));
        spin.current
    }

    #[test]
    fn the_spin_time_grows_while_events_come_often() {
        let mut spin = Spin::new(MAX);
        assert_eq!(after(&mut spin, 5, 90), MAX);
        assert_eq!(after(&mut spin, 1000, 1), MAX, "all events arrive while it spins");
        assert!(after(&mut spin, 20, 10_000) < MIN_SPIN);
    }

    #[test]
    fn failing_spins_stop_and_are_retried_now_and_then() {
        let mut spin = Spin::new(MAX);
        let spin_times: Vec<_> = (0..1000).map(|_| after(&mut spin, 1, 100)).collect();
        let spun: Duration = spin_times.iter().fold(Duration::ZERO, |sum, spin_time| sum + *spin_time);
        assert!(spun < Duration::from_micros(1000 * 100) / 10, "{spun}");
        assert!(spin_times[500..].contains(&MAX));
    }

    #[test]
    fn a_maximum_of_zero_never_spins() {
        assert_eq!(after(&mut Spin::new(Duration::ZERO), 9, 1), Duration::ZERO);
    }
}
