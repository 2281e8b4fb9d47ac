//! Tests of the receiver's half of the protocol.

use super::super::own_names::OWN;
use super::*;

fn data(sequence: u32) -> CmHeader {
    CmHeader { kind: CmKind::Data, protocol: 17, sequence, flow: 1 }
}

/// The messages that data packets with these numbers cause.
fn messages_for(responder: &mut Responder, numbers: &[u32]) -> Vec<CmMessage> {
    let mut out = Vec::new();
    for &number in numbers {
        responder.on_data(Time::ZERO, &data(number), 1000, false, &mut |message| out.push(message));
    }
    out
}

fn probe(responder: &mut Responder, number: u32) -> Vec<CmMessage> {
    let mut out = Vec::new();
    responder.on_probe(Time::ZERO, number, &mut |message| out.push(message));
    out
}

fn syn(sequence: u32, secret: u32) -> CmHeader {
    CmHeader { flow: secret, ..CmHeader::control(CmKind::Syn, sequence) }
}

fn responder() -> Responder {
    Responder::new(Time::ZERO, &syn(100, 7), true)
}

#[test]
fn a_probe_is_answered_once_with_the_bytes_since_the_last_one() {
    let mut responder = responder();
    messages_for(&mut responder, &[101, 102]);
    let counts = vec![Count { flow: 1, count: 2000 }];
    let response = Response { this_probe: 101, last_probe: 100, marked: false, missed: false, flows: 1, counts };
    assert_eq!(probe(&mut responder, 101), [CmMessage::Response(Box::new(response))]);
    assert_eq!(probe(&mut responder, 101), [], "a copy");
    let nothing = Response { this_probe: 103, last_probe: 101, ..Response::default() };
    assert_eq!(probe(&mut responder, 103), [CmMessage::Response(Box::new(nothing))], "102 was lost");
    assert_eq!(probe(&mut responder, 102), [], "or late");
}

#[test]
fn marks_are_reported_at_once_and_with_the_next_response() {
    let mut responder = responder();
    let mut out = Vec::new();
    for number in 101..104 {
        responder.on_data(Time::ZERO, &data(number), 1000, true, &mut |message| out.push(message));
    }
    assert!(matches!(&out[..], [CmMessage::Response(report)] if report.marked && !report.missed), "once");
    assert!(matches!(&probe(&mut responder, 101)[..], [CmMessage::Response(report)] if report.marked));
    assert!(matches!(&probe(&mut responder, 102)[..], [CmMessage::Response(report)] if !report.marked));
}

#[test]
fn hints_wait_until_as_many_bytes_have_arrived() {
    let mut responder = responder();
    responder.hint(&[Count { flow: 1, count: 3 }; 50]);
    let mut sent_at = None;
    for number in 101..120 {
        messages_for(&mut responder, &[number]);
        let has_hints = probe(&mut responder, number).iter().any(|message| matches!(message, CmMessage::Hints { .. }));
        sent_at = sent_at.or(has_hints.then_some(number));
    }
    assert_eq!(sent_at, Some(101), "a kilobyte has arrived with the first packet");
    let small = |responder: &mut Responder, number| {
        responder.on_data(Time::ZERO, &data(number), 8, false, &mut |_| ());
        probe(responder, number).iter().any(|message| matches!(message, CmMessage::Hints { .. }))
    };
    let mut limited = self::responder();
    limited.hint(&[Count { flow: 1, count: 3 }; 50]);
    assert!((101..110).all(|number| !small(&mut limited, number)), "but few bytes with these");
    assert!((110..130).any(|number| small(&mut limited, number)));
}

#[test]
fn a_restarted_sender_is_accepted_when_its_packets_arrive() {
    let mut responder = responder();
    messages_for(&mut responder, &[101, 102]);
    responder.on_syn(&syn(5_000_000, 8));
    assert!(matches!(&probe(&mut responder, 101)[..], [CmMessage::Response(r)] if r.counts[0].count == 2000));
    let mut ignore = |_| {};
    assert_eq!(responder.on_data(Time::ZERO, &data(5_000_001), 1000, false, &mut ignore), Action::Deliver);
    assert!(matches!(&probe(&mut responder, 5_000_001)[..], [CmMessage::Response(r)] if r.counts[0].count == 1000));
    assert_eq!(responder.on_data(Time::ZERO, &data(103), 1000, false, &mut ignore), Action::Reset);
}

/// The messages that packets of a program with these numbers cause, or none if they are not delivered.
fn own(responder: &mut Responder, header: OwnHeader, numbers: &[u32]) -> Option<Vec<CmMessage>> {
    let mut out = Vec::new();
    let is_delivered = numbers.iter().all(|number| {
        let packet = CmHeader { flow: header.flow, ..data(header.first.wrapping_add(*number)) };
        let mut out = |message| out.push(message);
        responder.on_own_data(Time::ZERO, &packet, header.tag, 1000, false, &mut out) == Action::Deliver
    });
    if is_delivered { Some(out) } else { None }
}

#[test]
fn programs_packets_have_numbers_of_their_own() {
    let mut responder = responder();
    let [one, two] = [1, 2].map(|flow| OwnHeader::new(&syn(100, 7), flow));
    assert_eq!(own(&mut responder, one, &[0, 1, 2]), Some(vec![]));
    assert_eq!(own(&mut responder, two, &[0, 1, 3, 4]), Some(vec![]));
    assert_eq!(messages_for(&mut responder, &[101, 102]), []);
    assert_eq!(own(&mut responder, one, &[3]), Some(vec![]), "other flows' packets are no gap");
    let report = own(&mut responder, two, &[5]).unwrap();
    let [CmMessage::Response(report)] = &report[..] else { panic!("three after the missing one") };
    assert_eq!((report.missed, &report.counts[..]), (true, &[Count { flow: 2, count: 0 }][..]));
    let CmMessage::Response(response) = probe(&mut responder, 101).remove(0) else { panic!() };
    let counts = [(1, 6000), (2, 5000)].map(|(flow, count)| Count { flow, count });
    assert_eq!((response.missed, response.counts), (false, counts.to_vec()), "no packet of the daemon is missing");
}

#[test]
fn programs_flows_leave_room_for_the_daemons() {
    let mut responder = responder();
    for flow in 0..5000 {
        assert!(own(&mut responder, OwnHeader::new(&syn(100, 7), OWN | flow), &[0]).is_some());
    }
    responder.on_data(Time::ZERO, &CmHeader { flow: 9000, ..data(101) }, 500, false, &mut |_| ());
    let mut counts = Vec::new();
    for message in probe(&mut responder, 101) {
        let CmMessage::Response(response) = message else { panic!("{message:?}") };
        counts.extend(response.counts);
    }
    assert_eq!(counts.len(), 257);
    assert!(counts.contains(&Count { flow: 9000, count: 500 }));
}

#[test]
fn packets_with_another_flows_tag_have_no_effect() {
    let mut responder = responder();
    let [one, two] = [1, 2].map(|flow| OwnHeader::new(&syn(100, 7), flow));
    assert_eq!(own(&mut responder, one, &[0]), Some(vec![]));
    assert_eq!(own(&mut responder, OwnHeader { tag: one.tag, ..two }, &[0, 900]), None);
    assert_eq!(own(&mut responder, OwnHeader::new(&syn(100, 8), 1), &[900]), None, "of another secret");
    assert!(matches!(&probe(&mut responder, 101)[..], [CmMessage::Response(r)] if !r.missed && r.flows == 1));
    responder.on_syn(&syn(100, 8));
    assert_eq!(own(&mut responder, one, &[1]), Some(vec![]), "a SYN alone changes nothing");
    assert!(own(&mut responder, OwnHeader::new(&syn(100, 8), 1), &[900]).is_some(), "its packets do");
    assert_eq!(own(&mut responder, one, &[2]), None);
}

#[test]
fn no_answer_is_longer_than_its_data_packet() {
    let mut out = Vec::new();
    let mut responder = responder();
    assert_eq!(responder.on_data(Time::ZERO, &data(300), 0, true, &mut |m| out.push(m)), Action::Ignore);
    assert_eq!(out, []);
}

#[test]
fn all_answers_together_are_no_longer_than_all_packets() {
    for payload in MIN_PAYLOAD..100 {
        let (mut responder, mut answers) = (responder(), Vec::new());
        responder.on_data(Time::ZERO, &data(300), payload, true, &mut |message| answers.push(message));
        let refusal = CmMessage::Header(CmHeader::control(CmKind::Reset, 300));
        answers.extend(responder.spend(&refusal).then_some(refusal));
        let last = probe(&mut responder, 101);
        assert!(matches!(&last[..], [CmMessage::Response(r)] if r.counts.len() == 1 && r.marked && r.missed));
        let answered: usize = answers.iter().chain(&last).map(cost).sum();
        assert!(answered <= UDP_BYTES * 2 + CM_HEADER_BYTES + payload + RESPONSE_BYTES, "{payload}: {answered}");
    }
}

#[test]
fn a_forged_syn_near_the_sequence_changes_nothing() {
    let mut responder = responder();
    let header = OwnHeader::new(&syn(100, 7), OWN);
    (101..5000).for_each(|number| assert_eq!(messages_for(&mut responder, &[number]), []));
    assert!(own(&mut responder, header, &[0, 1, 2]).is_some());
    responder.on_syn(&syn(1000, 99));
    messages_for(&mut responder, &[5000, 5001]);
    assert!(own(&mut responder, header, &[3]).is_some(), "the sender's secret is still valid");
}

#[test]
fn other_answers_leave_room_for_all_parts_of_a_response() {
    let mut responder = responder();
    for flow in 0..180 {
        let header = CmHeader { flow, ..data(101 + flow) };
        responder.on_data(Time::ZERO, &header, MIN_PAYLOAD, false, &mut |_| ());
    }
    let last = OwnHeader::new(&syn(100, 7), OWN | 1);
    assert_eq!(own(&mut responder, last, &[0]), Some(vec![]));
    let refusal = CmMessage::Header(CmHeader::control(CmKind::Reset, 300));
    while responder.spend(&refusal) {}
    let parts = probe(&mut responder, 101);
    let [_, CmMessage::Response(response)] = &parts[..] else { panic!("{parts:?}") };
    assert_eq!(response.counts, [Count { flow: last.flow, count: 1000 }]);
}

/// What is done with a packet of the daemon and with one of a program, and whether it then pays for a refusal.
fn one_packet(payload: usize) -> [(Action, bool); 2] {
    let refusal = CmMessage::Header(CmHeader::control(CmKind::Reset, 300));
    let own = OwnHeader::new(&syn(100, 7), OWN);
    [false, true].map(|is_own| {
        let mut responder = responder();
        let header = CmHeader { flow: if is_own { own.flow } else { 1 }, ..data(101) };
        let action = if is_own {
            responder.on_own_data(Time::ZERO, &header, own.tag, payload, false, &mut |_| ())
        } else {
            responder.on_data(Time::ZERO, &header, payload, false, &mut |_| ())
        };
        (action, responder.spend(&refusal))
    })
}

/// A packet has 40 bytes of headers, 9 of which it keeps for its count, and a refusal has 40 bytes.
#[test]
fn a_packet_pays_for_a_refusal_with_nine_bytes_of_payload() {
    assert_eq!(one_packet(7), [(Action::Ignore, false); 2], "shorter than a transport header");
    assert_eq!(one_packet(8), [(Action::Deliver, false); 2]);
    assert_eq!(one_packet(9), [(Action::Deliver, true); 2]);
}

#[test]
fn bytes_of_a_limited_number_of_flows_are_counted() {
    let mut responder = responder();
    for flow in (0..=MAX_FLOWS as u32).chain([0]) {
        let header = CmHeader { flow, ..data(101 + flow) };
        responder.on_data(Time::ZERO, &header, 1000, false, &mut |_| ());
    }
    let counts = responder.counts;
    assert_eq!((counts.len(), counts[&0], counts.get(&(MAX_FLOWS as u32))), (MAX_FLOWS, 2000, None));
}

#[test]
fn numbers_far_from_the_last_one_are_refused() {
    let action = |number: u32| responder().on_data(Time::ZERO, &data(number), 1000, false, &mut |_| ());
    let last = 100_u32;
    assert_eq!([MAX_JUMP - 1, MAX_JUMP].map(|ahead| action(last + ahead)), [Action::Deliver, Action::Reset]);
    let behind = [MAX_JUMP, MAX_JUMP + 1].map(|behind| action(last.wrapping_sub(behind)));
    assert_eq!(behind, [Action::Deliver, Action::Reset]);
    // After a SYN those that follow it are accepted, too.
    let after_syn = |number: u32| {
        let mut responder = responder();
        responder.on_syn(&syn(5_000_000, 8));
        responder.on_data(Time::ZERO, &data(5_000_000 + number), 1000, false, &mut |_| ())
    };
    assert_eq!([1, MAX_JUMP, MAX_JUMP + 1].map(after_syn), [Action::Deliver, Action::Deliver, Action::Reset]);
    assert_eq!(after_syn(0), Action::Reset);
}
