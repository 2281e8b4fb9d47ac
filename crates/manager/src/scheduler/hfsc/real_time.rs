//! The real-time criterion: among the flows that are due more service than they had, the one with the earliest deadline
//! is next, whatever its class.
//!
//! ```text
//! flow requests after idle:    D(t) = min(D(t), S(t - now) + c)           c: service by this criterion
//! flow requests a packet:      eligible time e = E^-1(c), deadline d = D^-1(c + packet)
//! flow was served by it:       c += bytes
//! ```
//!
//! The sum of the guarantees may exceed the macroflow's rate, because there is no admission control and congestion
//! control changes the rate. This needs the following *deviations*, which have no effect while the guarantees can be
//! kept:
//!
//! - A flow that is late when it requests has the time of its request as its deadline. So late flows take turns, and a
//!   flow with a large guarantee cannot prevent small guarantees from being kept. Flows with equal guarantees are late
//!   by equal numbers of packets, not by equal times.
//! - A deficit older than [`MAX_DEFICIT`] expires. Otherwise a flow that was underserved for an hour would have the
//!   whole macroflow until the deficit was made up.
//!
//! One more deviation is needed because CM flows do not state the size of a packet when they request: it is assumed to
//! be the size of the flow's last packet, and that of the first packet to be the first piece of a concave curve.

use rampmeter_units::{Bytes, Duration, Time};

use super::curve::{Curves, Service, ServiceCurve, service};
use super::min_tree::MinTree;

/// How late a guarantee may be made up: well above the pauses of a macroflow (round trips, a retransmission timeout).
const MAX_DEFICIT: Duration = Duration::from_secs(1);

/// The assumed maximum size of a flow's first packet.
const FIRST_PACKET: Bytes = Bytes::new(1500);

#[derive(Debug)]
struct Guaranteed {
    curve: ServiceCurve,
    /// None until its first request.
    curves: Option<Curves>,
    /// c: the service by this criterion.
    service: Service,
    packet: Bytes,
    requested_at: Time,
    /// d: the time by which the requested packet should have been sent.
    deadline: Time,
    has_request: bool,
}

/// Flows with a curve, by index.
#[derive(Debug)]
pub(super) struct RealTime {
    flows: Vec<Option<Guaranteed>>,
    /// Flows that are not yet eligible, by eligible time.
    pending: MinTree<(Time, u64)>,
    /// Eligible flows, by deadline.
    eligible: MinTree<(Time, u64)>,
    /// The number of requests, which breaks ties: the earlier request is first.
    requests: u64,
}

impl RealTime {
    pub(super) const fn new() -> Self {
        Self { flows: Vec::new(), pending: MinTree::new(), eligible: MinTree::new(), requests: 0 }
    }

    /// Sets the curve of the flow at `index` from its next request on.
    pub(super) fn set_curve(&mut self, index: u32, curve: Option<ServiceCurve>) {
        if self.curve(index) == curve {
            return;
        }
        self.withdraw(index);
        let fresh = |curve: ServiceCurve| {
            let packet = curve.burst().map_or(FIRST_PACKET, |burst| burst.min(FIRST_PACKET));
            let (requested_at, deadline) = (Time::ZERO, Time::ZERO);
            Guaranteed { curve, curves: None, service: 0, packet, requested_at, deadline, has_request: false }
        };
        if self.flows.len() <= index as usize {
            self.flows.resize_with(index as usize + 1, || None);
        }
        self.flows[index as usize] = curve.map(fresh);
    }

    pub(super) fn curve(&self, index: u32) -> Option<ServiceCurve> {
        self.flows.get(index as usize)?.as_ref().map(|flow| flow.curve)
    }

    /// The flow at `index` requests to send; `resumes` if it was idle before.
    pub(super) fn request(&mut self, index: u32, now: Time, resumes: bool) {
        let Some(Some(flow)) = self.flows.get_mut(index as usize) else { return };
        match &mut flow.curves {
            None => flow.curves = Some(Curves::new(flow.curve, now, flow.service)),
            Some(curves) if resumes => curves.resume(now, flow.service),
            Some(_) => {}
        }
        flow.has_request = true;
        flow.requested_at = now;
        self.schedule(index);
    }

    /// Computes the eligible time and the deadline of the requested packet.
    fn schedule(&mut self, index: u32) {
        let Some(Some(flow)) = self.flows.get_mut(index as usize) else { return };
        let Some(curves) = &flow.curves else { return };
        let eligible = curves.eligible(flow.service); // e = E^-1(c)
        flow.deadline = curves.deadline(flow.service + service(flow.packet)); // d = D^-1(c + packet)
        self.eligible.clear(index);
        self.pending.set(index, (eligible, self.requests));
        self.requests += 1;
    }

    /// Removes the request of the flow at `index`.
    pub(super) fn withdraw(&mut self, index: u32) {
        if let Some(Some(flow)) = self.flows.get_mut(index as usize) {
            flow.has_request = false;
            self.pending.clear(index);
            self.eligible.clear(index);
        }
    }

    /// The flow whose turn it is by this criterion, if any.
    pub(super) fn next(&mut self, now: Time) -> Option<u32> {
        while let Some((index, (at, asked))) = self.pending.first() {
            if at > now {
                break;
            }
            self.pending.clear(index);
            if let Some(flow) = &self.flows[index as usize] {
                self.eligible.set(index, (flow.deadline.max(flow.requested_at), asked));
            }
        }
        let (index, _) = self.eligible.first()?;
        if let Some(Guaranteed { curves: Some(curves), deadline, .. }) = &mut self.flows[index as usize] {
            curves.delay(now.since(*deadline).saturating_sub(MAX_DEFICIT));
        }
        Some(index)
    }

    /// The flow has sent `bytes`; `counts` if this criterion selected it.
    pub(super) fn sent(&mut self, index: u32, bytes: Bytes, counts: bool) {
        let Some(Some(flow)) = self.flows.get_mut(index as usize) else { return };
        if bytes > Bytes::ZERO {
            flow.packet = bytes;
        }
        if counts {
            flow.service += service(bytes); // c += bytes
        }
        if flow.has_request {
            self.schedule(index);
        }
    }
}
