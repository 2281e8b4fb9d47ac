//! Datagrams that the daemon sends for processes (`cm_send`), and the messages between daemons about them: section 4.2
//! of the paper, by the [`Agent`](rampmeter_manager::Agent).
//!
//! ```text
//! Unknown ── cm_send ──► Agent ── cm_update, or no program receives them at the receiver's daemon ──► Process
//! ```
//!
//! A flow with feedback from the agent sends datagrams with a CM header as soon as its receiver is known to have a
//! daemon; before that, and without a daemon, they have no header. A flow with feedback from its process never sends
//! the header.

use std::net::{IpAddr, SocketAddr};

use rampmeter_units::{Bytes, Ecn, Time};
use rampmeter_wire::{CM_HEADER_BYTES, CmHeader, CmKind, CmMessage, UDP_BYTES, cm_decode, cm_encode};

use super::{Action, Host};
use crate::daemon::flow::FeedbackSource;
use crate::daemon::protocol::Carriage;
use crate::error::Error;
use crate::inner_udp::{self, Datagram, INNER_BYTES, UDP};

impl Host {
    /// The flow sends through the daemon, and its process has reported nothing so far: the agent asks for feedback.
    pub(super) fn use_agent_feedback(&mut self, now: Time, index: usize) {
        let Some(flow) = self.flows[index].as_mut().filter(|flow| flow.feedback_source == FeedbackSource::Unknown)
        else {
            return;
        };
        let Some(peer) = self.carriage.peer(flow.to) else {
            flow.feedback_source = FeedbackSource::Process;
            return;
        };
        flow.feedback_source = FeedbackSource::Agent;
        let (flow, packet) = (flow.manager_id, self.manager.mtu(flow.manager_id));
        self.agent.open(now, flow, peer, packet, &mut self.random, &mut self.manager);
    }

    /// The flow's process reports feedback, or there is no feedback. From now on the flow's bytes in flight are counted
    /// here, without headers, which the process does not count.
    pub(super) fn use_process_feedback(&mut self, now: Time, index: usize) {
        let Some(flow) = &mut self.flows[index] else { return };
        if std::mem::replace(&mut flow.feedback_source, FeedbackSource::Process) != FeedbackSource::Agent {
            return;
        }
        let id = flow.manager_id;
        self.agent.close(id);
        self.after_agent();
        self.send_own_header(index);
        let Some(flow) = &mut self.flows[index] else { return };
        let whole = self.manager.in_flight(id).saturating_sub(flow.in_flight);
        let (payload, packets) = flow.agent_bytes;
        let own = u128::from(whole.as_u64()) * u128::from(payload) / u128::from(packets.max(1));
        let own = Bytes::new(own as u64).min(whole);
        flow.in_flight += own;
        self.manager.discard_in_flight(now, id, whole.saturating_sub(own));
        self.arm_feedback_timer(now, index);
    }

    /// Sends a datagram of the flow.
    pub(super) fn transmit(&mut self, now: Time, index: usize, data: Vec<u8>) {
        let Some(flow) = &mut self.flows[index] else { return };
        let (id, to, length) = (flow.manager_id, flow.to, data.len());
        if flow.feedback_source != FeedbackSource::Agent {
            flow.in_flight += Bytes::new(length as u64);
            self.manager.notify(now, id, Bytes::new(length as u64));
            self.arm_feedback_timer(now, index);
            self.actions.push_back(Action::Transmit { to, data });
            return;
        }
        let header = self.agent.send(now, id, UDP, INNER_BYTES + length, &mut self.manager);
        let headers = UDP_BYTES + INNER_BYTES + if header.is_some() { CM_HEADER_BYTES } else { 0 };
        flow.agent_bytes.0 += length as u64;
        flow.agent_bytes.1 += (headers + length) as u64;
        let action = match (header, self.carriage.peer(to)) {
            (Some(header), Some(peer)) => {
                let mut message = Vec::with_capacity(CM_HEADER_BYTES + INNER_BYTES + length);
                cm_encode(&CmMessage::Header(header), &mut message);
                inner_udp::write_header(to.port(), length, 0, &mut message);
                message.extend(data);
                // The receiver reports marks, so routers may mark.
                Action::SendMessage { to: peer, message, ecn: Ecn::Ect0 }
            }
            _ => Action::Transmit { to, data },
        };
        self.actions.push_back(action);
    }

    /// Bytes from another daemon, or from any sender, have arrived at the local address `at`.
    pub(crate) fn receive(&mut self, now: Time, from: SocketAddr, at: IpAddr, ecn: Ecn, bytes: &[u8]) {
        let Ok((mut message, payload)) = cm_decode(bytes) else {
            self.garbage += 1;
            return;
        };
        let (mut data, mut from, mut is_own) = (None, from, false);
        // From another port: from a program, whose daemon has the same address and whose flow has a tag; or from a
        // daemon behind a NAT.
        let other = self.carriage.peer(from).filter(|peer| *peer != from);
        if let CmMessage::Header(header) = &mut message {
            match header.kind {
                // A daemon without listening programs does not answer a handshake.
                CmKind::Syn if !self.listeners.any() => return,
                // Behind a NAT packets of programs are not recognized. The answer without the secret says so.
                CmKind::Syn if other.is_some() => header.flow = 0,
                CmKind::Data => {
                    let Some(datagram) = inner_udp::read(header.protocol, payload) else {
                        self.garbage += 1;
                        return;
                    };
                    data = Some((*header, datagram));
                    if let Some(peer) = other.filter(|_| datagram.tag != 0) {
                        (from, is_own) = (peer, true);
                    }
                }
                _ => {}
            }
        }
        let delivery = match &data {
            Some((header, Datagram { tag, .. })) if is_own => {
                self.agent.receive_own(now, from, header, *tag, payload.len(), ecn)
            }
            _ => self.agent.receive(now, from, &message, payload.len(), ecn, &mut self.manager),
        };
        self.garbage += u64::from(is_own && delivery.is_none());
        if let (Some(_), Some((header, Datagram { to, payload, .. }))) = (delivery, data) {
            self.deliver(from, &header, (at, to).into(), payload);
        }
        while let Some(refused) = self.agent.poll_refused() {
            self.use_process_feedback(now, refused.index());
        }
        self.after_agent();
    }

    fn deliver(&mut self, from: SocketAddr, header: &CmHeader, to: SocketAddr, data: &[u8]) {
        if !self.listeners.accepts(to.port()) {
            self.agent.refuse(from, header);
            return;
        }
        if let Some(hints) = self.listeners.on_packet(from, header.flow, to.port()) {
            self.agent.hint(from, &hints);
        }
        self.actions.push_back(Action::Deliver { to, data: data.to_vec() });
    }

    /// The agent may have messages to send, and other headers for programs.
    pub(super) fn after_agent(&mut self) {
        while let Some(flow) = self.agent.poll_changed() {
            self.send_own_header(flow.index());
        }
        while let Some((to, sent)) = self.agent.poll_transmit() {
            let mut message = Vec::new();
            cm_encode(&sent, &mut message);
            self.actions.push_back(Action::SendMessage { to, message, ecn: Ecn::NotEct });
        }
    }

    /// `client` starts (`on`) or stops receiving the datagrams for `port`.
    pub(crate) fn listen(&mut self, client: u32, port: u16, on: bool) -> Result<(), Error> {
        // The daemon would receive messages inside messages from itself.
        if port == 0 || self.carriage == Carriage::Udp(port) {
            return Err(Error::Invalid);
        }
        self.listeners.listen(client, port, on)
    }

    /// `client` requests this weight for flows from `peer` to `port`.
    pub(crate) fn hint(&mut self, client: u32, peer: IpAddr, port: u16, weight: u32) -> Result<(), Error> {
        let owner = self.clients.owner(client);
        for (sender, hints) in self.listeners.hint((client, owner), peer, port, weight)? {
            self.agent.hint(sender, &hints);
        }
        Ok(())
    }
}
