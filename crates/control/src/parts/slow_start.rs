//! How the first slow start of a window scheme ends: a setting of each of them.
//!
//! ```text
//! standard    with a loss or a mark                                       RFC 5681
//! hystart     when delays start to grow, or a window builds a queue       `hystart.rs`, RFC 9406
//! search      when the path delivers clearly less than was sent           `search.rs`, draft-chung-ccwg-search-09
//! ```
//!
//! Later slow starts end at the threshold of a loss, with any of them.

use rampmeter_units::Bytes;
use serde::{Deserialize, Serialize};

use crate::parts::events::AckEvent;
use crate::parts::hystart::HyStart;
use crate::parts::search::Search;
use crate::parts::window::Amount;

/// How the first slow start ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SlowStart {
    /// With a loss or a mark (RFC 5681).
    #[default]
    Standard,
    /// When delays start to grow (RFC 9406, `HyStart++`), or when a single window builds a queue.
    Hystart,
    /// When the path delivers less than was sent (draft-chung-ccwg-search-09).
    Search,
}

/// What an acknowledgement does in slow start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Step {
    /// The window grows by so much.
    Grow(Amount),
    /// Slow start ends, with at most this window.
    End(Bytes),
}

/// Watches the first slow start.
#[derive(Debug, Clone, Default)]
pub(crate) enum Detector {
    /// Nothing ends it but losses and marks, or it is over.
    #[default]
    None,
    HyStart(HyStart),
    Search(Box<Search>),
}

impl Detector {
    pub(crate) fn new(slow_start: SlowStart) -> Self {
        match slow_start {
            SlowStart::Standard => Self::None,
            SlowStart::Hystart => Self::HyStart(HyStart::default()),
            SlowStart::Search => Self::Search(Box::default()),
        }
    }

    /// Whether slow start is conservative (RFC 9406).
    pub(crate) fn is_conservative(&self) -> bool {
        matches!(self, Self::HyStart(hystart) if hystart.is_conservative())
    }

    pub(crate) fn on_sent(&mut self, bytes: Bytes) {
        if let Self::Search(search) = self {
            search.on_sent(bytes);
        }
    }

    /// Bytes that were sent did not leave.
    pub(crate) fn on_unsent(&mut self, bytes: Bytes) {
        if let Self::Search(search) = self {
            search.on_unsent(bytes);
        }
    }

    /// An acknowledgement arrived that may not increase the window.
    pub(crate) fn on_other_ack(&mut self, event: &AckEvent<'_>) {
        if let Self::Search(search) = self {
            search.measure(event);
        }
    }

    /// An acknowledgement arrived that adds `step`, if slow start does not end.
    pub(crate) fn on_ack(&mut self, event: &AckEvent<'_>, step: Amount) -> Step {
        match self {
            Self::None => Step::Grow(step),
            Self::HyStart(hystart) => hystart.slow_start(event, step).map_or(Step::End(event.window_bytes), Step::Grow),
            Self::Search(search) => search.measure(event).map_or(Step::Grow(step), Step::End),
        }
    }
}
