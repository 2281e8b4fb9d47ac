//! The outcome of the packets sent between probes: the sender's side of Figure 8.
//!
//! ```text
//! probe i is sent:                    probe(i) = { now, nsent since probe i-1 }
//! response (this, last, nrecd):       nsent = sum of probe(i).nsent over last < i <= this;  lost = nsent - nrecd
//! ```
//!
//! This is done for each flow. A response may cover later probes than the next one, because the response to earlier
//! ones was lost or is late. The earlier ones are kept until three more responses have arrived; then the outcome of
//! their packets is unknown.
//!
//! *Shortfalls*: packets and probes can overtake each other, so that fewer bytes are counted between two probes than
//! were sent, and more between the next two, or the other way round. With sequence numbers the receiver detects missing
//! packets. Unless it reports some, missing bytes count as lost only if two more responses have not made up for them.
//!
//! A program sends a packet from a socket of its own before it reports that to the manager, so the receiver may count the
//! bytes first. They are kept until the report comes. A duplicate looks the same, and hides the loss of as many bytes from
//! the counts, but not from the numbers of packets.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rampmeter_units::{Bytes, Duration, Time};
use rampmeter_wire::Response;

use super::differences::Differences;
use super::own_names::{OwnNames, is_own_name};
use super::parts::Parts;
use crate::flow::FlowId;

/// Responses after which the packets of an unanswered probe are discarded.
const MAX_SKIPS: u8 = 3;

/// Responses within which missing bytes may still arrive.
const RESPONSES_TO_SETTLE: u8 = 2;

/// Responses within which a program may report a packet that has arrived.
const RESPONSES_TO_REPORT: u8 = 16;

/// While this many probes are unanswered, their interval grows.
const MANY_EPOCHS: usize = 64;

/// The maximum number of unanswered probes. One more would replace the oldest. At the growing intervals so many take
/// longer than the time without a response after which the handshake is repeated.
const MAX_EPOCHS: usize = 192;

/// A flow's name: at the manager, and on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) wire: u32,
    pub(crate) flow: FlowId,
}

/// Bytes of one flow: the payload, which the receiver counts, and the size with all headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) name: Name,
    pub(super) payload: u64,
    pub(super) wire_bytes: u64,
}

/// The packets sent between two probes.
#[derive(Debug)]
struct Epoch {
    number: u32,
    probed_at: Time,
    sent: Vec<Sent>,
    skipped: u8,
}

/// The outcome of some bytes of a flow, headers included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) name: Name,
    pub(crate) received: Bytes,
    pub(crate) lost: Bytes,
    /// Their outcome is unknown.
    pub(crate) unknown: Bytes,
    /// All of them had been sent by this time.
    pub(crate) sent_by: Time,
}

impl Outcome {
    fn of(name: Name, sent_by: Time) -> Self {
        Self { name, received: Bytes::ZERO, lost: Bytes::ZERO, unknown: Bytes::ZERO, sent_by }
    }
}

/// The result of a response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProbeOutcome {
    /// The time from the probe to its response.
    pub(crate) rtt: Duration,
    /// The time of the probe.
    pub(crate) requested_at: Time,
    pub(crate) outcomes: Vec<Outcome>,
    /// Payload bytes sent and received between the probes, over all flows.
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// The sender's accounting.
#[derive(Debug)]
pub(crate) struct Probes {
    next: u32,
    epochs: VecDeque<Epoch>,
    /// The packets sent since the last probe, sorted by name.
    current: Vec<Sent>,
    /// Fewer bytes counted than sent.
    missing: Differences,
    /// More bytes counted than sent.
    early_arrivals: Differences,
    /// Flows whose programs send from sockets of their own, of which the receiver has reported missing packets since
    /// the last response.
    missed: BTreeSet<u32>,
    parts: Parts,
    pub(crate) own_names: OwnNames,
    /// Empty lists for reuse.
    unused: Vec<Vec<Sent>>,
}

impl Probes {
    /// Starts the accounting; the first probe has the number after `first`.
    pub(crate) fn new(first: u32) -> Self {
        Self {
            next: first.wrapping_add(1),
            epochs: VecDeque::new(),
            current: Vec::new(),
            missing: Differences::default(),
            early_arrivals: Differences::default(),
            missed: BTreeSet::new(),
            parts: Parts::default(),
            own_names: OwnNames::default(),
            unused: Vec::new(),
        }
    }

    /// A packet leaves.
    pub(crate) fn send(&mut self, name: Name, payload: u64, wire_bytes: u64) {
        add(&mut self.current, Sent { name, payload, wire_bytes });
    }

    /// Whether packets were sent after the last probe.
    pub(crate) fn has_unprobed(&self) -> bool {
        !self.current.is_empty()
    }

    /// The time of the oldest unanswered probe.
    pub(crate) fn unanswered_since(&self) -> Option<Time> {
        let is_unanswered = |epoch: &&Epoch| !self.has_part(epoch.number);
        self.epochs.iter().find(is_unanswered).map(|epoch| epoch.probed_at)
    }

    /// The time of the oldest unanswered probe, if there are many: the round trip may be that long.
    pub(crate) fn many_unanswered_since(&self) -> Option<Time> {
        self.epochs.front().filter(|_| self.epochs.len() >= MANY_EPOCHS).map(|epoch| epoch.probed_at)
    }

    /// Whether the outcome of anything that was sent is open.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.epochs.is_empty() || !self.missing.is_empty()
    }

    /// Sends a probe. Returns its number, and the outcomes of the packets discarded for it.
    pub(crate) fn probe(&mut self, now: Time) -> (u32, Vec<Outcome>) {
        let oldest = if self.epochs.len() == MAX_EPOCHS { self.epochs.pop_front() } else { None };
        let discarded = oldest.map(|epoch| self.discard(epoch)).unwrap_or_default();
        let (number, list) = (self.next, self.unused.pop().unwrap_or_default());
        let sent = std::mem::replace(&mut self.current, list);
        self.next = number.wrapping_add(1);
        self.epochs.push_back(Epoch { number, probed_at: now, sent, skipped: 0 });
        (number, discarded)
    }

    pub(crate) fn is_recent(&self, number: u32) -> bool {
        self.next.wrapping_sub(number).wrapping_sub(1) < MAX_EPOCHS as u32
    }

    /// Whether a part of the response to this probe, or to a later one, has arrived.
    pub(crate) fn has_part(&self, probe: u32) -> bool {
        self.parts.answers(probe)
    }

    /// Adds a part of a response to the others. Returns the responses that count now, each with the time of its last
    /// part; none if the part does not answer a recent probe.
    pub(crate) fn collect(&mut self, now: Time, part: &Response) -> Option<Vec<(Time, Response)>> {
        let is_known = self.epochs.iter().any(|epoch| epoch.number == part.this_probe);
        is_known.then(|| self.parts.add(now, part))
    }

    /// Handles a response; none if it does not answer a recent probe. `sequenced`: this host numbers its packets,
    /// as programs do theirs, and the receiver reports whether any are missing.
    pub(crate) fn on_response(&mut self, now: Time, response: &Response, sequenced: bool) -> Option<ProbeOutcome> {
        let index = self.epochs.iter().position(|epoch| epoch.number == response.this_probe)?;
        let (rtt, this) = (now.since(self.epochs[index].probed_at), self.epochs[index].probed_at);
        let covers = |number: u32| number.wrapping_sub(response.last_probe).wrapping_sub(1) < 1 << 31;
        let mut sent: Vec<Sent> = Vec::new();
        let mut outcomes = Vec::new();
        let mut index = index + 1;
        while index > 0 {
            index -= 1;
            if covers(self.epochs[index].number) {
                let Some(epoch) = self.epochs.remove(index) else { continue };
                epoch.sent.iter().for_each(|more| add(&mut sent, *more));
                self.recycle(epoch.sent);
                continue;
            }
            self.epochs[index].skipped += 1;
            if self.epochs[index].skipped >= MAX_SKIPS {
                let epoch = self.epochs.remove(index);
                outcomes.extend(epoch.map(|epoch| self.discard(epoch)).unwrap_or_default());
            }
        }
        let is_complete = usize::from(response.flows) <= response.counts.len();
        let counts: BTreeMap<u32, u64> = response.counts.iter().map(|count| (count.flow, count.count.into())).collect();
        let (mut sum_sent, mut sum_received) = (0, 0);
        // Flows that have sent nothing since: late arrivals, or packets that a program has not reported yet.
        for (&wire, &count) in &counts {
            if sent.binary_search_by_key(&wire, |flow| flow.name.wire).is_ok() {
                continue;
            }
            sum_received += count;
            let mut late = 0;
            if let Some(name) = self.missing.name(wire) {
                let taken = self.missing.take(name, count);
                late = taken.0;
                outcomes.push(Outcome { received: Bytes::new(taken.1), ..Outcome::of(name, this) });
            }
            if let Some(flow) = self.own_names.flow(wire) {
                let sent = Sent { name: Name { wire, flow }, payload: count - late, wire_bytes: 0 };
                self.early_arrivals.add(sent, this);
            }
        }
        for flow in sent {
            let mut outcome = Outcome::of(flow.name, this);
            let Some(count) = counts.get(&flow.name.wire).copied().or(is_complete.then_some(0)) else {
                outcome.unknown = Bytes::new(flow.wire_bytes);
                outcomes.push(outcome);
                continue;
            };
            (sum_sent, sum_received) = (sum_sent + flow.payload, sum_received + count);
            // A program reports its packets in order, so these are first of all those that were counted before. Bytes
            // that it has not reported yet are then among those counted now, however long it has been behind.
            let is_own = is_own_name(flow.name.wire);
            let early = if is_own { self.early_arrivals.take(flow.name, flow.payload).0 } else { 0 };
            let count = count + early;
            let mut left = flow;
            outcome.received = Bytes::new(left.take(count));
            if !(sequenced || is_own) {
                outcome.lost = Bytes::new(left.wire_bytes);
            } else if count > flow.payload {
                let surplus = count - flow.payload;
                let (late, wire_bytes) = self.missing.take(flow.name, surplus);
                outcome.received += Bytes::new(wire_bytes);
                self.early_arrivals.add(Sent { payload: surplus - late, wire_bytes: 0, ..flow }, this);
            } else if left.payload > 0 {
                let (early, _) = self.early_arrivals.take(flow.name, left.payload);
                outcome.received += Bytes::new(left.take(early));
                self.missing.add(left, this);
            }
            outcomes.push(outcome);
        }
        self.settle_missing(response.missed, &mut outcomes);
        Some(ProbeOutcome { rtt, requested_at: this, outcomes, sent: sum_sent, received: sum_received })
    }

    /// The receiver reports missing packets of the flow with this name, whose program sends from a socket of its own.
    pub(crate) fn on_missed(&mut self, name: u32) {
        self.missed.insert(name);
    }

    /// Counts missing bytes as lost if the receiver reports a loss, or if they are too old. Packets of programs' sockets
    /// have numbers of their own, so `missed` does not concern them.
    fn settle_missing(&mut self, missed: bool, outcomes: &mut Vec<Outcome>) {
        let own_missed = std::mem::take(&mut self.missed);
        self.missing.retain(|missing| {
            let name = missing.sent.name;
            let missed = if is_own_name(name.wire) { own_missed.contains(&name.wire) } else { missed };
            let is_lost = missed || missing.age > RESPONSES_TO_SETTLE;
            if is_lost {
                let lost = Bytes::new(missing.sent.wire_bytes);
                outcomes.push(Outcome { lost, ..Outcome::of(name, missing.sent_by) });
            }
            !is_lost
        });
        let max_age = |name: Name| if is_own_name(name.wire) { RESPONSES_TO_REPORT } else { RESPONSES_TO_SETTLE };
        self.early_arrivals.retain(|early| early.age <= max_age(early.sent.name));
    }

    /// Ends the accounting: the outcome of everything in flight is unknown.
    pub(crate) fn end(mut self) -> Vec<Outcome> {
        let mut outcomes = if self.has_unprobed() { self.probe(Time::ZERO).1 } else { Vec::new() };
        while let Some(epoch) = self.epochs.pop_front() {
            outcomes.extend(self.discard(epoch));
        }
        let missing = self.missing.iter();
        outcomes.extend(
            missing.map(|s| Outcome { unknown: Bytes::new(s.sent.wire_bytes), ..Outcome::of(s.sent.name, s.sent_by) }),
        );
        outcomes
    }

    fn discard(&mut self, epoch: Epoch) -> Vec<Outcome> {
        let unknown =
            |sent: &Sent| Outcome { unknown: Bytes::new(sent.wire_bytes), ..Outcome::of(sent.name, epoch.probed_at) };
        let outcomes = epoch.sent.iter().map(unknown).collect();
        self.recycle(epoch.sent);
        outcomes
    }

    fn recycle(&mut self, mut list: Vec<Sent>) {
        list.clear();
        self.unused.push(list);
    }
}

impl Sent {
    /// Removes up to `payload` payload bytes. Returns their size with headers.
    pub(super) fn take(&mut self, payload: u64) -> u64 {
        let payload = payload.min(self.payload);
        let part = u128::from(self.wire_bytes) * u128::from(payload);
        let wire_bytes = part.checked_div(self.payload.into()).unwrap_or_default() as u64;
        self.payload -= payload;
        self.wire_bytes -= wire_bytes;
        wire_bytes
    }
}

fn add(list: &mut Vec<Sent>, more: Sent) {
    match list.binary_search_by_key(&more.name, |sent| sent.name) {
        Ok(index) => {
            list[index].payload += more.payload;
            list[index].wire_bytes += more.wire_bytes;
        }
        Err(index) => list.insert(index, more),
    }
}

#[cfg(test)]
mod tests;
