//! What whoever runs flows on the two hosts must know, do and tell: when flows start and stop, and what became of each.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rampmeter_scenario::{Degraded, FlowOutcome, FlowSample, Plan};
use rampmeter_units::{Bytes, Time};
use rampmeter_workload::{AnyApplication, Application, End, Event, Path, Reply};

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
    /// Flows are measured up to here.
    Report,
    Sample,
    Stop(usize),
    Start(usize),
}

/// What is to do for the flows that `belong`, in the order of time.
pub(crate) fn acts(plan: &Plan, belongs: impl Fn(usize) -> bool) -> Vec<(Time, Act)> {
    let mut acts: Vec<(Time, Act)> = plan.samples().map(|at| (at, Act::Sample)).collect();
    acts.push((Time::ZERO + plan.duration, Act::Report));
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

/// What an application has yet to write at one end of its flow.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Outgoing {
    /// Bytes.
    pub(crate) unsent: u64,
    /// The stream ends behind them.
    pub(crate) finish: bool,
}

/// A flow's application and its account, whoever carries its packets.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) outcome: FlowOutcome,
    application: AnyApplication,
    /// Bytes that the application at each end has read.
    read: [Bytes; 2],
    /// By end.
    pub(crate) outgoing: [Outgoing; 2],
    /// The run waits for it.
    pending: bool,
    reported: bool,
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
            report: rampmeter_workload::Report::default(),
        };
        let application = plan.application(planned);
        let (read, outgoing) = ([Bytes::ZERO; 2], [Outgoing::default(); 2]);
        Self { outcome, application, read, outgoing, pending: planned.bytes.is_some(), reported: false }
    }

    /// The sender has opened it.
    pub(crate) fn start(&mut self, stage: &Stage<'_>, path: Path) -> Reply {
        let reply = self.application.on_start(stage.clock.now(), path);
        self.note(stage, End::Sender, reply)
    }

    /// Something happened to it.
    pub(crate) fn tell(&mut self, stage: &Stage<'_>, end: End, event: &Event) -> Reply {
        let reply = self.application.on_event(stage.clock.now(), end, event);
        self.note(stage, end, reply)
    }

    /// The application at `end` reads `bytes` more of the stream, which has `ended` there or not.
    pub(crate) fn read(&mut self, stage: &Stage<'_>, end: End, bytes: u64, ended: bool) -> Reply {
        if end == End::Receiver {
            self.deliver(stage, bytes);
        }
        let total = &mut self.read[end as usize];
        *total += Bytes::new(bytes);
        let event = Event::Read { total: *total, ended };
        self.tell(stage, end, &event)
    }

    /// A deadline has come.
    pub(crate) fn on_deadline(&mut self, stage: &Stage<'_>, end: End) -> Reply {
        let reply = self.application.on_deadline(stage.clock.now(), end);
        self.note(stage, end, reply)
    }

    /// When [`Account::on_deadline`] is due at `end`.
    pub(crate) fn deadline(&self, end: End) -> Time {
        self.application.deadline(end)
    }

    fn note(&mut self, stage: &Stage<'_>, end: End, reply: Reply) -> Reply {
        let outgoing = &mut self.outgoing[end as usize];
        outgoing.unsent += reply.write;
        outgoing.finish |= reply.finish;
        if reply.complete && self.outcome.fct.is_none() {
            self.outcome.fct = Some(stage.clock.now().since(self.outcome.start));
            self.settle(stage);
        }
        reply
    }

    /// The receiver's application gets `bytes`.
    pub(crate) fn deliver(&mut self, stage: &Stage<'_>, bytes: u64) {
        let (now, plan) = (stage.clock.now(), stage.plan);
        self.outcome.delivered += Bytes::new(bytes);
        if Time::ZERO + plan.warmup <= now && now < Time::ZERO + plan.duration {
            self.outcome.delivered_measured += Bytes::new(bytes);
        }
    }

    /// The plan stops it.
    pub(crate) fn stop(&mut self, stage: &Stage<'_>) {
        self.report(stage);
        self.application.on_stop(stage.clock.now());
        self.outgoing = [Outgoing::default(); 2];
        self.settle(stage);
    }

    /// Has its application say how it went, once.
    pub(crate) fn report(&mut self, stage: &Stage<'_>) {
        if !std::mem::replace(&mut self.reported, true) {
            self.outcome.report = self.application.report(stage.clock.now());
        }
    }

    /// The run waits for it no longer.
    pub(crate) fn settle(&mut self, stage: &Stage<'_>) {
        if std::mem::take(&mut self.pending) {
            stage.pending.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
