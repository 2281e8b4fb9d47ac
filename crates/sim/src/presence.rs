//! A host in the simulation's time: how far it is ahead, and its stalls.

use std::collections::VecDeque;

use rampmeter_scenario::Stalling;
use rampmeter_units::Time;

use crate::packet::InTransit;

/// The stalls of a host, and what waits for their end.
#[derive(Debug)]
pub(crate) struct Stalled {
    stalling: Stalling,
    /// Packets that arrived during a stall and are not yet processed.
    pub(crate) backlog: VecDeque<InTransit>,
    /// When the host can process the next packet of the backlog.
    pub(crate) ready_at: Time,
    /// Whether the host had output during a stall.
    pub(crate) output_pending: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Presence {
    /// The local time, which may be ahead of the simulation's.
    pub(crate) local_time: Time,
    /// The host's deadline since its last output.
    pub(crate) deadline: Time,
    pub(crate) stalled: Option<Box<Stalled>>,
}

impl Presence {
    pub(crate) fn new(stalling: Option<Stalling>) -> Self {
        let stalled = |stalling| {
            Box::new(Stalled { stalling, backlog: VecDeque::new(), ready_at: Time::ZERO, output_pending: false })
        };
        Self { local_time: Time::ZERO, deadline: Time::MAX, stalled: stalling.map(stalled) }
    }

    /// The next deadline of the host, or its local time if the deadline is before it.
    #[inline]
    pub(crate) fn due(&self) -> Time {
        self.deadline.max(self.local_time)
    }

    /// When the current stall ends; none if the host is not stalled.
    #[inline]
    pub(crate) fn stalled_until(&mut self, now: Time) -> Option<Time> {
        self.stalled.as_mut()?.stalling.until(now)
    }
}
