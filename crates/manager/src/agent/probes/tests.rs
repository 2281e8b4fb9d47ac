//! Tests of what happened to the packets sent.

use rampmeter_wire::Count;

use super::*;
use crate::destinations::Owner;

const PAYLOAD: u64 = 1000;
const WHOLE: u64 = 1040;

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

fn name(n: u32) -> Name {
    Name { wire: n, flow: FlowId(n) }
}

fn send(probes: &mut Probes, flow: u32, packets: u64) {
    (0..packets).for_each(|_| probes.send(name(flow), PAYLOAD, WHOLE));
}

fn response(last_probe: u32, this_probe: u32, packets: &[(u32, u64)]) -> Response {
    let count = |&(flow, n): &(u32, u64)| Count { flow, count: (n * PAYLOAD) as u32 };
    let counts: Vec<Count> = packets.iter().map(count).collect();
    Response { this_probe, last_probe, marked: false, missed: false, flows: counts.len() as u16, counts }
}

fn packets(outcomes: &[Outcome]) -> Vec<(u32, u64, u64, u64)> {
    let n = |bytes: Bytes| bytes.as_u64() / WHOLE;
    outcomes.iter().map(|f| (f.name.wire, n(f.received), n(f.lost), n(f.unknown))).collect()
}

#[test]
fn each_flow_gets_its_received_and_lost_bytes() {
    let mut probes = Probes::new(7);
    send(&mut probes, 1, 4);
    send(&mut probes, 2, 3);
    assert_eq!(probes.probe(at(0)), (8, Vec::new()));
    let missed = Response { missed: true, ..response(7, 8, &[(1, 4), (2, 1)]) };
    let answer = probes.on_response(at(50), &missed, true).unwrap();
    assert_eq!(answer.rtt, Duration::from_millis(50));
    assert_eq!(packets(&answer.outcomes), [(1, 4, 0, 0), (2, 1, 0, 0), (2, 0, 2, 0)]);
    assert_eq!((answer.sent, answer.received), (7 * PAYLOAD, 5 * PAYLOAD), "of all flows");
    assert!(!probes.is_waiting());
    assert_eq!(probes.on_response(at(60), &missed, true), None, "a duplicate response");
}

/// The names of two flows whose programs send from sockets of their own.
fn own_names(probes: &mut Probes) -> [Name; 2] {
    [1, 2]
        .map(|flow| Name { wire: probes.own_names.assign(FlowId(flow), Owner::default()).unwrap(), flow: FlowId(flow) })
}

#[test]
fn a_report_about_one_flow_settles_only_its_bytes() {
    let mut probes = Probes::new(7);
    let [one, two] = own_names(&mut probes);
    for name in [name(1), one, two] {
        (0..4).for_each(|_| probes.send(name, PAYLOAD, WHOLE));
    }
    probes.probe(at(0));
    probes.on_missed(two.wire);
    let counts = [(1, 3), (one.wire, 3), (two.wire, 3)];
    let answer = probes.on_response(at(50), &response(7, 8, &counts), true).unwrap();
    let received = counts.map(|(wire, packets)| (wire, packets, 0, 0));
    assert_eq!(packets(&answer.outcomes), [&received[..], &[(two.wire, 0, 1, 0)]].concat());
    probes.probe(at(60));
    let missed = Response { missed: true, ..response(8, 9, &[]) };
    let answer = probes.on_response(at(90), &missed, true).unwrap();
    assert_eq!(packets(&answer.outcomes), [(1, 0, 1, 0)], "a loss of this host's packets");
}

/// A packet is counted 16 or 17 responses before the response to the probe after its report.
#[test]
fn a_program_has_sixteen_responses_of_time_to_report() {
    for (probes_between, received) in [(15, 1), (16, 0)] {
        let mut probes = Probes::new(0);
        let [one, _] = own_names(&mut probes);
        let mut round = |probe: u32, counted: u64| {
            send(&mut probes, 1, 1);
            probes.probe(at(0));
            let counts = [(1, 1), (one.wire, counted)];
            probes.on_response(at(9), &response(probe - 1, probe, &counts), true).unwrap();
        };
        (1..=1 + probes_between).for_each(|probe| round(probe, u64::from(probe == 1)));
        probes.send(one, PAYLOAD, WHOLE);
        probes.probe(at(20));
        let last = response(1 + probes_between, 2 + probes_between, &[(one.wire, 0)]);
        let answer = probes.on_response(at(30), &last, true).unwrap();
        assert_eq!(packets(&answer.outcomes), [(one.wire, received, 0, 0)], "{probes_between} between");
    }
}

#[test]
fn a_program_may_always_report_one_packet_behind() {
    for (sent, behind) in [(1_u64, 1), (3, 1), (3, 5), (1, 4)] {
        let mut probes = Probes::new(0);
        let [one, _] = own_names(&mut probes);
        let (mut received, mut reported) = (0, 0);
        for probe in 1..=50 {
            let arrived = if probe <= 40 { sent } else { 0 };
            send(&mut probes, 1, 1);
            let report = (sent * probe.min(40)).saturating_sub(if probe < 42 { behind } else { 0 }) - reported;
            (0..report).for_each(|_| probes.send(one, PAYLOAD, WHOLE));
            reported += report;
            probes.probe(at(0));
            let counts = [(1, 1), (one.wire, arrived)];
            let answer = probes.on_response(at(9), &response(probe as u32 - 1, probe as u32, &counts), true);
            for (wire, got, lost, unknown) in packets(&answer.unwrap().outcomes) {
                assert_eq!((lost, unknown), (0, 0), "{sent} packets, {behind} behind, response {probe}");
                received += if wire == one.wire { got } else { 0 };
            }
        }
        assert_eq!((reported, received), (40 * sent, 40 * sent), "{sent} packets, {behind} behind");
    }
}

#[test]
fn hostile_counts_use_bounded_memory() {
    let mut probes = Probes::new(0);
    send(&mut probes, 1, 1);
    probes.probe(at(0));
    let part = |first: u32| {
        let counts = (0..180).map(|n| Count { flow: first + n, count: 1 }).collect();
        Response { flows: u16::MAX, counts, ..response(0, 1, &[]) }
    };
    let ready = (0..30).find_map(|n| probes.collect(at(8), &part(180 * n)).unwrap().pop());
    let flows = ready.map_or(0, |(_, response)| response.counts.len());
    assert!((4096 + 256..5000).contains(&flows), "no receiver counts more than 4096 + 256 flows: {flows}");
    assert!(probes.early_arrivals.is_empty() && probes.missing.is_empty());
}

#[test]
fn any_number_of_bytes_can_be_sent_between_probes() {
    let payload = (1 << 32) + 2;
    let mut sent = Sent { name: name(1), payload, wire_bytes: payload + 40 };
    assert_eq!(sent.take(payload - 1), payload + 38, "rounded down");
    assert_eq!((sent.payload, sent.wire_bytes), (1, 2));
}

#[test]
fn a_lost_probe_costs_nothing_a_lost_response_leaves_a_gap() {
    let mut probes = Probes::new(0);
    for _ in 0..3 {
        send(&mut probes, 1, 2);
        probes.probe(at(0));
    }
    // Probe 1 was lost: the response to probe 2 covers both.
    assert_eq!(packets(&probes.on_response(at(9), &response(0, 2, &[(1, 4)]), true).unwrap().outcomes), [(1, 4, 0, 0)]);
    // The response to probe 3 was lost: the response to probe 4 does not cover it.
    let mut seen = Vec::new();
    for probe in 4..=6 {
        send(&mut probes, 1, 1);
        probes.probe(at(0));
        seen.extend(packets(
            &probes.on_response(at(9), &response(probe - 1, probe, &[(1, 1)]), true).unwrap().outcomes,
        ));
    }
    assert_eq!(seen, [(1, 1, 0, 0), (1, 1, 0, 0), (1, 0, 0, 2), (1, 1, 0, 0)]);
}

#[test]
fn a_packet_overtaken_by_its_probe_is_not_lost() {
    let mut probes = Probes::new(0);
    let mut round = |probe: u32, sent, counted: u64| {
        send(&mut probes, 1, sent);
        probes.probe(at(0));
        packets(&probes.on_response(at(9), &response(probe - 1, probe, &[(1, counted)]), true).unwrap().outcomes)
    };
    assert_eq!(round(1, 4, 3), [(1, 3, 0, 0)]);
    assert_eq!(round(2, 4, 5), [(1, 5, 0, 0)], "it arrives late");
    assert_eq!(round(3, 4, 2), [(1, 2, 0, 0)]);
    assert_eq!(round(4, 1, 1), [(1, 1, 0, 0)]);
    assert_eq!(round(5, 1, 1), [(1, 1, 0, 0), (1, 0, 2, 0)], "it never arrives");
}

#[test]
fn a_flow_missing_from_a_partial_response_is_unknown() {
    let mut probes = Probes::new(0);
    send(&mut probes, 1, 1);
    send(&mut probes, 2, 1);
    probes.probe(at(0));
    let partial = Response { flows: 2, ..response(0, 1, &[(1, 1)]) };
    assert_eq!(packets(&probes.on_response(at(9), &partial, true).unwrap().outcomes), [(1, 1, 0, 0), (2, 0, 0, 1)]);
}

#[test]
fn the_parts_of_a_response_count_together() {
    let mut probes = Probes::new(0);
    (1..=3).for_each(|flow| send(&mut probes, flow, 1));
    probes.probe(at(0));
    let part = |packets: &[(u32, u64)]| Response { flows: 3, ..response(0, 1, packets) };
    assert_eq!(probes.collect(at(8), &part(&[(1, 1), (2, 1)])), Some(vec![]));
    assert_eq!(probes.collect(at(8), &part(&[(1, 1), (2, 1)])), Some(vec![]), "a duplicate");
    let mut ready = probes.collect(at(9), &part(&[(3, 1)])).unwrap();
    let (arrived_at, whole) = ready.remove(0);
    let answer = probes.on_response(arrived_at, &whole, true).unwrap();
    assert_eq!(packets(&answer.outcomes), [(1, 1, 0, 0), (2, 1, 0, 0), (3, 1, 0, 0)]);
    assert_eq!((answer.rtt, probes.collect(at(9), &part(&[(3, 1)]))), (Duration::from_millis(9), None));
}

#[test]
fn a_missing_part_does_not_delay_the_next_response() {
    let mut probes = Probes::new(0);
    for probed_at in [0, 4] {
        (1..=2).for_each(|flow| send(&mut probes, flow, 1));
        probes.probe(at(probed_at));
    }
    assert_eq!(probes.unanswered_since(), Some(at(0)));
    assert_eq!(probes.collect(at(8), &Response { flows: 2, ..response(0, 1, &[(1, 1)]) }), Some(vec![]));
    assert_eq!(probes.unanswered_since(), Some(at(4)), "feedback has arrived");
    let ready = probes.collect(at(9), &response(1, 2, &[(1, 1), (2, 1)])).unwrap();
    let outcomes: Vec<_> = ready
        .iter()
        .map(|(arrived_at, response)| {
            let answer = probes.on_response(*arrived_at, response, true).unwrap();
            (answer.rtt.as_nanos() / 1_000_000, packets(&answer.outcomes))
        })
        .collect();
    assert_eq!(outcomes, [(8, vec![(1, 1, 0, 0), (2, 0, 0, 1)]), (5, vec![(1, 1, 0, 0), (2, 1, 0, 0)])]);
}

#[test]
fn the_accounting_is_bounded_and_ends_complete() {
    let mut probes = Probes::new(u32::MAX - 10);
    let mut unknown = 0;
    for _ in 0..MAX_EPOCHS + 36 {
        send(&mut probes, 1, 1);
        unknown += probes.probe(at(0)).1.len();
    }
    assert_eq!(unknown, 36);
    let oldest = probes.next.wrapping_sub(MAX_EPOCHS as u32);
    assert!(probes.is_recent(oldest) && !probes.is_recent(oldest.wrapping_sub(1)));
    send(&mut probes, 1, 1);
    assert_eq!(probes.end().len(), MAX_EPOCHS + 1, "one more was sent since the last probe");
}
