//! Flows without per-packet feedback: growth of the window by reports, aging, changes of shares.

use rampmeter_control::cm::{Cm, Config};
use rampmeter_control::{Algorithm, Arrival, History};
use rampmeter_manager::{
    Destination, FlowId, Grouping, HalfLife, LossMode, MacroflowChoice, Manager, Report, Scheduling, Share, Sharing,
    Thresholds, Update,
};
use rampmeter_units::{Bytes, Duration, Ecn, Rate, Stream, Time};
use rampmeter_wire::RouterFeedback;

const PACKET: Bytes = Bytes::new(1000);
const RTT: Duration = Duration::from_millis(100);
const HERE: Destination = Destination(1);

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

fn cm() -> Cm {
    Cm::new(&Config { initial_window: 4, ..Config::default() }, Stream::from_seed(1))
}

fn manager() -> Manager<Cm> {
    let (grouping, scheduling) = (Grouping::PerDestination, Scheduling::RoundRobin);
    Manager::new(Sharing { grouping, scheduling, half_life: HalfLife::MinRtt, ..Sharing::default() })
}

fn open(manager: &mut Manager<Cm>) -> FlowId {
    let flow = manager.open(Time::ZERO, HERE, cm);
    manager.on_path(Time::ZERO, flow, PACKET, RTT, RouterFeedback::None);
    flow
}

fn received(packets: u64) -> Report {
    Report { received: PACKET * packets, rtt: Some(RTT), ..Report::default() }
}

fn lost(packets: u64, mode: LossMode) -> Report {
    Report { lost: PACKET * packets, mode: Some(mode), ..Report::default() }
}

/// Sends `packets` without a request, as a synchronous sender does.
fn send(manager: &mut Manager<Cm>, now: Time, flow: FlowId, packets: u64) {
    (0..packets).for_each(|_| manager.notify(now, flow, PACKET));
}

fn window(manager: &Manager<Cm>, flow: FlowId) -> u64 {
    manager.query(Time::ZERO, flow).unwrap().window.as_u64() / PACKET.as_u64()
}

#[test]
fn a_report_opens_the_window_like_acknowledgements() {
    let mut manager = manager();
    let flow = open(&mut manager);
    send(&mut manager, at(0), flow, 4);
    manager.report(at(100), flow, &received(4));
    assert_eq!(window(&manager, flow), 8, "slow start");
}

#[test]
fn reports_of_one_episode_halve_the_window_once() {
    let mut manager = manager();
    let flow = open(&mut manager);
    for round in 0..4 {
        let sent = window(&manager, flow);
        send(&mut manager, at(round * 100), flow, sent);
        manager.report(at(round * 100 + 100), flow, &received(sent));
    }
    assert_eq!(window(&manager, flow), 64);
    send(&mut manager, at(400), flow, 64);
    manager.report(at(500), flow, &lost(1, LossMode::Transient));
    manager.report(at(510), flow, &lost(1, LossMode::Transient));
    assert_eq!(window(&manager, flow), 32);
    send(&mut manager, at(520), flow, 10);
    manager.report(at(640), flow, &lost(1, LossMode::Ecn));
    assert_eq!(window(&manager, flow), 16, "packets that departures after the first reduction");
    manager.report(at(2000), flow, &lost(5, LossMode::Persistent));
    assert_eq!(window(&manager, flow), 1);
}

#[test]
fn a_window_of_which_less_than_half_is_used_does_not_grow() {
    for (used, grown) in [(1, 4), (2, 6)] {
        let mut manager = manager();
        let flow = open(&mut manager);
        send(&mut manager, at(0), flow, used);
        manager.report(at(100), flow, &received(used));
        assert_eq!(window(&manager, flow), grown);
    }
}

#[test]
fn unreported_losses_do_not_count_as_use_of_the_window() {
    let mut manager = manager();
    let flow = open(&mut manager);
    for round in 0..100 {
        let sent = window(&manager, flow);
        send(&mut manager, at(round * 100), flow, sent);
        manager.report(at(round * 100 + 100), flow, &received(sent.min(10)));
    }
    let grown = window(&manager, flow);
    assert!((20..=50).contains(&grown), "{grown} packets, and 10 arrive in a round trip");
}

#[test]
fn a_rate_ages_by_the_minimum_rtt_until_feedback_arrives() {
    let mut manager = manager();
    let flow = open(&mut manager);
    manager.request(at(0), flow, false);
    let before = manager.query(at(0), flow).unwrap().rate;
    manager.on_feedback_overdue(at(100), flow, at(0));
    let rate = |manager: &Manager<Cm>, ms| manager.query(at(ms), flow).unwrap().rate;
    assert_eq!(rate(&manager, 100), before.scale(0.5));
    assert_eq!(rate(&manager, 200), before.scale(0.25));
    // The window does not limit the rate: packets leave at growing intervals.
    let mut departures = Vec::new();
    for ms in 100..4000 {
        manager.on_deadline(at(ms));
        while let Some(grant) = manager.grant(at(ms)) {
            manager.notify(at(ms), grant.flow, PACKET);
            manager.request(at(ms), grant.flow, false);
            departures.push(ms);
        }
    }
    assert_eq!(departures, [100, 150, 250, 1250, 2250, 3250], "one a second at the end");
    manager.report(at(4000), flow, &received(1));
    assert_eq!(window(&manager, flow), 2, "no feedback for longer than the timeout: slow start");
    assert_eq!(rate(&manager, 5000), Rate::of(PACKET * 2, RTT));
    manager.on_feedback_overdue(at(4040), flow, at(3900));
    assert_eq!(rate(&manager, 4040), Rate::of(PACKET * 2, RTT), "feedback has just arrived");
}

#[test]
fn packets_without_a_request_do_not_starve_others_while_aging() {
    let mut manager = manager();
    let (audio, bulk) = (open(&mut manager), open(&mut manager));
    manager.on_feedback_overdue(at(100), audio, at(0));
    manager.request(at(100), bulk, false);
    let mut departures = 0;
    for ms in 100..20_000 {
        manager.on_deadline(at(ms));
        // More often than the aged rate permits.
        if ms % 800 == 0 {
            manager.notify(at(ms), audio, PACKET);
        }
        while let Some(grant) = manager.grant(at(ms)) {
            manager.notify(at(ms), grant.flow, PACKET);
            manager.request(at(ms), grant.flow, false);
            departures += 1;
        }
    }
    assert!((19..=23).contains(&departures), "a packet a second: {departures}");
}

#[test]
fn only_late_feedback_restarts_aging_at_the_next_probe() {
    // Late is more than half a round trip later than expected.
    for (requested, ages) in [(0, true), (30, true), (31, false), (60, false)] {
        let mut manager = manager();
        let flow = open(&mut manager);
        send(&mut manager, at(0), flow, 2);
        let rate = |manager: &Manager<Cm>, ms| manager.query(at(ms), flow).unwrap().rate;
        manager.on_feedback_overdue(at(150), flow, at(0));
        manager.report(at(180), flow, &Report { sent_by: Some(at(requested)), ..received(1) });
        let full = rate(&manager, 180);
        manager.on_feedback_overdue(at(185), flow, at(60));
        assert_eq!(rate(&manager, 185), if ages { full.scale(0.5) } else { full }, "requested at {requested} ms");
    }
}

/// Feedback has arrived at 100 ms.
#[test]
fn feedback_half_a_round_trip_ago_is_no_answer() {
    let ages = |requested, overdue| {
        let mut manager = manager();
        let flow = open(&mut manager);
        send(&mut manager, at(0), flow, 2);
        manager.report(at(100), flow, &received(1));
        let before = manager.query(at(overdue), flow).unwrap().rate;
        manager.on_feedback_overdue(at(overdue), flow, at(requested));
        manager.query(at(overdue), flow).unwrap().rate < before
    };
    assert_eq!([ages(100, 110), ages(99, 110)], [true, false]);
    assert_eq!([ages(99, 150), ages(99, 149)], [true, false]);
}

#[test]
fn a_watching_flow_gets_changes_of_its_share() {
    let mut manager = manager();
    let (audio, bulk) = (open(&mut manager), open(&mut manager));
    manager.watch(at(0), audio, Thresholds::default());
    send(&mut manager, at(0), audio, 2);
    send(&mut manager, at(0), bulk, 2);
    assert_eq!(manager.poll_change(), None);
    manager.report(at(100), bulk, &received(2));
    manager.report(at(100), audio, &received(1));
    let change = manager.poll_change().expect("the window has grown, and only one flow has bytes in flight");
    assert_eq!((change.flow, change.share), (audio, Rate::of(PACKET * 6, RTT)));
    manager.report(at(120), audio, &received(1));
    assert_eq!(manager.poll_change(), None, "not so soon again");
    send(&mut manager, at(200), audio, 1);
    send(&mut manager, at(200), bulk, 9);
    manager.report(at(300), bulk, &lost(1, LossMode::Transient));
    let change = manager.poll_change().unwrap();
    assert_eq!(change.share, manager.query(at(300), audio).unwrap().share);
    assert_eq!(change.share, Rate::of(PACKET * 3 / 2, RTT));
    manager.share(bulk, Share { weight: 3.0, ..Share::default() });
    assert_eq!(manager.query(at(300), audio).unwrap().share, Rate::of(PACKET * 3 / 4, RTT));
}

#[test]
fn a_macroflow_outlives_its_last_flow_by_a_timeout() {
    let mut manager = manager();
    let flow = open(&mut manager);
    send(&mut manager, at(0), flow, 4);
    manager.report(at(100), flow, &received(4));
    manager.close(at(100), flow);
    let next = manager.open(at(200), HERE, cm);
    assert_eq!(window(&manager, next), 8, "the same macroflow");
    manager.close(at(200), next);
    manager.on_deadline(at(10_000));
    let later = manager.open(at(10_000), HERE, cm);
    assert_eq!(window(&manager, later), 0, "another one, whose path is not established");
    manager.assume_path(at(10_000), later, PACKET);
    assert_eq!(window(&manager, later), 8, "but it has the history of the first");
}

#[test]
fn abandoned_flows_are_closed() {
    let mut manager = manager();
    let (kept, abandoned) = (open(&mut manager), open(&mut manager));
    send(&mut manager, at(9000), kept, 1);
    assert_eq!(manager.expire(at(10_000), Duration::from_secs(5)), [abandoned]);
    assert_eq!(manager.query(at(10_000), abandoned), None);
    assert_eq!(manager.query(at(10_000), kept).unwrap().flows, 1);
    assert_eq!(manager.expire(at(13_999), Duration::from_secs(5)), []);
    assert_eq!(manager.expire(at(14_000), Duration::from_secs(5)), [kept]);
}

#[test]
fn a_flow_may_send_before_its_path_was_measured() {
    let mut manager = manager();
    let flow = manager.open(Time::ZERO, HERE, cm);
    assert_eq!(manager.mtu(flow), Bytes::ZERO);
    manager.assume_path(at(0), flow, PACKET);
    assert_eq!(manager.mtu(flow), PACKET);
    manager.request(at(0), flow, false);
    assert!(manager.grant(at(0)).is_some());
    manager.notify(at(0), flow, PACKET);
    assert_eq!(manager.query(at(0), flow).unwrap().rate, Rate::of(PACKET * 4, Duration::from_secs(1)));
    manager.report(at(50), flow, &Report { rtt: Some(Duration::from_millis(50)), ..received(1) });
    assert_eq!(manager.query(at(50), flow).unwrap().smoothed_rtt, Duration::from_millis(50));
}

#[test]
fn unsent_bytes_leave_the_bytes_in_flight() {
    let mut manager = manager();
    let flow = open(&mut manager);
    send(&mut manager, at(0), flow, 4);
    manager.discard_in_flight(at(0), flow, PACKET);
    assert_eq!(manager.query(at(0), flow).unwrap().in_flight, PACKET * 3);
    manager.discard_in_flight(at(0), flow, PACKET * 99);
    assert_eq!(manager.query(at(0), flow).unwrap().in_flight, Bytes::ZERO);
}

#[test]
fn a_mark_reaches_the_controller_with_its_packet() {
    let mut manager = manager();
    let flow = open(&mut manager);
    send(&mut manager, at(0), flow, 4);
    let arrival = |number, ecn| Arrival { number, bytes: PACKET, ecn, ..Arrival::default() };
    let mut update = |ms, arrivals: &[Arrival]| {
        let arrived_in_flight = PACKET * arrivals.len() as u64;
        let update = Update {
            arrived_in_flight,
            lost: Bytes::ZERO,
            delivered: arrived_in_flight,
            arrivals,
            rtt: Some(RTT),
            loss: None,
            flight_size: PACKET * 4,
            recovering: true,
            feedback: RouterFeedback::None,
        };
        manager.update(at(ms), flow, &update);
        window(&manager, flow)
    };
    assert_eq!(update(100, &[arrival(0, Ecn::Ect0)]), 4);
    assert_eq!(update(101, &[arrival(1, Ecn::Ce), arrival(2, Ecn::Ect0)]), 2);
    assert_eq!(update(102, &[arrival(3, Ecn::Ce)]), 2, "of the same window");
}

/// A program reports that nothing arrives. RFC 6298 (5.5): each timeout doubles the time to the next packet. One round
/// trip of 100 ms was measured, so the timeout is R + 4 R/2 = 300 ms.
#[test]
fn reports_of_no_feedback_back_off_like_a_timer() {
    let mut manager = manager();
    let flow = open(&mut manager);
    send(&mut manager, at(0), flow, 4);
    let rate = |manager: &Manager<Cm>, ms| manager.query(at(ms), flow).unwrap().rate;
    let timeout = Duration::from_millis(300);
    manager.report(at(1000), flow, &lost(4, LossMode::Persistent));
    assert_eq!(rate(&manager, 1000), Rate::of(PACKET, RTT), "a window of one packet");
    manager.report(at(1299), flow, &lost(0, LossMode::Persistent));
    assert_eq!(rate(&manager, 1299), Rate::of(PACKET, RTT));
    manager.report(at(1300), flow, &lost(0, LossMode::Persistent));
    assert_eq!(rate(&manager, 1300), Rate::of(PACKET, timeout * 2));
    assert_eq!(rate(&manager, 1600), Rate::of(PACKET, Duration::from_secs(1)), "but at least a packet a second");
    manager.report(at(1700), flow, &lost(0, LossMode::Persistent));
    assert_eq!(rate(&manager, 1700), Rate::of(PACKET, Duration::from_secs(1)), "a further report changes nothing");
    send(&mut manager, at(1700), flow, 1);
    manager.report(at(1800), flow, &received(1));
    assert_eq!(rate(&manager, 1800), Rate::of(PACKET * 2, RTT));
    manager.report(at(2000), flow, &lost(0, LossMode::Persistent));
    assert_eq!(rate(&manager, 2000), Rate::of(PACKET, RTT), "the feedback ended the count of timeouts");
}

#[test]
fn only_reports_that_nothing_arrives_count_as_a_timeout() {
    let mut manager = manager();
    let flow = open(&mut manager);
    send(&mut manager, at(0), flow, 4);
    let persistent = |packets| Report { received: PACKET * packets, ..lost(0, LossMode::Persistent) };
    manager.report(at(1000), flow, &lost(0, LossMode::Ecn));
    manager.report(at(1100), flow, &persistent(1));
    manager.report(at(1399), flow, &persistent(0));
    manager.report(at(1400), flow, &lost(0, LossMode::Ecn));
    let status = |manager: &Manager<Cm>| manager.query(at(1698), flow).unwrap();
    manager.report(at(1698), flow, &persistent(0));
    assert_eq!(status(&manager).rate, Rate::of(status(&manager).window, RTT), "300 ms after 1399 ms");
    manager.report(at(1699), flow, &persistent(0));
    assert!(status(&manager).rate < Rate::of(status(&manager).window, RTT));
}

#[test]
fn congestion_is_persistent_after_a_timeout_without_feedback() {
    let mut manager = manager();
    let flow = open(&mut manager);
    send(&mut manager, at(0), flow, 4);
    manager.on_feedback_overdue(at(100), flow, at(0));
    manager.on_deadline(at(399));
    assert_eq!(window(&manager, flow), 4);
    manager.on_deadline(at(400));
    assert_eq!(window(&manager, flow), 1, "the timeout is R + 4 R/2");
}

#[test]
fn a_half_life_is_the_minimum_or_the_mean_round_trip() {
    let measured = |half_life| {
        let mut manager = Manager::new(Sharing { half_life, ..Sharing::default() });
        let flow = open(&mut manager);
        // RFC 6298: the smoothed round trip is 7/8 * 100 + 1/8 * 180 ms.
        send(&mut manager, at(0), flow, 1);
        manager.report(at(180), flow, &Report { rtt: Some(Duration::from_millis(180)), ..received(1) });
        manager.on_feedback_overdue(at(1000), flow, at(500));
        manager.on_deadline(at(1000));
        manager.deadline()
    };
    assert_eq!(measured(HalfLife::MinRtt), at(1100));
    assert_eq!(measured(HalfLife::MeanRtt), at(1110));
    let mut manager = manager();
    let flow = manager.open(at(0), HERE, cm);
    manager.assume_path(at(0), flow, PACKET);
    send(&mut manager, at(0), flow, 1);
    manager.on_feedback_overdue(at(1500), flow, at(0));
    let rate = |ms| manager.query(at(ms), flow).unwrap().rate;
    assert_eq!((rate(2499), rate(2500)), (rate(1500), rate(1500).scale(0.5)), "the assumed round trip is a second");
}

#[test]
fn a_watching_flow_gets_each_halving_of_its_share() {
    let mut manager = manager();
    let flow = open(&mut manager);
    send(&mut manager, at(0), flow, 4);
    manager.watch(at(0), flow, Thresholds::default());
    let full = Rate::of(PACKET * 4, RTT);
    manager.on_feedback_overdue(at(100), flow, at(0));
    let mut shares = vec![(100, manager.poll_change().unwrap().share)];
    for _ in 0..2 {
        let now = manager.deadline();
        manager.on_deadline(now);
        shares.extend(manager.poll_change().map(|change| (now.as_nanos() / 1_000_000, change.share)));
    }
    assert_eq!(shares, [(100, full.scale(0.5)), (200, full.scale(0.25)), (300, full.scale(0.125))]);
}

#[test]
fn an_update_without_a_delivery_does_not_end_aging() {
    let mut manager = manager();
    let flow = open(&mut manager);
    send(&mut manager, at(0), flow, 4);
    let rate = |manager: &Manager<Cm>, ms| manager.query(at(ms), flow).unwrap().rate;
    manager.on_feedback_overdue(at(100), flow, at(0));
    manager.update(at(110), flow, &Update { lost: PACKET, ..Update::default() });
    assert_eq!(rate(&manager, 110), Rate::of(PACKET * 2, RTT));
    manager.update(at(120), flow, &Update { arrived_in_flight: PACKET, delivered: PACKET, ..Update::default() });
    assert!(rate(&manager, 120) >= Rate::of(PACKET * 4, RTT));
}

#[test]
fn all_late_feedback_of_one_response_counts_as_late() {
    for (second, ages) in [(180, true), (181, false)] {
        let mut manager = manager();
        let (one, two) = (open(&mut manager), open(&mut manager));
        for flow in [one, two] {
            send(&mut manager, at(0), flow, 2);
        }
        manager.on_feedback_overdue(at(150), one, at(0));
        let report = |sent_by| Report { sent_by: Some(at(sent_by)), ..received(1) };
        manager.report(at(180), one, &report(0));
        manager.report(at(second), two, &report(if second == 180 { 0 } else { 150 }));
        let full = manager.query(at(185), one).unwrap().rate;
        manager.on_feedback_overdue(at(185), one, at(60));
        assert_eq!(
            manager.query(at(185), one).unwrap().rate,
            if ages { full.scale(0.5) } else { full },
            "at {second} ms"
        );
    }
}

#[test]
fn changes_are_reported_twice_a_round_trip_at_most() {
    let mut manager = manager();
    let flow = open(&mut manager);
    send(&mut manager, at(0), flow, 20);
    let report = |manager: &mut Manager<Cm>, ms| {
        manager.report(at(ms), flow, &received(1));
        manager.poll_change().map(|change| change.share)
    };
    assert_eq!(report(&mut manager, 99), None, "nobody watches");
    manager.watch(at(99), flow, Thresholds::default());
    assert_eq!(report(&mut manager, 100), Some(Rate::of(PACKET * 6, RTT)), "not delayed by the report before it");
    assert_eq!(report(&mut manager, 110), None);
    assert_eq!(report(&mut manager, 149), None);
    assert_eq!(report(&mut manager, 150), Some(Rate::of(PACKET * 9, RTT)));
}

#[test]
fn a_watching_flow_is_notified_in_its_next_macroflow_too() {
    let mut manager = manager();
    let (stays, moves) = (open(&mut manager), open(&mut manager));
    manager.watch(at(0), moves, Thresholds::default());
    manager.set_macroflow(at(0), moves, MacroflowChoice::New, cm).unwrap();
    while manager.poll_change().is_some() {}
    for flow in [stays, moves] {
        send(&mut manager, at(100), flow, 4);
        manager.report(at(200), flow, &received(4));
    }
    let change = manager.poll_change().unwrap();
    assert_eq!((change.flow, change.share), (moves, Rate::of(PACKET * 8, RTT)));
    assert_eq!(manager.poll_change(), None);
}

#[test]
fn a_closed_flow_takes_only_its_own_changes_with_it() {
    let mut manager = manager();
    let (closed, kept) = (open(&mut manager), open(&mut manager));
    for flow in [closed, kept] {
        manager.watch(at(0), flow, Thresholds::default());
        send(&mut manager, at(0), flow, 2);
    }
    manager.on_feedback_overdue(at(100), kept, at(0));
    manager.close(at(100), closed);
    assert_eq!(manager.poll_change().map(|change| change.flow), Some(kept));
    assert_eq!(manager.poll_change(), None);
}

#[test]
fn a_report_of_more_than_was_sent_counts_as_all_of_it() {
    let mut manager = manager();
    let flow = open(&mut manager);
    send(&mut manager, at(0), flow, 4);
    manager.report(at(100), flow, &Report { lost: PACKET * 3, mode: Some(LossMode::Transient), ..received(3) });
    let status = manager.query(at(100), flow).unwrap();
    assert_eq!((status.in_flight, manager.in_flight(flow)), (Bytes::ZERO, Bytes::ZERO));
    send(&mut manager, at(100), flow, 1);
    assert_eq!(manager.in_flight(flow), PACKET);
}

/// Section 4.2.2: packets that had been reported lost were reordered.
#[test]
fn a_reduction_is_undone_where_the_packets_were_sent() {
    let mut manager = manager();
    let flow = open(&mut manager);
    send(&mut manager, at(0), flow, 8);
    manager.report(at(100), flow, &received(4));
    manager.report(at(110), flow, &lost(1, LossMode::Transient));
    assert_eq!(window(&manager, flow), 4);
    manager.undo(at(120), flow);
    assert_eq!(window(&manager, flow), 8);
}

#[test]
fn a_round_trip_is_assumed_until_one_is_measured() {
    let mut manager = manager();
    let unused = manager.open(at(0), HERE, cm);
    assert_eq!(manager.round_trip(unused), None);
    manager.close(at(0), unused);
    manager.on_deadline(at(10_000));
    let flow = manager.open(at(10_000), HERE, cm);
    manager.assume_path(at(10_000), flow, PACKET);
    let second = Duration::from_secs(1);
    assert_eq!(manager.round_trip(flow), Some((second, second * 3)), "R + 4 R/2 of one second");
    manager.on_path(at(10_100), flow, PACKET, RTT, RouterFeedback::None);
    assert_eq!(manager.round_trip(flow), Some((RTT, RTT * 3)));
}

#[test]
fn a_macroflow_ends_at_its_deadline() {
    let mut manager = manager();
    let flow = open(&mut manager);
    let before = manager.macroflow_of(flow);
    manager.close(at(0), flow);
    assert_eq!(manager.deadline(), at(300), "a timeout after its last flow");
    manager.on_deadline(at(300));
    let other = manager.open(at(300), Destination(2), cm);
    assert_eq!(manager.macroflow_of(other), before, "its place is free");
}

#[test]
fn an_imported_history_is_used_and_replaces_none() {
    let mut manager = manager();
    let imported = History::new(Rate::of(PACKET * 10, RTT), RTT);
    manager.import_history(HERE, imported);
    assert_eq!(manager.history(HERE), Some(imported));
    let flow = open(&mut manager);
    assert_eq!(window(&manager, flow), 10);
    manager.import_history(HERE, History::new(Rate::from_bps(1), RTT));
    assert_eq!(manager.history(HERE), Some(imported));
}

/// With packet numbers the window may be used for the first time; the cap is for feedback without them.
#[test]
fn the_delivery_rate_cap_applies_only_with_reports() {
    let mut manager = manager();
    let flow = open(&mut manager);
    let mut at_ms = 0;
    let mut round = |manager: &mut Manager<Cm>, packets: u64| {
        send(manager, at(at_ms), flow, packets);
        at_ms += 100;
        let bytes = PACKET * packets;
        manager.update(at(at_ms), flow, &Update { arrived_in_flight: bytes, delivered: bytes, ..Update::default() });
        let status = manager.query(at(at_ms), flow).unwrap();
        (status.rate, Rate::of(status.window, RTT))
    };
    (0..6).for_each(|_| _ = round(&mut manager, 20));
    (0..20).for_each(|_| _ = round(&mut manager, 1));
    let (rate, permitted) = round(&mut manager, 1);
    assert_eq!(rate, permitted);
    // 20 packets a round trip have been delivered, then reports begin: four times what they deliver.
    manager.report(at(5000), flow, &received(0));
    for ms in (5100..6000).step_by(100) {
        send(&mut manager, at(ms - 100), flow, 1);
        manager.report(at(ms), flow, &received(1));
    }
    let rate = |manager: &Manager<Cm>| manager.query(at(6000), flow).unwrap().rate;
    assert_eq!(rate(&manager), Rate::of(PACKET * 4, RTT));
    for ms in (6000..6300).step_by(100) {
        send(&mut manager, at(ms), flow, 10);
        let bytes = PACKET * 10;
        let update = Update { arrived_in_flight: bytes, delivered: bytes, ..Update::default() };
        manager.update(at(ms + 100), flow, &update);
    }
    assert!(rate(&manager) > Rate::of(PACKET * 5, RTT), "updates raise it from then on");
}
