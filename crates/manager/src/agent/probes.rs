//! What became of what was sent between probes: the sender's side of Figure 8.
//!
//! ```text
//! probe i is sent:                    probe(i) = { now, nsent since probe i-1 }
//! response (this, last, nrecd):       nsent = sum of probe(i).nsent over last < i <= this;  lost = nsent - nrecd
//! ```
//!
//! All of it for each flow. A response that covers later probes than the next one leaves earlier ones over, because what
//! answered them was lost or is late: they are kept until three more responses have come, and then nobody knows what
//! became of them.
//!
//! *Shortfalls*: packets and probes can overtake each other, so that fewer bytes are counted between two probes than were
//! sent, and more between the next two, or the other way round. With sequence numbers the receiver knows whether it misses
//! anything. Unless it says so, what is short is not given up for lost before two more responses have not made up for it.
//!
//! *Limit*: of a response in several parts, to a probe about more flows than fit into one packet, the first part to come
//! counts. Of the flows in the others nobody knows what became of them between these two probes.

use std::collections::VecDeque;

use rampmeter_units::{Bytes, Duration, Time};
use rampmeter_wire::Response;

use crate::flow::FlowId;

/// Responses after which what an earlier one should have covered is given up.
const PATIENCE: u8 = 3;

/// Responses that have to make up for what is short.
const MAKE_UP: u8 = 2;

/// Probes that may be unanswered. More are only sent in place of the oldest.
const MAX_EPOCHS: usize = 64;

/// A flow's name: here, and on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) wire: u32,
    pub(crate) flow: FlowId,
}

/// Bytes of one flow: of its payload, which is what the receiver counts, and with all headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sent {
    name: Name,
    payload: u64,
    whole: u64,
}

/// Between two probes.
#[derive(Debug)]
struct Epoch {
    number: u32,
    closed_at: Time,
    sent: Vec<Sent>,
    passed_over: u8,
}

/// Less of a flow was counted than was sent, or more.
#[derive(Debug)]
struct Difference {
    sent: Sent,
    sent_by: Time,
    age: u8,
}

/// What became of some bytes of a flow, headers included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) name: Name,
    pub(crate) received: Bytes,
    pub(crate) lost: Bytes,
    /// Nobody knows.
    pub(crate) unknown: Bytes,
    /// They had been sent by then.
    pub(crate) sent_by: Time,
}

impl Fate {
    fn of(name: Name, sent_by: Time) -> Self {
        Self { name, received: Bytes::ZERO, lost: Bytes::ZERO, unknown: Bytes::ZERO, sent_by }
    }
}

/// What a response tells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// From the probe to its response.
    pub(crate) rtt: Duration,
    /// When the probe was sent.
    pub(crate) asked_at: Time,
    pub(crate) fates: Vec<Fate>,
    /// Payload bytes sent and received between the probes, over all flows.
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// The sender's books.
#[derive(Debug)]
pub(crate) struct Probes {
    next: u32,
    epochs: VecDeque<Epoch>,
    /// Since the last probe; sorted by name.
    current: Vec<Sent>,
    short: Vec<Difference>,
    /// More was counted than was sent.
    early: Vec<Difference>,
    /// Emptied lists to fill again.
    spare: Vec<Vec<Sent>>,
}

impl Probes {
    /// Books whose first probe has the number after `first`.
    pub(crate) fn new(first: u32) -> Self {
        Self {
            next: first.wrapping_add(1),
            epochs: VecDeque::new(),
            current: Vec::new(),
            short: Vec::new(),
            early: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// A packet leaves.
    pub(crate) fn send(&mut self, name: Name, payload: u64, whole: u64) {
        add(&mut self.current, Sent { name, payload, whole });
    }

    /// Something was sent that no probe has asked about.
    pub(crate) fn has_news(&self) -> bool {
        !self.current.is_empty()
    }

    /// When the oldest probe was sent that has not been answered.
    pub(crate) fn unanswered_since(&self) -> Option<Time> {
        self.epochs.front().map(|epoch| epoch.closed_at)
    }

    /// Whether anything that was sent has an unknown fate.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.epochs.is_empty() || !self.short.is_empty()
    }

    /// Sends a probe: its number, and what is given up for it.
    pub(crate) fn probe(&mut self, now: Time) -> (u32, Vec<Fate>) {
        let oldest = if self.epochs.len() == MAX_EPOCHS { self.epochs.pop_front() } else { None };
        let forgotten = oldest.map(|epoch| self.forget(epoch)).unwrap_or_default();
        let (number, spare) = (self.next, self.spare.pop().unwrap_or_default());
        let sent = std::mem::replace(&mut self.current, spare);
        self.next = number.wrapping_add(1);
        self.epochs.push_back(Epoch { number, closed_at: now, sent, passed_over: 0 });
        (number, forgotten)
    }

    /// Whether `number` is that of a probe among the last few.
    pub(crate) fn is_recent(&self, number: u32) -> bool {
        self.next.wrapping_sub(number).wrapping_sub(1) < MAX_EPOCHS as u32
    }

    /// Takes a response in; none if it answers nothing that was asked. `sequenced`: the receiver numbers packets and says
    /// whether it misses any.
    pub(crate) fn answer(&mut self, now: Time, response: &Response, sequenced: bool) -> Option<Answer> {
        let place = self.epochs.iter().position(|epoch| epoch.number == response.this_probe)?;
        let (rtt, this) = (now.since(self.epochs[place].closed_at), self.epochs[place].closed_at);
        let covers = |number: u32| number.wrapping_sub(response.last_probe).wrapping_sub(1) < 1 << 31;
        let mut sent: Vec<Sent> = Vec::new();
        let mut fates = Vec::new();
        let mut place = place + 1;
        while place > 0 {
            place -= 1;
            if covers(self.epochs[place].number) {
                let Some(epoch) = self.epochs.remove(place) else { continue };
                epoch.sent.iter().for_each(|more| add(&mut sent, *more));
                self.keep(epoch.sent);
                continue;
            }
            self.epochs[place].passed_over += 1;
            if self.epochs[place].passed_over >= PATIENCE {
                let epoch = self.epochs.remove(place);
                fates.extend(epoch.map(|epoch| self.forget(epoch)).unwrap_or_default());
            }
        }
        let all_told = usize::from(response.flows) <= response.counts.len();
        let (mut sum_sent, mut sum_received) = (0, 0);
        // What comes late of flows that have sent nothing since.
        for count in &response.counts {
            if sent.iter().any(|flow| flow.name.wire == count.flow) {
                continue;
            }
            sum_received += u64::from(count.count);
            let Some(name) = self.short.iter().map(|short| short.sent.name).find(|name| name.wire == count.flow) else {
                continue;
            };
            let (_, whole) = take(&mut self.short, name, count.count.into());
            fates.push(Fate { received: Bytes::new(whole), ..Fate::of(name, this) });
        }
        for flow in sent {
            let counted = response.counts.iter().find(|count| count.flow == flow.name.wire);
            let mut fate = Fate::of(flow.name, this);
            let Some(count) = counted.map(|count| u64::from(count.count)).or(all_told.then_some(0)) else {
                fate.unknown = Bytes::new(flow.whole);
                fates.push(fate);
                continue;
            };
            (sum_sent, sum_received) = (sum_sent + flow.payload, sum_received + count);
            let mut left = flow;
            fate.received = Bytes::new(left.take(count));
            if !sequenced {
                fate.lost = Bytes::new(left.whole);
            } else if count > flow.payload {
                let surplus = count - flow.payload;
                let (late, whole) = take(&mut self.short, flow.name, surplus);
                fate.received += Bytes::new(whole);
                let sent = Sent { payload: surplus - late, whole: 0, ..flow };
                self.early.push(Difference { sent, sent_by: this, age: 0 });
            } else if left.payload > 0 {
                let (early, _) = take(&mut self.early, flow.name, left.payload);
                fate.received += Bytes::new(left.take(early));
                self.short.push(Difference { sent: left, sent_by: this, age: 0 });
            }
            fates.push(fate);
        }
        self.settle(response.missed, &mut fates);
        Some(Answer { rtt, asked_at: this, fates, sent: sum_sent, received: sum_received })
    }

    /// Gives up what is short and was `missed`, or has been for too long.
    fn settle(&mut self, missed: bool, fates: &mut Vec<Fate>) {
        self.short.retain_mut(|short| {
            if short.sent.payload == 0 {
                return false;
            }
            short.age += 1;
            if missed || short.age > MAKE_UP {
                let lost = Bytes::new(short.sent.whole);
                fates.push(Fate { lost, ..Fate::of(short.sent.name, short.sent_by) });
                return false;
            }
            true
        });
        self.early.retain_mut(|early| {
            early.age += 1;
            early.sent.payload > 0 && early.age <= MAKE_UP
        });
    }

    /// Ends the books: all that is on its way has an unknown fate.
    pub(crate) fn end(mut self) -> Vec<Fate> {
        let mut fates = if self.has_news() { self.probe(Time::ZERO).1 } else { Vec::new() };
        while let Some(epoch) = self.epochs.pop_front() {
            fates.extend(self.forget(epoch));
        }
        let short = self.short.iter();
        fates.extend(short.map(|s| Fate { unknown: Bytes::new(s.sent.whole), ..Fate::of(s.sent.name, s.sent_by) }));
        fates
    }

    fn forget(&mut self, epoch: Epoch) -> Vec<Fate> {
        let unknown = |sent: &Sent| Fate { unknown: Bytes::new(sent.whole), ..Fate::of(sent.name, epoch.closed_at) };
        let fates = epoch.sent.iter().map(unknown).collect();
        self.keep(epoch.sent);
        fates
    }

    fn keep(&mut self, mut list: Vec<Sent>) {
        list.clear();
        self.spare.push(list);
    }
}

impl Sent {
    /// Takes up to `payload` payload bytes out of it: how many that is with headers.
    fn take(&mut self, payload: u64) -> u64 {
        let payload = payload.min(self.payload);
        let whole = (self.whole * payload).checked_div(self.payload).unwrap_or_default();
        self.payload -= payload;
        self.whole -= whole;
        whole
    }
}

/// Takes up to `payload` payload bytes of `name` out of what differed: how many, and how many that is with headers.
fn take(differences: &mut [Difference], name: Name, payload: u64) -> (u64, u64) {
    let (mut left, mut whole) = (payload, 0);
    for difference in differences.iter_mut().filter(|difference| difference.sent.name == name) {
        let before = difference.sent.payload;
        whole += difference.sent.take(left);
        left -= before - difference.sent.payload;
    }
    (payload - left, whole)
}

fn add(list: &mut Vec<Sent>, more: Sent) {
    match list.binary_search_by_key(&more.name, |sent| sent.name) {
        Ok(place) => {
            list[place].payload += more.payload;
            list[place].whole += more.whole;
        }
        Err(place) => list.insert(place, more),
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_wire::Count;

    use super::*;

    const PAYLOAD: u64 = 1000;
    const WHOLE: u64 = 1040;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn name(n: u32) -> Name {
        Name { wire: n, flow: FlowId(n) }
    }

    fn send(probes: &mut Probes, flow: u32, packets: u64) {
        (0..packets).for_each(|_| probes.send(name(flow), PAYLOAD, WHOLE));
    }

    fn response(last_probe: u32, this_probe: u32, packets: &[(u32, u64)]) -> Response {
        let count = |&(flow, n): &(u32, u64)| Count { flow, count: (n * PAYLOAD) as u32 };
        let counts: Vec<Count> = packets.iter().map(count).collect();
        Response { this_probe, last_probe, marked: false, missed: false, flows: counts.len() as u16, counts }
    }

    fn packets(fates: &[Fate]) -> Vec<(u32, u64, u64, u64)> {
        let n = |bytes: Bytes| bytes.as_u64() / WHOLE;
        fates.iter().map(|f| (f.name.wire, n(f.received), n(f.lost), n(f.unknown))).collect()
    }

    #[test]
    fn each_flow_is_told_what_was_sent_and_counted() {
        let mut probes = Probes::new(7);
        send(&mut probes, 1, 4);
        send(&mut probes, 2, 3);
        assert_eq!(probes.probe(at(0)), (8, Vec::new()));
        let missed = Response { missed: true, ..response(7, 8, &[(1, 4), (2, 1)]) };
        let answer = probes.answer(at(50), &missed, true).unwrap();
        assert_eq!(answer.rtt, Duration::from_millis(50));
        assert_eq!(packets(&answer.fates), [(1, 4, 0, 0), (2, 1, 0, 0), (2, 0, 2, 0)]);
        assert!(!probes.is_waiting());
        assert_eq!(probes.answer(at(60), &missed, true), None, "a response that comes twice");
    }

    #[test]
    fn a_lost_probe_costs_nothing_a_lost_response_leaves_a_gap() {
        let mut probes = Probes::new(0);
        for _ in 0..3 {
            send(&mut probes, 1, 2);
            probes.probe(at(0));
        }
        // Probe 1 was lost: the response to probe 2 covers both.
        assert_eq!(packets(&probes.answer(at(9), &response(0, 2, &[(1, 4)]), true).unwrap().fates), [(1, 4, 0, 0)]);
        // The response to probe 3 was lost: that to probe 4 doesn't cover it.
        let mut seen = Vec::new();
        for probe in 4..=6 {
            send(&mut probes, 1, 1);
            probes.probe(at(0));
            seen.extend(packets(&probes.answer(at(9), &response(probe - 1, probe, &[(1, 1)]), true).unwrap().fates));
        }
        assert_eq!(seen, [(1, 1, 0, 0), (1, 1, 0, 0), (1, 0, 0, 2), (1, 1, 0, 0)]);
    }

    #[test]
    fn responses_may_overtake_each_other() {
        let mut probes = Probes::new(0);
        send(&mut probes, 1, 2);
        probes.probe(at(0));
        send(&mut probes, 1, 3);
        probes.probe(at(5));
        assert_eq!(packets(&probes.answer(at(9), &response(1, 2, &[(1, 3)]), true).unwrap().fates), [(1, 3, 0, 0)]);
        assert_eq!(packets(&probes.answer(at(9), &response(0, 1, &[(1, 2)]), true).unwrap().fates), [(1, 2, 0, 0)]);
    }

    #[test]
    fn what_comes_after_its_probe_is_not_lost() {
        let mut probes = Probes::new(0);
        let mut round = |probe: u32, sent, counted: u64| {
            send(&mut probes, 1, sent);
            probes.probe(at(0));
            packets(&probes.answer(at(9), &response(probe - 1, probe, &[(1, counted)]), true).unwrap().fates)
        };
        assert_eq!(round(1, 4, 3), [(1, 3, 0, 0)]);
        assert_eq!(round(2, 4, 5), [(1, 5, 0, 0)], "it comes late");
        assert_eq!(round(3, 4, 2), [(1, 2, 0, 0)]);
        assert_eq!(round(4, 1, 1), [(1, 1, 0, 0)]);
        assert_eq!(round(5, 1, 1), [(1, 1, 0, 0), (1, 0, 2, 0)], "it never comes");
    }

    #[test]
    fn what_comes_late_of_a_flow_that_sends_no_more_is_not_lost() {
        let mut probes = Probes::new(0);
        send(&mut probes, 1, 4);
        probes.probe(at(0));
        assert_eq!(packets(&probes.answer(at(9), &response(0, 1, &[(1, 3)]), true).unwrap().fates), [(1, 3, 0, 0)]);
        probes.probe(at(9));
        assert_eq!(packets(&probes.answer(at(19), &response(1, 2, &[(1, 1)]), true).unwrap().fates), [(1, 1, 0, 0)]);
        assert!(!probes.is_waiting());
    }

    #[test]
    fn what_comes_before_its_probe_is_not_lost_either() {
        let mut probes = Probes::new(0);
        let mut round = |probe: u32, sent, counted: u64| {
            send(&mut probes, 1, sent);
            probes.probe(at(0));
            packets(&probes.answer(at(9), &response(probe - 1, probe, &[(1, counted)]), true).unwrap().fates)
        };
        assert_eq!(round(1, 4, 5), [(1, 4, 0, 0)]);
        assert_eq!(round(2, 4, 3), [(1, 4, 0, 0)]);
        assert_eq!(round(3, 4, 4), [(1, 4, 0, 0)]);
    }

    #[test]
    fn a_flow_of_which_a_partial_response_does_not_speak_is_not_judged() {
        let mut probes = Probes::new(0);
        send(&mut probes, 1, 1);
        send(&mut probes, 2, 1);
        probes.probe(at(0));
        let partial = Response { flows: 2, ..response(0, 1, &[(1, 1)]) };
        assert_eq!(packets(&probes.answer(at(9), &partial, true).unwrap().fates), [(1, 1, 0, 0), (2, 0, 0, 1)]);
    }

    #[test]
    fn books_do_not_grow_and_end_with_nothing_left_out() {
        let mut probes = Probes::new(u32::MAX - 10);
        let mut unknown = 0;
        for _ in 0..100 {
            send(&mut probes, 1, 1);
            unknown += probes.probe(at(0)).1.len();
        }
        assert_eq!(unknown, 100 - MAX_EPOCHS);
        send(&mut probes, 1, 1);
        assert_eq!(probes.end().len(), MAX_EPOCHS + 1, "one more was sent since the last probe");
    }
}
