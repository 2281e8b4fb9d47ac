//! The receiving half of a connection: what has arrived, and when to say so (RFC 5681 section 4.2).

use rampmeter_units::{Bytes, Duration, Ecn, Time};
use rampmeter_wire::{Kind, List, MAX_RECEIPTS, MAX_SACKS, Packet, Receipt, RouterFeedback, Sack, unwrap};

use crate::config::Config;
use crate::range_set::RangeSet;

/// Payload that is news: bytes `offset..offset + len` of the stream, found `skip` bytes into the packet's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fresh {
    pub(crate) offset: u64,
    pub(crate) skip: usize,
    pub(crate) len: usize,
}

/// When the next acknowledgement is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Never,
    At(Time),
    Now,
}

#[derive(Debug)]
pub(crate) struct Receiver {
    delayed_ack: Duration,
    capacity: u64,
    /// The peer's first sequence number.
    first_sequence: u32,
    /// Everything before has arrived.
    next: u64,
    /// Runs that arrived beyond `next`.
    beyond: RangeSet,
    /// Where the most recent run beyond `next` was extended; it is reported first (RFC 2018 section 4).
    recent: List<u64, MAX_SACKS>,
    /// Where the stream ends, once known.
    end: Option<u64>,
    /// The application has taken everything before this.
    consumed: u64,
    /// The window's end as last told to the peer.
    told_window: u64,
    due: Due,
    unanswered: u32,
    receipts: List<Receipt, MAX_RECEIPTS>,
    feedback: RouterFeedback,
}

impl Receiver {
    pub(crate) fn new(config: &Config, first_sequence: u32) -> Self {
        let capacity = config.receive_window.as_u64();
        Self {
            delayed_ack: config.delayed_ack,
            capacity,
            first_sequence,
            next: 0,
            beyond: RangeSet::default(),
            recent: List::default(),
            end: None,
            consumed: 0,
            told_window: capacity,
            due: Due::Never,
            unanswered: 0,
            receipts: List::default(),
            feedback: RouterFeedback::None,
        }
    }

    /// The peer's first sequence number.
    pub(crate) fn first_sequence(&self) -> u32 {
        self.first_sequence
    }

    /// A packet with payload, the stream's end or a question arrives. `arrived_at` is the time it reached this host.
    pub(crate) fn on_packet(&mut self, now: Time, packet: &Packet, ecn: Ecn, arrived_at: Time) -> Option<Fresh> {
        debug_assert_eq!(packet.kind, Kind::Data);
        if packet.sequence_len() == 0 {
            if packet.ping {
                self.due = Due::Now;
            }
            return None;
        }
        let start = unwrap(self.next, packet.sequence.wrapping_sub(self.first_sequence));
        let payload_end = start + u64::from(packet.payload);
        let stop = payload_end + u64::from(packet.fin);
        // The window bounds what may be kept; a stream ends once.
        let fits = payload_end <= self.consumed + self.capacity;
        let end_known = self.end.is_some_and(|end| payload_end > end || (packet.fin && payload_end != end));
        let held_past_end = packet.fin && self.beyond.iter().next_back().is_some_and(|(_, e)| e > payload_end + 1);
        if !fits || end_known || held_past_end {
            self.due = Due::Now; // tells the peer where we are
            return None;
        }
        if self.receipts.is_full() {
            // Can't happen while every second packet is answered, unless the world is slow to take our packets.
            let latest = self.receipts[MAX_RECEIPTS - 1];
            self.receipts.clear();
            self.receipts.push(latest);
        }
        self.receipts.push(Receipt { number: packet.number, ecn, received_at: arrived_at });
        self.feedback = match (self.feedback, packet.feedback) {
            (old, RouterFeedback::None) => old,
            // Changes of the window add up, where one acknowledgement answers several packets.
            (RouterFeedback::Xcp { change: before, .. }, RouterFeedback::Xcp { window, rtt, change }) => {
                RouterFeedback::Xcp { window, rtt, change: before.saturating_add(change) }
            }
            (_, new) => new,
        };
        if packet.fin {
            self.end = Some(payload_end);
        }

        let had_hole = !self.beyond.is_empty();
        let in_order = start <= self.next;
        let old = stop <= self.next;
        let mut fresh: Option<(u64, u64)> = None;
        if in_order {
            fresh = (!old).then_some((self.next, stop));
            self.next = self.next.max(stop);
            while let Some((s, e)) = self.beyond.first().filter(|&(s, _)| s <= self.next) {
                // Parts of the packet that were already held are handed out again; the same bytes, so no harm.
                debug_assert!(s <= self.next);
                self.next = self.next.max(e);
                self.beyond.remove_below(e);
            }
        } else if self.beyond.insert(start, stop, |s, e| fresh = Some(fresh.map_or((s, e), |(first, _)| (first, e)))) {
            self.note_recent(start);
        } else {
            self.due = Due::Now;
            return None;
        }

        self.unanswered += 1;
        let first = start == 0;
        let urgent = !in_order || old || had_hole || packet.fin || first || packet.ping;
        // RFC 5681 section 4.2: at least every second packet, at once when it is out of order or fills a hole.
        if urgent || self.delayed_ack == Duration::ZERO || self.unanswered >= MAX_RECEIPTS as u32 {
            self.due = Due::Now;
        } else if self.due == Due::Never {
            self.due = Due::At(now + self.delayed_ack);
        }
        let (from, to) = fresh?;
        let to = to.min(payload_end);
        (from < to).then(|| Fresh { offset: from, skip: (from - start) as usize, len: (to - from) as usize })
    }

    fn note_recent(&mut self, start: u64) {
        let mut recent = List::default();
        recent.push(start);
        for &other in self.recent.iter() {
            let same = self.beyond.containing(other) == self.beyond.containing(start);
            if !same && other > self.next {
                recent.push(other);
            }
        }
        self.recent = recent;
    }

    /// Everything before this has arrived.
    pub(crate) fn arrived(&self) -> u64 {
        self.end.map_or(self.next, |end| self.next.min(end))
    }

    /// The whole stream has arrived.
    pub(crate) fn is_done(&self) -> bool {
        self.end.is_some_and(|end| self.next > end)
    }

    /// The application has taken `bytes` more.
    pub(crate) fn consume(&mut self, bytes: u64) {
        self.consumed = self.consumed.saturating_add(bytes).min(self.arrived());
        // A window that was nearly shut and opens well is worth telling (RFC 9293 section 3.8.6.2.2).
        let opened = (self.consumed + self.capacity).saturating_sub(self.told_window);
        let nearly_shut = self.told_window.saturating_sub(self.next) < self.capacity / 4;
        if nearly_shut && opened >= self.capacity / 2 {
            self.due = Due::Now;
        }
    }

    /// Answers at the next chance.
    pub(crate) fn answer_now(&mut self) {
        self.due = Due::Now;
    }

    pub(crate) fn wants_to_answer(&self, now: Time) -> bool {
        match self.due {
            Due::Never => false,
            Due::At(at) => at <= now,
            Due::Now => true,
        }
    }

    pub(crate) fn deadline(&self) -> Time {
        match self.due {
            Due::At(at) => at,
            Due::Never | Due::Now => Time::MAX,
        }
    }

    /// Writes what this end has received into a packet about to leave.
    pub(crate) fn fill(&mut self, packet: &mut Packet) {
        packet.acknowledgement = self.first_sequence.wrapping_add(self.next as u32);
        let window_end = self.consumed + self.capacity;
        let window = window_end.saturating_sub(self.next).min(u64::from(u32::MAX >> 2));
        packet.window = window as u32;
        self.told_window = self.next + window;
        packet.receipts = self.receipts;
        packet.echoed_feedback = std::mem::take(&mut self.feedback);
        packet.sacks = self.sacks();
        self.receipts.clear();
        self.due = Due::Never;
        self.unanswered = 0;
    }

    fn sacks(&self) -> List<Sack, MAX_SACKS> {
        let mut sacks = List::default();
        if self.beyond.is_empty() {
            return sacks;
        }
        let mut told: List<(u64, u64), MAX_SACKS> = List::default();
        let recent = self.recent.iter().filter_map(|&at| self.beyond.containing(at));
        for range in recent.chain(self.beyond.iter()) {
            if told.is_full() {
                break;
            }
            if !told.contains(&range) {
                told.push(range);
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
