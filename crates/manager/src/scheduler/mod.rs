//! Schedulers: which flow of a macroflow sends next (section 4.6). Schedulers are interchangeable.
//!
//! ```text
//!              macroflow
//!             /    |    \
//!      class 0  class 1  flow 9          every node has a weight among its siblings;
//!      /    \      |                     the other nodes share the turns of an idle class
//!  flow 3  flow 4  flow 7
//! ```
//!
//! Hierarchical round robin is H-FSC without guarantees. *Deviation*: virtual times decide whose turn it is, not lists
//! of slots as in the strategy of that name (Kalmanek, Kanakia and Keshav, 1990; the paper's reference 17). So any
//! weights are possible, and the packets of different flows alternate.

mod hfsc;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use rampmeter_units::{Bytes, Time};

use self::hfsc::Hfsc;
pub use self::hfsc::ServiceCurve;
use crate::flow::Share;

/// How the flows of a macroflow share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scheduling {
    /// In the order of their requests. This suffices for a macroflow with one flow.
    #[default]
    InTurn,
    /// Hierarchical round robin by weights, the CM paper's scheduler.
    RoundRobin,
    /// Hierarchical fair service curves (H-FSC): guarantees of rate and delay first, then division by weights.
    ServiceCurves,
}

/// A scheduler: keeps the requests and selects the next flow.
#[derive(Debug)]
pub(crate) enum Scheduler {
    InTurn(VecDeque<u32>),
    RoundRobin(Box<Hfsc>),
    ServiceCurves(Box<Hfsc>),
}

impl Scheduler {
    pub(crate) fn new(scheduling: Scheduling) -> Self {
        match scheduling {
            Scheduling::InTurn => Self::InTurn(VecDeque::new()),
            Scheduling::RoundRobin => Self::RoundRobin(Box::new(Hfsc::new())),
            Scheduling::ServiceCurves => Self::ServiceCurves(Box::new(Hfsc::new())),
        }
    }

    /// Adds a flow, without a class, with weight 1 and without a guarantee.
    pub(crate) fn join(&mut self, flow: u32) {
        if let Self::RoundRobin(tree) | Self::ServiceCurves(tree) = self {
            tree.join(flow);
        }
    }

    pub(crate) fn leave(&mut self, flow: u32) {
        match self {
            Self::InTurn(queue) => queue.retain(|&other| other != flow),
            Self::RoundRobin(tree) | Self::ServiceCurves(tree) => tree.leave(flow),
        }
    }

    /// Sets the flow's weight, class and guarantee, where the scheduler has them.
    pub(crate) fn share(&mut self, flow: u32, share: Share) {
        match self {
            Self::InTurn(_) => {}
            Self::RoundRobin(tree) => tree.share(flow, Share { curve: None, ..share }),
            Self::ServiceCurves(tree) => tree.share(flow, share),
        }
    }

    /// The flow has a packet to send.
    pub(crate) fn request(&mut self, now: Time, flow: u32) {
        match self {
            Self::InTurn(queue) => queue.push_back(flow),
            Self::RoundRobin(tree) | Self::ServiceCurves(tree) => tree.request(now, flow),
        }
    }

    /// Whether no flow has requested to send.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::InTurn(queue) => queue.is_empty(),
            Self::RoundRobin(tree) | Self::ServiceCurves(tree) => tree.is_empty(),
        }
    }

    /// The flow whose turn it is to send a packet; its request is consumed.
    pub(crate) fn next(&mut self, now: Time) -> Option<u32> {
        match self {
            Self::InTurn(queue) => queue.pop_front(),
            Self::RoundRobin(tree) | Self::ServiceCurves(tree) => tree.next(now),
        }
    }

    /// The flow whose turn it was has sent `bytes` of its `packet`. Without a turn since the last call, this does
    /// nothing.
    pub(crate) fn sent(&mut self, packet: Bytes, bytes: Bytes) {
        if let Self::RoundRobin(tree) | Self::ServiceCurves(tree) = self {
            tree.sent(packet, bytes);
        }
    }

    /// The flow has not sent `bytes` of what it was charged for. H-FSC does not credit them.
    pub(crate) fn unsent(&mut self, flow: u32, bytes: Bytes) {
        if let Self::RoundRobin(tree) = self {
            tree.unsent(flow, bytes);
        }
    }
}
