//! A plan: the complete description of one run.

use std::collections::BTreeSet;
use std::ops::Add;
use std::sync::Arc;

use rampmeter_control::vcp;
use rampmeter_manager::{ServiceCurve, Share};
use rampmeter_router::{AnyConfig, Capacity, Disorder, EcnPassage, Environment, LinkConfig};
use rampmeter_transport::Clock;
use rampmeter_units::{Bytes, Duration, Random, Rate, Streams, Time};
use rampmeter_workload::{AnyApplication, AnyWorkload};
use serde::{Deserialize, Serialize};

use crate::stack::Stack;
use crate::{NoPath, Point, Routes, Scheme, Stalls};

/// A node's index in [`Plan::nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// A link's index in [`Plan::links`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LinkId(pub usize);

/// A queue that can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum QueueId {
    /// The queue of a link.
    Link(LinkId),
    /// The queue at the ingress of an aggregate, by its index in [`Plan::aggregates`].
    Ingress(usize),
}

/// One run.
///
/// ```text
/// 0 ────── warmup ───────────────── duration ───────── duration + drain
///   flows are not measured    flows are measured     transfers may complete
///                              links are measured
/// ```
///
/// A run ends when it has reached `duration` and every transfer has completed, at the latest at `duration + drain`.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The values of the sweep's axes.
    pub point: Point,
    /// The seed of all its random streams.
    pub seed: u64,
    /// The end of the time in which flows start and links and long-lived flows are measured.
    pub duration: Duration,
    /// The start of the measurement: of links, of long-lived flows and of flows that start afterwards.
    pub warmup: Duration,
    /// The additional time in which transfers may complete.
    pub drain: Duration,
    /// The largest IP packet, headers included.
    pub packet: Bytes,
    /// Hosts and routers.
    pub nodes: Vec<Node>,
    /// Links, each one direction.
    pub links: Vec<LinkPlan>,
    /// The routes between the nodes.
    pub routes: Routes,
    /// Aggregates: each carries TCP flows across an island, with its queue and its settings.
    pub aggregates: Vec<AggregatePlan>,
    /// The schemes that [`Plan::traffic`] uses.
    pub schemes: Vec<SchemePlan>,
    /// The kinds of traffic.
    pub traffic: Vec<TrafficPlan>,
    /// Every flow, in the order of their starts.
    pub flows: Vec<FlowPlan>,
    /// What to record in addition to the summary.
    pub meters: Meters,
}

impl Plan {
    /// The links from one node to another: the path of the fewest hops, and of equal ones the one whose links are
    /// listed first in the file.
    pub fn path(&self, from: NodeId, to: NodeId) -> Result<Vec<LinkId>, NoPath> {
        self.routes.path(from, to)
    }

    /// The queues to measure, those of links first.
    pub fn measured_queues(&self) -> impl Iterator<Item = QueueId> {
        let links = self.links.iter().enumerate().filter(|(_, link)| link.measured);
        let ingresses = self.aggregates.iter().enumerate().filter(|(_, aggregate)| aggregate.measured);
        links.map(|(n, _)| QueueId::Link(LinkId(n))).chain(ingresses.map(|(n, _)| QueueId::Ingress(n)))
    }

    /// The name of a queue in results: that of its link or aggregate.
    pub fn queue_name(&self, id: QueueId) -> &str {
        match id {
            QueueId::Link(link) => &self.links[link.0].name,
            QueueId::Ingress(n) => &self.aggregates[n].name,
        }
    }

    /// The maximum number of packets in a queue, if it is limited.
    pub fn queue_limit(&self, id: QueueId) -> Option<u64> {
        match id {
            QueueId::Link(link) => self.links[link.0].room,
            QueueId::Ingress(n) => self.aggregates[n].room,
        }
    }

    /// The minimum round-trip time of all flows, from the delays of the links alone; `None` without flows.
    pub fn min_round_trip(&self) -> Option<Duration> {
        let pairs: BTreeSet<_> = self.flows.iter().map(|flow| (flow.from, flow.to)).collect();
        pairs.into_iter().filter_map(|(from, to)| self.round_trip(from, to)).min()
    }

    /// The round-trip time between two hosts, from the delays of the links alone; `None` without a path.
    fn round_trip(&self, from: NodeId, to: NodeId) -> Option<Duration> {
        let delay = |from, to| {
            let links = self.path(from, to).ok()?;
            Some(links.iter().map(|link| self.links[link.0].config.delay).fold(Duration::ZERO, Duration::add))
        };
        Some(delay(from, to)? + delay(to, from)?)
    }

    /// The flow with the longest round trip among those that send without an end, and that round trip, if the measured
    /// time has fewer than ten of them: then results show how flows start rather than what they reach.
    pub fn too_short(&self) -> Option<(usize, Duration)> {
        let is_endless = |flow: &FlowPlan| flow.bytes.is_none() && self.traffic[flow.traffic].measured;
        let endless = self.flows.iter().enumerate().filter(|(_, flow)| is_endless(flow));
        let longest = endless.filter_map(|(n, flow)| Some((n, self.round_trip(flow.from, flow.to)?)));
        longest.max_by_key(|(_, round_trip)| *round_trip).filter(|(_, round_trip)| *round_trip * 10 > self.measured())
    }

    /// The time at which the run ends even if transfers have not completed.
    pub fn end(&self) -> Time {
        Time::ZERO + self.duration + self.drain
    }

    /// The span over which links and long-lived flows are measured.
    pub fn measured(&self) -> Duration {
        self.duration.saturating_sub(self.warmup)
    }

    /// The times at which queues and flows are sampled; none without [`Meters::series_every`].
    pub fn samples(&self) -> impl Iterator<Item = Time> + use<> {
        let every = self.meters.series_every.filter(|&every| every > Duration::ZERO);
        let samples = every.map(|every| {
            let last = self.duration.as_nanos() / every.as_nanos();
            (0..=last).map(move |n| Time::ZERO + every * n)
        });
        samples.into_iter().flatten()
    }

    /// The first scheme that uses the operating system's TCP, for worlds that have none.
    pub fn kernel_scheme(&self) -> Option<&SchemePlan> {
        self.schemes.iter().find(|scheme| matches!(scheme.sender, Sender::Kernel { .. }))
    }

    /// What sends the flow with this index in [`Plan::flows`].
    pub fn sender(&self, flow: usize) -> &Sender {
        &self.schemes[self.flows[flow].scheme].sender
    }

    /// Whether one of Rampmeter's schemes sends this flow.
    pub fn is_ours(&self, flow: usize) -> bool {
        matches!(self.sender(flow), Sender::Ours(_))
    }

    /// A flow's share of its macroflow.
    pub fn share(&self, flow: &FlowPlan) -> Share {
        let traffic = &self.traffic[flow.traffic];
        Share { weight: traffic.weight, curve: traffic.curve, ..Share::default() }
    }

    /// The sender and the receiver of the flow with this index in [`Plan::flows`]: `source.0 > sink.0`.
    pub fn flow_name(&self, flow: usize) -> String {
        let FlowPlan { from, to, .. } = self.flows[flow];
        format!("{} > {}", self.nodes[from.0].name, self.nodes[to.0].name)
    }

    /// Creates the application of the flow with this index in [`Plan::flows`].
    pub fn application(&self, flow: usize) -> AnyApplication {
        let FlowPlan { traffic, bytes, .. } = self.flows[flow];
        self.traffic[traffic].workload.make(bytes, of_application(Streams::new(self.seed), flow))
    }

    /// Stream bytes in a packet of the largest size.
    pub fn payload(&self) -> Bytes {
        payload(self.packet)
    }
}

/// The random stream of the application of the flow with this index in [`Plan::flows`].
pub(crate) fn of_application(streams: Streams, flow: usize) -> Random {
    streams.stream("application", flow as u64)
}

/// Stream bytes in a packet of `packet` bytes.
pub fn payload(packet: Bytes) -> Bytes {
    packet.saturating_sub(Bytes::new((rampmeter_wire::HEADER_BYTES + rampmeter_wire::UDP_BYTES) as u64))
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// A router's name as in the file; a host's is its group's name and number: `source.0`.
    pub name: String,
    /// Whether flows may start and end here.
    pub is_host: bool,
    /// The clock of Rampmeter's schemes here. In the simulated world it gives their endpoints the time; elsewhere only
    /// the arrival times that they report follow it.
    pub clock: Clock,
    /// Its stalls, if it has any.
    pub stalls: Option<Stalls>,
}

/// One direction of a link.
#[derive(Debug, Clone)]
pub struct LinkPlan {
    /// Its name; `NAME.reverse` for the reverse direction of a two-way link. An access link has the name of its host
    /// and leads from it.
    pub name: String,
    /// The node where packets enter.
    pub from: NodeId,
    /// The node where they leave.
    pub to: NodeId,
    /// The link of which it is the reverse direction. Both share what happens to a link and not to a direction: bursts of
    /// loss in time, and the part of a varying capacity that is the same in both.
    pub reverse_of: Option<LinkId>,
    /// Rate, delay and random loss.
    pub config: LinkConfig,
    /// How its capacity varies; `None` if its rate is constant.
    pub capacity: Option<Capacity>,
    /// How the link treats the ECN codes of packets at its far end.
    pub ecn: EcnPassage,
    /// What it does to the order and the number of packets.
    pub disorder: Disorder,
    /// The settings of its queue.
    pub router: AnyConfig,
    /// The maximum number of packets in that queue, if it is limited.
    pub room: Option<u64>,
    /// Its changes during the run, in the order of time.
    pub changes: Vec<Change>,
    /// Whether its queue is measured and has a row in the outcome.
    pub measured: bool,
}

/// All traffic across an island from one border to another: one VCP flow.
#[derive(Debug, Clone)]
pub struct AggregatePlan {
    /// Its name: the island's and those of both borders, `core.in.out`.
    pub name: String,
    /// The border where packets enter.
    pub from: NodeId,
    /// The border where they leave.
    pub to: NodeId,
    /// The environment of the queue at its ingress: the rate of the slowest link of its path, the sum of all delays.
    pub environment: Environment,
    /// The settings of that queue.
    pub router: AnyConfig,
    /// The maximum number of packets in that queue, if it is limited.
    pub room: Option<u64>,
    /// Whether that queue is measured.
    pub measured: bool,
    /// The links of its path.
    pub way: Vec<LinkId>,
    /// The links that its egress's feedback takes.
    pub back: Vec<LinkId>,
    /// The settings of its controller.
    pub settings: vcp::Config,
    /// Whether its egress reports overload to flows.
    pub propagate_overload: bool,
}

/// A change of a link during the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub at: Time,
    /// The rate from then on.
    pub rate: Option<Rate>,
    /// The propagation delay from then on.
    pub delay: Option<Duration>,
    /// The treatment of ECN codes from then on.
    pub ecn: Option<EcnPassage>,
}

/// A way to send.
#[derive(Debug, Clone)]
pub struct SchemePlan {
    /// Its name in the file.
    pub name: String,
    /// The sender of a scheme.
    pub sender: Sender,
}

impl SchemePlan {
    /// The scheme, if Rampmeter's transport sends.
    pub fn ours(&self) -> Option<&Scheme> {
        match &self.sender {
            Sender::Ours(scheme) => Some(scheme),
            Sender::Kernel { .. } | Sender::Stack { .. } => None,
        }
    }
}

/// The sender of a scheme.
#[derive(Debug, Clone)]
pub enum Sender {
    /// Rampmeter's transport with one of its controllers.
    Ours(Box<Scheme>),
    /// The operating system's TCP, in worlds that have one.
    Kernel {
        /// The system's name for its congestion control: `cubic`.
        algorithm: String,
    },
    /// Another transport's stack, with one of its own controllers.
    Stack {
        /// The stack.
        stack: Arc<dyn Stack>,
        /// The stack's name for the controller.
        controller: String,
    },
}

/// A kind of traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct TrafficPlan {
    /// Its name in the file.
    pub name: String,
    /// The weight of its flows in their macroflows.
    pub weight: f64,
    /// The service curve of each of its flows, where the scheduler supports it.
    pub curve: Option<ServiceCurve>,
    /// The workload of its flows' applications.
    pub workload: AnyWorkload,
    /// Whether its flows are part of the summary.
    pub measured: bool,
}

/// A flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowPlan {
    /// The index of its kind in [`Plan::traffic`].
    pub traffic: usize,
    /// The index of its scheme in [`Plan::schemes`].
    pub scheme: usize,
    /// The time at which its connection opens.
    pub start: Time,
    /// The time at which its application stops sending; `None`: after `bytes`, or at the end of the run.
    pub stop: Option<Time>,
    /// The sending host.
    pub from: NodeId,
    /// The receiving host.
    pub to: NodeId,
    /// Stream bytes to transfer; of several representations, those of the largest; `None` for a long-lived flow.
    pub bytes: Option<Bytes>,
}

/// What to record in addition to the summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Meters {
    /// The interval of samples of measured queues, and of windows and rates of measured flows; `None` for no samples.
    pub series_every: Option<Duration>,
}
