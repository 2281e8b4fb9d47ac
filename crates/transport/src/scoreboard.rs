//! What has been sent and not cumulatively acknowledged, segment by segment, and which of it is lost.
//!
//! A segment keeps its place in the stream and the number of its latest transmission. It is *in flight* from a
//! transmission until that transmission is known to have arrived or to be lost. Losses are found in two ways:
//!
//! * by *place* (RFC 6675 section 4, `IsLost`): three segments above it have been selectively acknowledged. Since the
//!   segments that this makes lost are always all unacknowledged ones below some point, a *frontier* that only moves up
//!   finds them in constant time per segment: everything below it has been judged.
//! * by *order*, for retransmissions, which the rule by place can't judge a second time: three packets that this
//!   connection sent later have arrived. Optional.

use std::collections::VecDeque;

use rampmeter_control::Arrival;
use rampmeter_units::{Bytes, Time};
use rampmeter_wire::{List, MAX_RECEIPTS, Receipt};

use crate::range_set::RangeSet;

/// `DupThresh` (RFC 6675 section 2).
pub(crate) const DUP_THRESHOLD: u64 = 3;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    /// First byte, counted from the start of the stream.
    pub(crate) start: u64,
    /// Sequence numbers it takes up: payload and, at the end of the stream, one for its end.
    pub(crate) len: u32,
    /// Size on the wire of its latest transmission.
    pub(crate) bytes: u32,
    /// Number of its latest transmission, counted over the macroflow.
    pub(crate) number: u64,
    /// The same, counted over this connection.
    pub(crate) order: u64,
    pub(crate) sent_at: Time,
    pub(crate) fin: bool,
    in_flight: bool,
    sacked: bool,
    lost: bool,
    retransmitted: bool,
}

impl Segment {
    pub(crate) fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }
}

/// What one packet's worth of feedback changed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Change {
    /// Bytes no longer in flight because they arrived.
    pub(crate) acked: Bytes,
    /// Bytes newly known to have arrived.
    pub(crate) delivered: Bytes,
    /// Bytes no longer in flight because they are lost.
    pub(crate) lost: Bytes,
    /// Highest number among the lost packets.
    pub(crate) lost_number: Option<u64>,
    /// The packets that receipts speak of.
    pub(crate) arrivals: List<Arrival, MAX_RECEIPTS>,
}

#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    segments: VecDeque<Segment>,
    /// Segments cumulatively acknowledged so far: the index of `segments[0]` among all.
    base: u64,
    /// Index of the first segment not yet judged by place.
    frontier: u64,
    /// Selectively acknowledged segments at or above the frontier.
    sacked_above: u64,
    sacked: RangeSet,
    /// Starts of lost segments, in the order of their repair.
    to_repair: VecDeque<u64>,
    /// Retransmissions by order, with the segment's start.
    retransmissions: VecDeque<(u64, u64)>,
    next_order: u64,
    /// Highest order known to have arrived, plus one.
    arrived_order: u64,
    /// Without SACK: index of the next segment to count as delivered for a duplicate acknowledgement.
    credited: u64,
    in_flight: Bytes,
}

impl Scoreboard {
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub(crate) fn in_flight(&self) -> Bytes {
        self.in_flight
    }

    /// Bytes sent and not cumulatively acknowledged (RFC 5681, `FlightSize`).
    pub(crate) fn flight_size(&self, una: u64, next: u64) -> Bytes {
        let packets = self.segments.len() as u64;
        // Headers of the packets these bytes went in.
        let headers = self.segments.front().map_or(0, |s| u64::from(s.bytes).saturating_sub(u64::from(s.len)));
        Bytes::new(next - una + packets * headers)
    }

    /// A segment of new data leaves.
    pub(crate) fn push(&mut self, start: u64, len: u32, fin: bool, bytes: u32, number: u64, now: Time) {
        self.in_flight += Bytes::new(bytes.into());
        self.segments.push_back(Segment {
            start,
            len,
            bytes,
            number,
            order: self.next_order,
            sent_at: now,
            fin,
            in_flight: true,
            sacked: false,
            lost: false,
            retransmitted: false,
        });
        self.next_order += 1;
    }

    /// The next segment to repair.
    pub(crate) fn next_repair(&mut self) -> Option<Segment> {
        while let Some(&start) = self.to_repair.front() {
            let segment = self.find(start).map(|index| self.segments[index]);
            match segment {
                Some(segment) if segment.lost && !segment.sacked => return Some(segment),
                _ => self.to_repair.pop_front(),
            };
        }
        None
    }

    pub(crate) fn has_repairs(&mut self) -> bool {
        !self.to_repair.is_empty() && self.next_repair().is_some()
    }

    /// The segment that [`Scoreboard::next_repair`] gave leaves again, at most `len` of it: what is longer becomes a
    /// segment of its own, still to be repaired.
    pub(crate) fn repaired(&mut self, start: u64, len: u32, bytes: u32, number: u64, now: Time) {
        let Some(index) = self.find(start) else { return };
        self.to_repair.pop_front();
        if len < self.segments[index].len {
            let whole = self.segments[index];
            let rest = Segment { start: start + u64::from(len), len: whole.len - len, ..whole };
            self.segments[index].len = len;
            self.segments[index].fin = false;
            self.segments.insert(index + 1, rest);
            let absolute = self.base + index as u64 + 1;
            self.frontier += u64::from(absolute <= self.frontier);
            self.credited += u64::from(absolute <= self.credited);
            self.to_repair.push_front(rest.start);
        }
        let segment = &mut self.segments[index];
        (segment.bytes, segment.number, segment.sent_at, segment.order) = (bytes, number, now, self.next_order);
        (segment.in_flight, segment.lost, segment.retransmitted) = (true, false, true);
        self.in_flight += Bytes::new(bytes.into());
        self.retransmissions.push_back((self.next_order, start));
        self.next_order += 1;
    }

    /// Everything before `una` has arrived.
    pub(crate) fn on_cumulative(&mut self, una: u64, receipts: &[Receipt], change: &mut Change) {
        while let Some(front) = self.segments.front_mut() {
            if front.end() > una {
                if front.start < una {
                    front.len = (front.end() - una) as u32;
                    front.start = una;
                }
                break;
            }
            let Some(segment) = self.segments.pop_front() else { break };
            if self.base < self.frontier {
                // Judged already.
            } else {
                self.sacked_above -= u64::from(segment.sacked);
                self.frontier = self.base + 1;
            }
            self.base += 1;
            self.arrived(&segment, receipts, change);
        }
        self.credited = self.credited.max(self.base);
        self.sacked.remove_below(una);
        trim(&mut self.segments);
    }

    /// The receiver holds `start..end`.
    pub(crate) fn on_sack(&mut self, start: u64, end: u64, receipts: &[Receipt], change: &mut Change) {
        let mut fresh: List<(u64, u64), 8> = List::default();
        self.sacked.insert(start, end, |s, e| {
            fresh.push((s, e));
        });
        for &(start, end) in fresh.iter() {
            let mut index = self.segments.partition_point(|s| s.end() <= start);
            // A segment counts once all of it is held; its parts may have come in different packets.
            while let Some(segment) = self.segments.get(index).copied().filter(|s| s.start < end) {
                let held = self.sacked.containing(segment.start).is_some_and(|(_, held)| held >= segment.end());
                if held && !segment.sacked {
                    self.arrived(&segment, receipts, change);
                    self.segments[index].sacked = true;
                    self.segments[index].in_flight = false;
                    self.sacked_above += u64::from(self.base + index as u64 >= self.frontier);
                }
                index += 1;
            }
        }
    }

    /// Takes note of a segment that has arrived, if that is news.
    fn arrived(&mut self, segment: &Segment, receipts: &[Receipt], change: &mut Change) {
        let bytes = Bytes::new(segment.bytes.into());
        if segment.in_flight {
            change.acked += bytes;
            self.in_flight -= bytes;
        }
        if segment.sacked {
            return;
        }
        change.delivered += bytes;
        let receipt = receipts.iter().find(|r| r.number == segment.number as u32);
        if let Some(receipt) = receipt {
            change.arrivals.push(Arrival {
                number: segment.number,
                bytes,
                sent_at: segment.sent_at,
                received_at: receipt.received_at,
                ecn: receipt.ecn,
            });
        }
        // Without a receipt nobody knows which transmission of a retransmitted segment arrived.
        if receipt.is_some() || !segment.retransmitted {
            self.arrived_order = self.arrived_order.max(segment.order + 1);
        }
    }

    /// Finds losses by place, and by order if asked.
    pub(crate) fn detect_losses(&mut self, lost_retransmissions: bool, change: &mut Change) {
        while self.sacked_above >= DUP_THRESHOLD {
            let index = (self.frontier - self.base) as usize;
            let Some(segment) = self.segments.get(index) else { break };
            if segment.sacked {
                self.sacked_above -= 1;
            } else if !segment.lost && !segment.retransmitted {
                self.lose(index, change);
            }
            self.frontier += 1;
        }
        if !lost_retransmissions {
            self.retransmissions.clear();
        }
        while let Some(&(order, start)) = self.retransmissions.front() {
            if order + DUP_THRESHOLD >= self.arrived_order {
                break;
            }
            self.retransmissions.pop_front();
            if let Some(index) = self.find(start) {
                let segment = &self.segments[index];
                if segment.order == order && segment.in_flight {
                    self.lose(index, change);
                }
            }
        }
    }

    /// The first unacknowledged segment is lost (duplicate or partial acknowledgements, without SACK).
    pub(crate) fn lose_first(&mut self, change: &mut Change) {
        if self.segments.front().is_some_and(|first| !first.lost && !first.sacked) {
            self.lose(0, change);
        }
    }

    /// A duplicate acknowledgement without SACK: one packet, nobody knows which, has arrived. The first segment is the one
    /// that is missing; the next one not yet counted stands in for it (the inflation of RFC 5681 section 3.2, step 4).
    pub(crate) fn credit_one(&mut self, change: &mut Change) {
        self.credited = self.credited.max(self.base + 1);
        while let Some(segment) = self.segments.get_mut((self.credited - self.base) as usize) {
            self.credited += 1;
            if std::mem::replace(&mut segment.in_flight, false) {
                let bytes = Bytes::new(segment.bytes.into());
                self.in_flight -= bytes;
                change.acked += bytes;
                return;
            }
        }
    }

    /// The timer has run out: whatever is not known to have arrived is lost.
    pub(crate) fn lose_all(&mut self, change: &mut Change) {
        self.to_repair.clear();
        self.retransmissions.clear();
        for index in 0..self.segments.len() {
            let segment = &mut self.segments[index];
            if segment.sacked {
                continue;
            }
            change.lost_number = change.lost_number.max(Some(segment.number));
            if std::mem::replace(&mut segment.in_flight, false) {
                let bytes = Bytes::new(segment.bytes.into());
                change.lost += bytes;
                self.in_flight -= bytes;
            }
            segment.lost = true;
            self.to_repair.push_back(segment.start);
        }
        self.frontier = self.base + self.segments.len() as u64;
        self.sacked_above = 0;
        self.credited = self.frontier;
    }

    fn lose(&mut self, index: usize, change: &mut Change) {
        let segment = &mut self.segments[index];
        segment.lost = true;
        if std::mem::replace(&mut segment.in_flight, false) {
            let bytes = Bytes::new(segment.bytes.into());
            change.lost += bytes;
            self.in_flight -= bytes;
        }
        change.lost_number = change.lost_number.max(Some(segment.number));
        self.to_repair.push_back(segment.start);
    }

    fn find(&self, start: u64) -> Option<usize> {
        let index = self.segments.partition_point(|s| s.end() <= start);
        self.segments.get(index).filter(|s| s.start == start).map(|_| index)
    }
}

/// Gives back the room that slow start's overshoot took: a ring is walked round and round, so all of it takes up cache.
fn trim<T>(ring: &mut VecDeque<T>) {
    const SMALL: usize = 32;
    if ring.capacity() > SMALL && ring.len() < ring.capacity() / 4 {
        ring.shrink_to(SMALL.max(ring.capacity() / 2));
    }
}
