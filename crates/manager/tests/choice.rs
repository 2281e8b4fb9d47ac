//! Flows in macroflows of choice: what moves with a flow, and what stays.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rampmeter_control::newreno::NewReno;
use rampmeter_manager::{
    Destination, FlowId, Grouping, LossMode, MacroflowChoice, MacroflowError, Manager, Report, Scheduling, Sharing,
};
use rampmeter_units::{Bytes, Duration, Time};
use rampmeter_wire::RouterFeedback;

use crate::common::newreno;
use crate::common::recorder::{HERE, PACKET, RTT};

const START: Time = Time::ZERO;
/// The shortest silence after which a packet may leave although the window is full.
const MIN_TIMEOUT: Duration = Duration::from_millis(200);

fn shared() -> Manager<NewReno> {
    let (grouping, scheduling) = (Grouping::PerDestination, Scheduling::RoundRobin);
    Manager::new(Sharing { grouping, scheduling, segregation: true, ..Sharing::default() })
}

fn open(manager: &mut Manager<NewReno>, to: Destination) -> FlowId {
    let flow = manager.open(START, to, newreno);
    manager.on_path(START, flow, PACKET, RTT, RouterFeedback::None);
    flow
}

fn put(manager: &mut Manager<NewReno>, now: Time, flow: FlowId, choice: MacroflowChoice) -> Result<(), MacroflowError> {
    manager.set_macroflow(now, flow, choice, newreno)
}

/// Sends as many packets of the flow as its macroflow permits.
fn send(manager: &mut Manager<NewReno>, now: Time, flow: FlowId) -> u64 {
    manager.request(now, flow, false);
    let mut packets = 0;
    while let Some(grant) = manager.grant(now) {
        manager.notify(now, grant.flow, PACKET);
        manager.request(now, grant.flow, false);
        packets += 1;
    }
    packets
}

fn received(packets: u64) -> Report {
    Report { received: PACKET * packets, rtt: Some(RTT), ..Report::default() }
}

fn lost(packets: u64) -> Report {
    Report { lost: PACKET * packets, mode: Some(LossMode::Transient), ..Report::default() }
}

fn window(manager: &Manager<NewReno>, flow: FlowId) -> Bytes {
    manager.query(START, flow).unwrap().window
}

fn in_flight(manager: &Manager<NewReno>, flow: FlowId) -> Bytes {
    manager.query(START, flow).unwrap().in_flight
}

#[test]
fn feedback_concerns_the_macroflow_that_sent_the_packets() {
    let mut manager = shared();
    let (stays, moves) = (open(&mut manager, HERE), open(&mut manager, HERE));
    let sent = send(&mut manager, START, moves);
    put(&mut manager, START, moves, MacroflowChoice::New).unwrap();
    let initial = window(&manager, moves);
    send(&mut manager, START, moves);
    let now = START + RTT;
    manager.report(now, moves, &received(sent - 1));
    assert!(window(&manager, stays) > initial, "slow start of the macroflow that sent them");
    assert_eq!(window(&manager, moves), initial);
    let before = window(&manager, stays);
    manager.report(now, moves, &lost(1));
    assert!(window(&manager, stays) < before);
    assert_eq!(window(&manager, moves), initial);
    let before = window(&manager, stays);
    manager.report(now + RTT, moves, &lost(1));
    assert!(window(&manager, moves) < initial);
    assert_eq!(window(&manager, stays), before);
}

#[test]
fn a_new_macroflow_starts_with_the_initial_window() {
    let mut manager = shared();
    let (stays, moves) = (open(&mut manager, HERE), open(&mut manager, HERE));
    let initial = window(&manager, stays);
    for round in 0..5 {
        let now = START + RTT * round;
        let sent = send(&mut manager, now, stays);
        manager.report(now + RTT, stays, &received(sent / 2));
        manager.report(now + RTT, moves, &received(sent - sent / 2));
    }
    let grown = window(&manager, stays);
    assert!(grown > initial);
    put(&mut manager, START + RTT * 5, moves, MacroflowChoice::New).unwrap();
    assert_eq!((window(&manager, stays), window(&manager, moves)), (grown, initial));
    assert_eq!(manager.query(START, moves).unwrap().smoothed_rtt, RTT);
    put(&mut manager, START + RTT * 5, moves, MacroflowChoice::Default).unwrap();
    assert_eq!(window(&manager, moves), grown);
}

#[test]
fn later_flows_and_their_history_are_those_of_the_default() {
    let mut manager = shared();
    let flow = open(&mut manager, HERE);
    put(&mut manager, START, flow, MacroflowChoice::New).unwrap();
    let sent = send(&mut manager, START, flow);
    manager.report(START + RTT, flow, &received(sent));
    let history = manager.history(HERE);
    let (later, joins) = (open(&mut manager, HERE), open(&mut manager, HERE));
    assert_ne!(manager.macroflow_of(later), manager.macroflow_of(flow));
    put(&mut manager, START + RTT, joins, MacroflowChoice::Of(flow)).unwrap();
    assert_eq!(manager.macroflow_of(joins), manager.macroflow_of(flow));
    for closed in [flow, joins] {
        manager.close(START + RTT, closed);
    }
    assert_eq!(manager.history(HERE), history, "a macroflow of choice leaves no history");
    assert_eq!(manager.query(START, later).unwrap().flows, 1);
}

#[test]
fn the_default_begins_again_after_its_last_flow_has_moved() {
    let mut manager = shared();
    let flow = open(&mut manager, HERE);
    put(&mut manager, START, flow, MacroflowChoice::New).unwrap();
    manager.on_deadline(START + Duration::from_secs(10));
    let chosen = manager.macroflow_of(flow);
    put(&mut manager, START, flow, MacroflowChoice::Default).unwrap();
    assert_ne!(manager.macroflow_of(flow), chosen);
    let later = open(&mut manager, HERE);
    assert_eq!(manager.macroflow_of(later), manager.macroflow_of(flow));
    manager.request(START, later, false);
    assert!(manager.grant(START).is_some(), "its path is known");
}

#[test]
fn an_empty_macroflow_remains_until_its_packets_are_reported() {
    let mut manager = shared();
    let flow = open(&mut manager, HERE);
    put(&mut manager, START, flow, MacroflowChoice::New).unwrap();
    let (first, sent) = (manager.macroflow_of(flow), send(&mut manager, START, flow));
    put(&mut manager, START, flow, MacroflowChoice::Default).unwrap();
    let mut now = START;
    for _ in 0..100 {
        now += Duration::from_secs(1);
        manager.on_deadline(now);
    }
    let other = open(&mut manager, Destination(2));
    assert_ne!(manager.macroflow_of(other), first, "it has not ended");
    manager.report(now, flow, &lost(sent));
    assert_eq!(manager.in_flight(flow), Bytes::ZERO);
    manager.on_deadline(now + Duration::from_secs(10));
    let other = open(&mut manager, Destination(3));
    assert_eq!(manager.macroflow_of(other), first, "its place is free");
}

#[test]
fn moves_that_cannot_be_accounted_for_are_refused() {
    let mut manager = shared();
    let (flow, far) = (open(&mut manager, HERE), open(&mut manager, Destination(2)));
    let closed = open(&mut manager, HERE);
    manager.close(START, closed);
    let here = manager.macroflow_of(flow);
    assert_eq!(put(&mut manager, START, closed, MacroflowChoice::New), Err(MacroflowError::Closed));
    assert_eq!(put(&mut manager, START, flow, MacroflowChoice::Of(closed)), Err(MacroflowError::Closed));
    assert_eq!(put(&mut manager, START, flow, MacroflowChoice::Of(far)), Err(MacroflowError::OtherDestination));
    assert_eq!(put(&mut manager, START, flow, MacroflowChoice::Of(flow)), Ok(()));
    assert_eq!(manager.macroflow_of(flow), here);

    let sent = send(&mut manager, START, flow);
    put(&mut manager, START, flow, MacroflowChoice::New).unwrap();
    put(&mut manager, START, flow, MacroflowChoice::Default).unwrap();
    assert_eq!((manager.macroflow_of(flow), in_flight(&manager, flow)), (here, PACKET * sent), "it sent nothing there");
    put(&mut manager, START, flow, MacroflowChoice::New).unwrap();
    send(&mut manager, START, flow);
    let there = manager.macroflow_of(flow);
    for choice in [MacroflowChoice::New, MacroflowChoice::Default] {
        assert_eq!(put(&mut manager, START, flow, choice), Err(MacroflowError::StillInFlight));
    }
    assert_eq!(manager.macroflow_of(flow), there);
    manager.report(START + RTT, flow, &received(sent));
    assert_eq!(put(&mut manager, START + RTT, flow, MacroflowChoice::Default), Ok(()));
}

#[test]
fn segregation_does_not_move_flows_of_a_macroflow_of_choice() {
    let macroflows = |is_chosen: bool| {
        let mut manager = shared();
        let flows = [open(&mut manager, HERE), open(&mut manager, HERE)];
        if is_chosen {
            put(&mut manager, START, flows[0], MacroflowChoice::New).unwrap();
            put(&mut manager, START, flows[1], MacroflowChoice::Of(flows[0])).unwrap();
        }
        for round in 1..500 {
            let now = START + RTT * round;
            for (flow, losses) in flows.into_iter().zip([0, 3]) {
                (0..10).for_each(|_| manager.notify(now, flow, PACKET));
                manager.report(now, flow, &Report { lost: PACKET * losses, ..received(10 - losses) });
            }
            manager.segregate(now, newreno);
            manager.on_deadline(now);
        }
        flows.map(|flow| manager.macroflow_of(flow))
    };
    let [a, b] = macroflows(true);
    assert_eq!(a, b);
    let [a, b] = macroflows(false);
    assert_ne!(a, b, "the losses are enough for a split");
}

proptest! {
    /// With flows that move between macroflows in any order, each macroflow's bytes in flight are those of the packets
    /// that were sent in it and have not been reported. It sends only while they are fewer than its window, or one packet
    /// after a timeout without any.
    #[test]
    fn every_packet_counts_in_the_macroflow_that_sent_it(
        per_flow: bool,
        steps in prop::collection::vec((0..8_u8, 0..4_usize, 0..4_usize, 0..6_u64), 1..300),
    ) {
        let grouping = if per_flow { Grouping::PerFlow } else { Grouping::PerDestination };
        let mut manager = Manager::new(Sharing { grouping, scheduling: Scheduling::RoundRobin, ..Sharing::default() });
        let mut now = START;
        let mut flows: Vec<FlowId> = (0..4).map(|n| open(&mut manager, Destination(n / 3))).collect();
        // The macroflow of each packet in flight, by flow, oldest first.
        let mut packets: BTreeMap<FlowId, Vec<u32>> = BTreeMap::new();
        let mut last_sent: BTreeMap<u32, Time> = BTreeMap::new();
        for (what, which, other, amount) in steps {
            now += Duration::from_millis(amount * amount * 10);
            let flow = flows[which];
            let sent = packets.entry(flow).or_default();
            let reported = (amount as usize).min(sent.len());
            match what {
                0 => {
                    manager.close(now, flow);
                    packets.remove(&flow);
                    flows[which] = manager.open(now, Destination((which / 3) as u128), newreno);
                    manager.on_path(now, flows[which], PACKET, RTT, RouterFeedback::None);
                }
                1 | 2 => {
                    let choices = [MacroflowChoice::New, MacroflowChoice::Default, MacroflowChoice::Of(flows[other])];
                    let before = manager.macroflow_of(flow);
                    let placed = put(&mut manager, now, flow, choices[amount as usize % 3]);
                    if placed.is_err() {
                        prop_assert_eq!(manager.macroflow_of(flow), before);
                    }
                }
                3 => {
                    sent.drain(..reported);
                    manager.report(now, flow, &received(reported as u64));
                }
                4 => {
                    sent.drain(..reported);
                    manager.report(now, flow, &lost(reported as u64));
                }
                5 => {
                    sent.drain(..reported);
                    manager.discard_in_flight(now, flow, PACKET * reported as u64);
                }
                6 => manager.on_deadline(now),
                _ => {
                    manager.request(now, flow, false);
                    while let Some(grant) = manager.grant(now) {
                        let status = manager.query(now, grant.flow).unwrap();
                        let fits = status.in_flight + PACKET <= status.window || status.in_flight == Bytes::ZERO;
                        let macroflow = manager.macroflow_of(grant.flow).unwrap();
                        let silence = last_sent.insert(macroflow, now).map(|last| now.since(last));
                        prop_assert!(fits || status.flows > 1 && silence >= Some(MIN_TIMEOUT), "{status:?}");
                        manager.notify(now, grant.flow, PACKET);
                        packets.entry(grant.flow).or_default().push(macroflow);
                        manager.request(now, grant.flow, false);
                    }
                }
            }
            for flow in &flows {
                let macroflow = manager.macroflow_of(*flow).unwrap();
                let of_macroflow = packets.values().flatten().filter(|place| **place == macroflow).count() as u64;
                prop_assert_eq!(manager.query(now, *flow).unwrap().in_flight, PACKET * of_macroflow);
                let own = packets.get(flow).map_or(0, Vec::len) as u64;
                prop_assert_eq!(manager.in_flight(*flow), PACKET * own);
            }
        }
    }
}
