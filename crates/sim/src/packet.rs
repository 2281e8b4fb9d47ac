//! A packet on its way: the header by value, and where it is. Its payload is only a number.
//!
//! Links pass it on by its box, so that a hop moves eight bytes; a pool keeps the boxes of packets that have arrived for
//! those to come.

use rampmeter_router::Parcel;
use rampmeter_transport::Transmit;
use rampmeter_units::{Bytes, Ecn};
use rampmeter_wire::{Packet, RouterFeedback, UDP_BYTES, encoded_len};

use crate::paths::{HopId, PathId};

/// A packet in the network. What every hop looks at stands first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Travelling {
    /// Where on its path it is.
    pub(crate) hop: HopId,
    /// The path it travels.
    pub(crate) path: PathId,
    /// Its flow's place in the plan.
    pub(crate) flow: u32,
    /// Its size on the wire.
    bytes: u32,
    pub(crate) ecn: Ecn,
    pub(crate) header: Packet,
}

/// What links carry.
pub(crate) type Boxed = Box<Travelling>;

impl Parcel for Boxed {
    fn bytes(&self) -> Bytes {
        Bytes::new(self.bytes.into())
    }

    fn flow(&self) -> u64 {
        u64::from(self.flow) << 1 | u64::from(self.path & 1)
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

/// Boxes to use again.
#[derive(Debug, Default)]
pub(crate) struct Pool(#[allow(clippy::vec_box, reason = "the boxes are what is kept")] Vec<Boxed>);

impl Pool {
    /// The packet of `transmit`, of `flow`, about to leave over `path`, which starts at `hop`.
    pub(crate) fn packet(&mut self, transmit: Transmit<PathId>, flow: u32, hop: HopId) -> Boxed {
        let Transmit { to: path, packet: header, ecn, .. } = transmit;
        let bytes = (encoded_len(&header) + usize::from(header.payload) + UDP_BYTES) as u32;
        let travelling = Travelling { hop, path, flow, bytes, ecn, header };
        match self.0.pop() {
            Some(mut boxed) => {
                *boxed = travelling;
                boxed
            }
            None => Box::new(travelling),
        }
    }

    /// The packet's journey is over.
    pub(crate) fn take_back(&mut self, packet: Boxed) {
        self.0.push(packet);
    }
}
