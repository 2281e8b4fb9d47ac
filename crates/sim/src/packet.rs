//! A packet on its way. Its payload is only a number.
//!
//! What every hop looks at travels by value; the header, which only the two ends look at, stays where it is, in a box
//! that a pool keeps for the next packet when this one has arrived. A hop moves a few words and misses no cache.

use rampmeter_router::Parcel;
use rampmeter_transport::Transmit;
use rampmeter_units::{Bytes, Ecn};
use rampmeter_wire::{Packet, RouterFeedback, UDP_BYTES, encoded_len};

use crate::paths::{HopId, PathId, is_forward};

/// A packet in the network.
#[derive(Debug)]
pub(crate) struct Travelling {
    pub(crate) letter: Box<Letter>,
    /// Where on its path it is.
    pub(crate) hop: HopId,
    /// Its flow's place in the plan.
    pub(crate) flow: u32,
    /// Its size on the wire.
    bytes: u32,
    pub(crate) ecn: Ecn,
    /// From the flow's sender to its receiver.
    pub(crate) forward: bool,
}

/// What a packet carries from one end to the other.
#[derive(Debug)]
pub(crate) struct Letter {
    pub(crate) header: Packet,
    /// The path it travels.
    pub(crate) path: PathId,
}

impl Parcel for Travelling {
    fn bytes(&self) -> Bytes {
        Bytes::new(self.bytes.into())
    }

    fn flow(&self) -> u64 {
        u64::from(self.flow) << 1 | u64::from(self.forward)
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn set_ecn(&mut self, ecn: Ecn) {
        self.ecn = ecn;
    }

    fn feedback(&self) -> RouterFeedback {
        self.letter.header.feedback
    }

    fn set_feedback(&mut self, feedback: RouterFeedback) {
        self.letter.header.feedback = feedback;
    }
}

/// Boxes to use again.
#[derive(Debug, Default)]
pub(crate) struct Pool(#[allow(clippy::vec_box, reason = "the boxes are what is kept")] Vec<Box<Letter>>);

impl Pool {
    /// The packet of `transmit`, of `flow`, about to leave from `hop`.
    pub(crate) fn packet(&mut self, transmit: &Transmit<PathId>, flow: u32, hop: HopId) -> Travelling {
        let Transmit { to: path, packet: header, ecn, .. } = *transmit;
        let bytes = (encoded_len(&header) + usize::from(header.payload) + UDP_BYTES) as u32;
        let letter = match self.0.pop() {
            Some(mut letter) => {
                *letter = Letter { header, path };
                letter
            }
            None => Box::new(Letter { header, path }),
        };
        Travelling { letter, hop, flow, bytes, ecn, forward: is_forward(path) }
    }

    /// The packet's journey is over.
    pub(crate) fn take_back(&mut self, packet: Travelling) {
        self.0.push(packet.letter);
    }
}
