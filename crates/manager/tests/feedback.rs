//! Flows without per-packet feedback: growth of the window by reports, losses, marks; the life of a macroflow.

use rampmeter_control::cm::Cm;
use rampmeter_control::{Arrival, History};
use rampmeter_manager::{LossMode, Manager, Report, Update};
use rampmeter_units::{Bytes, Duration, Ecn, Rate, Time};
use rampmeter_wire::RouterFeedback;

use crate::common::{HERE, PACKET, RTT, at, cm, lost, manager, open, received, send, window};

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
fn a_window_up_to_the_delivery_rate_cap_grows() {
    // The cap is four times what arrives in a round trip.
    for (arrive, grown) in [(1, 8), (2, 10), (3, 11)] {
        let mut manager = manager();
        let flow = open(&mut manager);
        for (round, sent, arrive) in [(0, 4, 4), (1, 8, arrive)] {
            send(&mut manager, at(round * 100), flow, sent);
            manager.report(at(round * 100 + 100), flow, &received(arrive));
        }
        assert_eq!(window(&manager, flow), grown, "{arrive}");
    }
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
fn packets_have_their_new_size_once_the_path_is_established() {
    let mut manager = manager();
    let flow = manager.open(at(0), HERE, cm);
    manager.set_packet_size(at(0), flow, PACKET * 2);
    assert_eq!(manager.mtu(flow), Bytes::ZERO);
    manager.on_path(at(0), flow, PACKET, RTT, RouterFeedback::None);
    manager.set_packet_size(at(0), flow, PACKET * 2);
    manager.request(at(0), flow, false);
    assert_eq!((manager.mtu(flow), manager.grant(at(0)).unwrap().bytes), (PACKET * 2, PACKET * 2));
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
            is_combined: false,
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
