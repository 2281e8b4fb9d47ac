//! Whose turn it is among the flows of a macroflow (section 4.6). One scheduler can be put in another's place without
//! anything else knowing.

mod hfsc;
mod hrr;

use std::collections::VecDeque;

use rampmeter_units::{Bytes, Time};

use self::hfsc::Hfsc;
pub use self::hfsc::ServiceCurve;
use self::hrr::Hrr;

/// How the flows of a macroflow share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scheduling {
    /// In the order in which they ask. Enough where a macroflow has one flow.
    #[default]
    InTurn,
    /// Hierarchical round robin by weights, the CM paper's scheduler.
    RoundRobin,
    /// Hierarchical fair service curves (H-FSC): guarantees of rate and delay first, then by weights.
    ServiceCurves,
}

/// A scheduler: who asks, and who is next.
#[derive(Debug)]
pub(crate) enum Scheduler {
    InTurn(VecDeque<u32>),
    RoundRobin(Box<Hrr>),
    ServiceCurves(Box<Hfsc>),
}

impl Scheduler {
    pub(crate) fn new(scheduling: Scheduling) -> Self {
        match scheduling {
            Scheduling::InTurn => Self::InTurn(VecDeque::new()),
            Scheduling::RoundRobin => Self::RoundRobin(Box::new(Hrr::new())),
            Scheduling::ServiceCurves => Self::ServiceCurves(Box::new(Hfsc::new())),
        }
    }

    pub(crate) fn join(&mut self, flow: u32) {
        match self {
            Self::InTurn(_) => {}
            Self::RoundRobin(hrr) => hrr.join(flow),
            Self::ServiceCurves(hfsc) => hfsc.join(flow),
        }
    }

    pub(crate) fn leave(&mut self, flow: u32) {
        match self {
            Self::InTurn(queue) => queue.retain(|&other| other != flow),
            Self::RoundRobin(hrr) => hrr.leave(flow),
            Self::ServiceCurves(hfsc) => hfsc.leave(flow),
        }
    }

    /// The flow's share, where shares are not equal, relative to the others' of its class.
    pub(crate) fn weigh(&mut self, flow: u32, weight: f64) {
        match self {
            Self::InTurn(_) => {}
            Self::RoundRobin(hrr) => hrr.weigh(flow, weight),
            Self::ServiceCurves(hfsc) => hfsc.weigh(flow, weight),
        }
    }

    /// The class that the flow's share is part of, and that class's own.
    pub(crate) fn classify(&mut self, flow: u32, class: Option<(u32, f64)>) {
        match self {
            Self::InTurn(_) => {}
            Self::RoundRobin(hrr) => hrr.classify(flow, class),
            Self::ServiceCurves(hfsc) => hfsc.classify(flow, class),
        }
    }

    /// What the flow is guaranteed, where there are guarantees.
    pub(crate) fn guarantee(&mut self, flow: u32, curve: Option<ServiceCurve>) {
        if let Self::ServiceCurves(hfsc) = self {
            hfsc.guarantee(flow, curve);
        }
    }

    /// The flow, which does not ask yet, has a packet to send.
    pub(crate) fn request(&mut self, now: Time, flow: u32) {
        match self {
            Self::InTurn(queue) => queue.push_back(flow),
            Self::RoundRobin(hrr) => hrr.request(flow),
            Self::ServiceCurves(hfsc) => hfsc.request(now, flow),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::InTurn(queue) => queue.is_empty(),
            Self::RoundRobin(hrr) => hrr.is_empty(),
            Self::ServiceCurves(hfsc) => hfsc.is_empty(),
        }
    }

    /// Who may send `packet`; it no longer asks.
    pub(crate) fn next(&mut self, now: Time, packet: Bytes) -> Option<u32> {
        match self {
            Self::InTurn(queue) => queue.pop_front(),
            Self::RoundRobin(hrr) => hrr.next(packet),
            Self::ServiceCurves(hfsc) => hfsc.next(now),
        }
    }

    /// Of the `packet` that it was granted the flow has sent `bytes`.
    pub(crate) fn sent(&mut self, flow: u32, packet: Bytes, bytes: Bytes) {
        match self {
            Self::InTurn(_) => {}
            Self::RoundRobin(hrr) => hrr.sent(flow, packet, bytes),
            Self::ServiceCurves(hfsc) => hfsc.sent(flow, packet, bytes),
        }
    }
}
