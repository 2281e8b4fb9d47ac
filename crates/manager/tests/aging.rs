//! Aging: what becomes of a rate while no feedback arrives.

use rampmeter_control::cm::Cm;
use rampmeter_manager::{HalfLife, LossMode, Manager, Report, Sharing};
use rampmeter_units::{Duration, Rate};

use crate::common::{HERE, PACKET, RTT, at, cm, lost, manager, open, received, send, window};

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
