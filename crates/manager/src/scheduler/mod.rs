//! Schedulers: which flow of a macroflow sends next (section 4.6). Schedulers are interchangeable.

mod hfsc;
mod hrr;

use std::collections::VecDeque;

use rampmeter_units::{Bytes, Time};

use self::hfsc::Hfsc;
pub use self::hfsc::ServiceCurve;
use self::hrr::Hrr;

/// The maximum length of a turn: most objects of a web page are shorter.
pub const MAX_TURN: Bytes = Bytes::new(32_000);

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

    /// Sets the flow's weight relative to the others of its class, where the scheduler has weights.
    pub(crate) fn set_weight(&mut self, flow: u32, weight: f64) {
        match self {
            Self::InTurn(_) => {}
            Self::RoundRobin(hrr) => hrr.set_weight(flow, weight),
            Self::ServiceCurves(hfsc) => hfsc.set_weight(flow, weight),
        }
    }

    /// Sets the flow's class and the weight of the class.
    pub(crate) fn classify(&mut self, flow: u32, class: Option<(u32, f64)>) {
        match self {
            Self::InTurn(_) => {}
            Self::RoundRobin(hrr) => hrr.classify(flow, class),
            Self::ServiceCurves(hfsc) => hfsc.classify(flow, class),
        }
    }

    /// Sets the flow's guarantee, where the scheduler has guarantees.
    pub(crate) fn guarantee(&mut self, flow: u32, curve: Option<ServiceCurve>) {
        if let Self::ServiceCurves(hfsc) = self {
            hfsc.guarantee(flow, curve);
        }
    }

    /// The flow, which has no pending request, has a packet to send.
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

    /// The flow that may send `packet`; its request is consumed. Where the scheduler has turns, one lasts for `turn` bytes.
    pub(crate) fn next(&mut self, now: Time, packet: Bytes, turn: Bytes) -> Option<u32> {
        match self {
            Self::InTurn(queue) => queue.pop_front(),
            Self::RoundRobin(hrr) => hrr.next(packet, turn),
            Self::ServiceCurves(hfsc) => hfsc.next(now),
        }
    }

    /// The flow has sent `bytes` of the `packet` that it was granted.
    pub(crate) fn sent(&mut self, flow: u32, packet: Bytes, bytes: Bytes) {
        match self {
            Self::InTurn(_) => {}
            Self::RoundRobin(hrr) => hrr.sent(flow, packet, bytes),
            Self::ServiceCurves(hfsc) => hfsc.sent(flow, packet, bytes),
        }
    }
}
