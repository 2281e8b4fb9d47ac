//! A simulated packet: its header as it is, its payload as a number.

use rampmeter_router::Parcel;
use rampmeter_units::{Bytes, Ecn};
use rampmeter_wire::{Packet, RouterFeedback};

/// A packet on its way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SimPacket {
    pub(crate) header: Packet,
    /// Size on the wire: what the header would encode to, UDP's and IP's headers, the payload.
    pub(crate) bytes: u32,
    /// Place of its next hop among [`crate::network::Paths`].
    pub(crate) hop: u32,
    /// The endpoint it comes from.
    pub(crate) from: u32,
    /// The connection it belongs to, as its sender calls it.
    pub(crate) connection: u32,
    pub(crate) ecn: Ecn,
}

impl Parcel for SimPacket {
    fn bytes(&self) -> Bytes {
        Bytes::new(self.bytes.into())
    }

    fn flow(&self) -> u64 {
        u64::from(self.from) << 32 | u64::from(self.connection)
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn set_ecn(&mut self, ecn: Ecn) {
        self.ecn = ecn;
    }

    fn feedback(&self) -> RouterFeedback {
        self.header.feedback
    }

    fn set_feedback(&mut self, feedback: RouterFeedback) {
        self.header.feedback = feedback;
    }
}
