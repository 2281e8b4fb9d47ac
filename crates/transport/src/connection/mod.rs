//! One connection: a handshake, two streams, an end.
//!
//! ```text
//! opener   Syn ──────► SynAck ──────► Data ...                 two-way handshake; its round trip seeds the controller
//! accepter      (half open until the opener's first Data packet, which proves its address)
//! end      each side's Data with `fin`, acknowledged; or Reset at any time
//! ```
//!
//! A host that does not see the packets cannot guess the first sequence number of either side, which has 32 random
//! bits. Every packet that could do harm must contain one, as in TCP (RFC 9293 section 3.10.7, RFC 5961): a `SynAck`
//! and the opener's first `Data` acknowledge the other side's, a `Reset` repeats that of its own side. Before this
//! proof no data is sent, and a `SynAck` is not longer than its `Syn`: forged senders cannot make a host flood a third
//! one.

mod timers;

use rampmeter_manager::{FlowId, Grant};
use rampmeter_units::{Bytes, Duration, Ecn, Time};
use rampmeter_wire::{Kind, List, Packet, RouterFeedback, encoded_len, unwrap};
use rand::RngCore;

use crate::config::Config;
use crate::connection_id::ConnectionId;
use crate::ecn_validation::{EcnState, EcnValidation};
use crate::limits::{LimitMeter, Limits, Waits};
use crate::proof::place;
use crate::receiver::{Fresh, Receiver};
use crate::sender::{PacketFeedback, Sender};
use crate::size_probe::SizeProbe;

/// The maximum number of handshake attempts.
const MAX_ATTEMPTS: usize = 16;

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The `Syn` has been sent.
    Opening,
    /// The `Syn` has been answered; its sender has not yet shown that it receives this host's packets.
    HalfOpen,
    /// Both streams are open.
    Open,
    /// Both streams are complete; retransmissions of the peer are still acknowledged.
    Lingering,
    /// The connection has ended.
    Closed(CloseReason),
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// Both streams were delivered completely.
    Finished,
    /// The peer reset it.
    Reset,
    /// This side reset it.
    Aborted,
    /// No feedback arrived for too long.
    TimedOut,
    /// The peer claimed that packets have arrived that were never sent.
    FalseFeedback,
}

/// The counters of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Packets with payload sent, retransmissions included.
    pub data_packets: u64,
    /// Retransmissions among them.
    pub retransmitted: u64,
    /// Bytes of this side's stream that the peer has acknowledged.
    pub acknowledged: u64,
    /// Bytes of the peer's stream that have arrived in order.
    pub arrived: u64,
    /// Packets that counted as lost. Retransmissions are more: a tail loss probe may repeat what has arrived.
    pub lost: u64,
    /// Those of them that arrived after all.
    pub spurious: u64,
    /// The number of retransmission timeouts.
    pub timeouts: u64,
    /// Smoothed round-trip time.
    pub smoothed_rtt: Duration,
    /// Minimum round-trip time.
    pub min_rtt: Duration,
    /// The time at which both streams were delivered. Later packets only let the peer know it.
    pub delivered_at: Option<Time>,
    /// What stopped this side from sending, other than the controller.
    pub limits: Limits,
}

/// The result of an arriving packet.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Outcome {
    pub(crate) feedback: Option<PacketFeedback>,
    pub(crate) fresh: Option<Fresh>,
    pub(crate) opened: Option<(Duration, RouterFeedback)>,
}

/// One connection. Driven by its [`crate::Endpoint`].
#[derive(Debug)]
pub struct Connection {
    pub(crate) config: Config,
    pub(crate) state: State,
    pub(crate) flow: FlowId,
    /// This side's id, which the peer puts into its packets.
    pub(crate) local: u32,
    /// The peer's id.
    pub(crate) remote: u32,
    /// The peer opened it.
    pub(crate) accepted: bool,
    /// The handshake was completed.
    pub(crate) opened: bool,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    /// The size of full packets now.
    pub(crate) packet: Bytes,
    pub(crate) size_probe: Option<SizeProbe>,
    /// The router feedback that the handshake requests, or returns.
    handshake_feedback: RouterFeedback,
    /// The send time of each handshake attempt. A `Syn` contains the number of its attempt (in `acknowledgement`), and
    /// its answer adds that number to the sequence number that it acknowledges. So a handshake with losses measures the
    /// round trip too.
    handshake_sent: List<Time, MAX_ATTEMPTS>,
    /// Accepter: the attempt number of the latest `Syn`.
    attempt: u32,
    /// The time at which to repeat the `Syn`, to prove again that the `SynAck` arrived, or to stop lingering.
    handshake_timer: Time,
    handshake_timeouts: u32,
    /// The time at which to send a keep-alive probe.
    keep_alive_timer: Time,
    /// Keep-alive probes since the peer's last packet.
    keep_alive_probes: u32,
    /// A `Syn` or `SynAck` has to be sent.
    handshake_due: bool,
    ping_due: bool,
    statistics: Statistics,
    pub(crate) limits: LimitMeter,
    pub(crate) ecn: EcnValidation,
}

impl Connection {
    pub(crate) fn open(config: Config, flow: FlowId, local: u32, feedback: RouterFeedback) -> Self {
        Self::new(config, flow, local, State::Opening, feedback)
    }

    /// `syn` is the peer's packet.
    pub(crate) fn accept(config: Config, flow: FlowId, local: u32, syn: &Packet) -> Self {
        let mut connection = Self::new(config, flow, local, State::HalfOpen, syn.feedback);
        connection.remote = syn.number;
        connection.attempt = syn.acknowledgement;
        connection.receiver = Receiver::new(&connection.config, syn.sequence);
        connection.sender.on_window(u64::from(syn.window), u64::from(syn.window));
        connection
    }

    fn new(config: Config, flow: FlowId, local: u32, state: State, feedback: RouterFeedback) -> Self {
        Self {
            state,
            flow,
            local,
            remote: 0,
            accepted: state == State::HalfOpen,
            opened: false,
            sender: Sender::new(&config),
            receiver: Receiver::new(&config, 0),
            packet: config.packet,
            size_probe: None,
            config,
            handshake_feedback: feedback,
            handshake_sent: List::default(),
            attempt: 0,
            handshake_timer: Time::MAX,
            handshake_timeouts: 0,
            keep_alive_timer: Time::MAX,
            keep_alive_probes: 0,
            handshake_due: true,
            ping_due: false,
            statistics: Statistics::default(),
            limits: LimitMeter::default(),
            ecn: EcnValidation::default(),
        }
    }

    /// Handles a packet that reached this host at `arrived_at` and is read now; `shown` is that time by the host's
    /// clock, as reported to the peer. Writes the new `outcome`.
    pub(crate) fn on_packet(
        &mut self,
        now: Time,
        packet: &Packet,
        ecn: Ecn,
        arrived_at: Time,
        shown: Time,
        outcome: &mut Outcome,
    ) {
        match (packet.kind, self.state) {
            (Kind::Syn, State::HalfOpen) => {
                self.handshake_due = true;
                self.attempt = packet.acknowledgement;
                if packet.feedback == RouterFeedback::None {
                    self.handshake_feedback = RouterFeedback::None; // an answer is not longer than the `Syn`
                }
            }
            (_, State::Closed(_)) | (Kind::Syn, _) | (Kind::SynAck, State::HalfOpen) | (Kind::Data, State::Opening) => {
            }
            (Kind::SynAck, State::Opening) => {
                let attempt = packet.acknowledgement.wrapping_sub(self.sender.sequence(0));
                let Some(&sent) = self.handshake_sent.get(attempt as usize) else { return };
                self.remote = packet.number;
                self.receiver = Receiver::new(&self.config, packet.sequence);
                outcome.opened =
                    Some((self.opened(now, arrived_at.since(sent), packet.window), packet.echoed_feedback));
                // Proves this host's address to the peer, also without data to send, and repeatedly until a packet
                // arrives.
                self.receiver.acknowledge_now();
                self.handshake_timeouts = 0;
                self.handshake_timer = now + self.config.syn_timeout;
            }
            (Kind::SynAck, _) => self.receiver.acknowledge_now(),
            (Kind::Reset, _) => {
                let is_genuine = self.state != State::Opening && packet.sequence == self.receiver.first_sequence;
                // With `fin` the peer has ended the connection completely, and no longer acknowledges.
                if is_genuine && packet.fin && self.receiver.is_done() && self.sender.is_sent() {
                    self.sender.on_all_received();
                    self.statistics.delivered_at.get_or_insert(now);
                    self.state = State::Closed(CloseReason::Finished);
                } else if is_genuine {
                    self.state = State::Closed(CloseReason::Reset);
                }
            }
            (Kind::Data, State::HalfOpen | State::Open | State::Lingering) => {
                if self.state == State::HalfOpen {
                    if packet.acknowledgement != self.sender.sequence(0) {
                        return;
                    }
                    // The answer may be to any of the repeated `SynAck`s. The first one gives the longest round trip: a
                    // shorter one than the path's would remain as the minimum, and let timers expire early.
                    let sent = self.handshake_sent.first().copied().unwrap_or(arrived_at);
                    outcome.opened =
                        Some((self.opened(now, arrived_at.since(sent), packet.window), RouterFeedback::None));
                } else if self.state == State::Open {
                    self.handshake_timer = Time::MAX;
                }
                if !self.sender.verify(packet) {
                    self.state = State::Closed(CloseReason::FalseFeedback);
                    return;
                }
                // The search for the size of packets needs all feedback.
                let reports_nothing = !self.config.searches_packet_size() && self.sender.awaits_nothing(packet);
                let is_valid = if reports_nothing {
                    self.sender.on_window_of(packet);
                    true
                } else {
                    let feedback = outcome.feedback.insert(PacketFeedback::default());
                    self.sender.on_packet(now, packet, arrived_at, feedback)
                };
                if is_valid {
                    outcome.fresh = self.receiver.on_packet(now, packet, ecn, shown);
                    self.on_any_packet(now);
                } else {
                    outcome.feedback = None;
                }
                self.check_end(now);
            }
        }
    }

    fn opened(&mut self, now: Time, measured: Duration, window: u32) -> Duration {
        let rtt = measured.max(Duration::from_nanos(1));
        self.sender.on_handshake(rtt, window);
        self.state = State::Open;
        self.on_any_packet(now);
        self.opened = true;
        self.handshake_timer = Time::MAX;
        self.handshake_due = false;
        rtt
    }

    fn on_any_packet(&mut self, now: Time) {
        if let Some(interval) = self.config.keep_alive {
            self.keep_alive_timer = now + interval;
            self.keep_alive_probes = 0;
        }
    }

    fn check_end(&mut self, now: Time) {
        if self.state == State::Open && self.sender.is_done() && self.receiver.is_done() {
            self.state = State::Lingering;
            self.statistics.delivered_at = Some(now);
            // Long enough for a retransmission of the peer's last packet if its acknowledgement was lost.
            let timeout = self.sender.rtt.timeout(self.config.syn_timeout, self.config.min_rto);
            self.handshake_timer = now + timeout * 3;
        }
    }

    /// Writes the next packet that needs no grant into the new `packet`: handshake, acknowledgement, window probe. False
    /// if there is none.
    pub(crate) fn transmit_control(&mut self, now: Time, packet: &mut Packet) -> bool {
        if self.handshake_due && matches!(self.state, State::Opening | State::HalfOpen) {
            self.handshake_due = false;
            if self.handshake_timer == Time::MAX {
                self.handshake_timer = now + self.config.syn_timeout;
            }
            self.handshake_sent.push(now);
            self.begin(packet);
            packet.number = self.local;
            packet.window = self.receiver.window_bytes().as_u64() as u32;
            if self.state == State::Opening {
                packet.kind = Kind::Syn;
                packet.acknowledgement = self.handshake_sent.len() as u32 - 1;
                packet.feedback = self.handshake_feedback;
            } else {
                packet.kind = Kind::SynAck;
                packet.acknowledgement = self.receiver.first_sequence.wrapping_add(self.attempt);
                packet.echoed_feedback = self.handshake_feedback;
            }
            return true;
        }
        if let (State::Open, Some(probe)) = (self.state, &mut self.size_probe)
            && probe.is_waiting()
        {
            (packet.number, packet.probe) = (probe.leave(now, &mut self.sender), true);
            self.begin(packet);
            self.receiver.write_feedback(packet);
            return true;
        }
        let streams = matches!(self.state, State::Open | State::Lingering);
        if streams && (self.receiver.should_acknowledge(now) || self.ping_due) {
            self.begin(packet);
            packet.ping = std::mem::take(&mut self.ping_due);
            self.receiver.write_feedback(packet);
            return true;
        }
        false
    }

    /// The zeros that follow a control packet in its datagram.
    pub(crate) fn padding(&self, packet: &Packet) -> u16 {
        let Some(probe) = self.size_probe.as_ref().filter(|_| packet.probe) else { return 0 };
        let headers = encoded_len(packet) + self.config.overhead.as_u64() as usize;
        (probe.size.as_u64() as usize).saturating_sub(headers) as u16
    }

    /// Writes what all packets contain into a new one.
    fn begin(&self, packet: &mut Packet) {
        (packet.connection, packet.sequence) = (self.remote, self.sender.sequence(0));
    }

    #[inline]
    pub(crate) fn wants_to_send(&mut self) -> bool {
        self.state == State::Open && self.sender.wants_to_send()
    }

    /// Records what the connection waits for from `now` on. `wants_to_send` is its answer to that question.
    #[inline]
    pub(crate) fn measure(&mut self, now: Time, wants_to_send: bool) {
        let (sender, scoreboard) = (&self.sender, &self.sender.scoreboard);
        let waits = if wants_to_send || self.state == State::Opening {
            Waits::Network
        } else if sender.unsent() > 0 && !scoreboard.has_holes() {
            Waits::ReceiveWindow
        } else if sender.unsent() > 0 || !scoreboard.is_empty() {
            Waits::Network
        } else {
            Waits::Application
        };
        self.limits.update(now, waits);
    }

    /// A packet waits that may leave although the window is full.
    pub(crate) fn wants_to_probe(&self) -> bool {
        self.state == State::Open && self.sender.wants_to_probe()
    }

    /// Whether a control packet is due.
    pub(crate) fn wants_control(&self, now: Time) -> bool {
        let has_probe = self.state == State::Open && self.size_probe.as_ref().is_some_and(SizeProbe::is_waiting);
        self.handshake_due || self.ping_due || has_probe || self.receiver.should_acknowledge(now)
    }

    /// Writes the next data packet into the new `packet`. Returns the offset of its payload in the stream, and its size
    /// on the wire.
    pub(crate) fn transmit(
        &mut self,
        now: Time,
        grant: &Grant,
        random: &mut dyn RngCore,
        packet: &mut Packet,
    ) -> Option<(u64, Bytes)> {
        // The requested data may have been delivered since; acknowledgements then wait for another packet.
        if self.state != State::Open || !self.sender.wants_to_send() {
            return None;
        }
        self.begin(packet);
        packet.feedback = grant.feedback;
        // The packet carries acknowledgements; the rest is available for payload.
        self.receiver.write_feedback(packet);
        let headers = encoded_len(packet) + self.config.overhead.as_u64() as usize;
        let largest = grant.bytes.min(self.packet).as_u64() as usize;
        // A packet carries at least one byte, even with a grant smaller than the headers.
        let space = largest.saturating_sub(headers).clamp(1, usize::from(u16::MAX)) as u16;
        let piece = self.sender.next_piece(space)?;
        packet.sequence = self.sender.sequence(piece.start);
        packet.payload = piece.payload;
        packet.fin = piece.fin;
        let bytes = (headers + usize::from(piece.payload)) as u32;
        let secret = if self.config.requires_proofs() { random.next_u32() as u8 } else { 0 };
        packet.number = self.sender.sent(now, piece, bytes, grant.number, secret);
        self.statistics.data_packets += u64::from(piece.payload > 0);
        self.limits.on_departure(now);
        Some((piece.start, Bytes::new(bytes.into())))
    }

    /// Sends a packet that the peer answers, soon.
    pub(crate) fn probe(&mut self) {
        self.ping_due = self.state == State::Open;
    }

    pub(crate) fn reset(&self) -> Packet {
        Packet { sequence: self.sender.sequence(0), kind: Kind::Reset, connection: self.remote, ..Packet::default() }
    }

    /// Bytes of the peer's stream that have arrived without a hole.
    pub fn arrived(&self) -> u64 {
        self.receiver.arrived()
    }

    /// Whether the peer's stream has arrived completely.
    pub fn is_received(&self) -> bool {
        self.receiver.is_done()
    }

    /// The place of a packet with `number` among the packets that the peer has sent, near `last`.
    pub fn place(&self, last: u64, number: u32) -> u64 {
        if self.config.requires_proofs() { place(last, number) } else { unwrap(last, number) }
    }

    /// Bytes of this side's stream that the peer has acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.sender.acknowledged()
    }

    /// Bytes of this side's stream that have never been sent.
    pub fn unsent(&self) -> u64 {
        self.sender.unsent()
    }

    /// Whether this side's stream has been delivered completely.
    pub fn is_delivered(&self) -> bool {
        self.sender.is_done()
    }

    /// The peer's id for this connection; valid once it is open.
    pub fn peer(&self) -> ConnectionId {
        ConnectionId::from_number(self.remote)
    }

    /// The state of the connection.
    pub fn state(&self) -> State {
        self.state
    }

    /// Bytes in flight, headers included.
    pub fn in_flight(&self) -> Bytes {
        self.sender.scoreboard.in_flight
    }

    /// The offset in the peer's stream of the payload of a packet that has just arrived.
    pub fn offset_of(&self, packet: &Packet) -> u64 {
        self.receiver.offset(packet.sequence)
    }

    /// The offsets in the stream of what counts as lost and has not been sent again.
    pub fn lost(&self) -> impl Iterator<Item = u64> {
        self.sender.scoreboard.lost()
    }

    /// Its timers, by the names that qlog has for such timers; [`Time::MAX`] for those that are not set.
    pub fn timers(&self) -> [(&'static str, Time); 4] {
        [
            ("loss_timeout", self.sender.deadline()),
            ("ack", self.receiver.deadline()),
            ("handshake_timeout", self.handshake_timer),
            ("idle_timeout", self.keep_alive_timer),
        ]
    }

    /// What is known about ECN on the path of the packets that this side sends. `Testing` if they have no code, or if it is
    /// the scheme's own.
    pub fn ecn_state(&self) -> EcnState {
        self.ecn.state()
    }

    /// The counters of the connection.
    pub fn statistics(&self) -> Statistics {
        let rtt = &self.sender.rtt;
        Statistics {
            retransmitted: self.sender.retransmitted,
            acknowledged: self.acknowledged(),
            arrived: self.arrived(),
            lost: self.sender.lost,
            spurious: self.sender.spurious,
            smoothed_rtt: rtt.smoothed(),
            min_rtt: rtt.min(),
            limits: self.limits.limits(),
            ..self.statistics
        }
    }
}
