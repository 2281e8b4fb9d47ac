//! Most test cases of the draft's appendix, on one link in virtual time (`testing::link`).

use std::ops::{Deref, DerefMut};

use super::*;
use crate::testing::PACKET;
use crate::testing::link::Link;

const RTT: Duration = Duration::from_millis(40);

/// A flow, and the states that it has been in.
struct Flow {
    link: Link<Bbr>,
    states: Vec<(Time, State)>,
}

impl Flow {
    /// A flow on a link of `megabits` a second with a buffer of `buffer` bandwidth-delay products.
    fn new(megabits: u64, buffer: f64) -> Self {
        let rate = Rate::from_bps(megabits * 1_000_000);
        Self { link: Link::new(&Config::default(), rate, RTT, buffer), states: vec![(Time::ZERO, State::Startup)] }
    }

    /// Runs while `goes_on`, for at most `span`.
    fn run_while(&mut self, span: Duration, goes_on: impl Fn(State) -> bool) {
        let states = &mut self.states;
        self.link.run_until(self.link.now + span, |link| {
            let state = link.sender.state;
            if states.last().is_some_and(|last| last.1 != state) {
                states.push((link.now, state));
            }
            !goes_on(state)
        });
    }

    /// Runs until the flow is in `state`, for at most 30 s.
    fn run_to(&mut self, state: State) {
        self.run_while(seconds(30), |now| now != state);
        assert_eq!(self.sender.state, state);
    }

    fn bandwidth_share(&self) -> f64 {
        self.sender.max_bw.get().as_bps_f64() / self.rate.as_bps_f64()
    }

    fn has_been(&self, state: State) -> bool {
        self.states.iter().any(|entry| entry.1 == state)
    }

    /// The time that the flow spent in `state` most recently.
    fn time_in(&self, state: State) -> Duration {
        let at = self.states.iter().rposition(|entry| entry.1 == state).unwrap();
        self.states[at + 1].0.since(self.states[at].0)
    }
}

impl Deref for Flow {
    type Target = Link<Bbr>;

    fn deref(&self) -> &Link<Bbr> {
        &self.link
    }
}

impl DerefMut for Flow {
    fn deref_mut(&mut self) -> &mut Link<Bbr> {
        &mut self.link
    }
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A flow in `state` with a window of 40 packets, on a path of 1 packet a millisecond and 20 ms that has been full: its
/// bandwidth-delay product is 20 packets.
pub(super) fn flow_in(state: State) -> Bbr {
    let mut bbr = Bbr::new(&Config::default(), Random::from_seed(1));
    bbr.on_path(Time::ZERO, &Path::new(PACKET, Duration::from_millis(20), None));
    bbr.max_bw.add(Rate::of(PACKET, Duration::from_millis(1)));
    bbr.full_pipe.reached = true;
    (bbr.state, bbr.window) = (state, PACKET * 40);
    bbr
}

#[test]
fn startup_ends_when_the_delivery_rate_stops_growing() {
    let mut flow = Flow::new(40, 4.0);
    flow.run_to(State::Drain);
    assert!((flow.bandwidth_share() - 1.0).abs() < 0.02, "{}", flow.bandwidth_share());
    assert!(flow.sender.full_pipe.now && flow.sender.full_pipe.reached);
    // 10 packets to 200 in doublings are five round trips, and three without growth follow.
    assert!(flow.now < Time::ZERO + RTT * 16, "{:?}", flow.now);
}

#[test]
fn losses_end_startup_also_of_a_limited_application() {
    let mut flow = Flow::new(40, 4.0);
    flow.application = Some(Rate::from_bps(10_000_000));
    flow.run(seconds(2));
    assert_eq!(flow.sender.state, State::Startup);
    flow.lose_every = 6;
    flow.run(RTT * 4); // losses are seen after one, and a round trip of recovery follows
    assert!(flow.sender.full_pipe.reached && flow.sender.state.is_in_cycle());
}

#[test]
fn drain_ends_with_one_bandwidth_delay_product_in_flight() {
    let mut flow = Flow::new(40, 4.0);
    flow.run_to(State::Drain);
    flow.run(RTT / 2);
    let rate = flow.sender.pacing_rate.as_bps_f64() / flow.rate.as_bps_f64();
    assert!((rate - 0.5 * 0.99).abs() < 0.01, "{rate}");
    flow.run_while(seconds(9), |state| state == State::Drain);
    assert!(flow.in_flight <= flow.rate.bytes_in(RTT).scale(1.02), "{}", flow.in_flight);
    assert!(flow.time_in(State::Drain) < RTT * 3, "half of two bandwidth-delay products at half the rate");
}

#[test]
fn drain_ends_after_three_round_trips_if_the_link_became_slower() {
    let mut flow = Flow::new(40, 8.0);
    flow.run_to(State::Drain);
    flow.set_rate(0.3);
    flow.run_while(seconds(9), |state| state == State::Drain);
    assert_ne!(flow.sender.state, State::Drain);
    assert!(flow.in_flight > flow.sender.in_flight_for(1.0));
}

#[test]
fn a_probe_ends_when_the_rate_does_not_grow() {
    let mut flow = Flow::new(40, 4.0);
    flow.run_to(State::Up);
    flow.run_to(State::Down);
    assert!(flow.lost == Bytes::ZERO && flow.sender.full_pipe.now);
    flow.run_to(State::Cruise);
    assert!(flow.in_flight <= flow.sender.in_flight_for(1.0));
}

#[test]
fn losses_end_a_probe_and_set_the_long_term_limit() {
    let mut flow = Flow::new(40, 4.0);
    flow.run_to(State::Up);
    flow.lose_every = 10;
    flow.run_to(State::Down);
    assert!(flow.sender.long_term.in_flight < Bytes::MAX && flow.sender.long_term.was_too_high);
    let min = flow.sender.bdp(0.7);
    assert!(flow.sender.long_term.in_flight >= min.scale(0.98), "not below {min}");
}

#[test]
fn a_limited_application_without_losses_never_ends_a_probe() {
    let mut flow = Flow::new(40, 4.0);
    flow.run_to(State::Up);
    flow.application = Some(Rate::from_bps(5_000_000));
    flow.sender.min_rtt.recent_at = flow.now; // ProbeRtt does not end it
    flow.run(seconds(4));
    assert_eq!(flow.sender.state, State::Up);
}

#[test]
fn a_queue_that_stays_ends_down_after_its_time() {
    let mut flow = Flow::new(40, 8.0);
    flow.run_to(State::Up);
    flow.run_to(State::Down);
    flow.set_rate(0.88); // the rate in Down is 0.891 of what it was
    flow.sender.min_rtt.recent_at = flow.now; // ProbeRtt does not interrupt it
    flow.run_to(State::Refill);
    assert!(flow.time_in(State::Down) >= seconds(2), "without Cruise: {:?}", flow.states);
}

#[test]
fn the_path_is_drained_after_five_seconds_for_at_least_200_ms() {
    let mut flow = Flow::new(40, 4.0);
    flow.run_to(State::ProbeRtt);
    assert!(flow.now >= Time::ZERO + seconds(5));
    flow.run_to(State::Cruise);
    assert!(flow.time_in(State::ProbeRtt) >= Duration::from_millis(200));
    assert!(flow.time_in(State::ProbeRtt) < Duration::from_millis(400), "{}", flow.time_in(State::ProbeRtt));
    assert!(flow.utilization(seconds(4)) > 0.9);
}

#[test]
fn an_idle_time_takes_the_place_of_a_drained_path() {
    let mut flow = Flow::new(40, 4.0);
    flow.run(seconds(3));
    flow.application_at = flow.now + seconds(6);
    let now = flow.now;
    flow.sender.on_notice(now, Notice::AppLimited);
    flow.run_while(seconds(7), |state| state != State::ProbeRtt);
    assert!(!flow.has_been(State::ProbeRtt));
}

#[test]
fn aggregated_acknowledgements_do_not_stop_the_flow() {
    let mut flow = Flow::new(40, 4.0);
    flow.slot = Duration::from_millis(30);
    flow.run(seconds(2));
    assert!(flow.sender.aggregation.extra() > PACKET * 30, "{}", flow.sender.aggregation.extra());
    assert!(flow.utilization(seconds(2)) > 0.9);
}

#[test]
fn four_packets_are_in_flight_where_one_is_too_many() {
    let mut flow = Flow::new(1, 50.0);
    flow.rate = Rate::from_bps(150_000); // 0.75 packets in a round trip
    flow.run(seconds(4));
    assert_eq!(flow.sender.window(), PACKET * 4);
    assert!(flow.utilization(seconds(4)) > 0.95);
}

#[test]
fn ten_times_the_capacity_is_found_within_seconds() {
    let mut flow = Flow::new(10, 4.0);
    flow.run(seconds(4));
    flow.set_rate(10.0);
    flow.buffer = flow.buffer.scale(10.0);
    flow.run(seconds(6));
    assert!(flow.bandwidth_share() > 0.9, "{}", flow.bandwidth_share());
    assert!(flow.utilization(seconds(4)) > 0.85);
}

#[test]
fn a_tenth_of_the_capacity_is_used_without_lasting_loss() {
    let mut flow = Flow::new(100, 1.0);
    flow.run(seconds(4));
    flow.set_rate(0.1);
    flow.buffer = flow.buffer.scale(0.1);
    flow.run(seconds(15));
    assert!(flow.bandwidth_share() < 1.1, "{}", flow.bandwidth_share());
    let (lost, delivered) = (flow.lost, flow.delivered);
    assert!(flow.utilization(seconds(10)) > 0.85);
    let share = (flow.lost - lost).as_f64() / (flow.delivered - delivered).as_f64();
    assert!(share < 0.02, "{share}");
}

#[test]
fn a_fall_of_the_rate_leaves_no_lasting_queue_in_any_buffer() {
    // "Decreasing Bandwidth 10x": two cycles discard the old rate. The window is then two products of the new one at most,
    // one of them in the queue, or four packets.
    for (megabits, factor) in [(100, 0.1), (20, 0.1), (20, 0.05), (10, 0.1)] {
        for buffer in [1.0, 4.0, 40.0] {
            let mut flow = Flow::new(megabits, buffer);
            flow.run(seconds(8));
            flow.set_rate(factor);
            flow.run(seconds(30));
            let what = format!("{megabits} Mb/s, {factor}, {buffer}");
            assert!(flow.bandwidth_share() < 1.1, "{what}: {}", flow.bandwidth_share());
            let (lost, span) = (flow.lost, flow.now + seconds(10));
            let max = flow.rate.bytes_in(RTT).scale(2.0).max(PACKET * 4) + PACKET * 6; // and the send quantum
            flow.run_until(span, |flow| flow.in_flight > max);
            assert!(flow.now >= span && flow.lost == lost, "{what}: {} in flight at {:?}", flow.in_flight, flow.now);
        }
    }
}

#[test]
fn states_have_the_names_of_the_draft_in_its_order() {
    let (mut flow, mut names) = (Flow::new(40, 4.0), Vec::new());
    flow.run_until(Time::ZERO + seconds(20), |flow| {
        if names.last() != Some(&flow.sender.state()) {
            names.push(flow.sender.state());
        }
        flow.sender.state == State::ProbeRtt
    });
    // The first cycle begins on a drained path, so Down ends with the acknowledgement that starts it.
    let start = ["startup", "drain", "probe_bw_cruise", "probe_bw_refill", "probe_bw_up", "probe_bw_down"];
    assert!(names.starts_with(&start) && names.ends_with(&["probe_rtt"]), "{names:?}");
}
