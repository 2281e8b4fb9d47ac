//! Flows without per-packet feedback: growth of the window by reports, aging, changes of shares.

use rampmeter_control::cm::{Cm, Config};
use rampmeter_control::{Algorithm, Arrival};
use rampmeter_manager::{
    Destination, FlowId, Grouping, HalfLife, LossMode, Manager, Report, Scheduling, Share, Sharing, Thresholds, Update,
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
    for (requested, ages) in [(0, true), (60, false)] {
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
