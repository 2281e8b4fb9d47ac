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

use std::collections::BTreeMap;

use rampmeter_units::{Bytes, Time};

pub use self::curve::ServiceCurve;
use self::link_sharing::LinkSharing;
use self::real_time::RealTime;
use crate::flow::Share;

/// The criterion by which a flow was selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Criterion {
    RealTime,
    LinkSharing,
}

/// The state of a flow that both criteria share.
#[derive(Debug, Clone, Copy)]
struct Flow {
    /// Its node in `sharing`, which is also its index in `guarantees`.
    node: u32,
    requested_at: Time,
}

/// Flows with service curves and weights.
#[derive(Debug)]
pub(crate) struct Hfsc {
    flows: BTreeMap<u32, Flow>,
    guarantees: RealTime,
    sharing: LinkSharing,
    /// The node that was granted and the criterion, until its flow has sent.
    granted: Option<(u32, Criterion)>,
}

impl Hfsc {
    pub(crate) fn new() -> Self {
        Self { flows: BTreeMap::new(), guarantees: RealTime::new(), sharing: LinkSharing::new(), granted: None }
    }

    pub(crate) fn join(&mut self, flow: u32) {
        let node = self.sharing.join(flow);
        self.flows.insert(flow, Flow { node, requested_at: Time::ZERO });
    }

    pub(crate) fn leave(&mut self, flow: u32) {
        if let Some(Flow { node, .. }) = self.flows.remove(&flow) {
            self.guarantees.set_curve(node, None);
            self.sharing.leave(node);
            self.granted = self.granted.filter(|(granted, _)| *granted != node);
        }
    }

    pub(crate) fn share(&mut self, flow: u32, share: Share) {
        let Some(&Flow { node, requested_at }) = self.flows.get(&flow) else { return };
        self.sharing.set_weight(node, share.weight);
        self.sharing.classify(node, share.class);
        let changes = self.guarantees.curve(node) != share.curve;
        self.guarantees.set_curve(node, share.curve);
        if changes && self.sharing.is_queued(node) {
            self.guarantees.request(node, requested_at, true);
        }
    }

    pub(crate) fn request(&mut self, now: Time, flow: u32) {
        let Some(Flow { node, requested_at }) = self.flows.get_mut(&flow) else { return };
        if self.sharing.is_queued(*node) {
            return;
        }
        *requested_at = now;
        self.guarantees.request(*node, now, self.sharing.resumes(*node, Some(now)));
        self.sharing.enqueue(*node, Some(now));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sharing.is_empty()
    }

    /// The turn is charged when the packet is sent.
    pub(crate) fn next(&mut self, now: Time) -> Option<u32> {
        let (node, criterion) = match self.guarantees.next(now) {
            Some(node) => (node, Criterion::RealTime),
            None => (self.sharing.next()?, Criterion::LinkSharing),
        };
        self.guarantees.withdraw(node);
        self.granted = Some((node, criterion));
        self.sharing.grant(node, now)
    }

    pub(crate) fn sent(&mut self, packet: Bytes, bytes: Bytes) {
        if let Some((node, criterion)) = self.granted.take() {
            self.guarantees.sent(node, bytes, criterion == Criterion::RealTime);
            self.sharing.sent(node, packet, bytes);
        }
    }

    pub(crate) fn unsent(&mut self, flow: u32, bytes: Bytes) {
        if let Some(Flow { node, .. }) = self.flows.get(&flow) {
            self.sharing.unsent(*node, bytes);
        }
    }
}
