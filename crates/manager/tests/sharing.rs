//! Grants, windows and shared state: what flows get from the manager.

use proptest::prelude::*;
use rampmeter_control::newreno::NewReno;
use rampmeter_control::{Ack, Arrival, Controller, Departure, History, Loss, LossKind, Notice, Path, Sent};
use rampmeter_manager::{
    Destination, FlowId, Grant, Grouping, Manager, Scheduling, ServiceCurve, Share, Sharing, Update, UpdateLoss,
};
use rampmeter_units::{Bytes, Duration, Ecn, Rate, Time};
use rampmeter_wire::RouterFeedback;

use crate::common::newreno;
use crate::common::recorder::{self, HERE, PACKET, RTT, at};

fn by(grouping: Grouping) -> Sharing {
    Sharing { grouping, ..Sharing::default() }
}

fn open(manager: &mut Manager<NewReno>, destination: Destination) -> FlowId {
    let flow = manager.open(Time::ZERO, destination, newreno);
    manager.on_path(Time::ZERO, flow, PACKET, RTT, RouterFeedback::None);
    flow
}

/// Every flow always has a packet to send; takes grants until there are none.
fn send_all(manager: &mut Manager<NewReno>, now: Time, flows: &[FlowId]) -> Vec<Grant> {
    let mut grants = Vec::new();
    for &flow in flows {
        manager.request(now, flow, false);
    }
    while let Some(grant) = manager.grant(now) {
        manager.notify(now, grant.flow, PACKET);
        manager.request(now, grant.flow, false);
        grants.push(grant);
    }
    grants
}

fn update(packets: u64) -> Update<'static> {
    Update { rtt: Some(RTT), flight_size: PACKET * 10, ..recorder::update(packets) }
}

fn count(grants: &[Grant], flow: FlowId) -> usize {
    grants.iter().filter(|g| g.flow == flow).count()
}

#[test]
fn unused_grants_are_available_to_others() {
    let mut manager = Manager::new(by(Grouping::PerDestination));
    let flows = [open(&mut manager, HERE), open(&mut manager, HERE)];
    assert_eq!(send_all(&mut manager, Time::ZERO, &flows).len(), 10, "the initial window");
    manager.unsent(Time::ZERO, flows[0], 0, PACKET * 2);
    assert_eq!(send_all(&mut manager, Time::ZERO, &flows).len(), 2);
    // A flow cannot return more than it has in flight.
    manager.unsent(Time::ZERO, flows[0], 0, PACKET * 99);
    assert!(manager.query(Time::ZERO, flows[1]).unwrap().in_flight >= PACKET * 5);
}

/// The turns of two flows after the first one was granted permission to send and did not use it. `meanwhile`, of this flow and a
/// third one, happens before it says so.
fn turns_after_an_unused_grant(meanwhile: impl Fn(&mut Manager<NewReno>, [FlowId; 2])) -> Vec<usize> {
    let mut manager = together(Scheduling::RoundRobin);
    let flows = [open(&mut manager, HERE), open(&mut manager, HERE)];
    let other = open(&mut manager, HERE);
    manager.set_weight(flows[0], 0.5);
    for flow in flows {
        manager.request(Time::ZERO, flow, false);
    }
    assert_eq!(manager.grant(Time::ZERO).map(|grant| grant.flow), Some(flows[0]));
    meanwhile(&mut manager, [flows[0], other]);
    manager.notify(Time::ZERO, flows[0], Bytes::ZERO);
    let grants = send_all(&mut manager, Time::ZERO, &flows);
    grants.iter().map(|grant| usize::from(grant.flow == flows[1])).collect()
}

#[test]
fn a_flow_that_closes_takes_no_turn_from_a_granted_flow() {
    let turns = turns_after_an_unused_grant(|_, _| ());
    assert_eq!(turns[..6], [1, 1, 0, 1, 0, 1], "a third of them, and one for the unused one");
    assert_eq!(turns_after_an_unused_grant(|manager, [_, other]| manager.close(Time::ZERO, other)), turns);
}

#[test]
fn the_grant_of_a_closed_flow_is_not_that_of_the_next_flow() {
    let turns = turns_after_an_unused_grant(|manager, [closed, _]| {
        manager.close(Time::ZERO, closed);
        assert_eq!(open(manager, HERE), closed, "the next flow has its number");
    });
    assert_eq!(turns[..6], [1, 0, 1, 0, 1, 0]);
}

#[test]
fn flows_of_one_macroflow_take_turns_in_one_window() {
    let mut manager = Manager::new(by(Grouping::PerDestination));
    let flows = [open(&mut manager, HERE), open(&mut manager, HERE)];
    let grants = send_all(&mut manager, Time::ZERO, &flows);
    assert_eq!(grants.len(), 10, "one initial window for both");
    assert_eq!((count(&grants, flows[0]), count(&grants, flows[1])), (5, 5));
    let numbers: Vec<u64> = grants.iter().map(|g| g.number).collect();
    assert_eq!(numbers, (0..10).collect::<Vec<_>>(), "packets are numbered over the macroflow");
    assert_eq!(manager.query(Time::ZERO, flows[0]).unwrap().flows, 2);
}

#[test]
fn a_turn_is_what_the_macroflow_sends_in_that_time() {
    // Ten packets in 20 ms: three in 6 ms.
    for (turn, expected) in [(0, [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]), (6, [0, 0, 0, 1, 1, 1, 0, 0, 0, 1])] {
        let turn = Duration::from_millis(turn);
        let mut manager =
            Manager::new(Sharing { turn, scheduling: Scheduling::RoundRobin, ..by(Grouping::PerDestination) });
        let flows = [open(&mut manager, HERE), open(&mut manager, HERE)];
        let grants = send_all(&mut manager, Time::ZERO, &flows);
        let turns = grants.iter().map(|grant| usize::from(grant.flow == flows[1]));
        assert_eq!(turns.collect::<Vec<_>>(), expected, "{turn}");
    }
}

#[test]
fn separate_macroflows_have_a_window_each() {
    let mut manager = Manager::new(by(Grouping::PerFlow));
    let flows = [open(&mut manager, HERE), open(&mut manager, HERE)];
    let grants = send_all(&mut manager, Time::ZERO, &flows);
    assert_eq!((count(&grants, flows[0]), count(&grants, flows[1])), (10, 10));
}

#[test]
fn a_later_flow_joins_the_macroflow_with_its_window() {
    let mut manager = Manager::new(by(Grouping::PerDestination));
    let first = open(&mut manager, HERE);
    let mut now = Time::ZERO;
    for _ in 0..4 {
        let sent = send_all(&mut manager, now, &[first]).len() as u64;
        now += RTT;
        for _ in 0..sent {
            manager.update(now, first, &update(1));
        }
    }
    let second = open(&mut manager, HERE);
    assert!(manager.query(Time::ZERO, second).unwrap().window > PACKET * 100);
}

#[test]
fn a_full_window_permits_only_an_urgent_retransmission() {
    let mut manager = Manager::new(by(Grouping::PerFlow));
    let flow = open(&mut manager, HERE);
    send_all(&mut manager, Time::ZERO, &[flow]);
    let loss = UpdateLoss { kind: LossKind::Transient, number: 0, recovering: false, repeated_timeout: false };
    let lost = Update { lost: PACKET, loss: Some(loss), recovering: true, ..update(3) };
    manager.update(Time::ZERO + RTT, flow, &lost);
    assert_eq!(manager.query(Time::ZERO, flow).unwrap().window, PACKET * 5);
    assert_eq!(manager.query(Time::ZERO, flow).unwrap().in_flight, PACKET * 6);
    assert_eq!(manager.grant(Time::ZERO + RTT), None);
    manager.request(Time::ZERO + RTT, flow, true);
    assert!(manager.grant(Time::ZERO + RTT).is_some());
}

#[test]
fn a_sender_awaits_feedback_while_its_window_is_full() {
    let mut manager = Manager::new(by(Grouping::PerFlow));
    let (first, second) = (open(&mut manager, HERE), open(&mut manager, HERE));
    assert!(!manager.awaits_feedback());
    send_all(&mut manager, Time::ZERO, &[first, second]);
    assert!(manager.awaits_feedback());
    manager.update(Time::ZERO + RTT, first, &update(10));
    assert!(manager.grant(Time::ZERO + RTT).is_some());
    manager.notify(Time::ZERO + RTT, first, PACKET);
    assert!(manager.awaits_feedback(), "the second window is still full");
    manager.close(Time::ZERO + RTT, second);
    assert!(!manager.awaits_feedback());
}

#[test]
fn with_nothing_in_flight_one_packet_is_always_permitted() {
    let mut manager = Manager::new(by(Grouping::PerFlow));
    let flow = open(&mut manager, HERE);
    send_all(&mut manager, Time::ZERO, &[flow]);
    let loss = UpdateLoss { kind: LossKind::Persistent, number: 9, recovering: false, repeated_timeout: false };
    let all_lost = Update { lost: PACKET * 10, loss: Some(loss), ..update(0) };
    manager.update(Time::ZERO + RTT, flow, &all_lost);
    assert_eq!(send_all(&mut manager, Time::ZERO + RTT, &[flow]).len(), 1);
}

proptest! {
    #[test]
    fn no_sequence_of_calls_panics_or_oversteps_the_window(
        calls in prop::collection::vec((0u8..7, 0usize..6, 0u64..4, any::<bool>()), 0..400),
        per_destination: bool,
    ) {
        let grouping = if per_destination { Grouping::PerDestination } else { Grouping::PerFlow };
        let mut manager = Manager::new(by(grouping));
        let mut now = Time::ZERO;
        let mut flows: Vec<FlowId> = Vec::new();
        for (call, which, n, flag) in calls {
            now += Duration::from_millis(n);
            let flow = flows.get(which).copied();
            match (call, flow) {
                (0, _) if flows.len() < 6 => flows.push(manager.open(now, Destination(u128::from(n)), newreno)),
                (1, Some(flow)) => manager.on_path(now, flow, PACKET, RTT, RouterFeedback::None),
                (2, Some(flow)) => manager.request(now, flow, flag),
                (3, _) => {
                    if let Some(grant) = manager.grant(now) {
                        let before = manager.query(Time::ZERO, grant.flow).unwrap();
                        prop_assert!(grant.bytes <= PACKET);
                        manager.notify(now, grant.flow, if flag { Bytes::ZERO } else { grant.bytes });
                        prop_assert!(manager.query(Time::ZERO, grant.flow).unwrap().in_flight <= before.in_flight + PACKET);
                    }
                }
                (4, Some(flow)) => {
                    let arrivals = [Arrival { number: n, bytes: PACKET, sent_at: now, received_at: now, ecn: Ecn::Ce }];
                    let loss = UpdateLoss { kind: LossKind::Transient, number: n, recovering: flag, repeated_timeout: flag };
                    let feedback = Update { arrivals: &arrivals, loss: flag.then_some(loss), ..update(n) };
                    manager.update(now, flow, &feedback);
                }
                (5, Some(flow)) => {
                    manager.close(now, flow);
                    flows.remove(which);
                }
                _ => manager.on_deadline(now),
            }
        }
    }
}

/// A controller that stores its path and provides a history with a rate.
#[derive(Debug, Default)]
struct Starter(Option<Path>, u64);

impl Controller for Starter {
    fn on_path(&mut self, _now: Time, path: &Path) {
        self.0 = Some(path.clone());
    }
    fn on_sent(&mut self, _now: Time, _sent: &Sent) {}
    fn on_ack(&mut self, _now: Time, _ack: &Ack<'_>) {}
    fn on_loss(&mut self, _now: Time, _loss: &Loss) {}
    fn on_notice(&mut self, _now: Time, notice: Notice) {
        if let Notice::Stall { since } = notice {
            self.1 = since.as_nanos();
        }
    }
    fn window(&self) -> Bytes {
        Bytes::MAX
    }
    fn departure(&self) -> Departure {
        Departure { at: Time::ZERO, bytes: PACKET, feedback: RouterFeedback::None }
    }
    fn rate(&self) -> Option<Rate> {
        None
    }
    fn remember(&self, _now: Time, history: &mut Option<History>) {
        *history = Some(History::new(Rate::from_bps(self.1), RTT));
    }
}

#[test]
fn a_new_controller_starts_on_the_measured_path_with_history() {
    let mut manager = Manager::new(by(Grouping::PerFlow));
    let flow = manager.open(Time::ZERO, HERE, || Starter(None, 7));
    manager.replace(Time::ZERO, flow, Starter(None, 8));
    assert!(manager.controller(flow).unwrap().0.is_none(), "before the handshake the path is not established");

    let feedback = RouterFeedback::FairShare { share: Rate::from_bps(5), queue: Bytes::ZERO };
    manager.on_path(Time::ZERO, flow, PACKET, RTT, feedback);
    let path = manager.controller(flow).unwrap().0.clone().unwrap();
    assert_eq!((path.packet, path.rtt, path.feedback), (PACKET, RTT, feedback));

    manager.request(Time::ZERO, flow, false);
    manager.replace(Time::ZERO, flow, Starter(None, 9));
    let path = manager.controller(flow).unwrap().0.clone().unwrap();
    assert_eq!((path.packet, path.rtt, path.feedback), (PACKET, RTT, RouterFeedback::None));
    assert_eq!(path.history.map(|history| history.base_rate), Some(Rate::from_bps(8)));
    assert!(manager.grant(Time::ZERO).is_some(), "a pending request is still granted");
}

#[test]
fn controllers_that_start_later_may_send_bunches() {
    let mut manager = Manager::new(by(Grouping::PerFlow));
    let bunch = |manager: &mut Manager<Starter>| {
        let flow = manager.open(Time::ZERO, HERE, Starter::default);
        manager.on_path(Time::ZERO, flow, PACKET, RTT, RouterFeedback::None);
        manager.controller(flow).unwrap().0.clone().unwrap().bunch
    };
    assert_eq!(bunch(&mut manager), Duration::ZERO);
    manager.allow_bunches(RTT / 100);
    assert_eq!(bunch(&mut manager), RTT / 100);
}

#[test]
fn every_started_controller_gets_a_stall() {
    let mut manager = Manager::new(by(Grouping::PerFlow));
    let flows = [0, 1, 2].map(|_| manager.open(Time::ZERO, HERE, Starter::default));
    for &flow in &flows[..2] {
        manager.on_path(Time::ZERO, flow, PACKET, RTT, RouterFeedback::None);
    }
    manager.on_stall(at_second(2), at_second(1));
    let since = flows.map(|flow| manager.controller(flow).unwrap().1);
    assert_eq!(since, [1_000_000_000, 1_000_000_000, 0]);
}

fn at_second(seconds: u64) -> Time {
    at(seconds * 1000)
}

#[test]
fn both_weighted_schedulers_keep_the_weights() {
    weights_are_kept(Scheduling::RoundRobin);
    weights_are_kept(Scheduling::ServiceCurves);
}

fn together(scheduling: Scheduling) -> Manager<NewReno> {
    Manager::new(Sharing { grouping: Grouping::PerDestination, scheduling, ..Sharing::default() })
}

fn weights_are_kept(scheduling: Scheduling) {
    let mut manager = together(scheduling);
    let flows = [open(&mut manager, HERE), open(&mut manager, HERE), open(&mut manager, HERE)];
    manager.share(flows[1], Share { weight: 3.0, ..Share::default() });
    for invalid in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        manager.share(flows[1], Share { weight: invalid, ..Share::default() });
        manager.share(flows[1], Share { class: Some((1, invalid)), ..Share::default() });
    }
    let mut granted = send_all(&mut manager, Time::ZERO, &flows);
    for _ in 0..100 {
        manager.update(Time::ZERO, flows[0], &update(10));
        granted.extend(send_all(&mut manager, Time::ZERO, &[]));
    }
    let shares = flows.map(|flow| count(&granted, flow) as f64 / granted.len() as f64);
    assert!(shares.iter().zip([0.2, 0.6, 0.2]).all(|(share, expected)| (share - expected).abs() < 0.01), "{shares:?}");
}

#[test]
fn a_flow_with_a_service_curve_precedes_the_others() {
    let curve = Some(ServiceCurve::within(RTT, PACKET, Rate::from_bps(100_000)));
    for (scheduling, place) in [(Scheduling::ServiceCurves, 0), (Scheduling::RoundRobin, 2), (Scheduling::InTurn, 4)] {
        let mut manager = together(scheduling);
        let bulk: Vec<FlowId> = (0..4).map(|_| open(&mut manager, HERE)).collect();
        let voice = open(&mut manager, HERE);
        manager.share(voice, Share { curve, ..Share::default() });
        send_all(&mut manager, Time::ZERO, &bulk);
        let now = Time::ZERO + RTT;
        manager.request(now, voice, false);
        manager.update(now, bulk[0], &update(10));
        let mut granted = Vec::new();
        while let Some(grant) = manager.grant(now) {
            manager.notify(now, grant.flow, PACKET);
            if grant.flow != voice {
                manager.request(now, grant.flow, false);
            }
            granted.push(grant.flow);
        }
        assert_eq!(granted.iter().position(|flow| *flow == voice), Some(place), "{scheduling:?}");
        assert!(granted.len() >= 10 && granted.iter().filter(|flow| **flow == voice).count() == 1);
    }
}
