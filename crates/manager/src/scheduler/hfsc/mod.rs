//! H-FSC, the hierarchical fair service curve scheduler (Stoica, Zhang and Ng, SIGCOMM '97), which the CM paper plans for
//! flows that need low delay (section 4.6). It has two criteria for whose turn it is:
//!
//! ```text
//! some flow with a service curve is due more than it had:   the one of them with the earliest deadline    real_time
//! otherwise:                                 the flow, through its classes, with the least virtual time   link_sharing
//! ```
//!
//! The first keeps guarantees, and a curve sets delay and rate apart: a flow of few packets can have each of them sent at
//! once beside one that sends all the time. The second shares the rest by weight. Service of either kind counts for
//! sharing; service beyond the guarantee doesn't count against the guarantee.
//!
//! The link is a macroflow, whose rate changes. If it falls below the sum of the curves, flows with curves have all of it
//! and take turns when late, those without wait. When the rate is back above the sum, they get the rest again after a
//! second's worth of guarantees has been made good. Nothing here sets a rate, and no turn is ever left unused.
//!
//! *Deviations* stand in `real_time`, `link_sharing` and at `Curves::resume`. There are no upper limits, and classes have
//! no guarantees.

mod curve;
mod least;
mod link_sharing;
mod real_time;
#[cfg(test)]
mod tests;

use rampmeter_units::{Bytes, Time};

pub use self::curve::ServiceCurve;
use self::link_sharing::LinkSharing;
use self::real_time::RealTime;

/// Why it is a flow's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Criterion {
    RealTime,
    LinkSharing,
}

/// What of a flow belongs to neither criterion.
#[derive(Debug, Clone, Copy)]
struct Flow {
    /// Its node in `sharing` and its place in `guarantees`.
    node: u32,
    asked_at: Time,
    /// Why it was given leave, until it says what it made of it.
    granted: Option<Criterion>,
}

/// Flows with service curves and weights.
#[derive(Debug)]
pub(crate) struct Hfsc {
    /// By the flow's number; numbers of other macroflows' flows stand empty.
    flows: Vec<Option<Flow>>,
    guarantees: RealTime,
    sharing: LinkSharing,
}

impl Hfsc {
    pub(crate) fn new() -> Self {
        Self { flows: Vec::new(), guarantees: RealTime::new(), sharing: LinkSharing::new() }
    }

    /// A flow joins, in no class, with weight 1 and no curve.
    pub(crate) fn join(&mut self, flow: u32) {
        if self.flows.len() <= flow as usize {
            self.flows.resize(flow as usize + 1, None);
        }
        let node = self.sharing.join(flow);
        self.flows[flow as usize] = Some(Flow { node, asked_at: Time::ZERO, granted: None });
    }

    /// A flow leaves.
    pub(crate) fn leave(&mut self, flow: u32) {
        if let Some(Flow { node, .. }) = self.flows[flow as usize].take() {
            self.guarantees.promise(node, None);
            self.sharing.leave(node);
        }
    }

    /// The flow's weight among its siblings.
    pub(crate) fn weigh(&mut self, flow: u32, weight: f64) {
        if let Some(Flow { node, .. }) = self.flows[flow as usize] {
            self.sharing.weigh(node, weight);
        }
    }

    /// Puts the flow into `class`, which has `weight` among classes and flows without one; `None` is no class.
    pub(crate) fn classify(&mut self, flow: u32, class: Option<(u32, f64)>) {
        if let Some(Flow { node, .. }) = self.flows[flow as usize] {
            self.sharing.classify(node, class);
        }
    }

    /// What the flow is guaranteed.
    pub(crate) fn guarantee(&mut self, flow: u32, curve: Option<ServiceCurve>) {
        if let Some(Flow { node, asked_at, .. }) = self.flows[flow as usize] {
            let changes = self.guarantees.curve(node) != curve;
            self.guarantees.promise(node, curve);
            if changes && self.sharing.asks(node) {
                self.guarantees.ask(node, asked_at, true);
            }
        }
    }

    /// The flow has a packet to send.
    pub(crate) fn request(&mut self, now: Time, flow: u32) {
        let Some(Flow { node, asked_at, .. }) = &mut self.flows[flow as usize] else { return };
        if self.sharing.asks(*node) {
            return;
        }
        *asked_at = now;
        self.guarantees.ask(*node, now, self.sharing.resumes(*node, Some(now)));
        self.sharing.ask(*node, Some(now));
    }

    /// Whether any flow asks.
    pub(crate) fn is_empty(&self) -> bool {
        self.sharing.is_empty()
    }

    /// Whose turn it is to send a packet; it no longer asks. The turn costs nothing until the packet is sent.
    pub(crate) fn next(&mut self, now: Time) -> Option<u32> {
        let (node, criterion) = match self.guarantees.next(now) {
            Some(node) => (node, Criterion::RealTime),
            None => (self.sharing.next()?, Criterion::LinkSharing),
        };
        self.guarantees.withdraw(node);
        let flow = self.sharing.grant(node, now)?;
        if let Some(granted) = &mut self.flows[flow as usize] {
            granted.granted = Some(criterion);
        }
        Some(flow)
    }

    /// Of the `packet` that it was granted the flow has sent `bytes`.
    pub(crate) fn sent(&mut self, flow: u32, packet: Bytes, bytes: Bytes) {
        let Some(Some(Flow { node, granted, .. })) = self.flows.get_mut(flow as usize) else { return };
        if let Some(criterion) = granted.take() {
            self.guarantees.sent(*node, bytes, criterion == Criterion::RealTime);
            self.sharing.sent(*node, packet, bytes);
        }
    }
}
