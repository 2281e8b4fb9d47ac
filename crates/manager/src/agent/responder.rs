//! The receiver's half of the protocol, for one sender: loss detector, responder and hints dispatcher (Figure 3).
//!
//! ```text
//! loss detector   packets are numbered; one is missing when a packet at least three numbers higher has come
//! responder       answers a probe with the bytes of each flow since the last probe; reports missing or marked
//!                 packets at once
//! hints           the shares that the flows should have, with three responses, because none is acknowledged
//! ```
//!
//! Source addresses can be forged, so a host sends at most as many bytes to a sender as it has received from it. Hints,
//! which are longer than the packets that they accompany, wait until enough bytes have arrived.
//!
//! A sender that returns after a crash starts with another sequence number. It is accepted when packets of the new
//! sequence arrive; a `Syn` alone is not enough.

use std::collections::BTreeMap;

use rampmeter_units::Time;
use rampmeter_wire::{
    CM_HEADER_BYTES, CmHeader, CmKind, CmMessage, Count, MAX_COUNTS, Response, UDP_BYTES, cm_encoded_len,
};

use super::loss_detector::{LossDetector, MAX_JUMP};
use super::own_flows::OwnFlows;
use super::own_socket::OwnHeader;

/// The maximum number of flows of a sender whose packets its Congestion Manager sends; bytes of further flows are not
/// counted.
pub(super) const MAX_FLOWS: usize = 4096;

/// The number of responses that hints accompany.
const HINT_REPEATS: u8 = 3;

/// Bytes of a probe, and of the shortest response.
const RESPONSE_BYTES: usize = 16;

/// Bytes of each flow in a response, which its packets keep for it, so that other answers do not use them up: 8 for its
/// count, and 1 for the headers of further parts, which are 44 bytes for 180 flows.
const COUNT_BYTES: usize = 9;

/// The minimum payload of a data packet: a transport header. No answer is longer than such a packet.
const MIN_PAYLOAD: usize = 8;

/// What to do with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Deliver it to the flow's application.
    Deliver,
    /// Nothing: it is old or forged.
    Ignore,
    Reset,
}

#[derive(Debug)]
pub(crate) struct Responder {
    /// The sender's `Syn`, with its first sequence number and its secret.
    syn: CmHeader,
    /// The `Syn` of a possible restart.
    candidate: Option<CmHeader>,
    numbers: LossDetector,
    /// Flows whose programs send from sockets of their own.
    own_flows: OwnFlows,
    last_probe: u32,
    counts: BTreeMap<u32, u32>,
    marked: bool,
    missed: bool,
    hints: Vec<Count>,
    hints_left: u8,
    /// Bytes received minus bytes sent: what may be sent to an unverified sender.
    allowance: usize,
    /// Packets have numbers; without them no loss is detected.
    sequenced: bool,
    /// The time of the sender's last packet.
    pub(crate) last_packet_at: Time,
}

impl Responder {
    /// For a sender that starts with `syn`.
    pub(crate) fn new(now: Time, syn: &CmHeader, sequenced: bool) -> Self {
        Self {
            syn: *syn,
            candidate: None,
            numbers: LossDetector::new(syn.sequence),
            own_flows: OwnFlows::default(),
            last_probe: syn.sequence,
            counts: BTreeMap::new(),
            marked: false,
            missed: false,
            hints: Vec::new(),
            hints_left: 0,
            allowance: 0,
            sequenced,
            last_packet_at: now,
        }
    }

    /// Answers a `Syn`.
    pub(crate) fn on_syn(&mut self, syn: &CmHeader) -> CmMessage {
        if (syn.sequence, syn.flow) != (self.syn.sequence, self.syn.flow) {
            self.candidate = Some(*syn);
        }
        CmMessage::Header(CmHeader { flow: syn.flow, ..CmHeader::control(CmKind::SynAck, syn.sequence) })
    }

    /// The sender has restarted with `syn`.
    fn restart(&mut self, now: Time, syn: &CmHeader) {
        let (hints, hints_left) = (std::mem::take(&mut self.hints), self.hints_left);
        *self = Self { hints, hints_left, ..Self::new(now, syn, self.sequenced) };
    }

    /// Whether `number` continues the sequence, or that of a restart, which is accepted then.
    fn accepts(&mut self, now: Time, number: u32, last: u32) -> bool {
        let continues = number.wrapping_sub(last).wrapping_add(MAX_JUMP) < 2 * MAX_JUMP;
        let follows = |syn: &CmHeader| number.wrapping_sub(syn.sequence).wrapping_sub(1) < MAX_JUMP;
        // A forged `Syn` near the sequence must not replace the secret of a sender that has not restarted.
        if let Some(syn) = self.candidate.filter(follows).filter(|_| !continues) {
            self.restart(now, &syn);
            return true;
        }
        self.last_packet_at = now;
        continues
    }

    /// Handles a data packet with `payload` bytes of payload. Immediate messages are passed to `out`.
    pub(crate) fn on_data(
        &mut self,
        now: Time,
        header: &CmHeader,
        payload: usize,
        marked: bool,
        out: &mut impl FnMut(CmMessage),
    ) -> Action {
        if payload < MIN_PAYLOAD {
            return Action::Ignore;
        }
        if self.sequenced && !self.accepts(now, header.sequence, self.numbers.highest) {
            return Action::Reset;
        }
        let missed = self.sequenced && self.numbers.detects_loss(header.sequence);
        self.allowance += UDP_BYTES + CM_HEADER_BYTES - COUNT_BYTES + payload;
        if self.counts.len() < MAX_FLOWS || self.counts.contains_key(&header.flow) {
            add(&mut self.counts, header.flow, payload as u32);
        }
        let marked = marked && !self.marked;
        if missed || marked {
            // At once, and again with the next response.
            self.marked |= marked;
            self.missed |= missed;
            self.send(CmMessage::Response(Box::new(self.report(marked, missed))), out);
        }
        Action::Deliver
    }

    /// Handles a data packet of a program that sends from a socket of its own, in the same way.
    pub(crate) fn on_own_data(
        &mut self,
        now: Time,
        header: &CmHeader,
        tag: u32,
        payload: usize,
        marked: bool,
        out: &mut impl FnMut(CmMessage),
    ) -> Action {
        let is_valid = |syn: &CmHeader| OwnHeader::new(syn, header.flow).tag == tag;
        if payload < MIN_PAYLOAD {
            return Action::Ignore;
        }
        if !is_valid(&self.syn) {
            let Some(syn) = self.candidate.filter(is_valid) else { return Action::Ignore };
            self.restart(now, &syn);
        }
        self.last_packet_at = now;
        self.allowance += UDP_BYTES + CM_HEADER_BYTES - COUNT_BYTES + payload;
        let (marked, missed) = self.own_flows.on_packet(header, payload, marked);
        if marked || missed {
            // The report names the flow, so that a program cannot invent congestion of others.
            let counts = vec![Count { flow: header.flow, count: 0 }];
            let report = CmMessage::Response(Box::new(Response { flows: 1, counts, ..self.report(marked, missed) }));
            self.send(report, out);
        }
        Action::Deliver
    }

    /// An immediate report of marked or missing packets.
    fn report(&self, marked: bool, missed: bool) -> Response {
        let (this_probe, last_probe) = (self.last_probe, self.last_probe);
        Response { this_probe, last_probe, marked, missed, flows: 0, counts: Vec::new() }
    }

    /// Sends `message` if the allowance suffices, and returns whether it does.
    fn send(&mut self, message: CmMessage, out: &mut impl FnMut(CmMessage)) -> bool {
        let is_allowed = self.spend(&message);
        if is_allowed {
            out(message);
        }
        is_allowed
    }

    /// Spends the cost of `message` if the allowance suffices, and returns whether it does.
    pub(crate) fn spend(&mut self, message: &CmMessage) -> bool {
        let left = self.allowance.checked_sub(cost(message));
        self.allowance = left.unwrap_or(self.allowance);
        left.is_some()
    }

    /// Handles a probe. Responses are passed to `out`.
    pub(crate) fn on_probe(&mut self, now: Time, probe: u32, out: &mut impl FnMut(CmMessage)) -> Action {
        if !self.accepts(now, probe, self.last_probe) {
            return Action::Reset;
        }
        // A probe that is old or a duplicate: it, or a later one, has been answered.
        if probe.wrapping_sub(self.last_probe).wrapping_sub(1) >= MAX_JUMP {
            return Action::Ignore;
        }
        let (this_probe, last_probe) = (probe, self.last_probe);
        let (marked, missed) = (std::mem::take(&mut self.marked), std::mem::take(&mut self.missed));
        let mut counts = std::mem::take(&mut self.counts);
        self.own_flows.take_counts().for_each(|(flow, count)| add(&mut counts, flow, count));
        let counts: Vec<Count> = counts.into_iter().map(|(flow, count)| Count { flow, count }).collect();
        self.allowance += UDP_BYTES + RESPONSE_BYTES + COUNT_BYTES * counts.len();
        let flows = counts.len() as u16;
        let parts: Vec<&[Count]> = if flows == 0 { vec![&[]] } else { counts.chunks(MAX_COUNTS).collect() };
        for part in parts {
            let counts = part.to_vec();
            let response = Response { this_probe, last_probe, marked, missed, flows, counts };
            self.send(CmMessage::Response(Box::new(response)), out);
        }
        self.last_probe = probe;
        let hints = CmMessage::Hints { probe, weights: self.hints.as_slice().into() };
        if self.hints_left > 0 && flows > 0 && self.send(hints, out) {
            self.hints_left -= 1;
        }
        Action::Ignore
    }

    /// Sets the weights that the receiver asks for.
    pub(crate) fn hint(&mut self, weights: &[Count]) {
        self.hints.clear();
        self.hints.extend(weights.iter().take(MAX_COUNTS));
        self.hints_left = HINT_REPEATS;
    }
}

fn add(counts: &mut BTreeMap<u32, u32>, flow: u32, payload: u32) {
    let count = counts.entry(flow).or_default();
    *count = count.saturating_add(payload);
}

/// The bytes of `message` on the wire.
fn cost(message: &CmMessage) -> usize {
    UDP_BYTES + cm_encoded_len(message)
}

#[cfg(test)]
mod tests {
    use super::super::own_names::OWN;
    use super::*;

    fn data(sequence: u32) -> CmHeader {
        CmHeader { kind: CmKind::Data, protocol: 17, sequence, flow: 1 }
    }

    /// The messages that data packets with these numbers cause.
    fn messages_for(responder: &mut Responder, numbers: &[u32]) -> Vec<CmMessage> {
        let mut out = Vec::new();
        for &number in numbers {
            responder.on_data(Time::ZERO, &data(number), 1000, false, &mut |message| out.push(message));
        }
        out
    }

    fn probe(responder: &mut Responder, number: u32) -> Vec<CmMessage> {
        let mut out = Vec::new();
        responder.on_probe(Time::ZERO, number, &mut |message| out.push(message));
        out
    }

    fn syn(sequence: u32, secret: u32) -> CmHeader {
        CmHeader { flow: secret, ..CmHeader::control(CmKind::Syn, sequence) }
    }

    fn responder() -> Responder {
        Responder::new(Time::ZERO, &syn(100, 7), true)
    }

    #[test]
    fn a_packet_is_missing_when_one_three_numbers_higher_arrives() {
        assert_eq!(messages_for(&mut responder(), &[101, 103, 104]), []);
        let report = messages_for(&mut responder(), &[101, 103, 104, 105]);
        assert!(matches!(&report[..], [CmMessage::Response(r)] if r.missed && r.this_probe == r.last_probe));
        assert_eq!(messages_for(&mut responder(), &[101, 103, 104, 102, 105, 106, 107]), [], "it arrived late");
        assert_eq!(messages_for(&mut responder(), &[104]).len(), 1, "the first three");
        assert_eq!(messages_for(&mut responder(), &[101, 200]).len(), 1);
        let two = messages_for(&mut responder(), &[101, 103, 105, 106, 107, 108]);
        assert_eq!(two.len(), 2, "102, then 104");
    }

    #[test]
    fn a_probe_is_answered_once_with_the_bytes_since_the_last_one() {
        let mut responder = responder();
        messages_for(&mut responder, &[101, 102]);
        let counts = vec![Count { flow: 1, count: 2000 }];
        let response = Response { this_probe: 101, last_probe: 100, marked: false, missed: false, flows: 1, counts };
        assert_eq!(probe(&mut responder, 101), [CmMessage::Response(Box::new(response))]);
        assert_eq!(probe(&mut responder, 101), [], "a copy");
        let nothing = Response { this_probe: 103, last_probe: 101, ..Response::default() };
        assert_eq!(probe(&mut responder, 103), [CmMessage::Response(Box::new(nothing))], "102 was lost");
        assert_eq!(probe(&mut responder, 102), [], "or late");
    }

    #[test]
    fn marks_are_reported_at_once_and_with_the_next_response() {
        let mut responder = responder();
        let mut out = Vec::new();
        for number in 101..104 {
            responder.on_data(Time::ZERO, &data(number), 1000, true, &mut |message| out.push(message));
        }
        assert!(matches!(&out[..], [CmMessage::Response(report)] if report.marked && !report.missed), "once");
        assert!(matches!(&probe(&mut responder, 101)[..], [CmMessage::Response(report)] if report.marked));
        assert!(matches!(&probe(&mut responder, 102)[..], [CmMessage::Response(report)] if !report.marked));
    }

    #[test]
    fn hints_wait_until_as_many_bytes_have_arrived() {
        let mut responder = responder();
        responder.hint(&[Count { flow: 1, count: 3 }; 50]);
        let mut sent_at = None;
        for number in 101..120 {
            messages_for(&mut responder, &[number]);
            let has_hints =
                probe(&mut responder, number).iter().any(|message| matches!(message, CmMessage::Hints { .. }));
            sent_at = sent_at.or(has_hints.then_some(number));
        }
        assert_eq!(sent_at, Some(101), "a kilobyte has arrived with the first packet");
        let small = |responder: &mut Responder, number| {
            responder.on_data(Time::ZERO, &data(number), 8, false, &mut |_| ());
            probe(responder, number).iter().any(|message| matches!(message, CmMessage::Hints { .. }))
        };
        let mut limited = self::responder();
        limited.hint(&[Count { flow: 1, count: 3 }; 50]);
        assert!((101..110).all(|number| !small(&mut limited, number)), "but few bytes with these");
        assert!((110..130).any(|number| small(&mut limited, number)));
    }

    #[test]
    fn many_flows_are_reported_in_several_responses() {
        let mut responder = responder();
        let mut ignore = |_| {};
        for flow in 0..400 {
            let header = CmHeader { flow, ..data(101 + flow) };
            responder.on_data(Time::ZERO, &header, 8, false, &mut ignore);
        }
        let responses = probe(&mut responder, 101);
        let flows: usize = responses
            .iter()
            .map(|message| match message {
                CmMessage::Response(response) if response.flows == 400 => response.counts.len(),
                _ => 0,
            })
            .sum();
        assert_eq!((responses.len(), flows), (3, 400));
    }

    #[test]
    fn a_restarted_sender_is_accepted_when_its_packets_arrive() {
        let mut responder = responder();
        messages_for(&mut responder, &[101, 102]);
        responder.on_syn(&syn(5_000_000, 8));
        assert!(matches!(&probe(&mut responder, 101)[..], [CmMessage::Response(r)] if r.counts[0].count == 2000));
        let mut ignore = |_| {};
        assert_eq!(responder.on_data(Time::ZERO, &data(5_000_001), 1000, false, &mut ignore), Action::Deliver);
        assert!(matches!(&probe(&mut responder, 5_000_001)[..], [CmMessage::Response(r)] if r.counts[0].count == 1000));
        assert_eq!(responder.on_data(Time::ZERO, &data(103), 1000, false, &mut ignore), Action::Reset);
    }

    /// The messages that packets of a program with these numbers cause, or none if they are not delivered.
    fn own(responder: &mut Responder, header: OwnHeader, numbers: &[u32]) -> Option<Vec<CmMessage>> {
        let mut out = Vec::new();
        let is_delivered = numbers.iter().all(|number| {
            let packet = CmHeader { flow: header.flow, ..data(header.first.wrapping_add(*number)) };
            let mut out = |message| out.push(message);
            responder.on_own_data(Time::ZERO, &packet, header.tag, 1000, false, &mut out) == Action::Deliver
        });
        if is_delivered { Some(out) } else { None }
    }

    #[test]
    fn programs_packets_have_numbers_of_their_own() {
        let mut responder = responder();
        let [one, two] = [1, 2].map(|flow| OwnHeader::new(&syn(100, 7), flow));
        assert_eq!(own(&mut responder, one, &[0, 1, 2]), Some(vec![]));
        assert_eq!(own(&mut responder, two, &[0, 1, 3, 4]), Some(vec![]));
        assert_eq!(messages_for(&mut responder, &[101, 102]), []);
        assert_eq!(own(&mut responder, one, &[3]), Some(vec![]), "other flows' packets are no gap");
        let report = own(&mut responder, two, &[5]).unwrap();
        let [CmMessage::Response(report)] = &report[..] else { panic!("three after the missing one") };
        assert_eq!((report.missed, &report.counts[..]), (true, &[Count { flow: 2, count: 0 }][..]));
        let CmMessage::Response(response) = probe(&mut responder, 101).remove(0) else { panic!() };
        let counts = [(1, 6000), (2, 5000)].map(|(flow, count)| Count { flow, count });
        assert_eq!((response.missed, response.counts), (false, counts.to_vec()), "no packet of the daemon is missing");
    }

    #[test]
    fn marks_of_a_programs_packets_name_its_flow() {
        let mut responder = responder();
        let header = OwnHeader::new(&syn(100, 7), 2);
        let reports = |responder: &mut Responder, numbers: std::ops::Range<u32>| {
            let mut out = Vec::new();
            for number in numbers {
                let packet = CmHeader { flow: 2, ..data(header.first.wrapping_add(number)) };
                responder.on_own_data(Time::ZERO, &packet, header.tag, 1000, true, &mut |message| out.push(message));
            }
            out
        };
        let report = reports(&mut responder, 0..5);
        let [CmMessage::Response(report)] = &report[..] else { panic!("one until the next probe: {report:?}") };
        assert_eq!((report.marked, &report.counts[..]), (true, &[Count { flow: 2, count: 0 }][..]));
        assert!(matches!(&probe(&mut responder, 101)[..], [CmMessage::Response(r)] if !r.marked));
        assert_eq!(reports(&mut responder, 5..9).len(), 1);
    }

    #[test]
    fn programs_flows_leave_room_for_the_daemons() {
        let mut responder = responder();
        for flow in 0..5000 {
            assert!(own(&mut responder, OwnHeader::new(&syn(100, 7), OWN | flow), &[0]).is_some());
        }
        responder.on_data(Time::ZERO, &CmHeader { flow: 9000, ..data(101) }, 500, false, &mut |_| ());
        let mut counts = Vec::new();
        for message in probe(&mut responder, 101) {
            let CmMessage::Response(response) = message else { panic!("{message:?}") };
            counts.extend(response.counts);
        }
        assert_eq!(counts.len(), 257);
        assert!(counts.contains(&Count { flow: 9000, count: 500 }));
    }

    #[test]
    fn packets_with_another_flows_tag_have_no_effect() {
        let mut responder = responder();
        let [one, two] = [1, 2].map(|flow| OwnHeader::new(&syn(100, 7), flow));
        assert_eq!(own(&mut responder, one, &[0]), Some(vec![]));
        assert_eq!(own(&mut responder, OwnHeader { tag: one.tag, ..two }, &[0, 900]), None);
        assert_eq!(own(&mut responder, OwnHeader::new(&syn(100, 8), 1), &[900]), None, "of another secret");
        assert!(matches!(&probe(&mut responder, 101)[..], [CmMessage::Response(r)] if !r.missed && r.flows == 1));
        responder.on_syn(&syn(100, 8));
        assert_eq!(own(&mut responder, one, &[1]), Some(vec![]), "a SYN alone changes nothing");
        assert!(own(&mut responder, OwnHeader::new(&syn(100, 8), 1), &[900]).is_some(), "its packets do");
        assert_eq!(own(&mut responder, one, &[2]), None);
    }

    #[test]
    fn hints_accompany_three_responses() {
        let mut responder = responder();
        responder.hint(&[Count { flow: 1, count: 3 }]);
        let hinted = (101..110).filter(|&number| {
            messages_for(&mut responder, &[number]);
            probe(&mut responder, number).iter().any(|message| matches!(message, CmMessage::Hints { .. }))
        });
        assert_eq!(hinted.count(), 3);
    }

    #[test]
    fn no_answer_is_longer_than_its_data_packet() {
        let mut out = Vec::new();
        let mut responder = responder();
        assert_eq!(responder.on_data(Time::ZERO, &data(300), 0, true, &mut |m| out.push(m)), Action::Ignore);
        assert_eq!(out, []);
    }

    #[test]
    fn all_answers_together_are_no_longer_than_all_packets() {
        for payload in MIN_PAYLOAD..100 {
            let (mut responder, mut answers) = (responder(), Vec::new());
            responder.on_data(Time::ZERO, &data(300), payload, true, &mut |message| answers.push(message));
            let refusal = CmMessage::Header(CmHeader::control(CmKind::Reset, 300));
            answers.extend(responder.spend(&refusal).then_some(refusal));
            let last = probe(&mut responder, 101);
            assert!(matches!(&last[..], [CmMessage::Response(r)] if r.counts.len() == 1 && r.marked && r.missed));
            let answered: usize = answers.iter().chain(&last).map(cost).sum();
            assert!(answered <= UDP_BYTES * 2 + CM_HEADER_BYTES + payload + RESPONSE_BYTES, "{payload}: {answered}");
        }
    }

    #[test]
    fn a_forged_syn_near_the_sequence_changes_nothing() {
        let mut responder = responder();
        let header = OwnHeader::new(&syn(100, 7), OWN);
        (101..5000).for_each(|number| assert_eq!(messages_for(&mut responder, &[number]), []));
        assert!(own(&mut responder, header, &[0, 1, 2]).is_some());
        responder.on_syn(&syn(1000, 99));
        messages_for(&mut responder, &[5000, 5001]);
        assert!(own(&mut responder, header, &[3]).is_some(), "the sender's secret is still valid");
    }

    #[test]
    fn other_answers_leave_room_for_all_parts_of_a_response() {
        let mut responder = responder();
        for flow in 0..180 {
            let header = CmHeader { flow, ..data(101 + flow) };
            responder.on_data(Time::ZERO, &header, MIN_PAYLOAD, false, &mut |_| ());
        }
        let last = OwnHeader::new(&syn(100, 7), OWN | 1);
        assert_eq!(own(&mut responder, last, &[0]), Some(vec![]));
        let refusal = CmMessage::Header(CmHeader::control(CmKind::Reset, 300));
        while responder.spend(&refusal) {}
        let parts = probe(&mut responder, 101);
        let [_, CmMessage::Response(response)] = &parts[..] else { panic!("{parts:?}") };
        assert_eq!(response.counts, [Count { flow: last.flow, count: 1000 }]);
    }
}
