//! The phases of Careful Resume, with a controller in slow start.

use super::*;

const PACKET: Bytes = Bytes::new(1000);
const RTT: Duration = Duration::from_millis(100);
const SAVED: Saved = Saved { window: Bytes::new(200_000), rtt: RTT, at: Time::ZERO };

/// A macroflow that sends as long as its window permits. Its controller is in slow start.
struct Flow {
    resume: Resume,
    state: State,
    now: Time,
}

impl Flow {
    /// A macroflow whose first window of ten packets has been acknowledged.
    fn confirmed(saved: Saved, rtt: Duration) -> Self {
        let mut resume = Resume::new(Duration::from_secs(60));
        resume.offer(Some(saved));
        resume.begin(PACKET * 10);
        let (window, in_flight, next_number) = (PACKET * 10, Bytes::ZERO, 0);
        let state = State { window, in_flight, next_number, packet: PACKET, rtt, min_rtt: rtt };
        let mut flow = Self { resume, state, now: Time::ZERO + rtt };
        flow.send();
        flow.deliver(10);
        flow
    }

    fn window(&self) -> Bytes {
        self.resume.window(self.state.window)
    }

    /// Sends a packet if the window permits it.
    fn send_one(&mut self) -> bool {
        if self.state.in_flight + PACKET > self.window() && !self.resume.on_window_full(self.now, &self.state) {
            return false;
        }
        self.state.in_flight += PACKET;
        self.state.next_number += 1;
        self.resume.on_sent(self.now, PACKET, &self.state);
        true
    }

    /// Sends until the window is full. Returns the number of packets.
    fn send(&mut self) -> u64 {
        let first = self.state.next_number;
        while self.send_one() {}
        self.state.next_number - first
    }

    /// The first `packets` of those in flight arrive.
    fn deliver(&mut self, packets: u64) {
        for _ in 0..packets {
            let number = self.state.next_number - self.state.in_flight.as_u64() / PACKET.as_u64();
            self.state.in_flight -= PACKET;
            self.state.window += PACKET;
            self.resume.on_delivered(self.now, PACKET, number, &self.state);
        }
    }

    /// A macroflow that may have 100 packets in flight from now on, of which it has 20.
    fn unvalidated() -> Self {
        let mut flow = Self::confirmed(SAVED, RTT);
        flow.state.in_flight = flow.window();
        flow.state.next_number = 30;
        assert!(flow.resume.on_window_full(flow.now, &flow.state) && flow.resume.is_unvalidated());
        flow
    }

    fn lose(&mut self, kind: LossKind) {
        self.resume.on_congestion(kind, &self.state);
    }
}

#[test]
fn the_second_window_is_half_of_the_saved_one() {
    let mut flow = Flow::confirmed(SAVED, RTT);
    assert_eq!(flow.window(), PACKET * 20, "slow start, until the window is full");
    assert_eq!((flow.send(), flow.window()), (100, PACKET * 100));
}

#[test]
fn it_ends_after_a_round_trip() {
    let nanosecond = Duration::from_nanos(1);
    let mut flow = Flow::unvalidated();
    flow.now += RTT;
    assert!(flow.send_one() && flow.resume.is_unvalidated());
    flow.now += nanosecond;
    assert!(flow.send_one() && !flow.resume.is_unvalidated());
    let mut flow = Flow::unvalidated();
    let mut ends = |at| {
        flow.resume.on_delivered(at, PACKET, 29, &flow.state);
        !flow.resume.is_unvalidated()
    };
    assert_eq!((ends(flow.now + RTT), ends(flow.now + RTT + nanosecond)), (false, true));
}

#[test]
fn it_is_paced_over_a_round_trip() {
    let mut flow = Flow::unvalidated();
    for sent in 1..=5 {
        flow.resume.on_sent(flow.now, PACKET, &flow.state);
        assert_eq!(flow.resume.departure(Time::ZERO), flow.now + RTT / 100 * sent);
    }
}

#[test]
fn packets_that_arrive_validate_and_enlarge_the_window() {
    let mut flow = Flow::confirmed(SAVED, RTT);
    flow.send();
    flow.deliver(100);
    // Slow start has grown to 10 + 10 + 100 packets; the window of the last phase doubles.
    assert_eq!((flow.state.window, flow.window()), (PACKET * 120, PACKET * 200));
    flow.send();
    flow.now += RTT;
    flow.deliver(100);
    assert_eq!(flow.window(), flow.state.window, "the controller has caught up");
}

#[test]
fn a_loss_leaves_half_of_what_has_arrived() {
    let mut flow = Flow::confirmed(SAVED, RTT);
    flow.send();
    flow.deliver(40);
    flow.lose(LossKind::Transient);
    // PipeSize: 20 packets were in flight before the jump, and 40 have arrived.
    assert_eq!(flow.window(), PACKET * 30);
    flow.lose(LossKind::Transient);
    flow.deliver(59);
    assert_eq!(flow.window(), PACKET * 30, "until the last unvalidated packet is acknowledged");
    flow.deliver(1);
    assert_eq!(flow.window(), flow.state.window);
    assert_eq!(flow.resume.saved, None);
}

#[test]
fn a_much_shorter_round_trip_ends_the_jump() {
    for (rtt, window) in [(RTT * 3 / 5, PACKET * 100), (RTT / 2, PACKET * 21 / 2)] {
        let mut flow = Flow::confirmed(SAVED, RTT);
        assert!((0..50).all(|_| flow.send_one()));
        flow.state.min_rtt = rtt;
        flow.deliver(1);
        // PipeSize: 20 packets were in flight before the jump, and one has arrived.
        assert_eq!(flow.window(), window, "{rtt}");
    }
}

#[test]
fn a_timeout_leaves_the_window_to_the_controller() {
    let mut flow = Flow::confirmed(SAVED, RTT);
    flow.send();
    flow.lose(LossKind::Persistent);
    assert_eq!((flow.window(), flow.resume.saved), (flow.state.window, None));
}

#[test]
fn a_timeout_ends_the_retreat() {
    let mut flow = Flow::confirmed(SAVED, RTT);
    flow.send();
    flow.lose(LossKind::Transient);
    assert_eq!(flow.window(), PACKET * 10);
    flow.lose(LossKind::Persistent);
    assert_eq!(flow.window(), flow.state.window);
}

#[test]
fn congestion_in_the_first_window_prevents_the_jump() {
    let mut flow = Flow::confirmed(SAVED, RTT);
    flow.lose(LossKind::Transient);
    assert_eq!(flow.send(), 20);
}

#[test]
fn another_round_trip_or_an_old_window_prevents_the_jump() {
    for (rtt, sent) in [(RTT / 2, 20), (RTT * 3 / 5, 100), (RTT * 10, 100), (RTT * 11, 20)] {
        assert_eq!(Flow::confirmed(SAVED, rtt).send(), sent, "{rtt}");
    }
    for (seconds, sent) in [(60, 100), (61, 20)] {
        let mut late = Flow::confirmed(SAVED, RTT);
        late.now = Time::ZERO + Duration::from_secs(seconds);
        assert_eq!(late.send(), sent);
    }
}

#[test]
fn the_best_of_the_last_eight_round_trips_is_saved() {
    let mut flow = Flow::confirmed(Saved { window: PACKET * 50, ..SAVED }, RTT);
    let mut saved_after = |packets: u64| {
        flow.state.in_flight = PACKET * packets;
        flow.state.next_number += packets;
        flow.now += RTT;
        flow.deliver(packets);
        flow.resume.save(flow.now, RTT).unwrap().window.as_u64() / 1000
    };
    saved_after(300);
    for _ in 0..8 {
        // All of a round trip arrive at once, so the first packet of the next one completes it.
        assert!((295..=300).contains(&saved_after(90)));
    }
    assert!((85..=90).contains(&saved_after(90)));
    let limited = Flow::confirmed(SAVED, RTT);
    assert_eq!(limited.resume.save(limited.now, RTT), Some(SAVED), "the application sent ten packets");
}

#[test]
fn a_window_below_four_first_windows_is_not_saved() {
    for (packets, is_saved) in [(36, false), (44, true)] {
        let mut resume = Resume::new(Duration::from_secs(60));
        resume.begin(PACKET * 10);
        let (window, in_flight, next_number) = (PACKET * 10, Bytes::ZERO, 100);
        let state = State { window, in_flight, next_number, packet: PACKET, rtt: RTT, min_rtt: RTT };
        for round in 0..3 {
            resume.on_delivered(Time::ZERO + RTT * round, PACKET * packets, 0, &state);
        }
        assert_eq!(resume.save(Time::ZERO, RTT).is_some(), is_saved, "{packets}");
    }
}
