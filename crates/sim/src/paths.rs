//! Paths between hosts.
//!
//! One table holds all paths one after the other; a packet's next hop is the next entry. A path and its reverse are
//! neighbors (`2n` and `2n + 1`). To an endpoint an address *is* the path that leads there.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use rampmeter_scenario::{NoPath, NodeId};

/// A path's number.
pub(crate) type PathId = u32;

/// An index in the table of hops, counted from one.
pub(crate) type HopId = NonZeroU32;

/// The first hop of a path and the nodes at its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) hop: HopId,
    pub(crate) source: NodeId,
    pub(crate) destination: NodeId,
}

/// A hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hop {
    /// Over this link.
    Link(u32),
    /// Into this host: the end of the path.
    Host(u32),
    /// Into an island, for packets that this aggregate carries. For other packets the hops within the island follow.
    Ingress(u32),
    /// Out of the island: the end of the aggregate's path.
    Egress(u32),
    /// Back at the ingress of this aggregate, for an egress's answer: the end of the path.
    Answered(u32),
}

#[derive(Debug, Default)]
pub(crate) struct Paths {
    hops: Vec<Hop>,
    starts: Vec<Start>,
    known: BTreeMap<(u32, u32), PathId>,
}

impl Paths {
    /// The path from host `from` to host `to`, at these `nodes`; `hops` returns those of a new one and of its reverse,
    /// without the ends.
    pub(crate) fn between(
        &mut self,
        [from, to]: [u32; 2],
        nodes: [NodeId; 2],
        hops: impl FnOnce() -> Result<[Vec<Hop>; 2], NoPath>,
    ) -> Result<PathId, NoPath> {
        if let Some(path) = self.known.get(&(from, to)) {
            return Ok(*path);
        }
        let [there, back] = hops()?;
        let path = self.add([(there, Hop::Host(to)), (back, Hop::Host(from))], nodes);
        self.known.insert((from, to), path);
        Ok(path)
    }

    /// Adds a path and its reverse, each with its end, between two nodes.
    pub(crate) fn add(&mut self, directions: [(Vec<Hop>, Hop); 2], [from, to]: [NodeId; 2]) -> PathId {
        let path = self.starts.len() as PathId;
        for ((hops, end), (source, destination)) in directions.into_iter().zip([(from, to), (to, from)]) {
            let hop = HopId::MIN.saturating_add(self.hops.len() as u32);
            self.starts.push(Start { hop, source, destination });
            self.hops.extend(hops);
            self.hops.push(end);
        }
        path
    }

    pub(crate) fn start(&self, path: PathId) -> Start {
        self.starts[path as usize]
    }

    pub(crate) fn hop(&self, hop: HopId) -> Hop {
        self.hops[hop.get() as usize - 1]
    }

    /// All hops, each with the link that comes before it on its path, if there is one.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (Option<u32>, Hop)> {
        self.hops.iter().scan(None, |last, &hop| {
            let link = if let Hop::Link(link) = hop { Some(link) } else { None };
            Some((std::mem::replace(last, link), hop))
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_run_of_hops_and_its_reverse_is_a_bit_away() {
        let mut paths = Paths::default();
        let hops = || Ok([vec![Hop::Link(4)], vec![Hop::Link(7)]]);
        let nodes = [NodeId(7), NodeId(9)];
        let there = paths.between([0, 1], nodes, hops).unwrap();
        assert_eq!(paths.between([0, 1], nodes, || panic!("known")).unwrap(), there);
        let walk = |path| -> Vec<Hop> { (0..2).map(|n| paths.hop(paths.start(path).hop.saturating_add(n))).collect() };
        assert_eq!(walk(there), [Hop::Link(4), Hop::Host(1)]);
        let steps: Vec<_> = paths.steps().map(|(before, _)| before).collect();
        assert_eq!(steps, [None, Some(4), None, Some(7)]);
        assert_eq!(walk(reverse(there)), [Hop::Link(7), Hop::Host(0)]);
        let ends = |path| (paths.start(path).source.0, paths.start(path).destination.0);
        assert_eq!((ends(there), ends(reverse(there))), ((7, 9), (9, 7)));
        assert!(is_forward(there) && !is_forward(reverse(there)));
    }
}
