//! What is sent and never reported: by a process that has no feedback, or whose receiver is gone.
//!
//! Two retransmission timeouts after that, and no sooner than a second, it no longer counts as outstanding, and unless the
//! path's other flows have news the rate ages until there is some (section 4.4). Who tells of it later is still believed.

use rampmeter_units::{Bytes, Duration, Time};

use super::Host;

/// No feedback is missed sooner.
const MIN_PATIENCE: Duration = Duration::from_secs(1);

/// Retransmission timeouts that it may take.
const TIMEOUTS: u64 = 2;

/// What a flow may tell of late, at most.
const MAX_LATE: Bytes = Bytes::new(16_000_000);

impl Host {
    /// How long a flow may take to say what became of its packets.
    pub(super) fn patience(&self, index: usize) -> Duration {
        let flow = self.flows.get(index).and_then(Option::as_ref);
        let timeout = flow.and_then(|flow| self.manager.round_trip(flow.manager_id)).map(|(_, timeout)| timeout);
        timeout.map_or(MIN_PATIENCE, |timeout| (timeout * TIMEOUTS).max(MIN_PATIENCE))
    }

    /// The flow has sent something, or has said what became of some of it.
    pub(super) fn await_news(&mut self, now: Time, index: usize) {
        let patience = self.patience(index);
        let Some(flow) = &mut self.flows[index] else { return };
        if flow.on_its_way() == Bytes::ZERO {
            flow.unreported = None;
            return;
        }
        let since = *flow.unreported.get_or_insert(now);
        self.timers.arm(index as u32, since + patience);
    }

    /// Nothing has been said for long: what the flow has on its way is nobody's any more.
    pub(super) fn give_back(&mut self, now: Time, index: usize) {
        let patience = self.patience(index);
        let Some(Some(flow)) = self.flows.get_mut(index) else { return };
        let Some(since) = flow.unreported.filter(|since| *since + patience <= now) else { return };
        let gone = flow.on_its_way();
        flow.in_flight = flow.in_flight.saturating_sub(gone);
        flow.late = (flow.late + gone).min(MAX_LATE);
        flow.unreported = None;
        let flow = flow.manager_id;
        self.manager.fall_silent(now, flow, since);
        self.manager.take_back(now, flow, gone);
    }
}
