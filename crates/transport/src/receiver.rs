//! The receiving half of a connection: what has arrived, and when to acknowledge it (RFC 5681 section 4.2).

use rampmeter_units::{Bytes, Duration, Ecn, Time};
use rampmeter_wire::{Kind, List, MAX_RECEIPTS, MAX_SACKS, Packet, Receipt, RouterFeedback, Sack, unwrap};

use crate::config::Config;
use crate::proof::Arrived;
use crate::range_set::RangeSet;

/// New payload: bytes `offset..offset + len` of the stream, found `skip` bytes into the packet's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fresh {
    pub(crate) offset: u64,
    pub(crate) skip: usize,
    pub(crate) len: usize,
}

/// The packets that a delayed acknowledgement acknowledges (RFC 5681 section 4.2).
const MAX_DELAYED: u32 = 2;

/// When the next acknowledgement is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AckDue {
    Never,
    At(Time),
    /// When the host has handled all packets that it read together.
    Soon,
    /// Before the host handles another packet.
    Now,
}

#[derive(Debug)]
pub(crate) struct Receiver {
    delayed_ack: Duration,
    capacity: u64,
    /// The advertised window grows by at least so much at a time (RFC 9293 section 3.8.6.2.2).
    min_step: u64,
    /// The peer's first sequence number.
    pub(crate) first_sequence: u32,
    /// Everything before this offset has arrived.
    next: u64,
    /// Ranges that arrived beyond `next`.
    out_of_order: RangeSet,
    /// Offsets in the most recently extended ranges beyond `next`; these are reported first (RFC 2018 section 4).
    recent: List<u64, MAX_SACKS>,
    /// The end of the stream, once known.
    end: Option<u64>,
    /// The application has read everything before this offset.
    consumed: u64,
    /// The end of the window that was last advertised.
    advertised_window: u64,
    due: AckDue,
    unacknowledged: u32,
    receipts: List<Receipt, MAX_RECEIPTS>,
    feedback: RouterFeedback,
    /// What the peer's proofs are made of, if it requires them.
    proofs: Option<Box<Arrived>>,
}

impl Receiver {
    /// The offset in the stream of this sequence number, near what has arrived.
    pub(crate) fn offset(&self, sequence: u32) -> u64 {
        unwrap(self.next, sequence.wrapping_sub(self.first_sequence))
    }

    pub(crate) fn new(config: &Config, first_sequence: u32) -> Self {
        let capacity = config.receive_window.as_u64();
        Self {
            delayed_ack: config.delayed_ack,
            capacity,
            min_step: config.min_piece().min(capacity / 2),
            first_sequence,
            next: 0,
            out_of_order: RangeSet::default(),
            recent: List::default(),
            end: None,
            consumed: 0,
            advertised_window: capacity,
            due: AckDue::Never,
            unacknowledged: 0,
            receipts: List::default(),
            feedback: RouterFeedback::None,
            proofs: config.requires_proofs().then(Box::default),
        }
    }

    /// Handles a packet with payload, the stream's end or a probe. `arrived_at` is the time it reached this host.
    pub(crate) fn on_packet(&mut self, now: Time, packet: &Packet, ecn: Ecn, arrived_at: Time) -> Option<Fresh> {
        debug_assert_eq!(packet.kind, Kind::Data);
        if packet.sequence_len() == 0 {
            if packet.ping {
                self.due = AckDue::Now;
            }
            if packet.probe {
                self.add_receipt(packet.number, ecn, arrived_at);
                self.due = AckDue::Now;
            }
            return None;
        }
        let start = self.offset(packet.sequence);
        let payload_end = start + u64::from(packet.payload);
        let stop = payload_end + u64::from(packet.fin);
        // The window bounds the bytes held; a stream has one end.
        let fits = payload_end <= self.consumed + self.capacity;
        let end_known = self.end.is_some_and(|end| payload_end > end || (packet.fin && payload_end != end));
        let holds_beyond_end =
            packet.fin && self.out_of_order.iter().next_back().is_some_and(|(_, e)| e > payload_end + 1);
        if !fits || end_known || holds_beyond_end {
            self.due = AckDue::Now; // reports this side's state to the peer
            return None;
        }
        self.add_receipt(packet.number, ecn, arrived_at);
        self.feedback = match (self.feedback, packet.feedback) {
            (old, RouterFeedback::None) => old,
            // Window changes add up if one acknowledgement covers several packets.
            (RouterFeedback::Xcp { change: before, .. }, RouterFeedback::Xcp { window, rtt, change }) => {
                RouterFeedback::Xcp { window, rtt, change: before.saturating_add(change) }
            }
            (_, new) => new,
        };
        if packet.fin {
            self.end = Some(payload_end);
        }

        let had_hole = !self.out_of_order.is_empty();
        let in_order = start <= self.next;
        let old = stop <= self.next;
        let mut fresh: Option<(u64, u64)> = None;
        if in_order {
            fresh = (!old).then_some((self.next, stop));
            self.next = self.next.max(stop);
            while let Some((s, e)) = self.out_of_order.first().filter(|&(s, _)| s <= self.next) {
                // Parts of the packet that were already held are returned again; the bytes are the same, so this does
                // no harm.
                debug_assert!(s <= self.next);
                self.next = self.next.max(e);
                self.out_of_order.remove_below(e);
            }
        } else if self
            .out_of_order
            .insert(start, stop, |s, e| fresh = Some(fresh.map_or((s, e), |(first, _)| (first, e))))
        {
            self.add_recent(start);
        } else {
            self.due = AckDue::Now;
            return None;
        }

        self.unacknowledged += 1;
        let first = start == 0;
        let urgent = !in_order || old || had_hole || packet.fin || first || packet.ping;
        // RFC 5681 section 4.2: at least every second packet, at once when it is out of order or fills a hole.
        let combines = self.delayed_ack == Duration::ZERO;
        let is_full = if combines { self.receipts.is_full() } else { self.unacknowledged >= MAX_DELAYED };
        if urgent || is_full {
            self.due = AckDue::Now;
        } else if self.due == AckDue::Never {
            self.due = if combines { AckDue::Soon } else { AckDue::At(now + self.delayed_ack) };
        }
        let (from, to) = fresh?;
        let to = to.min(payload_end);
        (from < to).then(|| Fresh { offset: from, skip: (from - start) as usize, len: (to - from) as usize })
    }

    fn add_receipt(&mut self, number: u32, ecn: Ecn, received_at: Time) {
        if self.receipts.is_full() {
            // Impossible while acknowledgements leave as they are due, unless the world takes packets from this host
            // too slowly.
            let full = std::mem::take(&mut self.receipts);
            for &receipt in &full[1..] {
                self.receipts.push(receipt);
            }
        }
        self.receipts.push(Receipt { number, ecn, received_at });
        if let Some(proofs) = &mut self.proofs {
            proofs.insert(number);
        }
    }

    fn add_recent(&mut self, start: u64) {
        let mut recent = List::default();
        recent.push(start);
        for &other in self.recent.iter() {
            let same = self.out_of_order.containing(other) == self.out_of_order.containing(start);
            if !same && other > self.next {
                recent.push(other);
            }
        }
        self.recent = recent;
    }

    /// Everything before this offset has arrived.
    pub(crate) fn arrived(&self) -> u64 {
        self.end.map_or(self.next, |end| self.next.min(end))
    }

    /// Whether the whole stream has arrived.
    pub(crate) fn is_done(&self) -> bool {
        self.end.is_some_and(|end| self.next > end)
    }

    /// The application has read `bytes` more. Returns whether an acknowledgement has to report it.
    pub(crate) fn consume(&mut self, bytes: u64) -> bool {
        self.consumed = self.consumed.saturating_add(bytes).min(self.arrived());
        // The opening of a window that was nearly closed is advertised (RFC 9293 section 3.8.6.2.2).
        let opened = (self.consumed + self.capacity).saturating_sub(self.advertised_window);
        let nearly_closed = self.advertised_window.saturating_sub(self.next) < self.capacity / 4;
        let is_reported = nearly_closed && opened >= self.capacity / 2;
        if is_reported {
            self.due = AckDue::Now;
        }
        is_reported
    }

    /// Raises the receive window to `capacity` bytes. It never shrinks: what was advertised stays valid.
    pub(crate) fn raise_window(&mut self, capacity: u64) {
        self.capacity = self.capacity.max(capacity);
    }

    /// Acknowledges at the next opportunity.
    pub(crate) fn acknowledge_now(&mut self) {
        self.due = AckDue::Now;
    }

    pub(crate) fn should_acknowledge(&self, now: Time) -> bool {
        match self.due {
            AckDue::Never => false,
            AckDue::At(at) => at <= now,
            AckDue::Soon | AckDue::Now => true,
        }
    }

    /// Whether an acknowledgement is due before another packet is handled.
    pub(crate) fn must_acknowledge(&self) -> bool {
        self.due == AckDue::Now
    }

    pub(crate) fn deadline(&self) -> Time {
        match self.due {
            AckDue::At(at) => at,
            AckDue::Never | AckDue::Soon | AckDue::Now => Time::MAX,
        }
    }

    /// Writes acknowledgements, receipts and the window into a new packet.
    pub(crate) fn write_feedback(&mut self, packet: &mut Packet) {
        packet.acknowledgement = self.first_sequence.wrapping_add(self.next as u32);
        let opened = self.consumed + self.capacity;
        let is_step = opened >= self.advertised_window + self.min_step;
        let window_end = if is_step { opened } else { self.advertised_window };
        let window = window_end.saturating_sub(self.next).min(u64::from(u32::MAX >> 2));
        packet.window = window as u32;
        self.advertised_window = self.next + window;
        packet.receipts.copy_from(&self.receipts);
        packet.proof = self.proofs.as_mut().and_then(|proofs| proofs.proof(!self.receipts.is_empty()));
        packet.echoed_feedback = std::mem::take(&mut self.feedback);
        if !self.out_of_order.is_empty() {
            packet.sacks = self.sacks();
        }
        self.receipts.clear();
        self.due = AckDue::Never;
        self.unacknowledged = 0;
    }

    fn sacks(&self) -> List<Sack, MAX_SACKS> {
        let mut sacks = List::default();
        let mut reported: List<(u64, u64), MAX_SACKS> = List::default();
        let recent = self.recent.iter().filter_map(|&at| self.out_of_order.containing(at));
        for range in recent.chain(self.out_of_order.iter()) {
            if reported.is_full() {
                break;
            }
            if !reported.contains(&range) {
                reported.push(range);
                let wire = |offset: u64| self.first_sequence.wrapping_add(offset as u32);
                sacks.push(Sack { start: wire(range.0), end: wire(range.1) });
            }
        }
        sacks
    }

    pub(crate) fn window_bytes(&self) -> Bytes {
        Bytes::new((self.consumed + self.capacity).saturating_sub(self.next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver(window: u64) -> Receiver {
        Receiver::new(&Config { receive_window: Bytes::new(window), ..Config::default() }, 0)
    }

    /// The end of the window that the next packet announces.
    fn announced(receiver: &mut Receiver) -> u64 {
        let mut packet = Packet::default();
        receiver.write_feedback(&mut packet);
        u64::from(packet.acknowledgement) + u64::from(packet.window)
    }

    #[test]
    fn a_peer_that_sends_every_second_byte_fills_64_kilobytes() {
        let mut receiver = receiver(1 << 20);
        for n in 0..(1 << 19) - 1 {
            let packet = Packet { sequence: 2 * n + 1, payload: 1, ..Packet::default() };
            receiver.on_packet(Time::ZERO, &packet, Ecn::NotEct, Time::ZERO);
        }
        let ranges = receiver.out_of_order.iter().count();
        assert_eq!(ranges * size_of::<(u64, u64)>(), 64 << 10);
    }

    #[test]
    fn a_nearly_closed_window_is_reported_when_half_of_it_opens() {
        let mut receiver = receiver(10_000);
        let arrive = |receiver: &mut Receiver, sequence, payload| {
            receiver.on_packet(Time::ZERO, &Packet { sequence, payload, ..Packet::default() }, Ecn::NotEct, Time::ZERO);
            announced(receiver);
        };
        arrive(&mut receiver, 0, 1_000);
        assert!(!receiver.consume(1_000), "most of it was open");
        arrive(&mut receiver, 1_000, 10_000);
        assert!(!receiver.consume(4_999));
        assert!(receiver.consume(1));
    }

    #[test]
    fn a_window_opens_by_half_a_packet_at_least() {
        let mut receiver = receiver(10_000);
        let mut ends = vec![announced(&mut receiver)];
        for n in 0..5_000 {
            let packet = Packet { sequence: n, payload: 1, ..Packet::default() };
            receiver.on_packet(Time::ZERO, &packet, Ecn::NotEct, Time::ZERO);
            receiver.consume(1);
            ends.push(announced(&mut receiver));
        }
        ends.dedup();
        assert!(ends.windows(2).all(|pair| pair[1] - pair[0] >= 625), "{ends:?}");
        assert_eq!(ends.len(), 1 + 5_000 / 625);
    }
}
