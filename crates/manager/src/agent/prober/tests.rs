//! Tests of the sender's half of the protocol.

use std::collections::BTreeSet;

use super::*;
use crate::flow::FlowId;

const RTT: Duration = Duration::from_millis(100);
const NAME: Name = Name { wire: 1, flow: FlowId(0) };

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

fn prober_with_cm() -> Prober {
    let mut prober = Prober { secret: 7 << 32, ..Prober::new(1) };
    (prober.sequence, prober.probes) = (7, Probes::new(7));
    assert_eq!(prober.due(at(0)), Some(Due::Send(CmHeader::control(CmKind::Syn, 7))));
    let answer = |number| CmHeader::control(CmKind::SynAck, number);
    assert!(!prober.on_syn_ack(at(100), &answer(8)) && prober.on_syn_ack(at(100), &answer(7)));
    assert_eq!(prober.rtt, Some(RTT));
    prober
}

#[test]
fn a_receiver_that_ignores_three_syns_has_no_cm() {
    let mut prober = Prober::new(7);
    let mut sent = Vec::new();
    for ms in 0..20_000 {
        while let Some(due) = prober.due(at(ms)) {
            assert!(matches!(due, Due::Send(_)));
            sent.push(ms);
        }
    }
    assert_eq!(sent, [0, 1000, 3000]);
    assert_eq!(prober.state, State::NoCm { until: at(15_000) });
    assert_eq!(prober.send(at(13_000), NAME, 1000), (None, 1028));
    assert_eq!(prober.due(at(15_999)), None, "no round trip is known: RFC 6298's timeout of one of a second");
    assert_eq!(prober.due(at(16_000)), Some(Due::UnknownOutcome(at(13_000))), "its outcome remains unknown");
}

#[test]
fn handshakes_without_an_answer_are_repeated_ever_later() {
    let (mut prober, mut sent, mut secrets) = (Prober::new(7), Vec::new(), BTreeSet::new());
    for second in 0..300 {
        prober.send(at(second * 1000), NAME, 1000);
        prober.without_header.clear(); // as its owner does
        while let Some(due) = prober.due(at(second * 1000)) {
            let Due::Send(syn) = due else { panic!("{due:?}") };
            assert!(syn.flow != 0);
            secrets.insert((syn.sequence, syn.flow));
            sent.push(second);
        }
    }
    let starts: Vec<u64> = sent.iter().copied().step_by(3).collect();
    assert_eq!(starts, [0, 15, 38, 77, 144, 211, 278], "after 8, 16, 32 and 60 seconds without a SYN");
    prober.restart();
    secrets.insert((prober.syn().sequence, prober.syn().flow));
    assert_eq!(secrets.len(), 8, "each handshake has a new secret");
}

#[test]
fn a_host_that_reports_no_cm_is_asked_after_a_minute() {
    let mut prober = Prober::new(7);
    assert!(prober.due(at(0)).is_some());
    prober.on_unreachable(at(100));
    prober.send(at(60_000), NAME, 1000);
    assert_eq!(prober.due(at(60_000)), None);
    prober.send(at(60_100), NAME, 1000);
    assert!(matches!(prober.due(at(60_100)), Some(Due::Send(_))), "it may have one by now");
}

#[test]
fn packets_without_a_header_are_overdue_after_a_second_too() {
    let mut prober = prober_with_cm();
    prober.count(at(200), NAME, 1000, false);
    assert_eq!(prober.due(at(1199)), None);
    assert_eq!(prober.due(at(1200)), Some(Due::UnknownOutcome(at(200))));
    prober.restart();
    assert_eq!(prober.without_header, BTreeMap::from([(NAME, 1028)]), "a new handshake does not change that");
}

#[test]
fn data_is_numbered_and_probed_twice_a_round_trip() {
    let mut prober = prober_with_cm();
    let mut probes = 0;
    for ms in 100..1100 {
        if ms % 10 == 0 {
            let number = prober.send(at(ms), NAME, 1000).0.unwrap();
            assert_eq!(u64::from(number), 8 + (ms - 100) / 10);
        }
        while let Some(due) = prober.due(at(ms)) {
            match due {
                Due::Probe => {
                    prober.probes.probe(at(ms));
                    prober.on_probe_sent(at(ms));
                    prober.on_response(at(ms));
                    probes += 1;
                }
                Due::FeedbackOverdue(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    assert!((19..=20).contains(&probes), "{probes}");
    assert_eq!(prober.counts, (probes, probes));
}

#[test]
fn unanswered_probes_are_reported_then_rarer_then_a_restart() {
    let mut prober = prober_with_cm();
    prober.send(at(100), NAME, 1000);
    let mut seen = Vec::new();
    for ms in 100..1_000_000 {
        while let Some(due) = prober.due(at(ms)) {
            seen.push((ms, due));
            match due {
                Due::Probe => {
                    prober.probes.probe(at(ms));
                    prober.on_probe_sent(at(ms));
                }
                Due::Restart => {
                    let probes = seen.iter().filter(|(_, due)| *due == Due::Probe).count();
                    return assert!(probes > 5 && probes < 12 && ms > 30_000, "{seen:?}");
                }
                Due::FeedbackOverdue(since) => assert_eq!((since, ms), (at(150), 300)),
                Due::Send(_) | Due::UnknownOutcome(_) => panic!("{seen:?}"),
            }
        }
    }
    panic!("{seen:?}");
}

#[test]
fn a_receiver_must_repeat_the_secret() {
    let mut prober = Prober::new(7);
    let syn = prober.syn();
    assert_eq!(prober.due(at(0)), Some(Due::Send(syn)));
    let answer = |flow| CmHeader { flow, ..CmHeader::control(CmKind::SynAck, syn.sequence) };
    assert!(!prober.on_syn_ack(at(100), &answer(syn.flow ^ 1)));
    let mut old = Prober::new(7);
    old.due(at(0));
    assert!(old.on_syn_ack(at(100), &answer(0)) && old.own_header(1).is_none(), "of an earlier version");
    assert!(prober.on_syn_ack(at(100), &answer(syn.flow)));
    assert_eq!(prober.own_header(1), Some(OwnHeader::new(&syn, 1)));
}

/// A prober on a steady path, one probe of which was sent at 10 s and is unanswered.
fn steady() -> Prober {
    let mut prober = prober_with_cm();
    (0..100).for_each(|_| prober.on_rtt(RTT));
    prober.on_response(at(9_900));
    prober.send(at(9_900), NAME, 1000);
    prober.probes.probe(at(10_000));
    prober.on_probe_sent(at(10_000));
    prober
}

#[test]
fn on_a_steady_path_feedback_is_overdue_after_a_quarter_more() {
    let mut prober = steady();
    assert_eq!(prober.due(at(10_124)), None);
    assert_eq!(prober.due(at(10_125)), Some(Due::FeedbackOverdue(at(10_000))));
}

#[test]
fn feedback_is_not_overdue_shortly_after_a_response() {
    let mut prober = steady();
    assert_eq!(prober.next_overdue(), at(10_125));
    prober.on_response(at(10_120));
    assert_eq!(prober.next_overdue(), at(10_170), "half a round trip after it");
}
