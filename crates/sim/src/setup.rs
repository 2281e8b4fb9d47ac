//! From a plan to a simulation at time zero: links with their routers, hosts with their endpoints, paths between them.

use std::collections::BTreeMap;

use rampmeter_router::{AnyConfig, AnyRouter, Disorder, EcnPassage, Link, Loss, PlainLink, drop_tail};
use rampmeter_scenario::{LinkId, LinkPlan, NodeId, Plan, Stalling, World, WorldError};
use rampmeter_transport::Clock;
use rampmeter_units::{Rate, Streams};
use rampmeter_wire::Packet;

use crate::agenda::Agenda;
use crate::clock::HostClock;
use crate::flow::SimulatedFlow;
use crate::host::Host;
use crate::island::Aggregate;
use crate::link::SimulatedLink;
use crate::meters::Meters;
use crate::packet::{InTransit, Pool};
use crate::paths::{Hop, Paths};
use crate::simulation::Simulation;
use crate::timetable::Timetable;
use crate::world::Simulated;

impl<'a> Simulation<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Result<Self, WorldError> {
        let mut hosts = Hosts { plan, list: Vec::new(), known: BTreeMap::new() };
        let mut paths = Paths::default();
        let mut flows = Vec::with_capacity(plan.flows.len());
        let single = of_one_scheme(plan);
        let may_be_ahead =
            |node: NodeId| single[node.0] && plan.nodes[node.0].is_host && plan.nodes[node.0].stalls.is_none();
        for (index, flow) in plan.flows.iter().enumerate() {
            let sender = hosts.of(flow.from, flow.scheme);
            let receiver = hosts.of(flow.to, flow.scheme);
            let route = |from, to, end| plan.path(from, to).map(|links| hops(plan, &links, end, may_be_ahead));
            let both = || Ok([route(flow.from, flow.to, receiver)?, route(flow.to, flow.from, sender)?]);
            let path = paths.between([sender, receiver], [flow.from, flow.to], both)?;
            flows.push(SimulatedFlow::new(plan.application(index), [sender, receiver], path));
        }
        let links: Vec<_> = plan.make_links().into_iter().zip(&plan.links).map(simulated).collect();
        let aggregates: Vec<_> = (0..plan.aggregates.len()).map(|n| Aggregate::new(plan, n, &mut paths)).collect();
        let mut leads_to_hosts = paths.lead_to_hosts(links.len());
        for (leads, link) in leads_to_hosts.iter_mut().zip(&plan.links) {
            *leads &= is_steady(link);
        }
        let agenda = Agenda::new(links.len() + hosts.list.len() + aggregates.len());
        if plan.end() > agenda.last() {
            return Err(WorldError::Unsupported {
                world: Simulated.name(),
                what: format!(
                    "room for {} of {} links and hosts",
                    plan.duration + plan.drain,
                    links.len() + hosts.list.len()
                ),
                advice: format!("use a shorter `duration` (below {:.0} s) or fewer hosts", agenda.last().as_secs_f64()),
            });
        }
        Ok(Self {
            plan,
            agenda,
            timetable: Timetable::of(plan),
            meters: Meters::of(plan),
            links,
            leads_to_hosts,
            paths,
            hosts: hosts.list,
            aggregates,
            flows,
            pool: Pool::default(),
            header: Packet::default(),
            pending: 0,
            failure: None,
            data_packets: 0,
        })
    }
}

/// The hops over `links` into host `end`, with the hops into islands. Where several aggregates start, the longest
/// counts.
fn hops(plan: &Plan, links: &[LinkId], end: u32, may_be_ahead: impl Fn(NodeId) -> bool) -> Vec<Hop> {
    let mut hops = Vec::with_capacity(links.len() + 1);
    let mut outside_from = 0; // the first link after the island that was entered last
    for (place, &link) in links.iter().enumerate() {
        let leads_to = |node| (place..links.len()).rev().find(|&n| plan.links[links[n].0].to == node);
        if place > 0 && place >= outside_from {
            let here = plan.aggregates.iter().enumerate().filter(|(_, a)| a.from == plan.links[link.0].from);
            let egress = here.filter_map(|(n, a)| Some((leads_to(a.to)?, n))).max();
            if let Some((last, aggregate)) = egress {
                hops.push(Hop::Ingress(aggregate as u32));
                outside_from = last + 1;
            }
        }
        let is_last = place + 1 == links.len() && may_be_ahead(plan.links[link.0].to);
        let hop = over(plan, link);
        hops.push(if let (Hop::Plain(link), true) = (hop, is_last) { Hop::Last(link, end) } else { hop });
    }
    hops
}

/// Whether packets leave the link in the order of their arrival, at times that are certain when they are transmitted.
fn is_steady(link: &LinkPlan) -> bool {
    link.capacity.is_none() && link.disorder == Disorder::default() && link.changes.is_empty()
}

/// Whether it is certain when packets arrive, and nothing loses or changes those that were transmitted.
fn is_certain(link: &LinkPlan) -> bool {
    is_steady(link)
        && link.config.rate > Rate::ZERO
        && link.config.loss == Loss::default()
        && link.ecn == EcnPassage::Kept
}

/// Whether the link needs no queue: it never drops a packet, and is not measured.
fn is_plain(link: &LinkPlan) -> bool {
    is_certain(link) && link.router.is_endless() && !link.measured
}

/// The limits of the link's queue, if it foresees departures.
fn foreseen(link: &LinkPlan) -> Option<&drop_tail::Config> {
    let AnyConfig::DropTail(config) = &link.router else { return None };
    (is_certain(link) && !is_plain(link)).then_some(config)
}

/// The link of a plan, in its state before the first packet.
fn simulated((mut link, planned): (Link<InTransit, AnyRouter<InTransit>>, &LinkPlan)) -> SimulatedLink {
    if is_plain(planned) {
        return SimulatedLink::Plain(PlainLink::new(&planned.config));
    }
    if let Some(config) = foreseen(planned) {
        link.foresee(config);
    }
    SimulatedLink::Queueing(Box::new(link))
}

/// The hop over `link`.
pub(crate) fn over(plan: &Plan, LinkId(link): LinkId) -> Hop {
    let (planned, link) = (&plan.links[link], link as u32);
    if is_plain(planned) {
        Hop::Plain(link)
    } else if foreseen(planned).is_some() {
        Hop::Foreseen(link)
    } else {
        Hop::Link(link)
    }
}

/// The nodes of `plan` with at most one scheme. On others several hosts share the links, and none may be ahead in time.
fn of_one_scheme(plan: &Plan) -> Vec<bool> {
    let mut first = vec![None; plan.nodes.len()];
    let mut single = vec![true; plan.nodes.len()];
    for flow in &plan.flows {
        for node in [flow.from.0, flow.to.0] {
            single[node] &= *first[node].get_or_insert(flow.scheme) == flow.scheme;
        }
    }
    single
}

/// The hosts that send or receive: one for every pair of node and scheme in the plan.
struct Hosts<'a> {
    plan: &'a Plan,
    list: Vec<Host>,
    known: BTreeMap<(NodeId, usize), u32>,
}

impl Hosts<'_> {
    fn of(&mut self, node: NodeId, scheme: usize) -> u32 {
        if let Some(host) = self.known.get(&(node, scheme)) {
            return *host;
        }
        let host = self.list.len() as u32;
        let sending = self.plan.schemes[scheme].ours().expect("the world refuses kernel TCP");
        let planned = &self.plan.nodes[node.0];
        // The endpoint's time is its clock's: only the jitter of timestamps is left.
        let timestamps = Clock { jitter: planned.clock.jitter, ..Clock::default() };
        let endpoint = sending.endpoint(self.plan.seed, host, timestamps);
        let random = || Streams::new(self.plan.seed).stream("stalls", node.0 as u64);
        let stalling = planned.stalls.map(|stalls| Stalling::new(stalls, random()));
        self.list.push(Host::new(endpoint, sending.config.clone(), HostClock::new(planned.clock), stalling));
        self.known.insert((node, scheme), host);
        host
    }
}
