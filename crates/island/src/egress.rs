//! The end of an aggregate at which packets leave the island: it removes the headers and answers each packet. Packets
//! are forwarded at once, in the order of their arrival.

use rampmeter_router::Parcel;
use rampmeter_units::Ecn;

use crate::EgressFeedback;

/// The egress of an aggregate.
#[derive(Debug, Clone, Default)]
pub struct Egress {
    propagate_overload: bool,
    feedback: EgressFeedback,
}

impl Egress {
    /// An egress without packets so far. `propagate_overload`: whether it copies overload to ECN-capable packets (RFC
    /// 6040 section 4.2, where the outer header has CE).
    pub fn new(propagate_overload: bool) -> Self {
        Self { propagate_overload, feedback: EgressFeedback::default() }
    }

    /// Packet `number`, which contains `inner`, has arrived with `code` in the island's header. Returns the answer.
    pub fn receive(&mut self, number: u32, code: Ecn, inner: &mut impl Parcel) -> EgressFeedback {
        // RFC 6040 drops packets that are not ECN-capable if the outer header has CE. Here a drop is not needed: the
        // ingress reacts.
        if self.propagate_overload && code == Ecn::Ce && inner.ecn().is_capable() {
            inner.set_ecn(Ecn::Ce);
        }
        self.feedback.on_packet(number, code);
        self.feedback
    }
}
