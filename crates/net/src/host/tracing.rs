//! What a host reports to a trace: the same as a simulated one, at the times of its clock.

use rampmeter_control::Controller;
use rampmeter_trace::{Cause, End, Moment, Recorder, Tap, Trace};
use rampmeter_transport::{ConnectionId, Envelope, Transmit};
use rampmeter_units::{Bytes, Ecn, Time};
use rampmeter_wire::{Packet, UDP_BYTES, encoded_len};

use super::Host;
use crate::peer::Peer;

/// A recorder and the time at which its run began.
#[derive(Debug)]
pub(super) struct Tracing {
    recorder: Recorder,
    zero: Time,
}

/// The size of a packet before it is sealed, with the headers of IPv4 and UDP.
fn size(packet: &Packet) -> Bytes {
    Bytes::new((UDP_BYTES + encoded_len(packet) + usize::from(packet.payload)) as u64)
}

impl<C: Controller> Host<C> {
    /// Writes what happens to the connections that [`Host::trace_flow`] names. The run began at `zero`.
    pub fn trace(&mut self, trace: Trace, zero: Time) {
        self.tracing = Some(Box::new(Tracing { recorder: Recorder::new(trace), zero }));
    }

    /// The flow of a connection in the trace, and which of its ends this host is.
    pub fn trace_flow(&mut self, id: ConnectionId, flow: u32, end: End) {
        if let Some(tracing) = &mut self.tracing {
            tracing.recorder.name(id, flow, end);
        }
    }

    pub(super) fn trace_cause(&mut self, cause: Cause) {
        if let Some(tracing) = &mut self.tracing {
            Tap::<C, Peer>::on_cause(&mut tracing.recorder, cause);
        }
    }

    pub(super) fn trace_sent(&mut self, now: Time, sent: &Transmit<Peer>) {
        let Some(tracing) = &mut self.tracing else { return };
        let Some(flow) = tracing.recorder.flow_of(sent.connection) else { return };
        let Transmit { to, ecn, connection, offset, padding, ref packet } = *sent;
        let envelope = Envelope { to, ecn, connection, offset, padding };
        let moment = Moment { at: Time::ZERO + now.since(tracing.zero), local: now };
        tracing.recorder.on_sent(moment, flow, (packet, &envelope, size(packet)), &self.endpoint);
    }

    pub(super) fn trace_received(&mut self, now: Time, packet: &Packet, ecn: Ecn) {
        let Some(tracing) = &mut self.tracing else { return };
        let id = ConnectionId::from_number(packet.connection);
        let Some(flow) = tracing.recorder.flow_of(id) else { return };
        let moment = Moment { at: Time::ZERO + now.since(tracing.zero), local: now };
        tracing.recorder.on_received(moment, flow, (packet, size(packet), ecn), &self.endpoint);
    }

    pub(super) fn trace_deadline(&mut self, now: Time) {
        if let Some(tracing) = &mut self.tracing {
            let moment = Moment { at: Time::ZERO + now.since(tracing.zero), local: now };
            tracing.recorder.on_deadline(moment, &self.endpoint);
        }
    }
}
