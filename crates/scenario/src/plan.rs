//! A plan: everything one run needs, with nothing left to choose.

use std::collections::BTreeSet;
use std::ops::Add;

use rampmeter_control::vcp;
use rampmeter_manager::{ServiceCurve, Share};
use rampmeter_router::{AnyConfig, EcnPassage, Environment, LinkConfig};
use rampmeter_transport::Clock;
use rampmeter_units::{Bytes, Duration, Rate, Time};
use rampmeter_workload::{AnyApplication, AnyWorkload};
use serde::{Deserialize, Serialize};

use crate::{NoPath, Point, Routes, Scheme, Stalls};

/// A node's place in [`Plan::nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// A link's place in [`Plan::links`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LinkId(pub usize);

/// A queue that can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum QueueId {
    /// That of a link.
    Link(LinkId),
    /// That at the ingress of an aggregate: its place in [`Plan::aggregates`].
    Ingress(usize),
}

/// One run.
///
/// ```text
/// 0 ────── warmup ───────────────── duration ───────── duration + drain
///   flows start, none counts   flows start and count   transfers may end
///                              links are measured
/// ```
///
/// A run ends when it has reached `duration` and every transfer has ended, at the latest at `duration + drain`.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The values of the sweep's axes that it stands for.
    pub point: Point,
    /// What all its random streams come from.
    pub seed: u64,
    /// Flows start, and links and long-lived flows are measured, up to here.
    pub duration: Duration,
    /// Flows count if they start from here on; links and long-lived flows are measured from here.
    pub warmup: Duration,
    /// How much longer transfers may take.
    pub drain: Duration,
    /// The largest IP packet, headers included.
    pub packet: Bytes,
    /// Hosts and routers.
    pub nodes: Vec<Node>,
    /// Links, each one direction.
    pub links: Vec<LinkPlan>,
    /// The ways between the nodes.
    pub routes: Routes,
    /// Flows across islands, of TCP flows: where those wait that want to cross, and how they are let in.
    pub aggregates: Vec<AggregatePlan>,
    /// The schemes that [`Plan::traffic`] uses.
    pub schemes: Vec<SchemePlan>,
    /// The kinds of traffic.
    pub traffic: Vec<TrafficPlan>,
    /// Every flow, in the order of their starts.
    pub flows: Vec<FlowPlan>,
    /// What to record beyond the summary.
    pub meters: Meters,
}

impl Plan {
    /// The links from one node to another: fewest hops, and of equals the one whose links stand first in the file.
    pub fn path(&self, from: NodeId, to: NodeId) -> Result<Vec<LinkId>, NoPath> {
        self.routes.path(from, to)
    }

    /// The queues to measure: first those of links.
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

    /// The packets that may wait in a queue, if that is limited.
    pub fn queue_room(&self, id: QueueId) -> Option<u64> {
        match id {
            QueueId::Link(link) => self.links[link.0].room,
            QueueId::Ingress(n) => self.aggregates[n].room,
        }
    }

    /// The least round trip between the ends of a flow, by the delays of the links alone; `None` without flows.
    pub fn min_round_trip(&self) -> Option<Duration> {
        let way = |from, to| {
            let links = self.path(from, to).ok()?;
            Some(links.iter().map(|link| self.links[link.0].config.delay).fold(Duration::ZERO, Duration::add))
        };
        let pairs: BTreeSet<_> = self.flows.iter().map(|flow| (flow.from, flow.to)).collect();
        pairs.into_iter().filter_map(|(from, to)| Some(way(from, to)? + way(to, from)?)).min()
    }

    /// When the run ends even if transfers have not.
    pub fn end(&self) -> Time {
        Time::ZERO + self.duration + self.drain
    }

    /// The span over which links and long-lived flows are measured.
    pub fn measured(&self) -> Duration {
        self.duration.saturating_sub(self.warmup)
    }

    /// When queues and flows are sampled; never unless [`Meters::series_every`] says so.
    pub fn samples(&self) -> impl Iterator<Item = Time> + use<> {
        let every = self.meters.series_every.filter(|&every| every > Duration::ZERO);
        let samples = every.map(|every| {
            let last = self.duration.as_nanos() / every.as_nanos();
            (0..=last).map(move |n| Time::ZERO + every * n)
        });
        samples.into_iter().flatten()
    }

    /// The first scheme that needs the operating system's TCP, for worlds that have none.
    pub fn kernel_scheme(&self) -> Option<&SchemePlan> {
        self.schemes.iter().find(|scheme| matches!(scheme.sender, Sender::Kernel { .. }))
    }

    /// What part of its macroflow a flow is to have.
    pub fn share(&self, flow: &FlowPlan) -> Share {
        let traffic = &self.traffic[flow.traffic];
        Share { weight: traffic.weight, curve: traffic.curve, ..Share::default() }
    }

    /// A fresh application for a flow.
    pub fn application(&self, flow: &FlowPlan) -> AnyApplication {
        self.traffic[flow.traffic].workload.make(flow.bytes)
    }

    /// Stream bytes in a full packet.
    pub fn payload(&self) -> Bytes {
        payload(self.packet)
    }
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
    /// The clock by which it says when packets of our own schemes arrived.
    pub clock: Clock,
    /// How it stalls, if it does.
    pub stalls: Option<Stalls>,
}

/// One direction of a link.
#[derive(Debug, Clone)]
pub struct LinkPlan {
    /// Its name; `NAME.reverse` for the way back of a two-way link. An access link is named after its host and leads
    /// from it.
    pub name: String,
    /// Where packets enter.
    pub from: NodeId,
    /// Where they leave.
    pub to: NodeId,
    /// Rate, delay and random loss.
    pub config: LinkConfig,
    /// What becomes of packets' ECN codes at its far end.
    pub ecn: EcnPassage,
    /// The settings of its queue.
    pub router: AnyConfig,
    /// The packets that may wait there, if that is limited.
    pub room: Option<u64>,
    /// What changes on the way, in the order of time.
    pub changes: Vec<Change>,
    /// Whether its queue is watched and the outcome has a row for it.
    pub measured: bool,
}

/// What crosses an island from one border to another: one VCP flow.
#[derive(Debug, Clone)]
pub struct AggregatePlan {
    /// Its name: the island's and those of both borders, `core.in.out`.
    pub name: String,
    /// The border where packets enter.
    pub from: NodeId,
    /// The border where they leave.
    pub to: NodeId,
    /// What the queue at its ingress stands before: the rate of the slowest link on its way, the delay of all of them.
    pub environment: Environment,
    /// The settings of that queue.
    pub router: AnyConfig,
    /// The packets that may wait there, if that is limited.
    pub room: Option<u64>,
    /// Whether that queue is measured.
    pub measured: bool,
    /// The links that it crosses.
    pub way: Vec<LinkId>,
    /// Those that its egress's answers take.
    pub back: Vec<LinkId>,
    /// How it sends.
    pub settings: vcp::Config,
    /// Whether its egress tells flows of overload.
    pub hand_on: bool,
}

/// A change of a link while the run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub at: Time,
    /// The rate from then on.
    pub rate: Option<Rate>,
    /// The propagation delay from then on.
    pub delay: Option<Duration>,
    /// What becomes of ECN codes from then on.
    pub ecn: Option<EcnPassage>,
}

/// A way to send.
#[derive(Debug, Clone)]
pub struct SchemePlan {
    /// Its name in the file.
    pub name: String,
    /// Who sends.
    pub sender: Sender,
}

impl SchemePlan {
    /// The scheme, if it is one of Rampmeter's own.
    pub fn ours(&self) -> Option<&Scheme> {
        match &self.sender {
            Sender::Ours(scheme) => Some(scheme),
            Sender::Kernel { .. } => None,
        }
    }
}

/// Who sends.
#[derive(Debug, Clone)]
pub enum Sender {
    /// Rampmeter's own transport under one of its controllers.
    Ours(Box<Scheme>),
    /// The operating system's TCP, in worlds that have one.
    Kernel {
        /// Its congestion control, as the system calls it: `cubic`.
        algorithm: String,
    },
}

/// A kind of traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct TrafficPlan {
    /// Its name in the file.
    pub name: String,
    /// What its flows are to have of their macroflows, relative to other flows there.
    pub weight: f64,
    /// What each of its flows is guaranteed of its macroflow, where that can be guaranteed.
    pub curve: Option<ServiceCurve>,
    /// What its flows' applications send and when.
    pub workload: AnyWorkload,
    /// Whether its flows count in the summary.
    pub measured: bool,
}

/// A flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowPlan {
    /// Its kind, in [`Plan::traffic`].
    pub traffic: usize,
    /// How it sends, in [`Plan::schemes`].
    pub scheme: usize,
    /// When its connection opens.
    pub start: Time,
    /// When its application stops sending; `None` for when it has sent `bytes`, or when the run ends.
    pub stop: Option<Time>,
    /// The sending host.
    pub from: NodeId,
    /// The receiving host.
    pub to: NodeId,
    /// Stream bytes to transfer, of several representations those of the largest; `None` for a long-lived flow.
    pub bytes: Option<Bytes>,
}

/// What to record beyond the summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Meters {
    /// Sample measured queues, and windows and rates of measured flows, this often; `None` for never.
    pub series_every: Option<Duration>,
}
