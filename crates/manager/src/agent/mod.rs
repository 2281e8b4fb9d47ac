//! What the Congestion Managers of two hosts say to each other (`congestion-manager.md`, sections 4.2 and 4.3), for flows that
//! have no feedback of their own.
//!
//! ```text
//!  sender                                                         receiver
//!  prober   ── SYN ─────────────────────────────────────────────►
//!           ◄───────────────────────────────────────── SYN-ACK ──
//!  flows    ── data 1 ── data 2 ── data 3 ──────────────────────► loss detector ──► applications
//!  prober   ── PROBE 1 ─────────────────────────────────────────► responder
//!  books    ◄────────────────────────── RESPONSE 1: bytes of each flow ──
//!    │      ◄───────────────────────── RESPONSE: packets are missing ──    loss detector
//!    │      ◄──────────────────────────────── HINTS: weights of flows ──   hints dispatcher
//!    └─► manager: reports, round trips, shares, silence
//! ```
//!
//! Sans-IO: a world hands in what arrives, asks for what is to be sent, and stores payloads. Nobody's word is taken who
//! does not know the numbers of the moment, which begin at random; what an unverified host is answered is never more
//! than it sent.

mod prober;
mod probes;
mod refusal;
mod reordering;
mod responder;
mod status;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;

use rampmeter_control::Controller;
use rampmeter_units::{Bytes, Duration, Ecn, Time};
use rampmeter_wire::{CM_HEADER_BYTES, CmHeader, CmKind, CmMessage, Count, Response, RouterFeedback, UDP_BYTES};
use rand::RngCore;

use self::prober::{Due, Prober, State};
use self::probes::{Fate, Name};
use self::responder::{Responder, Verdict};
pub use self::status::{PeerStatus, Presence};
use crate::flow::FlowId;
use crate::manager::Manager;
use crate::{LossMode, Report, Timers};

/// Senders that a host answers at most; one more takes the place of one not heard of for long.
const MAX_RESPONDERS: usize = 10_000;

/// How many are looked at to find that one.
const FEW: usize = 16;

/// Hosts that are remembered as receivers at most, beyond those that flows are open to.
const MAX_PEERS: usize = 10_000;

/// Messages that wait to be sent at most.
const MAX_WAITING: usize = 4096;

/// What an agent can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentConfig {
    /// Data packets have sequence numbers, and the receiver tells at once which are missing (section 4.3). Without, losses
    /// are told from reordering by counts alone (section 4.2.2).
    pub sequenced: bool,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self { sequenced: true }
    }
}

/// A packet of a flow has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// The transport protocol of its payload, an IP protocol number.
    pub protocol: u8,
    /// The flow, by its sender's name for it: what [`Agent::hint`] wants.
    pub flow: u32,
}

#[derive(Debug)]
struct Member {
    peer: u32,
    name: Name,
}

#[derive(Debug)]
struct Peer<A> {
    address: A,
    prober: Prober,
    members: Vec<FlowId>,
}

/// One host's end of the protocol.
#[derive(Debug)]
pub struct Agent<A> {
    config: AgentConfig,
    /// Hosts that we send to.
    peers: Vec<Peer<A>>,
    by_address: BTreeMap<A, u32>,
    /// By the manager's number of the flow.
    members: Vec<Option<Member>>,
    next_name: u32,
    /// Hosts that send to us.
    responders: BTreeMap<A, Responder>,
    waiting: VecDeque<(A, CmMessage)>,
    /// Flows that their receivers don't take with a header.
    refused: Vec<FlowId>,
    timers: Timers,
    min_patience: Duration,
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
            timers: Timers::default(),
            min_patience: Duration::ZERO,
        }
    }

    /// An agent on a host that may stall: no shorter silence than `patience` means anything, and probes are no closer than
    /// a fiftieth of it.
    pub fn patient(config: AgentConfig, patience: Duration) -> Self {
        Self { min_patience: patience, ..Self::new(config) }
    }

    /// `flow`, which `manager` has opened, sends packets of up to `packet` bytes to `peer` and has no feedback of its own.
    /// It may send at once. `random` draws first numbers, which strangers must not foresee.
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
        let name = Name { wire: self.next_name, flow };
        self.next_name = self.next_name.wrapping_add(1);
        let place = flow.index();
        if self.members.len() <= place {
            self.members.resize_with(place + 1, || None);
        }
        self.members[place] = Some(Member { peer: index, name });
        let peer = &mut self.peers[index as usize];
        peer.members.push(flow);
        match peer.prober.rtt {
            Some(rtt) => manager.on_path(now, flow, packet, rtt, RouterFeedback::None),
            None => manager.assume_path(now, flow, packet),
        }
        self.arm(index, manager);
    }

    fn peer(&mut self, address: A, random: &mut dyn RngCore) -> u32 {
        if let Some(index) = self.by_address.get(&address) {
            return *index;
        }
        let mut prober = Prober::new(random.next_u64());
        prober.min_patience = self.min_patience;
        let fresh = Peer { address, prober, members: Vec::new() };
        let full = self.peers.len() >= MAX_PEERS;
        let idle = if full { self.peers.iter().position(|peer| peer.members.is_empty()) } else { None };
        let index = idle.unwrap_or(self.peers.len());
        if let Some(place) = self.peers.get_mut(index) {
            self.by_address.remove(&std::mem::replace(place, fresh).address);
        } else {
            self.peers.push(fresh);
        }
        self.by_address.insert(address, index as u32);
        index as u32
    }

    /// The flow ends.
    pub fn close(&mut self, flow: FlowId) {
        let Some(member) = self.members.get_mut(flow.index()).and_then(Option::take) else { return };
        let peer = &mut self.peers[member.peer as usize];
        peer.members.retain(|other| *other != flow);
        // Its place may soon be another's, from which nothing is to be taken back.
        peer.prober.bare.retain(|(name, _)| *name != member.name);
        self.refused.retain(|refused| *refused != flow);
    }

    /// The flow's name on the wire.
    pub fn name(&self, flow: FlowId) -> Option<u32> {
        self.members.get(flow.index())?.as_ref().map(|member| member.name.wire)
    }

    /// The flow is about to send `payload` bytes of `protocol`: the packet's header, none where the receiver has no
    /// Congestion Manager that is known of. The size of it all counts as outstanding.
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
        let (bare, headed) = ((payload + UDP_BYTES) as u64, (payload + UDP_BYTES + CM_HEADER_BYTES) as u64);
        let sequence = self.peers[index as usize].prober.send(now, name, payload as u64, bare, headed);
        manager.notify(now, flow, Bytes::new(if sequence.is_some() { headed } else { bare }));
        self.arm(index, manager);
        Some(CmHeader { kind: CmKind::Data, protocol, sequence: sequence?, flow: name.wire })
    }

    /// A message arrives; if it is data, with `payload` bytes behind it, which are for the flow's application.
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
                CmKind::Syn => self.on_syn(now, from, header.sequence),
                CmKind::SynAck => self.on_syn_ack(now, from, header.sequence, manager),
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
        let mut out = |message| {
            if waiting.len() < MAX_WAITING {
                waiting.push_back((from, message));
            }
        };
        let responder = self.responders.get_mut(&from);
        let verdict = responder.map_or(Verdict::Reset, |responder| match header.kind {
            CmKind::Probe => responder.on_probe(now, header.sequence, &mut out),
            _ => responder.on_data(now, header, payload, ecn == Ecn::Ce, &mut out),
        });
        match verdict {
            Verdict::Deliver => return Some(Delivery { protocol: header.protocol, flow: header.flow }),
            Verdict::Reset => out(CmMessage::Header(CmHeader::control(CmKind::Reset, header.sequence))),
            Verdict::Ignore => {}
        }
        None
    }

    fn on_syn(&mut self, now: Time, from: A, first: u32) {
        if self.responders.len() >= MAX_RESPONDERS && !self.responders.contains_key(&from) {
            // Of a few only: who forges many of these must not have us look through all of them each time.
            let few = self.responders.range(from..).chain(&self.responders).take(FEW);
            let oldest = few.min_by_key(|(_, responder)| responder.heard).map(|(from, _)| *from);
            oldest.map(|oldest| self.responders.remove(&oldest));
        }
        let responder =
            self.responders.entry(from).or_insert_with(|| Responder::new(now, first, self.config.sequenced));
        let answer = responder.on_syn(first);
        self.say(from, answer);
    }

    fn say(&mut self, to: A, message: CmMessage) {
        if self.waiting.len() < MAX_WAITING {
            self.waiting.push_back((to, message));
        }
    }

    fn on_syn_ack<C: Controller>(&mut self, now: Time, from: A, first: u32, manager: &mut Manager<C>) {
        let Some(&index) = self.by_address.get(&from) else { return };
        let Peer { prober, members, .. } = &mut self.peers[index as usize];
        if !prober.on_syn_ack(now, first) {
            return;
        }
        for (name, bytes) in std::mem::take(&mut prober.bare) {
            manager.take_back(now, name.flow, Bytes::new(bytes));
        }
        if let Some(rtt) = prober.rtt {
            for &flow in members.iter() {
                manager.on_path(now, flow, manager.mtu(flow), rtt, RouterFeedback::None);
            }
        }
        self.arm(index, manager);
    }

    fn on_reset<C: Controller>(&mut self, now: Time, from: A, sequence: u32, manager: &mut Manager<C>) {
        let Some(&index) = self.by_address.get(&from) else { return };
        if self.peers[index as usize].prober.is_ours(sequence) {
            self.begin(now, index, manager);
        }
    }

    /// Begins the conversation with a receiver anew.
    fn begin<C: Controller>(&mut self, now: Time, index: u32, manager: &mut Manager<C>) {
        let books = self.peers[index as usize].prober.begin_anew();
        self.settle(now, None, &books.end(), manager);
        self.arm(index, manager);
    }

    /// The receiver's system says that nobody there speaks this protocol (ICMP).
    pub fn on_unreachable(&mut self, now: Time, peer: A) {
        let Some(&index) = self.by_address.get(&peer) else { return };
        let prober = &mut self.peers[index as usize].prober;
        if matches!(prober.state, State::Waiting { .. }) {
            prober.state = State::Absent { since: now };
        }
    }

    fn on_response<C: Controller>(&mut self, now: Time, from: A, response: &Response, manager: &mut Manager<C>) {
        let Some(&index) = self.by_address.get(&from) else { return };
        let Peer { prober, members, .. } = &mut self.peers[index as usize];
        let congestion = match (response.missed, response.marked) {
            (true, _) => Some(LossMode::Transient),
            (false, true) => Some(LossMode::Ecn),
            (false, false) => None,
        };
        if response.this_probe == response.last_probe {
            let is_ours = response.this_probe == prober.first || prober.probes.is_recent(response.this_probe);
            if is_ours && congestion.is_some() {
                let report = Report { mode: congestion, ..Report::default() };
                for flow in one_of_each(members, manager) {
                    manager.report(now, flow, &report);
                }
            }
            return;
        }
        let Some(answer) = prober.probes.answer(now, response, self.config.sequenced) else { return };
        prober.heard(now);
        prober.rtt = Some(answer.rtt);
        let mut on_loss = Some(LossMode::Transient);
        if !self.config.sequenced {
            let verdict = prober.reordering.judge(now, answer.rtt, answer.sent, answer.received);
            on_loss = on_loss.filter(|_| verdict == reordering::Verdict::Reduce);
            if verdict == reordering::Verdict::Undo {
                for flow in one_of_each(members, manager) {
                    manager.undo(now, flow);
                }
            }
        }
        // Word of the round trip, and of congestion, is for every macroflow of these flows.
        let sent_by = Some(answer.asked_at);
        let report = Report { mode: congestion, rtt: Some(answer.rtt), sent_by, ..Report::default() };
        for flow in one_of_each(members, manager) {
            manager.report(now, flow, &report);
        }
        self.settle(now, on_loss, &answer.fates, manager);
        self.arm(index, manager);
    }

    fn on_hints<C: Controller>(&mut self, from: A, probe: u32, weights: &[Count], manager: &mut Manager<C>) {
        let Some(&index) = self.by_address.get(&from) else { return };
        let Peer { prober, members, .. } = &self.peers[index as usize];
        if !prober.probes.is_recent(probe) {
            return;
        }
        for &flow in members {
            let Some(Some(member)) = self.members.get(flow.index()) else { continue };
            if let Some(hint) = weights.iter().find(|hint| hint.flow == member.name.wire) {
                manager.weigh(flow, f64::from(hint.count));
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

    /// Tells the manager what became of packets, and that losses among them are `on_loss`.
    fn settle<C: Controller>(&self, now: Time, on_loss: Option<LossMode>, fates: &[Fate], manager: &mut Manager<C>) {
        for fate in fates {
            let flow = fate.name.flow;
            // A flow's place may be another's by now.
            let is_open = matches!(self.members.get(flow.index()), Some(Some(member)) if member.name == fate.name);
            if !is_open {
                continue;
            }
            if fate.unknown > Bytes::ZERO {
                manager.take_back(now, flow, fate.unknown);
            }
            if fate.received + fate.lost > Bytes::ZERO {
                let mode = on_loss.filter(|_| fate.lost > Bytes::ZERO);
                let (received, lost, sent_by) = (fate.received, fate.lost, Some(fate.sent_by));
                manager.report(now, flow, &Report { received, lost, mode, sent_by, ..Report::default() });
            }
        }
    }

    fn arm<C: Controller>(&mut self, index: u32, manager: &Manager<C>) {
        let deadline = self.deadline_of(index, manager);
        if deadline < Time::MAX {
            self.timers.arm(index, deadline);
        }
    }

    fn round_trip<C: Controller>(&self, index: u32, manager: &Manager<C>) -> (Duration, Duration) {
        let flow = self.peers[index as usize].members.first();
        flow.and_then(|flow| manager.round_trip(*flow)).unwrap_or((Duration::from_secs(1), Duration::from_secs(3)))
    }

    fn deadline_of<C: Controller>(&self, index: u32, manager: &Manager<C>) -> Time {
        let (smoothed, timeout) = self.round_trip(index, manager);
        let peer = &self.peers[index as usize];
        if peer.members.is_empty() { Time::MAX } else { peer.prober.deadline(smoothed, timeout) }
    }

    /// When [`Agent::on_deadline`] wants to be called; [`Time::MAX`] for never.
    pub fn deadline(&self) -> Time {
        self.timers.next()
    }

    /// Does what is due at `now`.
    pub fn on_deadline<C: Controller>(&mut self, now: Time, manager: &mut Manager<C>) {
        while let Some(index) = self.timers.due(now) {
            while let Some(due) = self.due(now, index, manager) {
                self.act(now, index, due, manager);
            }
            self.arm(index, manager);
        }
    }

    fn due<C: Controller>(&mut self, now: Time, index: u32, manager: &Manager<C>) -> Option<Due> {
        let (smoothed, timeout) = self.round_trip(index, manager);
        let peer = &mut self.peers[index as usize];
        if peer.members.is_empty() { None } else { peer.prober.due(now, smoothed, timeout) }
    }

    fn act<C: Controller>(&mut self, now: Time, index: u32, due: Due, manager: &mut Manager<C>) {
        let Peer { address, prober, members } = &mut self.peers[index as usize];
        let address = *address;
        match due {
            Due::Send(header) => self.say(address, CmMessage::Header(header)),
            Due::Probe => {
                let (number, forgotten) = prober.probes.probe(now);
                prober.probed(now);
                self.settle(now, None, &forgotten, manager);
                self.say(address, CmMessage::Header(CmHeader::control(CmKind::Probe, number)));
            }
            Due::Silence(asked) => {
                for (name, bytes) in std::mem::take(&mut prober.bare) {
                    manager.take_back(now, name.flow, Bytes::new(bytes));
                }
                for flow in one_of_each(members, manager) {
                    manager.fall_silent(now, flow, asked);
                }
            }
            Due::Begin => self.begin(now, index, manager),
        }
    }

    /// The next message to send: where, and what. It has no payload.
    pub fn poll_transmit(&mut self) -> Option<(A, CmMessage)> {
        self.waiting.pop_front()
    }
}

/// Of flows to one host, one of each macroflow that they are in.
fn one_of_each<C: Controller>(members: &[FlowId], manager: &Manager<C>) -> Vec<FlowId> {
    let mut seen = Vec::new();
    let is_new = |flow: &&FlowId| {
        let macroflow = manager.macroflow_of(**flow);
        let new = macroflow.is_some() && !seen.contains(&macroflow);
        if new {
            seen.push(macroflow);
        }
        new
    };
    members.iter().filter(is_new).copied().collect()
}
