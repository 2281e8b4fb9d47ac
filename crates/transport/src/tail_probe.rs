//! Tail loss probes: when the last packets of a flight may be lost, one more packet asks for feedback long before the
//! retransmission timer expires (RFC 8985 section 7).
//!
//! ```text
//! packets sent, no feedback for 2 smoothed_rtt ──► a probe: new data if there is some, else the last segment again
//! its receipt                                  ──► what was sent before it is lost by RACK's rule
//! no receipt                                   ──► the retransmission timer, started anew
//! ```

use rampmeter_units::{Duration, Time};

#[derive(Debug, Clone, Copy)]
pub(crate) struct TailProbe {
    enabled: bool,
    /// When a probe becomes due; [`Time::MAX`] while none is needed.
    pub(crate) at: Time,
    /// A probe waits for its permission to leave.
    pub(crate) is_due: bool,
    /// A probe has been sent. There is no other one until everything before this offset is acknowledged.
    sent: Option<u64>,
}

impl TailProbe {
    pub(crate) fn new(enabled: bool) -> Self {
        Self { enabled, at: Time::MAX, is_due: false, sent: None }
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// New feedback has come, or new data has left. `may_be_lost`: the packets in flight are the only open question,
    /// no loss is known.
    pub(crate) fn arm(&mut self, now: Time, timeout: Duration, retransmission: Time, may_be_lost: bool) {
        let is_armed = self.enabled && may_be_lost && self.sent.is_none() && !self.is_due;
        // Section 7.2: at the latest in place of the retransmission timer.
        self.at = if is_armed { (now + timeout).min(retransmission) } else { Time::MAX };
    }

    pub(crate) fn on_feedback(&mut self, una: u64) {
        self.is_due = false;
        self.sent = self.sent.filter(|&end| una < end);
    }

    pub(crate) fn on_timer(&mut self) {
        (self.at, self.is_due) = (Time::MAX, true);
    }

    /// The probe has left; `end` is the end of what has been sent.
    pub(crate) fn on_sent(&mut self, end: u64) {
        (self.is_due, self.sent) = (false, Some(end));
    }

    /// The retransmission timer has expired.
    pub(crate) fn cancel(&mut self) {
        *self = Self::new(self.enabled);
    }
}
