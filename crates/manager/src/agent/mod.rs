//! The protocol between the Congestion Managers of two hosts (`congestion-manager.md`, sections 4.2 and 4.3), for flows
//! that have no feedback of their own.
//!
//! ```text
//!  sender                                                         receiver
//!  prober   ── SYN ─────────────────────────────────────────────►
//!           ◄───────────────────────────────────────── SYN-ACK ──
//!  flows    ── data 1 ── data 2 ── data 3 ──────────────────────► loss detector ──► applications
//!  prober   ── PROBE 1 ─────────────────────────────────────────► responder
//!  probes   ◄────────────────────────── RESPONSE 1: bytes of each flow ──
//!    │      ◄───────────────────────── RESPONSE: packets are missing ──    loss detector
//!    │      ◄──────────────────────────────── HINTS: weights of flows ──   hints dispatcher
//!    └─► manager: reports, round trips, shares, overdue feedback
//! ```
//!
//! Sans-IO: a world passes in what arrives, takes what is to be sent, and stores payloads. A message must contain the
//! current sequence numbers, which start at random, or it has no effect. A host that has not been verified receives at
//! most as many bytes as it sent.

mod differences;
mod loss_detector;
mod own_flows;
mod own_names;
mod own_socket;
mod parts;
mod prober;
mod probes;
mod refusal;
mod reordering;
mod responder;
mod responses;
mod status;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;

use rampmeter_control::Controller;
use rampmeter_units::{Bytes, Duration, Ecn, Time};
use rampmeter_wire::{CmHeader, CmKind, CmMessage, Count, RouterFeedback};
use rand::RngCore;

use self::own_names::OWN;
pub use self::own_names::is_own_name;
use self::own_socket::OwnFlow;
pub use self::own_socket::OwnHeader;
use self::prober::{Due, Prober};
use self::probes::Name;
use self::responder::{Action, Responder};
use self::responses::one_per_macroflow;
pub use self::status::{PeerStatus, Presence};
use crate::Timers;
use crate::flow::FlowId;
use crate::manager::Manager;

/// The maximum number of senders that a host answers. One more replaces one that has been quiet for long.
const MAX_RESPONDERS: usize = 10_000;

const SEARCHED_RESPONDERS: usize = 16;

/// The maximum number of receivers in the table, not counting those that flows are open to.
const MAX_PEERS: usize = 10_000;

/// The maximum number of messages that wait to be sent.
const MAX_WAITING: usize = 4096;

/// A `Reset` may refer to this many numbers before the last one sent.
const RECENT: u32 = 1024;

/// The maximum weight that a receiver can give a flow, so that the others keep a share.
const MAX_HINTED_WEIGHT: u32 = 1_000_000;

/// "Every one-half RTT" (section 4.2.1), in eighths.
const PROBE_INTERVAL: u32 = 4;

/// The settings of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentConfig {
    /// Data packets have sequence numbers, and the receiver reports missing packets at once (section 4.3). Without
    /// sequence numbers, byte counts alone distinguish loss from reordering (section 4.2.2).
    pub sequenced: bool,
    /// The interval of probes, in eighths of a round trip.
    pub probe_interval: u32,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self { sequenced: true, probe_interval: PROBE_INTERVAL }
    }
}

/// A packet of a flow has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// The transport protocol of its payload, an IP protocol number.
    pub protocol: u8,
    /// The sender's name for the flow, as [`Agent::hint`] needs it.
    pub flow: u32,
}

#[derive(Debug)]
struct Member {
    peer: u32,
    name: Name,
    /// Its program sends from a socket of its own.
    own: Option<OwnFlow>,
}

#[derive(Debug)]
struct Peer<A> {
    address: A,
    prober: Prober,
    /// The open flows to it, by name.
    members: BTreeMap<u32, FlowId>,
    /// Bytes that arrived and bytes that were lost.
    outcomes: (Bytes, Bytes),
}

impl<A> Peer<A> {
    /// The flow that has this name on the wire. Takes no longer with more flows: the receiver chooses the names.
    fn named(&self, name: u32) -> Option<FlowId> {
        if is_own_name(name) { self.prober.probes.own_names.flow(name) } else { self.members.get(&name).copied() }
    }
}

/// One host's side of the protocol.
#[derive(Debug)]
pub struct Agent<A> {
    config: AgentConfig,
    /// Hosts that this host sends to.
    peers: Vec<Peer<A>>,
    by_address: BTreeMap<A, u32>,
    /// By the manager's flow number.
    members: Vec<Option<Member>>,
    next_name: u32,
    /// Hosts that send to this host.
    responders: BTreeMap<A, Responder>,
    waiting: VecDeque<(A, CmMessage)>,
    /// Flows whose receivers refuse packets with a CM header.
    refused: Vec<FlowId>,
    /// Flows of receivers whose state has changed.
    changed: Vec<FlowId>,
    timers: Timers,
    min_timeout: Duration,
}

impl<A: Copy + Ord + Debug> Agent<A> {
    /// An agent without flows.
    pub fn new(config: AgentConfig) -> Self {
        Self {
            config,
            peers: Vec::new(),
            by_address: BTreeMap::new(),
            members: Vec::new(),
            next_name: 0,
            responders: BTreeMap::new(),
            waiting: VecDeque::new(),
            refused: Vec::new(),
            changed: Vec::new(),
            timers: Timers::default(),
            min_timeout: Duration::ZERO,
        }
    }

    /// An agent on a host that may stall: the timeouts for feedback are at least `min_timeout`, and the interval of
    /// probes is at least a fiftieth of it.
    pub fn with_min_timeout(config: AgentConfig, min_timeout: Duration) -> Self {
        Self { min_timeout, ..Self::new(config) }
    }

    /// Registers `flow`, which `manager` has opened. It sends packets of up to `packet` bytes to `peer`, has no
    /// feedback of its own, and may send at once. `random` draws first sequence numbers, which untrusted peers must not
    /// be able to predict.
    pub fn open<C: Controller>(
        &mut self,
        now: Time,
        flow: FlowId,
        peer: A,
        packet: Bytes,
        random: &mut dyn RngCore,
        manager: &mut Manager<C>,
    ) {
        let index = self.peer(peer, random);
        while self.peers[index as usize].members.contains_key(&self.next_name) {
            self.next_name = (self.next_name + 1) % OWN; // names begin again after a long time
        }
        let name = Name { wire: self.next_name, flow };
        self.next_name = (self.next_name + 1) % OWN;
        let number = flow.index();
        if self.members.len() <= number {
            self.members.resize_with(number + 1, || None);
        }
        self.members[number] = Some(Member { peer: index, name, own: None });
        let peer = &mut self.peers[index as usize];
        if peer.members.is_empty() {
            peer.prober.resume(now);
        }
        peer.members.insert(name.wire, flow);
        match peer.prober.rtt {
            Some(rtt) => manager.on_path(now, flow, packet, rtt, RouterFeedback::None),
            None => manager.assume_path(now, flow, packet),
        }
        self.arm(index);
    }

    fn peer(&mut self, address: A, random: &mut dyn RngCore) -> u32 {
        if let Some(index) = self.by_address.get(&address) {
            return *index;
        }
        let mut prober = Prober::new(random.next_u64());
        prober.probe_interval = self.config.probe_interval;
        prober.min_timeout = self.min_timeout;
        let new = Peer { address, prober, members: BTreeMap::new(), outcomes: Default::default() };
        let full = self.peers.len() >= MAX_PEERS;
        let idle = if full { self.peers.iter().position(|peer| peer.members.is_empty()) } else { None };
        let index = idle.unwrap_or(self.peers.len());
        if let Some(slot) = self.peers.get_mut(index) {
            self.by_address.remove(&std::mem::replace(slot, new).address);
        } else {
            self.peers.push(new);
        }
        self.by_address.insert(address, index as u32);
        index as u32
    }

    /// Closes the flow.
    pub fn close(&mut self, flow: FlowId) {
        let Some(member) = self.members.get_mut(flow.index()).and_then(Option::take) else { return };
        let peer = &mut self.peers[member.peer as usize];
        peer.members.remove(&member.name.wire);
        // Its number may be reused soon; no bytes must be removed from the next flow.
        peer.prober.without_header.remove(&member.name);
        self.refused.retain(|refused| *refused != flow);
        self.changed.retain(|changed| *changed != flow);
        if let Some(name) = member.own_name() {
            peer.prober.probes.own_names.release(name);
            self.assign_own_names(member.peer);
        }
    }

    /// The flow's name on the wire.
    pub fn name(&self, flow: FlowId) -> Option<u32> {
        self.members.get(flow.index())?.as_ref().map(|member| member.name.wire)
    }

    /// The flow is about to send `payload` bytes of `protocol`. Returns the packet's header; none if the receiver is
    /// not known to have a Congestion Manager. The whole packet counts as in flight.
    pub fn send<C: Controller>(
        &mut self,
        now: Time,
        flow: FlowId,
        protocol: u8,
        payload: usize,
        manager: &mut Manager<C>,
    ) -> Option<CmHeader> {
        let member = self.members.get(flow.index())?.as_ref()?;
        let (name, index) = (member.name, member.peer);
        let (sequence, bytes) = self.peers[index as usize].prober.send(now, name, payload as u64);
        manager.notify(now, flow, Bytes::new(bytes));
        self.arm(index);
        Some(CmHeader { kind: CmKind::Data, protocol, sequence: sequence?, flow: name.wire })
    }

    /// Handles a message. If it is data, `payload` bytes for the flow's application follow it.
    pub fn receive<C: Controller>(
        &mut self,
        now: Time,
        from: A,
        message: &CmMessage,
        payload: usize,
        ecn: Ecn,
        manager: &mut Manager<C>,
    ) -> Option<Delivery> {
        match message {
            CmMessage::Header(header) => match header.kind {
                CmKind::Data | CmKind::Probe => return self.on_packet(now, from, header, payload, ecn),
                CmKind::Syn => self.on_syn(now, from, header),
                CmKind::SynAck => self.on_syn_ack(now, from, header, manager),
                CmKind::Reset if header.protocol != 0 => self.on_refusal(from, header),
                CmKind::Reset => self.on_reset(now, from, header.sequence, manager),
            },
            CmMessage::Response(response) => self.on_response(now, from, response, manager),
            CmMessage::Hints { probe, weights } => self.on_hints(from, *probe, weights, manager),
        }
        None
    }

    fn on_packet(&mut self, now: Time, from: A, header: &CmHeader, payload: usize, ecn: Ecn) -> Option<Delivery> {
        let waiting = &mut self.waiting;
        let mut out = |message| enqueue(waiting, from, message);
        let responder = self.responders.get_mut(&from);
        let action = responder.map_or(Action::Reset, |responder| match header.kind {
            CmKind::Probe => responder.on_probe(now, header.sequence, &mut out),
            _ => responder.on_data(now, header, payload, ecn == Ecn::Ce, &mut out),
        });
        match action {
            Action::Deliver => return Some(Delivery { protocol: header.protocol, flow: header.flow }),
            Action::Reset => out(CmMessage::Header(CmHeader::control(CmKind::Reset, header.sequence))),
            Action::Ignore => {}
        }
        None
    }

    fn on_syn(&mut self, now: Time, from: A, syn: &CmHeader) {
        if self.responders.len() >= MAX_RESPONDERS && !self.responders.contains_key(&from) {
            // Only a few are compared: a flood of forged `Syn`s must not cause a search through all of them.
            let candidates = self.responders.range(from..).chain(&self.responders).take(SEARCHED_RESPONDERS);
            let oldest = candidates.min_by_key(|(_, responder)| responder.last_packet_at).map(|(from, _)| *from);
            oldest.map(|oldest| self.responders.remove(&oldest));
        }
        let responder = self.responders.entry(from).or_insert_with(|| Responder::new(now, syn, self.config.sequenced));
        let answer = responder.on_syn(syn);
        enqueue(&mut self.waiting, from, answer);
    }

    fn on_syn_ack<C: Controller>(&mut self, now: Time, from: A, answer: &CmHeader, manager: &mut Manager<C>) {
        let Some(&index) = self.by_address.get(&from) else { return };
        let Peer { prober, members, .. } = &mut self.peers[index as usize];
        if !prober.on_syn_ack(now, answer) {
            return;
        }
        let is_own = |flow: &&FlowId| self.members[flow.index()].as_ref().is_some_and(|member| member.own.is_some());
        self.changed.extend(members.values().filter(is_own));
        for (name, bytes) in std::mem::take(&mut prober.without_header) {
            manager.discard_in_flight(now, name.flow, Bytes::new(bytes));
        }
        if let Some(rtt) = prober.rtt {
            for &flow in members.values() {
                manager.on_path(now, flow, manager.mtu(flow), rtt, RouterFeedback::None);
            }
        }
        self.arm(index);
    }

    fn on_reset<C: Controller>(&mut self, now: Time, from: A, sequence: u32, manager: &mut Manager<C>) {
        let Some(&index) = self.by_address.get(&from) else { return };
        let prober = &self.peers[index as usize].prober;
        if prober.is_ours(sequence) && prober.may_restart(now) {
            self.restart(now, index, manager);
        }
    }

    /// Restarts the exchange with a receiver.
    fn restart<C: Controller>(&mut self, now: Time, index: u32, manager: &mut Manager<C>) {
        let peer = &mut self.peers[index as usize];
        let outcomes = peer.prober.restart().end();
        self.report_outcomes(now, None, &outcomes, manager);
        self.restart_own_flows(index);
        self.arm(index);
    }

    /// The receiver's system reports that it has no Congestion Manager (ICMP).
    pub fn on_unreachable(&mut self, now: Time, peer: A) {
        let Some(&index) = self.by_address.get(&peer) else { return };
        self.peers[index as usize].prober.on_unreachable(now);
    }

    fn on_hints<C: Controller>(&mut self, from: A, probe: u32, weights: &[Count], manager: &mut Manager<C>) {
        let Some(&index) = self.by_address.get(&from) else { return };
        let peer = &self.peers[index as usize];
        if !peer.prober.probes.is_recent(probe) {
            return;
        }
        // The first of several hints about a flow counts.
        for hint in weights.iter().rev() {
            if let Some(flow) = peer.named(hint.flow) {
                manager.set_weight(flow, f64::from(hint.count.min(MAX_HINTED_WEIGHT)));
            }
        }
    }

    /// The receiving application would like the flows of `peer` to have shares in proportion to these weights
    /// (section 3.2.1). Flows are named as in [`Delivery`].
    pub fn hint(&mut self, peer: A, weights: &[Count]) {
        if let Some(responder) = self.responders.get_mut(&peer) {
            responder.hint(weights);
        }
    }

    fn arm(&mut self, index: u32) {
        let peer = &self.peers[index as usize];
        if !peer.members.is_empty() {
            self.timers.arm(index, peer.prober.deadline());
        }
    }

    /// The time at which [`Agent::on_deadline`] must be called; [`Time::MAX`] for never.
    pub fn deadline(&self) -> Time {
        self.timers.next()
    }

    /// Handles all deadlines up to `now`.
    pub fn on_deadline<C: Controller>(&mut self, now: Time, manager: &mut Manager<C>) {
        while let Some(index) = self.timers.due(now) {
            while let Some(due) = self.due(now, index) {
                self.on_due_action(now, index, due, manager);
            }
            self.arm(index);
        }
    }

    fn due(&mut self, now: Time, index: u32) -> Option<Due> {
        let peer = &mut self.peers[index as usize];
        if peer.members.is_empty() { None } else { peer.prober.due(now) }
    }

    fn on_due_action<C: Controller>(&mut self, now: Time, index: u32, due: Due, manager: &mut Manager<C>) {
        let Peer { address, prober, members, .. } = &mut self.peers[index as usize];
        let address = *address;
        match due {
            Due::Send(header) => enqueue(&mut self.waiting, address, CmMessage::Header(header)),
            Due::Probe => {
                let (number, discarded) = prober.probes.probe(now);
                prober.on_probe_sent(now);
                self.report_outcomes(now, None, &discarded, manager);
                let probe = CmMessage::Header(CmHeader::control(CmKind::Probe, number));
                enqueue(&mut self.waiting, address, probe);
            }
            Due::FeedbackOverdue(requested_at) => {
                for flow in one_per_macroflow(members.values(), manager) {
                    manager.on_feedback_overdue(now, flow, requested_at);
                }
            }
            Due::UnknownOutcome(since) => {
                let mut flows = Vec::new();
                for (name, bytes) in std::mem::take(&mut prober.without_header) {
                    manager.discard_in_flight(now, name.flow, Bytes::new(bytes));
                    flows.push(name.flow);
                }
                for flow in one_per_macroflow(&flows, manager) {
                    manager.on_feedback_overdue(now, flow, since);
                }
            }
            Due::Restart => self.restart(now, index, manager),
        }
    }

    /// The next message to send and its receiver. It has no payload.
    pub fn poll_transmit(&mut self) -> Option<(A, CmMessage)> {
        self.waiting.pop_front()
    }
}

fn enqueue<A>(waiting: &mut VecDeque<(A, CmMessage)>, to: A, message: CmMessage) {
    if waiting.len() < MAX_WAITING {
        waiting.push_back((to, message));
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_control::Algorithm;
    use rampmeter_control::cm::{Cm, Config};
    use rampmeter_units::Random;

    use super::*;
    use crate::{Destination, Sharing};

    #[test]
    fn names_begin_again_without_those_in_use() {
        let (mut agent, mut manager) = (Agent::new(AgentConfig::default()), Manager::new(Sharing::default()));
        let mut open = |agent: &mut Agent<u8>| {
            let flow = manager.open(Time::ZERO, Destination(1), || Cm::new(&Config::default(), Random::from_seed(1)));
            agent.open(Time::ZERO, flow, 1, Bytes::new(1000), &mut Random::from_seed(2), &mut manager);
            agent.name(flow).unwrap()
        };
        assert_eq!([0, 1].map(|_| open(&mut agent)), [0, 1]);
        agent.next_name = OWN - 1;
        assert_eq!([0, 1].map(|_| open(&mut agent)), [OWN - 1, 2]);
    }
}
