//! Routes through the network: the path of the fewest hops; of equal ones, that whose link is listed first in the file.

use std::collections::VecDeque;

use thiserror::Error;

use crate::{LinkId, LinkPlan, Node, NodeId};

/// There is no path from one node to another.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("no path leads from `{from}` to `{to}`")]
pub struct NoPath {
    /// The first node's name.
    pub from: String,
    /// The last node's name.
    pub to: String,
}

/// The next link for every pair of routers. A host has one access link, so its routes are those of its router.
#[derive(Debug, Clone)]
pub struct Routes {
    names: Vec<String>,
    ends: Vec<(NodeId, NodeId)>,
    /// Per node: the links out of a host and into it, and its router; `None` for a router.
    access: Vec<Option<(LinkId, LinkId, NodeId)>>,
    /// Per node: its index among the routers; `None` for hosts.
    router: Vec<Option<usize>>,
    /// `next[destination][here]`, both indices among the routers.
    next: Vec<Vec<Option<LinkId>>>,
}

impl Routes {
    /// The routes of a network in which every host has one link out and one link in, both to the same router.
    pub fn new(nodes: &[Node], links: &[LinkPlan]) -> Self {
        let mut numbers = 0..;
        let number = |node: &Node| if node.is_host { None } else { numbers.next() };
        let router: Vec<Option<usize>> = nodes.iter().map(number).collect();
        let count = router.iter().flatten().count();
        let mut out = vec![None; nodes.len()];
        let mut back = vec![None; nodes.len()];
        for (id, link) in links.iter().enumerate() {
            out[link.from.0].get_or_insert((LinkId(id), link.to));
            back[link.to.0].get_or_insert(LinkId(id));
        }
        let access = (0..nodes.len()).map(|node| match (nodes[node].is_host, out[node], back[node]) {
            (true, Some((out, router)), Some(back)) => Some((out, back, router)),
            _ => None,
        });
        let mut into: Vec<Vec<(usize, LinkId)>> = vec![Vec::new(); count];
        for (id, link) in links.iter().enumerate() {
            if let (Some(from), Some(to)) = (router[link.from.0], router[link.to.0]) {
                into[to].push((from, LinkId(id)));
            }
        }
        Self {
            names: nodes.iter().map(|node| node.name.clone()).collect(),
            ends: links.iter().map(|link| (link.from, link.to)).collect(),
            access: access.collect(),
            next: (0..count).map(|destination| towards(destination, &into)).collect(),
            router,
        }
    }

    /// The links from one node to another.
    pub fn path(&self, from: NodeId, to: NodeId) -> Result<Vec<LinkId>, NoPath> {
        let no_path = || NoPath { from: self.names[from.0].clone(), to: self.names[to.0].clone() };
        let mut path = Vec::new();
        if from == to {
            return Ok(path);
        }
        let mut here = from;
        if let Some((out, _, router)) = self.access[from.0] {
            path.push(out);
            here = router;
        }
        let (last, target) = self.access[to.0].map_or((None, to), |(_, back, router)| (Some(back), router));
        while here != target {
            let (Some(index), Some(destination)) = (self.router[here.0], self.router[target.0]) else {
                return Err(no_path());
            };
            let link = self.next[destination][index].ok_or_else(no_path)?;
            path.push(link);
            here = self.ends[link.0].1;
        }
        path.extend(last);
        Ok(path)
    }
}

/// The next link towards `destination` from every router, by breadth-first search against the direction of the links.
fn towards(destination: usize, into: &[Vec<(usize, LinkId)>]) -> Vec<Option<LinkId>> {
    let mut hops = vec![usize::MAX; into.len()];
    let mut next: Vec<Option<LinkId>> = vec![None; into.len()];
    hops[destination] = 0;
    let mut queue = VecDeque::from([destination]);
    while let Some(here) = queue.pop_front() {
        for &(before, link) in &into[here] {
            if hops[before] == usize::MAX {
                hops[before] = hops[here] + 1;
                next[before] = Some(link);
                queue.push_back(before);
            } else if hops[before] == hops[here] + 1 && next[before].is_some_and(|known| link < known) {
                next[before] = Some(link);
            }
        }
    }
    next
}
