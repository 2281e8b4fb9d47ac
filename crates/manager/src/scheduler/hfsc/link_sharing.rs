//! The link-sharing criterion: from the macroflow down, the class and then the flow with the smallest virtual time,
//! which is the bytes sent divided by the weight.
//!
//! ```text
//! node has sent bytes, by either criterion:   v += bytes / weight
//! node requests after idle time:              v  = max(v, its parent's virtual time)
//! ```
//!
//! *Deviations*
//!
//! - Link-sharing curves are lines with the weight as their slope. The minimum of an old and a shifted line is the
//!   lower line, so V needs no curve.
//! - A parent's virtual time is that of the child served last by this criterion (Goyal, Vin and Cheng, Start-time Fair
//!   Queueing, SIGCOMM '96), not the middle between its first and its last child. Real-time service advances a flow
//!   beyond its siblings without bound, and a flow that joins would lose half of that distance.
//! - For the same reason a node is at most [`MAX_LEAD`] packets ahead: a flow whose guarantee exceeded its share for an
//!   hour gets its share as soon as that exceeds the guarantee.

use std::collections::BTreeMap;

use rampmeter_units::{Bytes, Time};

use super::min_tree::MinTree;

/// The index of the macroflow's own node.
const ROOT: u32 = 0;

/// The virtual time of one byte at weight 1. Virtual times are integers, so that their sums do not depend on the order.
const BYTE: f64 = 4_294_967_296.0;

/// The maximum lead of a node over its siblings, in packets.
const MAX_LEAD: u128 = 64;

#[derive(Debug)]
struct Node {
    /// None for a class.
    flow: Option<u32>,
    parent: u32,
    /// Its index among its siblings.
    place: u32,
    /// The virtual time of one byte: `BYTE / weight`.
    step: u64,
    /// v: the bytes sent, in steps.
    virtual_time: u128,
    is_queued: bool,
    granted_at: Option<Time>,
    children: Children,
}

/// The flows and classes of a class.
#[derive(Debug)]
struct Children {
    places: Vec<u32>,
    vacant: Vec<u32>,
    /// Those that have requested to send, by virtual time.
    queued: MinTree<(u128, u64)>,
    /// The class's own virtual time.
    virtual_time: u128,
}

/// The macroflow's classes and flows.
#[derive(Debug)]
pub(super) struct LinkSharing {
    nodes: Vec<Node>,
    free: Vec<u32>,
    classes: BTreeMap<u32, u32>,
    /// The number of requests, which breaks ties: the earlier request is first.
    requests: u64,
}

impl LinkSharing {
    pub(super) fn new() -> Self {
        let root = Node::new(None, 1.0);
        Self { nodes: vec![root], free: Vec::new(), classes: BTreeMap::new(), requests: 0 }
    }

    /// Adds a flow, without a class and with weight 1. Returns its node.
    pub(super) fn join(&mut self, flow: u32) -> u32 {
        let node = self.add(Node::new(Some(flow), 1.0));
        self.attach(node, ROOT);
        node
    }

    /// Removes a flow.
    pub(super) fn leave(&mut self, node: u32) {
        self.detach(node);
        self.release(node);
    }

    /// Sets the flow's weight among its siblings.
    pub(super) fn set_weight(&mut self, node: u32, weight: f64) {
        self.nodes[node as usize].step = step(weight);
    }

    /// Moves the flow to `class`, which has `weight` among classes and flows without one; `None` is no class.
    pub(super) fn classify(&mut self, node: u32, class: Option<(u32, f64)>) {
        let parent = class.map_or(ROOT, |(class, weight)| self.class(class, weight));
        if self.nodes[node as usize].parent == parent {
            return;
        }
        let was_queued = self.nodes[node as usize].is_queued;
        self.detach(node);
        self.attach(node, parent);
        let moved = &mut self.nodes[node as usize];
        (moved.virtual_time, moved.granted_at) = (0, None); // virtual times differ between classes
        if was_queued {
            self.enqueue(node, None);
        }
    }

    pub(super) fn is_queued(&self, node: u32) -> bool {
        self.nodes[node as usize].is_queued
    }

    /// Whether no flow has requested to send.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes[ROOT as usize].children.queued.first().is_none()
    }

    /// Whether the flow was last granted at another time than `now`. A flow that requests at the time of its grant was
    /// never idle.
    pub(super) fn resumes(&self, node: u32, now: Option<Time>) -> bool {
        now.is_none() || self.nodes[node as usize].granted_at != now
    }

    /// Queues `node` for its turn, and the classes that contain it.
    pub(super) fn enqueue(&mut self, mut node: u32, now: Option<Time>) {
        while node != ROOT && !self.nodes[node as usize].is_queued {
            if self.resumes(node, now) {
                let parent = self.nodes[node as usize].parent;
                let present = self.nodes[parent as usize].children.virtual_time;
                let resumed = &mut self.nodes[node as usize].virtual_time;
                *resumed = (*resumed).max(present);
            }
            self.nodes[node as usize].is_queued = true;
            self.queue(node);
            node = self.nodes[node as usize].parent;
        }
    }

    fn queue(&mut self, node: u32) {
        let &Node { parent, place, virtual_time, .. } = &self.nodes[node as usize];
        self.nodes[parent as usize].children.queued.set(place, (virtual_time, self.requests));
        self.requests += 1;
    }

    /// The node whose turn it is by this criterion.
    pub(super) fn next(&mut self) -> Option<u32> {
        let mut node = ROOT;
        loop {
            let children = &mut self.nodes[node as usize].children;
            let (place, (virtual_time, _)) = children.queued.first()?;
            children.virtual_time = children.virtual_time.max(virtual_time);
            node = children.places[place as usize];
            if self.nodes[node as usize].flow.is_some() {
                return Some(node);
            }
        }
    }

    /// Grants the flow permission to send, by either criterion; its request is consumed.
    pub(super) fn grant(&mut self, node: u32, now: Time) -> Option<u32> {
        self.withdraw(node);
        let mut above = node;
        while above != ROOT {
            self.nodes[above as usize].granted_at = Some(now);
            above = self.nodes[above as usize].parent;
        }
        self.nodes[node as usize].flow
    }

    /// The flow has sent `bytes`, by either criterion, in packets of up to `packet`.
    pub(super) fn sent(&mut self, mut node: u32, packet: Bytes, bytes: Bytes) {
        while node != ROOT {
            let parent = self.nodes[node as usize].parent;
            let present = self.nodes[parent as usize].children.virtual_time;
            let sender = &mut self.nodes[node as usize];
            let step = u128::from(sender.step);
            let max = present + MAX_LEAD * u128::from(packet.as_u64()) * step;
            let after = sender.virtual_time + u128::from(bytes.as_u64()) * step; // v += bytes / weight
            sender.virtual_time = after.min(max.max(sender.virtual_time));
            if sender.is_queued {
                self.queue(node);
            }
            node = parent;
        }
    }

    /// Removes the request of `node`, and those of its classes if they have no other.
    fn withdraw(&mut self, mut node: u32) {
        while node != ROOT && self.nodes[node as usize].is_queued {
            let queued = &mut self.nodes[node as usize];
            queued.is_queued = false;
            let (parent, place) = (queued.parent, queued.place);
            let queued = &mut self.nodes[parent as usize].children.queued;
            queued.clear(place);
            if queued.first().is_some() {
                return;
            }
            node = parent;
        }
    }

    fn attach(&mut self, node: u32, parent: u32) {
        let children = &mut self.nodes[parent as usize].children;
        let place = children.vacant.pop().unwrap_or(children.places.len() as u32);
        if place as usize == children.places.len() {
            children.places.push(node);
        } else {
            children.places[place as usize] = node;
        }
        let attached = &mut self.nodes[node as usize];
        (attached.parent, attached.place) = (parent, place);
    }

    /// Removes `node` from its class; a class without members ends.
    fn detach(&mut self, node: u32) {
        self.withdraw(node);
        let &Node { parent, place, .. } = &self.nodes[node as usize];
        let children = &mut self.nodes[parent as usize].children;
        children.vacant.push(place);
        if parent != ROOT && children.vacant.len() == children.places.len() {
            self.detach(parent);
            self.classes.retain(|_, class| *class != parent);
            self.release(parent);
        }
    }

    fn class(&mut self, class: u32, weight: f64) -> u32 {
        if let Some(&node) = self.classes.get(&class) {
            self.set_weight(node, weight);
            return node;
        }
        let node = self.add(Node::new(None, weight));
        self.attach(node, ROOT);
        self.classes.insert(class, node);
        node
    }

    fn add(&mut self, node: Node) -> u32 {
        if let Some(place) = self.free.pop() {
            self.nodes[place as usize] = node;
            return place;
        }
        self.nodes.push(node);
        (self.nodes.len() - 1) as u32
    }

    fn release(&mut self, node: u32) {
        self.nodes[node as usize] = Node::new(None, 1.0);
        self.free.push(node);
    }
}

impl Node {
    fn new(flow: Option<u32>, weight: f64) -> Self {
        let children = Children { places: Vec::new(), vacant: Vec::new(), queued: MinTree::new(), virtual_time: 0 };
        let (parent, place, virtual_time, is_queued, granted_at) = (ROOT, 0, 0, false, None);
        Self { flow, parent, place, step: step(weight), virtual_time, is_queued, granted_at, children }
    }
}

/// The virtual time of one byte at this weight. The bounds prevent overflow and keep the step above zero.
fn step(weight: f64) -> u64 {
    (BYTE / weight).round().clamp(1.0, BYTE * BYTE / 4.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_of_any_weight_is_in_its_bounds() {
        assert_eq!([f64::MIN_POSITIVE, 1.0, f64::MAX].map(step), [1 << 62, 1 << 32, 1]);
    }

    #[test]
    fn classes_and_flows_that_ended_take_no_memory() {
        let mut sharing = LinkSharing::new();
        let stays = sharing.join(0);
        for class in 0..100 {
            let flow = sharing.join(1);
            sharing.classify(flow, Some((class, 1.0)));
            sharing.classify(stays, Some((class, 1.0)));
            sharing.leave(flow);
        }
        assert!(sharing.nodes.len() <= 5, "two flows, two classes and the macroflow: {}", sharing.nodes.len());
    }
}
