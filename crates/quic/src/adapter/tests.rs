use std::time::Duration as Span;

use rampmeter_control::{Algorithm, Departure, Registry, newreno};
use rampmeter_units::Random;

use super::*;

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
        let controllers = Arc::new(Controllers::with_random(make, Random::from_seed(1)));
        let now = Instant::now();
        let mut it = Self { adapter: Adapter::new(controllers, now, MTU, Pacing::ByWindow), now };
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
            self.adapter.on_ack(self.now, sent, PACKET, false, [RTT; 2]);
        }
        self.adapter.on_end_acks(self.now, in_flight * PACKET, false);
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
    assert_eq!(connection.adapter.rate(), Some(Rate::from_bps(8_000_000)));
    let mut connection = Connection::new("bbr", "");
    connection.adapter.pacing = Pacing::ByRate;
    connection.adapter.decide();
    let window = connection.adapter.controller().window();
    assert_eq!(connection.adapter.window(), window.as_u64() + 1, "the controller's own");
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
        let mut connection = Connection::new("newreno", "initial_window = 40");
        for expected in [20, 10] {
            let sent = connection.send(2 * expected);
            connection.now += RTT;
            connection.acknowledge(sent, 2 * expected - 2, 2);
            for _ in 0..2 {
                connection.adapter.on_congestion_event(connection.now, sent, false, lost);
            }
            assert_eq!(connection.fits(0), expected, "{lost} B lost");
            connection.now += RTT;
            connection.acknowledge(sent, 2, 0);
        }
    }
}

#[test]
fn a_loss_found_by_a_timer_halves_the_bytes_in_flight() {
    let mut connection = Connection::new("newreno", "initial_window = 40");
    let sent = connection.send(20);
    connection.now += RTT;
    connection.acknowledge(sent, 10, 10);
    connection.now += RTT;
    connection.adapter.on_congestion_event(connection.now, sent, false, PACKET);
    assert_eq!(connection.fits(0), 5);
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
        unreachable!("stacks have no departure times")
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
    let mut connection = Connection::with(&registry, "remembering", "");
    assert_eq!(connection.fits(0), 10);
    connection.adapter.on_sent(connection.now, PACKET, 1000);
    let mut other = connection.adapter.at_another_port();
    assert_eq!(other.window(), 30 * PACKET + 1);
    other.on_sent(connection.now, PACKET, 1001);
    assert_eq!(other.packets.next(), 1, "packet numbers continue");
}

/// Checks reports against the contract of the trait. Its window is smaller after an idle time.
#[derive(Debug)]
struct Checking {
    packet: Bytes,
    next: u64,
    last_sample: Time,
    last_sent: Time,
    last_ack: Time,
    was_idle: bool,
}

impl Algorithm for Checking {
    type Config = newreno::Config;
    fn new(_: &newreno::Config, _: Random) -> Self {
        Self {
            packet: Bytes::ZERO,
            next: 0,
            last_sample: Time::ZERO,
            last_sent: Time::ZERO,
            last_ack: Time::ZERO,
            was_idle: false,
        }
    }
}

impl Controller for Checking {
    fn on_path(&mut self, _: Time, path: &Path) {
        self.packet = path.packet;
    }
    fn on_sent(&mut self, _: Time, sent: &Sent) {
        assert_eq!(sent.number, self.next);
        assert!(sent.bytes <= self.packet && sent.bytes <= sent.in_flight, "{sent:?}");
        self.next += 1;
    }
    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        assert!(ack.flight_size >= ack.in_flight + ack.delivered, "{ack:?}");
        assert_eq!(ack.last_sent, self.next - 1);
        assert!(ack.arrivals.iter().all(|arrival| arrival.number < self.next), "{ack:?}");
        self.last_ack = now;
        if let Some(rtt) = ack.rtt {
            assert!(now > self.last_sample, "two samples of one acknowledgement");
            let sent_at = ack.arrivals[0].sent_at;
            assert!(sent_at >= self.last_sent, "a sample of a packet older than one before");
            assert_eq!(sent_at + rtt, now);
            (self.last_sample, self.last_sent) = (now, sent_at);
        }
    }
    fn on_loss(&mut self, _: Time, loss: &Loss) {
        assert!(loss.flight_size >= loss.bytes && loss.number <= loss.last_sent, "{loss:?}");
    }
    fn on_idle(&mut self, now: Time, idle: Duration, _: Duration) {
        assert!(idle <= now.since(self.last_ack), "{idle}");
        self.was_idle = true;
    }
    fn window(&self) -> Bytes {
        self.packet * if self.was_idle { 5 } else { 10 }
    }
    fn departure(&self) -> Departure {
        unreachable!("stacks have no departure times")
    }
    fn rate(&self) -> Option<Rate> {
        None
    }
}

fn registry() -> Registry {
    Registry::default().add::<Checking>("checking", "for this test")
}

fn checking() -> Connection {
    Connection::with(&registry(), "checking", "")
}

#[test]
fn small_packets_in_between_end_an_idle_time() {
    let mut connection = checking();
    let gap = Span::from_millis(50);
    for _ in 0..100 {
        let sent = connection.now;
        connection.adapter.on_sent(sent, 800, 0);
        connection.now += gap;
        connection.adapter.on_ack(connection.now, sent, 800, true, [RTT; 2]);
        connection.adapter.on_end_acks(connection.now, 0, true);
    }
    connection.now += gap;
    assert_eq!(connection.fits(0), 10);
    connection.send(1);
    assert_eq!(connection.fits(0), 5, "an idle time");
}

#[test]
fn small_packets_without_acknowledgements_are_bounded() {
    let mut connection = checking();
    for _ in 0..2 * MAX_SMALL {
        connection.now += Span::from_micros(1);
        connection.adapter.on_sent(connection.now, 40, 0);
    }
    assert_eq!(connection.adapter.packets.next(), u64::from(MAX_SMALL));
    let sent = connection.send(1);
    connection.now += RTT;
    connection.acknowledge(sent, 1, 0);
    connection.adapter.on_sent(connection.now, 40, 0);
    assert_eq!(connection.adapter.packets.next(), u64::from(MAX_SMALL) + 2, "reported again");
}

#[test]
fn the_numbers_of_quinn_count_the_packets_of_a_batch() {
    let mut connection = checking();
    for (number, bytes, packets) in [(5, PACKET, 5), (8, 3 * 800, 3), (9, 2 * PACKET, 2), (1000, 40, 1)] {
        let before = connection.adapter.packets.next();
        connection.adapter.on_sent(connection.now, bytes, number);
        assert_eq!(connection.adapter.packets.next() - before, packets, "{bytes} B");
    }
}

#[test]
fn ten_packets_fit_before_the_start_whatever_their_size() {
    let controllers = Arc::new(Controllers::named("newreno").unwrap());
    let mut adapter = Adapter::new(controllers, Instant::now(), MTU, Pacing::ByWindow);
    for (mtu, packets) in [(MTU, 10), (1400, 10), (9000, 2)] {
        adapter.on_mtu_update(mtu);
        assert_eq!((adapter.window() - 1) / u64::from(mtu), packets, "{mtu} B");
    }
}

/// A packet of full size.
#[derive(Clone, Copy)]
struct Packet {
    number: u64,
    sent: Instant,
}

/// What quinn does with an adapter.
struct Quinn {
    connection: Connection,
    random: Random,
    last_number: u64,
    in_flight: Vec<Packet>,
    /// Bytes of acknowledgements alone that were sent since quinn last reported what is in flight.
    small: u64,
    delivered: u64,
}

impl Quinn {
    fn send(&mut self) {
        let Connection { adapter, now } = &mut self.connection;
        if self.random.chance(0.1) {
            (self.last_number, self.small) = (self.last_number + 1, self.small + 40);
            return adapter.on_sent(*now, 40, self.last_number);
        }
        let fits = ((adapter.window() - 1) / PACKET).saturating_sub(self.in_flight.len() as u64);
        let packets = fits.min(self.random.below(11));
        if packets > 0 {
            let numbers = self.last_number + 1..=self.last_number + packets;
            self.last_number += packets;
            self.in_flight.extend(numbers.map(|number| Packet { number, sent: *now }));
            adapter.on_sent(*now, packets * PACKET, self.last_number);
        }
    }

    /// An acknowledgement of some packets in flight. Others arrive later or are lost.
    fn acknowledge(&mut self) {
        let Connection { adapter, now } = &mut self.connection;
        let old = self.in_flight.partition_point(|packet| *now - packet.sent >= RTT);
        let Some(newest) = self.in_flight[..old].get(self.random.below(1 + old as u64) as usize).copied() else {
            return;
        };
        let app_limited = self.random.chance(0.2);
        let (random, delivered) = (&mut self.random, &mut self.delivered);
        self.in_flight.retain(|packet| {
            let is_missing = packet.number > newest.number || packet.number < newest.number && random.chance(0.05);
            if !is_missing {
                *delivered += PACKET;
                adapter.on_ack(*now, packet.sent, PACKET, app_limited, [*now - packet.sent, RTT]);
            }
            is_missing
        });
        self.small = 0;
        adapter.on_end_acks(*now, self.in_flight.len() as u64 * PACKET, app_limited);
        self.lose(|packet| packet.number + 3 <= newest.number);
        if self.random.chance(0.02) {
            let Connection { adapter, now } = &mut self.connection;
            adapter.on_congestion_event(*now, newest.sent, false, 0);
        }
    }

    fn lose(&mut self, is_lost: impl Fn(&Packet) -> bool) {
        let Some(last) = self.in_flight.iter().rfind(|packet| is_lost(packet)).copied() else { return };
        let before = self.in_flight.len();
        self.in_flight.retain(|packet| !is_lost(packet));
        let bytes = (before - self.in_flight.len()) as u64 * PACKET;
        let is_persistent = self.random.chance(0.1);
        let Connection { adapter, now } = &mut self.connection;
        adapter.on_congestion_event(*now, last.sent, is_persistent, bytes);
    }
}

#[test]
fn reports_in_the_order_of_quinn_keep_every_contract() {
    let registry = registry();
    for (name, _) in registry.list().filter(|(name, _)| *name != "fixed-rate") {
        for seed in 0..20 {
            let connection = Connection::with(&registry, name, "");
            let random = Random::from_seed(seed);
            let mut quinn = Quinn { connection, random, last_number: 0, in_flight: Vec::new(), small: 0, delivered: 0 };
            for _ in 0..500 {
                quinn.connection.now += Span::from_micros(1 + quinn.random.below(20_000));
                match quinn.random.below(50) {
                    0 => quinn.lose(|_| true),
                    1..25 => quinn.acknowledge(),
                    _ => quinn.send(),
                }
                let adapter = &quinn.connection.adapter;
                let expected = quinn.in_flight.len() as u64 * PACKET + quinn.small;
                assert_eq!(adapter.in_flight, Bytes::new(expected), "{name}, seed {seed}");
                let packets = adapter.window() / PACKET;
                // Slow start adds what was delivered; a rate may be that of packets that were delivered together.
                let most = 10 + quinn.delivered / PACKET;
                let factor = if adapter.rate.is_some() { 5 } else { 1 };
                assert!((2..=factor * most).contains(&packets), "{name}, seed {seed}: {packets}");
            }
            assert!(quinn.delivered > 30 * PACKET, "{name}, seed {seed}: {} B", quinn.delivered);
        }
    }
}
