//! The size of packets to each peer: its connections search for it together (`packet_size`).

use rampmeter_control::Controller;
use rampmeter_units::{Bytes, Time};
use rand::RngCore;

use super::{Endpoint, Slot};
use crate::address::Address;
use crate::connection::State;
use crate::connection_id::ConnectionId;
use crate::sender::PacketFeedback;
use crate::size_probe::SizeProbe;

impl<C: Controller, A: Address> Endpoint<C, A> {
    /// Uses what the connection shows about the size of packets that the path carries, and sends the next probe.
    #[inline]
    pub(super) fn search_packet_size(&mut self, now: Time, index: usize, feedback: Option<&PacketFeedback>) {
        let slot = self.slots[index].as_ref();
        if slot.is_some_and(|slot| slot.connection.config.searches_packet_size()) {
            self.search(now, index, feedback);
        }
    }

    fn search(&mut self, now: Time, index: usize, feedback: Option<&PacketFeedback>) {
        let Some(Slot { connection, peer, .. }) = &mut self.slots[index] else { return };
        let Some(size) = self.packet_sizes.get_mut(*peer) else { return };
        let before = size.size();
        if let Some(feedback) = feedback {
            size.on_feedback(now, &feedback.change);
        }
        if let Some((probed, has_arrived)) = SizeProbe::poll(&mut connection.size_probe, now, &mut connection.sender) {
            size.on_probe(now, probed, has_arrived);
        }
        let may_probe = connection.state() == State::Open && connection.unsent() > 0;
        if let Some(next) = may_probe.then(|| size.due(now)).flatten() {
            connection.size_probe = Some(SizeProbe::new(next, self.random.next_u32() as u8));
        }
        if size.size() != before {
            let peer = *peer;
            self.set_packet_size(now, peer);
        }
    }

    /// All connections to `peer` have the size of its path.
    pub(super) fn set_packet_size(&mut self, now: Time, peer: A) {
        let Some(size) = self.packet_sizes.get_mut(peer).map(|size| size.size()) else { return };
        for slot in self.slots.iter_mut().flatten() {
            if slot.peer == peer && slot.connection.config.searches_packet_size() {
                slot.connection.packet = size;
                self.manager.set_packet_size(now, slot.connection.flow, size);
            }
        }
    }

    /// The interface to the connection's peer takes packets of up to `max` bytes, IP header included; larger ones are not
    /// tried. `max` is called if that is not known yet.
    pub fn limit_packet_size(&mut self, id: ConnectionId, max: impl FnOnce() -> Bytes) {
        if let Some(size) = self.peer(id).and_then(|peer| self.packet_sizes.get_mut(peer)) {
            size.limit(max);
        }
    }
}
