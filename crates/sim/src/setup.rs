//! From a plan to a simulation at time zero: links with their routers, hosts with their endpoints, paths between them.

use std::collections::BTreeMap;

use rampmeter_scenario::{LinkId, NodeId, Plan, Stalling, World, WorldError};
use rampmeter_transport::Clock;
use rampmeter_units::Streams;
use rampmeter_wire::Packet;

use crate::agenda::Agenda;
use crate::clock::HostClock;
use crate::flow::SimulatedFlow;
use crate::forwarding::ahead;
use crate::host::Host;
use crate::island::Aggregate;
use crate::meters::Meters;
use crate::packet::Pool;
use crate::paths::{Hop, Paths};
use crate::simulation::Simulation;
use crate::timetable::Timetable;
use crate::world::Simulated;

impl<'a> Simulation<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Result<Self, WorldError> {
        let at_node = vec![0; plan.nodes.len()];
        let mut hosts = Hosts { plan, list: Vec::new(), known: BTreeMap::new(), nodes: Vec::new(), at_node };
        let mut paths = Paths::default();
        let mut flows = Vec::with_capacity(plan.flows.len());
        for (index, flow) in plan.flows.iter().enumerate() {
            let sender = hosts.of(flow.from, flow.scheme);
            let receiver = hosts.of(flow.to, flow.scheme);
            let route = |from, to| plan.path(from, to).map(|links| hops(plan, &links));
            let both = || Ok([route(flow.from, flow.to)?, route(flow.to, flow.from)?]);
            let path = paths.between([sender, receiver], [flow.from, flow.to], both)?;
            flows.push(SimulatedFlow::new(plan.application(index), [sender, receiver], path));
        }
        let links = plan.make_links();
        let aggregates: Vec<_> = (0..plan.aggregates.len()).map(|n| Aggregate::new(plan, n, &mut paths)).collect();
        let ahead = ahead(&paths, &links, |host| hosts.may_be_ahead(host));
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
            ahead,
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

/// The hops over `links`, with the hops into islands. Where several aggregates start, the longest counts.
fn hops(plan: &Plan, links: &[LinkId]) -> Vec<Hop> {
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
        hops.push(Hop::Link(link.0 as u32));
    }
    hops
}

/// The hosts that send or receive: one for every pair of node and scheme in the plan.
struct Hosts<'a> {
    plan: &'a Plan,
    list: Vec<Host>,
    known: BTreeMap<(NodeId, usize), u32>,
    /// The node of each host.
    nodes: Vec<NodeId>,
    /// The number of hosts at each node.
    at_node: Vec<u32>,
}

impl Hosts<'_> {
    /// Whether the host is alone at its node, so that no other host shares its links, and never stalls.
    fn may_be_ahead(&self, host: u32) -> bool {
        let node = self.nodes[host as usize];
        self.at_node[node.0] == 1 && self.plan.nodes[node.0].stalls.is_none()
    }

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
        self.nodes.push(node);
        self.at_node[node.0] += 1;
        host
    }
}
