//! Flows of datagrams: nothing is repeated, nothing put in order, and congestion is none of the application's business.
//!
//! ```text
//! queue_datagrams ───► they wait for their grants (the paper's cm_send)          ─┐
//! send_datagram_now ─► a synchronous sender's leaves at once, others make room    ├─► with a CM header ──► network
//!                                                                                ─┘
//! CM messages from the network ──► agent ──► manager: what became of them; what share the flow has
//! ```
//!
//! They share macroflows with the host's connections. What arrives is handed to the world as a [`Delivery`].

use std::collections::VecDeque;

use rampmeter_control::Controller;
use rampmeter_manager::{Agent, AgentConfig, Change, Delivery, FlowId, Manager, Share, Thresholds};
use rampmeter_units::{Bytes, Ecn, Time};
use rampmeter_wire::{CM_HEADER_BYTES, CmHeader, CmMessage, UDP_BYTES};

use crate::address::Address;
use crate::config::Config;
use crate::endpoint::Endpoint;

/// Smaller ones than a transport's header nobody counts.
const MIN_BYTES: u16 = 8;

/// IP's number for the protocol of datagrams (RFC 768).
const UDP: u8 = 17;

/// Something to put on the wire for a Congestion Manager.
#[derive(Debug, Clone)]
pub struct Message<A> {
    /// Where to.
    pub to: A,
    /// What it says; none of data that goes without a header, because nothing is known of the receiver.
    pub message: Option<CmMessage>,
    /// Bytes of the datagram behind it.
    pub payload: u16,
    /// The ECN code to send it with.
    pub ecn: Ecn,
    /// Whose datagram it is.
    pub flow: Option<FlowId>,
}

#[derive(Debug)]
struct Flow<A> {
    peer: A,
    /// Bytes of each of its datagrams.
    size: u16,
    /// Datagrams that wait.
    waiting: u64,
    ecn: Ecn,
    sent: u64,
}

/// The datagram flows of a host.
#[derive(Debug)]
pub(crate) struct Datagrams<A> {
    agent: Agent<A>,
    /// By the manager's number of the flow.
    flows: Vec<Option<Flow<A>>>,
    outgoing: VecDeque<Message<A>>,
}

impl<A: Address> Datagrams<A> {
    pub(crate) fn new(config: AgentConfig) -> Self {
        Self { agent: Agent::new(config), flows: Vec::new(), outgoing: VecDeque::new() }
    }

    fn flow(&mut self, flow: FlowId) -> Option<&mut Flow<A>> {
        self.flows.get_mut(flow.index()).and_then(Option::as_mut)
    }

    /// The flow may send a datagram. False if it is none of these flows.
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
    /// Opens a flow of datagrams of `size` bytes each, eight at least, to `peer`. It may send at once.
    pub fn open_datagrams(&mut self, now: Time, peer: A, size: u16, config: &Config) -> FlowId {
        let size = size.max(MIN_BYTES);
        let flow = self.manager.open(now, peer.destination(), &mut self.make);
        // What the path takes, not what this flow makes of it: others may share the macroflow.
        let whole = Bytes::new((usize::from(size) + CM_HEADER_BYTES + UDP_BYTES) as u64);
        let packet = config.packet.max(whole);
        self.datagrams.agent.open(now, flow, peer, packet, &mut self.random, &mut self.manager);
        let flows = &mut self.datagrams.flows;
        if flows.len() <= flow.index() {
            flows.resize_with(flow.index() + 1, || None);
        }
        flows[flow.index()] = Some(Flow { peer, size, waiting: 0, ecn: config.ecn, sent: 0 });
        flow
    }

    /// What part of its macroflow a flow of datagrams is to have.
    pub fn share_datagrams(&mut self, flow: FlowId, share: Share) {
        self.manager.share(flow, share);
    }

    /// `count` more datagrams of the flow wait for their grants.
    pub fn queue_datagrams(&mut self, now: Time, flow: FlowId, count: u64) {
        let Some(queueing) = self.datagrams.flow(flow) else { return };
        queueing.waiting = queueing.waiting.saturating_add(count);
        if queueing.waiting > 0 {
            self.manager.request(now, flow, false);
        }
    }

    /// A datagram of the flow leaves at once: the sender keeps to its share by itself (section 3.2.2).
    pub fn send_datagram_now(&mut self, now: Time, flow: FlowId) {
        self.datagrams.send(now, flow, &mut self.manager);
    }

    /// The flow ends. What of it waits is forgotten. Says how many datagrams it has sent.
    pub fn close_datagrams(&mut self, now: Time, flow: FlowId) -> u64 {
        let Some(closed) = self.datagrams.flows.get_mut(flow.index()).and_then(Option::take) else { return 0 };
        self.datagrams.agent.close(flow);
        self.manager.close(now, flow);
        closed.sent
    }

    /// The flow's name on the wire: that of its [`Delivery`]s at the peer.
    pub fn datagram_name(&self, flow: FlowId) -> Option<u32> {
        self.datagrams.agent.name(flow)
    }

    /// How many datagrams the flow has sent.
    pub fn datagrams_sent(&self, flow: FlowId) -> u64 {
        self.datagrams.flows.get(flow.index()).and_then(Option::as_ref).map_or(0, |flow| flow.sent)
    }

    /// Has changes of the flow's share told by [`Endpoint::poll_change`].
    pub fn watch(&mut self, now: Time, flow: FlowId, thresholds: Thresholds) {
        self.manager.watch(now, flow, thresholds);
    }

    /// A flow's share has changed.
    pub fn poll_change(&mut self) -> Option<Change> {
        self.manager.poll_change()
    }

    /// A message of another Congestion Manager arrives; if it is data, with `payload` bytes behind it, which are the flow's.
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

    /// The next message to send, if there is one. Ask before [`Endpoint::poll_transmit`], because a probe speaks of what has
    /// left before it; and again after, for the datagrams that it gave leave to.
    pub fn poll_message(&mut self) -> Option<Message<A>> {
        if let Some((to, message)) = self.datagrams.agent.poll_transmit() {
            return Some(Message { to, message: Some(message), payload: 0, ecn: Ecn::NotEct, flow: None });
        }
        self.datagrams.outgoing.pop_front()
    }
}

/// A header of data, for those who carry messages by value.
impl<A> Message<A> {
    /// Its header, if it is data with one.
    pub fn data(&self) -> Option<&CmHeader> {
        match &self.message {
            Some(CmMessage::Header(header)) if self.flow.is_some() => Some(header),
            _ => None,
        }
    }
}
