//! Changes of its share that a watching flow gets.

use rampmeter_control::cm::Cm;
use rampmeter_manager::{LossMode, Manager, Share, Thresholds};
use rampmeter_units::Rate;

use crate::common::{PACKET, RTT, at, lost, manager, open, received, send};

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
