//! What whoever runs flows on the two hosts must know, do and tell: when flows start and stop, and what became of each.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rampmeter_scenario::{Degraded, FlowOutcome, FlowSample, Plan, SourceOutcome};
use rampmeter_units::{Bytes, Time};

use crate::clock::Clock;
use crate::host::Host;
use crate::sides::{Side, Sides};

/// What there is to know.
#[derive(Clone, Copy)]
pub(crate) struct Stage<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) sides: &'a Sides,
    pub(crate) hosts: [&'a Host; 2],
    pub(crate) clock: Clock,
    /// The run is over.
    over: &'a AtomicBool,
    /// Transfers that it still waits for.
    pending: &'a AtomicUsize,
}

impl<'a> Stage<'a> {
    /// Before anything has begun.
    pub(crate) fn new(
        plan: &'a Plan,
        sides: &'a Sides,
        hosts: [&'a Host; 2],
        over: &'a AtomicBool,
        pending: &'a AtomicUsize,
    ) -> Self {
        pending.store(plan.flows.iter().filter(|flow| flow.bytes.is_some()).count(), Ordering::Relaxed);
        Self { plan, sides, hosts, clock: Clock::start(), over, pending }
    }

    /// Whether the run is over.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Whether every transfer has ended.
    pub(crate) fn is_done(&self) -> bool {
        self.pending.load(Ordering::Relaxed) == 0
    }

    /// Declares the run over.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// The real host on `side`.
    pub(crate) fn host(&self, side: Side) -> &'a Host {
        self.hosts[side as usize]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Act {
    Sample,
    Stop(usize),
    Start(usize),
}

/// What is to do for the flows that `belong`, in the order of time.
pub(crate) fn acts(plan: &Plan, belongs: impl Fn(usize) -> bool) -> Vec<(Time, Act)> {
    let mut acts: Vec<(Time, Act)> = plan.samples().map(|at| (at, Act::Sample)).collect();
    for (flow, planned) in plan.flows.iter().enumerate().filter(|(flow, _)| belongs(*flow)) {
        acts.push((planned.start, Act::Start(flow)));
        acts.extend(planned.stop.map(|stop| (stop, Act::Stop(flow))));
    }
    acts.sort();
    acts
}

/// What the hosts have to tell at the end: of some flows of the plan.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) flows: Vec<FlowOutcome>,
    pub(crate) samples: Vec<FlowSample>,
    pub(crate) degraded: Vec<Degraded>,
}

/// A flow's account.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) outcome: FlowOutcome,
    wanted: Option<Bytes>,
    /// The run waits for it.
    pending: bool,
}

impl Account {
    /// Of a flow that starts at `now`.
    pub(crate) fn new(plan: &Plan, flow: usize, now: Time) -> Self {
        let planned = &plan.flows[flow];
        let outcome = FlowOutcome {
            flow,
            traffic: planned.traffic,
            scheme: planned.scheme,
            start: now,
            fct: None,
            delivered: Bytes::ZERO,
            delivered_measured: Bytes::ZERO,
            sent_packets: 0,
            retransmitted_packets: 0,
            just_below_share: None,
        };
        Self { outcome, wanted: planned.bytes, pending: planned.bytes.is_some() }
    }

    /// The receiver's application gets `bytes`.
    pub(crate) fn deliver(&mut self, stage: &Stage<'_>, bytes: u64) {
        let (now, plan) = (stage.clock.now(), stage.plan);
        self.outcome.delivered += Bytes::new(bytes);
        if Time::ZERO + plan.warmup <= now && now < Time::ZERO + plan.duration {
            self.outcome.delivered_measured += Bytes::new(bytes);
        }
        if bytes > 0 && self.wanted == Some(self.outcome.delivered) {
            self.outcome.fct = Some(now.since(self.outcome.start));
            self.settle(stage);
        }
    }

    /// It is to transfer this much.
    pub(crate) fn want(&mut self, bytes: Bytes) {
        self.wanted = Some(bytes);
    }

    /// What its source of datagrams has come to.
    pub(crate) fn take(&mut self, source: SourceOutcome) {
        self.outcome.sent_packets = source.sent;
        self.outcome.just_below_share = source.just_below_share;
    }

    /// The run waits for it no longer.
    pub(crate) fn settle(&mut self, stage: &Stage<'_>) {
        if std::mem::take(&mut self.pending) {
            stage.pending.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
