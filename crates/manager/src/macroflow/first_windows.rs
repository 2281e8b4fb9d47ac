//! First windows: one for each flow that has data, as the TCP connections would have whose place the flows take.
//!
//! A TCP connection starts with ten packets (RFC 6928 section 2). Six connections to a server, as a browser opens for a
//! page, have 60 packets in the first round trip; six flows of one macroflow have ten, and need three round trips more.
//!
//! ```text
//! start, or the end of an idle time:    one first window
//! n active flows, n up to a maximum:    n first windows, until the next idle time
//! the first loss:                       no further first windows, until the next idle time
//! ```
//!
//! *Deviation* from the Congestion Manager's paper, whose macroflow starts as one connection does. It is off unless
//! [`crate::Sharing::first_windows`] is more than one. A host with more flows than that is less aggressive than with
//! connections.

use rampmeter_control::{Controller, Notice};
use rampmeter_units::Time;

use super::Macroflow;

#[derive(Debug)]
pub(super) struct FirstWindows {
    max: usize,
    /// The number that the controller has.
    given: usize,
    has_lost: bool,
}

impl FirstWindows {
    pub(super) fn new(max: usize) -> Self {
        Self { max, given: 1, has_lost: false }
    }

    /// The controller starts, or starts over.
    pub(super) fn restart(&mut self) {
        (self.given, self.has_lost) = (1, false);
    }

    pub(super) fn on_loss(&mut self) {
        self.has_lost = true;
    }

    /// The maximum, if it is not reached and more may be given.
    fn limit(&self) -> Option<usize> {
        (self.given < self.max && !self.has_lost).then_some(self.max)
    }
}

impl<C: Controller> Macroflow<C> {
    /// The maximum number of active flows that matters, if another active flow may change anything.
    pub(crate) fn first_windows_limit(&self) -> Option<usize> {
        self.first_windows.limit().filter(|_| self.started)
    }

    /// There are `active` flows that have requested to send or have bytes in flight.
    pub(crate) fn on_active_flows(&mut self, now: Time, active: usize) {
        if active > self.first_windows.given {
            self.first_windows.given = active;
            self.controller.on_notice(now, Notice::FirstWindows(active));
        }
    }
}
