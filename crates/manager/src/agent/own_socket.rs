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

use std::fmt::Debug;
use std::hash::Hasher;

use rampmeter_units::{Bytes, Ecn, Time};
use rampmeter_wire::CmHeader;

use super::own_names::OwnNames;
use super::responder::Action;
use super::{Agent, Delivery, Member, RECENT, enqueue};
use crate::destinations::Owner;
use crate::flow::FlowId;

/// The maximum number of packets that a program may have sent and not reported yet.
const MAX_UNREPORTED: u32 = 64;

/// The contents of the headers of a flow's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnHeader {
    /// The flow's name.
    pub flow: u32,
    /// The number of its first packet; each packet has the next one.
    pub first: u32,
    /// The proof that the flow has this name; not 0, as in packets of an agent.
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
        Self { flow, first: (hash >> 32) as u32, tag: (hash as u32).max(1) }
    }
}

/// The sender's state of such a flow.
#[derive(Debug)]
pub(super) struct OwnFlow {
    /// The name of the flow for these packets; none while it waits for one.
    name: Option<u32>,
    /// The number of packets with headers that its program has sent.
    sent: u32,
    /// The owner of the program.
    owner: Owner,
}

impl<A: Copy + Ord + Debug> Agent<A> {
    /// The program of `flow` sends from a socket of its own. If too many do so to one host, the flow waits for a name,
    /// and its packets get no header.
    pub fn use_own_socket(&mut self, flow: FlowId, owner: Owner) {
        let Some(Some(member)) = self.members.get_mut(flow.index()) else { return };
        if member.own.is_some() {
            return;
        }
        let names = &mut self.peers[member.peer as usize].prober.probes.own_names;
        member.own = Some(OwnFlow { name: names.assign(flow, owner), sent: 0, owner });
        let index = member.peer;
        self.arm(index);
    }

    /// Assigns names to flows to a receiver that have none. If the last name is used, the handshake is due.
    pub(super) fn assign_own_names(&mut self, index: u32) {
        let peer = &mut self.peers[index as usize];
        for &flow in peer.members.values() {
            let Some(Some(Member { own: Some(own), .. })) = self.members.get_mut(flow.index()) else { continue };
            if own.name.is_none() {
                let Some(name) = peer.prober.probes.own_names.assign(flow, own.owner) else { continue };
                own.name = Some(name);
                self.changed.push(flow);
            }
        }
        self.arm(index);
    }

    /// After another handshake the numbers of programs' flows begin again, and their names if they were used up.
    pub(super) fn restart_own_flows(&mut self, index: u32) {
        let peer = &mut self.peers[index as usize];
        let names = &mut peer.prober.probes.own_names;
        if names.are_used_up() {
            *names = OwnNames::default();
        }
        for &flow in peer.members.values() {
            let Some(Some(Member { own: Some(own), .. })) = self.members.get_mut(flow.index()) else { continue };
            let name = own.name.filter(|name| names.flow(*name) == Some(flow));
            *own = OwnFlow { name: name.or_else(|| names.assign(flow, own.owner)), sent: 0, ..*own };
            self.changed.push(flow);
        }
    }

    /// The contents of the headers of such a flow; none unless the receiver's agent accepts such packets.
    /// [`Agent::poll_changed`] says when it changes.
    pub fn own_header(&self, flow: FlowId) -> Option<OwnHeader> {
        let member = self.members.get(flow.index())?.as_ref()?;
        self.peers[member.peer as usize].prober.own_header(member.own_name()?)
    }

    /// A flow of such a program whose [`Agent::own_header`] may have changed.
    pub fn poll_changed(&mut self) -> Option<FlowId> {
        self.changed.pop()
    }

    /// The program of `flow` has sent `payload` bytes from a socket of its own, with the header that has this tag or
    /// without one. Returns the size of the packet, which the caller counts as in flight.
    pub fn sent_by_program(&mut self, now: Time, flow: FlowId, payload: usize, tag: Option<u32>) -> Option<Bytes> {
        let header = self.own_header(flow).filter(|header| Some(header.tag) == tag);
        let member = self.members.get_mut(flow.index())?.as_mut()?;
        let (mut name, index) = (member.name, member.peer);
        if let (Some(own), Some(header)) = (&mut member.own, header) {
            own.sent = own.sent.wrapping_add(1);
            name.wire = header.flow;
        }
        let whole = self.peers[index as usize].prober.count(now, name, payload as u64, header.is_some());
        self.arm(index);
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
        let own = self.members.get(flow.index()).and_then(Option::as_ref).and_then(|member| member.own.as_ref());
        let last = self.own_header(flow).zip(own).map(|(header, own)| header.first.wrapping_add(own.sent));
        last.is_some_and(|last| last.wrapping_add(MAX_UNREPORTED).wrapping_sub(sequence) < RECENT)
    }
}

impl Member {
    /// The name of the flow for packets that its program sends from a socket of its own.
    pub(super) fn own_name(&self) -> Option<u32> {
        self.own.as_ref()?.name
    }

    /// Whether `name` is one of the flow's names on the wire.
    pub(super) fn has_name(&self, name: u32) -> bool {
        self.name.wire == name || self.own_name() == Some(name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rampmeter_control::Algorithm;
    use rampmeter_control::cm::{Cm, Config};
    use rampmeter_units::Random;
    use rampmeter_wire::{CmKind, CmMessage, Count};

    use super::*;
    use crate::destinations::Destination;
    use crate::{AgentConfig, Manager, Sharing};

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

    /// An agent that has opened `n` flows of programs to one receiver.
    fn agent_with_flows(n: usize) -> (Agent<u8>, Manager<Cm>, Vec<FlowId>) {
        let (mut agent, mut manager) = (Agent::new(AgentConfig::default()), Manager::new(Sharing::default()));
        let flows = (0..n).map(|_| open(&mut agent, &mut manager, Time::ZERO)).collect();
        (agent, manager, flows)
    }

    /// Opens another flow.
    fn open(agent: &mut Agent<u8>, manager: &mut Manager<Cm>, now: Time) -> FlowId {
        let flow = manager.open(now, Destination(1), || Cm::new(&Config::default(), Random::from_seed(1)));
        agent.open(now, flow, 1, Bytes::new(1000), &mut Random::from_seed(2), manager);
        agent.use_own_socket(flow, Owner::default());
        flow
    }

    /// The receiver answers the handshake. Returns the SYN.
    fn handshake(agent: &mut Agent<u8>, manager: &mut Manager<Cm>) -> CmHeader {
        agent.on_deadline(Time::ZERO, manager);
        let Some((1, CmMessage::Header(syn))) = agent.poll_transmit() else { panic!("no SYN") };
        let answer = CmMessage::Header(CmHeader { kind: CmKind::SynAck, ..syn });
        agent.receive(Time::ZERO, 1, &answer, 0, Ecn::NotEct, manager);
        syn
    }

    /// Hints of the receiver with these weights.
    fn hint(agent: &mut Agent<u8>, manager: &mut Manager<Cm>, probe: u32, weights: &[(u32, u32)]) {
        let weights = weights.iter().map(|&(flow, count)| Count { flow, count }).collect();
        agent.receive(Time::ZERO, 1, &CmMessage::Hints { probe, weights }, 0, Ecn::NotEct, manager);
    }

    #[test]
    fn hinted_weights_are_those_of_the_first_hint_and_limited() {
        let (mut agent, mut manager, flows) = agent_with_flows(3);
        let syn = handshake(&mut agent, &mut manager);
        let names = [0, 1, 2].map(|flow| agent.name(flows[flow]).unwrap());
        let own = agent.own_header(flows[2]).unwrap().flow;
        let hints = [(names[0], 5), (names[1], u32::MAX), (own, 7), (names[0], 9), (12_345, 3)];
        hint(&mut agent, &mut manager, syn.sequence, &hints);
        let weight = |flow: FlowId| manager.of_flow(flow).unwrap().0.share().weight;
        assert_eq!(flows.iter().map(|flow| weight(*flow)).collect::<Vec<_>>(), [5.0, 1e6, 7.0]);
    }

    #[test]
    fn unknown_names_cost_no_more_with_many_flows() {
        let cost = |flows: usize| {
            let (mut agent, mut manager, _) = agent_with_flows(flows);
            let syn = handshake(&mut agent, &mut manager);
            let names: Vec<_> = (0..180).map(|n| (1_000_000 + n, 3)).collect();
            let refusal = CmHeader { kind: CmKind::Reset, protocol: 17, flow: 1_000_000, sequence: syn.sequence };
            let one = |_| {
                let begin = std::time::Instant::now();
                (0..20).for_each(|_| hint(&mut agent, &mut manager, syn.sequence, &names));
                for _ in 0..1000 {
                    agent.receive(Time::ZERO, 1, &CmMessage::Header(refusal), 0, Ecn::NotEct, &mut manager);
                }
                begin.elapsed()
            };
            (0..10).map(one).min().unwrap()
        };
        let (few, many) = (cost(8), cost(8192));
        println!("{few:?} with 8 flows, {many:?} with 8192");
        assert!(many < few * 20, "{many:?} instead of {few:?}");
    }

    #[test]
    fn names_begin_again_with_another_secret() {
        let (mut agent, mut manager, mut flows) = agent_with_flows(2);
        let first = handshake(&mut agent, &mut manager);
        let before = flows.iter().map(|flow| agent.own_header(*flow).unwrap()).collect::<Vec<_>>();
        agent.peers[0].prober.probes.own_names.use_up();
        flows.push(open(&mut agent, &mut manager, Time::ZERO));
        agent.on_deadline(Time::ZERO, &mut manager);
        assert!(flows.iter().all(|flow| agent.own_header(*flow).is_none()));
        let second = handshake(&mut agent, &mut manager);
        assert_ne!((first.sequence, first.flow), (second.sequence, second.flow));
        let after = flows.iter().map(|flow| agent.own_header(*flow).unwrap()).collect::<Vec<_>>();
        assert!(before.iter().zip(&after).all(|(old, new)| old.flow == new.flow && old.tag != new.tag));
        assert_eq!(after.iter().map(|header| header.flow).collect::<BTreeSet<_>>().len(), 3);
    }
}
