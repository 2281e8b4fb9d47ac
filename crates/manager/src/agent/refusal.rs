//! A receiver's Congestion Manager that must not hand a flow's packets to anybody says so, and the flow goes on without
//! headers, as to a receiver that has none. (The paper has every application's packets go through the receiver's module.)
//!
//! ```text
//! data, flow 7, sequence 1234 ──►        ◄── RST with a protocol: flow 7, sequence 1234
//! ```

use std::fmt::Debug;

use rampmeter_wire::{CmHeader, CmKind, CmMessage};

use super::Agent;
use crate::flow::FlowId;

impl<A: Copy + Ord + Debug> Agent<A> {
    /// The packet with this header, which [`Agent::receive`] has delivered, is for nobody here. If its sender has been
    /// told as much as it has paid for, it hears of it with another packet.
    pub fn refuse(&mut self, from: A, header: &CmHeader) {
        let refusal = CmMessage::Header(CmHeader { kind: CmKind::Reset, ..*header });
        if self.responders.get_mut(&from).is_some_and(|responder| responder.charge(&refusal)) {
            self.say(from, refusal);
        }
    }

    pub(super) fn on_refusal(&mut self, from: A, header: &CmHeader) {
        let Some(&index) = self.by_address.get(&from) else { return };
        let peer = &self.peers[index as usize];
        if !peer.prober.is_ours(header.sequence) {
            return;
        }
        let named = |flow: &&FlowId| self.name(**flow) == Some(header.flow);
        let refused = peer.members.iter().find(named).copied();
        self.refused.extend(refused.filter(|flow| !self.refused.contains(flow)));
    }

    /// A flow whose receiver does not take it with a header. Whoever owns it closes it here, and sends its packets bare.
    pub fn poll_refused(&mut self) -> Option<FlowId> {
        self.refused.pop()
    }
}
