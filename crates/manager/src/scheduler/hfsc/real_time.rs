//! The real-time criterion: of the flows to which more is due than they had, the one with the earliest deadline is next,
//! whatever its class.
//!
//! ```text
//! flow asks after a silence:   D(t) = min(D(t), S(t - now) + c)           c: what it had by this criterion
//! flow asks for a packet:      eligible time e = E^-1(c), deadline d = D^-1(c + packet)
//! flow was served by it:       c += bytes
//! ```
//!
//! The guarantees together may ask for more than the macroflow is allowed: nobody admits them, and congestion control
//! changes what they are to be kept with. *Deviations* for that, none of which matters while they can be kept:
//!
//! - Who is late when it asks has the time of its request as its deadline. So late flows take turns, and one that was
//!   promised a lot can't keep those from their little that could have it. Equals are late by equal packets, not times.
//! - What is owed for longer than [`OWED`] is owed no more: else a flow that came short for an hour would have the whole
//!   macroflow to itself for as long as it took to make good.
//!
//! And one because CM flows don't say how large a packet they ask for: it is taken to be like the flow's last, the first
//! one to be what the first piece of a concave curve is for.

use rampmeter_units::{Bytes, Duration, Time};

use super::curve::{Curves, Service, ServiceCurve, service};
use super::least::Least;

/// How late a guarantee may be made good: well above what a macroflow pauses for (round trips, a retransmission timeout).
const OWED: Duration = Duration::from_secs(1);

/// The largest packet that a flow is taken to ask for before it has sent one.
const FIRST_PACKET: Bytes = Bytes::new(1500);

#[derive(Debug)]
struct Flow {
    curve: ServiceCurve,
    /// None until it has asked.
    curves: Option<Curves>,
    /// c: what it had by this criterion.
    service: Service,
    packet: Bytes,
    asked_at: Time,
    /// d: when the packet that it asks for should have left.
    deadline: Time,
    asks: bool,
}

/// Flows with a curve, by the place that each was given.
#[derive(Debug)]
pub(super) struct RealTime {
    flows: Vec<Option<Flow>>,
    /// Who will be eligible, by eligible time.
    pending: Least<(Time, u64)>,
    /// Who is, by deadline.
    eligible: Least<(Time, u64)>,
    /// Counts requests: of equals who asked first is first.
    asked: u64,
}

impl RealTime {
    pub(super) const fn new() -> Self {
        Self { flows: Vec::new(), pending: Least::new(), eligible: Least::new(), asked: 0 }
    }

    /// From its next request on the flow at `place` has this curve, or none.
    pub(super) fn promise(&mut self, place: u32, curve: Option<ServiceCurve>) {
        if self.curve(place) == curve {
            return;
        }
        self.withdraw(place);
        let fresh = |curve: ServiceCurve| {
            let packet = curve.burst().filter(|burst| *burst < FIRST_PACKET).unwrap_or(FIRST_PACKET);
            let (asked_at, deadline) = (Time::ZERO, Time::ZERO);
            Flow { curve, curves: None, service: 0, packet, asked_at, deadline, asks: false }
        };
        if self.flows.len() <= place as usize {
            self.flows.resize_with(place as usize + 1, || None);
        }
        self.flows[place as usize] = curve.map(fresh);
    }

    pub(super) fn curve(&self, place: u32) -> Option<ServiceCurve> {
        self.flows.get(place as usize)?.as_ref().map(|flow| flow.curve)
    }

    /// The flow at `place` asks; `resumes` if it had nothing to send for a while.
    pub(super) fn ask(&mut self, place: u32, now: Time, resumes: bool) {
        let Some(Some(flow)) = self.flows.get_mut(place as usize) else { return };
        match &mut flow.curves {
            None => flow.curves = Some(Curves::new(flow.curve, now, flow.service)),
            Some(curves) if resumes => curves.resume(now, flow.service),
            Some(_) => {}
        }
        flow.asks = true;
        flow.asked_at = now;
        self.await_turn(place);
    }

    /// Works out when the packet that the flow asks for is eligible and when it is due.
    fn await_turn(&mut self, place: u32) {
        let Some(Some(flow)) = self.flows.get_mut(place as usize) else { return };
        let Some(curves) = &flow.curves else { return };
        let eligible = curves.eligible(flow.service); // e = E^-1(c)
        flow.deadline = curves.deadline(flow.service + service(flow.packet)); // d = D^-1(c + packet)
        self.eligible.clear(place);
        self.pending.set(place, (eligible, self.asked));
        self.asked += 1;
    }

    /// The flow at `place` no longer asks.
    pub(super) fn withdraw(&mut self, place: u32) {
        if let Some(Some(flow)) = self.flows.get_mut(place as usize) {
            flow.asks = false;
            self.pending.clear(place);
            self.eligible.clear(place);
        }
    }

    /// Whose turn it is by this criterion, if it is anyone's.
    pub(super) fn next(&mut self, now: Time) -> Option<u32> {
        while let Some((place, (at, asked))) = self.pending.first() {
            if at > now {
                break;
            }
            self.pending.clear(place);
            if let Some(flow) = &self.flows[place as usize] {
                self.eligible.set(place, (flow.deadline.max(flow.asked_at), asked));
            }
        }
        let (place, _) = self.eligible.first()?;
        if let Some(Flow { curves: Some(curves), deadline, .. }) = &mut self.flows[place as usize] {
            curves.delay(now.since(*deadline).saturating_sub(OWED));
        }
        Some(place)
    }

    /// The flow has sent `bytes`; `counts` if this criterion let it.
    pub(super) fn sent(&mut self, place: u32, bytes: Bytes, counts: bool) {
        let Some(Some(flow)) = self.flows.get_mut(place as usize) else { return };
        if bytes > Bytes::ZERO {
            flow.packet = bytes;
        }
        if counts {
            flow.service += service(bytes); // c += bytes
        }
        if flow.asks {
            self.await_turn(place);
        }
    }
}
