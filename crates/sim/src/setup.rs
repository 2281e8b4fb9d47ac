//! From a plan to a simulation at time zero: links with their routers, hosts with their endpoints, paths between them.

use std::collections::BTreeMap;

use rampmeter_control::Registry;
use rampmeter_scenario::{NodeId, Plan, Scheme, Stalling, World, WorldError};
use rampmeter_units::Streams;

use crate::agenda::Agenda;
use crate::flow::Flow;
use crate::host::Host;
use crate::meters::Meters;
use crate::packet::Pool;
use crate::paths::Paths;
use crate::simulation::Simulation;
use crate::timetable::Timetable;
use crate::world::Simulated;

impl<'a> Simulation<'a> {
    pub(crate) fn new(plan: &'a Plan, registry: &Registry) -> Result<Self, WorldError> {
        let ours = |scheme| Ok(Scheme::of(scheme, registry)?.expect("the world has refused kernel TCP"));
        let schemes = plan.schemes.iter().map(ours).collect::<Result<Vec<_>, WorldError>>()?;
        let mut hosts = Hosts { plan, list: Vec::new(), known: BTreeMap::new(), schemes };
        let mut paths = Paths::default();
        let mut flows = Vec::with_capacity(plan.flows.len());
        for flow in &plan.flows {
            let sender = hosts.of(flow.from, flow.scheme);
            let receiver = hosts.of(flow.to, flow.scheme);
            let path = paths
                .between(sender, receiver, || Ok([plan.path(flow.from, flow.to)?, plan.path(flow.to, flow.from)?]))?;
            flows.push(Flow::new(sender, receiver, path, flow.bytes));
        }
        let links = plan.make_links();
        let agenda = Agenda::new(links.len() + hosts.list.len());
        if plan.end() > agenda.last() {
            return Err(WorldError::Lacks {
                world: Simulated.name(),
                what: format!(
                    "room for {} of {} links and hosts",
                    plan.duration + plan.drain,
                    links.len() + hosts.list.len()
                ),
                advice: format!("make it shorter than {:.0} s, or smaller", agenda.last().as_secs_f64()),
            });
        }
        Ok(Self {
            plan,
            agenda,
            timetable: Timetable::of(plan),
            meters: Meters::of(plan),
            links,
            paths,
            hosts: hosts.list,
            flows,
            pool: Pool::default(),
            pending: 0,
            data_packets: 0,
        })
    }
}

/// The hosts that send or receive, one for every node and scheme that meet.
struct Hosts<'a> {
    plan: &'a Plan,
    list: Vec<Host>,
    known: BTreeMap<(NodeId, usize), u32>,
    schemes: Vec<Scheme>,
}

impl Hosts<'_> {
    fn of(&mut self, node: NodeId, scheme: usize) -> u32 {
        if let Some(host) = self.known.get(&(node, scheme)) {
            return *host;
        }
        let host = self.list.len() as u32;
        let sending = &self.schemes[scheme];
        let planned = &self.plan.nodes[node.0];
        let endpoint = sending.endpoint(self.plan.seed, host, planned);
        let random = || Streams::new(self.plan.seed).stream("stalls", node.0 as u64);
        let stalling = planned.stalls.map(|stalls| Stalling::new(stalls, random()));
        self.list.push(Host::new(endpoint, sending.config.clone(), stalling));
        self.known.insert((node, scheme), host);
        host
    }
}
