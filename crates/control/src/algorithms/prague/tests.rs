use super::*;
use crate::testing::{PACKET, arrived, loss};
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
