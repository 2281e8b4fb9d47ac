//! Packets that programs send from sockets of their own, to the receiver's agent, with a CM header that they write
//! themselves (section 4.3; there the IP layer writes it).
//!
//! ```text
//! program ── data, its own number, tag ──► loss detector of the flow ──► applications
//! agent   ── PROBE ──────────────────────► responder ── RESPONSE: bytes of each flow ──► agent
//! ```
//!
//! Programs do not trust each other. So each flow has numbers of its own, and a 32-bit tag that proves that the
//! sender's agent has named the flow. Both are derived from a 64-bit secret, which the agents exchange in the handshake.
//! A program knows the tag of its own flows only, and can neither count bytes nor hide or invent losses of others.
//! Reports of missing and marked packets name the flow, and concern its macroflow only.
//!
//! A number is used when a packet leaves, so a grant that was not used leaves no gap.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hasher;

use rampmeter_control::Controller;
use rampmeter_units::{Bytes, Ecn, Time};
use rampmeter_wire::CmHeader;

use super::responder::{Action, LossDetector};
use super::{Agent, Delivery, Member, RECENT, enqueue};
use crate::flow::FlowId;
use crate::manager::Manager;

/// The maximum number of such flows from one host to another. At the receiver one more, which comes instead of a closed
/// one, replaces the one with the fewest packets, so that a program that opens many flows does not displace others.
const MAX_FLOWS: usize = 256;

/// The maximum number of packets that a program may have sent and not reported yet.
const MAX_UNREPORTED: u32 = 64;

/// What a program needs for the headers of a flow's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnHeader {
    /// The flow's name.
    pub flow: u32,
    /// The number of its first packet; each packet has the next one.
    pub first: u32,
    /// The proof that the flow has this name.
    pub tag: u32,
}

impl OwnHeader {
    /// That of `flow` of an agent whose handshake began with `syn`, which contains the secret.
    #[allow(deprecated, reason = "other hashers of the standard library may change from one version to the next")]
    pub fn new(syn: &CmHeader, flow: u32) -> Self {
        let secret = u64::from(syn.sequence) << 32 | u64::from(syn.flow);
        // SipHash-2-4: without the key nobody can compute one result from others.
        let mut hasher = std::hash::SipHasher::new_with_keys(secret, 0);
        hasher.write(&flow.to_le_bytes());
        let hash = hasher.finish();
        Self { flow, first: (hash >> 32) as u32, tag: hash as u32 }
    }
}

/// The receiver's state of such a flow.
#[derive(Debug)]
struct OwnFlow {
    numbers: LossDetector,
    /// The number of recent packets: each probe halves it.
    packets: u32,
    /// Since the last probe: payload bytes that have arrived, and whether a mark has been reported.
    bytes: u32,
    marked: bool,
}

/// The receiver's state of a sender's flows, by name.
#[derive(Debug, Default)]
pub(crate) struct OwnFlows(BTreeMap<u32, OwnFlow>);

impl OwnFlows {
    /// Counts a packet. Returns whether a mark has to be reported, and whether the number reveals a new loss.
    pub(crate) fn on_packet(
        &mut self,
        header: &CmHeader,
        payload: usize,
        marked: bool,
        sequenced: bool,
    ) -> (bool, bool) {
        if self.0.len() >= MAX_FLOWS && !self.0.contains_key(&header.flow) {
            let fewest = self.0.iter().min_by_key(|(_, flow)| flow.packets).map(|(name, _)| *name);
            fewest.map(|name| self.0.remove(&name));
        }
        let new = || OwnFlow { numbers: LossDetector::new(header.sequence), packets: 0, bytes: 0, marked: false };
        let flow = self.0.entry(header.flow).or_insert_with(new);
        flow.packets = flow.packets.saturating_add(1);
        flow.bytes = flow.bytes.saturating_add(payload as u32);
        let is_new_mark = marked && !std::mem::replace(&mut flow.marked, true);
        (is_new_mark, sequenced && flow.numbers.detects_loss(header.sequence))
    }

    /// The bytes of each flow since the last probe, for the answer to the next one.
    pub(crate) fn take_counts(&mut self) -> impl Iterator<Item = (u32, u32)> {
        let counts = self.0.iter_mut().map(|(name, flow)| {
            flow.marked = false;
            flow.packets /= 2;
            (*name, std::mem::take(&mut flow.bytes))
        });
        counts.filter(|(_, bytes)| *bytes > 0)
    }
}

impl<A: Copy + Ord + Debug> Agent<A> {
    /// The program of `flow` sends from a socket of its own. If too many do so to one host, its packets get no header.
    pub fn use_own_socket(&mut self, flow: FlowId) {
        let Some(Some(member)) = self.members.get(flow.index()) else { return };
        let others = self.peers[member.peer as usize].members.iter();
        if others.filter(|other| uses_own_socket(&self.members, **other)).count() < MAX_FLOWS {
            if let Some(Some(member)) = self.members.get_mut(flow.index()) {
                member.own_sent.get_or_insert(0);
            }
        }
    }

    /// What the program of such a flow needs; none unless the receiver's agent accepts such packets.
    /// [`Agent::poll_changed`] says when it changes.
    pub fn own_header(&self, flow: FlowId) -> Option<OwnHeader> {
        let member = self.members.get(flow.index())?.as_ref().filter(|member| member.own_sent.is_some())?;
        self.peers[member.peer as usize].prober.own_header(member.name.wire)
    }

    /// A flow of such a program whose [`Agent::own_header`] may have changed.
    pub fn poll_changed(&mut self) -> Option<FlowId> {
        self.changed.pop()
    }

    /// The program of `flow` has sent `payload` bytes from a socket of its own, with the header that has this tag or
    /// without one. Returns the size of the packet, which the caller counts as in flight.
    pub fn sent_by_program<C: Controller>(
        &mut self,
        now: Time,
        flow: FlowId,
        payload: usize,
        tag: Option<u32>,
        manager: &Manager<C>,
    ) -> Option<Bytes> {
        let header = self.own_header(flow).filter(|header| Some(header.tag) == tag);
        let member = self.members.get_mut(flow.index())?.as_mut()?;
        member.own_sent = member.own_sent.map(|sent| sent.wrapping_add(u32::from(header.is_some())));
        let (name, index) = (member.name, member.peer);
        let whole = self.peers[index as usize].prober.count(now, name, payload as u64, header.is_some());
        self.arm(index, manager);
        Some(Bytes::new(whole))
    }

    /// A packet of a program at the host of the agent `from` has arrived, `payload` bytes with this tag. Packets
    /// without a valid tag have no effect, and never an answer.
    pub fn receive_own(
        &mut self,
        now: Time,
        from: A,
        header: &CmHeader,
        tag: u32,
        payload: usize,
        ecn: Ecn,
    ) -> Option<Delivery> {
        let waiting = &mut self.waiting;
        let mut out = |message| enqueue(waiting, from, message);
        let responder = self.responders.get_mut(&from)?;
        let action = responder.on_own_data(now, header, tag, payload, ecn == Ecn::Ce, &mut out);
        (action == Action::Deliver).then_some(Delivery { protocol: header.protocol, flow: header.flow })
    }

    /// Whether the packet with this number may have been sent by the program of `flow`.
    pub(super) fn is_of_program(&self, flow: FlowId, sequence: u32) -> bool {
        let sent = self.members.get(flow.index()).and_then(Option::as_ref).and_then(|member| member.own_sent);
        let last = self.own_header(flow).zip(sent).map(|(header, sent)| header.first.wrapping_add(sent));
        last.is_some_and(|last| last.wrapping_add(MAX_UNREPORTED).wrapping_sub(sequence) < RECENT)
    }
}

pub(super) fn uses_own_socket(members: &[Option<Member>], flow: FlowId) -> bool {
    own_name(members, flow).is_some()
}

/// The name of a flow whose program sends from a socket of its own.
pub(super) fn own_name(members: &[Option<Member>], flow: FlowId) -> Option<u32> {
    let member = members.get(flow.index())?.as_ref()?;
    member.own_sent.map(|_| member.name.wire)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use rampmeter_control::Algorithm;
    use rampmeter_control::cm::{Cm, Config};
    use rampmeter_units::Stream;
    use rampmeter_wire::{CmKind, CmMessage};

    use super::*;
    use crate::destinations::Destination;
    use crate::{AgentConfig, Sharing};

    #[test]
    fn tags_and_first_numbers_differ_by_secret_and_flow() {
        let secrets = [(0, 0), (0, 1), (1, 0)]
            .map(|(sequence, flow)| CmHeader { flow, ..CmHeader::control(CmKind::Syn, sequence) });
        let headers = secrets.iter().flat_map(|syn| (0..300).map(|flow| OwnHeader::new(syn, flow)));
        let (first, tags): (BTreeSet<u32>, BTreeSet<u32>) = headers.map(|header| (header.first, header.tag)).unzip();
        assert_eq!((first.len(), tags.len()), (900, 900));
    }

    #[test]
    fn the_tag_is_that_of_siphash_2_4() {
        // By an implementation that gives the result in the appendix of the SipHash paper.
        let syn = CmHeader { flow: 0x0405_0607, ..CmHeader::control(CmKind::Syn, 0x0001_0203) };
        assert_eq!(OwnHeader::new(&syn, 7), OwnHeader { flow: 7, first: 0x6109_c74a, tag: 0x13bf_805a });
    }

    #[test]
    fn a_limited_number_of_flows_has_headers() {
        let (mut agent, mut manager) = (Agent::new(AgentConfig::default()), Manager::new(Sharing::default()));
        let (now, mut random) = (Time::ZERO, Stream::from_seed(1));
        let flows: Vec<FlowId> = (0..=MAX_FLOWS)
            .map(|_| {
                let make = || Cm::new(&Config::default(), Stream::from_seed(1));
                let flow = manager.open(now, Destination(1), make);
                agent.open(now, flow, 1_u8, Bytes::new(1000), &mut random, &mut manager);
                agent.use_own_socket(flow);
                flow
            })
            .collect();
        agent.on_deadline(now, &mut manager);
        let Some((1, CmMessage::Header(syn))) = agent.poll_transmit() else { panic!("no SYN") };
        let answer = CmMessage::Header(CmHeader { kind: CmKind::SynAck, ..syn });
        agent.receive(now, 1, &answer, 0, Ecn::NotEct, &mut manager);
        let has_header = |agent: &Agent<u8>, flow: &FlowId| agent.own_header(*flow).is_some();
        assert!(flows[..MAX_FLOWS].iter().all(|flow| has_header(&agent, flow)));
        assert!(!has_header(&agent, &flows[MAX_FLOWS]));
        agent.close(flows[0]);
        agent.use_own_socket(flows[MAX_FLOWS]);
        assert!(has_header(&agent, &flows[MAX_FLOWS]), "in place of the closed one");
    }

    #[test]
    fn many_new_flows_displace_no_busy_one() {
        let mut flows = OwnFlows::default();
        let detects_loss = |flows: &mut OwnFlows, flow, sequence| {
            let header = CmHeader { flow, ..CmHeader::control(CmKind::Data, sequence) };
            flows.on_packet(&header, 1000, false, true).1
        };
        assert!((0..2).all(|number| !detects_loss(&mut flows, 0, number)));
        assert!((1..1000).all(|flow| !detects_loss(&mut flows, flow, 0)));
        assert!(detects_loss(&mut flows, 0, 10), "its gap is detected");
        for _ in 0..5 {
            flows.take_counts().for_each(drop);
        }
        assert!((1000..1256).all(|flow| !detects_loss(&mut flows, flow, 0)));
        assert!(!flows.0.contains_key(&0), "an idle one leaves");
    }

    proptest! {
        /// Any flows and numbers use bounded memory, and a flow that is not stored reports no loss at first.
        #[test]
        fn any_numbers_use_bounded_memory(packets in prop::collection::vec((0..2000_u32, any::<u32>()), 0..3000)) {
            let mut flows = OwnFlows::default();
            for (flow, sequence) in packets {
                let is_new = !flows.0.contains_key(&flow);
                let header = CmHeader { flow, ..CmHeader::control(CmKind::Data, sequence) };
                prop_assert!(!(flows.on_packet(&header, 1000, false, true).1 && is_new));
                prop_assert!(flows.0.len() <= MAX_FLOWS);
            }
        }
    }
}
