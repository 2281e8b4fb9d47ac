//! What a run yields.

use rampmeter_control::Controller;
use rampmeter_router::{Backlog, Counts, Link, Parcel, QueueSummary, Router};
use rampmeter_units::{Bytes, Duration, Rate, Time, exact};
use rampmeter_workload::{Carrier, Report};
use serde::{Deserialize, Serialize};

use crate::{LinkId, Plan, QueueId};

/// What a run yields.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// One entry per flow of the plan, in its order.
    pub flows: Vec<FlowOutcome>,
    /// One entry per measured link, in the plan's order.
    pub links: Vec<LinkOutcome>,
    /// Samples over time, if the plan asks for them.
    pub series: Series,
    /// Packets with payload that reached their receivers, over the whole run.
    pub data_packets: u64,
    /// Flows whose controllers could not work as their schemes do, in the order of their reports.
    pub degraded: Vec<Degraded>,
    /// How late packets left the network; `None` where time is not real.
    pub host_jitter: Option<HostJitter>,
}

/// A flow whose controller could not work as its scheme does ([`Controller::degraded_reason`]), for some time at least.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Degraded {
    /// Its place in [`crate::Plan::flows`].
    pub flow: usize,
    /// Why, and what the controller does instead.
    pub reason: String,
}

/// How late packets left the network of a world with a real clock. If this is more than a fraction of a round trip, the
/// results describe a busy machine and not the schemes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostJitter {
    /// Half of all packets left the network no later than this after they should have.
    #[serde(with = "exact")]
    pub p50: Duration,
    /// 99% did.
    #[serde(with = "exact")]
    pub p99: Duration,
    /// The latest.
    #[serde(with = "exact")]
    pub max: Duration,
}

/// What became of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FlowOutcome {
    /// Its place in [`crate::Plan::flows`].
    pub flow: usize,
    /// Its kind, in [`crate::Plan::traffic`].
    pub traffic: usize,
    /// How it sent, in [`crate::Plan::schemes`].
    pub scheme: usize,
    /// When its connection opened.
    #[serde(with = "exact")]
    pub start: Time,
    /// Flow completion time: from there until the receiver's application had the last byte; `None` if it never did.
    #[serde(with = "exact")]
    pub fct: Option<Duration>,
    /// Stream bytes the receiver's application got.
    #[serde(with = "exact")]
    pub delivered: Bytes,
    /// Of these, what it got between `warmup` and `duration`.
    #[serde(with = "exact")]
    pub delivered_measured: Bytes,
    /// Packets with payload sent, repetitions included.
    pub sent_packets: u64,
    /// Packets that repeated stream bytes.
    pub retransmitted_packets: u64,
    /// What its application measured.
    pub report: Report,
}

impl FlowOutcome {
    /// Bits a second for the application: a transfer's size over its completion time, or what a long-lived flow got
    /// between `warmup` and `duration` over the part of that time in which it lived. `None` if the one never ended, or
    /// the other never lived then.
    pub fn goodput_bps(&self, plan: &Plan) -> Option<f64> {
        let flow = &plan.flows[self.flow];
        let (bytes, span) = if flow.bytes.is_some() {
            (self.delivered, self.fct?.max(Duration::from_nanos(1)))
        } else {
            let (warmup, end) = (Time::ZERO + plan.warmup, Time::ZERO + plan.duration);
            (self.delivered_measured, flow.stop.unwrap_or(end).min(end).since(flow.start.max(warmup)))
        };
        (span > Duration::ZERO).then(|| bytes.as_f64() * 8.0 / span.as_secs_f64())
    }

    /// Of a flow of datagrams, how many did not arrive over the whole run; those that are on their way at its end are
    /// among them. `None` of other flows.
    pub fn lost_datagrams(&self, plan: &Plan) -> Option<u64> {
        let Carrier::Datagrams(size) = plan.traffic[self.traffic].workload.carrier() else { return None };
        Some(self.sent_packets.saturating_sub(self.delivered.as_u64() / size.as_u64()))
    }
}

/// What became of a measured link, or of what crosses an island, between `warmup` and `duration`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkOutcome {
    /// Its queue in the plan.
    pub id: QueueId,
    /// Its name.
    pub name: String,
    /// Bytes transmitted over what its rate allowed.
    pub utilization: f64,
    /// Its queue.
    pub queue: QueueSummary,
    /// Its packets.
    pub counts: Counts,
}

impl LinkOutcome {
    /// What `link` of `plan` has seen from [`Link::start_measuring`] up to `now`.
    pub fn of<P: Parcel, R: Router<P>>(plan: &Plan, id: LinkId, link: &mut Link<P, R>, now: Time) -> Self {
        link.advance(now);
        Self {
            id: QueueId::Link(id),
            name: plan.links[id.0].name.clone(),
            utilization: link.utilization(now),
            queue: link.queue().map(|queue| queue.summary(now)).unwrap_or_default(),
            counts: link.counts(),
        }
    }
}

/// Samples over time, each list in the order of time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Series {
    /// Measured links.
    pub links: Vec<LinkSample>,
    /// Measured flows, while they last.
    pub flows: Vec<FlowSample>,
}

/// A queue at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSample {
    /// When.
    #[serde(with = "exact")]
    pub at: Time,
    /// Which queue.
    pub id: QueueId,
    /// What waited.
    pub queue: Backlog,
    /// Bytes transmitted since the run began.
    #[serde(with = "exact")]
    pub transmitted: Bytes,
}

impl LinkSample {
    /// `link` as it is at `at`.
    pub fn of<P: Parcel, R: Router<P>>(id: LinkId, link: &mut Link<P, R>, at: Time) -> Self {
        link.advance(at);
        Self { at, id: QueueId::Link(id), queue: link.router().backlog(), transmitted: link.transmitted_bytes() }
    }
}

/// A sender at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowSample {
    /// When.
    #[serde(with = "exact")]
    pub at: Time,
    /// Which flow.
    pub flow: usize,
    /// Its controller's window; `None` where the rate alone decides.
    #[serde(with = "exact")]
    pub window: Option<Bytes>,
    /// Its controller's rate; `None` where the window alone decides.
    #[serde(with = "exact")]
    pub rate: Option<Rate>,
    /// Stream bytes delivered since the flow began.
    #[serde(with = "exact")]
    pub delivered: Bytes,
}

impl FlowSample {
    /// A flow under one of Rampmeter's controllers.
    pub fn of(at: Time, flow: usize, controller: &impl Controller, delivered: Bytes) -> Self {
        let window = Some(controller.window()).filter(|&window| window < Bytes::MAX);
        Self { at, flow, window, rate: controller.rate(), delivered }
    }
}
