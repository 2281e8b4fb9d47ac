//! The result of a run.

use rampmeter_router::{Backlog, ClassDelays, Counts, DelaySummary, Link, Parcel, QueueSummary, Router};
use rampmeter_transport::Limits;
use rampmeter_units::{Bytes, Duration, Rate, Time, exact};
use rampmeter_workload::{Carrier, Report};
use serde::{Deserialize, Serialize};

use crate::{LinkId, Plan, QueueId};

/// The result of a run.
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
    /// Flows whose controllers were degraded, in the order of their reports.
    pub degraded: Vec<Degraded>,
    /// The host jitter of a world with a real clock.
    pub host_jitter: Option<HostJitter>,
}

/// A plan that ran, with its result.
#[derive(Debug, Clone)]
pub struct Run {
    /// The plan.
    pub plan: Plan,
    /// The outcome.
    pub outcome: Outcome,
    /// The name of the world: `simulated`.
    pub world: &'static str,
    /// Duration in seconds of real time.
    pub wall_s: f64,
}

/// A flow whose controller was degraded for some time at least ([`degraded_reason`](rampmeter_control::Controller::degraded_reason)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Degraded {
    /// Its index in [`crate::Plan::flows`].
    pub flow: usize,
    /// The reason, and what the controller does instead.
    pub reason: String,
}

/// How much later than planned packets left the network of a world with a real clock. If this is more than a fraction
/// of a round trip, the results describe a busy machine and not the schemes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostJitter {
    /// Half of all packets left the network at most this much after the planned time.
    #[serde(with = "exact")]
    pub p50: Duration,
    /// The same of 99% of all packets.
    #[serde(with = "exact")]
    pub p99: Duration,
    /// The maximum.
    #[serde(with = "exact")]
    pub max: Duration,
}

/// The result of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FlowOutcome {
    /// Its index in [`crate::Plan::flows`].
    pub flow: usize,
    /// The index of its kind in [`crate::Plan::traffic`].
    pub traffic: usize,
    /// The index of its scheme in [`crate::Plan::schemes`].
    pub scheme: usize,
    /// The time at which its connection opened.
    #[serde(with = "exact")]
    pub start: Time,
    /// Flow completion time: from `start` until the receiver's application had the last byte; `None` if the flow did
    /// not complete.
    #[serde(with = "exact")]
    pub fct: Option<Duration>,
    /// Stream bytes delivered to the receiver's application.
    #[serde(with = "exact")]
    pub delivered: Bytes,
    /// The part of them delivered between `warmup` and `duration`.
    #[serde(with = "exact")]
    pub delivered_measured: Bytes,
    /// Packets with payload sent, retransmissions included.
    pub sent_packets: u64,
    /// Packets that retransmitted stream bytes.
    pub retransmitted_packets: u64,
    /// What stopped it from sending, other than its controller.
    pub limits: Limits,
    /// The measurements of its application.
    pub report: Report,
}

impl FlowOutcome {
    /// Goodput in bits a second: a transfer's size over its completion time, or the bytes of a long-lived flow between
    /// `warmup` and `duration` over the part of that time in which it was active. `None` if the transfer did not
    /// complete or the flow was not active then.
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

    /// The datagrams of a flow that did not arrive over the whole run, including those in transit at its end. `None`
    /// for flows of other kinds.
    pub fn lost_datagrams(&self, plan: &Plan) -> Option<u64> {
        let Carrier::Datagrams(size) = plan.traffic[self.traffic].workload.carrier() else { return None };
        Some(self.sent_packets.saturating_sub(self.delivered.as_u64() / size.as_u64()))
    }
}

/// The result of a measured link, or of an aggregate of an island, between `warmup` and `duration`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkOutcome {
    /// The queue in the plan.
    pub id: QueueId,
    /// Its name.
    pub name: String,
    /// Bytes transmitted over those that its rate allowed.
    pub utilization: f64,
    /// Statistics of its queue.
    pub queue: QueueSummary,
    /// Its packet counts.
    pub counts: Counts,
    /// How long packets waited in its queue.
    pub waits: Option<DelaySummary>,
    /// The queueing delays of L4S packets and of all others, where its router has a queue for each.
    pub delays: Option<ClassDelays>,
}

impl LinkOutcome {
    /// The measurements of `link` of `plan` from [`Link::start_measuring`] to `now`.
    pub fn of<P: Parcel, R: Router<P>>(plan: &Plan, id: LinkId, link: &mut Link<P, R>, now: Time) -> Self {
        link.advance(now);
        Self {
            id: QueueId::Link(id),
            name: plan.links[id.0].name.clone(),
            utilization: link.utilization(now),
            queue: link.queue().map(|queue| queue.summary(now)).unwrap_or_default(),
            counts: link.counts(),
            waits: link.waits(),
            delays: link.router().and_then(rampmeter_router::Router::delays),
        }
    }
}

/// Samples over time, each list in the order of time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Series {
    /// Measured links.
    pub links: Vec<LinkSample>,
    /// Measured flows while they are active.
    pub flows: Vec<FlowSample>,
}

/// A queue at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSample {
    /// The time.
    #[serde(with = "exact")]
    pub at: Time,
    /// The queue.
    pub id: QueueId,
    /// The packets and bytes queued.
    pub queue: Backlog,
    /// Bytes transmitted since the start of the run.
    #[serde(with = "exact")]
    pub transmitted: Bytes,
}

impl LinkSample {
    /// A sample of `link` at `at`.
    pub fn of<P: Parcel, R: Router<P>>(id: LinkId, link: &mut Link<P, R>, at: Time) -> Self {
        link.advance(at);
        Self { at, id: QueueId::Link(id), queue: link.backlog(), transmitted: link.transmitted_bytes() }
    }
}

/// A flow at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowSample {
    /// The time.
    #[serde(with = "exact")]
    pub at: Time,
    /// The flow.
    pub flow: usize,
    /// Its sender.
    #[serde(flatten)]
    pub sender: SenderState,
    /// Stream bytes delivered since the start of the flow.
    #[serde(with = "exact")]
    pub delivered: Bytes,
}

/// A sender at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SenderState {
    /// Its controller's window; `None` if only a rate limits it.
    #[serde(with = "exact")]
    pub window: Option<Bytes>,
    /// Its controller's rate; `None` if only a window limits it.
    #[serde(with = "exact")]
    pub rate: Option<Rate>,
    /// Bytes in flight, headers included; `None` if the host does not count them.
    #[serde(with = "exact")]
    pub in_flight: Option<Bytes>,
    /// The smoothed round-trip time, once one is measured.
    #[serde(with = "exact")]
    pub smoothed_rtt: Option<Duration>,
    /// Packets that counted as lost so far.
    pub lost: u64,
    /// Retransmission timeouts so far; `None` if the host does not count them.
    pub timeouts: Option<u64>,
}
