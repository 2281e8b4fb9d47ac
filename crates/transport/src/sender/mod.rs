//! The sending half of a connection: the next bytes to send, and the peer's state.

mod recovery;

use rampmeter_manager::{RttEstimator, UpdateLoss};
use rampmeter_units::{Bytes, Duration, Ecn, Time};
use rampmeter_wire::{Packet, unwrap};

use crate::config::{Config, Recovery};
use crate::proof::Proofs;
use crate::rack::Rack;
use crate::scoreboard::{Change, Scoreboard};
use crate::tail_probe::TailProbe;

/// The feedback of a packet, or of a timeout; the connection reports it to the manager.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PacketFeedback {
    pub(crate) change: Change,
    pub(crate) rtt: Option<Duration>,
    pub(crate) loss: Option<UpdateLoss>,
    pub(crate) flight_size: Bytes,
    pub(crate) recovering: bool,
    /// A packet may leave at once although the window is full.
    pub(crate) is_urgent: bool,
    /// All losses of the last recovery, or the last timeout, were spurious: the reaction to them is to be undone.
    pub(crate) is_undone: bool,
    /// The peer acknowledges every packet, and has combined several acknowledgements.
    pub(crate) is_combined: bool,
}

impl PacketFeedback {
    pub(crate) fn is_new(&self) -> bool {
        let change = &self.change;
        change.arrived_in_flight > Bytes::ZERO
            || change.delivered > Bytes::ZERO
            || !change.arrivals.is_empty()
            || self.loss.is_some()
    }

    /// The packets left as Not-ECT, so their marks are a fault of the path (RFC 9000 section 13.4.2.1), not congestion.
    pub(crate) fn ignore_marks(&mut self) {
        for arrival in self.change.arrivals.iter_mut().filter(|arrival| arrival.ecn == Ecn::Ce) {
            arrival.ecn = Ecn::NotEct;
        }
    }
}

/// A piece of the stream to put into a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    pub(crate) payload: u16,
    pub(crate) fin: bool,
    pub(crate) is_retransmission: bool,
}

/// What is known after a spurious timeout.
#[derive(Debug, Clone, Copy)]
struct Resumed {
    /// The order of the first packet that is sent since.
    order: u64,
    /// The longest round trip of packets that were sent before.
    rtt: Duration,
}

#[derive(Debug)]
pub(crate) struct Sender {
    recovery: Recovery,
    detect_lost_retransmissions: bool,
    delayed_ack: Duration,
    min_rto: Duration,
    first_sequence: u32,
    pub(crate) scoreboard: Scoreboard,
    /// Everything before this offset has been acknowledged.
    una: u64,
    /// Everything from this offset on has never been sent.
    next: u64,
    /// The offset up to which the application has written.
    written: u64,
    /// The application will write no more.
    finished: bool,
    fin_sent: bool,
    window_end: u64,
    /// The largest window that the peer has announced.
    max_window: u64,
    /// A piece at the end of the peer's window is not smaller, unless nothing is in flight.
    min_piece: u64,
    pub(crate) rtt: RttEstimator,
    /// The time at which the timer expires; [`Time::MAX`] while it is stopped.
    pub(crate) timer: Time,
    /// Timeouts since the last new delivery.
    pub(crate) timeouts: u32,
    /// Timeouts since the last measured round trip: each doubles the timeout.
    backoff: u32,
    /// The order of the first packet after the first timeout since the last new delivery. If a packet that was sent
    /// before arrives first, the timeout was spurious.
    timed_out_before: Option<u64>,
    /// After a spurious timeout, until a packet that was sent since is measured.
    resumed: Option<Resumed>,
    /// Packets that may leave although the window is full.
    extra: u64,
    /// In recovery until everything before this offset is acknowledged.
    recover: Option<u64>,
    /// The order of the first packet that was sent after the last reaction to a loss.
    reacted: u64,
    /// The losses of the last recovery that may still turn out to be spurious. `None` if others are certain.
    undoable: Option<u32>,
    /// The time at which a packet is lost unless it arrives before; [`Time::MAX`] for none.
    late_timer: Time,
    tail_probe: TailProbe,
    /// Duplicate acknowledgements are ignored until this offset is acknowledged (RFC 6582 section 3.2).
    no_recovery_before: u64,
    duplicates: u64,
    /// Duplicate acknowledgements that retransmissions after a spurious timeout will cause.
    expected_duplicates: u64,
    pub(crate) retransmitted: u64,
    /// Packets that counted as lost, and those of them that have arrived.
    pub(crate) lost: u64,
    pub(crate) spurious: u64,
}

impl Sender {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            recovery: config.recovery,
            detect_lost_retransmissions: config.detect_lost_retransmissions,
            delayed_ack: config.delayed_ack,
            min_rto: config.min_rto,
            first_sequence: config.first_sequence.unwrap_or_default(),
            scoreboard: Scoreboard::new(Proofs::new(config.requires_proofs()), config.packet.as_u64() as u32),
            una: 0,
            next: 0,
            written: 0,
            finished: false,
            fin_sent: false,
            window_end: 0,
            max_window: 0,
            min_piece: config.min_piece(),
            rtt: RttEstimator::default(),
            timer: Time::MAX,
            timeouts: 0,
            backoff: 0,
            timed_out_before: None,
            resumed: None,
            extra: 0,
            recover: None,
            reacted: 0,
            undoable: None,
            late_timer: Time::MAX,
            tail_probe: TailProbe::new(config.tail_loss_probe && config.recovery == Recovery::Sack),
            no_recovery_before: 0,
            duplicates: 0,
            expected_duplicates: 0,
            retransmitted: 0,
            lost: 0,
            spurious: 0,
        }
    }

    /// Round trips of another path say nothing about this one.
    pub(crate) fn on_new_path(&mut self) {
        (self.rtt, self.backoff, self.resumed) = (RttEstimator::default(), 0, None);
        self.scoreboard.rack = Rack::default();
    }

    /// The path may carry packets again: what has waited longer and longer is sent at once. The next timeout is a repeated
    /// one, so that controllers do not reduce their thresholds again (RFC 5681 section 3.1).
    pub(crate) fn retry(&mut self, now: Time) {
        if self.timeouts > 0 {
            (self.timeouts, self.backoff, self.timer) = (1, 1, now);
        }
    }

    pub(crate) fn on_handshake(&mut self, rtt: Duration, window: u32) {
        self.rtt.sample(rtt);
        self.on_window(u64::from(window), u64::from(window));
    }

    pub(crate) fn on_window(&mut self, window: u64, end: u64) {
        self.max_window = self.max_window.max(window);
        self.window_end = self.window_end.max(end);
    }

    pub(crate) fn write(&mut self, bytes: u64) {
        if !self.finished {
            self.written += bytes;
        }
    }

    pub(crate) fn finish(&mut self) {
        self.finished = true;
    }

    pub(crate) fn finish_early(&mut self) {
        if !self.fin_sent {
            self.written = self.next;
            self.finished = true;
        }
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.una.min(self.written)
    }

    /// Whether the stream has been sent to its end.
    pub(crate) fn is_sent(&self) -> bool {
        self.fin_sent
    }

    /// The peer has everything that was sent.
    pub(crate) fn on_all_received(&mut self) {
        self.una = self.next;
    }

    /// Bytes written and never sent.
    pub(crate) fn unsent(&self) -> u64 {
        self.written - self.next.min(self.written)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.finished && self.fin_sent && self.una > self.written
    }

    #[inline]
    pub(crate) fn wants_to_send(&mut self) -> bool {
        self.scoreboard.has_retransmissions() || self.has_new() || self.wants_to_probe()
    }

    /// Whether the next packet may leave although the window is full.
    pub(crate) fn is_urgent(&self) -> bool {
        self.extra > 0
    }

    /// A tail loss probe waits to leave: it may, although the window is full.
    pub(crate) fn wants_to_probe(&self) -> bool {
        self.tail_probe.is_due && (self.has_new() || self.scoreboard.last().is_some())
    }

    #[inline]
    fn has_new(&self) -> bool {
        let sendable = self.written.min(self.window_end).saturating_sub(self.next);
        // A window that opens by a few bytes at a time causes no packets of a few bytes (RFC 9293 section 3.8.6.2.1).
        let is_whole = self.written <= self.window_end || sendable >= self.min_piece.min(self.max_window / 2);
        let data = sendable > 0 && (is_whole || self.scoreboard.is_empty());
        let fin = self.finished && !self.fin_sent && self.next == self.written;
        data || fin
    }

    /// Unsent bytes wait, the peer's window is closed, and nothing is in flight that the peer would acknowledge.
    fn is_blocked(&self) -> bool {
        self.next < self.written && self.next >= self.window_end && self.scoreboard.is_empty()
    }

    /// The next piece, for a packet with space for `space` bytes of payload.
    pub(crate) fn next_piece(&mut self, space: u16) -> Option<Piece> {
        if let Some(segment) = self.scoreboard.next_retransmission() {
            let payload = segment.len - u32::from(segment.fin);
            let part = payload.min(u32::from(space));
            let fin = segment.fin && part == payload;
            return Some(Piece { start: segment.start, payload: part as u16, fin, is_retransmission: true });
        }
        if !self.has_new() {
            return self.probe_piece(space);
        }
        if space == 0 && self.next < self.written {
            return None;
        }
        let sendable = self.written.min(self.window_end).saturating_sub(self.next);
        let payload = sendable.min(u64::from(space));
        let fin = self.finished && self.next + payload == self.written;
        Some(Piece { start: self.next, payload: payload as u16, fin, is_retransmission: false })
    }

    /// The last segment again, whole, as a tail loss probe.
    fn probe_piece(&self, space: u16) -> Option<Piece> {
        let last = self.scoreboard.last().filter(|_| self.tail_probe.is_due)?;
        let payload = u16::try_from(last.len - u32::from(last.fin)).ok().filter(|&payload| payload <= space)?;
        Some(Piece { start: last.start, payload, fin: last.fin, is_retransmission: true })
    }

    /// The piece has been sent in a packet of `bytes`, which the manager calls `number`. Returns its number on the wire.
    pub(crate) fn sent(&mut self, now: Time, piece: Piece, bytes: u32, number: u64, secret: u8) -> u32 {
        self.extra = self.extra.saturating_sub(1);
        let on_wire = self.scoreboard.proofs.add(secret, number);
        let len = u32::from(piece.payload) + u32::from(piece.fin);
        if piece.is_retransmission {
            self.retransmitted += 1;
            if self.scoreboard.has_retransmissions() {
                self.scoreboard.on_retransmitted(len, bytes, number, now);
            } else {
                self.scoreboard.on_probe(bytes, number, now);
            }
        } else {
            self.scoreboard.push(piece.start, len, piece.fin, bytes, number, now);
            self.next += u64::from(len);
            self.fin_sent |= piece.fin;
        }
        if self.tail_probe.is_due {
            self.tail_probe.on_sent(self.next);
            self.timer = now + self.timeout(); // RFC 8985 section 7.3
        } else if self.timer == Time::MAX {
            self.timer = now + self.timeout(); // RFC 6298 (5.1)
        }
        self.arm_tail_probe(now);
        on_wire
    }

    /// Checks what a packet says about arrivals, before [`Sender::on_packet`]. False if it is a lie.
    pub(crate) fn verify(&mut self, packet: &Packet) -> bool {
        self.scoreboard.proofs.verify(packet)
    }

    /// Whether packets may be in flight.
    fn has_in_flight(&self) -> bool {
        !self.scoreboard.is_empty() || self.scoreboard.proofs.has_pending()
    }

    fn arm_tail_probe(&mut self, now: Time) {
        if !self.tail_probe.is_enabled() {
            return;
        }
        let is_open = self.recover.is_none() && self.timeouts == 0 && !self.scoreboard.has_holes();
        let may_be_lost = is_open && !self.scoreboard.is_empty();
        // RFC 8985 section 7.2; the peer may delay the acknowledgement of a single packet.
        let timeout = self.rtt.smoothed() * 2 + self.delayed_ack;
        self.tail_probe.arm(now, timeout, self.timer, may_be_lost);
    }

    pub(crate) fn sequence(&self, offset: u64) -> u32 {
        self.first_sequence.wrapping_add(offset as u32)
    }

    fn offset(&self, sequence: u32) -> u64 {
        unwrap(self.una, sequence.wrapping_sub(self.first_sequence))
    }

    /// Whether no bytes are in flight, and the packet acknowledges nothing new: then only its window counts.
    pub(crate) fn awaits_nothing(&self, packet: &Packet) -> bool {
        let is_old = self.sequence(self.una) == packet.acknowledgement;
        is_old && packet.receipts.is_empty() && !self.has_in_flight() && !self.is_blocked()
    }

    /// Handles a packet while this side awaits nothing.
    pub(crate) fn on_window_of(&mut self, packet: &Packet) {
        self.on_window(packet.window.into(), self.una + u64::from(packet.window));
    }

    /// Handles an acknowledgement that reached this host at `arrived_at`, and writes the new `feedback`. False if it
    /// acknowledges bytes never sent.
    pub(crate) fn on_packet(
        &mut self,
        now: Time,
        packet: &Packet,
        arrived_at: Time,
        feedback: &mut PacketFeedback,
    ) -> bool {
        let ack = self.offset(packet.acknowledgement);
        if ack > self.next {
            return false;
        }
        let advanced = ack > self.una;
        let window_end = ack + u64::from(packet.window);
        if !self.has_in_flight() && !advanced && !self.is_blocked() {
            // Its packets contain nothing new but its window, and receipts of packets that counted as lost.
            if ack == self.una {
                self.on_window_of(packet);
            }
            self.on_receipts(packet, arrived_at, feedback);
            self.measure(None, feedback);
            feedback.recovering = self.recover.is_some();
            return true;
        }
        feedback.flight_size = self.scoreboard.flight_size(self.una, self.next);
        let duplicate = ack == self.una
            && packet.payload == 0
            && !packet.fin
            && window_end == self.window_end
            && !self.scoreboard.is_empty();
        if ack >= self.una {
            self.on_window(packet.window.into(), window_end);
        }

        let change = &mut feedback.change;
        self.scoreboard.on_late_proofs(arrived_at, change);
        if advanced {
            self.una = ack;
            self.scoreboard.on_cumulative(ack, &packet.receipts, change);
        }
        if self.recovery == Recovery::Sack {
            for sack in packet.sacks.iter() {
                let (start, end) = (self.offset(sack.start), self.offset(sack.end));
                if self.una <= start && start < end && end <= self.next {
                    self.scoreboard.on_sack(start, end, &packet.receipts, change);
                }
            }
        }
        let in_order = feedback.change.arrivals.len();
        let last = feedback.change.arrivals.last().map(|last| arrived_at.since(last.sent_at));
        self.on_receipts(packet, arrived_at, feedback);
        self.measure(last, feedback);
        let change = &feedback.change;
        feedback.is_combined = self.delayed_ack == Duration::ZERO && change.arrivals.len() == in_order;
        let has_progress = advanced && !self.scoreboard.proofs.is_required();
        if has_progress || change.delivered > Bytes::ZERO || feedback.is_undone {
            self.timeouts = 0;
            self.timer = now + self.timeout(); // RFC 6298 (5.3)
        }
        if (advanced || change.delivered > Bytes::ZERO) && !self.has_in_flight() {
            self.timer = Time::MAX; // RFC 6298 (5.2)
        }
        self.find_losses(arrived_at, advanced, duplicate, feedback);
        if advanced || feedback.change.delivered > Bytes::ZERO {
            self.tail_probe.on_feedback(self.una);
            self.arm_tail_probe(now);
        }
        if self.is_blocked() {
            // A peer that answers is alive, however long its window is closed (RFC 9293 section 3.8.6.1).
            (self.timeouts, self.backoff) = (0, 0);
            if self.timer == Time::MAX {
                self.timer = now + self.timeout(); // probes the window
            }
        }
        true
    }

    /// Handles receipts, also of transmissions that counted as lost.
    fn on_receipts(&mut self, packet: &Packet, arrived_at: Time, feedback: &mut PacketFeedback) {
        self.scoreboard.on_receipts(&packet.receipts, arrived_at, &mut feedback.change);
        self.find_spurious_timeout(feedback);
        let spurious = feedback.change.spurious;
        if spurious == 0 {
            return;
        }
        self.spurious += u64::from(spurious);
        // TCP without selective acknowledgements has no such report: it repairs what needs no repair.
        if self.recovery != Recovery::Sack {
            return;
        }
        self.scoreboard.rack.on_spurious_loss(self.una, self.next);
        let spurious = feedback.change.spurious_in_episode;
        let left = self.undoable.map(|losses| losses.saturating_sub(spurious));
        self.undoable = left.filter(|&losses| losses > 0);
        if left == Some(0) {
            self.recover = None;
            feedback.is_undone = true;
        }
    }

    /// Takes the round trip of the `last` packet that is newly acknowledged, or of the last one that a receipt names,
    /// up to the arrival of the receipt: a delay of the reading host is not a part of the path. Receipts name
    /// transmissions, so a retransmission does not make it ambiguous (Karn's algorithm), nor does a presumed loss.
    ///
    /// A round trip ends the back-off. An acknowledgement without one does not (RFC 6298 section 5): while the path is
    /// longer than the timeout, the next packets would time out again. Packets that were on the path at a spurious timeout
    /// have waited for it, perhaps in an outage; until later ones are measured, they only keep the timer from expiring
    /// again.
    fn measure(&mut self, last: Option<Duration>, feedback: &mut PacketFeedback) {
        let Some((order, of_receipt)) = feedback.change.last_reported else { return };
        let rtt = last.filter(|_| self.resumed.is_none()).unwrap_or(of_receipt);
        match &mut self.resumed {
            Some(resumed) if order < resumed.order => {
                resumed.rtt = resumed.rtt.max(rtt);
                return;
            }
            Some(_) => self.rtt.on_spurious_timeout(rtt),
            None => self.rtt.sample(rtt),
        }
        (self.resumed, self.backoff) = (None, 0);
        feedback.rtt = Some(rtt);
    }

    pub(crate) fn timeout(&self) -> Duration {
        let base = self.rtt.timeout(Duration::from_secs(1), self.min_rto);
        let backed_off = base * (1 << self.backoff.min(16)); // RFC 6298 (5.5)
        let waited = self.resumed.map_or(Duration::ZERO, |resumed| resumed.rtt * 3 / 2);
        backed_off.max(waited).min(Config::MAX_RTO)
    }
}

#[cfg(test)]
mod tests;
