//! State that is common to all senders on the two hosts: starts and stops of flows, and the record of each flow.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rampmeter_scenario::{Degraded, FlowOutcome, FlowSample, Limits, Plan, WorldError};
use rampmeter_units::{Bytes, Time};
use rampmeter_workload::{AnyApplication, Application, End, Event, Path, Reply};

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
        pending.store(plan.flows.iter().filter(|flow| flow.bytes.is_some()).count(), Ordering::Relaxed);
        Self { plan, sides, hosts, clock: Clock::start(), over, pending }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Whether every transfer has ended.
    pub(crate) fn is_done(&self) -> bool {
        self.pending.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn host(&self, side: Side) -> &'a Host {
        self.hosts[side as usize]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FlowAction {
    /// The measurement of flows ends.
    Report,
    Sample,
    Stop(usize),
    Start(usize),
}

/// The actions for the flows that satisfy `belongs`, ordered by time.
pub(crate) fn actions(plan: &Plan, belongs: impl Fn(usize) -> bool) -> Vec<(Time, FlowAction)> {
    let mut actions: Vec<(Time, FlowAction)> = plan.samples().map(|at| (at, FlowAction::Sample)).collect();
    actions.push((Time::ZERO + plan.duration, FlowAction::Report));
    for (flow, planned) in plan.flows.iter().enumerate().filter(|(flow, _)| belongs(*flow)) {
        actions.push((planned.start, FlowAction::Start(flow)));
        actions.extend(planned.stop.map(|stop| (stop, FlowAction::Stop(flow))));
    }
    actions.sort();
    actions
}

#[derive(Debug, Default)]
pub(crate) struct FlowResults {
    pub(crate) flows: Vec<FlowOutcome>,
    pub(crate) samples: Vec<FlowSample>,
    pub(crate) degraded: Vec<Degraded>,
    /// Why the run has no outcome.
    pub(crate) failure: Option<WorldError>,
}

/// The output of an application at one end of its flow.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Outgoing {
    /// Bytes that were not yet written to the socket.
    pub(crate) unsent: u64,
    /// Whether the stream ends after these bytes.
    pub(crate) finish: bool,
}

/// A flow's application and outcome, for both kinds of senders.
#[derive(Debug)]
pub(crate) struct FlowRecord {
    pub(crate) outcome: FlowOutcome,
    application: AnyApplication,
    /// Bytes that the application at each end has read.
    read: [Bytes; 2],
    pub(crate) outgoing: [Outgoing; 2],
    /// Whether the run waits for the flow.
    pending: bool,
    reported: bool,
}

impl FlowRecord {
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
            limits: Limits::default(),
            report: rampmeter_workload::Report::default(),
        };
        let application = plan.application(flow);
        let (read, outgoing) = ([Bytes::ZERO; 2], [Outgoing::default(); 2]);
        Self { outcome, application, read, outgoing, pending: planned.bytes.is_some(), reported: false }
    }

    pub(crate) fn start(&mut self, run: &RunState<'_>, path: Path) -> Reply {
        let reply = self.application.on_start(run.clock.now(), path);
        self.apply(run, End::Sender, reply)
    }

    pub(crate) fn notify(&mut self, run: &RunState<'_>, end: End, event: &Event) -> Reply {
        let reply = self.application.on_event(run.clock.now(), end, event);
        self.apply(run, end, reply)
    }

    /// The application at `end` reads `bytes` more of the stream; `ended` is true at the end of the stream.
    pub(crate) fn read(&mut self, run: &RunState<'_>, end: End, bytes: u64, ended: bool) -> Reply {
        if end == End::Receiver {
            self.deliver(run, bytes);
        }
        let total = &mut self.read[end as usize];
        *total += Bytes::new(bytes);
        let event = Event::Read { total: *total, ended };
        self.notify(run, end, &event)
    }

    pub(crate) fn on_deadline(&mut self, run: &RunState<'_>, end: End) -> Reply {
        let reply = self.application.on_deadline(run.clock.now(), end);
        self.apply(run, end, reply)
    }

    /// When [`FlowRecord::on_deadline`] is due at `end`.
    pub(crate) fn deadline(&self, end: End) -> Time {
        self.application.deadline(end)
    }

    fn apply(&mut self, run: &RunState<'_>, end: End, reply: Reply) -> Reply {
        let outgoing = &mut self.outgoing[end as usize];
        outgoing.unsent += reply.write;
        outgoing.finish |= reply.finish;
        if reply.complete && self.outcome.fct.is_none() {
            self.outcome.fct = Some(run.clock.now().since(self.outcome.start));
            self.finish(run);
        }
        reply
    }

    pub(crate) fn deliver(&mut self, run: &RunState<'_>, bytes: u64) {
        let (now, plan) = (run.clock.now(), run.plan);
        self.outcome.delivered += Bytes::new(bytes);
        if Time::ZERO + plan.warmup <= now && now < Time::ZERO + plan.duration {
            self.outcome.delivered_measured += Bytes::new(bytes);
        }
    }

    pub(crate) fn stop(&mut self, run: &RunState<'_>) {
        self.report(run);
        self.application.on_stop(run.clock.now());
        self.outgoing = [Outgoing::default(); 2];
        self.finish(run);
    }

    /// Stores the application's report, once.
    pub(crate) fn report(&mut self, run: &RunState<'_>) {
        if !std::mem::replace(&mut self.reported, true) {
            self.outcome.report = self.application.report(run.clock.now());
        }
    }

    /// Marks the flow as finished: the run no longer waits for it.
    pub(crate) fn finish(&mut self, run: &RunState<'_>) {
        if std::mem::take(&mut self.pending) {
            run.pending.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
