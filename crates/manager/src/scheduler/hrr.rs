//! Hierarchical round robin (section 4.6): flows take turns in proportion to their weights within their class, and
//! classes do the same.
//!
//! ```text
//!              macroflow
//!             /    |    \
//!      class 0  class 1  flow 9          every node has a weight among its siblings;
//!      /    \      |                     the other nodes share the turns of an idle class
//!  flow 3  flow 4  flow 7
//! ```
//!
//! *Deviation*: rounds decide whose turn it is, not lists of slots as in the strategy of that name (Kalmanek, Kanakia
//! and Keshav, 1990; the paper's reference 17). In one round a node may send bytes in proportion to its weight; the
//! node with the earliest round is next. So any weights are possible, and the packets of different flows alternate.
//!
//! ```text
//! node is granted a packet of b bytes:       round += b / weight
//! node requests after idle time:            round  = max(round, its parent's current round)
//! ```
//!
//! *Turns*. A node whose turn it is may send several packets in a row ([`crate::Sharing::turn`]). Rounds count them all,
//! so turns change no share. They end transfers of one turn sooner: where six objects of 20 kB start together, one after
//! the other is complete, the last when all would be complete if their packets alternated.

use std::cmp::Reverse;

use dary_heap::QuaternaryHeap;
use rampmeter_units::Bytes;

/// The size of a round for one byte at weight 1. Rounds are integers, so that their sums do not depend on the order.
const BYTE: f64 = 65_536.0;

/// The index of the macroflow's own node.
const ROOT: u32 = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Free,
    Class(u32),
    Flow(u32),
}

#[derive(Debug)]
struct Node {
    kind: Kind,
    parent: u32,
    weight: f64,
    /// The node's round.
    round: u64,
    /// The round of the child that was served last.
    current: u64,
    /// Children that have requested to send, each at most once.
    waiting: QuaternaryHeap<Reverse<(u64, u64, u32)>>,
    /// It is in its parent's heap.
    queued: bool,
    /// Bytes that were charged and not sent.
    unused: i64,
    /// The child whose turn it is; the root if there is none.
    serving: u32,
    /// The bytes that are left of its turn.
    turn_left: i64,
    /// That child has requested again within its turn, and is not in the heap.
    continues: bool,
}

/// Flows that take turns by weight.
#[derive(Debug)]
pub(crate) struct Hrr {
    nodes: Vec<Node>,
    free: Vec<u32>,
    /// The node of each flow, by flow number.
    by_flow: Vec<u32>,
    /// The number of requests, which breaks ties: the earlier request is first.
    requests: u64,
}

impl Hrr {
    pub(crate) fn new() -> Self {
        let root = Node::new(Kind::Class(0), ROOT, 1.0);
        Self { nodes: vec![root], free: Vec::new(), by_flow: Vec::new(), requests: 0 }
    }

    /// Adds a flow, without a class and with weight 1.
    pub(crate) fn join(&mut self, flow: u32) {
        let node = self.add(Node::new(Kind::Flow(flow), ROOT, 1.0));
        let place = flow as usize;
        if self.by_flow.len() <= place {
            self.by_flow.resize(place + 1, ROOT);
        }
        self.by_flow[place] = node;
    }

    /// Removes a flow.
    pub(crate) fn leave(&mut self, flow: u32) {
        let node = std::mem::replace(&mut self.by_flow[flow as usize], ROOT);
        self.detach(node);
        self.release(node);
    }

    /// Sets the flow's weight among its siblings.
    pub(crate) fn set_weight(&mut self, flow: u32, weight: f64) {
        let node = self.by_flow[flow as usize];
        self.nodes[node as usize].weight = weight;
    }

    /// Moves the flow to `class`, which has `weight` among classes and flows without one; `None` is no class.
    pub(crate) fn classify(&mut self, flow: u32, class: Option<(u32, f64)>) {
        let node = self.by_flow[flow as usize];
        let requests = self.nodes[node as usize].queued;
        self.detach(node);
        let parent = class.map_or(ROOT, |(class, weight)| self.class(class, weight));
        let moved = &mut self.nodes[node as usize];
        (moved.parent, moved.round) = (parent, 0);
        if requests {
            self.queue(node);
        }
    }

    /// The flow has a packet to send.
    pub(crate) fn request(&mut self, flow: u32) {
        self.queue(self.by_flow[flow as usize]);
    }

    /// Whether no flow has requested to send.
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes[ROOT as usize].is_idle()
    }

    /// The flow whose turn it is to send `packet`; its request is consumed. A new turn lasts for `turn` bytes.
    pub(crate) fn next(&mut self, packet: Bytes, turn: Bytes) -> Option<u32> {
        let mut node = ROOT;
        let flow = loop {
            let child = self.nodes[node as usize].next_child(packet, turn)?;
            self.nodes[child as usize].queued = false;
            self.nodes[child as usize].charge(packet);
            node = child;
            if let Kind::Flow(flow) = self.nodes[node as usize].kind {
                break flow;
            }
        };
        // A class with further requests waits for its next turn.
        let parent = self.nodes[node as usize].parent;
        if !self.nodes[parent as usize].is_idle() {
            self.queue(parent);
        }
        Some(flow)
    }

    /// The flow has sent `bytes` of the `packet` that it was granted.
    pub(crate) fn sent(&mut self, flow: u32, packet: Bytes, bytes: Bytes) {
        let unused = packet.as_u64() as i64 - bytes.as_u64() as i64;
        let mut node = self.by_flow[flow as usize];
        while node != ROOT && unused != 0 {
            self.nodes[node as usize].unused += unused;
            node = self.nodes[node as usize].parent;
        }
    }

    /// Queues `node` for its turn, and the classes that contain it.
    fn queue(&mut self, mut node: u32) {
        while node != ROOT && !self.nodes[node as usize].queued {
            let parent = self.nodes[node as usize].parent;
            let current = self.nodes[parent as usize].current;
            let waiting = &mut self.nodes[node as usize];
            waiting.round = waiting.round.max(current);
            waiting.queued = true;
            let key = Reverse((waiting.round, self.requests, node));
            self.requests += 1;
            let above = &mut self.nodes[parent as usize];
            if above.serving == node && above.turn_left > 0 {
                above.continues = true;
            } else {
                above.waiting.push(key);
            }
            node = parent;
        }
    }

    /// Removes `node` from its class; a class without members ends.
    fn detach(&mut self, node: u32) {
        let parent = self.nodes[node as usize].parent;
        self.unqueue(parent, node);
        self.nodes[node as usize].parent = ROOT;
        if parent == ROOT {
            return;
        }
        if self.nodes[parent as usize].is_idle() {
            self.unqueue(ROOT, parent);
        }
        if self.nodes.iter().all(|other| other.parent != parent) {
            self.release(parent);
        }
    }

    /// Removes the request of `node`, if it has one, and ends its turn.
    fn unqueue(&mut self, parent: u32, node: u32) {
        let is_queued = std::mem::take(&mut self.nodes[node as usize].queued);
        let above = &mut self.nodes[parent as usize];
        if above.serving == node {
            (above.serving, above.turn_left, above.continues) = (ROOT, 0, false);
        }
        if is_queued {
            above.waiting.retain(|Reverse((_, _, other))| *other != node);
        }
    }

    fn class(&mut self, class: u32, weight: f64) -> u32 {
        let known = self.nodes.iter().skip(1).position(|node| node.kind == Kind::Class(class));
        let node = match known {
            Some(place) => place as u32 + 1,
            None => self.add(Node::new(Kind::Class(class), ROOT, weight)),
        };
        self.nodes[node as usize].weight = weight;
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
        self.nodes[node as usize] = Node::new(Kind::Free, ROOT, 1.0);
        self.free.push(node);
    }
}

impl Node {
    fn new(kind: Kind, parent: u32, weight: f64) -> Self {
        let (waiting, queued) = (QuaternaryHeap::new(), false);
        let (round, current, unused) = (0, 0, 0);
        let (serving, turn_left, continues) = (ROOT, 0, false);
        Self { kind, parent, weight, round, current, waiting, queued, unused, serving, turn_left, continues }
    }

    /// Whether no child has requested to send.
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && !self.continues
    }

    /// The child that sends `packet` next; a new turn lasts for `turn` bytes.
    fn next_child(&mut self, packet: Bytes, turn: Bytes) -> Option<u32> {
        if !std::mem::take(&mut self.continues) {
            let Reverse((round, _, child)) = self.waiting.pop()?;
            (self.current, self.serving, self.turn_left) = (round, child, turn.as_u64() as i64);
        }
        self.turn_left -= packet.as_u64() as i64;
        Some(self.serving)
    }

    fn charge(&mut self, packet: Bytes) {
        let bytes = packet.as_u64() as i64 - std::mem::take(&mut self.unused);
        self.round += (bytes.max(0) as f64 * BYTE / self.weight) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: Bytes = Bytes::new(1000);

    /// The grants to flows that always have a packet to send.
    fn grants(hrr: &mut Hrr, flows: &[u32], packets: usize) -> Vec<u32> {
        grants_in_turns(hrr, flows, packets, Bytes::ZERO)
    }

    /// The same with turns of several packets.
    fn grants_in_turns(hrr: &mut Hrr, flows: &[u32], packets: usize, turn: Bytes) -> Vec<u32> {
        for flow in flows {
            hrr.request(*flow);
        }
        let next = |_| {
            let flow = hrr.next(PACKET, turn).unwrap();
            hrr.request(flow);
            flow
        };
        (0..packets).map(next).collect()
    }

    fn count(grants: &[u32], flow: u32) -> usize {
        grants.iter().filter(|granted| **granted == flow).count()
    }

    fn with(flows: u32) -> Hrr {
        let mut hrr = Hrr::new();
        (0..flows).for_each(|flow| hrr.join(flow));
        hrr
    }

    #[test]
    fn a_turn_of_three_packets_is_three_packets_in_a_row() {
        let grants = grants_in_turns(&mut with(3), &[0, 1, 2], 12, PACKET * 3);
        assert_eq!(grants, [0, 0, 0, 1, 1, 1, 2, 2, 2, 0, 0, 0]);
    }

    #[test]
    fn turns_change_no_share() {
        let mut hrr = with(4);
        hrr.classify(0, Some((7, 3.0)));
        hrr.classify(1, Some((7, 3.0)));
        hrr.set_weight(1, 2.0);
        let all = grants_in_turns(&mut hrr, &[0, 1, 2, 3], 5000, PACKET * 8);
        for (flow, packets) in [(0, 1000), (1, 2000), (2, 1000), (3, 1000)] {
            assert!(count(&all, flow).abs_diff(packets) <= 8, "{flow}: {}", count(&all, flow));
        }
    }

    #[test]
    fn a_turn_ends_with_the_requests_of_its_flow() {
        let mut hrr = with(3);
        let turn = PACKET * 3;
        (0..3).for_each(|flow| hrr.request(flow));
        assert_eq!(hrr.next(PACKET, turn), Some(0));
        assert_eq!(hrr.next(PACKET, turn), Some(1), "flow 0 has no further packet");
        hrr.request(1);
        hrr.leave(1);
        assert_eq!((hrr.next(PACKET, turn), hrr.next(PACKET, turn)), (Some(2), None));
        assert!(hrr.is_empty());
        hrr.request(2);
        assert_eq!(hrr.next(PACKET, turn), Some(2), "nobody else has requested");
    }

    #[test]
    fn idle_time_earns_no_credit() {
        let mut hrr = with(2);
        assert_eq!(count(&grants(&mut hrr, &[0], 1000), 0), 1000);
        let both = grants(&mut hrr, &[1], 100);
        assert!(count(&both, 1) <= 51, "{}", count(&both, 1));
    }

    #[test]
    fn classes_and_flows_that_ended_take_no_memory() {
        let mut hrr = with(1);
        for class in 0..100 {
            hrr.join(1);
            hrr.classify(1, Some((class, 1.0)));
            hrr.classify(0, Some((class, 1.0)));
            hrr.leave(1);
        }
        assert!(hrr.nodes.len() <= 5, "two flows, two classes and the macroflow: {}", hrr.nodes.len());
    }
}
