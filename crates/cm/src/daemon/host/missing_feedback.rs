//! Bytes that are sent and never reported: by a process without feedback, or whose receiver has ended.
//!
//! After two retransmission timeouts, and at least a second, these bytes no longer count as in flight. Unless feedback
//! arrives for other flows of the path, the rate ages until there is some (section 4.4). Later reports about these
//! bytes still count.

use rampmeter_units::{Bytes, Duration, Time};

use super::Host;

const MIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The feedback timeout in retransmission timeouts.
const TIMEOUTS: u64 = 2;

/// The maximum number of removed bytes that a flow may still report.
const MAX_LATE_REPORTS: Bytes = Bytes::new(16_000_000);

impl Host {
    pub(super) fn feedback_timeout(&self, index: usize) -> Duration {
        let flow = self.flows.get(index).and_then(Option::as_ref);
        let timeout = flow.and_then(|flow| self.manager.round_trip(flow.manager_id)).map(|(_, timeout)| timeout);
        timeout.map_or(MIN_TIMEOUT, |timeout| (timeout * TIMEOUTS).max(MIN_TIMEOUT))
    }

    /// The flow has sent or reported something: arms its feedback timer.
    pub(super) fn arm_feedback_timer(&mut self, now: Time, index: usize) {
        let timeout = self.feedback_timeout(index);
        let Some(flow) = &mut self.flows[index] else { return };
        if flow.sent_in_flight() == Bytes::ZERO {
            flow.unreported_since = None;
            return;
        }
        let since = *flow.unreported_since.get_or_insert(now);
        self.timers.arm(index as u32, since + timeout);
    }

    /// After the feedback timeout: the flow's bytes no longer count as in flight.
    pub(super) fn remove_unreported(&mut self, now: Time, index: usize) {
        let timeout = self.feedback_timeout(index);
        let Some(Some(flow)) = self.flows.get_mut(index) else { return };
        let Some(since) = flow.unreported_since.filter(|since| *since + timeout <= now) else { return };
        let removed = flow.sent_in_flight();
        flow.in_flight = flow.in_flight.saturating_sub(removed);
        flow.late_reports = (flow.late_reports + removed).min(MAX_LATE_REPORTS);
        flow.unreported_since = None;
        let flow = flow.manager_id;
        self.manager.on_feedback_overdue(now, flow, since);
        self.manager.discard_in_flight(now, flow, removed);
    }
}
