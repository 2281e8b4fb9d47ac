//! A receiver's Congestion Manager that cannot deliver a flow's packets refuses the flow. The flow then sends without
//! headers, as to a receiver without a Congestion Manager. (In the paper the packets of every application pass through
//! the receiver's module.)
//!
//! ```text
//! data, flow 7, sequence 1234 ──►        ◄── RST with a protocol: flow 7, sequence 1234
//! ```

use std::fmt::Debug;

use rampmeter_wire::{CmHeader, CmKind, CmMessage};

use super::{Agent, enqueue};
use crate::flow::FlowId;

impl<A: Copy + Ord + Debug> Agent<A> {
    /// Refuses the packet with this header, which [`Agent::receive`] has delivered: no application here receives it.
    /// The refusal is sent only if the sender has sent enough bytes for it; otherwise another packet is needed.
    pub fn refuse(&mut self, from: A, header: &CmHeader) {
        let refusal = CmMessage::Header(CmHeader { kind: CmKind::Reset, ..*header });
        if self.responders.get_mut(&from).is_some_and(|responder| responder.spend(&refusal)) {
            enqueue(&mut self.waiting, from, refusal);
        }
    }

    pub(super) fn on_refusal(&mut self, from: A, header: &CmHeader) {
        let Some(&index) = self.by_address.get(&from) else { return };
        let peer = &self.peers[index as usize];
        let Some(flow) = peer.named(header.flow) else { return };
        let is_ours = peer.prober.is_ours(header.sequence) || self.is_of_program(flow, header.sequence);
        if is_ours && !self.refused.contains(&flow) {
            self.refused.push(flow);
        }
    }

    /// A flow whose receiver refuses packets with a header. Its owner must close it here and send its packets without
    /// headers.
    pub fn poll_refused(&mut self) -> Option<FlowId> {
        self.refused.pop()
    }
}
