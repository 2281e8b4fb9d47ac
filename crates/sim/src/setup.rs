//! From a plan to a simulation at time zero: links with their routers, hosts with their endpoints, paths between them.

use std::collections::BTreeMap;

use rampmeter_control::Registry;
use rampmeter_control::registry::Factory;
use rampmeter_router::{AnyRouter, Environment, Link};
use rampmeter_scenario::{NodeId, Plan, Sender, World, WorldError};
use rampmeter_transport::{Config, Endpoint, EndpointConfig};
use rampmeter_units::Streams;

use crate::agenda::Agenda;
use crate::flow::Flow;
use crate::host::Host;
use crate::meters::Meters;
use crate::packet::{Pool, Travelling};
use crate::paths::Paths;
use crate::simulation::{SimulatedLink, Simulation};
use crate::timetable::Timetable;
use crate::world::Simulated;

/// Connections an endpoint can name.
const MOST_CONNECTIONS: usize = 1 << 20;

impl<'a> Simulation<'a> {
    pub(crate) fn new(plan: &'a Plan, registry: &Registry) -> Result<Self, WorldError> {
        let streams = Streams::new(plan.seed);
        let schemes =
            plan.schemes.iter().map(|scheme| Scheme::read(scheme, registry)).collect::<Result<Vec<_>, _>>()?;
        let mut hosts = Hosts { list: Vec::new(), known: BTreeMap::new(), schemes, streams };
        let mut paths = Paths::default();
        let mut flows = Vec::with_capacity(plan.flows.len());
        for flow in &plan.flows {
            let sender = hosts.of(flow.from, flow.scheme);
            let receiver = hosts.of(flow.to, flow.scheme);
            let path = paths
                .between(sender, receiver, || Ok([plan.path(flow.from, flow.to)?, plan.path(flow.to, flow.from)?]))?;
            flows.push(Flow::new(sender, receiver, path));
        }
        let links = links(plan, streams);
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

fn links(plan: &Plan, streams: Streams) -> Vec<SimulatedLink> {
    let link = |(id, link): (usize, &rampmeter_scenario::LinkPlan)| {
        let environment = Environment { rate: link.config.rate, delay: link.config.delay };
        let router: AnyRouter<Travelling> = link.router.make(environment, streams.stream("router", id as u64));
        Link::new(link.config, router, streams.stream("loss", id as u64))
    };
    plan.links.iter().enumerate().map(link).collect()
}

/// How one scheme sends.
struct Scheme {
    config: Config,
    controller: Factory,
}

impl Scheme {
    fn read(scheme: &rampmeter_scenario::SchemePlan, registry: &Registry) -> Result<Self, WorldError> {
        let Sender::Ours { controller, settings, transport } = &scheme.sender else {
            unreachable!("the world refuses kernel TCP before it sets up")
        };
        Ok(Self { config: transport.clone(), controller: registry.factory(controller, settings)? })
    }
}

/// The hosts that send or receive, one for every node and scheme that meet.
struct Hosts {
    list: Vec<Host>,
    known: BTreeMap<(NodeId, usize), u32>,
    schemes: Vec<Scheme>,
    streams: Streams,
}

impl Hosts {
    fn of(&mut self, node: NodeId, scheme: usize) -> u32 {
        if let Some(host) = self.known.get(&(node, scheme)) {
            return *host;
        }
        let host = self.list.len() as u32;
        let Scheme { config, controller } = &self.schemes[scheme];
        let endpoint_config = EndpointConfig {
            accept: Some(config.clone()),
            most_connections: MOST_CONNECTIONS,
            most_half_open: MOST_CONNECTIONS,
            ..EndpointConfig::default()
        };
        let (streams, factory) = (self.streams, controller.clone());
        let mut made = u64::from(host) << 32;
        let make = move || {
            made += 1;
            factory(streams.stream("controller", made))
        };
        let endpoint = Endpoint::new(endpoint_config, make, streams.stream("connections", host.into()));
        self.list.push(Host::new(endpoint, config.clone()));
        self.known.insert((node, scheme), host);
        host
    }
}
