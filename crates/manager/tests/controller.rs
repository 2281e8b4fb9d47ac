//! What reaches the controller of a macroflow: feedback about its own packets, idle times, deadlines.

use rampmeter_control::LossKind;
use rampmeter_manager::{FlowId, LossMode, MacroflowChoice, Manager, Report, Update, UpdateLoss};
use rampmeter_units::{Bytes, Duration, Rate, Time};
use rampmeter_wire::RouterFeedback;

use crate::common::recorder::*;

/// A flow that has sent the packets 0 and 1, then moved to a macroflow of its own, and sent the packets from 2 on there.
/// Returns the manager, a flow in the first macroflow, and the flow that has moved.
fn moved(new: u64) -> (Manager<Recorder>, FlowId, FlowId) {
    let mut manager = manager();
    let (stays, moves) = (open(&mut manager, Recorder::default()), open(&mut manager, Recorder::default()));
    assert_eq!([0, 1].map(|_| send(&mut manager, at(0), moves)), [0, 1]);
    manager.set_macroflow(at(0), moves, MacroflowChoice::New, Recorder::default).unwrap();
    (2..2 + new).for_each(|number| assert_eq!(send(&mut manager, at(0), moves), number));
    for flow in [stays, moves] {
        calls(&manager, flow);
    }
    (manager, stays, moves)
}

const SHARE: RouterFeedback = RouterFeedback::FairShare { share: Rate::from_bps(5), queue: Bytes::ZERO };

/// Both macroflows' calls and packets in flight after an update of the flow that has moved, which has two packets in
/// flight in each.
fn divide(update: Update<'_>) -> [(Vec<Call>, u64); 2] {
    let (mut manager, stays, moves) = moved(2);
    manager.update(at(20), moves, &Update { rtt: Some(RTT), feedback: SHARE, ..update });
    let both = [stays, moves].map(|flow| (calls(&manager, flow), in_flight(&manager, flow)));
    assert_eq!(manager.in_flight(moves), PACKET * (both[0].1 + both[1].1), "all of them are this flow's");
    both
}

/// The acknowledgement of the macroflow that sent the last packet.
fn last(ack: Acked) -> Call {
    Call::Ack(Acked { rtt: Some(RTT), feedback: SHARE, ..ack })
}

#[test]
fn each_macroflow_hears_of_its_own_packets() {
    let [old, new] = divide(Update { arrivals: &arrivals(&[0, 1, 2]), ..update(3) });
    assert_eq!(old, (vec![Call::Ack(acked(2, &[0, 1]))], 0));
    assert_eq!(new, (vec![last(acked(1, &[2]))], 1));
    let [old, new] = divide(Update { arrivals: &arrivals(&[0]), ..update(1) });
    assert_eq!((old, new), ((vec![last(acked(1, &[0]))], 1), (vec![], 2)));
    let [old, new] = divide(Update { arrivals: &arrivals(&[3]), ..update(1) });
    assert_eq!((old, new), ((vec![], 2), (vec![last(acked(1, &[3]))], 1)));
}

/// Packets are sent 1 ms apart. Four bytes more, which no receipt names, count with the last one.
#[test]
fn a_combined_acknowledgement_is_one_for_each_packet() {
    let calls_of = |is_combined, feedback| {
        let mut manager = manager();
        let flow = open(&mut manager, Recorder::default());
        (0..5).for_each(|number| assert_eq!(send(&mut manager, at(number), flow), number));
        calls(&manager, flow);
        let mut arrivals = arrivals(&[0, 1, 2, 3]);
        for arrival in &mut arrivals {
            arrival.sent_at = at(arrival.number);
        }
        let delivered = PACKET * 4 + Bytes::new(4);
        let update = Update { delivered, arrivals: &arrivals, rtt: Some(RTT), is_combined, feedback, ..update(4) };
        manager.update(at(30), flow, &update);
        calls(&manager, flow)
    };
    let ack = |delivered, numbers: &[u64], late_ms, feedback| {
        let rtt = Some(RTT + Duration::from_millis(late_ms));
        Call::Ack(Acked { delivered, rtt, feedback, ..acked(0, numbers) })
    };
    let all = PACKET * 4 + Bytes::new(4);
    let none = RouterFeedback::None;
    let each = [(PACKET, 3), (PACKET, 2), (PACKET, 1), (PACKET + Bytes::new(4), 0)];
    let each = each.into_iter().zip(0..).map(|((bytes, late), number)| ack(bytes, &[number], late, none));
    assert_eq!(calls_of(true, none), each.collect::<Vec<_>>());
    assert_eq!(calls_of(false, none), [ack(all, &[0, 1, 2, 3], 0, none)]);
    assert_eq!(calls_of(true, SHARE), [ack(all, &[0, 1, 2, 3], 0, SHARE)], "routers answered once");
}

#[test]
fn without_packet_numbers_bytes_arrive_in_the_order_sent() {
    let [old, new] = divide(update(3));
    assert_eq!((old, new), ((vec![Call::Ack(acked(2, &[]))], 0), (vec![last(acked(1, &[]))], 1)));
    let [old, new] = divide(Update { lost: PACKET, ..update(1) });
    assert_eq!((old, new), ((vec![last(acked(1, &[]))], 0), (vec![], 2)));
}

#[test]
fn each_macroflow_hears_of_its_own_losses() {
    let one_lost = Update { lost: PACKET, arrivals: &arrivals(&[0, 2]), loss: Some(loss(1)), ..update(2) };
    let [old, new] = divide(one_lost);
    assert_eq!(old, (vec![Call::Loss(PACKET, 1), Call::Ack(acked(1, &[0]))], 0));
    assert_eq!(new, (vec![last(acked(1, &[2]))], 1));
    let [old, new] =
        divide(Update { lost: PACKET * 2, arrivals: &arrivals(&[0, 3]), loss: Some(loss(2)), ..update(2) });
    assert_eq!(old, (vec![Call::Loss(PACKET, 1), Call::Ack(acked(1, &[0]))], 0), "the packets 1 and 2 are lost");
    assert_eq!(new, (vec![Call::Loss(PACKET, 2), last(acked(1, &[3]))], 0));
}

#[test]
fn packets_that_are_not_in_flight_reach_their_macroflow() {
    let late = Update { arrived_in_flight: Bytes::ZERO, arrivals: &arrivals(&[0]), ..update(1) };
    assert_eq!(divide(late), [(vec![last(acked(1, &[0]))], 2), (vec![], 2)], "it had counted as lost");
    let duplicate = Update { arrivals: &arrivals(&[0]), ..update(0) };
    assert_eq!(divide(duplicate), [(vec![last(acked(0, &[0]))], 2), (vec![], 2)]);
}

/// The same for totals. `new`: the packets in flight in the new macroflow. The round trip reported is 100 ms; after each
/// macroflow's calls stand its packets in flight and its smoothed round trip.
fn divide_report(new: u64, report: Report) -> [(Vec<Call>, u64, Duration); 2] {
    let (mut manager, stays, moves) = moved(new);
    manager.report(at(100), moves, &Report { rtt: Some(RTT * 5), ..report });
    [stays, moves].map(|flow| {
        let rtt = manager.query(at(100), flow).unwrap().smoothed_rtt;
        (calls(&manager, flow), in_flight(&manager, flow), rtt)
    })
}

/// One acknowledgement of a report for each packet.
fn totals(packets: u64, rtt: Option<Duration>, recovering: bool) -> Vec<Call> {
    let ack =
        |n| Acked { delivered: PACKET, marks: Some(0), rtt: rtt.filter(|_| n == 0), recovering, ..Acked::default() };
    (0..packets).map(|n| Call::Ack(ack(n))).collect()
}

/// SRTT after 20 and 100 ms (RFC 6298): 7/8 * 20 + 1/8 * 100.
const BOTH: Duration = Duration::from_millis(30);

#[test]
fn reported_bytes_belong_to_the_macroflow_that_sent_first() {
    let report =
        |received, lost, mode| Report { received: PACKET * received, lost: PACKET * lost, mode, ..Report::default() };
    let rtt = Some(RTT * 5);
    let of_loss = |bytes: u64, number| vec![Call::Loss(PACKET * bytes, number)];
    assert_eq!(divide_report(2, report(2, 0, None)), [(totals(2, rtt, false), 0, BOTH), (vec![], 2, RTT)]);
    let transient = Some(LossMode::Transient);
    let [old, new] = divide_report(2, report(3, 1, transient));
    assert_eq!(old, (totals(2, None, false), 0, RTT), "the loss is one of the new macroflow");
    assert_eq!(new, ([of_loss(1, 3), totals(1, rtt, true)].concat(), 0, BOTH));
    let [old, new] = divide_report(2, report(1, 2, transient));
    assert_eq!(old, ([of_loss(1, 1), totals(1, None, true)].concat(), 0, RTT));
    assert_eq!(new, (of_loss(1, 3), 1, BOTH), "nothing has arrived: no acknowledgement");
}

#[test]
fn a_mark_concerns_the_macroflow_of_the_bytes_in_flight() {
    let mark = Report { mode: Some(LossMode::Ecn), ..Report::default() };
    let marked = Call::Ack(Acked { marks: Some(1), ..Acked::default() });
    assert_eq!(divide_report(2, mark), [(vec![], 2, RTT), (vec![marked.clone()], 2, BOTH)]);
    assert_eq!(divide_report(0, mark), [(vec![marked], 2, BOTH), (vec![], 0, RTT)]);
}

#[test]
fn all_of_an_update_reaches_the_controller() {
    let mut manager = manager();
    let flow = open(&mut manager, Recorder::default());
    (0..4).for_each(|_| _ = send(&mut manager, at(0), flow));
    calls(&manager, flow);
    let whole = Update { rtt: Some(RTT), feedback: SHARE, recovering: true, arrivals: &arrivals(&[0]), ..update(1) };
    manager.update(at(20), flow, &whole);
    assert_eq!(calls(&manager, flow), [last(Acked { recovering: true, ..acked(1, &[0]) })]);
    manager.update(at(20), flow, &Update { lost: PACKET, loss: Some(loss(1)), ..update(1) });
    assert_eq!(calls(&manager, flow), [Call::Loss(PACKET, 1), Call::Ack(acked(1, &[]))]);
    let timeout = UpdateLoss { kind: LossKind::Persistent, ..loss(3) };
    manager.update(at(20), flow, &Update { lost: PACKET, loss: Some(timeout), ..update(0) });
    assert_eq!(calls(&manager, flow), [Call::Timeout(PACKET, 3)], "a timeout acknowledges nothing");
}

/// Where each of many flows reduced the rate for the same outage, nothing was left of it.
#[test]
fn the_timeouts_of_many_flows_are_one_persistent_congestion() {
    let mut manager = manager();
    let flows = [(); 3].map(|()| open(&mut manager, Recorder::default()));
    for flow in flows {
        send(&mut manager, at(0), flow);
    }
    calls(&manager, flows[0]);
    let mut time_out = |ms, flow, number| {
        let timeout = UpdateLoss { kind: LossKind::Persistent, ..loss(number) };
        manager.update(at(ms), flow, &Update { lost: PACKET, loss: Some(timeout), ..update(0) });
        let reported = calls(&manager, flow);
        send(&mut manager, at(ms), flow);
        reported
    };
    assert_eq!(time_out(300, flows[0], 0), [Call::Timeout(PACKET, 0)]);
    assert_eq!(time_out(300, flows[1], 1), [Call::Loss(PACKET, 1)]);
    assert_eq!(time_out(301, flows[2], 2), [Call::Loss(PACKET, 2)]);
    assert_eq!(time_out(900, flows[1], 4), [Call::Timeout(PACKET, 4)], "its retransmission is lost, too");
    assert_eq!(time_out(900, flows[0], 3), [Call::Loss(PACKET, 3)]);
}

/// A receiver that is gone never answers. Its flow's timer doubles for minutes, and the window is one packet.
#[test]
fn a_flow_whose_receiver_is_gone_does_not_stop_the_others() {
    let mut manager = manager();
    let [gone, other] = [(); 2].map(|()| open(&mut manager, Recorder { window: PACKET, ..Recorder::default() }));
    send(&mut manager, at(0), gone);
    manager.request(at(0), other, false);
    let mut sent_at = Vec::new();
    for ms in 0..2000 {
        manager.on_deadline(at(ms));
        while let Some(grant) = manager.grant(at(ms)) {
            sent_at.push(ms);
            manager.notify(at(ms), grant.flow, PACKET);
            manager.request(at(ms), other, false);
        }
    }
    assert_eq!(sent_at, [200, 600, 1400], "a packet for each timeout, which doubles");
    manager.update(at(1999), other, &update(1));
    manager.request(at(1999), other, false);
    assert_eq!(manager.grant(at(2000)), None, "without a round trip the back-off stays");
    manager.update(at(2000), other, &Update { rtt: Some(Duration::from_millis(20)), ..update(1) });
    let mut grants = |ms| {
        manager.on_deadline(at(ms));
        let grant = manager.grant(at(ms));
        if let Some(grant) = grant {
            manager.notify(at(ms), grant.flow, PACKET);
            manager.request(at(ms), other, false);
        }
        grant.is_some()
    };
    assert!(grants(2000), "more than a timeout has passed");
    assert_eq!([2000, 2399, 2400].map(grants), [false, false, true], "and then two again");
}

#[test]
fn idle_time_needs_no_request_and_nothing_in_flight() {
    let mut manager = manager();
    let (flow, other) = (open(&mut manager, Recorder::default()), open(&mut manager, Recorder::default()));
    let request = |manager: &mut Manager<Recorder>, ms, flow, retransmission| {
        manager.request(at(ms), flow, retransmission);
        let calls = calls(manager, flow);
        calls.into_iter().find_map(|call| if let Call::Idle(idle) = call { Some(idle) } else { None })
    };
    let grant = |manager: &mut Manager<Recorder>, ms| {
        while let Some(grant) = manager.grant(at(ms)) {
            manager.notify(at(ms), grant.flow, PACKET);
        }
    };
    assert_eq!(request(&mut manager, 5, flow, false), None, "it has never sent");
    grant(&mut manager, 10);
    assert_eq!(request(&mut manager, 20, flow, false), None, "a packet is in flight");
    grant(&mut manager, 20);
    manager.update(at(20), flow, &update(2));
    assert_eq!(request(&mut manager, 20, flow, false), None, "no time has passed");
    grant(&mut manager, 20);
    manager.update(at(40), flow, &update(1));
    assert_eq!(request(&mut manager, 50, flow, true), Some(Duration::from_millis(30)));
    assert_eq!(request(&mut manager, 50, other, false), None, "the other flow has requested");
    assert_eq!(request(&mut manager, 50, flow, false), None, "both have");
}

#[test]
fn only_an_open_window_without_requests_is_app_limited() {
    let gap = Duration::from_millis(30);
    let mut manager = manager();
    let flow = open(&mut manager, Recorder { gap, window: PACKET * 2, ..Recorder::default() });
    let app_limited = |manager: &mut Manager<Recorder>, ms, packets| {
        manager.update(at(ms), flow, &update(packets));
        calls(manager, flow);
        manager.controller(flow).unwrap().app_limited
    };
    assert_eq!(manager.grant(at(0)), None);
    assert_eq!(calls(&manager, flow), [Call::AppLimited]);
    assert!(app_limited(&mut manager, 0, 0));
    assert_eq!((manager.grant(at(0)), calls(&manager, flow)), (None, vec![]), "once");
    send(&mut manager, at(0), flow);
    manager.request(at(0), flow, false);
    assert_eq!(manager.grant(at(0)), None, "the next packet may leave at 30 ms");
    assert!(app_limited(&mut manager, 19, 0), "less than a round trip ago it had no data");
    assert!(!app_limited(&mut manager, 20, 0), "pacing limits it");
    assert!(manager.grant(at(30)).is_some());
    manager.notify(at(30), flow, PACKET);
    manager.update(at(40), flow, &update(0));
    calls(&manager, flow);
    assert_eq!((manager.grant(at(40)), calls(&manager, flow)), (None, vec![]), "the window limits it");
}

#[test]
fn a_retransmission_waits_for_its_departure() {
    let mut manager = manager();
    let flow = open(&mut manager, Recorder { gap: Duration::from_millis(10), ..Recorder::default() });
    send(&mut manager, at(0), flow);
    manager.request(at(0), flow, true);
    assert_eq!(manager.grant(at(0)), None);
    assert_eq!(manager.deadline(), at(10));
    manager.on_deadline(at(10));
    assert!(manager.grant(at(10)).is_some());
}

#[test]
fn a_controller_is_called_at_its_deadline() {
    let mut manager = manager();
    let flow = open(&mut manager, Recorder { deadline: at(30), ..Recorder::default() });
    send(&mut manager, at(0), flow);
    calls(&manager, flow);
    assert_eq!(manager.deadline(), at(30));
    manager.on_deadline(at(29));
    assert_eq!(calls(&manager, flow), []);
    manager.on_deadline(at(30));
    assert_eq!(calls(&manager, flow), [Call::Deadline(at(30))]);
    assert_eq!(manager.deadline(), Time::MAX);
}

#[test]
fn a_deadline_that_stays_in_the_past_blocks_nothing() {
    let mut manager = manager();
    let flow = open(&mut manager, Recorder { deadline: at(30), has_one_deadline: false, ..Recorder::default() });
    send(&mut manager, at(0), flow);
    calls(&manager, flow);
    manager.on_deadline(at(40));
    assert_eq!(calls(&manager, flow), [Call::Deadline(at(40))]);
    assert!(manager.deadline() > at(40));
}
