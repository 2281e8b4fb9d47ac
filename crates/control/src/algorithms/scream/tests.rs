//! What the draft says about growth, reductions and equilibria.

use super::*;
use crate::Arrival;
use crate::testing::link::Link;
use crate::testing::{PACKET, ack, loss};

/// Where neither the virtual round-trip time nor the number of reactions matters.
const RTT: Duration = VIRTUAL_RTT;

/// A sender with a window of 50 packets, all of which are in flight.
struct Flow {
    scream: Scream,
    now: Time,
}

impl Flow {
    fn new(config: &Config) -> Self {
        let mut scream = Scream::new(config, Random::from_seed(1));
        scream.on_path(Time::ZERO, &Path::new(PACKET, RTT, None));
        scream.window = 50.0 * PACKET.as_f64();
        Self { scream, now: Time::ZERO + RTT }
    }

    fn packets(&self) -> f64 {
        self.scream.window / PACKET.as_f64()
    }

    /// Acknowledges 50 packets in a round trip, of which `marked` are marked.
    fn round(&mut self, marked: u64) {
        for number in 0..50 {
            self.scream.in_flight.current = PACKET * 50;
            self.now += RTT / 50;
            let ecn = if number % 50 < marked { Ecn::Ce } else { Ecn::Ect1 };
            let sent_at = self.now - RTT;
            let arrivals = &[Arrival { number, bytes: PACKET, sent_at, received_at: self.now, ecn }];
            self.scream.on_ack(self.now, &Ack { smoothed_rtt: RTT, arrivals, ..ack(1) });
        }
    }

    fn lose(&mut self) {
        self.scream.on_loss(self.now, &loss(LossKind::Transient, 1, 1));
    }
}

fn l4s() -> Config {
    Config { l4s: true, ..Config::default() }
}

#[test]
fn a_round_trip_adds_a_packet_and_two_percent() {
    let mut flow = Flow::new(&Config::default());
    flow.round(0);
    // 50 packets of a window that is 1 + 0.02 x 50 = 2 packets larger at the end.
    assert!((flow.packets() - 52.0).abs() < 0.05, "{}", flow.packets());
}

#[test]
fn losses_of_a_round_trip_reduce_the_window_to_seven_tenths() {
    let mut flow = Flow::new(&Config::default());
    flow.lose();
    flow.round(0);
    flow.lose();
    // After 0.7 x 50 = 35 packets there are 50 / 35 packets more, and nearly no multiplicative increase.
    assert!((flow.packets() - 36.4).abs() < 0.1, "{}", flow.packets());
    flow.lose();
    flow.round(0);
    assert!((flow.packets() - 0.7 * 36.4 - 50.0 / 25.5).abs() < 0.3, "one reaction to both: {}", flow.packets());
}

#[test]
fn a_classic_mark_leaves_four_fifths() {
    let mut flow = Flow::new(&Config::default());
    flow.round(1);
    assert!((flow.packets() - 40.0 - 49.0 / 40.0).abs() < 0.1, "{}", flow.packets());
}

#[test]
fn growth_is_slow_close_to_the_last_maximum() {
    let growth = |inflection: f64| {
        let mut flow = Flow::new(&Config::default());
        flow.scream.inflection = Some(inflection * PACKET.as_f64());
        flow.round(0);
        flow.packets() - 50.0
    };
    // s is 0.1 and the additive increase a quarter: 50 / 50 / 4 (1 + 0.02 x 50 x 0.1).
    assert!((growth(50.0) - 0.275).abs() < 0.02, "{}", growth(50.0));
    assert!((growth(25.0) - 2.0).abs() < 0.05, "{}", growth(25.0));
}

#[test]
fn l4s_marks_balance_growth_at_two_in_a_round_trip() {
    // The draft: a growth of a packet is offset by two marked packets. alpha W / 2 = 1 with alpha = marks / 50.
    let change = |marks: u64| {
        let mut flow = Flow::new(&l4s());
        (flow.scream.alpha.share, flow.scream.alpha.updated) = (marks as f64 / 50.0, flow.now);
        flow.scream.inflection = Some(flow.scream.window); // growth and decrease are a quarter
        flow.scream.congested = Some(flow.now); // no multiplicative increase
        flow.round(marks);
        flow.packets() - 50.0
    };
    assert!(
        change(1) > 0.08 && change(2).abs() < 0.03 && change(4) < -0.2,
        "{} {} {}",
        change(1),
        change(2),
        change(4)
    );
}

#[test]
fn a_queue_stays_a_little_above_half_of_its_target() {
    // Above 30 ms of queue a reaction is (q - 30 ms) / 30 ms / 2, and growth a packet in a round trip.
    let mut flow = Link::<Scream>::new(&Config::default(), Rate::from_bps(8_000_000), Duration::from_millis(40), 10.0);
    flow.run(Duration::from_secs(20));
    assert_eq!(flow.lost, Bytes::ZERO);
    let mut delays = Vec::new();
    for _ in 0..100 {
        let share = flow.utilization(Duration::from_millis(100));
        assert!(share > 0.95, "{share}");
        delays.push(flow.sender.delays.queueing().as_secs_f64());
    }
    let mean = delays.iter().sum::<f64>() / 100.0;
    assert!((0.025..=0.045).contains(&mean), "{mean}");
}

#[test]
fn the_media_rate_is_below_the_rate_of_the_window() {
    // 50 packets of 1000 bytes in 25 ms are 16 Mb/s, and 1.2 times the media rate.
    let flow = Flow::new(&Config::default());
    assert!((flow.scream.media_rate().as_bps_f64() / 1e6 - 16.0 / 1.2).abs() < 0.01);
}

#[test]
fn the_share_of_marks_rises_by_an_eighth_and_falls_by_a_128th() {
    let mut alpha = Alpha::default();
    alpha.on_ack(Time::ZERO + RTT, 10, 10, RTT);
    assert_eq!(alpha.share, 0.125);
    alpha.on_ack(Time::ZERO + RTT + ALPHA_INTERVAL / 2, 10, 10, RTT);
    assert_eq!(alpha.share, 0.125, "10 ms have not passed");
    alpha.on_ack(Time::ZERO + RTT + ALPHA_INTERVAL, 10, 0, RTT);
    assert_eq!(alpha.share, 0.125 + 0.375 / 8.0, "10 of 20");
    alpha.on_ack(Time::ZERO + RTT * 2, 10, 0, RTT);
    assert_eq!(alpha.share, (0.125 + 0.375 / 8.0) * 127.0 / 128.0);
}

#[test]
fn three_windows_may_be_in_flight_and_leave_at_the_paced_rate() {
    let mut flow = Flow::new(&Config::default());
    assert_eq!(flow.scream.window(), PACKET * 150);
    let rate = flow.scream.media_rate().scale(1.5);
    for number in 0..2 {
        flow.scream.on_sent(flow.now, &Sent { number, bytes: PACKET, in_flight: PACKET });
    }
    // A packet that leaves a packet time late or less does not delay the next one.
    assert_eq!(flow.scream.departure().at, flow.now + rate.time_to_send(PACKET));
}

/// A sender with a window of 50 packets and a round-trip time of `rtt`, to which nothing has happened.
fn idle(config: &Config, rtt: Duration) -> Scream {
    Scream { rtt, ..Flow::new(config).scream }
}

fn packets(scream: &Scream) -> f64 {
    scream.window / PACKET.as_f64()
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The time of an event, long after the start.
const NOW: Time = Time::from_nanos(100_000_000_000);

#[test]
fn a_reaction_to_a_queue_is_proportional_to_its_excess() {
    // alpha_v is (2 q - 60 ms) / 60 ms, at most 1. In a round trip of 100 ms a reaction is a quarter.
    for (rtt, delay, left) in
        [(25, 30, 50.0), (25, 45, 37.5), (25, 60, 25.0), (25, 90, 25.0), (10, 60, 25.0), (100, 60, 43.75)]
    {
        let mut scream = idle(&Config::default(), ms(rtt));
        scream.delay = ms(delay);
        scream.reduce(NOW, 1.0);
        assert!((packets(&scream) - left).abs() < 1e-9, "{delay} ms in {rtt} ms: {}", packets(&scream));
        assert_eq!(scream.reacted.is_some(), delay > 30);
    }
}

#[test]
fn an_l4s_reaction_is_a_quarter_near_the_last_maximum() {
    // Half of the packets are marked. In a round trip of 100 ms a reaction is a quarter, and without a queue of 15 ms or
    // more it is scaled by `s`, but at least by another quarter.
    for (rtt, queue, scale, cut) in
        [(25, 0, 1.0, 0.25), (100, 0, 1.0, 0.0625), (25, 0, 0.5, 0.125), (25, 0, 0.1, 0.0625), (25, 14, 0.1, 0.0625)]
            .into_iter()
            .chain([(25, 15, 0.1, 0.25), (25, 60, 0.5, 0.25)])
    {
        let mut scream = idle(&l4s(), ms(rtt));
        for (at, delay) in [(NOW, 10), (NOW + ms(rtt + 1), 10 + queue)] {
            let arrivals = &[Arrival { sent_at: at, received_at: at + ms(delay), ..Arrival::default() }];
            scream.delays.observe(at, &Ack { smoothed_rtt: ms(rtt), arrivals, ..ack(1) }, true);
        }
        (scream.marked, scream.alpha.share, scream.in_flight.previous) = (true, 0.5, PACKET * 50);
        scream.reduce(NOW + ms(rtt + 1), scale);
        let found = 1.0 - packets(&scream) / 50.0;
        assert!((found - cut).abs() < 1e-9, "a queue of {queue} ms in {rtt} ms, a scale of {scale}: {found}");
    }
}
