//! Paths between hosts. A path and its reverse are neighbors (`2n` and `2n + 1`). To an endpoint an address *is* the path
//! that leads there.

use std::collections::BTreeMap;

use rampmeter_run::{Hop, HopId, Network, Watch};
use rampmeter_scenario::{NoPath, NodeId};

use crate::forwarding::Place;
use crate::packet::InTransit;

/// A path's number.
pub(crate) type PathId = u32;

/// The first hop of a path and the nodes at its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) hop: HopId,
    pub(crate) source: NodeId,
    pub(crate) destination: NodeId,
}

#[derive(Debug, Default)]
pub(crate) struct Paths {
    starts: Vec<Start>,
    known: BTreeMap<(u32, u32), PathId>,
}

impl Paths {
    /// The path from host `from` to host `to`, at these `nodes`; `hops` returns those of a new one and of its reverse,
    /// without the ends.
    pub(crate) fn between(
        &mut self,
        network: &mut Network<'_, InTransit, Place, impl Watch<InTransit>>,
        [from, to]: [u32; 2],
        nodes: [NodeId; 2],
        hops: impl FnOnce() -> Result<[Vec<Hop<Place>>; 2], NoPath>,
    ) -> Result<PathId, NoPath> {
        if let Some(path) = self.known.get(&(from, to)) {
            return Ok(*path);
        }
        let [there, back] = hops()?;
        let path = self.add(network, [(there, Place::Host(to)), (back, Place::Host(from))], nodes);
        self.known.insert((from, to), path);
        Ok(path)
    }

    /// Adds a path and its reverse, each with its end, between two nodes.
    pub(crate) fn add(
        &mut self,
        network: &mut Network<'_, InTransit, Place, impl Watch<InTransit>>,
        directions: [(Vec<Hop<Place>>, Place); 2],
        [from, to]: [NodeId; 2],
    ) -> PathId {
        let path = self.starts.len() as PathId;
        for ((hops, end), (source, destination)) in directions.into_iter().zip([(from, to), (to, from)]) {
            let hop = network.add_path(hops.into_iter().chain([Hop::Out(end)]));
            self.starts.push(Start { hop, source, destination });
        }
        path
    }

    pub(crate) fn start(&self, path: PathId) -> Start {
        self.starts[path as usize]
    }
}

/// The reverse path.
pub(crate) const fn reverse(path: PathId) -> PathId {
    path ^ 1
}

/// Whether `path` leads from the host that opens a flow to the host that accepts it.
pub(crate) const fn is_forward(path: PathId) -> bool {
    path & 1 == 0
}
