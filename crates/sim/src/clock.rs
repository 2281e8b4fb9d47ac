//! A host's own clock. The simulation and its meters use true time; an endpoint and its controllers see only the
//! readings of their host's clock, and their deadlines are converted back.
//!
//! ```text
//! reading(t) = offset + floor(t * speed)           speed = 1 + drift
//! reached(r) = the earliest t with reading(t) >= r = ceil((r - offset) / speed)
//! ```
//!
//! So no deadline comes before its time, whatever the drift. The jitter of a clock changes only the arrival times that
//! an endpoint reports (`rampmeter_transport::Clock`), and time never goes back.

use rampmeter_transport::Clock;
use rampmeter_units::{Duration, Time};

/// The part of drift that is one.
const MILLION: i64 = 1_000_000;

/// The offset and the speed of a host's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostClock {
    offset: Duration,
    drift_ppm: i32,
}

impl HostClock {
    pub(crate) fn new(Clock { offset, drift_ppm, jitter: _ }: Clock) -> Self {
        Self { offset, drift_ppm }
    }

    /// What the clock shows at the true time `at`.
    #[inline]
    pub(crate) fn reading(self, at: Time) -> Time {
        if self.drift_ppm == 0 {
            return at + self.offset;
        }
        Time::from_nanos(divided(at, self.speed(), MILLION, 0)) + self.offset
    }

    /// The earliest true time at which the clock shows `reading`; [`Time::MAX`] if that is no time.
    #[inline]
    pub(crate) fn reached(self, reading: Time) -> Time {
        if reading == Time::MAX {
            return Time::MAX;
        }
        let passed = Time::ZERO + reading.since(Time::ZERO + self.offset);
        if self.drift_ppm == 0 {
            return passed;
        }
        let speed = self.speed();
        Time::from_nanos(divided(passed, MILLION, speed, speed - 1))
    }

    /// In parts per million.
    fn speed(self) -> i64 {
        MILLION + i64::from(self.drift_ppm)
    }
}

/// `(at * times + add) / by`, rounded down.
fn divided(at: Time, times: i64, by: i64, add: i64) -> u64 {
    let nanos = (i128::from(at.as_nanos()) * i128::from(times) + i128::from(add)) / i128::from(by);
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn clock(offset: Duration, drift_ppm: i32) -> HostClock {
        HostClock::new(Clock { offset, drift_ppm, jitter: Duration::from_secs(1) })
    }

    fn any_clock() -> impl Strategy<Value = HostClock> {
        (0..10_000_000_000_000_u64, prop_oneof![Just(0), -100_000..=100_000])
            .prop_map(|(offset, drift_ppm)| clock(Duration::from_nanos(offset), drift_ppm))
    }

    #[test]
    fn an_exact_clock_shows_true_time() {
        let exact = HostClock::new(Clock::default());
        for at in [0, 1, 1_234_567_890].map(Time::from_nanos) {
            assert_eq!((exact.reading(at), exact.reached(at)), (at, at));
        }
    }

    #[test]
    fn a_clock_has_the_given_offset_and_drift() {
        let (at, hour) = (Time::from_nanos(10_000_000_000), Duration::from_secs(3600));
        for (drift_ppm, reading) in [(0, 10_000_000_000), (200, 10_002_000_000), (-200, 9_998_000_000)] {
            let clock = clock(hour, drift_ppm);
            assert_eq!(clock.reading(at), Time::from_nanos(reading) + hour);
            assert_eq!(clock.reached(Time::from_nanos(reading) + hour), at);
        }
    }

    #[test]
    fn a_deadline_that_has_passed_is_due_and_none_stays_none() {
        let ahead = clock(Duration::from_secs(3), -200);
        assert_eq!(ahead.reached(Time::ZERO), Time::ZERO);
        assert_eq!(ahead.reached(Time::MAX), Time::MAX);
    }

    proptest! {
        #[test]
        fn a_deadline_is_due_at_the_earliest_time_that_shows_it(clock in any_clock(), at in 0..1_u64 << 50) {
            let deadline = Time::from_nanos(at);
            let due = clock.reached(deadline);
            prop_assert!(clock.reading(due) >= deadline);
            if due > Time::ZERO {
                prop_assert!(clock.reading(Time::from_nanos(due.as_nanos() - 1)) < deadline);
            }
        }

        #[test]
        fn a_reading_leads_back_to_its_time(clock in any_clock(), at in 0..1_u64 << 50) {
            let at = Time::from_nanos(at);
            let back = clock.reached(clock.reading(at));
            prop_assert!(back <= at && at.since(back) <= Duration::from_nanos(1), "a slow clock shows some readings twice");
        }

        #[test]
        fn readings_never_go_back(clock in any_clock(), at in 0..1_u64 << 50, later in 0..1_u64 << 40) {
            let at = Time::from_nanos(at);
            prop_assert!(clock.reading(at) <= clock.reading(at + Duration::from_nanos(later)));
        }
    }
}
