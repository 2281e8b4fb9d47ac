//! The segments that have been sent and not cumulatively acknowledged, and which of them are lost.
//!
//! A segment keeps its position in the stream and the number of its latest transmission. It is *in flight* from a
//! transmission until that transmission is reported as delivered or detected as lost. Losses are detected in two ways:
//!
//! * by *position* (RFC 6675 section 4, `IsLost`): three segments above it have been selectively acknowledged. The
//!   segments that this rule finds are always all unacknowledged ones below some offset. So a *frontier* that only
//!   moves up finds them in constant time per segment: everything below it has been checked.
//! * by *order*, for retransmissions, which the rule by position cannot check a second time: three packets that this
//!   connection sent later have arrived. Optional.
//! * by *time*, once packets have been seen to arrive out of order, in place of both ([`Rack`]). The frontier serves
//!   here too: segments that were sent once are sent in the order of their positions.

mod losses;

use std::collections::VecDeque;

use rampmeter_control::Arrival;
use rampmeter_units::{Bytes, Duration, Time};
use rampmeter_wire::{List, MAX_RECEIPTS, Receipt};

use crate::presumed_lost::{PresumedLost, Transmission};
use crate::proof::{Late, Pending, Proofs};
use crate::rack::Rack;
use crate::range_set::RangeSet;
use crate::unreported::Unreported;

/// `DupThresh` (RFC 6675 section 2).
pub(crate) const DUP_THRESHOLD: u64 = 3;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    /// Offset of its first byte in the stream.
    pub(crate) start: u64,
    /// Its length in sequence numbers: payload and, at the end of the stream, one for the end.
    pub(crate) len: u32,
    /// Size on the wire of its latest transmission.
    pub(crate) bytes: u32,
    /// Number of its latest transmission, counted per macroflow.
    pub(crate) number: u64,
    /// The same, counted per connection.
    pub(crate) order: u64,
    pub(crate) sent_at: Time,
    pub(crate) fin: bool,
    in_flight: bool,
    sacked: bool,
    lost: bool,
    /// It counts as lost because the retransmission timer expired, and has not been sent again since.
    timed_out: bool,
    retransmitted: bool,
}

impl Segment {
    pub(crate) fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }

    fn standing(&self) -> Standing {
        match (self.lost, self.timed_out) {
            (_, true) => Standing::TimedOut,
            (true, false) => Standing::Lost,
            _ => Standing::InFlight,
        }
    }

    /// Its latest transmission.
    fn transmission(&self) -> Transmission {
        Transmission { number: self.number, order: self.order, sent_at: self.sent_at }
    }
}

/// A second transmission of a segment whose first one does not count as lost.
#[derive(Debug, Clone, Copy)]
struct Probe {
    start: u64,
    bytes: u32,
    transmission: Transmission,
}

/// What a transmission counted as when its receipt came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    InFlight,
    Lost,
    /// Lost because the retransmission timer expired.
    TimedOut,
}

/// The changes by the feedback of one packet.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Change {
    /// Bytes that left `in_flight` because they arrived.
    pub(crate) arrived_in_flight: Bytes,
    /// Bytes newly reported as delivered.
    pub(crate) delivered: Bytes,
    /// Bytes that left `in_flight` because they were lost.
    pub(crate) lost: Bytes,
    /// Bytes that are in flight again: the timeout by which they were lost was spurious.
    pub(crate) restored: Bytes,
    /// The highest number among the lost packets, how many there are, and the highest order of a lost retransmission.
    pub(crate) lost_number: Option<u64>,
    pub(crate) lost_retransmission: Option<u64>,
    pub(crate) lost_packets: u32,
    /// The last departure of a lost packet that is large.
    pub(crate) large_lost: Option<Time>,
    /// The place of the first of these losses among all losses.
    pub(crate) first_loss: Option<u64>,
    /// The number of packets that counted as lost and have arrived; how many of them were lost in the last episode.
    pub(crate) spurious: u32,
    pub(crate) spurious_in_episode: u32,
    /// The first transmission that a receipt of this packet names: its order, and whether a timeout lost it.
    pub(crate) first_reported: Option<(u64, bool)>,
    /// The order of the last transmission that a receipt of this packet names, and its round trip.
    pub(crate) last_reported: Option<(u64, Duration)>,
    pub(crate) arrivals: List<Arrival, MAX_RECEIPTS>,
    /// For each receipt: the transmission, and what it counted as.
    reported: [Option<(Transmission, Standing)>; MAX_RECEIPTS],
}

#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    segments: VecDeque<Segment>,
    /// The number of segments cumulatively acknowledged so far: the index of `segments[0]` among all.
    base: u64,
    /// Index of the first segment not yet checked by position.
    frontier: u64,
    /// Selectively acknowledged segments at or above the frontier.
    sacked_above: u64,
    sacked: RangeSet,
    /// The indices of lost segments among all, in the order of their retransmission.
    to_retransmit: VecDeque<u64>,
    /// The order and the start of each retransmitted segment.
    retransmissions: VecDeque<(u64, u64)>,
    /// The order of the next transmission.
    pub(crate) next_order: u64,
    /// The highest order reported as delivered, plus one.
    arrived_order: u64,
    /// Without SACK: index of the next segment to count as delivered for a duplicate acknowledgement.
    credited: u64,
    pub(crate) in_flight: Bytes,
    pub(crate) rack: Rack,
    presumed_lost: PresumedLost,
    unreported: Unreported,
    /// The place of the last episode's first loss among all losses, and that of the last series of timeouts.
    pub(crate) episode: u64,
    timeout: u64,
    probe: Option<Probe>,
    pub(crate) proofs: Proofs,
    /// Packets above this size are large: a path may carry smaller ones only.
    large_above: u32,
}

impl Scoreboard {
    pub(crate) fn new(proofs: Proofs, large_above: u32) -> Self {
        Self { proofs, large_above, ..Self::default() }
    }

    /// The offsets of lost segments that have not been sent again.
    pub(crate) fn lost(&self) -> impl Iterator<Item = u64> {
        self.segments.iter().filter(|segment| segment.lost && !segment.sacked).map(|segment| segment.start)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Bytes sent and not cumulatively acknowledged (RFC 5681, `FlightSize`).
    pub(crate) fn flight_size(&self, una: u64, next: u64) -> Bytes {
        let packets = self.segments.len() as u64;
        // The headers of the packets with these bytes.
        let headers = self.segments.front().map_or(0, |s| u64::from(s.bytes).saturating_sub(u64::from(s.len)));
        Bytes::new(next - una + packets * headers)
    }

    /// Adds a segment of new data that leaves.
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
            timed_out: false,
            retransmitted: false,
        });
        self.next_order += 1;
    }

    pub(crate) fn next_retransmission(&mut self) -> Option<Segment> {
        self.next_lost().map(|index| self.segments[index])
    }

    /// The place in `segments` of the next one to retransmit.
    fn next_lost(&mut self) -> Option<usize> {
        while let Some(&absolute) = self.to_retransmit.front() {
            let index = absolute.checked_sub(self.base).map(|index| index as usize);
            let is_lost = |&index: &usize| self.segments.get(index).is_some_and(|it| it.lost && !it.sacked);
            if let Some(index) = index.filter(is_lost) {
                return Some(index);
            }
            self.to_retransmit.pop_front();
        }
        None
    }

    #[inline]
    pub(crate) fn has_retransmissions(&mut self) -> bool {
        !self.to_retransmit.is_empty() && self.next_lost().is_some()
    }

    /// The segment from [`Scoreboard::next_retransmission`] leaves again, at most `len` of it. The rest of a longer
    /// segment becomes a separate segment, still to be retransmitted.
    pub(crate) fn on_retransmitted(&mut self, len: u32, bytes: u32, number: u64, now: Time) {
        let Some(index) = self.next_lost() else { return };
        self.to_retransmit.pop_front();
        if len < self.segments[index].len {
            let whole = self.segments[index];
            let rest = Segment { start: whole.start + u64::from(len), len: whole.len - len, ..whole };
            self.segments[index].len = len;
            self.segments[index].fin = false;
            self.segments.insert(index + 1, rest);
            let absolute = self.base + index as u64 + 1;
            self.frontier += u64::from(absolute <= self.frontier);
            self.credited += u64::from(absolute <= self.credited);
            for other in &mut self.to_retransmit {
                *other += u64::from(absolute <= *other);
            }
            self.to_retransmit.push_front(absolute);
        }
        let segment = &mut self.segments[index];
        if std::mem::replace(&mut segment.timed_out, false) {
            self.proofs.close(segment.order);
            self.presumed_lost.insert_at(self.timeout, segment.transmission());
        }
        (segment.bytes, segment.number, segment.sent_at, segment.order) = (bytes, number, now, self.next_order);
        (segment.in_flight, segment.lost, segment.retransmitted) = (true, false, true);
        self.in_flight += Bytes::new(bytes.into());
        self.retransmissions.push_back((self.next_order, segment.start));
        self.next_order += 1;
    }

    /// Everything before `una` has arrived.
    pub(crate) fn on_cumulative(&mut self, una: u64, receipts: &[Receipt], change: &mut Change) {
        while let Some(front) = self.segments.front_mut() {
            if front.end() > una {
                if front.start < una {
                    if let Some(probe) = self.probe.as_mut().filter(|probe| probe.start == front.start) {
                        probe.start = una;
                    }
                    front.len = (front.end() - una) as u32;
                    front.start = una;
                }
                break;
            }
            let Some(segment) = self.segments.pop_front() else { break };
            if self.base < self.frontier {
                // It was checked already.
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

    pub(crate) fn on_sack(&mut self, start: u64, end: u64, receipts: &[Receipt], change: &mut Change) {
        let mut fresh: List<(u64, u64), 8> = List::default();
        self.sacked.insert(start, end, |s, e| {
            fresh.push((s, e));
        });
        for &(start, end) in fresh.iter() {
            let mut index = self.segments.partition_point(|s| s.end() <= start);
            // A segment counts once all of it is held; its parts may have arrived in different packets.
            while let Some(segment) = self.segments.get(index).copied().filter(|s| s.start < end) {
                let held = self.sacked.containing(segment.start).is_some_and(|(_, held)| held >= segment.end());
                if held && !segment.sacked {
                    self.arrived(&segment, receipts, change);
                    let segment = &mut self.segments[index];
                    (segment.sacked, segment.in_flight, segment.timed_out) = (true, false, false);
                    self.sacked_above += u64::from(self.base + index as u64 >= self.frontier);
                }
                index += 1;
            }
        }
    }

    /// Records that a segment has arrived, unless that was reported before.
    fn arrived(&mut self, segment: &Segment, receipts: &[Receipt], change: &mut Change) {
        let bytes = Bytes::new(segment.bytes.into());
        let probe = self.probe.filter(|probe| probe.start == segment.start && !segment.sacked);
        let of_probe = probe.is_some_and(|probe| self.proofs.has_arrived(probe.transmission.order));
        let is_proved = of_probe || self.proofs.has_arrived(segment.order);
        if segment.in_flight && is_proved {
            change.arrived_in_flight += bytes;
            self.in_flight -= bytes;
            self.proofs.close(segment.order);
        } else if segment.timed_out {
            self.proofs.close(segment.order);
        } else if segment.in_flight {
            self.proofs.wait_for(segment.order, Pending { number: segment.number, bytes, sent_at: segment.sent_at });
        }
        if segment.sacked {
            return;
        }
        if is_proved {
            change.delivered += bytes;
        }
        if let Some(Probe { bytes, transmission: Transmission { number, order, sent_at }, .. }) = probe {
            self.probe = None;
            let bytes = Bytes::new(bytes.into());
            if is_proved {
                self.in_flight -= bytes;
                change.arrived_in_flight += bytes;
            } else {
                self.proofs.wait_for(order, Pending { number, bytes, sent_at });
            }
        }
        let proofs = &self.proofs;
        let place = |Transmission { number, order, .. }| {
            receipts.iter().position(|receipt| proofs.is_of(receipt.number, number, order))
        };
        let mut transmission = segment.transmission();
        let mut index = place(transmission);
        if let Some(probe) = probe {
            if let Some(of_probe) = place(probe.transmission).filter(|_| index.is_none()) {
                // Only the probe has arrived, which was sent last: the first transmission is lost (RFC 8985 section
                // 7.4.2).
                change.lost_number = change.lost_number.max(Some(segment.number));
                change.lost_packets += 1;
                (index, transmission) = (Some(of_probe), probe.transmission);
            }
            if is_proved {
                self.proofs.close(probe.transmission.order);
            }
        }
        if let Some(index) = index {
            let Receipt { ecn, received_at, .. } = receipts[index];
            let Transmission { number, sent_at, .. } = transmission;
            change.arrivals.push(Arrival { number, bytes, sent_at, received_at, ecn });
            change.reported[index] = Some((transmission, segment.standing()));
        } else if !segment.retransmitted {
            self.unreported.insert(segment.transmission(), bytes);
        }
        // Without a receipt it is unknown which transmission of a retransmitted segment arrived.
        if index.is_some() || !segment.retransmitted {
            self.arrived_order = self.arrived_order.max(transmission.order + 1);
        }
    }

    /// Pending packets whose proofs have arrived, by a packet that reached this host at `arrived_at`, leave the bytes in
    /// flight.
    pub(crate) fn on_late_proofs(&mut self, arrived_at: Time, change: &mut Change) {
        let Late { bytes, last } = self.proofs.take_late();
        if let Some((order, sent_at)) = last {
            self.rack.on_late_proof(order, arrived_at.since(sent_at));
        }
        self.in_flight -= bytes;
        change.arrived_in_flight += bytes;
        change.delivered += bytes;
    }

    /// Handles the receipts of a packet that reached this host at `arrived_at`, after what it acknowledges: the order
    /// of arrival, transmissions that counted as lost, and those that an earlier packet acknowledged.
    pub(crate) fn on_receipts(&mut self, receipts: &[Receipt], arrived_at: Time, change: &mut Change) {
        let proofs = &self.proofs;
        for (index, receipt) in receipts.iter().enumerate() {
            let reported = change.reported[index];
            let late = match reported {
                Some((_, Standing::InFlight | Standing::TimedOut)) => None,
                _ => self.presumed_lost.take(|lost| proofs.is_of(receipt.number, lost.number, lost.order)),
            };
            let standing = match (reported, late) {
                (Some((_, standing)), _) => standing,
                (None, Some((place, _))) if place == self.timeout => Standing::TimedOut,
                (None, _) => Standing::Lost,
            };
            change.spurious_in_episode += u32::from(late.is_some_and(|(place, _)| place >= self.episode));
            let sent = reported.map(|(sent, _)| sent).or(late.map(|(_, sent)| sent));
            if let Some(Transmission { order, sent_at, .. }) = sent {
                let rtt = arrived_at.since(sent_at);
                change.first_reported.get_or_insert((order, standing == Standing::TimedOut));
                change.last_reported = Some((order, rtt));
                change.spurious += u32::from(standing != Standing::InFlight);
                self.rack.on_receipt(order, rtt);
            } else if let Some((Transmission { number, sent_at, .. }, bytes)) =
                self.unreported.take(|arrived| proofs.is_of(receipt.number, arrived.number, arrived.order))
            {
                let &Receipt { ecn, received_at, .. } = receipt;
                change.arrivals.push(Arrival { number, bytes, sent_at, received_at, ecn });
            }
        }
    }

    /// Whether packets have been selectively acknowledged, or are lost.
    pub(crate) fn has_holes(&self) -> bool {
        !self.sacked.is_empty() || !self.to_retransmit.is_empty()
    }

    /// The last segment, to be sent again as a probe.
    pub(crate) fn last(&self) -> Option<Segment> {
        self.segments.back().copied().filter(|last| last.in_flight && self.probe.is_none())
    }

    /// A packet without bytes of the stream leaves. Returns its order, and its number on the wire.
    pub(crate) fn on_empty(&mut self, secret: u8) -> (u64, u32) {
        let order = self.next_order;
        self.next_order += 1;
        (order, self.proofs.add(secret, 0))
    }

    /// The segment from [`Scoreboard::last`] leaves again.
    pub(crate) fn on_probe(&mut self, bytes: u32, number: u64, now: Time) {
        let Some(last) = self.segments.back() else { return };
        let transmission = Transmission { number, order: self.next_order, sent_at: now };
        self.probe = Some(Probe { start: last.start, bytes, transmission });
        self.in_flight += Bytes::new(bytes.into());
        self.next_order += 1;
    }

    /// A duplicate acknowledgement without SACK: one unknown packet has arrived. It is not the first segment, which is
    /// missing; the next segment not yet counted represents it (the inflation of RFC 5681 section 3.2, step 4).
    pub(crate) fn credit_one(&mut self, change: &mut Change) {
        self.credited = self.credited.max(self.base + 1);
        while let Some(segment) = self.segments.get_mut((self.credited - self.base) as usize) {
            self.credited += 1;
            if std::mem::replace(&mut segment.in_flight, false) {
                let bytes = Bytes::new(segment.bytes.into());
                self.in_flight -= bytes;
                change.arrived_in_flight += bytes;
                return;
            }
        }
    }

    fn find(&self, start: u64) -> Option<usize> {
        let index = self.segments.partition_point(|s| s.end() <= start);
        self.segments.get(index).filter(|s| s.start == start).map(|_| index)
    }
}

/// Returns the memory of slow start's overshoot: a ring buffer is used all the way round, so all of it occupies cache.
fn trim<T>(ring: &mut VecDeque<T>) {
    const SMALL: usize = 32;
    if ring.capacity() > SMALL && ring.len() < ring.capacity() / 4 {
        ring.shrink_to(SMALL.max(ring.capacity() / 2));
    }
}
