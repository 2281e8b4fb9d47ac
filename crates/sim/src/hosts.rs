//! Endpoints: one per host and scheme, made when a flow first needs it.

use std::collections::BTreeMap;

use rampmeter_control::registry::Factory;
use rampmeter_control::{AnyController, Registry};
use rampmeter_scenario::{FlowPlan, NoPath, NodeId, Plan, Sender, WorldError};
use rampmeter_transport::{Config, Endpoint, EndpointConfig};
use rampmeter_units::Streams;

use crate::network::Paths;

pub(crate) type SimEndpoint = Endpoint<AnyController, u32>;

/// A scheme, ready to make endpoints.
#[derive(Clone)]
pub(crate) struct Scheme {
    pub(crate) config: Config,
    factory: Factory,
}

pub(crate) fn schemes(plan: &Plan, registry: &Registry) -> Result<Vec<Scheme>, WorldError> {
    let scheme = |scheme: &rampmeter_scenario::SchemePlan| {
        let Sender::Ours { controller, settings, transport } = &scheme.sender else {
            unreachable!("plans with kernel schemes are refused");
        };
        let factory = registry.factory(controller, settings)?;
        let config = Config::read(transport, plan.packet)
            .map_err(|reason| WorldError::Transport { scheme: scheme.name.clone(), reason })?;
        Ok(Scheme { config, factory })
    };
    plan.schemes.iter().map(scheme).collect()
}

/// An endpoint with the ways to its peers.
pub(crate) struct Host {
    pub(crate) endpoint: SimEndpoint,
    /// Peers and where the way to each begins, sorted.
    ways: Vec<(u32, u32)>,
    /// The flow behind each connection, by the connection's index; [`usize::MAX`] where there is none.
    flows: Vec<usize>,
}

impl Host {
    pub(crate) fn way(&self, peer: u32) -> Option<u32> {
        if let [(only, way)] = self.ways[..] {
            return (only == peer).then_some(way);
        }
        self.ways.binary_search_by_key(&peer, |&(p, _)| p).ok().map(|at| self.ways[at].1)
    }

    pub(crate) fn set_flow(&mut self, index: usize, flow: usize) {
        if self.flows.len() <= index {
            self.flows.resize(index + 1, usize::MAX);
        }
        self.flows[index] = flow;
    }

    pub(crate) fn flow(&self, index: usize) -> Option<usize> {
        self.flows.get(index).copied().filter(|&flow| flow != usize::MAX)
    }
}

/// All endpoints.
#[derive(Default)]
pub(crate) struct Hosts {
    pub(crate) all: Vec<Host>,
    places: BTreeMap<(NodeId, usize), u32>,
}

impl Hosts {
    /// The two endpoints of a flow, with the ways between them.
    pub(crate) fn ends(
        &mut self,
        plan: &Plan,
        schemes: &[Scheme],
        paths: &mut Paths,
        flow: &FlowPlan,
    ) -> Result<(u32, u32), NoPath> {
        let from = self.place(plan, schemes, flow.from, flow.scheme);
        let to = self.place(plan, schemes, flow.to, flow.scheme);
        for (here, there) in [((from, flow.from), (to, flow.to)), ((to, flow.to), (from, flow.from))] {
            let ways = &mut self.all[here.0 as usize].ways;
            if let Err(at) = ways.binary_search_by_key(&there.0, |&(peer, _)| peer) {
                ways.insert(at, (there.0, paths.start(plan, here, there)?));
            }
        }
        Ok((from, to))
    }

    fn place(&mut self, plan: &Plan, schemes: &[Scheme], node: NodeId, scheme: usize) -> u32 {
        *self.places.entry((node, scheme)).or_insert_with(|| {
            let streams = Streams::new(plan.seed);
            let place = self.all.len() as u64;
            let Scheme { config, factory } = schemes[scheme].clone();
            let mut made = 0;
            let make = move || {
                made += 1;
                factory(streams.stream("controller", place << 32 | made))
            };
            let most = 1 << 20;
            let config = EndpointConfig {
                accept: Some(config),
                most_connections: most,
                most_half_open: most,
                ..EndpointConfig::default()
            };
            let endpoint = Endpoint::new(config, make, streams.stream("connection", place));
            self.all.push(Host { endpoint, ways: Vec::new(), flows: Vec::new() });
            place as u32
        })
    }
}
