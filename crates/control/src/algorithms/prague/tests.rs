use super::*;
use crate::testing::{PACKET, ack, arrived, loss};
use crate::{Arrival, Controller};

/// A flow on a path with a round-trip time of `rtt`.
#[derive(Debug)]
struct Flow {
    prague: Prague,
    now: Time,
    rtt: Duration,
    number: u64,
}

impl Flow {
    fn new(rtt: Duration) -> Self {
        let mut prague = Prague::new(&Config::default(), Random::from_seed(1));
        prague.on_path(Time::ZERO, &Path::new(PACKET, rtt, None));
        Self { prague, now: Time::ZERO, rtt, number: 0 }
    }

    /// In congestion avoidance with a window of `packets` and an `alpha` of its own.
    fn steady(rtt: Duration, packets: f64, alpha: f64) -> Self {
        let mut flow = Self::new(rtt);
        flow.prague.lower_to(packets);
        flow.prague.marked = Some(MarkedShare::new(alpha, 1.0 / 16.0));
        flow
    }

    fn deliver(&mut self, ecn: Ecn) {
        let arrivals = [Arrival { number: self.number, bytes: PACKET, ecn, ..Arrival::default() }];
        let last_sent = self.number + self.prague.packets() as u64;
        self.prague.on_ack(self.now, &Ack { last_sent, ..arrived(&arrivals, self.rtt) });
        self.number += 1;
    }

    /// A time of `span`, in which packets arrive at the paced rate, and each is marked with probability `p`.
    fn run(&mut self, span: Duration, p: f64) {
        let (end, mut random) = (self.now + span, Random::from_seed(1));
        while self.now < end {
            self.now += self.prague.paced_rate().time_to_send(PACKET);
            let ecn = if random.chance(p) { Ecn::Ce } else { Ecn::Ect1 };
            self.deliver(ecn);
        }
    }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn slow_start_ends_with_half_the_window_at_the_first_mark() {
    let mut flow = Flow::new(ms(20));
    (0..30).for_each(|_| flow.deliver(Ecn::Ect1));
    assert_eq!(flow.prague.packets(), 40.0);
    flow.deliver(Ecn::Ce);
    assert_eq!((flow.prague.packets(), flow.prague.in_slow_start()), (20.0, false));
}

#[test]
fn growing_delays_end_the_first_slow_start_where_that_is_set() {
    for (slow_start, states) in [
        (SlowStart::Standard, ["slow_start", "slow_start"]),
        (SlowStart::Hystart, ["conservative_slow_start", "congestion_avoidance"]),
    ] {
        let mut flow = Flow::new(ms(100));
        flow.prague = Prague::new(&Config { slow_start, ..Config::default() }, Random::from_seed(1));
        flow.prague.on_path(Time::ZERO, &Path::new(PACKET, ms(100), None));
        let rounds = |flow: &mut Flow, rounds, rtt| {
            flow.rtt = rtt;
            for packets in (0..rounds).flat_map(|_| [20; 20]) {
                flow.now += rtt / packets;
                flow.deliver(Ecn::Ect1);
            }
        };
        rounds(&mut flow, 3, ms(100));
        assert_eq!(flow.prague.state(), "slow_start");
        rounds(&mut flow, 2, ms(120));
        assert_eq!(flow.prague.state(), states[0]);
        rounds(&mut flow, 6, ms(120));
        assert_eq!(flow.prague.state(), states[1]);
        flow.prague.lower_to(10.0);
        assert_eq!(flow.prague.state(), "congestion_avoidance");
    }
}

#[test]
fn only_marks_move_alpha_from_1() {
    let mut flow = Flow::new(ms(100));
    let deliver = |flow: &mut Flow, packets: u64, ecn| {
        for _ in 0..packets {
            flow.now += ms(1);
            flow.deliver(ecn);
        }
    };
    deliver(&mut flow, 1000, Ecn::Ect1);
    let before = flow.prague.packets();
    deliver(&mut flow, 1, Ecn::Ce);
    assert!((flow.prague.packets() / before - 0.5).abs() < 1e-3, "the first mark halves the window");
    deliver(&mut flow, 40_000, Ecn::Ect1);
    let before = flow.prague.packets();
    deliver(&mut flow, 1, Ecn::Ce);
    assert!(flow.prague.packets() > before * 0.7, "{} of {before}", flow.prague.packets());
}

#[test]
fn a_slow_start_after_a_timeout_is_paced_at_twice_the_rate() {
    // w / T, and twice that below half of the threshold.
    let window_a_round_trip = |packets: f64| Rate::from_bps_f64(packets * 8000.0 / 0.02);
    let mut flow = Flow::new(ms(20));
    assert_eq!(flow.prague.rate(), Some(window_a_round_trip(20.0)), "before the first acknowledgement");
    flow.prague.window.threshold = 40.0;
    for (packets, factor) in [(10.0, 2.0), (19.0, 2.0), (20.0, 1.0), (40.0, 1.0), (100.0, 1.0)] {
        flow.prague.window.packets = packets;
        assert_eq!(flow.prague.rate(), Some(window_a_round_trip(packets * factor)), "{packets}");
    }
}

#[test]
fn slow_start_stops_at_its_threshold() {
    let mut flow = Flow::new(ms(25));
    flow.prague.window = Window::new(10.0, 12.0);
    flow.prague.grow(flow.now, &ack(5), 5.0);
    assert_eq!(flow.prague.packets(), 12.25, "the other three packets add 3 / 12");
}

#[test]
fn no_growth_in_recovery_or_while_application_limited() {
    for (recovering, app_limited) in [(true, false), (false, true)] {
        let mut flow = Flow::new(ms(20));
        let arrivals = [Arrival { bytes: PACKET, ecn: Ecn::Ect1, ..Arrival::default() }];
        flow.prague.on_ack(flow.now, &Ack { recovering, app_limited, ..arrived(&arrivals, ms(20)) });
        assert_eq!(flow.prague.packets(), 10.0);
    }
}

#[test]
fn a_timeout_starts_over_up_to_half_of_the_window() {
    let mut flow = Flow::steady(ms(20), 100.0, 0.1);
    let timeout = loss(LossKind::Persistent, 3, 20);
    flow.prague.on_loss(flow.now, &timeout);
    assert_eq!((flow.prague.packets(), flow.prague.window.threshold), (1.0, 50.0));
    let again = Loss { number: 23, last_sent: 30, repeated_timeout: true, ..timeout };
    flow.prague.on_loss(flow.now, &again);
    assert_eq!((flow.prague.packets(), flow.prague.window.threshold), (1.0, 50.0), "not half of one packet");
}

#[test]
fn the_window_keeps_its_bytes_with_packets_of_another_size() {
    let mut flow = Flow::new(ms(20));
    flow.prague.window.threshold = 40.0;
    flow.prague.on_packet_size(flow.now, PACKET / 2);
    assert_eq!((flow.prague.packets(), flow.prague.window.threshold), (20.0, 80.0));
    assert_eq!((flow.prague.window(), flow.prague.departure().bytes), (PACKET * 10, PACKET / 2));
}

#[test]
fn a_long_idle_time_ends_with_the_first_window() {
    for (idle, packets) in [(ms(200), 100.0), (ms(201), 10.0)] {
        let mut flow = Flow::steady(ms(20), 100.0, 0.1);
        let (now, sent) = (Time::ZERO + idle, Sent { number: 0, bytes: PACKET * 1000, in_flight: PACKET });
        flow.prague.on_sent(now, &sent);
        flow.prague.on_idle(now, idle, ms(200));
        assert_eq!((flow.prague.packets(), flow.prague.departure().at), (packets, now), "earlier packets do not delay");
    }
}

#[test]
fn packets_of_other_flows_delay_the_next_one_by_a_packet() {
    let mut flow = Flow::steady(ms(20), 100.0, 0.1);
    flow.prague.on_sent(flow.now, &Sent { number: 0, bytes: PACKET * 1000, in_flight: PACKET });
    assert_eq!(flow.prague.departure().at, flow.now + ms(200), "1000 packets at five in a millisecond");
    flow.prague.on_notice(flow.now, Notice::Discarded);
    assert_eq!(flow.prague.departure().at, flow.now + ms(1) / 5);
}

#[test]
fn growth_is_a_packet_in_25_ms_or_in_a_longer_round_trip() {
    for (rtt, windows) in [(ms(5), 5), (ms(25), 1), (ms(100), 1)] {
        let mut flow = Flow::steady(rtt, 100.0, 0.0);
        (0..100 * windows).for_each(|_| flow.deliver(Ecn::Ect1));
        // A packet more at 5 ms is five times the rate of one at 25 ms.
        let expected = rtt.as_secs_f64() / rtt.max(ms(25)).as_secs_f64();
        let grown = flow.prague.packets() - 100.0;
        assert!((grown / expected - 1.0).abs() < 0.01, "{rtt:?}: {grown}");
    }
}

#[test]
fn marks_reduce_by_half_of_alpha_once_in_25_ms() {
    let mut flow = Flow::steady(ms(5), 100.0, 0.1);
    let mut windows = Vec::new();
    for n in 0..6 {
        flow.now = Time::ZERO + ms(10 * n);
        flow.number += 200; // past the episode
        flow.deliver(Ecn::Ce);
        windows.push(flow.prague.packets());
    }
    let falls: Vec<_> = windows.windows(2).map(|pair| pair[1] < pair[0]).collect();
    assert!((windows[0] - 95.0).abs() < 1e-9, "{windows:?}");
    assert_eq!(falls, [false, false, true, false, false], "at 0 and 30 ms: {windows:?}");
    flow.now = Time::ZERO + ms(55);
    flow.number += 200;
    flow.deliver(Ecn::Ce);
    assert!(flow.prague.packets() < windows[5], "25 ms later");
}

#[test]
fn an_idle_time_is_no_wait_for_a_mark() {
    let reductions = [false, true].map(|idles| {
        let mut flow = Flow::steady(ms(20), 100.0, 0.1);
        flow.deliver(Ecn::Ce);
        let before = flow.prague.packets();
        (flow.now, flow.number) = (flow.now + ms(500), flow.number + 200); // past the episode
        if idles {
            flow.prague.on_idle(flow.now, ms(500), ms(1000));
        }
        flow.deliver(Ecn::Ce);
        1.0 - flow.prague.packets() / before
    });
    assert!((reductions[0] / reductions[1] - 2.0).abs() < 1e-6, "two intervals without it: {reductions:?}");
}

#[test]
fn equal_marks_give_equal_rates_up_to_25_ms() {
    let p = 0.1_f64;
    let x = 1.0 - p + ((1.0 - p) * (3.0 - p)).sqrt();
    for rtt in [5, 10, 25, 100] {
        let mut flow = Flow::steady(ms(rtt), 10.0, p);
        flow.prague.config.max_intervals = 1.0;
        flow.run(Duration::from_secs(20), p);
        let before = flow.number;
        flow.run(Duration::from_secs(100), p);
        let (rate, expected) = ((flow.number - before) as f64 / 100.0, x / p / 0.025_f64.max(rtt as f64 / 1e3));
        assert!((rate / expected - 1.0).abs() < 0.1, "{rtt} ms: {rate} packets a second, not {expected}");
    }
}

#[test]
fn a_reduction_makes_up_for_the_wait_for_a_mark() {
    // 2 (1 - p) / (p T') without a limit; waits beyond two intervals, one in seven, count as two.
    let p = 0.05;
    let mut flow = Flow::steady(ms(10), 10.0, p);
    flow.run(Duration::from_secs(20), p);
    let before = flow.number;
    flow.run(Duration::from_secs(100), p);
    let (rate, expected) = ((flow.number - before) as f64 / 100.0, 2.0 * (1.0 - p) / p / 0.025);
    assert!((1.0..1.12).contains(&(rate / expected)), "{rate} packets a second, not {expected}");
}

#[test]
fn a_loss_halves_the_window_and_undoes_a_recent_mark() {
    for (later, expected) in [(ms(10), 50.0), (ms(25), 47.5), (ms(40), 47.5)] {
        let mut flow = Flow::steady(ms(20), 100.0, 0.1);
        flow.deliver(Ecn::Ce);
        assert!((flow.prague.packets() - 95.0).abs() < 1e-9);
        flow.prague.on_loss(flow.now + later, &loss(LossKind::Transient, 3, 20));
        assert!((flow.prague.packets() - expected).abs() < 1e-9, "{later:?}: {}", flow.prague.packets());
        flow.prague.on_notice(flow.now + later, Notice::SpuriousLoss);
        assert!((flow.prague.packets() - 95.0).abs() < 1e-9);
    }
}

#[test]
fn a_window_that_has_recovered_is_not_restored() {
    let mut flow = Flow::new(ms(20));
    flow.prague.window = Window::new(50.0, f64::INFINITY);
    flow.prague.on_loss(flow.now, &loss(LossKind::Transient, 3, 20));
    flow.prague.window.packets = 50.0;
    flow.prague.on_notice(flow.now, Notice::SpuriousLoss);
    assert_eq!(flow.prague.window.threshold, 25.0);
}

#[test]
fn many_marks_leave_the_minimum_rate_and_two_packets() {
    // 100 kb/s are 12.5 packets a second.
    for (rtt, packets) in [(80, 1.0), (40, 0.5), (1000, 2.0)] {
        let mut flow = Flow::new(ms(rtt));
        flow.prague.lower_to(0.0);
        assert_eq!(flow.prague.packets(), packets, "{rtt} ms");
    }
    let mut flow = Flow::steady(ms(5), 10.0, 1.0);
    flow.run(Duration::from_secs(2), 1.0);
    assert_eq!(flow.prague.rate(), Some(Rate::from_bps(100_000)));
    assert_eq!((flow.prague.window(), flow.prague.ecn()), (PACKET * 2, Some(Ecn::Ect1)));
}

#[test]
fn a_path_that_clears_codes_is_reported() {
    let mut flow = Flow::new(ms(20));
    (0..8).for_each(|_| flow.deliver(Ecn::NotEct));
    assert!(flow.prague.degraded_reason().is_some());
    flow.deliver(Ecn::Ect1);
    assert_eq!(flow.prague.degraded_reason(), None);
}

#[test]
fn the_state_after_a_mark_is_congestion_avoidance() {
    let mut flow = Flow::new(ms(20));
    assert_eq!(flow.prague.state(), "slow_start");
    flow.deliver(Ecn::Ce);
    assert_eq!(flow.prague.state(), "congestion_avoidance");
    flow.prague.on_loss(flow.now, &loss(LossKind::Persistent, 100, 100));
    assert_eq!(flow.prague.state(), "slow_start");
}
