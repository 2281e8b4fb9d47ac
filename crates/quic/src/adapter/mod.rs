//! A controller of one connection.
//!
//! The controller starts with the first acknowledgement, which ends the stack's first round trip. Packets that were sent
//! before it are not reported to the controller, as those of the handshake in Rampmeter's own transport.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rampmeter_control::{
    Ack, AnyController, Arrival, Controller, History, Loss, LossKind, MarkCount, Notice, Path, RouterFeedback, Sent,
    spread,
};
use rampmeter_units::{Bytes, Duration, Ecn, Rate, Time};

use crate::Controllers;
use crate::in_flight::InFlight;

/// Idle times that are longer than so many round trips count as long: the first retransmission timeout of RFC 9002. That
/// of later ones depends on the variation, which quinn and noq do not publish.
const TIMEOUT_RTTS: u64 = 3;

/// quinn and noq send the packets of this time together.
const BURST: Duration = Duration::from_millis(2);

/// The packets beyond those of the rate: a receiver that acknowledges every second packet keeps one unreported.
const UNREPORTED: u64 = 1;

/// So many packets that are smaller than a full one are reported without an acknowledgement, as stacks keep 1000 of
/// acknowledgements alone, which the peer need not acknowledge.
const MAX_SMALL: u32 = 1000;

/// The smallest packet of QUIC (RFC 9001, section 5.4.2: the sample of the header's protection).
const MIN_PACKET: u64 = 21;

/// A packet that was acknowledged.
struct Delivered {
    arrival: Arrival,
    app_limited: bool,
}

/// How a stack spaces the packets of a controller with a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pacing {
    /// By the window alone, which then is what the rate sends in a round trip.
    ByWindow,
    /// By the rate.
    ByRate,
}

/// A controller of one connection. A stack reports in the order of events, with the time of each.
pub struct Adapter {
    controllers: Arc<Controllers>,
    pacing: Pacing,
    /// The time zero.
    zero: Instant,
    /// In a lock because controllers of other crates need not be `Sync`. Only `at_another_port` takes it.
    controller: Mutex<AnyController>,
    /// The time of the last event. Stacks read the clock in several places, so events may be reported out of order.
    now: Time,
    /// When the controller started.
    started: Option<Time>,
    /// The largest UDP payload.
    packet: Bytes,
    packets: InFlight,
    /// The highest packet number of the stack so far. Most often one of the Data space, which has the most packets.
    last_number: u64,
    /// How many small packets were reported since `small_since`.
    small: u32,
    /// When a packet was acknowledged last that had been sent after the previous such time.
    small_since: Time,
    in_flight: Bytes,
    /// Bytes in flight before the last acknowledgement.
    flight_size: Bytes,
    /// When it arrived: losses and marks of this time were found by it.
    acked_at: Option<Time>,
    /// The packets of the acknowledgement that is being reported.
    reported: Vec<Delivered>,
    /// When the last acknowledged packet was sent.
    last_acked: Time,
    /// The time from the sending of the last acknowledged packet until then.
    rtt: Option<Duration>,
    smoothed_rtt: Duration,
    min_rtt: Duration,
    /// Since when nothing was in flight, or at most small packets of which none was acknowledged.
    idle_since: Option<Time>,
    /// Packets with lower numbers were in flight at the last loss.
    recovery: u64,
    /// What [`Adapter::window`] returns.
    window: u64,
    rate: Option<Rate>,
}

fn duration(span: std::time::Duration) -> Duration {
    Duration::from_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

/// What [`Adapter::window`] returns for a window. quinn sends the next packet if less than this is in flight with it, noq
/// if not more is: both send as many full packets as fit into the window. Two packets are the minimum (RFC 9002, section
/// 7.2): receivers delay the acknowledgement of a single one.
fn granted(window: Bytes, packet: Bytes) -> u64 {
    window.max(packet * 2).as_u64().saturating_add(1)
}

/// The window before the controller starts (RFC 9002, section 7.2).
fn first_granted(packet: Bytes) -> u64 {
    granted((packet * 10).min(Bytes::new(14_720)), packet)
}

impl Adapter {
    /// A controller for a connection that begins at `zero`, whose packets have at most `mtu` bytes of UDP payload.
    pub fn new(controllers: Arc<Controllers>, zero: Instant, mtu: u16, pacing: Pacing) -> Self {
        let controller = Mutex::new(controllers.make());
        let packet = Bytes::new(u64::from(mtu.max(1)));
        Self {
            controllers,
            pacing,
            zero,
            controller,
            now: Time::ZERO,
            started: None,
            packet,
            packets: InFlight::default(),
            last_number: 0,
            small: 0,
            small_since: Time::ZERO,
            in_flight: Bytes::ZERO,
            flight_size: Bytes::ZERO,
            acked_at: None,
            reported: Vec::new(),
            last_acked: Time::ZERO,
            rtt: None,
            smoothed_rtt: Duration::ZERO,
            min_rtt: Duration::ZERO,
            idle_since: None,
            recovery: 0,
            window: first_granted(packet),
            rate: None,
        }
    }

    fn time(&self, at: Instant) -> Time {
        Time::ZERO + duration(at.saturating_duration_since(self.zero))
    }

    fn controller(&mut self) -> &mut AnyController {
        self.controller.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time of an event; the controller has handled its deadline.
    fn event(&mut self, at: Time) -> Time {
        let now = self.now.max(at);
        self.now = now;
        if self.started.is_some() && self.controller().deadline() <= now {
            self.controller().on_deadline(now);
        }
        now
    }

    fn start(&mut self, now: Time, rtt: Duration, history: Option<History>) {
        self.started = Some(now);
        self.smoothed_rtt = rtt;
        self.min_rtt = rtt;
        let mut path = Path::new(self.packet, rtt, history);
        path.bunch = BURST;
        self.controller().on_path(now, &path);
        self.decide();
    }

    /// The window and the rate. Where the stack paces by the window alone, that of a controller with a rate keeps as many
    /// bytes in flight as the rate sends in a round trip. quinn's own pacing, at 1.25 windows in a round trip, is then a
    /// little faster than the rate.
    fn decide(&mut self) {
        let (packet, rtt, pacing) = (self.packet, self.smoothed_rtt, self.pacing);
        let controller = self.controller();
        let (mut window, rate) = (controller.window(), controller.rate());
        if let Some(rate) = rate.filter(|_| pacing == Pacing::ByWindow) {
            window = window.min(rate.bytes_in(rtt) + packet * UNREPORTED);
        }
        (self.window, self.rate) = (granted(window, packet), rate);
    }

    fn ack<'a>(&self) -> Ack<'a> {
        Ack {
            delivered: Bytes::ZERO,
            in_flight: self.in_flight,
            rtt: None,
            smoothed_rtt: self.smoothed_rtt,
            min_rtt: self.min_rtt,
            arrivals: &[],
            mark_count: None,
            feedback: RouterFeedback::None,
            flight_size: self.flight_size,
            last_sent: self.packets.last(),
            recovering: false,
            app_limited: false,
            nothing_to_send: false,
        }
    }

    /// A packet was acknowledged that was sent at this time. Before, the path had this smoothed and this minimum round-trip
    /// time. `app_limited`: the application had not more to send.
    pub fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        [smoothed, min]: [std::time::Duration; 2],
    ) {
        let (arrived, sent) = (self.time(now), self.time(sent));
        let now = self.event(arrived);
        let rtt = arrived.since(sent);
        self.rtt = Some(rtt);
        if self.started.is_none_or(|started| sent < started) {
            return;
        }
        if self.idle_since.is_some_and(|since| since <= sent) {
            self.idle_since = Some(now);
        }
        let Some(number) = self.packets.acknowledge(sent) else { return };
        if sent >= self.small_since {
            (self.small, self.small_since) = (0, now);
        }
        (self.smoothed_rtt, self.min_rtt) = (duration(smoothed), duration(min).min(rtt));
        let arrival =
            Arrival { number, bytes: Bytes::new(bytes), sent_at: sent, received_at: arrived, ecn: Ecn::NotEct };
        self.reported.push(Delivered { arrival, app_limited });
    }

    /// Reports a packet. Only the last one of an acknowledgement measures the round-trip time (RFC 9002, section 5.1). To
    /// the controller each packet is an acknowledgement, as in Rampmeter's own transport: most windows grow by at most a
    /// packet for each.
    fn deliver(&mut self, now: Time, delivered: &Delivered, rtt: Option<Duration>) {
        let Delivered { arrival, app_limited } = *delivered;
        self.in_flight = self.in_flight.saturating_sub(arrival.bytes);
        let ack = Ack {
            delivered: arrival.bytes,
            rtt,
            arrivals: &[arrival],
            mark_count: Some(MarkCount { marks: 0, number: arrival.number }),
            recovering: arrival.number < self.recovery,
            app_limited,
            nothing_to_send: app_limited,
            ..self.ack()
        };
        self.controller().on_ack(now, &ack);
    }

    /// A batch of datagrams was sent at once. All but the last have the size of the first, which need not be full.
    pub fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        let sent = self.time(now);
        let now = self.event(sent);
        // More than the batch has if the stack skipped a number, or probed the packet size.
        let numbers = last_packet_number.saturating_sub(self.last_number);
        self.last_number = self.last_number.max(last_packet_number);
        if self.started.is_none() {
            return;
        }
        let mut rest = Bytes::new(bytes);
        if rest >= self.packet {
            if let Some(since) = self.idle_since.take() {
                let timeout = Duration::from_nanos(self.smoothed_rtt.as_nanos().saturating_mul(TIMEOUT_RTTS));
                self.controller().on_idle(now, now.since(since), timeout);
            }
        } else if self.small == MAX_SMALL {
            return;
        } else {
            // It may be an acknowledgement, which no window limits.
            self.small += 1;
        }
        let packets = numbers.min(bytes / MIN_PACKET).max(bytes.div_ceil(self.packet.as_u64()));
        let size = Bytes::new(bytes.div_ceil(packets.max(1)));
        while rest > Bytes::ZERO {
            let bytes = rest.min(size);
            rest -= bytes;
            self.in_flight += bytes;
            let sent = Sent { number: self.packets.add(sent), bytes, in_flight: self.in_flight };
            self.controller().on_sent(now, &sent);
        }
        self.decide();
    }

    /// An acknowledgement was processed, after which this is in flight, in bytes.
    pub fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool) {
        let at = self.time(now);
        let now = self.event(at);
        self.flight_size = self.in_flight;
        let mut reported = std::mem::take(&mut self.reported);
        if let Some(last) = reported.last() {
            let (sent, arrived) = (last.arrival.sent_at, last.arrival.received_at);
            let rtt = (sent >= self.last_acked).then(|| arrived.since(sent));
            self.last_acked = self.last_acked.max(sent);
            spread(
                reported.iter_mut().map(|packet| &mut packet.arrival),
                self.acked_at.unwrap_or(arrived),
                self.min_rtt,
            );
            let last = reported.len() - 1;
            for (index, packet) in reported.iter().enumerate() {
                self.deliver(now, packet, rtt.filter(|_| index == last));
            }
        }
        reported.clear();
        self.reported = reported;
        self.acked_at = Some(at);
        self.in_flight = Bytes::new(in_flight);
        if self.started.is_none() {
            // Without a sample only packets of acknowledgements were acknowledged.
            if let Some(rtt) = self.rtt {
                self.start(now, rtt, None);
            }
            return;
        }
        if app_limited {
            self.controller().on_notice(now, Notice::AppLimited);
        }
        if in_flight == 0 {
            self.idle_since.get_or_insert(now);
        }
        // Next, the stack declares lost what was sent a round trip before a packet that has arrived.
        let oldest = self.last_acked.as_nanos().saturating_sub(self.smoothed_rtt.as_nanos());
        self.packets.discard_before(Time::from_nanos(oldest));
        self.decide();
    }

    /// Packets were declared lost or, if `lost_bytes` is zero, marked; the last of them was sent at this time.
    pub fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        let (at, sent) = (self.time(now), self.time(sent));
        let now = self.event(at);
        if self.started.is_none_or(|started| sent < started) {
            return;
        }
        if self.acked_at != Some(at) {
            self.flight_size = self.in_flight; // a timer found it
        }
        let number = self.packets.last_by(sent);
        if lost_bytes == 0 {
            let ack = Ack { mark_count: Some(MarkCount { marks: 1, number }), ..self.ack() };
            self.controller().on_ack(now, &ack);
        } else {
            let bytes = Bytes::new(lost_bytes);
            let loss = Loss {
                kind: if is_persistent_congestion { LossKind::Persistent } else { LossKind::Transient },
                bytes,
                flight_size: self.flight_size,
                number,
                last_sent: self.packets.last(),
                recovering: number < self.recovery,
                repeated_timeout: false,
            };
            if !loss.recovering {
                self.recovery = self.packets.next();
            }
            self.in_flight = self.in_flight.saturating_sub(bytes);
            self.controller().on_loss(now, &loss);
        }
        self.decide();
    }

    /// Packets may have this UDP payload now, in bytes.
    pub fn on_mtu_update(&mut self, new_mtu: u16) {
        self.packet = Bytes::new(u64::from(new_mtu.max(1)));
        if self.started.is_some() {
            let (now, packet) = (self.now, self.packet);
            self.controller().on_packet_size(now, packet);
            self.decide();
        } else {
            self.window = first_granted(self.packet);
        }
    }

    /// How many bytes may be in flight.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// The controller's rate, if it has one.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// The window before the first acknowledgement.
    pub fn initial_window(&self) -> u64 {
        first_granted(self.packet)
    }

    /// For the same peer at another port: controllers cannot be duplicated, so another one starts with their history.
    #[must_use]
    pub fn at_another_port(&self) -> Self {
        let mut other = Self::new(self.controllers.clone(), self.zero, self.packet.as_u64() as u16, self.pacing);
        other.last_number = self.last_number;
        if self.started.is_some() {
            let mut history = None;
            self.controller.lock().unwrap_or_else(PoisonError::into_inner).remember(self.now, &mut history);
            other.now = self.now;
            other.start(self.now, self.smoothed_rtt, history);
        }
        other
    }
}

impl fmt::Debug for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adapter").field("window", &self.window).field("rate", &self.rate).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
