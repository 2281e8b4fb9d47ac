//! Rivals: flows that don't give way. Against them PCP competes as TCP would (section 3.5).
//!
//! The paper's tit for tat takes compensation that has no effect for a sign of TCP. Where many PCP flows share a link it
//! has no effect either, for any one of them, and letting go then runs the queue away. A better sign is *clearing*: all
//! PCP flows make way at once, and the queue empties. If it does not, somebody does not make way.
//!
//! ```text
//! courteous ── two clearings in a row fail ──► competing ── two in a row succeed ──► courteous
//! ```
//!
//! *Competing*: the rate grows by a packet a round trip, each round trip, and is halved by a loss, once a round trip. Not
//! a tenth of the compensation, as in the paper: that is still too much against a queue that TCP keeps full, and nothing
//! says when it is too little.

use rampmeter_units::{Duration, Time};

/// Clearings in a row that fail, or succeed, until the flow believes it.
const IN_A_ROW: u32 = 2;

/// Round trips from a clearing's begin until its effect has been seen.
const SEEN_AFTER: f64 = 3.5;

/// Share of the queue that a clearing leaves at most, if it worked.
const LEFT: f64 = 0.25;

#[derive(Debug, Clone, Default)]
pub(super) struct Rivals {
    /// The clearing whose effect is awaited.
    awaited: Option<Awaited>,
    /// Clearings in a row that said the opposite of what the flow believes.
    contrary: u32,
    competing: bool,
    halved_at: Option<Time>,
    grown_at: Time,
}

#[derive(Debug, Clone, Copy)]
struct Awaited {
    until: Time,
    before: Duration,
    least: Duration,
}

impl Rivals {
    /// A clearing begins; the queue has been `before` at least.
    pub(super) fn on_clearing(&mut self, now: Time, rtt: Duration, before: Duration) {
        self.awaited = Some(Awaited { until: now + rtt.scale(SEEN_AFTER), before, least: before });
    }

    /// The shortest wait of the last round trip is `least`; `near` is as good as none.
    pub(super) fn observe(&mut self, now: Time, least: Duration, near: Duration) {
        let Some(awaited) = &mut self.awaited else { return };
        awaited.least = awaited.least.min(least);
        let emptied = awaited.least <= near.max(awaited.before.scale(LEFT));
        if now < awaited.until && !emptied {
            return;
        }
        self.awaited = None;
        self.contrary = if emptied == self.competing { self.contrary + 1 } else { 0 };
        if self.contrary >= IN_A_ROW {
            self.competing = !self.competing;
            self.contrary = 0;
            self.grown_at = now;
        }
    }

    pub(super) fn is_competing(&self) -> bool {
        self.competing
    }

    /// Round trips since this was asked last.
    pub(super) fn round_trips(&mut self, now: Time, rtt: Duration) -> f64 {
        let since = now.since(self.grown_at).as_secs_f64() / rtt.as_secs_f64();
        self.grown_at = now;
        since.min(1.0)
    }

    /// A packet was lost: whether to halve the rate.
    pub(super) fn halves(&mut self, now: Time, rtt: Duration) -> bool {
        let halves = self.competing && self.halved_at.is_none_or(|at| now.since(at) > rtt);
        if halves {
            self.halved_at = Some(now);
        }
        halves
    }
}
