//! Paths between hosts.
//!
//! One table holds all paths one after the other; a packet's next hop is the next entry. A path and its reverse are
//! neighbors (`2n` and `2n + 1`). To an endpoint an address *is* the path that leads there. A link is *plain* if the
//! arrival time of a packet at its far end is certain when the packet enters it.

use std::collections::{BTreeMap, BTreeSet};
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
    /// Over this link, which foresees departures.
    Foreseen(u32),
    /// Over this plain link.
    Plain(u32),
    /// Over this plain link into this host, which may be ahead in time. The path's last entry follows.
    Last(u32, u32),
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

    /// Which of the `links` lead to hosts alone: all their packets go on over plain links into hosts, and these get
    /// packets from no other link.
    pub(crate) fn lead_to_hosts(&self, links: usize) -> Vec<bool> {
        // The first hop of a path comes after the end of the path before it.
        let steps = || std::iter::once(Hop::Host(0)).chain(self.hops.iter().copied()).zip(self.hops.iter().copied());
        let mut sources: BTreeMap<Hop, BTreeSet<Hop>> = BTreeMap::new();
        let mut lead = vec![false; links];
        for (hop, next) in steps() {
            sources.entry(next).or_default().insert(hop);
            if let Hop::Link(link) | Hop::Foreseen(link) = hop {
                lead[link as usize] = true;
            }
        }
        for (hop, next) in steps() {
            if let Hop::Link(link) | Hop::Foreseen(link) = hop {
                lead[link as usize] &= matches!(next, Hop::Last(..)) && sources[&next].len() == 1;
            }
        }
        lead
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
        let hops = || Ok([vec![Hop::Link(4), Hop::Last(5, 1)], vec![Hop::Link(7)]]);
        let nodes = [NodeId(7), NodeId(9)];
        let there = paths.between([0, 1], nodes, hops).unwrap();
        assert_eq!(paths.between([0, 1], nodes, || panic!("known")).unwrap(), there);
        let walk = |path| -> Vec<Hop> { (0..2).map(|n| paths.hop(paths.start(path).hop.saturating_add(n))).collect() };
        assert_eq!(walk(there), [Hop::Link(4), Hop::Last(5, 1)]);
        assert_eq!(walk(reverse(there)), [Hop::Link(7), Hop::Host(0)]);
        let ends = |path| (paths.start(path).source.0, paths.start(path).destination.0);
        assert_eq!((ends(there), ends(reverse(there))), ((7, 9), (9, 7)));
        assert!(is_forward(there) && !is_forward(reverse(there)));
    }

    #[test]
    fn a_link_leads_to_hosts_if_only_they_follow() {
        let mut paths = Paths::default();
        let mut add = |hosts: [u32; 2], there: &[Hop], back: &[Hop]| {
            paths.between(hosts, [NodeId(0); 2], || Ok([there.to_vec(), back.to_vec()])).unwrap();
        };
        add([0, 1], &[Hop::Plain(0), Hop::Link(1), Hop::Last(2, 1)], &[Hop::Link(3), Hop::Last(4, 0)]);
        add([0, 5], &[Hop::Plain(0), Hop::Link(1), Hop::Last(5, 5)], &[Hop::Link(6), Hop::Last(4, 0)]);
        add([0, 7], &[Hop::Plain(0), Hop::Link(7), Hop::Link(8), Hop::Last(9, 7)], &[Hop::Link(7)]);
        let leading: Vec<_> = (0..10).filter(|&link| paths.lead_to_hosts(10)[link]).collect();
        assert_eq!(leading, [1, 8], "3 and 6 share the link into host 0, and 7 leads to a link");
    }
}
