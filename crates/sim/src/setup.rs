//! From a plan to a simulation at time zero: links with their routers, hosts with their endpoints, paths between them.

use std::collections::BTreeMap;

use rampmeter_run::{Flows, Hop, Network, Timetable, Watch, WatchFlows};
use rampmeter_scenario::{LinkId, NodeId, Plan, Stalling, World, WorldError};
use rampmeter_units::Streams;

use crate::agenda::Agenda;
use crate::forwarding::Place;
use crate::island::Aggregate;
use crate::packet::{InTransit, Pool};
use crate::paths::Paths;
use crate::presence::Presence;
use crate::simulation::Simulation;
use crate::world::{Simulated, SimulatedHost};

impl<'a, H: SimulatedHost, W: Watch<InTransit>, F: WatchFlows> Simulation<'a, H, W, F> {
    /// `make` creates the host of a scheme at a node, the one with this number.
    pub(crate) fn new(
        plan: &'a Plan,
        (watch, watch_flows): (W, F),
        make: impl FnMut(NodeId, usize, u32) -> H,
    ) -> Result<Self, WorldError> {
        let mut hosts = Hosts { make, list: Vec::new(), known: BTreeMap::new() };
        let (mut network, mut paths) = (Network::new(plan, watch), Paths::default());
        let (mut path_of, mut ends) = (Vec::new(), Vec::new());
        for flow in &plan.flows {
            let [sender, receiver] = [flow.from, flow.to].map(|node| hosts.of(node, flow.scheme));
            let route = |from, to| plan.path(from, to).map(|links| hops(plan, &links));
            let both = || Ok([route(flow.from, flow.to)?, route(flow.to, flow.from)?]);
            path_of.push(paths.between(&mut network, [sender, receiver], [flow.from, flow.to], both)?);
            ends.push([sender, receiver]);
        }
        let aggregate = |n| Aggregate::new(plan, n, &mut network, &mut paths);
        let aggregates: Vec<_> = (0..plan.aggregates.len()).map(aggregate).collect();
        let nodes = hosts.nodes();
        let mut at_node = vec![0; plan.nodes.len()];
        for node in &nodes {
            at_node[node.0] += 1;
        }
        // Other hosts at the node would share the host's links.
        let may_be_ahead = |NodeId(node): NodeId| at_node[node] == 1 && plan.nodes[node].stalls.is_none();
        network.look_ahead(|place| matches!(place, Place::Host(host) if may_be_ahead(nodes[host as usize])));
        let actors = plan.links.len() + nodes.len() + aggregates.len();
        let agenda = Agenda::new(actors);
        if plan.end() > agenda.last() {
            return Err(WorldError::Unsupported {
                world: Simulated.name(),
                what: format!(
                    "room for {} of {} links and hosts",
                    plan.duration + plan.drain,
                    plan.links.len() + nodes.len()
                ),
                advice: format!("use a shorter `duration` (below {:.0} s) or fewer hosts", agenda.last().as_secs_f64()),
            });
        }
        let presence = |node: &NodeId| {
            let random = || Streams::new(plan.seed).stream("stalls", node.0 as u64);
            Presence::new(plan.nodes[node.0].stalls.map(|stalls| Stalling::new(stalls, random())))
        };
        Ok(Self {
            plan,
            agenda,
            timetable: Timetable::new(plan, |_| true),
            network,
            paths,
            presences: nodes.iter().map(presence).collect(),
            flows: Flows::watched(plan, hosts.list, |flow| Some(ends[flow]), watch_flows),
            path_of,
            aggregates,
            pool: Pool::default(),
            data_packets: 0,
        })
    }
}

/// The hops over `links`, with the hops into islands. Where several aggregates start, the longest counts.
fn hops(plan: &Plan, links: &[LinkId]) -> Vec<Hop<Place>> {
    let mut hops = Vec::with_capacity(links.len() + 1);
    let mut outside_from = 0; // the first link after the island that was entered last
    for (place, &link) in links.iter().enumerate() {
        let leads_to = |node| (place..links.len()).rev().find(|&n| plan.links[links[n].0].to == node);
        if place > 0 && place >= outside_from {
            let here = plan.aggregates.iter().enumerate().filter(|(_, a)| a.from == plan.links[link.0].from);
            let egress = here.filter_map(|(n, a)| Some((leads_to(a.to)?, n))).max();
            if let Some((last, aggregate)) = egress {
                hops.push(Hop::Out(Place::Ingress(aggregate as u32)));
                outside_from = last + 1;
            }
        }
        hops.push(Hop::Link(link.0 as u32));
    }
    hops
}

/// The hosts that send or receive: one for every pair of node and scheme in the plan.
struct Hosts<H, F> {
    make: F,
    list: Vec<H>,
    known: BTreeMap<(NodeId, usize), u32>,
}

impl<H, F: FnMut(NodeId, usize, u32) -> H> Hosts<H, F> {
    fn of(&mut self, node: NodeId, scheme: usize) -> u32 {
        *self.known.entry((node, scheme)).or_insert_with(|| {
            let host = self.list.len() as u32;
            self.list.push((self.make)(node, scheme, host));
            host
        })
    }

    /// The node of each host.
    fn nodes(&self) -> Vec<NodeId> {
        let mut nodes: Vec<_> = self.known.iter().map(|((node, _), host)| (*host, *node)).collect();
        nodes.sort_unstable();
        nodes.into_iter().map(|(_, node)| node).collect()
    }
}
