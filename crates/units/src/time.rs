//! Instants and spans of time, in integer nanoseconds.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use crate::quantity::{Form, quantity};

/// An instant: nanoseconds since the start of the world. Each world defines its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

/// A span of time, in nanoseconds; never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(u64);

impl Time {
    /// The start of the world.
    pub const ZERO: Self = Self(0);
    /// Later than any instant of a run: about 584 years.
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The span since `earlier`, or zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// The longest span.
    pub const MAX: Self = Self(u64::MAX);

    /// A span of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A span of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000)
    }

    /// A span of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// A span of `secs` seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000_000)
    }

    /// A span of `secs` seconds, rounded to a nanosecond; negative and NaN become zero.
    pub fn from_secs_f64(secs: f64) -> Self {
        Self((secs * 1e9).round() as u64)
    }

    /// Nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The absolute difference of two spans.
    #[must_use]
    pub const fn abs_diff(self, other: Self) -> Self {
        Self(self.0.abs_diff(other.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, span: Duration) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.9} s", self.as_secs_f64())
    }
}

quantity!(
    Duration,
    Form {
        what: "a length of time",
        units: [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)],
        others: &[
            ("\u{b5}s", 1_000), // the micro sign, and the Greek letter
            ("\u{3bc}s", 1_000),
            ("sec", 1_000_000_000),
            ("min", 60_000_000_000),
            ("h", 3_600_000_000_000),
        ],
        ambiguous: &[("m", ["min", "ms"])],
        names: "ns, us, ms, s, min, h",
        example: "12.5 ms",
        max: None,
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        for (text, nanos) in [
            ("12.5 ms", 12_500_000),
            ("3s", 3_000_000_000),
            ("250 us", 250_000),
            ("7 ns", 7),
            ("2 min", 120_000_000_000),
        ] {
            let span: Duration = text.parse().unwrap();
            assert_eq!(span.as_nanos(), nanos);
            assert_eq!(span.to_string().parse::<Duration>().unwrap(), span);
        }
    }

    #[test]
    fn an_invalid_length_is_refused_with_the_remedy() {
        let error = "12 parsecs".parse::<Duration>().unwrap_err().to_string();
        assert!(error.contains("12 parsecs") && error.contains("ms"), "{error}");
        let error = "5m".parse::<Duration>().unwrap_err().to_string();
        assert!(error.ends_with("write 5 min or 5 ms: it may mean either"), "{error}");
        assert!("-3 ms".parse::<Duration>().is_err());
        assert!("ms".parse::<Duration>().is_err());
    }

    #[test]
    fn since_is_never_negative() {
        assert_eq!(Time::ZERO.since(Time::from_nanos(5)), Duration::ZERO);
    }
}
