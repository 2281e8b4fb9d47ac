//! One connection: a handshake, two streams, an end.
//!
//! ```text
//! opener   Syn ──────► SynAck ──────► Data ...                 two-way handshake; its round trip seeds the controller
//! accepter      (half open until the opener's first Data packet, which proves its address)
//! end      each side's Data with `fin`, acknowledged; or Reset at any time
//! ```
//!
//! A stranger who does not see the packets guesses neither side's first sequence number, 32 random bits. Whatever could
//! hurt must show one, as in TCP (RFC 9293 section 3.10.7, RFC 5961): a `SynAck` and the opener's first `Data`
//! acknowledge the other side's, a `Reset` repeats its own. Nobody is sent data before that, nor a `SynAck` that is
//! longer than the `Syn` it answers: forged senders can't make a host flood a third one.

use rampmeter_manager::{FlowId, Grant, RttEstimator};
use rampmeter_units::{Bytes, Duration, Ecn, Time};
use rampmeter_wire::{Kind, List, Packet, RouterFeedback, UDP_BYTES, encoded_len};

use crate::config::Config;
use crate::connection_id::ConnectionId;
use crate::receiver::{Fresh, Receiver};
use crate::sender::{Learnt, Sender};

/// Attempts at a handshake at most.
const MAX_ATTEMPTS: usize = 16;

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The `Syn` has been sent.
    Opening,
    /// The `Syn` has been answered; its sender has yet to show that it gets our packets.
    HalfOpen,
    /// Streams flow.
    Open,
    /// Both streams are complete; lost last acknowledgements are still answered.
    Lingering,
    /// Over.
    Closed(CloseReason),
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// Both streams were delivered whole.
    Finished,
    /// The peer reset it.
    Reset,
    /// This end reset it.
    Aborted,
    /// Nothing came back for too long.
    TimedOut,
}

/// What a connection has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Packets with payload sent, retransmissions included.
    pub data_packets: u64,
    /// Retransmissions among them.
    pub retransmitted: u64,
    /// Times the retransmission timer ran out.
    pub timeouts: u64,
    /// Smoothed round-trip time.
    pub smoothed_rtt: Duration,
    /// Least round-trip time.
    pub min_rtt: Duration,
    /// When both streams had been delivered, if they were. What follows only makes sure that the peer knows.
    pub delivered_at: Option<Time>,
}

/// What a packet brought.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Outcome {
    pub(crate) learnt: Option<Learnt>,
    pub(crate) fresh: Option<Fresh>,
    pub(crate) opened: Option<(Duration, RouterFeedback)>,
}

/// One connection. Driven by its [`crate::Endpoint`].
#[derive(Debug)]
pub struct Connection {
    config: Config,
    pub(crate) state: State,
    pub(crate) flow: FlowId,
    /// Our id: the peer puts it into its packets.
    pub(crate) local: u32,
    /// The peer's id.
    pub(crate) remote: u32,
    accepted: bool,
    opened: bool,
    sender: Sender,
    receiver: Receiver,
    /// What the handshake asks routers, or brings back from them.
    handshake_feedback: RouterFeedback,
    /// When each attempt at the handshake left. A `Syn` says which attempt it is (in `acknowledgement`) and its answer
    /// adds that to the sequence number that it acknowledges, so that a handshake with losses measures the round trip
    /// too.
    handshake_sent: List<Time, MAX_ATTEMPTS>,
    /// Accepter: the attempt that the latest `Syn` was.
    attempt: u32,
    /// When to send the `Syn` again, to show the peer again that its `SynAck` arrived, or to stop lingering.
    handshake_timer: Time,
    handshake_timeouts: u32,
    /// When to ask a silent peer for a sign of life.
    silence_timer: Time,
    /// Questions since the last one.
    questions: u32,
    /// A `Syn` or `SynAck` is to leave.
    handshake_due: bool,
    ping_due: bool,
    statistics: Statistics,
}

impl Connection {
    pub(crate) fn open(config: Config, flow: FlowId, local: u32, feedback: RouterFeedback) -> Self {
        Self::new(config, flow, local, State::Opening, feedback)
    }

    /// `syn` is the peer's.
    pub(crate) fn accept(config: Config, flow: FlowId, local: u32, syn: &Packet) -> Self {
        let mut connection = Self::new(config, flow, local, State::HalfOpen, syn.feedback);
        connection.remote = syn.number;
        connection.attempt = syn.acknowledgement;
        connection.receiver = Receiver::new(&connection.config, syn.sequence);
        connection.sender.on_handshake(Duration::ZERO, syn.window);
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
            config,
            handshake_feedback: feedback,
            handshake_sent: List::default(),
            attempt: 0,
            handshake_timer: Time::MAX,
            handshake_timeouts: 0,
            silence_timer: Time::MAX,
            questions: 0,
            handshake_due: true,
            ping_due: false,
            statistics: Statistics::default(),
        }
    }

    /// A packet reached this host at `arrived_at` and is read now; `shown` is what the host's clock shows its peer for
    /// that time.
    pub(crate) fn on_packet(&mut self, now: Time, packet: &Packet, ecn: Ecn, arrived_at: Time, shown: Time) -> Outcome {
        let mut outcome = Outcome::default();
        match (packet.kind, self.state) {
            (Kind::Syn, State::HalfOpen) => {
                self.handshake_due = true;
                self.attempt = packet.acknowledgement;
                if packet.feedback == RouterFeedback::None {
                    self.handshake_feedback = RouterFeedback::None; // an answer is no longer than the question
                }
            }
            (_, State::Closed(_)) | (Kind::Syn, _) | (Kind::SynAck, State::HalfOpen) | (Kind::Data, State::Opening) => {
            }
            (Kind::SynAck, State::Opening) => {
                let attempt = packet.acknowledgement.wrapping_sub(self.sender.sequence(0));
                let Some(&sent) = self.handshake_sent.get(attempt as usize) else { return outcome };
                self.remote = packet.number;
                self.receiver = Receiver::new(&self.config, packet.sequence);
                outcome.opened =
                    Some((self.opened(now, arrived_at.since(sent), packet.window), packet.echoed_feedback));
                // Proves our address to the peer, also if we have nothing to send, until something comes back.
                self.receiver.answer_now();
                self.handshake_timeouts = 0;
                self.handshake_timer = now + self.config.syn_timeout;
            }
            (Kind::SynAck, _) => self.receiver.answer_now(),
            (Kind::Reset, _) => {
                let proved = self.state != State::Opening && packet.sequence == self.receiver.first_sequence();
                if proved {
                    self.state = State::Closed(CloseReason::Reset);
                }
            }
            (Kind::Data, State::HalfOpen | State::Open | State::Lingering) => {
                if self.state == State::HalfOpen {
                    if packet.acknowledgement != self.sender.sequence(0) {
                        return outcome;
                    }
                    let sent = self.handshake_sent.last().copied().unwrap_or(arrived_at);
                    outcome.opened =
                        Some((self.opened(now, arrived_at.since(sent), packet.window), RouterFeedback::None));
                } else if self.state == State::Open {
                    self.handshake_timer = Time::MAX;
                }
                outcome.learnt = self.sender.on_packet(now, packet, arrived_at);
                if outcome.learnt.is_some() {
                    outcome.fresh = self.receiver.on_packet(now, packet, ecn, shown);
                    self.on_sign_of_life(now);
                }
                self.check_end(now);
            }
        }
        outcome
    }

    fn opened(&mut self, now: Time, measured: Duration, window: u32) -> Duration {
        let rtt = measured.max(Duration::from_nanos(1));
        self.sender.on_handshake(rtt, window);
        self.state = State::Open;
        self.on_sign_of_life(now);
        self.opened = true;
        self.handshake_timer = Time::MAX;
        self.handshake_due = false;
        rtt
    }

    fn on_sign_of_life(&mut self, now: Time) {
        if let Some(silence) = self.config.keep_alive {
            self.silence_timer = now + silence;
            self.questions = 0;
        }
    }

    fn on_silence(&mut self, now: Time) {
        if self.sender.timer() < Time::MAX {
            self.on_sign_of_life(now); // the retransmission timer asks already, and gives up
            return;
        }
        self.questions += 1;
        if self.questions > self.config.max_timeouts {
            self.state = State::Closed(CloseReason::TimedOut);
            return;
        }
        self.ping_due = true;
        let wait = self.sender.rtt().timeout(self.config.syn_timeout, self.config.min_rto);
        self.silence_timer = now + (wait * (1 << (self.questions - 1).min(16))).min(Config::MAX_RTO);
    }

    fn check_end(&mut self, now: Time) {
        if self.state == State::Open && self.sender.is_done() && self.receiver.is_done() {
            self.state = State::Lingering;
            self.statistics.delivered_at = Some(now);
            // Long enough for the peer's last packet to come again if our answer to it was lost.
            let timeout = self.sender.rtt().timeout(self.config.syn_timeout, self.config.min_rto);
            self.handshake_timer = now + timeout * 3;
        }
    }

    /// The next packet that needs no leave: handshake, acknowledgement, window probe.
    pub(crate) fn transmit_control(&mut self, now: Time) -> Option<Packet> {
        if self.handshake_due && matches!(self.state, State::Opening | State::HalfOpen) {
            self.handshake_due = false;
            if self.handshake_timer == Time::MAX {
                self.handshake_timer = now + self.config.syn_timeout;
            }
            self.handshake_sent.push(now);
            let mut packet = Packet {
                connection: self.remote,
                number: self.local,
                sequence: self.sender.sequence(0),
                window: self.receiver.window_bytes().as_u64() as u32,
                ..Packet::default()
            };
            if self.state == State::Opening {
                packet.kind = Kind::Syn;
                packet.acknowledgement = self.handshake_sent.len() as u32 - 1;
                packet.feedback = self.handshake_feedback;
            } else {
                packet.kind = Kind::SynAck;
                packet.acknowledgement = self.receiver.first_sequence().wrapping_add(self.attempt);
                packet.echoed_feedback = self.handshake_feedback;
            }
            return Some(packet);
        }
        let streams = matches!(self.state, State::Open | State::Lingering);
        if streams && (self.receiver.wants_to_answer(now) || self.ping_due) {
            let mut packet = self.header();
            packet.ping = std::mem::take(&mut self.ping_due);
            self.receiver.fill(&mut packet);
            return Some(packet);
        }
        None
    }

    fn header(&self) -> Packet {
        Packet { kind: Kind::Data, connection: self.remote, sequence: self.sender.sequence(0), ..Packet::default() }
    }

    pub(crate) fn wants_to_send(&mut self) -> bool {
        self.state == State::Open && self.sender.wants_to_send()
    }

    /// Whether a control packet is due.
    pub(crate) fn wants_control(&self, now: Time) -> bool {
        self.handshake_due || self.ping_due || self.receiver.wants_to_answer(now)
    }

    /// The next data packet, with the offset of its payload in the stream and its size on the wire.
    pub(crate) fn transmit(&mut self, now: Time, grant: &Grant) -> Option<(Packet, u64, Bytes)> {
        // What was asked for may have arrived since; acknowledgements then wait for another packet.
        if self.state != State::Open || !self.sender.wants_to_send() {
            return None;
        }
        let mut packet = self.header();
        packet.number = grant.number as u32;
        packet.feedback = grant.feedback;
        // Acknowledgements ride along; the rest of the packet is for payload.
        self.receiver.fill(&mut packet);
        let headers = encoded_len(&packet) + UDP_BYTES;
        let largest = grant.bytes.min(self.config.packet).as_u64() as usize;
        // A packet always has room for something: a grant below the headers still moves one byte.
        let room = largest.saturating_sub(headers).clamp(1, usize::from(u16::MAX)) as u16;
        let piece = self.sender.next_piece(room)?;
        packet.sequence = self.sender.sequence(piece.start);
        packet.payload = piece.payload;
        packet.fin = piece.fin;
        let bytes = (headers + usize::from(piece.payload)) as u32;
        self.sender.sent(now, piece, bytes, grant.number);
        self.statistics.data_packets += u64::from(piece.payload > 0);
        Some((packet, piece.start, Bytes::new(bytes.into())))
    }

    /// When [`Connection::on_deadline`] wants to be called.
    pub(crate) fn deadline(&self) -> Time {
        let timer = match self.state {
            State::Open => self.sender.timer().min(self.silence_timer),
            _ => Time::MAX,
        };
        timer.min(self.receiver.deadline()).min(self.handshake_timer)
    }

    pub(crate) fn on_deadline(&mut self, now: Time) -> Option<Learnt> {
        if self.handshake_timer <= now {
            self.on_handshake_timer(now);
        }
        if self.state == State::Open && self.silence_timer <= now {
            self.on_silence(now);
        }
        if self.receiver.deadline() <= now {
            self.receiver.answer_now();
        }
        if self.sender.timer() > now || self.state != State::Open {
            return None;
        }
        self.statistics.timeouts += 1;
        let (learnt, lost) = self.sender.on_timer(now);
        if self.sender.timeouts() > self.config.max_timeouts {
            self.state = State::Closed(CloseReason::TimedOut);
            return None;
        }
        self.ping_due = !lost && self.sender.timer() < Time::MAX;
        lost.then_some(learnt)
    }

    fn on_handshake_timer(&mut self, now: Time) {
        self.handshake_timer = Time::MAX;
        if self.state == State::Lingering {
            self.state = State::Closed(CloseReason::Finished);
            return;
        }
        self.handshake_timeouts += 1;
        if self.handshake_timeouts > self.config.max_timeouts.min(MAX_ATTEMPTS as u32 - 1) {
            self.state = State::Closed(CloseReason::TimedOut);
            return;
        }
        let wait = self.config.syn_timeout * (1 << self.handshake_timeouts.min(16));
        self.handshake_timer = now + wait.min(Config::MAX_RTO);
        // An accepter only waits: it sends nothing that it was not asked for.
        self.handshake_due |= self.state == State::Opening;
        self.ping_due |= self.state == State::Open;
    }

    pub(crate) fn largest_packet(&self) -> Bytes {
        self.config.packet
    }

    pub(crate) fn ecn(&self) -> Ecn {
        self.config.ecn
    }

    /// The peer opened it.
    pub(crate) fn was_accepted(&self) -> bool {
        self.accepted
    }

    /// The handshake was completed.
    pub(crate) fn was_opened(&self) -> bool {
        self.opened
    }

    /// The packet that tells the peer that this connection is over.
    pub(crate) fn reset(&self) -> Packet {
        Packet { sequence: self.sender.sequence(0), kind: Kind::Reset, connection: self.remote, ..Packet::default() }
    }

    /// The application adds `bytes` to the stream.
    pub fn write(&mut self, bytes: u64) {
        self.sender.write(bytes);
    }

    /// The application will write no more: the stream ends after what has been written.
    pub fn finish(&mut self) {
        self.sender.finish();
    }

    /// The application takes back what has not left yet and will write no more: the stream ends there.
    pub fn finish_early(&mut self) {
        self.sender.finish_early();
    }

    /// The application has taken `bytes` more of what arrived: room for as many.
    pub fn consume(&mut self, bytes: u64) {
        self.receiver.consume(bytes);
    }

    /// Bytes of the peer's stream that have arrived without a hole.
    pub fn arrived(&self) -> u64 {
        self.receiver.arrived()
    }

    /// The peer's stream has arrived whole.
    pub fn is_received(&self) -> bool {
        self.receiver.is_done()
    }

    /// Bytes of our stream that the peer has.
    pub fn acknowledged(&self) -> u64 {
        self.sender.acknowledged()
    }

    /// Our stream has been delivered whole.
    pub fn is_delivered(&self) -> bool {
        self.sender.is_done()
    }

    /// What the peer calls this connection; meaningful once it is open.
    pub fn peer(&self) -> ConnectionId {
        ConnectionId::from_number(self.remote)
    }

    /// Where it stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// Bytes in flight, headers included.
    pub fn in_flight(&self) -> Bytes {
        self.sender.in_flight()
    }

    /// What it has counted.
    pub fn statistics(&self) -> Statistics {
        let rtt: &RttEstimator = self.sender.rtt();
        Statistics {
            retransmitted: self.sender.retransmitted,
            smoothed_rtt: rtt.smoothed(),
            min_rtt: rtt.min(),
            ..self.statistics
        }
    }
}
