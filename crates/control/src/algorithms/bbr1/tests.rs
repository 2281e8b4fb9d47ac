//! The rules of the draft and of Linux, on a path of 20 packets; and whole flows on one link in virtual time.

use super::*;
use crate::Arrival;
use crate::testing::link::Link;
use crate::testing::{PACKET, ack, arrived, loss};

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

fn ms(n: u64) -> Time {
    Time::ZERO + Duration::from_millis(n)
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
fn drain_ends_with_one_bandwidth_delay_product_in_flight() {
    for (in_flight, ends) in [(21, false), (20, true)] {
        let mut bbr = flow_in(State::Drain);
        set_in_flight(&mut bbr, in_flight);
        bbr.check_full_pipe(ms(0), &RateSample::default());
        assert_eq!(bbr.state != State::Drain, ends);
    }
}

#[test]
fn startup_counts_round_trips_not_acknowledgements() {
    let mut bbr = flow_in(State::Startup);
    bbr.full_pipe = FullPipe::default();
    for round in 0..4 {
        for is_start in [true, false, false, false] {
            bbr.rounds.is_start = is_start;
            bbr.check_full_pipe(ms(0), &RateSample::default());
            assert_eq!(bbr.state == State::Startup, round < 3, "the first one sets the rate");
        }
    }
}

#[test]
fn a_maximum_lasts_ten_round_trips_with_samples() {
    let mut bbr = flow_in(State::ProbeBw(2));
    let max = bbr.bandwidth.get();
    let round = |bbr: &mut Bbr1, rate: Option<Rate>, is_app_limited| {
        bbr.update_bandwidth(&RateSample { delivered: PACKET, rate, is_app_limited, ..RateSample::default() });
        assert!(bbr.rounds.is_start);
    };
    let slow = Some(max.scale(0.5));
    (0..20).for_each(|_| round(&mut bbr, None, false));
    (0..20).for_each(|_| round(&mut bbr, slow, true));
    assert_eq!(bbr.bandwidth.get(), max, "nothing was measured");
    bbr.rounds_without_sample = 0;
    for _ in 0..9 {
        round(&mut bbr, slow, false);
        assert_eq!(bbr.bandwidth.get(), max);
    }
    round(&mut bbr, slow, false);
    assert_eq!(bbr.bandwidth.get(), max.scale(0.5));
    round(&mut bbr, Some(max), true);
    assert_eq!(bbr.bandwidth.get(), max, "the path is at least as fast as a limited application");
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
fn an_idle_time_takes_the_place_of_a_drained_path() {
    let mut bbr = flow_in(State::ProbeBw(0));
    bbr.on_idle(ms(11_000), RTT, RTT);
    bbr.update_min_rtt(ms(11_000), None);
    assert!(matches!(bbr.state, State::ProbeRtt(_)), "the window, not the application, stopped the flow");
    let mut bbr = flow_in(State::ProbeBw(0));
    set_in_flight(&mut bbr, 4);
    bbr.on_notice(ms(0), Notice::AppLimited);
    bbr.on_idle(ms(11_000), RTT, RTT);
    assert_eq!(bbr.pacing_rate, bbr.bandwidth.get().scale(0.99), "at a gain of 1");
    bbr.update_min_rtt(ms(11_000), None);
    assert_eq!(bbr.state, State::ProbeBw(0));
    (bbr.state, bbr.round_done) = (State::ProbeRtt(Some(ms(11_200))), true);
    bbr.on_idle(ms(11_200), RTT, RTT);
    assert_eq!(bbr.state, State::ProbeRtt(Some(ms(11_200))));
    bbr.on_idle(ms(11_201), RTT, RTT);
    assert!(matches!(bbr.state, State::ProbeBw(_)));
}

/// Packets 0 to 39 are sent at 0 ms, and `lost` of them, from 0 on, are lost.
fn after_losses(state: State, lost: u64) -> Bbr1 {
    let mut bbr = flow_in(state);
    bbr.window = PACKET * 40;
    for number in 0..40 {
        bbr.on_sent(ms(0), &Sent { number, bytes: PACKET, in_flight: PACKET * (number + 1) });
    }
    bbr.delivery.on_ack(ms(20), &Ack { in_flight: PACKET * 40, ..ack(1) }); // the round trip has begun
    for number in 0..lost {
        bbr.on_loss(ms(20), &loss(LossKind::Transient, number, 39));
    }
    bbr
}

/// Acknowledges packet `number`, of those sent at 0 ms, at `millis`.
fn acknowledge(bbr: &mut Bbr1, millis: u64, number: u64, in_flight: u64, recovering: bool) {
    let arrivals = [Arrival { number, bytes: PACKET, sent_at: ms(0), ..Arrival::default() }];
    let ack = arrived(&arrivals, Duration::from_millis(millis));
    bbr.on_ack(ms(millis), &Ack { in_flight: PACKET * in_flight, recovering, min_rtt: RTT / 2, ..ack });
}

#[test]
fn losses_end_a_probe() {
    for (lost, at) in [(0, 0), (1, 1)] {
        let mut bbr = after_losses(State::ProbeBw(0), lost);
        acknowledge(&mut bbr, 25, 5, 10, lost > 0);
        assert_eq!(bbr.state, State::ProbeBw(at));
    }
}

#[test]
fn recovery_conserves_packets_and_then_restores_the_window() {
    let mut bbr = after_losses(State::ProbeBw(2), 1);
    assert_eq!(bbr.window(), PACKET * 39, "what is in flight");
    bbr.on_loss(ms(20), &loss(LossKind::Transient, 1, 39));
    assert_eq!(bbr.window(), PACKET * 38, "less by each further loss");
    acknowledge(&mut bbr, 20, 2, 10, true);
    assert_eq!(bbr.window(), PACKET * 38);
    bbr.window = PACKET * 11;
    acknowledge(&mut bbr, 20, 3, 37, true);
    assert_eq!((bbr.window(), bbr.recovery), (PACKET * 38, Some(true)), "37 in flight, and the one acknowledged");
    bbr.on_sent(ms(20), &Sent { number: 40, bytes: PACKET, in_flight: PACKET * 38 });
    let arrivals = [Arrival { number: 40, bytes: PACKET, sent_at: ms(20), ..Arrival::default() }];
    bbr.window = PACKET * 20;
    bbr.on_ack(ms(40), &Ack { recovering: true, in_flight: PACKET * 37, ..arrived(&arrivals, RTT / 2) });
    assert_eq!((bbr.window(), bbr.recovery), (PACKET * 21, Some(false)), "a round trip has ended");
    acknowledge(&mut bbr, 41, 4, 36, false);
    assert_eq!((bbr.window() >= PACKET * 40, bbr.recovery), (true, None));
}

#[test]
fn a_timeout_leaves_a_packet_more_than_is_in_flight() {
    let mut bbr = after_losses(State::Startup, 0);
    (bbr.full_pipe.reached, bbr.full_pipe.now) = (false, true);
    bbr.on_loss(ms(900), &Loss { bytes: PACKET * 37, ..loss(LossKind::Persistent, 39, 39) });
    assert_eq!((bbr.window(), bbr.full_pipe.now), (PACKET * 4, false));
    bbr.full_pipe.now = true;
    bbr.on_notice(ms(901), Notice::SpuriousLoss);
    assert_eq!((bbr.window(), bbr.full_pipe.now), (PACKET * 40, false), "it was spurious");
}

#[test]
fn recovery_and_probe_rtt_keep_the_window_before_them() {
    for (state, recovery, kept) in
        [(State::ProbeBw(2), None, 10), (State::ProbeBw(2), Some(false), 40), (State::ProbeRtt(None), None, 40)]
    {
        let mut bbr = flow_in(State::ProbeBw(2));
        bbr.window = PACKET * 40;
        bbr.save_window();
        (bbr.state, bbr.recovery, bbr.window) = (state, recovery, PACKET * 10);
        bbr.save_window();
        assert_eq!(bbr.prior_window, PACKET * kept, "{state:?} {recovery:?}");
    }
}

#[test]
fn before_the_path_was_full_the_rate_only_grows() {
    let mut bbr = flow_in(State::Startup);
    bbr.full_pipe.reached = false;
    let expected = |gain| Rate::of(PACKET, Duration::from_millis(1)).scale(gain * 0.99);
    for (gain, rate) in [(0.5, 2.0), (2.885, 2.885), (1.0, 2.885)] {
        bbr.pacing_rate = bbr.pacing_rate.max(expected(2.0));
        bbr.set_pacing_rate(gain);
        assert_eq!(bbr.pacing_rate, expected(rate));
    }
    bbr.full_pipe.reached = true;
    bbr.set_pacing_rate(0.75);
    assert_eq!(bbr.pacing_rate, expected(0.75));
}

#[test]
fn startup_grows_to_its_multiple_or_for_the_first_window() {
    // 2.885 products of 20 packets are 57.7; the first window has 10.
    let target = Bytes::new(57_700);
    for (window, delivered, grows) in [
        (target - Bytes::new(1), 10, true),
        (target, 10, false),
        (target + Bytes::new(1), 10, false),
        (target, 9, true),
        (target, 11, false),
    ] {
        let mut bbr = flow_in(State::Startup);
        (bbr.full_pipe.reached, bbr.window) = (false, window);
        bbr.delivery.on_ack(ms(0), &ack(delivered));
        bbr.set_window(PACKET);
        assert_eq!(bbr.window, if grows { window + PACKET } else { window }, "{window} {delivered}");
    }
}

#[test]
fn the_window_adds_a_burst_of_acknowledgements() {
    let mut bbr = flow_in(State::ProbeBw(2));
    bbr.aggregation.update(ms(0), PACKET * 7, Rate::ZERO, Bytes::MAX);
    bbr.set_window(PACKET * 100);
    assert_eq!(bbr.window, PACKET * 47);
}

#[test]
fn without_a_round_trip_the_first_window_takes_a_millisecond() {
    for (rtt, millis) in [(Duration::ZERO, 1), (Duration::from_millis(20), 20)] {
        let mut bbr = flow_in(State::Startup);
        bbr.on_path(ms(0), &Path::new(PACKET, rtt, None));
        let expected = Rate::of(PACKET * 10, Duration::from_millis(millis)).scale(HIGH_GAIN);
        assert_eq!((bbr.window(), bbr.rate()), (PACKET * 10, Some(expected)));
    }
}

#[test]
fn four_packets_are_in_flight_where_one_is_too_many() {
    for state in [State::ProbeBw(2), State::ProbeRtt(None)] {
        let mut bbr = flow_in(state);
        bbr.min_rtt = Duration::from_millis(1);
        bbr.set_window(PACKET * 20);
        assert_eq!(bbr.window, PACKET * 4, "{state:?}");
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

#[test]
fn states_have_the_names_of_the_draft_in_its_order() {
    let (mut flow, mut names) = (flow(40, 4.0), Vec::new());
    flow.run_until(Time::ZERO + Duration::from_secs(20), |flow| {
        if names.last() != Some(&flow.sender.state()) {
            names.push(flow.sender.state());
        }
        matches!(flow.sender.state, State::ProbeRtt(_))
    });
    assert_eq!(names, ["startup", "drain", "probe_bw", "probe_rtt"]);
}
