//! What hosts do on their own account: flows start and stop, meters sample. And what comes of it.

use rampmeter_scenario::{FlowOutcome, FlowSample, Plan};
use rampmeter_units::{Bytes, Duration, Time};

use crate::timeline::samples;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Act {
    Sample,
    Stop(usize),
    Start(usize),
}

/// What is to do for the flows that `belong`, in the order of time.
pub(crate) fn acts(plan: &Plan, belongs: impl Fn(usize) -> bool) -> Vec<(Time, Act)> {
    let mut acts: Vec<(Time, Act)> = samples(plan).map(|at| (at, Act::Sample)).collect();
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
}

/// A flow's account.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) outcome: FlowOutcome,
    measured: (Time, Time),
    wanted: Option<Bytes>,
}

impl Account {
    pub(crate) fn new(plan: &Plan, flow: usize) -> Self {
        let planned = &plan.flows[flow];
        let outcome = FlowOutcome {
            flow,
            traffic: planned.traffic,
            scheme: planned.scheme,
            start: planned.start,
            response: None,
            delivered: Bytes::ZERO,
            delivered_measured: Bytes::ZERO,
            sent_packets: 0,
            retransmitted_packets: 0,
        };
        let measured = (Time::ZERO + plan.warmup, Time::ZERO + plan.duration);
        Self { outcome, measured, wanted: planned.bytes }
    }

    /// The receiver's application gets `bytes`. Whether they were the last it waited for.
    pub(crate) fn deliver(&mut self, now: Time, bytes: u64) -> bool {
        self.outcome.delivered += Bytes::new(bytes);
        if self.measured.0 <= now && now < self.measured.1 {
            self.outcome.delivered_measured += Bytes::new(bytes);
        }
        let last = bytes > 0 && self.wanted == Some(self.outcome.delivered);
        if last {
            self.outcome.response = Some(self.age(now));
        }
        last
    }

    fn age(&self, now: Time) -> Duration {
        now.since(self.outcome.start)
    }
}
