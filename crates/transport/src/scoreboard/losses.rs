//! Which segments are lost: by position, by order, by time, or all of them.

use rampmeter_units::{Bytes, Time};

use super::{Change, DUP_THRESHOLD, Scoreboard, Segment};
use crate::proof::Pending;
use crate::rack::Deadline;

impl Scoreboard {
    /// Detects losses by position, and by order if `lost_retransmissions`.
    pub(crate) fn detect_losses(&mut self, lost_retransmissions: bool, change: &mut Change) {
        while self.sacked_above >= DUP_THRESHOLD {
            let index = (self.frontier - self.base) as usize;
            let Some(segment) = self.segments.get(index) else { break };
            if segment.sacked {
                self.sacked_above -= 1;
            } else if !segment.lost && !segment.retransmitted {
                self.mark_lost(index, change);
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
                    self.mark_lost(index, change);
                }
            }
        }
    }

    /// Detects losses by time. Returns the time at which the next packet is lost unless it arrives.
    pub(crate) fn detect_late(
        &mut self,
        now: Time,
        deadline: &Deadline,
        lost_retransmissions: bool,
        change: &mut Change,
    ) -> Time {
        let mut next = Time::MAX;
        while let Some(segment) = self.segments.get((self.frontier - self.base) as usize) {
            if segment.sacked {
                self.sacked_above -= 1;
            } else if !segment.lost && !segment.retransmitted {
                let lost_at = deadline.of(segment.order, segment.sent_at);
                if lost_at > now {
                    next = lost_at;
                    break;
                }
                self.mark_lost((self.frontier - self.base) as usize, change);
            }
            self.frontier += 1;
        }
        if !lost_retransmissions {
            self.retransmissions.clear();
        }
        while let Some(&(order, start)) = self.retransmissions.front() {
            let is_waiting = |segment: &Segment| segment.order == order && segment.in_flight;
            if let Some(index) = self.find(start).filter(|&index| is_waiting(&self.segments[index])) {
                let lost_at = deadline.of(order, self.segments[index].sent_at);
                if lost_at > now {
                    next = next.min(lost_at);
                    break;
                }
                self.mark_lost(index, change);
            }
            self.retransmissions.pop_front();
        }
        self.lose_pending(now, Some(deadline), change);
        next.min(self.proofs.next_lost_at(deadline))
    }

    /// Pending packets whose deadline has come are lost; all of them without a deadline.
    fn lose_pending(&mut self, now: Time, deadline: Option<&Deadline>, change: &mut Change) {
        while let Some(Pending { number, bytes, .. }) = self.proofs.pop_lost(now, deadline) {
            self.in_flight -= bytes;
            change.lost += bytes;
            change.lost_number = change.lost_number.max(Some(number));
            change.lost_packets += 1;
        }
    }

    /// The first unacknowledged segment is lost (duplicate or partial acknowledgements, without SACK).
    pub(crate) fn mark_first_lost(&mut self, change: &mut Change) {
        if self.segments.front().is_some_and(|first| !first.lost && !first.sacked) {
            self.mark_lost(0, change);
        }
    }

    /// The timer has expired: everything that was not reported as delivered is lost. `is_first`: the timer has not
    /// expired before without a delivery since.
    pub(crate) fn mark_all_lost(&mut self, is_first: bool, change: &mut Change) {
        if is_first {
            self.timeout = self.presumed_lost.next_place();
        }
        self.to_retransmit.clear();
        self.retransmissions.clear();
        for index in 0..self.segments.len() {
            let segment = &mut self.segments[index];
            if !segment.sacked {
                segment.timed_out |= segment.in_flight;
                self.mark_lost(index, change);
            }
        }
        self.frontier = self.base + self.segments.len() as u64;
        self.sacked_above = 0;
        self.credited = self.frontier;
        self.lose_pending(Time::MAX, None, change);
    }

    /// The timeout was spurious: packets that it counted as lost, and that were not sent again, are in flight. Returns
    /// their number.
    pub(crate) fn restore_timed_out(&mut self, change: &mut Change) -> u64 {
        let mut restored = 0;
        for segment in self.segments.iter_mut().filter(|segment| segment.timed_out) {
            (segment.timed_out, segment.lost, segment.in_flight) = (false, false, true);
            change.restored += Bytes::new(segment.bytes.into());
            restored += 1;
            if segment.retransmitted {
                self.retransmissions.push_back((segment.order, segment.start)); // checked by order again
            }
        }
        self.retransmissions.make_contiguous().sort_unstable();
        self.in_flight += change.restored;
        let segments = &self.segments;
        self.to_retransmit.retain(|&absolute| {
            let index = absolute.checked_sub(self.base);
            index.is_some_and(|index| segments.get(index as usize).is_some_and(|segment| segment.lost))
        });
        // They are checked by position again.
        (self.frontier, self.credited) = (self.base, self.base);
        self.sacked_above = segments.iter().filter(|segment| segment.sacked).count() as u64;
        restored
    }

    /// The timeout was not spurious: packets that it counted as lost, and that were not sent again, are lost as others are.
    pub(crate) fn confirm_timeout(&mut self) {
        for segment in self.segments.iter_mut().filter(|segment| segment.timed_out) {
            segment.timed_out = false;
            self.proofs.close(segment.order);
            self.presumed_lost.insert_at(self.timeout, segment.transmission());
        }
    }

    fn mark_lost(&mut self, index: usize, change: &mut Change) {
        let segment = &mut self.segments[index];
        segment.lost = true;
        let mut bytes = Bytes::ZERO;
        if std::mem::replace(&mut segment.in_flight, false) {
            bytes = Bytes::new(segment.bytes.into());
            if segment.bytes > self.large_above {
                change.large_lost = change.large_lost.max(Some(segment.sent_at));
            }
            // A segment that a timeout loses keeps its transmission until it is sent again.
            if !segment.timed_out {
                self.proofs.close(segment.order);
                let place = self.presumed_lost.insert(segment.transmission());
                change.first_loss = change.first_loss.or(Some(place));
            }
        }
        if let Some(probe) = self.probe.take_if(|probe| probe.start == segment.start) {
            bytes += Bytes::new(probe.bytes.into());
            self.proofs.close(probe.transmission.order);
        }
        change.lost += bytes;
        self.in_flight -= bytes;
        change.lost_number = change.lost_number.max(Some(segment.number));
        let retransmission = segment.retransmitted.then_some(segment.order);
        change.lost_retransmission = change.lost_retransmission.max(retransmission);
        change.lost_packets += 1;
        self.to_retransmit.push_back(self.base + index as u64);
    }
}
