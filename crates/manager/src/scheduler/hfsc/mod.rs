//! H-FSC, the hierarchical fair service curve scheduler (Stoica, Zhang and Ng, SIGCOMM '97), which the CM paper plans
//! for flows that need low delay (section 4.6). Two criteria decide whose turn it is:
//!
//! ```text
//! if a flow with a service curve is due more than it had:   of these flows the one with the earliest deadline
//!                                                                                                     real_time
//! otherwise:                                the flow, through its classes, with the smallest virtual time
//!                                                                                                     link_sharing
//! ```
//!
//! The first criterion keeps guarantees. A curve separates delay from rate: a flow of few packets can send each of them
//! at once beside a flow that always sends. The second criterion divides the rest by weight. Service by both criteria
//! counts for link sharing; service beyond the guarantee does not count against the guarantee.
//!
//! The link is a macroflow, whose rate changes. If the rate falls below the sum of the curves, flows with curves use
//! all of it and take turns when late; flows without curves wait. When the rate exceeds the sum again, flows without
//! curves get the rest after at most one second's worth of guarantees has been made up. The scheduler does not set a
//! rate, and is work-conserving.
//!
//! *Deviations* are listed in `real_time`, `link_sharing` and at `Curves::resume`. There are no upper limits, and
//! classes have no guarantees.

mod curve;
mod link_sharing;
mod min_tree;
mod real_time;
#[cfg(test)]
mod tests;

use rampmeter_units::{Bytes, Time};

pub use self::curve::ServiceCurve;
use self::link_sharing::LinkSharing;
use self::real_time::RealTime;

/// The criterion by which a flow was selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Criterion {
    RealTime,
    LinkSharing,
}

/// The state of a flow that both criteria share.
#[derive(Debug, Clone, Copy)]
struct FlowState {
    /// Its node in `sharing`, which is also its index in `guarantees`.
    node: u32,
    requested_at: Time,
    /// The criterion of its grant, until it has notified.
    granted: Option<Criterion>,
}

/// Flows with service curves and weights.
#[derive(Debug)]
pub(crate) struct Hfsc {
    /// By flow number; the numbers of other macroflows' flows are empty.
    flows: Vec<Option<FlowState>>,
    guarantees: RealTime,
    sharing: LinkSharing,
}

impl Hfsc {
    pub(crate) fn new() -> Self {
        Self { flows: Vec::new(), guarantees: RealTime::new(), sharing: LinkSharing::new() }
    }

    /// Adds a flow, without a class, with weight 1 and without a curve.
    pub(crate) fn join(&mut self, flow: u32) {
        if self.flows.len() <= flow as usize {
            self.flows.resize(flow as usize + 1, None);
        }
        let node = self.sharing.join(flow);
        self.flows[flow as usize] = Some(FlowState { node, requested_at: Time::ZERO, granted: None });
    }

    /// Removes a flow.
    pub(crate) fn leave(&mut self, flow: u32) {
        if let Some(FlowState { node, .. }) = self.flows[flow as usize].take() {
            self.guarantees.set_curve(node, None);
            self.sharing.leave(node);
        }
    }

    /// Sets the flow's weight among its siblings.
    pub(crate) fn set_weight(&mut self, flow: u32, weight: f64) {
        if let Some(FlowState { node, .. }) = self.flows[flow as usize] {
            self.sharing.set_weight(node, weight);
        }
    }

    /// Moves the flow to `class`, which has `weight` among classes and flows without one; `None` is no class.
    pub(crate) fn classify(&mut self, flow: u32, class: Option<(u32, f64)>) {
        if let Some(FlowState { node, .. }) = self.flows[flow as usize] {
            self.sharing.classify(node, class);
        }
    }

    /// Sets the flow's guarantee.
    pub(crate) fn guarantee(&mut self, flow: u32, curve: Option<ServiceCurve>) {
        if let Some(FlowState { node, requested_at, .. }) = self.flows[flow as usize] {
            let changes = self.guarantees.curve(node) != curve;
            self.guarantees.set_curve(node, curve);
            if changes && self.sharing.is_queued(node) {
                self.guarantees.request(node, requested_at, true);
            }
        }
    }

    /// The flow has a packet to send.
    pub(crate) fn request(&mut self, now: Time, flow: u32) {
        let Some(FlowState { node, requested_at, .. }) = &mut self.flows[flow as usize] else { return };
        if self.sharing.is_queued(*node) {
            return;
        }
        *requested_at = now;
        self.guarantees.request(*node, now, self.sharing.resumes(*node, Some(now)));
        self.sharing.enqueue(*node, Some(now));
    }

    /// Whether no flow has requested to send.
    pub(crate) fn is_empty(&self) -> bool {
        self.sharing.is_empty()
    }

    /// The flow whose turn it is to send a packet; its request is consumed. The turn is charged when the packet is
    /// sent.
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

    /// The flow has sent `bytes` of the `packet` that it was granted.
    pub(crate) fn sent(&mut self, flow: u32, packet: Bytes, bytes: Bytes) {
        let Some(Some(FlowState { node, granted, .. })) = self.flows.get_mut(flow as usize) else { return };
        if let Some(criterion) = granted.take() {
            self.guarantees.sent(*node, bytes, criterion == Criterion::RealTime);
            self.sharing.sent(*node, packet, bytes);
        }
    }
}
