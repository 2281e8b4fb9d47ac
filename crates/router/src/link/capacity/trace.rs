//! Traces of a link's capacity, in the format of mahimahi's `mm-link` (Netravali et al., "Mahimahi: Accurate
//! Record-and-Replay for HTTP", USENIX ATC 2015, section 4).
//!
//! ```text
//!   3        in millisecond 3, 1500 bytes may leave
//!   5        in millisecond 5 two times as many
//!   5
//!   9        the trace lasts 9 ms: it repeats with 1500 bytes in millisecond 9 + 3
//! ```
//!
//! Lines with the same millisecond are one opportunity of that many bytes: packets see no difference.

use std::fmt::Write;
use std::sync::Arc;

use rampmeter_units::{Bytes, Duration, Rate, Time};
use thiserror::Error;

use super::Opportunity;

/// The bytes that may leave for each line of a trace.
pub const BYTES_PER_LINE: Bytes = Bytes::new(1500);

/// The maximum number of lines of a trace: 15 GB of capacity.
pub const MAX_LINES: usize = 10_000_000;

/// A trace, read and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Milliseconds in increasing order, each with its number of lines.
    milliseconds: Vec<(u32, u32)>,
    lines: u64,
}

/// Why a text is no trace.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {problem}")]
pub struct TraceError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and the remedy.
    pub problem: String,
}

impl Trace {
    /// Reads a trace.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut milliseconds: Vec<(u32, u32)> = Vec::new();
        let mut lines = 0;
        for (index, text) in text.lines().enumerate() {
            let fail = |problem| Err(TraceError { line: index + 1, problem });
            let Ok(millisecond) = text.trim().parse::<u32>() else {
                let found: String = text.trim().chars().take(20).collect();
                let expected = "write the millisecond in which 1500 bytes may leave, a whole number below 4294967296";
                return fail(format!("\"{}\" is not a time; {expected}", found.escape_debug()));
            };
            match milliseconds.last_mut() {
                Some((last, _)) if *last > millisecond => {
                    return fail(format!("millisecond {millisecond} follows {last}; sort the lines by time"));
                }
                Some((last, count)) if *last == millisecond => *count += 1,
                _ => milliseconds.push((millisecond, 1)),
            }
            lines = index + 1;
            if lines > MAX_LINES {
                return fail(format!("the trace has more than {MAX_LINES} lines; cut it, it repeats anyway"));
            }
        }
        let fail = |line, problem: &str| Err(TraceError { line, problem: problem.into() });
        match milliseconds.last() {
            None => {
                fail(1, "the trace is empty; write a line for each 1500 bytes, with the millisecond of its departure")
            }
            Some((0, _)) => {
                fail(lines, "the trace ends in millisecond 0, so it cannot be repeated; end it with a later one")
            }
            Some(_) => Ok(Self { milliseconds, lines: lines as u64 }),
        }
    }

    /// The trace of the first `length` of `opportunities`, as far as whole lines and milliseconds express it.
    pub fn record(opportunities: impl Iterator<Item = Opportunity>, length: Duration) -> String {
        let mut text = String::new();
        let mut rest = Bytes::ZERO;
        for opportunity in opportunities.take_while(|opportunity| opportunity.at < Time::ZERO + length) {
            rest += opportunity.bytes;
            while rest >= BYTES_PER_LINE {
                rest -= BYTES_PER_LINE;
                let _ = writeln!(text, "{}", opportunity.at.as_nanos() / 1_000_000);
            }
        }
        text
    }

    /// The time after which it repeats.
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.milliseconds.last().map_or(1, |(last, _)| u64::from(*last)))
    }

    /// The mean rate.
    pub fn mean(&self) -> Rate {
        Rate::of(BYTES_PER_LINE * self.lines, self.period())
    }
}

/// The opportunities of a trace that repeats without end.
#[derive(Debug, Clone)]
pub(super) struct Replay {
    trace: Arc<Trace>,
    /// The index of the next millisecond.
    next: usize,
    start: Time,
}

impl Replay {
    pub(super) fn new(trace: Arc<Trace>) -> Self {
        Self { trace, next: 0, start: Time::ZERO }
    }

    pub(super) fn next(&mut self) -> Opportunity {
        if self.next == self.trace.milliseconds.len() {
            self.next = 0;
            self.start += self.trace.period();
        }
        let (millisecond, lines) = self.trace.milliseconds[self.next];
        self.next += 1;
        let at = self.start + Duration::from_millis(millisecond.into());
        Opportunity { at, bytes: BYTES_PER_LINE * u64::from(lines), delay: Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn replay(text: &str) -> Replay {
        Replay::new(Arc::new(Trace::parse(text).unwrap()))
    }

    #[test]
    fn a_trace_repeats_after_its_last_millisecond() {
        let mut replay = replay("3\n5\n5\n9\n");
        let next = |_| {
            let Opportunity { at, bytes, .. } = replay.next();
            (at.as_nanos() / 1_000_000, bytes.as_u64())
        };
        let found: Vec<_> = (0..7).map(next).collect();
        assert_eq!(found, [(3, 1500), (5, 3000), (9, 1500), (12, 1500), (14, 3000), (18, 1500), (21, 1500)]);
    }

    #[test]
    fn the_mean_rate_counts_all_lines_over_the_period() {
        let trace = Trace::parse("0\r\n1\r\n4\r\n").unwrap();
        assert_eq!((trace.period(), trace.mean()), (Duration::from_millis(4), Rate::from_bps(9_000_000)));
    }

    #[test]
    fn a_broken_trace_is_refused_with_line_and_remedy() {
        for (text, line, remedy) in [
            ("", 1, "the trace is empty; write a line"),
            ("0\n0\n", 2, "end it with a later one"),
            ("1\n\n2\n", 2, "\"\" is not a time; write the millisecond"),
            ("1\n2.5\n", 2, "\"2.5\" is not a time"),
            ("1\n-2\n", 2, "a whole number below 4294967296"),
            ("4294967296\n", 1, "a whole number below 4294967296"),
            ("7\n8\n3\n", 3, "millisecond 3 follows 8; sort the lines by time"),
            ("\u{1}\u{fffd}\n", 1, "\"\\u{1}\u{fffd}\" is not a time"),
        ] {
            let error = Trace::parse(text).unwrap_err();
            assert_eq!(error.line, line, "{text:?}: {error}");
            assert!(error.problem.contains(remedy), "{text:?}: {error}");
        }
        let text = "1\n".repeat(MAX_LINES + 1);
        let error = Trace::parse(&text).unwrap_err();
        assert!(error.problem.contains("cut it"), "{error}");
        assert!(Trace::parse(&text[2..]).is_ok());
    }

    proptest! {
        #[test]
        fn a_recorded_trace_is_the_trace(steps in prop::collection::vec(0..20u32, 1..50)) {
            let times: Vec<u32> = steps.iter().scan(1, |at, step| { *at += step; Some(*at) }).collect();
            let text = times.iter().fold(String::new(), |text, at| text + &at.to_string() + "\n");
            let mut replay = replay(&text);
            let end = Duration::from_millis(u64::from(*times.last().unwrap()) + 1);
            prop_assert_eq!(Trace::record(std::iter::from_fn(move || Some(replay.next())), end), text);
        }
    }
}
