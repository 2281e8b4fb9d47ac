//! What a program asks of its connections: to send, to read, to close, to share a path and what was measured of it.

use rampmeter_control::{Controller, History};
use rampmeter_manager::{Destination, Share};
use rampmeter_units::{Bytes, Time};

use super::Endpoint;
use crate::address::Address;
use crate::connection::{CloseReason, Connection};
use crate::connection_id::ConnectionId;

impl<C: Controller, A: Address> Endpoint<C, A> {
    fn with(&mut self, now: Time, id: ConnectionId, act: impl FnOnce(&mut Connection)) {
        if let Some(slot) = self.slot_mut(id) {
            act(&mut slot.connection);
            self.update(now, id.index());
        }
    }

    /// Stores a history of `destination` that another host or an earlier run measured, unless there is one already.
    pub fn import_history(&mut self, destination: Destination, history: History) {
        self.manager.import_history(destination, history);
    }

    /// See [`rampmeter_manager::Manager::keep_history`].
    pub fn keep_history(&mut self, now: Time, destination: Destination, history: History) {
        self.manager.keep_history(now, destination, history);
    }

    /// The application adds `bytes` to the stream.
    pub fn write(&mut self, now: Time, id: ConnectionId, bytes: u64) {
        self.with(now, id, |connection| connection.sender.write(bytes));
    }

    /// The application will write no more.
    pub fn finish(&mut self, now: Time, id: ConnectionId) {
        self.with(now, id, |connection| connection.sender.finish());
    }

    /// The application withdraws the bytes that have not been sent, and will write no more.
    pub fn finish_early(&mut self, now: Time, id: ConnectionId) {
        self.with(now, id, |connection| connection.sender.finish_early());
    }

    /// The application has read `bytes` more of what arrived.
    pub fn consume(&mut self, now: Time, id: ConnectionId, bytes: u64) {
        let Some(slot) = self.slot_mut(id) else { return };
        if slot.connection.receiver.consume(bytes) {
            self.update(now, id.index());
        }
    }

    /// Raises the receive window of a connection; it never shrinks.
    pub fn raise_receive_window(&mut self, id: ConnectionId, window: Bytes) {
        if let Some(slot) = self.slot_mut(id) {
            slot.connection.receiver.raise_window(window.as_u64());
        }
    }

    /// Sends a packet that the peer answers, for example from a new address.
    pub fn probe(&mut self, now: Time, id: ConnectionId) {
        self.with(now, id, Connection::probe);
    }

    /// The path may carry packets again, as after a change of address: retransmits at once what waits for a timer that
    /// has expired before.
    pub fn retry(&mut self, now: Time, id: ConnectionId) {
        self.with(now, id, |connection| connection.sender.retry(now));
    }

    /// Ends a connection at once and resets it at the peer.
    pub fn abort(&mut self, now: Time, id: ConnectionId) {
        let Some(slot) = self.slot_mut(id) else { return };
        let reset = slot.connection.opened.then(|| (slot.peer, slot.connection.reset()));
        if let Some((peer, reset)) = reset {
            self.resets.send(now, (peer, reset, id));
        }
        self.remove(now, id.index(), CloseReason::Aborted);
    }

    /// Ends a connection without a packet for its peer: the session has ended, too, or the peer does not answer.
    pub fn end(&mut self, now: Time, id: ConnectionId, reason: CloseReason) {
        if self.slot(id).is_some() {
            self.remove(now, id.index(), reason);
        }
    }

    /// Sets a connection's share of its macroflow.
    pub fn share(&mut self, id: ConnectionId, share: Share) {
        if let Some(flow) = self.flow(id) {
            self.manager.share(flow, share);
        }
    }

    /// The connection's path has changed: what was measured of the one before says nothing about it (RFC 9000 section
    /// 9.4).
    pub fn on_new_path(&mut self, now: Time, id: ConnectionId) {
        let controller = (self.make)();
        self.replace_controller(now, id, controller);
        self.with(now, id, |connection| {
            connection.sender.on_new_path();
            connection.ecn.on_new_path(now);
        });
        if let Some(peer) = self.peer(id) {
            if let Some(size) = self.packet_sizes.get_mut(peer) {
                size.on_new_path();
            }
            self.set_packet_size(now, peer);
        }
    }

    /// Replaces the controller of this connection's macroflow ([`rampmeter_manager::Manager::replace`]).
    pub fn replace_controller(&mut self, now: Time, id: ConnectionId, controller: C) {
        if let Some(flow) = self.flow(id) {
            self.manager.replace(now, flow, controller);
        }
    }
}
