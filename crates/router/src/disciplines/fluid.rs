//! The fluid server that fair queueing emulates: bit-by-bit round robin (Demers, Keshav and Shenker 1989, section 2).
//!
//! One *round* serves one byte of each flow that has fluid left, so with `N` of them the round number `R` grows by
//! `1 / N` with every byte served. A packet of `P` bytes that arrives in round `R` starts and finishes in rounds
//!
//! ```text
//! S = max(F of the flow's previous packet, R),   F = S + P
//! ```
//!
//! regardless of later arrivals: only `R` depends on the other flows. So `F` is a constant key for sorting.
//!
//! In the paper `R` advances with time. Here it advances with the bytes that the real queue has sent: the fluid server
//! serves exactly as many bytes as the packets sent have, so both become empty at the same time for any delay of the
//! link and any change of its rate. All arithmetic is integer, and the remainder of a division by `N` is carried over.

use rampmeter_units::Bytes;

use crate::disciplines::indexed_heap::IndexedHeap;

/// A round number, in fractions of a byte per flow: see [`PARTS`].
pub(crate) type Round = u128;

/// The binary digits of a byte's fraction; a round of 128 bits never overflows.
const PARTS: u32 = 32;

/// The fluid server. Flows are identified by their slots.
#[derive(Debug, Default)]
pub(crate) struct Fluid {
    round: Round,
    /// Flows with fluid left, by the round in which they finish.
    active: IndexedHeap<Round>,
    /// Work that is too little to advance the round, or that is not yet distributed.
    work: u128,
}

impl Fluid {
    /// A packet of `bytes` arrives for `slot`. Returns the round in which its last bit would leave.
    pub(crate) fn arrive(&mut self, slot: usize, bytes: Bytes) -> Round {
        let start = self.active.key(slot).unwrap_or(0).max(self.round); // S = max(F before, R)
        let finish = start + parts(bytes); // F = S + P
        self.active.set(slot, finish);
        finish
    }

    /// The flow's latest packet, which would have finished in round `finish`, is dropped. The service that it has
    /// received is redistributed to the other flows.
    pub(crate) fn remove_packet(&mut self, slot: usize, finish: Round, bytes: Bytes) {
        let start = finish - parts(bytes);
        self.work += self.round.min(finish).saturating_sub(start);
        if start > self.round {
            self.active.set(slot, start);
        } else {
            self.active.remove(slot);
        }
    }

    /// Adds `bytes` of work. [`Fluid::advance`] does it.
    pub(crate) fn serve(&mut self, bytes: Bytes) {
        self.work += parts(bytes);
    }

    /// Serves until a flow finishes, and returns its slot; `None` when all work is done.
    pub(crate) fn advance(&mut self) -> Option<usize> {
        let (finish, slot) = self.active.first()?;
        let flows = self.active.len() as u128;
        let needed = (finish - self.round) * flows;
        if self.work < needed {
            self.round += self.work / flows; // R grows by 1 / N a byte
            self.work %= flows;
            return None;
        }
        self.work -= needed;
        self.round = finish;
        self.active.remove(slot);
        Some(slot)
    }

    /// Whether `slot` has fluid left.
    pub(crate) fn is_active(&self, slot: usize) -> bool {
        self.active.key(slot).is_some()
    }
}

fn parts(bytes: Bytes) -> u128 {
    u128::from(bytes.as_u64()) << PARTS
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: Bytes = Bytes::new(1000);

    /// Slot 0 with two packets and slot 1 with one, after `served` packets of work. Also returns the round in which
    /// slot 0's second packet would finish.
    fn two_flows(served: u64) -> (Fluid, Round) {
        let mut fluid = Fluid::default();
        fluid.arrive(0, PACKET);
        fluid.arrive(1, PACKET);
        let finish = fluid.arrive(0, PACKET);
        fluid.serve(PACKET * served);
        while fluid.advance().is_some() {}
        (fluid, finish)
    }

    // Each flow has received half a packet. What slot 1 has received completes slot 0's first packet.
    #[test]
    fn the_service_of_a_dropped_packet_goes_to_the_others() {
        let (mut fluid, finish) = two_flows(1);
        fluid.remove_packet(1, finish / 2, PACKET);
        assert_eq!((fluid.advance(), fluid.round), (None, parts(PACKET)));
    }
}
