//! Where an aggregate leaves its island: headers come off, and each packet is answered. Packets go on in the order in which
//! they come, at once.

use rampmeter_router::Parcel;
use rampmeter_units::Ecn;

use crate::Feedback;

/// The far end of an aggregate.
#[derive(Debug, Clone, Default)]
pub struct Egress {
    hand_on: bool,
    feedback: Feedback,
}

impl Egress {
    /// An egress that nothing has reached. `hand_on`: whether it tells overload on, to senders that understand marks
    /// (RFC 6040 section 4.2, where the outer header has CE).
    pub fn new(hand_on: bool) -> Self {
        Self { hand_on, feedback: Feedback::default() }
    }

    /// Packet `number`, which is `inner`, has come with `code` on the island's header. Gives the answer to it.
    pub fn receive(&mut self, number: u32, code: Ecn, inner: &mut impl Parcel) -> Feedback {
        // RFC 6040 drops what is not capable and was told CE. Here nothing speaks for a drop: the ingress has heard it.
        if self.hand_on && code == Ecn::Ce && inner.ecn().is_capable() {
            inner.set_ecn(Ecn::Ce);
        }
        self.feedback.note(number, code);
        self.feedback
    }
}
