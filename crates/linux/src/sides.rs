//! The assignment of hosts to sides.
//!
//! There are two real hosts, one on each side of the router. Each represents all of the plan's hosts on its side, with
//! one address for each. A packet reaches the router only if its two ends are on different sides. So the graph of hosts
//! and flows must be bipartite.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

use rampmeter_scenario::{NodeId, Plan, WorldError};

use crate::world::unsupported;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    A,
    B,
}

/// The maximum number of hosts on a side.
const MAX_HOSTS_PER_SIDE: usize = 65_000;

impl Side {
    pub(crate) const BOTH: [Self; 2] = [Self::A, Self::B];

    pub(crate) fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    /// In names of namespaces: commands run on the `left` host and on the `right` one.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::A => "left",
            Self::B => "right",
        }
    }

    /// The side's network, a /16.
    pub(crate) fn network(self) -> Ipv4Addr {
        match self {
            Self::A => Ipv4Addr::new(10, 64, 0, 0),
            Self::B => Ipv4Addr::new(10, 65, 0, 0),
        }
    }
}

/// The side and the address of every host with a flow.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sides {
    places: BTreeMap<NodeId, (Side, Ipv4Addr)>,
}

impl Sides {
    /// The sides of the hosts of the plan's flows and, first on their sides, of the hosts `between` that run commands.
    pub(crate) fn of(plan: &Plan, between: Option<(NodeId, NodeId)>) -> Result<Self, WorldError> {
        let flows = plan.flows.iter().map(|flow| (flow.from, flow.to));
        let ends: Vec<_> = between.into_iter().chain(flows).collect();
        let name = |node: NodeId| plan.nodes.get(node.0).map_or("?", |node| node.name.as_str());
        Self::color(&ends).map_err(|(from, to)| {
            let why = "it has two real hosts on opposite sides, and the flows put both ends on one side";
            let advice = "use only flows from one side to the other side, or run it with --world simulated";
            unsupported(format!("a path from `{}` to `{}`: {why}", name(from), name(to)), advice)
        })
    }

    /// Two-coloring by breadth-first search from the sender of the first flow. Fails with the first flow that connects
    /// two hosts of one side.
    fn color(flows: &[(NodeId, NodeId)]) -> Result<Self, (NodeId, NodeId)> {
        let mut peers: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
        for &(from, to) in flows {
            peers.entry(from).or_default().push(to);
            peers.entry(to).or_default().push(from);
        }
        let mut places: BTreeMap<NodeId, (Side, Ipv4Addr)> = BTreeMap::new();
        let mut counts = [0usize; 2];
        let mut place = |side: Side, from: NodeId, to: NodeId| -> Result<_, (NodeId, NodeId)> {
            let count = &mut counts[side as usize];
            *count += 1;
            let host = u32::try_from(*count).ok().filter(|_| *count < MAX_HOSTS_PER_SIDE).ok_or((from, to))?;
            Ok((side, Ipv4Addr::from_bits(side.network().to_bits() + host)))
        };
        for &(first, to) in flows {
            if places.contains_key(&first) {
                continue;
            }
            places.insert(first, place(Side::A, first, to)?);
            let mut reached = VecDeque::from([(first, Side::A)]);
            while let Some((here, side)) = reached.pop_front() {
                for &peer in &peers[&here] {
                    match places.get(&peer) {
                        None => {
                            places.insert(peer, place(side.other(), here, peer)?);
                            reached.push_back((peer, side.other()));
                        }
                        Some(&(other, _)) if other == side => return Err((here, peer)),
                        Some(_) => {}
                    }
                }
            }
        }
        Ok(Self { places })
    }

    /// A host's side. Every end of a flow has one.
    pub(crate) fn side(&self, host: NodeId) -> Side {
        self.places[&host].0
    }

    pub(crate) fn address(&self, host: NodeId) -> Ipv4Addr {
        self.places[&host].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn color(flows: &[(usize, usize)]) -> Result<Sides, (NodeId, NodeId)> {
        Sides::color(&flows.iter().map(|&(from, to)| (NodeId(from), NodeId(to))).collect::<Vec<_>>())
    }

    #[test]
    fn both_ends_of_every_flow_are_on_different_sides() {
        // 0 ─ 1 ─ 2 and, separate, 5 ─ 4. The direction of a flow does not matter.
        let flows = [(0, 1), (2, 1), (1, 0), (5, 4)];
        let sides = color(&flows).unwrap();
        for (from, to) in flows.map(|(from, to)| (NodeId(from), NodeId(to))) {
            assert_eq!(sides.side(from), sides.side(to).other());
        }
        assert_eq!(sides.address(NodeId(0)), Ipv4Addr::new(10, 64, 0, 1));
        assert_eq!(sides.address(NodeId(1)), Ipv4Addr::new(10, 65, 0, 1));
        let mut addresses: Vec<_> = [0, 1, 2, 4, 5].iter().map(|&host| sides.address(NodeId(host))).collect();
        addresses.sort();
        addresses.dedup();
        assert_eq!(addresses.len(), 5);
    }

    #[test]
    fn triangles_and_flows_to_the_same_host_are_refused() {
        assert!(color(&[(0, 1), (1, 2), (2, 0)]).is_err());
        assert_eq!(color(&[(3, 3)]), Err((NodeId(3), NodeId(3))));
    }
}
