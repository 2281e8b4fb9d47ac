//! Whose turn it is among the flows of a macroflow (section 4.6). One scheduler can be put in another's place without
//! anything else knowing.

mod hrr;

use std::collections::VecDeque;

use rampmeter_units::Bytes;

use self::hrr::Hrr;

/// How the flows of a macroflow share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scheduling {
    /// In the order in which they ask. Enough where a macroflow has one flow.
    #[default]
    InTurn,
    /// Hierarchical round robin by weights, the CM paper's scheduler.
    RoundRobin,
}

/// A scheduler: who asks, and who is next.
#[derive(Debug)]
pub(crate) enum Scheduler {
    InTurn(VecDeque<u32>),
    RoundRobin(Box<Hrr>),
}

impl Scheduler {
    pub(crate) fn new(scheduling: Scheduling) -> Self {
        match scheduling {
            Scheduling::InTurn => Self::InTurn(VecDeque::new()),
            Scheduling::RoundRobin => Self::RoundRobin(Box::new(Hrr::new())),
        }
    }

    pub(crate) fn join(&mut self, flow: u32) {
        if let Self::RoundRobin(hrr) = self {
            hrr.join(flow);
        }
    }

    pub(crate) fn leave(&mut self, flow: u32) {
        match self {
            Self::InTurn(queue) => queue.retain(|&other| other != flow),
            Self::RoundRobin(hrr) => hrr.leave(flow),
        }
    }

    /// The flow's share, where shares are not equal, relative to the others' of its class.
    pub(crate) fn weigh(&mut self, flow: u32, weight: f64) {
        if let Self::RoundRobin(hrr) = self {
            hrr.weigh(flow, weight);
        }
    }

    /// The class that the flow's share is part of, and that class's own.
    pub(crate) fn classify(&mut self, flow: u32, class: Option<(u32, f64)>) {
        if let Self::RoundRobin(hrr) = self {
            hrr.classify(flow, class);
        }
    }

    /// The flow, which does not ask yet, has a packet to send.
    pub(crate) fn request(&mut self, flow: u32) {
        match self {
            Self::InTurn(queue) => queue.push_back(flow),
            Self::RoundRobin(hrr) => hrr.request(flow),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::InTurn(queue) => queue.is_empty(),
            Self::RoundRobin(hrr) => hrr.is_empty(),
        }
    }

    /// Who may send `packet`; it no longer asks.
    pub(crate) fn next(&mut self, packet: Bytes) -> Option<u32> {
        match self {
            Self::InTurn(queue) => queue.pop_front(),
            Self::RoundRobin(hrr) => hrr.next(packet),
        }
    }

    /// Of the `packet` that it was granted the flow has sent `bytes`.
    pub(crate) fn sent(&mut self, flow: u32, packet: Bytes, bytes: Bytes) {
        if let Self::RoundRobin(hrr) = self {
            hrr.sent(flow, packet, bytes);
        }
    }
}
