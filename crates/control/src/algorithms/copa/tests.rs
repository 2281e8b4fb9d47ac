use super::*;
use crate::testing::link::Link;
use crate::testing::{PACKET, ack, loss};

const RTT: Duration = Duration::from_millis(50);

fn link(megabits: u64, rtt: Duration, buffer: f64) -> Link<Copa> {
    Link::new(&Config::default(), Rate::from_bps(megabits * 1_000_000), rtt, buffer)
}

/// A flow whose acknowledgements have round-trip times that the test determines.
struct Flow {
    copa: Copa,
    now: Time,
}

impl Flow {
    /// A flow with a window of `window` packets, after slow start, on a path of [`RTT`] without a queue.
    fn new(config: &Config, window: f64) -> Self {
        let mut copa = Copa::new(config, Random::from_seed(1));
        copa.on_path(Time::ZERO, &Path::new(PACKET, RTT, None));
        (copa.window, copa.in_slow_start) = (window, false);
        copa.velocity = Velocity::new(Time::ZERO, window);
        Self { copa, now: Time::ZERO }
    }

    /// One round trip, with 20 acknowledgements of a twentieth of the window and a queue that delays by `queue`.
    fn round(&mut self, queue: Duration) -> f64 {
        let before = self.copa.window;
        let delivered = PACKET.scale(before / 20.0);
        for _ in 0..20 {
            self.now += (RTT + queue) / 20;
            let rtt = RTT + queue;
            self.copa.on_ack(self.now, &Ack { delivered, rtt: Some(rtt), smoothed_rtt: rtt, ..ack(1) });
        }
        self.copa.window - before
    }

    fn lose(&mut self, kind: LossKind, number: u64) {
        self.copa.on_loss(self.now, &loss(kind, number, number + 10));
    }

    fn target(&self) -> f64 {
        self.copa.target
    }
}

/// The queueing delay at which `packets` are in the queue of a flow with a window of 100: the target of 2 is there.
fn queue(packets: f64) -> Duration {
    RTT.scale(packets / (100.0 - packets))
}

#[test]
fn one_flow_fills_the_link_with_a_short_queue() {
    // Section 3: the queue oscillates between 0 and 2.5 / delta = 5 packets.
    for (megabits, millis) in [(12, 50), (48, 100)] {
        let mut flow = link(megabits, Duration::from_millis(millis), 4.0);
        flow.run(Duration::from_secs(20));
        let (mut longest, end) = (Duration::ZERO, flow.now + Duration::from_secs(10));
        flow.run_until(end, |flow| {
            longest = longest.max(flow.sender.delays.queueing());
            false
        });
        let packets = flow.rate.bytes_in(longest).as_f64() / PACKET.as_f64();
        assert!((3.0..=7.0).contains(&packets), "{packets} packets at {megabits} Mb/s");
        let share = flow.utilization(Duration::from_secs(10));
        assert!(share > 0.99, "{share} at {megabits} Mb/s");
        assert_eq!(flow.lost, Bytes::ZERO);
    }
}

#[test]
fn the_window_moves_by_the_inverse_of_delta_in_a_round_trip() {
    for delta in [0.5, 0.1] {
        let mut flow = Flow::new(&Config { delta, ..Config::default() }, 100.0);
        let grown = flow.round(Duration::ZERO);
        assert!((grown - 1.0 / delta).abs() < 0.1 / delta, "{grown}");
    }
}

#[test]
fn the_velocity_doubles_after_three_windows_in_one_direction() {
    let mut flow = Flow::new(&Config::default(), 1000.0);
    for expected in [2.0, 2.0, 2.0, 4.0, 8.0, 16.0] {
        let grown = flow.round(Duration::ZERO);
        assert!((grown / expected - 1.0).abs() < 0.1, "{grown}, not {expected}");
    }
    // The next round trip would add 32. Its second half no longer includes a round trip without a queue.
    let grown = flow.round(queue(20.0));
    assert!(grown < 20.0, "{grown}");
    assert_eq!(flow.copa.velocity.value, 1.0);
}

#[test]
fn a_round_trip_at_most_doubles_the_window() {
    let mut flow = Flow::new(&Config::default(), 4.0);
    for _ in 0..20 {
        let before = flow.copa.window;
        flow.round(Duration::ZERO);
        assert!(flow.copa.window <= 2.1 * before);
    }
    assert!(flow.copa.window > 1000.0);
}

#[test]
fn a_queue_that_is_never_empty_starts_the_competitive_mode() {
    let mut flow = Flow::new(&Config::default(), 100.0);
    (0..9).for_each(|_| _ = flow.round(queue(20.0)));
    assert_eq!(flow.target(), 2.0);
    (0..13).for_each(|_| _ = flow.round(queue(20.0)));
    assert!((11.0..=14.0).contains(&flow.target()), "{}", flow.target());
    let target = flow.target();
    flow.lose(LossKind::Transient, 20);
    flow.lose(LossKind::Transient, 21);
    assert_eq!(flow.target(), target / 2.0, "once a window");
    flow.round(Duration::ZERO);
    assert_eq!(flow.target(), 2.0, "the queue was empty");
}

#[test]
fn losses_of_more_than_30_percent_reduce_the_window() {
    for (lost, window) in [(25, 100.0), (50, 70.0)] {
        let mut flow = Flow::new(&Config::default(), 100.0);
        (flow.copa.losses.lost, flow.copa.losses.delivered) = (PACKET * lost, PACKET * 100);
        flow.now += RTT * 3;
        flow.lose(LossKind::Transient, 20);
        assert_eq!(flow.copa.window, window, "{lost}");
    }
}

#[test]
fn packets_leave_at_twice_the_window_in_a_round_trip() {
    let mut flow = Flow::new(&Config::default(), 100.0);
    flow.copa.on_sent(flow.now, &Sent { number: 0, bytes: PACKET, in_flight: PACKET });
    assert_eq!(flow.copa.departure().at, flow.now + RTT / 200);
    assert_eq!(flow.copa.rate(), Some(Rate::of(PACKET * 200, RTT)));
}
