//! Capacity that varies: a link that may send some bytes at some times, and nothing in between.
//!
//! ```text
//!   opportunities     │1500    │3000 │1500            │4500
//!   time          ────┴────────┴─────┴────────────────┴──────►
//! ```
//!
//! Cellular, wireless, cable and satellite links work so: a scheduler grants bytes to a station at once. An opportunity
//! that finds the queue empty is lost. A packet that is larger than what is left of an opportunity continues in the next
//! one, and small packets share one, as in mahimahi.

mod trace;

use std::sync::Arc;

use rampmeter_units::{Bytes, Duration, Rate, Stream, Time};

pub use trace::{BYTES_PER_LINE, Trace, TraceError};

/// Bytes that may leave at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opportunity {
    /// When.
    pub at: Time,
    /// How many, more than zero.
    pub bytes: Bytes,
    /// The delay of these bytes in addition to the link's propagation delay.
    pub delay: Duration,
}

/// The capacity of a link, if it is not a constant rate.
#[derive(Debug, Clone)]
pub enum Capacity {
    /// A trace, repeated without end.
    Trace(Arc<Trace>),
}

impl Capacity {
    /// The mean rate.
    pub fn mean(&self) -> Rate {
        match self {
            Self::Trace(trace) => trace.mean(),
        }
    }

    /// The opportunities of one link.
    pub fn opportunities(&self, _random: Stream) -> Opportunities {
        match self {
            Self::Trace(trace) => Opportunities(Source::Trace(trace::Replay::new(Arc::clone(trace)))),
        }
    }
}

/// An endless sequence of opportunities at increasing times.
#[derive(Debug, Clone)]
pub struct Opportunities(Source);

#[derive(Debug, Clone)]
enum Source {
    Trace(trace::Replay),
}

impl Opportunities {
    /// The next one.
    #[allow(clippy::should_implement_trait, reason = "it never ends, so it returns no option")]
    pub fn next(&mut self) -> Opportunity {
        match &mut self.0 {
            Source::Trace(replay) => replay.next(),
        }
    }
}
