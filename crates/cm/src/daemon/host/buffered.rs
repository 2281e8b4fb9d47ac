//! Datagrams that processes leave here (`cm_send`), and what daemons say to each other about them: section 4.2 of the
//! paper, by the [`Agent`](rampmeter_manager::Agent).
//!
//! ```text
//! Undecided ── cm_send ──► ByAgent ── cm_update; or the receiver's daemon knows nobody who takes them ──► ByItself
//! ```
//!
//! A flow that is fed by the agent sends with a CM header as soon as its receiver is known to have a daemon, and bare
//! before, and where there is none. One that is fed by itself always sends bare.

use std::net::{IpAddr, SocketAddr};

use rampmeter_manager::PeerStatus;
use rampmeter_units::{Bytes, Ecn, Time};
use rampmeter_wire::{CM_HEADER_BYTES, CmHeader, CmKind, CmMessage, UDP_BYTES, cm_decode, cm_encode};

use super::{Action, Host};
use crate::daemon::flow::Fed;
use crate::daemon::inner::{self, INNER_BYTES, UDP};
use crate::error::Error;

impl Host {
    /// The flow leaves datagrams here, and nobody has said what became of its packets so far: the agent is to find out.
    pub(super) fn feed_by_agent(&mut self, now: Time, index: usize) {
        let Some(flow) = self.flows[index].as_mut().filter(|flow| flow.fed == Fed::Undecided) else { return };
        let Some(peer) = self.carriage.peer(flow.to) else {
            flow.fed = Fed::ByItself;
            return;
        };
        flow.fed = Fed::ByAgent;
        let (flow, packet) = (flow.manager_id, self.manager.mtu(flow.manager_id));
        self.agent.open(now, flow, peer, packet, &mut self.random, &mut self.manager);
    }

    /// The flow's process says itself what becomes of its packets, or nobody does. What it has on its way is its own
    /// business from now on, without headers, of which it knows nothing.
    pub(super) fn feed_by_itself(&mut self, now: Time, index: usize) {
        let Some(flow) = &mut self.flows[index] else { return };
        if std::mem::replace(&mut flow.fed, Fed::ByItself) != Fed::ByAgent {
            return;
        }
        let id = flow.manager_id;
        self.agent.close(id);
        let whole = self.manager.in_flight(id).saturating_sub(flow.in_flight);
        let (payload, packets) = flow.by_agent;
        let own = u128::from(whole.as_u64()) * u128::from(payload) / u128::from(packets.max(1));
        let own = Bytes::new(own as u64).min(whole);
        flow.in_flight += own;
        self.manager.take_back(now, id, whole.saturating_sub(own));
        self.await_news(now, index);
    }

    /// A datagram of the flow leaves.
    pub(super) fn transmit(&mut self, now: Time, index: usize, data: Vec<u8>) {
        let Some(flow) = &mut self.flows[index] else { return };
        let (id, to, length) = (flow.manager_id, flow.to, data.len());
        if flow.fed != Fed::ByAgent {
            flow.in_flight += Bytes::new(length as u64);
            self.manager.notify(now, id, Bytes::new(length as u64));
            self.await_news(now, index);
            self.actions.push_back(Action::Transmit { to, data });
            return;
        }
        let header = self.agent.send(now, id, UDP, INNER_BYTES + length, &mut self.manager);
        let headers = UDP_BYTES + INNER_BYTES + if header.is_some() { CM_HEADER_BYTES } else { 0 };
        flow.by_agent.0 += length as u64;
        flow.by_agent.1 += (headers + length) as u64;
        let action = match (header, self.carriage.peer(to)) {
            (Some(header), Some(peer)) => {
                let mut message = Vec::with_capacity(CM_HEADER_BYTES + INNER_BYTES + length);
                cm_encode(&CmMessage::Header(header), &mut message);
                inner::write(to.port(), &data, &mut message);
                // What becomes of a mark is told, so routers may mark.
                Action::Say { to: peer, message, ecn: Ecn::Ect0 }
            }
            _ => Action::Transmit { to, data },
        };
        self.actions.push_back(action);
    }

    /// Bytes from another daemon, or from anybody, have come to our address `at`.
    pub(crate) fn receive(&mut self, now: Time, from: SocketAddr, at: IpAddr, ecn: Ecn, bytes: &[u8]) {
        let Ok((message, payload)) = cm_decode(bytes) else {
            self.garbage += 1;
            return;
        };
        let mut data = None;
        if let CmMessage::Header(header) = &message {
            match header.kind {
                // As long as nobody here takes anything, nobody need know that we are here.
                CmKind::Syn if !self.listeners.any() => return,
                CmKind::Data => {
                    let Some(datagram) = inner::read(header.protocol, payload) else {
                        self.garbage += 1;
                        return;
                    };
                    data = Some((*header, datagram));
                }
                _ => {}
            }
        }
        let delivery = self.agent.receive(now, from, &message, payload.len(), ecn, &mut self.manager);
        if let (Some(_), Some((header, (port, data)))) = (delivery, data) {
            self.deliver(from, &header, (at, port).into(), data);
        }
        while let Some(refused) = self.agent.poll_refused() {
            self.feed_by_itself(now, refused.index());
        }
        self.speak();
    }

    fn deliver(&mut self, from: SocketAddr, header: &CmHeader, to: SocketAddr, data: &[u8]) {
        if !self.listeners.admits(to.port()) {
            self.agent.refuse(from, header);
            return;
        }
        if let Some(hints) = self.listeners.note(from, header.flow, to.port()) {
            self.agent.hint(from, &hints);
        }
        self.actions.push_back(Action::Deliver { to, data: data.to_vec() });
    }

    /// The system of the host at `peer` says that nobody there speaks this.
    pub(crate) fn unreachable(&mut self, now: Time, peer: SocketAddr) {
        self.agent.on_unreachable(now, peer);
    }

    /// Sends what the agent has to say.
    pub(super) fn speak(&mut self) {
        while let Some((to, said)) = self.agent.poll_transmit() {
            let mut message = Vec::new();
            cm_encode(&said, &mut message);
            self.actions.push_back(Action::Say { to, message, ecn: Ecn::NotEct });
        }
    }

    /// `client` takes datagrams that come to `port`, or does not any more.
    pub(crate) fn listen(&mut self, client: u32, port: u16, on: bool) -> Result<(), Error> {
        // A message inside a message would come back here, from ourselves.
        if port == 0 || self.carriage == crate::daemon::protocol::Carriage::Udp(port) {
            return Err(Error::Invalid);
        }
        self.listeners.listen(client, port, on)
    }

    /// `client` would like flows from `peer` that come to `port` to have this weight.
    pub(crate) fn hint(&mut self, client: u32, peer: IpAddr, port: u16, weight: u32) -> Result<(), Error> {
        for (sender, hints) in self.listeners.hint(client, peer, port, weight)? {
            self.agent.hint(sender, &hints);
        }
        Ok(())
    }

    /// The hosts that flows fed by the agent are open to.
    pub(crate) fn peers(&self) -> impl Iterator<Item = PeerStatus<SocketAddr>> {
        self.agent.peers()
    }

    /// What came in and was no message.
    pub(crate) fn garbage(&self) -> u64 {
        self.garbage
    }

    /// How many hosts send to this one.
    pub(crate) fn senders(&self) -> usize {
        self.agent.senders()
    }
}
