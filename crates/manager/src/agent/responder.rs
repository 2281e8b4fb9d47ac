//! The receiving half of the protocol, for one sender: loss detector, responder and hints dispatcher (Figure 3).
//!
//! ```text
//! loss detector   packets are numbered; one is missing when a packet at least three numbers higher has come
//! responder       what has arrived of each flow since the last probe, when a probe asks; when packets are missing or
//!                 marked, word of that at once
//! hints           which shares the flows should have: said with three responses, as none of them is acknowledged
//! ```
//!
//! Anybody can send in another's name, so nothing is said that its sender has not paid for with as many bytes; hints,
//! which are longer than what they go with, wait until it has.
//!
//! A sender that comes back after a crash begins with another sequence number. It is believed once packets of that sequence
//! come, not when somebody says so in its name.

use std::collections::BTreeMap;

use rampmeter_units::Time;
use rampmeter_wire::{
    CM_HEADER_BYTES, CmHeader, CmKind, CmMessage, Count, MAX_COUNTS, Response, UDP_BYTES, cm_encoded_len,
};

/// How much later a packet must be for one to be missing.
const LATER: u32 = 3;

/// Flows counted for one sender at most; others' bytes go uncounted.
const MAX_FLOWS: usize = 4096;

/// How far ahead of what came last a number may be.
const FAR: u32 = 1 << 16;

/// Responses that hints go with.
const HINTED: u8 = 3;

/// Bytes of a probe, and of the shortest response.
const RESPONSE_BYTES: usize = 16;

/// Payload that is at least in a data packet: a transport header. No answer is longer than such a packet.
const MIN_PAYLOAD: usize = 8;

/// What to do with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is for the flow's application.
    Deliver,
    /// Nothing: it is old, or from somebody else.
    Ignore,
    /// Its sender has to begin anew.
    Reset,
}

#[derive(Debug)]
pub(crate) struct Responder {
    /// The sequence number that it began with.
    first: u32,
    /// One that it may have begun anew with.
    candidate: Option<u32>,
    /// The highest number that came.
    highest: u32,
    /// Which of the numbers up to `highest` have come: bit i stands for `highest - i`.
    came: u64,
    last_probe: u32,
    counts: BTreeMap<u32, u32>,
    marked: bool,
    missed: bool,
    hints: Vec<Count>,
    hints_left: u8,
    /// Bytes that its sender has sent beyond what it was told.
    paid: usize,
    /// Packets are numbered; without, nothing is missed.
    sequenced: bool,
    /// When a packet of it last came.
    pub(crate) heard: Time,
}

impl Responder {
    /// For a sender that begins with `first`.
    pub(crate) fn new(now: Time, first: u32, sequenced: bool) -> Self {
        Self {
            first,
            candidate: None,
            highest: first,
            came: u64::MAX,
            last_probe: first,
            counts: BTreeMap::new(),
            marked: false,
            missed: false,
            hints: Vec::new(),
            hints_left: 0,
            paid: 0,
            sequenced,
            heard: now,
        }
    }

    /// Its sender asks whether anybody is here.
    pub(crate) fn on_syn(&mut self, first: u32) -> CmMessage {
        if first != self.first {
            self.candidate = Some(first);
        }
        CmMessage::Header(CmHeader::control(CmKind::SynAck, first))
    }

    /// Whether `number` continues what came, or a new beginning; which is believed then.
    fn accepts(&mut self, now: Time, number: u32, last: u32) -> bool {
        if let Some(first) = self.candidate.filter(|first| number.wrapping_sub(*first).wrapping_sub(1) < FAR) {
            let (hints, hints_left) = (std::mem::take(&mut self.hints), self.hints_left);
            *self = Self { hints, hints_left, ..Self::new(now, first, self.sequenced) };
            return true;
        }
        self.heard = now;
        number.wrapping_sub(last).wrapping_add(FAR) < 2 * FAR
    }

    /// A data packet with `payload` bytes of payload. What to say at once is put into `out`.
    pub(crate) fn on_data(
        &mut self,
        now: Time,
        header: &CmHeader,
        payload: usize,
        marked: bool,
        out: &mut impl FnMut(CmMessage),
    ) -> Verdict {
        if payload < MIN_PAYLOAD {
            return Verdict::Ignore;
        }
        if self.sequenced && !self.accepts(now, header.sequence, self.highest) {
            return Verdict::Reset;
        }
        self.paid += UDP_BYTES + CM_HEADER_BYTES + payload;
        let missed = self.sequenced && self.misses(header.sequence);
        let marked = marked && !self.marked;
        if missed || marked {
            self.speak_up(marked, missed, out);
        }
        if self.counts.len() < MAX_FLOWS || self.counts.contains_key(&header.flow) {
            let count = self.counts.entry(header.flow).or_default();
            *count = count.saturating_add(payload as u32);
        }
        Verdict::Deliver
    }

    /// Takes a number down. True if it shows for the first time that others are missing.
    fn misses(&mut self, number: u32) -> bool {
        let ahead = number.wrapping_sub(self.highest);
        if ahead == 0 || ahead > FAR {
            let behind = self.highest.wrapping_sub(number);
            if behind < 64 {
                self.came |= 1 << behind;
            }
            return false;
        }
        // Whoever comes to be three behind and has not come is missing.
        let mut missing = false;
        for _ in 0..ahead.min(64) {
            self.came <<= 1;
            self.highest = self.highest.wrapping_add(1);
            missing |= self.came & (1 << LATER) == 0;
        }
        self.highest = number;
        self.came |= 1;
        missing || ahead > 64
    }

    /// Says at once that packets are marked or missing; with the next response again.
    fn speak_up(&mut self, marked: bool, missed: bool, out: &mut impl FnMut(CmMessage)) {
        self.marked |= marked;
        self.missed |= missed;
        let (this_probe, last_probe) = (self.last_probe, self.last_probe);
        let word = Response { this_probe, last_probe, marked, missed, flows: 0, counts: Vec::new() };
        self.tell(CmMessage::Response(Box::new(word)), out);
    }

    fn tell(&mut self, message: CmMessage, out: &mut impl FnMut(CmMessage)) {
        self.paid = self.paid.saturating_sub(price(&message));
        out(message);
    }

    /// Whether its sender has paid for this. If so, it is charged for it.
    pub(crate) fn charge(&mut self, message: &CmMessage) -> bool {
        let left = self.paid.checked_sub(price(message));
        self.paid = left.unwrap_or(self.paid);
        left.is_some()
    }

    /// A probe. Responses are put into `out`.
    pub(crate) fn on_probe(&mut self, now: Time, probe: u32, out: &mut impl FnMut(CmMessage)) -> Verdict {
        if !self.accepts(now, probe, self.last_probe) {
            return Verdict::Reset;
        }
        // An old one, or one that came twice: it has been answered, or a later one has.
        if probe.wrapping_sub(self.last_probe).wrapping_sub(1) >= FAR {
            return Verdict::Ignore;
        }
        let (this_probe, last_probe) = (probe, self.last_probe);
        let (marked, missed) = (std::mem::take(&mut self.marked), std::mem::take(&mut self.missed));
        self.paid += UDP_BYTES + RESPONSE_BYTES;
        let counts: Vec<Count> = self.counts.iter().map(|(&flow, &count)| Count { flow, count }).collect();
        let flows = counts.len() as u16;
        let parts: Vec<&[Count]> = if flows == 0 { vec![&[]] } else { counts.chunks(MAX_COUNTS).collect() };
        for part in parts {
            let counts = part.to_vec();
            let response = Response { this_probe, last_probe, marked, missed, flows, counts };
            self.tell(CmMessage::Response(Box::new(response)), out);
        }
        self.counts.clear();
        self.last_probe = probe;
        let hints = CmMessage::Hints { probe, weights: self.hints.as_slice().into() };
        if self.hints_left > 0 && flows > 0 && self.charge(&hints) {
            self.hints_left -= 1;
            out(hints);
        }
        Verdict::Ignore
    }

    /// The receiver would like its flows to have these shares.
    pub(crate) fn hint(&mut self, weights: &[Count]) {
        self.hints.clear();
        self.hints.extend(weights.iter().take(MAX_COUNTS));
        self.hints_left = HINTED;
    }
}

/// What it takes to send `message`.
fn price(message: &CmMessage) -> usize {
    UDP_BYTES + cm_encoded_len(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(sequence: u32) -> CmHeader {
        CmHeader { kind: CmKind::Data, protocol: 17, sequence, flow: 1 }
    }

    /// What a receiver says of data packets with these numbers.
    fn said(responder: &mut Responder, numbers: &[u32]) -> Vec<CmMessage> {
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

    fn responder() -> Responder {
        Responder::new(Time::ZERO, 100, true)
    }

    #[test]
    fn a_packet_is_missing_when_one_three_numbers_higher_has_come() {
        assert_eq!(said(&mut responder(), &[101, 103, 104]), []);
        let word = said(&mut responder(), &[101, 103, 104, 105]);
        assert!(matches!(&word[..], [CmMessage::Response(word)] if word.missed && word.this_probe == word.last_probe));
        assert_eq!(said(&mut responder(), &[101, 103, 104, 102, 105, 106, 107]), [], "it came late");
        assert_eq!(said(&mut responder(), &[104]).len(), 1, "the first three");
        assert_eq!(said(&mut responder(), &[101, 200]).len(), 1);
        let two = said(&mut responder(), &[101, 103, 105, 106, 107, 108]);
        assert_eq!(two.len(), 2, "102, then 104");
    }

    #[test]
    fn a_probe_is_answered_once_with_what_came_since_the_one_before() {
        let mut responder = responder();
        said(&mut responder, &[101, 102]);
        let counts = vec![Count { flow: 1, count: 2000 }];
        let response = Response { this_probe: 101, last_probe: 100, marked: false, missed: false, flows: 1, counts };
        assert_eq!(probe(&mut responder, 101), [CmMessage::Response(Box::new(response))]);
        assert_eq!(probe(&mut responder, 101), [], "a copy");
        let nothing = Response { this_probe: 103, last_probe: 101, ..Response::default() };
        assert_eq!(probe(&mut responder, 103), [CmMessage::Response(Box::new(nothing))], "102 was lost");
        assert_eq!(probe(&mut responder, 102), [], "or late");
    }

    #[test]
    fn marks_are_told_at_once_and_with_the_next_response() {
        let mut responder = responder();
        let mut out = Vec::new();
        for number in 101..104 {
            responder.on_data(Time::ZERO, &data(number), 1000, true, &mut |message| out.push(message));
        }
        assert!(matches!(&out[..], [CmMessage::Response(word)] if word.marked && !word.missed), "once");
        assert!(matches!(&probe(&mut responder, 101)[..], [CmMessage::Response(word)] if word.marked));
        assert!(matches!(&probe(&mut responder, 102)[..], [CmMessage::Response(word)] if !word.marked));
    }

    #[test]
    fn hints_wait_until_their_length_has_been_paid_for() {
        let mut responder = responder();
        responder.hint(&[Count { flow: 1, count: 3 }; 50]);
        let mut said_at = None;
        for number in 101..120 {
            said(&mut responder, &[number]);
            let has_hints = probe(&mut responder, number).iter().any(|said| matches!(said, CmMessage::Hints { .. }));
            said_at = said_at.or(has_hints.then_some(number));
        }
        assert_eq!(said_at, Some(101), "a kilobyte has come with the first packet");
        let small = |responder: &mut Responder, number| {
            responder.on_data(Time::ZERO, &data(number), 8, false, &mut |_| ());
            probe(responder, number).iter().any(|said| matches!(said, CmMessage::Hints { .. }))
        };
        let mut poor = self::responder();
        poor.hint(&[Count { flow: 1, count: 3 }; 50]);
        assert!((101..110).all(|number| !small(&mut poor, number)), "but little with these");
        assert!((110..130).any(|number| small(&mut poor, number)));
    }

    #[test]
    fn more_flows_than_fit_are_told_in_several_responses() {
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
    fn a_sender_that_begins_anew_is_believed_when_its_packets_come() {
        let mut responder = responder();
        said(&mut responder, &[101, 102]);
        responder.on_syn(5_000_000);
        assert!(matches!(&probe(&mut responder, 101)[..], [CmMessage::Response(r)] if r.counts[0].count == 2000));
        let mut ignore = |_| {};
        assert_eq!(responder.on_data(Time::ZERO, &data(5_000_001), 1000, false, &mut ignore), Verdict::Deliver);
        assert!(matches!(&probe(&mut responder, 5_000_001)[..], [CmMessage::Response(r)] if r.counts[0].count == 1000));
        assert_eq!(responder.on_data(Time::ZERO, &data(103), 1000, false, &mut ignore), Verdict::Reset);
    }

    #[test]
    fn hints_go_with_three_responses() {
        let mut responder = responder();
        responder.hint(&[Count { flow: 1, count: 3 }]);
        let hinted = (101..110).filter(|&number| {
            said(&mut responder, &[number]);
            probe(&mut responder, number).iter().any(|message| matches!(message, CmMessage::Hints { .. }))
        });
        assert_eq!(hinted.count(), 3);
    }

    #[test]
    fn no_data_packet_is_answered_with_more_than_it_had() {
        let mut out = Vec::new();
        let mut responder = responder();
        assert_eq!(responder.on_data(Time::ZERO, &data(300), 0, true, &mut |m| out.push(m)), Verdict::Ignore);
        assert_eq!(out, []);
    }
}
