//! A sender's agent, whose receiver is the test: which messages have an effect, and what the controller gets.

use std::cell::RefCell;

use rampmeter_control::{Ack, Controller, Departure, Loss, LossKind, Path, Sent};
use rampmeter_manager::{
    Agent, AgentConfig, Destination, FlowId, Grouping, Manager, OwnHeader, Owner, Presence, Sharing,
};
use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Time};
use rampmeter_wire::{CmHeader, CmKind, CmMessage, Count, Response, RouterFeedback};

use crate::common::at;

const PAYLOAD: usize = 1000;

/// With the headers of IP, UDP and the CM.
const PACKET: Bytes = Bytes::new(1040);
const RTT: Duration = Duration::from_millis(100);
const RECEIVER: u32 = 7;
const UDP: u8 = 17;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Delivered(Bytes),
    /// A mark of a packet up to this number.
    Mark(u64),
    /// The bytes lost, and the highest number among them.
    Loss(Bytes, u64),
}

/// A controller that permits everything and records its calls.
#[derive(Debug, Default)]
struct Recorder(RefCell<Vec<Call>>);

impl Controller for Recorder {
    fn on_path(&mut self, _now: Time, _path: &Path) {}
    fn on_sent(&mut self, _now: Time, _sent: &Sent) {}
    fn on_ack(&mut self, _now: Time, ack: &Ack<'_>) {
        let call = match ack.mark_count {
            Some(count) if count.marks > 0 => Call::Mark(count.number),
            _ => Call::Delivered(ack.delivered),
        };
        self.0.borrow_mut().push(call);
    }
    fn on_loss(&mut self, _now: Time, loss: &Loss) {
        assert_eq!(loss.kind, LossKind::Transient);
        self.0.borrow_mut().push(Call::Loss(loss.bytes, loss.number));
    }
    fn window(&self) -> Bytes {
        Bytes::MAX
    }
    fn departure(&self) -> Departure {
        Departure { at: Time::ZERO, bytes: PACKET, feedback: RouterFeedback::None }
    }
    fn rate(&self) -> Option<Rate> {
        None
    }
}

struct Sender {
    agent: Agent<u32>,
    manager: Manager<Recorder>,
}

impl Sender {
    fn new(config: AgentConfig) -> Self {
        let sharing = Sharing { grouping: Grouping::PerDestination, ..Sharing::default() };
        Self { agent: Agent::new(config), manager: Manager::new(sharing) }
    }

    /// A sender with one flow, whose handshake took a round trip. Returns its SYN, too.
    fn with_flow(config: AgentConfig) -> (Self, FlowId, CmHeader) {
        let mut sender = Self::new(config);
        let flow = sender.open(at(0), RECEIVER);
        let syn = sender.handshake(at(0), RECEIVER);
        (sender, flow, syn)
    }

    fn open(&mut self, now: Time, to: u32) -> FlowId {
        let flow = self.manager.open(now, Destination(to.into()), Recorder::default);
        self.agent.open(now, flow, to, PACKET, &mut Random::from_seed(to.into()), &mut self.manager);
        flow
    }

    fn close(&mut self, now: Time, flow: FlowId) {
        self.agent.close(flow);
        self.manager.close(now, flow);
    }

    fn sent(&mut self, now: Time) -> Vec<CmHeader> {
        self.agent.on_deadline(now, &mut self.manager);
        let header = |(_, message)| if let CmMessage::Header(header) = message { Some(header) } else { None };
        std::iter::from_fn(|| self.agent.poll_transmit()).filter_map(header).collect()
    }

    /// The SYN that is sent at `now` is answered a round trip later.
    fn handshake(&mut self, now: Time, with: u32) -> CmHeader {
        let [syn] = self.sent(now)[..] else { panic!("no SYN") };
        assert_eq!(syn.kind, CmKind::Syn);
        self.receive(now + RTT, with, &CmMessage::Header(CmHeader { kind: CmKind::SynAck, ..syn }));
        syn
    }

    fn receive(&mut self, now: Time, from: u32, message: &CmMessage) {
        assert_eq!(self.agent.receive(now, from, message, 0, Ecn::NotEct, &mut self.manager), None);
    }

    fn respond(&mut self, now: Time, response: Response) {
        self.receive(now, RECEIVER, &CmMessage::Response(Box::new(response)));
    }

    fn send(&mut self, now: Time, flow: FlowId) -> CmHeader {
        self.agent.send(now, flow, UDP, PAYLOAD, &mut self.manager).unwrap()
    }

    /// Sends packets of `flow`, and then the probe that is due at `probe_at`. Returns its number.
    fn send_and_probe(&mut self, now: Time, flow: FlowId, packets: usize, probe_at: Time) -> u32 {
        (0..packets).for_each(|_| _ = self.send(now, flow));
        let [probe] = self.sent(probe_at)[..] else { panic!("no probe") };
        assert_eq!(probe.kind, CmKind::Probe);
        probe.sequence
    }

    /// The calls since the last time.
    fn calls(&self, flow: FlowId) -> Vec<Call> {
        self.manager.controller(flow).unwrap().0.take()
    }

    fn in_flight(&self, flow: FlowId) -> Bytes {
        self.manager.in_flight(flow)
    }

    fn has_cm(&self) -> bool {
        self.agent.peers().any(|peer| peer.address == RECEIVER && peer.presence == Presence::Present)
    }
}

/// The response to `probe` about bytes of flows since the probe before it.
fn response(probe: u32, counts: &[(u32, usize)]) -> Response {
    let counts: Vec<Count> = counts.iter().map(|&(flow, bytes)| Count { flow, count: bytes as u32 }).collect();
    let flows = counts.len() as u16;
    Response { this_probe: probe, last_probe: probe.wrapping_sub(1), flows, counts, ..Response::default() }
}

/// A report that does not answer a probe.
fn report(number: u32, missed: bool, counts: &[(u32, usize)]) -> Response {
    Response { last_probe: number, missed, marked: !missed, ..response(number, counts) }
}

#[test]
fn a_report_must_contain_a_recent_number_of_this_host() {
    let (mut sender, flow, syn) = Sender::with_flow(AgentConfig::default());
    sender.send(at(100), flow);
    for number in [syn.sequence.wrapping_add(1), syn.sequence.wrapping_add(9), syn.sequence ^ 1 << 20] {
        sender.respond(at(140), report(number, true, &[]));
        assert_eq!(sender.calls(flow), [], "{number}");
    }
    sender.respond(at(140), report(syn.sequence, true, &[]));
    sender.respond(at(140), report(syn.sequence, false, &[]));
    assert_eq!(sender.calls(flow), [Call::Loss(Bytes::ZERO, 0), Call::Mark(0)], "the first number is known");
    let probe = sender.send_and_probe(at(150), flow, 1, at(150));
    sender.respond(at(200), report(probe, false, &[]));
    assert_eq!(sender.calls(flow).len(), 1, "that of a probe, too");
}

/// Packet 1 was sent before the probe, packet 2 after it.
#[test]
fn congestion_concerns_the_packets_before_the_probe() {
    for (marked, missed) in [(true, false), (false, true)] {
        let (mut sender, flow, _) = Sender::with_flow(AgentConfig::default());
        let name = sender.agent.name(flow).unwrap();
        let probe = sender.send_and_probe(at(100), flow, 1, at(150));
        sender.respond(at(250), response(probe, &[(name, PAYLOAD)]));
        assert_eq!(sender.calls(flow), [Call::Delivered(PACKET)]);
        let probe = sender.send_and_probe(at(300), flow, 1, at(350));
        sender.send(at(400), flow);
        let arrived = if missed { 0 } else { PAYLOAD };
        sender.respond(at(520), Response { marked, missed, ..response(probe, &[(name, arrived)]) });
        let expected = if missed {
            vec![Call::Loss(Bytes::ZERO, 1), Call::Loss(PACKET, 1)]
        } else {
            vec![Call::Mark(1), Call::Delivered(PACKET)]
        };
        assert_eq!((sender.calls(flow), sender.in_flight(flow)), (expected, PACKET));
        // RFC 6298 after 100, 100 and 170 ms: 7/8 * 100 + 1/8 * 170. So packet 2 was sent a round trip ago, too.
        let status = sender.manager.query(at(520), flow).unwrap();
        assert_eq!((status.smoothed_rtt, status.min_rtt), (Duration::from_micros(108_750), RTT));
        let peer = sender.agent.peers().next().unwrap();
        let (one, two) = (PACKET, PACKET * 2);
        assert_eq!(peer.outcomes, if missed { (one, one) } else { (two, Bytes::ZERO) });
        assert_eq!((peer.probes, peer.responses, peer.rtt), (2, 2, Some(Duration::from_millis(170))));
    }
}

#[test]
fn a_reset_needs_a_number_of_this_host_and_a_second() {
    let (mut sender, flow, _) = Sender::with_flow(AgentConfig::default());
    let number = sender.send(at(100), flow).sequence;
    let reset = |sender: &mut Sender, ms, number| {
        sender.receive(at(ms), RECEIVER, &CmMessage::Header(CmHeader::control(CmKind::Reset, number)));
        sender.has_cm()
    };
    assert!(reset(&mut sender, 1099, number) && reset(&mut sender, 1100, number.wrapping_add(5000)));
    assert!(!reset(&mut sender, 1100, number));
    assert_eq!(sender.in_flight(flow), Bytes::ZERO, "what happened to the packet is unknown");
}

fn refuse(sender: &mut Sender, header: CmHeader) {
    sender.receive(at(200), RECEIVER, &CmMessage::Header(CmHeader { kind: CmKind::Reset, ..header }));
}

#[test]
fn the_packets_of_a_closed_flow_are_not_those_of_the_next_one() {
    let (mut sender, flow, _) = Sender::with_flow(AgentConfig::default());
    let name = sender.agent.name(flow).unwrap();
    let probe = sender.send_and_probe(at(100), flow, 1, at(150));
    sender.close(at(160), flow);
    let next = sender.open(at(160), RECEIVER);
    assert_eq!(next, flow, "its number at the manager is the same");
    sender.send(at(170), next);
    sender.respond(at(250), response(probe, &[(name, PAYLOAD)]));
    assert_eq!((sender.calls(next), sender.in_flight(next)), (vec![], PACKET));
}

/// The receiver has lost its state, and another handshake ends at 2100 ms.
fn restart(sender: &mut Sender, flow: FlowId) {
    let header = sender.send(at(1990), flow);
    sender.receive(at(2000), RECEIVER, &CmMessage::Header(CmHeader::control(CmKind::Reset, header.sequence)));
    sender.handshake(at(2000), RECEIVER);
}

/// A flow whose program sends from a socket of its own, and the headers of its packets.
fn with_program() -> (Sender, FlowId, OwnHeader) {
    let (mut sender, flow, _) = Sender::with_flow(AgentConfig::default());
    sender.agent.use_own_socket(flow, Owner::default());
    let header = sender.agent.own_header(flow).unwrap();
    (sender, flow, header)
}

/// The program of `flow` sends a packet at `now`. Returns its size.
fn program_sends(sender: &mut Sender, now: Time, flow: FlowId, tag: Option<u32>) -> Bytes {
    let bytes = sender.agent.sent_by_program(now, flow, PAYLOAD, tag).unwrap();
    sender.manager.notify(now, flow, bytes);
    bytes
}

#[test]
fn only_packets_of_programs_with_the_right_tag_are_probed() {
    let (mut sender, flow, header) = with_program();
    assert_eq!(program_sends(&mut sender, at(100), flow, Some(header.tag)), PACKET);
    let without = Bytes::new(1028);
    assert_eq!(program_sends(&mut sender, at(100), flow, Some(header.tag ^ 1)), without);
    assert_eq!(program_sends(&mut sender, at(100), flow, None), without);
    let probe = sender.send_and_probe(at(150), flow, 0, at(150));
    sender.respond(at(250), response(probe, &[(header.flow, PAYLOAD)]));
    assert_eq!(sender.calls(flow), [Call::Delivered(PACKET)]);
    assert_eq!(sender.in_flight(flow), without * 2);
}

/// A report that names a flow concerns that flow, and says which bytes are lost.
#[test]
fn a_report_about_a_program_names_its_flow() {
    let (mut sender, flow, header) = with_program();
    program_sends(&mut sender, at(100), flow, Some(header.tag));
    let probe = sender.send_and_probe(at(150), flow, 0, at(150));
    sender.respond(at(160), report(probe, true, &[(header.flow ^ 1, 0)]));
    assert_eq!(sender.calls(flow), [], "another name");
    sender.respond(at(170), report(probe, false, &[(header.flow, 0)]));
    assert_eq!(sender.calls(flow), [Call::Mark(0)]);
    sender.respond(at(180), response(probe, &[]));
    assert_eq!((sender.calls(flow), sender.in_flight(flow)), (vec![], PACKET), "a mark is no loss");
    program_sends(&mut sender, at(190), flow, Some(header.tag));
    sender.respond(at(195), report(probe, true, &[(header.flow, 0)]));
    let probe = sender.send_and_probe(at(240), flow, 0, at(300));
    sender.respond(at(350), response(probe, &[(header.flow, PAYLOAD)]));
    let calls = [Call::Loss(Bytes::ZERO, 0), Call::Delivered(PACKET), Call::Loss(PACKET, 0)];
    assert_eq!((sender.calls(flow), sender.in_flight(flow)), (calls.to_vec(), Bytes::ZERO));
}

/// Whether a refusal of the program's packet with this number counts.
fn is_refused(sender: &mut Sender, header: OwnHeader, number: u32) -> bool {
    let sequence = header.first.wrapping_add(number);
    refuse(sender, CmHeader { kind: CmKind::Data, protocol: UDP, sequence, flow: header.flow });
    sender.agent.poll_refused().is_some()
}

/// Up to 64 packets that the program has not reported yet, and 1024 numbers in all.
#[test]
fn a_refusal_must_refer_to_a_packet_that_may_have_been_sent() {
    let (mut sender, flow, header) = with_program();
    (0..2000).for_each(|_| _ = program_sends(&mut sender, at(100), flow, Some(header.tag)));
    assert!(is_refused(&mut sender, header, 2064) && !is_refused(&mut sender, header, 2065));
    assert!(is_refused(&mut sender, header, 2064 - 1023) && !is_refused(&mut sender, header, 2064 - 1024));
}

#[test]
fn after_another_handshake_a_programs_numbers_begin_again() {
    let (mut sender, flow, before) = with_program();
    (0..2000).for_each(|_| _ = program_sends(&mut sender, at(100), flow, Some(before.tag)));
    restart(&mut sender, flow);
    let after = sender.agent.own_header(flow).unwrap();
    assert!(after.flow == before.flow && after.first != before.first && after.tag != before.tag);
    assert!(is_refused(&mut sender, after, 64) && !is_refused(&mut sender, after, 65));
}

fn syn_from(agent: &mut Sender, from: u32) {
    agent.receive(at(from.into()), from, &CmMessage::Header(CmHeader::control(CmKind::Syn, from)));
}

#[test]
fn a_limited_number_of_senders_is_stored_and_of_answers_waits() {
    let mut receiver = Sender::new(AgentConfig::default());
    for from in 0..10_000 {
        syn_from(&mut receiver, from);
        assert_eq!(receiver.agent.senders(), from as usize + 1);
    }
    assert_eq!(std::iter::from_fn(|| receiver.agent.poll_transmit()).count(), 4096);
    syn_from(&mut receiver, 5);
    assert_eq!(receiver.agent.senders(), 10_000, "a known one replaces none");
    syn_from(&mut receiver, 10_001);
    assert_eq!(receiver.agent.senders(), 10_000);
}

/// The state of receivers without flows is kept for later flows, while there is place.
#[test]
fn the_state_of_a_limited_number_of_receivers_is_kept() {
    let (mut sender, flow, _) = Sender::with_flow(AgentConfig::default());
    sender.close(at(100), flow);
    let visit = |sender: &mut Sender, to| {
        let flow = sender.open(at(200), to);
        let sent = sender.sent(at(200)).len();
        sender.close(at(200), flow);
        sent
    };
    for other in 1..10_000 {
        assert_eq!(visit(&mut sender, 1000 + other), 1, "a SYN");
    }
    assert_eq!(visit(&mut sender, RECEIVER), 0, "its handshake is complete");
    assert_eq!(visit(&mut sender, 999), 1);
    assert_eq!(visit(&mut sender, RECEIVER), 1, "it was replaced");
}
