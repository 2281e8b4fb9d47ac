//! What all threads of a run share.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rampmeter_scenario::Plan;
use rampmeter_units::Time;

use crate::clock::Clock;
use crate::host::Host;
use crate::sides::{Side, Sides};

#[derive(Clone, Copy)]
pub(crate) struct RunState<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) sides: &'a Sides,
    pub(crate) hosts: [&'a Host; 2],
    pub(crate) clock: Clock,
    over: &'a AtomicBool,
    /// Unfinished transfers that the run waits for.
    pending: &'a AtomicUsize,
}

impl<'a> RunState<'a> {
    pub(crate) fn new(
        plan: &'a Plan,
        sides: &'a Sides,
        hosts: [&'a Host; 2],
        over: &'a AtomicBool,
        pending: &'a AtomicUsize,
    ) -> Self {
        let end = Time::ZERO + plan.duration;
        let transfers = plan.flows.iter().filter(|flow| flow.bytes.is_some() && flow.start < end);
        pending.store(transfers.count(), Ordering::Relaxed);
        Self { plan, sides, hosts, clock: Clock::start(), over, pending }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Whether every transfer has ended.
    pub(crate) fn is_done(&self) -> bool {
        self.pending.load(Ordering::Relaxed) == 0
    }

    /// This number of transfers have ended.
    pub(crate) fn complete(&self, transfers: usize) {
        self.pending.fetch_sub(transfers, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn host(&self, side: Side) -> &'a Host {
        self.hosts[side as usize]
    }
}
