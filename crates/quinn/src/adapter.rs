//! A controller of one connection.
//!
//! The controller starts with the first acknowledgement, which ends quinn's first round trip. Packets that were sent before
//! it are not reported to the controller, as those of the handshake in Rampmeter's own transport.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{self, ControllerMetrics};
use rampmeter_control::{
    Ack, AnyController, Arrival, Controller, History, Loss, LossKind, MarkCount, Notice, Path, RouterFeedback, Sent,
};
use rampmeter_units::{Bytes, Duration, Ecn, Rate, Time};

use crate::Factory;
use crate::in_flight::InFlight;

/// Idle times that are longer than so many round trips count as long: the first retransmission timeout of RFC 9002. That
/// of later ones depends on the variation, which quinn does not publish.
const TIMEOUT_RTTS: u64 = 3;

/// The packets beyond those of the rate: a receiver that acknowledges every second packet keeps one unreported.
const UNREPORTED: u64 = 1;

/// The adapter.
pub(crate) struct Adapter {
    factory: Arc<Factory>,
    /// The time zero.
    zero: Instant,
    /// In a lock because controllers of other crates need not be `Sync`. Only `clone_box` takes it.
    controller: Mutex<AnyController>,
    /// The time of the last event. quinn reads the clock in several places, so events may be reported out of order.
    now: Time,
    /// When the controller started.
    started: Option<Time>,
    /// The largest UDP payload.
    packet: Bytes,
    packets: InFlight,
    in_flight: Bytes,
    /// When the last acknowledged packet was sent.
    last_acked: Time,
    /// The last sample.
    rtt: Option<Duration>,
    smoothed_rtt: Duration,
    min_rtt: Duration,
    /// Since when nothing was in flight, or since then at most parts of a packet.
    idle_since: Option<Time>,
    /// Packets with lower numbers were in flight at the last loss.
    recovery: u64,
    /// What [`congestion::Controller::window`] returns.
    window: u64,
    rate: Option<Rate>,
}

fn duration(span: std::time::Duration) -> Duration {
    Duration::from_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

/// RFC 9002, section 7.2.
fn initial_window(packet: Bytes) -> u64 {
    let packet = packet.as_u64();
    (10 * packet).min(14_720.max(2 * packet))
}

impl Adapter {
    pub(crate) fn new(factory: Arc<Factory>, zero: Instant, mtu: u16) -> Self {
        let controller = Mutex::new(factory.make());
        let packet = Bytes::new(u64::from(mtu.max(1)));
        Self {
            factory,
            zero,
            controller,
            now: Time::ZERO,
            started: None,
            packet,
            packets: InFlight::default(),
            in_flight: Bytes::ZERO,
            last_acked: Time::ZERO,
            rtt: None,
            smoothed_rtt: Duration::ZERO,
            min_rtt: Duration::ZERO,
            idle_since: None,
            recovery: 0,
            window: initial_window(packet),
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
        let path = Path::new(self.packet, rtt, history);
        self.controller().on_path(now, &path);
        self.decide();
    }

    /// The window, also for a controller with a rate: one that keeps as many bytes in flight as the rate sends in a round
    /// trip. quinn's own pacing, at 1.25 windows in a round trip, is then a little faster than the rate.
    fn decide(&mut self) {
        let (packet, rtt) = (self.packet, self.smoothed_rtt);
        let controller = self.controller();
        let (mut window, rate) = (controller.window(), controller.rate());
        if let Some(rate) = rate {
            window = window.min(rate.bytes_in(rtt) + packet * UNREPORTED);
        }
        // quinn sends the next packet if less than the window is in flight with it.
        (self.window, self.rate) = (window.max(packet).as_u64().saturating_add(1), rate);
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
            flight_size: self.in_flight,
            last_sent: self.packets.last(),
            recovering: false,
            app_limited: false,
            nothing_to_send: false,
        }
    }

    /// A packet was acknowledged, before which the path had this smoothed and this minimum round-trip time.
    fn acknowledge(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        [smoothed, min]: [Duration; 2],
    ) {
        let (arrived, sent) = (self.time(now), self.time(sent));
        let now = self.event(arrived);
        let rtt_sample = arrived.since(sent);
        self.rtt = Some(rtt_sample);
        self.last_acked = self.last_acked.max(sent);
        if self.started.is_none_or(|started| sent < started) {
            return;
        }
        let Some(number) = self.packets.acknowledge(sent) else { return };
        self.smoothed_rtt = smoothed;
        self.min_rtt = min.min(rtt_sample);
        let bytes = Bytes::new(bytes);
        let before = self.in_flight;
        self.in_flight = before.saturating_sub(bytes);
        let arrival = Arrival { number, bytes, sent_at: sent, received_at: arrived, ecn: Ecn::NotEct };
        let ack = Ack {
            delivered: bytes,
            rtt: self.rtt,
            arrivals: &[arrival],
            mark_count: Some(MarkCount { marks: 0, number }),
            flight_size: before,
            recovering: number < self.recovery,
            app_limited,
            nothing_to_send: app_limited,
            ..self.ack()
        };
        self.controller().on_ack(now, &ack);
    }
}

impl congestion::Controller for Adapter {
    /// quinn reports a batch of datagrams at once, all but the last of which are full.
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet_number: u64) {
        let sent = self.time(now);
        let now = self.event(sent);
        if self.started.is_none() {
            return;
        }
        let mut rest = Bytes::new(bytes);
        // What is smaller may be an acknowledgement, and no window limits it.
        if rest >= self.packet
            && let Some(since) = self.idle_since.take()
        {
            let timeout = Duration::from_nanos(self.smoothed_rtt.as_nanos().saturating_mul(TIMEOUT_RTTS));
            self.controller().on_idle(now, now.since(since), timeout);
        }
        while rest > Bytes::ZERO {
            let bytes = rest.min(self.packet);
            rest -= bytes;
            self.in_flight += bytes;
            let sent = Sent { number: self.packets.add(sent), bytes, in_flight: self.in_flight };
            self.controller().on_sent(now, &sent);
        }
        self.decide();
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.acknowledge(now, sent, bytes, app_limited, [rtt.get(), rtt.min()].map(duration));
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _largest_acked: Option<u64>) {
        let at = self.time(now);
        let now = self.event(at);
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
        // quinn has found packets lost that were sent a round trip before one that has arrived.
        let oldest = self.last_acked.as_nanos().saturating_sub(self.smoothed_rtt.as_nanos());
        self.packets.discard_before(Time::from_nanos(oldest));
        self.decide();
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent_congestion: bool, lost_bytes: u64) {
        let (at, sent) = (self.time(now), self.time(sent));
        let now = self.event(at);
        if self.started.is_none_or(|started| sent < started) {
            return;
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
                flight_size: self.in_flight,
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

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.packet = Bytes::new(u64::from(new_mtu.max(1)));
        if self.started.is_some() {
            let (now, packet) = (self.now, self.packet);
            self.controller().on_packet_size(now, packet);
            self.decide();
        }
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window;
        metrics.pacing_rate = self.rate.map(Rate::as_bps);
        metrics
    }

    /// For the same peer at another port: controllers cannot be duplicated, so another one starts with their history.
    fn clone_box(&self) -> Box<dyn congestion::Controller> {
        let mut clone = Self::new(self.factory.clone(), self.zero, self.packet.as_u64() as u16);
        if self.started.is_some() {
            let mut history = None;
            self.controller.lock().unwrap_or_else(PoisonError::into_inner).remember(self.now, &mut history);
            clone.now = self.now;
            clone.start(self.now, self.smoothed_rtt, history);
        }
        Box::new(clone)
    }

    fn initial_window(&self) -> u64 {
        initial_window(self.packet)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration as Span;

    use rampmeter_control::{Algorithm, Departure, Registry, newreno};
    use rampmeter_units::Random;

    use super::*;
    use congestion::Controller as _;

    const MTU: u16 = 1200;
    const PACKET: u64 = MTU as u64;
    const RTT: Span = Span::from_millis(100);

    /// An adapter, and the time.
    struct Connection {
        adapter: Adapter,
        now: Instant,
    }

    impl Connection {
        /// After a handshake of [`RTT`].
        fn new(controller: &str, settings: &str) -> Self {
            Self::with(&Registry::default(), controller, settings)
        }

        fn with(registry: &Registry, controller: &str, settings: &str) -> Self {
            let make = registry.factory(controller, &settings.parse().unwrap()).unwrap();
            let factory = Arc::new(Factory::with_random(make, Random::from_seed(1)));
            let now = Instant::now();
            let mut it = Self { adapter: Adapter::new(factory, now, MTU), now };
            it.send(1);
            it.now += RTT;
            it.acknowledge(now, 1, 0);
            it
        }

        fn send(&mut self, packets: u64) -> Instant {
            self.adapter.on_sent(self.now, packets * PACKET, 0);
            self.now
        }

        fn acknowledge(&mut self, sent: Instant, packets: u64, in_flight: u64) {
            for _ in 0..packets {
                self.adapter.acknowledge(self.now, sent, PACKET, false, [duration(RTT); 2]);
            }
            self.adapter.on_end_acks(self.now, in_flight * PACKET, false, None);
        }

        /// How many packets more than those in flight quinn sends.
        fn fits(&self, in_flight: u64) -> u64 {
            (self.adapter.window() - 1) / PACKET - in_flight
        }
    }

    #[test]
    fn quinn_sends_as_many_packets_as_the_window_has() {
        assert_eq!(Connection::new("newreno", "initial_window = 2").fits(0), 2);
        assert_eq!(Connection::new("newreno", "initial_window = 20").fits(5), 15);
    }

    #[test]
    fn a_rate_is_a_window_of_a_round_trip_and_a_packet() {
        let connection = Connection::new("fixed-rate", "rate = '8 Mb/s'");
        assert_eq!(connection.adapter.window(), 100_000 + PACKET + 1);
        assert_eq!(connection.adapter.metrics().pacing_rate, Some(8_000_000));
    }

    #[test]
    fn a_batch_counts_as_so_many_packets() {
        let mut connection = Connection::new("newreno", "initial_window = 10");
        let sent = connection.send(10);
        connection.now += RTT;
        connection.acknowledge(sent, 10, 0);
        assert_eq!(connection.fits(0), 20, "slow start");
    }

    #[test]
    fn losses_and_marks_halve_the_window_once_a_round_trip() {
        for lost in [PACKET, 0] {
            let mut connection = Connection::new("newreno", "initial_window = 20");
            let sent = connection.send(20);
            connection.now += RTT;
            for _ in 0..2 {
                connection.adapter.on_congestion_event(connection.now, sent, false, lost);
            }
            assert_eq!(connection.fits(0), 10, "{lost} B lost");
            let sent = connection.send(10);
            connection.now += RTT;
            connection.adapter.on_congestion_event(connection.now, sent, false, lost);
            assert_eq!(connection.fits(0), 5, "{lost} B lost");
        }
    }

    #[test]
    fn the_handshake_changes_no_window() {
        let mut connection = Connection::new("newreno", "initial_window = 10");
        let before_start = connection.adapter.zero;
        connection.adapter.on_congestion_event(connection.now, before_start, true, PACKET);
        connection.acknowledge(before_start, 5, 0);
        assert_eq!(connection.fits(0), 10);
    }

    #[test]
    fn a_long_idle_time_restarts_the_window() {
        let mut connection = Connection::new("newreno", "initial_window = 10");
        let sent = connection.send(10);
        connection.now += RTT;
        connection.acknowledge(sent, 10, 0);
        connection.now += 10 * RTT;
        connection.adapter.on_sent(connection.now, 40, 0); // an acknowledgement
        assert_eq!(connection.fits(0), 20);
        connection.send(1);
        assert_eq!(connection.fits(0), 10);
    }

    /// Starts with three times the window if it has a history.
    #[derive(Debug)]
    struct Remembering(Bytes);

    impl Algorithm for Remembering {
        type Config = newreno::Config;
        fn new(_: &newreno::Config, _: Random) -> Self {
            Self(Bytes::ZERO)
        }
    }

    impl Controller for Remembering {
        fn on_path(&mut self, _: Time, path: &Path) {
            self.0 = path.packet * if path.history.is_some() { 30 } else { 10 };
        }
        fn on_sent(&mut self, _: Time, _: &Sent) {}
        fn on_ack(&mut self, _: Time, _: &Ack<'_>) {}
        fn on_loss(&mut self, _: Time, _: &Loss) {}
        fn window(&self) -> Bytes {
            self.0
        }
        fn departure(&self) -> Departure {
            unreachable!("quinn has no departure times")
        }
        fn rate(&self) -> Option<Rate> {
            None
        }
        fn remember(&self, _: Time, history: &mut Option<History>) {
            *history = Some(History::new(Rate::from_bps(1), Duration::from_millis(1)));
        }
    }

    #[test]
    fn another_port_starts_with_what_the_controller_remembers() {
        let registry = Registry::default().add::<Remembering>("remembering", "for this test");
        let connection = Connection::with(&registry, "remembering", "");
        assert_eq!(connection.fits(0), 10);
        assert_eq!(connection.adapter.clone_box().window(), 30 * PACKET + 1);
    }

    /// Whatever quinn reports, in whatever order, at whatever time.
    #[test]
    fn no_report_stops_a_controller() {
        let registry = Registry::default();
        for (name, _) in registry.list().filter(|(name, _)| *name != "fixed-rate") {
            for seed in 0..20 {
                let mut random = Random::from_seed(seed);
                let mut it = Connection::new(name, "");
                let start = it.now;
                for _ in 0..500 {
                    let mut time = || start + Span::from_micros(random.below(3_000_000));
                    let (now, sent) = (time(), time());
                    let (bytes, flag) = (random.below(100_000), random.chance(0.3));
                    match random.below(7) {
                        0 | 1 => it.adapter.on_sent(now, bytes, random.below(9)),
                        2 | 3 => it.adapter.acknowledge(now, sent, bytes, flag, [duration(RTT), Duration::ZERO]),
                        4 => it.adapter.on_end_acks(now, if flag { 0 } else { bytes }, flag, None),
                        5 => it.adapter.on_congestion_event(now, sent, flag, if flag { 0 } else { bytes }),
                        _ => it.adapter.on_mtu_update(random.below(1 << 16) as u16),
                    }
                    assert!(it.adapter.window() > it.adapter.packet.as_u64(), "{name}, seed {seed}");
                }
                it.adapter.clone_box();
            }
        }
    }
}
