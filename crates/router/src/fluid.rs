//! The fluid that fair queueing imitates: bit-by-bit round robin (Demers, Keshav and Shenker 1989, section 2).
//!
//! A fluid server gives every flow that has anything left the same service. One *round* serves one byte of each such
//! flow, so with `N` of them the round number `R` grows by `1 / N` with every byte served. A packet of `P` bytes that
//! arrives in round `R` starts and finishes in rounds
//!
//! ```text
//! S = max(F of the flow's packet before, R),   F = S + P
//! ```
//!
//! whatever arrives later. That is what makes `F` a key to sort by: only `R` depends on the other flows.
//!
//! The paper lets `R` run with time. Here it runs with the bytes that the real queue has sent: as much fluid as there
//! are bytes of packets is served, no sooner and no later, so the two run empty together however late the link is or
//! however its rate changes. All is integer, and what doesn't divide by `N` is kept for the next time.

use rampmeter_units::Bytes;

use crate::indexed_heap::IndexedHeap;

/// A round number, in parts of a byte per flow: see [`PARTS`].
pub(crate) type Round = u128;

/// Parts of a byte; with 128 bits in all the round never overflows.
const PARTS: u32 = 32;

/// The fluid server. Flows are known by their slots.
#[derive(Debug, Default)]
pub(crate) struct Fluid {
    round: Round,
    /// Flows with fluid left, by the round in which they run out.
    active: IndexedHeap<Round>,
    /// Work to be done that is less than what would move the round, or has yet to be shared out.
    undone: u128,
}

impl Fluid {
    /// A packet of `bytes` arrives for `slot`: the round in which its last bit would leave.
    pub(crate) fn arrive(&mut self, slot: usize, bytes: Bytes) -> Round {
        let start = self.active.key(slot).unwrap_or(0).max(self.round); // S = max(F before, R)
        let finish = start + parts(bytes); // F = S + P
        self.active.set(slot, finish);
        finish
    }

    /// The flow's latest packet, which would have finished in round `finish`, is thrown out. What was already served of
    /// it was served in vain and goes to the others.
    pub(crate) fn withdraw(&mut self, slot: usize, finish: Round, bytes: Bytes) {
        let start = finish - parts(bytes);
        self.undone += self.round.min(finish).saturating_sub(start);
        if start > self.round {
            self.active.set(slot, start);
        } else {
            self.active.remove(slot);
        }
    }

    /// `bytes` more are to be served. [`Fluid::run_dry`] does it.
    pub(crate) fn serve(&mut self, bytes: Bytes) {
        self.undone += parts(bytes);
    }

    /// Serves until a flow runs dry, and says which; `None` when all that is to be served has been.
    pub(crate) fn run_dry(&mut self) -> Option<usize> {
        let (finish, slot) = self.active.first()?;
        let flows = self.active.len() as u128;
        let needed = (finish - self.round) * flows;
        if self.undone < needed {
            self.round += self.undone / flows; // R grows by 1 / N a byte
            self.undone %= flows;
            return None;
        }
        self.undone -= needed;
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
