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
mod tests;
