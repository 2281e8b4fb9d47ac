//! Datagram flows: no retransmission and no ordering, but congestion control by the Congestion Manager.
//!
//! ```text
//! queue_datagrams ───► wait for their grants (the paper's cm_send)               ─┐
//! send_datagram_now ─► sent at once, counted in the macroflow's window            ├─► with a CM header ──► network
//!                                                                                ─┘
//! CM messages from the network ──► agent ──► manager: received and lost bytes; the flow's share
//! ```
//!
//! They share macroflows with the host's connections. The world gets arriving data as a [`Delivery`].

use std::collections::VecDeque;

use rampmeter_control::Controller;
use rampmeter_manager::{Agent, AgentConfig, Change, Delivery, FlowId, Manager, Share, Thresholds};
use rampmeter_units::{Bytes, Ecn, Time};
use rampmeter_wire::{CM_HEADER_BYTES, CmHeader, CmMessage, UDP_BYTES};

use crate::address::Address;
use crate::config::Config;
use crate::endpoint::Endpoint;

/// The minimum size: a transport header. The receiver does not count smaller datagrams.
const MIN_BYTES: u16 = 8;

/// IP's number for the protocol of datagrams (RFC 768).
const UDP: u8 = 17;

/// A message for the Congestion Manager of another host.
#[derive(Debug, Clone)]
pub struct Message<A> {
    /// The receiver.
    pub to: A,
    /// Its content; none for data without a header, which is sent while the receiver is not known to have a Congestion
    /// Manager.
    pub message: Option<CmMessage>,
    /// The bytes of the datagram that follow it.
    pub payload: u16,
    /// The ECN code to send it with.
    pub ecn: Ecn,
    /// The flow of the datagram.
    pub flow: Option<FlowId>,
}

#[derive(Debug)]
struct DatagramFlow<A> {
    peer: A,
    /// The size of each datagram.
    size: u16,
    waiting: u64,
    ecn: Ecn,
    sent: u64,
}

/// The datagram flows of a host.
#[derive(Debug)]
pub(crate) struct Datagrams<A> {
    agent: Agent<A>,
    /// By the manager's flow number.
    flows: Vec<Option<DatagramFlow<A>>>,
    outgoing: VecDeque<Message<A>>,
}

impl<A: Address> Datagrams<A> {
    pub(crate) fn new(config: AgentConfig) -> Self {
        Self { agent: Agent::new(config), flows: Vec::new(), outgoing: VecDeque::new() }
    }

    fn flow(&mut self, flow: FlowId) -> Option<&mut DatagramFlow<A>> {
        self.flows.get_mut(flow.index()).and_then(Option::as_mut)
    }

    /// The flow may send a datagram. Returns false if the flow is not a datagram flow.
    pub(crate) fn on_grant<C: Controller>(&mut self, now: Time, flow: FlowId, manager: &mut Manager<C>) -> bool {
        let Some(granted) = self.flow(flow) else { return false };
        if granted.waiting == 0 {
            manager.notify(now, flow, Bytes::ZERO);
            return true;
        }
        granted.waiting -= 1;
        let more = granted.waiting > 0;
        self.send(now, flow, manager);
        if more {
            manager.request(now, flow, false);
        }
        true
    }

    fn send<C: Controller>(&mut self, now: Time, flow: FlowId, manager: &mut Manager<C>) {
        let Some(sending) = self.flow(flow) else { return };
        sending.sent += 1;
        let (to, payload, ecn) = (sending.peer, sending.size, sending.ecn);
        let header = self.agent.send(now, flow, UDP, usize::from(payload), manager);
        let message = header.map(CmMessage::Header);
        self.outgoing.push_back(Message { to, message, payload, ecn, flow: Some(flow) });
    }

    pub(crate) fn deadline(&self) -> Time {
        self.agent.deadline()
    }

    pub(crate) fn on_deadline<C: Controller>(&mut self, now: Time, manager: &mut Manager<C>) {
        self.agent.on_deadline(now, manager);
    }
}

impl<C: Controller, A: Address> Endpoint<C, A> {
    /// Opens a flow of datagrams of `size` bytes each, at least eight, to `peer`. It may send at once.
    pub fn open_datagrams(&mut self, now: Time, peer: A, size: u16, config: &Config) -> FlowId {
        let size = size.max(MIN_BYTES);
        let flow = self.open_flow(now, peer);
        // The packet size of the path, not that of this flow: other flows may share the macroflow.
        let whole = Bytes::new((usize::from(size) + CM_HEADER_BYTES + UDP_BYTES) as u64);
        let packet = config.packet.max(whole);
        self.datagrams.agent.open(now, flow, peer, packet, &mut self.random, &mut self.manager);
        let flows = &mut self.datagrams.flows;
        if flows.len() <= flow.index() {
            flows.resize_with(flow.index() + 1, || None);
        }
        flows[flow.index()] = Some(DatagramFlow { peer, size, waiting: 0, ecn: config.ecn, sent: 0 });
        flow
    }

    /// Sets a datagram flow's share of its macroflow.
    pub fn share_datagrams(&mut self, flow: FlowId, share: Share) {
        self.manager.share(flow, share);
    }

    /// Queues `count` more datagrams of the flow, which wait for their grants.
    pub fn queue_datagrams(&mut self, now: Time, flow: FlowId, count: u64) {
        let Some(queueing) = self.datagrams.flow(flow) else { return };
        queueing.waiting = queueing.waiting.saturating_add(count);
        if queueing.waiting > 0 {
            self.manager.request(now, flow, false);
        }
    }

    /// Sends a datagram of the flow at once: the sender keeps to its share by itself (section 3.2.2).
    pub fn send_datagram_now(&mut self, now: Time, flow: FlowId) {
        self.datagrams.send(now, flow, &mut self.manager);
    }

    /// Closes the flow and discards its queued datagrams. Returns the number of datagrams sent.
    pub fn close_datagrams(&mut self, now: Time, flow: FlowId) -> u64 {
        let Some(closed) = self.datagrams.flows.get_mut(flow.index()).and_then(Option::take) else { return 0 };
        self.datagrams.agent.close(flow);
        self.manager.close(now, flow);
        closed.sent
    }

    /// The flow's name on the wire, which is also in its [`Delivery`]s at the peer.
    pub fn datagram_name(&self, flow: FlowId) -> Option<u32> {
        self.datagrams.agent.name(flow)
    }

    /// The number of datagrams that the flow has sent.
    pub fn datagrams_sent(&self, flow: FlowId) -> u64 {
        self.datagrams.flows.get(flow.index()).and_then(Option::as_ref).map_or(0, |flow| flow.sent)
    }

    /// From now on, changes of the flow's share are reported by [`Endpoint::poll_change`].
    pub fn watch(&mut self, now: Time, flow: FlowId, thresholds: Thresholds) {
        self.manager.watch(now, flow, thresholds);
    }

    /// The next change of a share.
    pub fn poll_change(&mut self) -> Option<Change> {
        self.manager.poll_change()
    }

    /// Handles a message of another Congestion Manager. If it is data, `payload` bytes for the flow follow it.
    pub fn receive_message(
        &mut self,
        now: Time,
        from: A,
        message: &CmMessage,
        payload: usize,
        ecn: Ecn,
    ) -> Option<Delivery> {
        let delivery = self.datagrams.agent.receive(now, from, message, payload, ecn, &mut self.manager);
        self.manager.segregate(now, &mut self.make);
        delivery
    }

    /// The next message to send, if there is one. To be called before [`Endpoint::poll_transmit`], because a probe
    /// covers the packets sent before it, and again afterwards, for the datagrams that were granted.
    pub fn poll_message(&mut self) -> Option<Message<A>> {
        if let Some((to, message)) = self.datagrams.agent.poll_transmit() {
            return Some(Message { to, message: Some(message), payload: 0, ecn: Ecn::NotEct, flow: None });
        }
        self.datagrams.outgoing.pop_front()
    }
}

/// Access to the data header, for callers that carry messages by value.
impl<A> Message<A> {
    /// Its header, if it is data with a header.
    pub fn data(&self) -> Option<&CmHeader> {
        match &self.message {
            Some(CmMessage::Header(header)) if self.flow.is_some() => Some(header),
            _ => None,
        }
    }
}
