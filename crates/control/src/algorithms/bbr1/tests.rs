//! The rules of the draft and of Linux, on a path of 20 packets; and whole flows on one link in virtual time.

use super::*;
use crate::testing::link::Link;
use crate::testing::{PACKET, ms};

const RTT: Duration = Duration::from_millis(40);

fn flow(megabits: u64, buffer: f64) -> Link<Bbr1> {
    Link::new(&Config::default(), Rate::from_bps(megabits * 1_000_000), RTT, buffer)
}

/// A flow in `state` on a path of 1 packet a millisecond and 20 ms that has been full: 20 packets.
fn flow_in(state: State) -> Bbr1 {
    let mut bbr = Bbr1::new(&Config::default(), Random::from_seed(1));
    bbr.on_path(Time::ZERO, &Path::new(PACKET, Duration::from_millis(20), None));
    bbr.bandwidth.add(Rate::of(PACKET, Duration::from_millis(1)));
    bbr.full_pipe.reached = true;
    bbr.state = state;
    bbr
}

fn set_in_flight(bbr: &mut Bbr1, packets: u64) {
    bbr.delivery.on_sent(Time::ZERO, &Sent { number: 0, bytes: PACKET, in_flight: PACKET * packets });
}

#[test]
fn a_gain_lasts_a_round_trip_or_until_it_has_its_effect() {
    // 1.25: until a quarter more is in flight or lost. 0.75: at most until the queue is gone.
    for (at, millis, has_losses, in_flight, ends) in [
        (0, 20, true, 25, false),
        (0, 21, false, 24, false),
        (0, 21, false, 25, true),
        (0, 21, true, 24, true),
        (1, 20, false, 21, false),
        (1, 20, false, 20, true),
        (1, 21, false, 21, true),
        (2, 20, false, 0, false),
        (2, 21, false, 30, true),
        (7, 21, false, 30, true),
    ] {
        let mut bbr = flow_in(State::ProbeBw(at));
        set_in_flight(&mut bbr, in_flight);
        bbr.update_cycle(ms(millis), has_losses);
        let next = if ends { (at + 1) % 8 } else { at };
        assert_eq!(bbr.state, State::ProbeBw(next), "{at} {millis} {has_losses} {in_flight}");
    }
}

#[test]
fn a_cycle_starts_with_any_gain_but_the_lowest() {
    let mut bbr = flow_in(State::Drain);
    let mut starts = [0; 8];
    for _ in 0..1000 {
        bbr.start_cycle(ms(0));
        if let State::ProbeBw(at) = bbr.state {
            starts[at] += 1;
        }
    }
    assert_eq!(starts.map(|count| count > 0), CYCLE.map(|gain| gain >= 1.0), "{starts:?}");
}

#[test]
fn ten_seconds_replace_a_minimum_and_drain_the_path() {
    let mut bbr = flow_in(State::ProbeBw(2));
    set_in_flight(&mut bbr, 5);
    for (millis, rtt, min) in [(1000, 20, 20), (2000, 19, 19), (3000, 19, 19), (12_000, 25, 19)] {
        bbr.update_min_rtt(ms(millis), Some(Duration::from_millis(rtt)));
        assert_eq!((bbr.state, bbr.min_rtt), (State::ProbeBw(2), Duration::from_millis(min)), "{millis}");
    }
    bbr.update_min_rtt(ms(12_001), Some(Duration::from_millis(25)));
    assert_eq!((bbr.state, bbr.min_rtt), (State::ProbeRtt(None), Duration::from_millis(25)), "too much in flight");
    set_in_flight(&mut bbr, 4);
    bbr.update_min_rtt(ms(12_020), None);
    assert_eq!(bbr.state, State::ProbeRtt(Some(ms(12_220))));
    for (millis, is_start, ends) in [(12_300, false, false), (12_300, true, true)] {
        bbr.rounds.is_start = is_start;
        bbr.update_min_rtt(ms(millis), None);
        assert_eq!(matches!(bbr.state, State::ProbeBw(_)), ends);
    }
}

#[test]
fn probes_lose_packets_without_a_buffer() {
    // In each cycle of 8 round trips one sends 1.25 times the rate: 3% of packets without a buffer to keep them.
    let mut flow = flow(40, 0.02);
    flow.run(Duration::from_secs(3));
    let (lost, delivered) = (flow.lost, flow.delivered);
    flow.run(Duration::from_secs(6));
    let share = (flow.lost - lost).as_f64() / (flow.delivered - delivered).as_f64();
    assert!((0.01..0.06).contains(&share), "{share}");
}

#[test]
fn a_short_path_keeps_its_estimate_while_it_is_drained() {
    let rate = Rate::from_bps(40_000_000);
    let mut flow: Link<Bbr1> = Link::new(&Config::default(), rate, Duration::from_millis(5), 2.0);
    let end = Time::ZERO + Duration::from_secs(30);
    flow.run_until(end, |flow| matches!(flow.sender.state, State::ProbeRtt(_)));
    flow.run(Duration::from_millis(300));
    let share = flow.utilization(Duration::from_secs(1));
    assert!(share > 0.9, "{share}");
}

#[test]
fn gains_follow_each_other_for_a_round_trip_each() {
    let mut flow = flow(40, 2.0);
    flow.run(Duration::from_secs(2));
    let mut gains = Vec::new();
    for _ in 0..16 {
        flow.run(RTT);
        gains.push(flow.sender.pacing_gain());
    }
    let count = |gain: f64| gains.iter().filter(|g| **g == gain).count();
    assert!(count(1.25) >= 1 && count(1.0) >= 10, "{gains:?}");
}

#[test]
fn ten_seconds_without_a_lower_round_trip_drain_the_path() {
    let mut flow = flow(40, 2.0);
    let end = Time::ZERO + Duration::from_secs(30);
    flow.run_until(end, |flow| matches!(flow.sender.state, State::ProbeRtt(_)));
    assert!(flow.now > Time::ZERO + Duration::from_secs(10) && flow.now < end);
    flow.run(RTT * 3);
    assert!(flow.in_flight <= PACKET * 4);
    assert!(flow.utilization(Duration::from_secs(4)) > 0.85);
}
