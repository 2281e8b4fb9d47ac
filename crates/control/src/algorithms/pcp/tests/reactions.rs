//! Reactions to events on a path whose capacity is known: test rates, packet sizes, stalls, competitive mode.

use super::*;

/// A flow at 10 Mb/s, whose first train tests the 30 Mb/s of its path: a packet in 0.27 ms. Twenty packets arrived in the
/// last round trip, the first `waited` of which had waited half a millisecond.
pub(in crate::algorithms::pcp) fn known_path(config: &Config, waited: u64) -> World {
    let rate = Rate::from_bps(30_000_000);
    let mut world = World::with(config, Some(History { capacity: rate, ..History::new(rate, RTT) }));
    for n in 0..20 {
        let sent_at = Time::ZERO + Duration::from_millis(n);
        let wait = Duration::from_micros(if n < waited { 500 } else { 0 });
        let arrival = Arrival { bytes: PACKET, sent_at, received_at: sent_at + RTT / 2 + wait, ..Arrival::default() };
        world.sender.queue.on_arrival(sent_at + RTT + wait, &arrival, RTT + wait, RTT);
    }
    let view = world.sender.queue.view(config, Time::ZERO + RTT * 2, RTT, RTT, false).unwrap();
    world.sender.view = View { noise: Duration::ZERO, ..view };
    world
}

#[test]
fn the_next_test_is_for_what_other_flows_leave() {
    // Four of 20 packets wait at a utilization of 0.353, so others use (20 0.353 + 1) / 22 of the link, and the flow a
    // third. The share `join` of the others grows with it (`growth`).
    for (waited, used) in [(0, 1.0 / 22.0), (4, (20.0 * 0.3525 + 1.0) / 22.0)] {
        let mut world = known_path(&Config::default(), waited);
        let test = world.sender.next_test(Time::ZERO + RTT).unwrap();
        let join = used / (used + 1.0 / 3.0);
        let expected = 10e6 * ((1.0 - used * (1.0 - join)) / (1.0 / 3.0 + used * join) - 1.0);
        assert!((test.as_bps_f64() / expected - 1.0).abs() < 1e-3, "{test} instead of {expected}");
        assert_eq!(world.sender.search.test(Rate::ZERO, Rate::MAX), test, "the search continues from it");
    }
    let mut world = World::with(&Config::default(), Some(History::new(Rate::from_bps(30_000_000), RTT)));
    assert_eq!(world.sender.next_test(Time::ZERO + RTT), Some(Rate::from_bps(20_000_000)), "the rest of the history");
}

#[test]
fn in_a_standing_queue_a_test_is_the_room_below_the_target() {
    // The target is 1 + 3 ln 3 packets, 1.15 ms. With 0.8 ms in the queue 0.15 0.35 / 10 of the rate are free in a round
    // trip, counted for up to four.
    for (round_trips, expected) in [(3, 155_460), (4, 207_280), (8, 207_280)] {
        let mut world = known_path(&Config::default(), 0);
        world.sender.view.level = Duration::from_micros(800);
        let test = world.sender.next_test(Time::ZERO + RTT * round_trips).unwrap();
        assert!(test.as_bps().abs_diff(expected) < 200, "{round_trips}: {test}");
    }
    let mut world = known_path(&Config::default(), 0);
    world.sender.view.level = Duration::from_millis(2);
    let now = Time::ZERO + RTT;
    assert_eq!(world.sender.next_test(now), None);
    world.sender.phase = Phase::Waiting(now);
    world.sender.poll(now);
    assert_eq!(world.sender.phase, Phase::Waiting(now + RTT), "it looks again a round trip later");
}

#[test]
fn trains_count_their_length_in_bunches() {
    // 75 packets at 1 Gb/s take three times the host jitter; five of them leave together.
    let mut world = known_path(&Config::default(), 0);
    let rate = Rate::from_bps(500_000_000);
    world.sender.host_jitter.estimate = Duration::from_micros(200);
    (world.sender.base, world.sender.bunch) = (rate, Duration::from_micros(40));
    assert_eq!(world.sender.train_length(rate), 16);
}

#[test]
fn a_late_bunch_does_not_delay_the_next() {
    let mut world = World::new();
    let (bunch, rate) = (Duration::from_micros(100), Rate::from_bps(1_000_000_000));
    (world.sender.bunch, world.sender.base) = (bunch, rate);
    world.sender.phase = Phase::Waiting(Time::MAX);
    world.sender.pacer.reset(world.now);
    let first = world.send(12)[0].0;
    world.now = world.sender.departure().at + Duration::from_micros(90);
    world.send(12);
    assert_eq!(world.sender.departure().at, first + rate.time_to_send(PACKET * 24));
}

#[test]
fn a_bunch_of_a_train_may_be_late_by_its_own_time() {
    for (late, is_made_up_for) in [(90, true), (200, false)] {
        let mut world = World::new();
        world.now = Time::ZERO + RTT;
        (world.sender.bunch, world.sender.base) = (Duration::from_micros(100), Rate::from_bps(1_000_000_000));
        world.sender.phase = Phase::Waiting(world.now);
        world.sender.poll(world.now);
        let bunch = world.sender.pace().time_to_send(PACKET * 12);
        let first = world.send(12)[0].0;
        world.now = world.sender.departure().at + Duration::from_micros(late);
        let second = world.send(12)[0].0;
        assert_eq!((second.since(first), world.sender.phase), (bunch + Duration::from_micros(late), Phase::Sending));
        let next = if is_made_up_for { first + bunch * 2 } else { second };
        assert_eq!(world.sender.departure().at, next, "{late} us late");
    }
}

#[test]
fn larger_packets_wait_for_the_end_of_a_train() {
    let mut world = World::new();
    world.sender.on_packet_size(world.now, PACKET * 2);
    let train = world.train();
    assert!(train.iter().all(|packet| packet.2 == PACKET));
    world.acknowledge(&train, Duration::ZERO);
    assert_eq!((world.sender.departure().bytes, world.sender.queue.min_rtt(PACKET)), (PACKET * 2, None));
}

#[test]
fn smaller_packets_end_a_train() {
    let mut world = World::new();
    for bytes in [PACKET, PACKET / 2] {
        world.sender.phase = Phase::Sending;
        world.sender.on_packet_size(world.now, bytes);
        assert_eq!((world.sender.departure().bytes, world.sender.phase), (bytes, Phase::Waiting(world.now)));
    }
    world.sender.phase = Phase::Waiting(Time::MAX);
    world.sender.on_packet_size(world.now, PACKET);
    assert_eq!((world.sender.departure().bytes, world.sender.phase), (PACKET, Phase::Waiting(Time::MAX)));
}

#[test]
fn a_train_with_receipts_is_answered() {
    let mut world = World::new();
    world.sender.unanswered_trains = 3;
    let train = world.train();
    world.acknowledge(&train, Duration::ZERO);
    assert_eq!(world.sender.unanswered_trains, 0);
}

#[test]
fn a_pair_shows_no_more_than_the_maximum_rate() {
    let max_rate = Rate::from_bps(10_000_000);
    let mut world = World::with(&Config { max_rate, compete: false, ..Config::default() }, None);
    let train = world.train();
    world.acknowledge(&train, Duration::from_micros(100)); // 80 Mb/s
    assert_eq!(world.sender.path_history.capacity(), Some(max_rate));
}

#[test]
fn a_small_grant_does_not_end_slow_start() {
    let mut world = World::with(&Config::default(), None);
    let (base, train) = (world.sender.base, world.train());
    world.acknowledge(&train, Duration::ZERO);
    assert!(world.sender.base > base && world.sender.slow_start.is_some());
}

#[test]
fn noise_counts_up_to_its_maximum() {
    let mut world = World::with(&Config::default(), Some(History::new(Rate::from_bps(30_000_000), RTT)));
    (100..160).for_each(|at| world.arrive(at..=at, at % 2));
    assert_eq!(world.sender.view.noise, MAX_NOISE);
}

#[test]
fn a_standing_queue_lowers_the_rate() {
    let mut world = known_path(&Config { compete: false, drain_after: None, ..Config::default() }, 0);
    world.sender.phase = Phase::Waiting(Time::MAX);
    world.arrive(100..200, 0);
    let base = world.sender.base;
    world.arrive(200..440, 4);
    assert!(world.sender.base < base.scale(0.9), "{} of {base}", world.sender.base);
}

#[test]
fn in_competitive_mode_the_rate_is_that_of_the_window() {
    let mut world = World::with(&Config::default(), Some(History::new(Rate::from_bps(30_000_000), RTT)));
    world.arrive((1500..2000).step_by(5), 0);
    world.sender.enter_competitive_mode(world.now, competitive::new_cubic(world.now, PACKET, PACKET * 60, RTT));
    assert_eq!(world.sender.phase, Phase::Waiting(world.now + RTT));
    world.arrive((2000..2400).step_by(5), 30);
    let rate = Rate::of(world.sender.window(), world.sender.rtt).scale(competitive::SPACING);
    assert_eq!(world.sender.base, rate, "and no queue reduces it");
    world.sender.phase = Phase::Waiting(world.now);
    world.sender.poll(world.now);
    assert_eq!(world.sender.phase, Phase::Waiting(world.now + world.sender.rtt), "without probes");
}

#[test]
fn an_exit_counts_as_a_cut() {
    let mut world = draining();
    while world.sender.competitive.is_on() {
        let at = world.now.as_nanos() / 1_000_000 + 5;
        world.arrive(at..=at, 4);
    }
    assert!(world.sender.phase.deadline() >= world.now + world.sender.rtt, "and no probe follows in a round trip");
    let cut = world.sender.compensation.cut(world.now, RTT, 0.5);
    assert!((cut - 0.2).abs() < 1e-9, "{cut}");
}

#[test]
fn a_loss_without_a_queue_is_chance() {
    for (wait, stays) in [(0, false), (30, true)] {
        let mut world = World::with(&Config::default(), Some(History::new(Rate::from_bps(30_000_000), RTT)));
        world.arrive((1500..2000).step_by(5), 0);
        world.sender.enter_competitive_mode(world.now, competitive::new_cubic(world.now, PACKET, PACKET * 60, RTT));
        world.sender.view.level = Duration::from_millis(wait);
        world.sender.on_loss(world.now, &loss(PACKET));
        world.arrive(2001..2020, 0);
        assert_eq!(world.sender.competitive.is_on(), stays, "{wait}");
    }
}

#[test]
fn round_trip_times_of_zero_are_unknown() {
    let mut world = World::established();
    for (smoothed, min, expected) in [(0, 0, (20, 20)), (50, 15, (50, 15)), (0, 0, (50, 15))] {
        let (smoothed_rtt, min_rtt) = (Duration::from_millis(smoothed), Duration::from_millis(min));
        world.sender.on_ack(world.now, &Ack { smoothed_rtt, min_rtt, ..testing::ack(1) });
        let (rtt, min_rtt) = (Duration::from_millis(expected.0), Duration::from_millis(expected.1));
        assert_eq!((world.sender.rtt, world.sender.min_rtt), (rtt, min_rtt));
    }
}

#[test]
fn packets_in_transit_during_a_stall_show_nothing() {
    // Packets that arrive at these times were sent 20 ms before. The host stalled from 100 to 110 ms.
    for (at, counts) in [(99, true), (100, false), (130, false), (131, true)] {
        let mut world = World::established();
        world.sender.use_packet(world.now, PACKET);
        world.sender.on_notice(
            Time::ZERO + Duration::from_millis(110),
            Notice::Stall { since: Time::ZERO + Duration::from_millis(100) },
        );
        world.arrive(at..=at, 0);
        assert_eq!(world.sender.queue.min_rtt(PACKET).is_some(), counts, "{at}");
    }
}

#[test]
fn a_stall_during_other_packets_does_not_disturb_a_train() {
    let mut world = World::established();
    let train = world.train();
    let at = |millis| Time::ZERO + Duration::from_millis(millis);
    world.sender.on_notice(at(110), Notice::Stall { since: at(100) });
    world.arrive(105..=105, 0);
    assert!(!world.sender.probe.contains(105) && !world.sender.probe.host_stalled, "{train:?}");
}

#[test]
fn stalls_count_in_every_second_round_trip() {
    let mut world = World::new();
    let at = |millis| Time::ZERO + Duration::from_millis(millis);
    world.sender.on_notice(at(110), Notice::Stall { since: at(100) });
    for (since, counts) in [(149, false), (150, true)] {
        world.sender.on_notice(at(since + 5), Notice::Stall { since: at(since) });
        assert_eq!(world.sender.stall == Some((at(since), at(since + 5))), counts, "{since}");
    }
}

#[test]
fn with_round_trips_the_receivers_clock_does_not_matter() {
    let level = |round_trip| {
        let mut world = World::with(&Config { round_trip, compete: false, ..Config::default() }, None);
        for at in 100..160 {
            // The clock runs fast and jumps, and a queue lengthens the round trip from 20 to 25 ms.
            let rtt = Duration::from_millis(if at < 130 { 20 } else { 25 });
            let (now, sent_at) = (Time::ZERO + Duration::from_millis(at), Time::ZERO + Duration::from_millis(at) - rtt);
            let received_at = sent_at + Duration::from_millis(at / 10 + at % 2);
            let arrivals = [Arrival { number: at, bytes: PACKET, sent_at, received_at, ..Arrival::default() }];
            let ack = arrived(&arrivals, rtt);
            world.sender.on_ack(now, &Ack { min_rtt: RTT, ..ack });
        }
        (world.sender.view.level, world.sender.host_jitter.estimate)
    };
    assert_eq!(level(true), (Duration::from_millis(5), Duration::ZERO));
    assert!(level(false).1 > Duration::ZERO);
}

#[test]
fn a_transfer_leaves_its_history() {
    let mut history = None;
    World::established().sender.remember(Time::ZERO, &mut history);
    assert!(history.is_some_and(|history| history.base_rate > first_rate() && history.min_rtt == RTT));
}
