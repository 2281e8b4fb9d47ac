//! Tests of links.

use std::sync::Arc;

use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Time};

use crate::capacity::{Capacity, LinkStreams, Trace, models, token_bucket};
use crate::drop_tail::{Config, DropTail};
use crate::link::disorder::Jitter;
use crate::link::loss::Loss;
use crate::link::transit::trim;
use crate::router::Discipline;
use crate::router::tests::{ENVIRONMENT, TestParcel, ms};
use crate::{AnyRouter, Counts, Disorder, EcnPassage, Link, LinkConfig, Offered, Parcel, Registry, Router};

// 8 Mb/s: 1000 bytes a millisecond; 10 ms of delay.
fn link(loss: Loss) -> Link<TestParcel, DropTail<TestParcel>> {
    let router = DropTail::new(&Config::default(), ENVIRONMENT, Random::from_seed(1));
    let config = LinkConfig { rate: ENVIRONMENT.rate, delay: ENVIRONMENT.delay, loss };
    Link::new(config, router, Random::from_seed(2))
}

/// The same link behind any router.
fn behind(name: &str, settings: &str) -> Link<TestParcel, AnyRouter<TestParcel>> {
    let router = Registry::default().config(name, &settings.parse().unwrap()).unwrap();
    let config = LinkConfig { rate: ENVIRONMENT.rate, delay: ENVIRONMENT.delay, loss: Loss::default() };
    Link::new(config, router.make(ENVIRONMENT, Random::from_seed(1)), Random::from_seed(2))
}

/// Offers a packet of 1000 bytes of each of `flows`.
fn offer<R: Router<TestParcel>>(link: &mut Link<TestParcel, R>, at: Time, flows: impl IntoIterator<Item = u64>) {
    for flow in flows {
        let _ = link.offer(at, &mut Some(TestParcel::new(flow, 1000)), Time::ZERO);
    }
}

fn drain<R: Router<TestParcel>>(link: &mut Link<TestParcel, R>) -> Vec<(Time, u64)> {
    let mut arrivals = Vec::new();
    while link.next_event() < Time::MAX {
        let now = link.next_event();
        link.advance(now);
        while let Some(packet) = link.arrive(now) {
            arrivals.push((now, packet.flow));
        }
    }
    arrivals
}

#[test]
fn ecn_codes_are_kept_or_all_set_to_one() {
    let mut link = link(Loss::default());
    let mut arriving = |passage, at| {
        link.set_ecn(passage);
        let mut packet = TestParcel::new(0, 1000);
        packet.set_ecn(Ecn::Ect1);
        assert_eq!(link.offer(at, &mut Some(packet), Time::ZERO), Offered::Queued);
        let now = link.next_event();
        link.advance(now);
        link.arrive(now).unwrap().ecn()
    };
    for (n, (passage, arrives)) in [
        (EcnPassage::Kept, Ecn::Ect1),
        (EcnPassage::SetTo(Ecn::NotEct), Ecn::NotEct),
        (EcnPassage::SetTo(Ecn::Ce), Ecn::Ce),
        (EcnPassage::MarksLost, Ecn::Ect1),
        (EcnPassage::Kept, Ecn::Ect1),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(arriving(passage, ms(20 * n as u64)), arrives);
    }
    assert_eq!(EcnPassage::MarksLost.arriving(Ecn::Ce), Ecn::Ect0);
}

#[test]
fn arrivals_are_spaced_by_the_rate_and_shifted_by_the_delay() {
    let mut link = link(Loss::default());
    for flow in 0..3 {
        assert_eq!(link.offer(ms(0), &mut Some(TestParcel::new(flow, 1000)), Time::ZERO), Offered::Queued);
    }
    assert_eq!(link.router().unwrap().backlog().packets, 2);
    assert_eq!(drain(&mut link), vec![(ms(11), 0), (ms(12), 1), (ms(13), 2)]);
    assert_eq!(link.counts().transmitted_bytes, Bytes::new(3000));
}

#[test]
fn a_packet_takes_one_event_queued_or_not() {
    let mut link = link(Loss::default());
    offer(&mut link, ms(5), 0..3);
    for arrival in [16, 17, 18].map(ms) {
        assert_eq!(link.next_event(), arrival);
        link.advance(arrival);
        assert!(link.arrive(arrival).is_some());
    }
    assert_eq!(link.next_event(), Time::MAX);
}

#[test]
fn a_packet_offered_finds_the_queue_advanced_to_now() {
    let mut link = link(Loss::default());
    for (n, waiting) in [(0, 0), (0, 1), (0, 2), (1, 2), (4, 0)] {
        let _ = link.offer(ms(n), &mut Some(TestParcel::new(1, 1000)), Time::ZERO);
        assert_eq!(link.router().unwrap().backlog().packets, waiting);
    }
}

#[test]
fn a_link_that_is_measured_counts_packets_by_their_kind() {
    let mut link = link(Loss::default());
    for bytes in [1000, 1000, 40, 1000, 40] {
        let _ = link.offer(ms(0), &mut Some(TestParcel::new(1, bytes)), Time::ZERO);
    }
    drain(&mut link);
    let counts = link.counts();
    assert_eq!((counts.offered, counts.offered_data, counts.transmitted), (5, 3, 5));
    assert_eq!((counts.transmitted_bytes, link.transmitted_bytes()), (Bytes::new(3080), Bytes::new(3080)));
    link.start_measuring(ms(99), false);
    assert_eq!(link.counts(), Counts::default());
    assert_eq!(link.transmitted_bytes(), Bytes::new(3080), "since it was made");
}

/// Little's law: if nothing is dropped from a queue that is empty at both ends, the waits add up to the integral of its
/// length over time.
#[test]
fn the_waits_in_any_queue_add_up_to_its_length_over_time() {
    for (name, _) in Registry::default().list() {
        let mut link = behind(name, if name == "policer" { "rate = '1 Gb/s'\nburst = '1 MB'" } else { "" });
        link.start_measuring(ms(0), true);
        for n in 0..12 {
            let bytes = if n % 3 == 0 { 200 } else { 1000 };
            let mut packet = TestParcel::new(n % 2, bytes);
            packet.set_ecn(if n % 2 == 0 { Ecn::Ect0 } else { Ecn::Ect1 });
            assert_eq!(link.offer(ms(n / 4), &mut Some(packet), Time::ZERO), Offered::Queued, "{name}");
        }
        let end = ms(100);
        link.advance(end);
        let (waits, queue) = (link.waits().unwrap(), link.queue().unwrap().summary(end));
        let (sum, integral) = (waits.mean_s * waits.packets as f64, queue.mean_packets * 0.1);
        assert!(waits.packets == 12 && (sum - integral).abs() < 1e-9, "{name}: {waits:?} {queue:?}");
    }
}

#[test]
fn a_fair_queue_measures_the_wait_of_each_packet() {
    // Five packets of flow 0, then one of flow 1, which leaves next.
    let mut link = behind("fair-queueing", "");
    link.start_measuring(ms(0), true);
    offer(&mut link, ms(0), [0, 0, 0, 0, 0, 1]);
    link.advance(ms(20));
    let waits = link.waits().unwrap();
    assert_eq!((waits.packets, waits.mean_s), (6, 0.0025));
    assert!((waits.p99_s - 0.005).abs() < 0.0002, "{waits:?}");
}

/// A link that is settled foresees what the same link would do, and hands out packets early where it may.
#[test]
fn a_settled_link_delivers_the_same_packets_at_the_same_times() {
    let mut random = Random::from_seed(4);
    for (limits, is_measured) in [("", false), ("", true), ("packets = 3", true), ("bytes = '2500 B'", false)] {
        let (mut settled, mut queueing) =
            (behind("drop-tail", limits).settle(is_measured), behind("drop-tail", limits));
        assert!(settled.is_steady() && !queueing.is_steady());
        assert_eq!(settled.is_plain(), limits.is_empty() && !is_measured);
        let (mut early, mut now) = (Vec::new(), ms(0));
        for n in 0..1000 {
            if n == 100 {
                settled.start_measuring(now, true);
                queueing.start_measuring(now, true);
            }
            let packet = TestParcel::new(n, 100 + random.below(1500));
            let before = if n < 500 { now + Duration::from_millis(random.below(20)) } else { Time::ZERO };
            let is_dropped = match settled.offer(now, &mut Some(packet), before) {
                Offered::Arrives(at) => {
                    assert!(at < before && early.last().is_none_or(|(last, _)| *last <= at));
                    early.push((at, packet.flow));
                    false
                }
                offered => offered != Offered::Queued,
            };
            assert_eq!(queueing.offer(now, &mut Some(packet), Time::ZERO) != Offered::Queued, is_dropped);
            assert!(settled.is_plain() || settled.backlog() == queueing.backlog());
            now += Duration::from_micros(100 * random.below(20));
        }
        assert!((1..500).contains(&early.len()), "{}", early.len());
        early.extend(drain(&mut settled));
        early.sort_by_key(|(at, _)| *at);
        assert_eq!(early, drain(&mut queueing));
        let end = ms(9000);
        settled.advance(end);
        let measured = |link: &Link<_, _>| (link.counts(), link.queue().map(|queue| queue.summary(end)), link.waits());
        assert!(settled.is_plain() || measured(&settled) == measured(&queueing), "{limits}");
        assert_eq!(queueing.counts().dropped > 0, !limits.is_empty());
    }
}

#[test]
fn a_link_that_changes_packets_or_times_settles_with_its_queue() {
    let reordering = Disorder { duplication: 0.1, ..Disorder::default() };
    let trace = Capacity::Trace(Arc::new(Trace::parse("3\n").unwrap()));
    let link = || behind("drop-tail", "");
    let (mut recoded, mut disordered, mut varying) = (link(), link(), link());
    recoded.set_ecn(EcnPassage::MarksLost);
    disordered.set_disorder(reordering, |_| Random::from_seed(1));
    varying.set_capacity(&trace, LinkStreams::from_seeds(3, 3));
    for (link, is_steady) in [(recoded, true), (disordered, false), (varying, false), (behind("codel", ""), true)] {
        let mut link = link.settle(false);
        assert_eq!((link.is_plain(), link.is_steady()), (false, is_steady), "{link:?}");
        assert_eq!(link.offer(ms(0), &mut Some(TestParcel::new(1, 1000)), Time::MAX), Offered::Queued);
    }
}

#[test]
fn the_memory_of_a_burst_is_returned() {
    for (capacity, packets, shrinks) in [(16, 1, false), (1000, 200, false), (1000, 100, true), (1000, 0, true)] {
        let mut ring = std::collections::VecDeque::with_capacity(capacity);
        ring.extend(0..packets);
        trim(&mut ring);
        assert_eq!(ring.capacity() < capacity, shrinks, "{packets} of {capacity}");
        assert!(!shrinks || ring.capacity() < 16 + 2 * packets + 16, "{}", ring.capacity());
    }
}

#[test]
fn a_late_caller_does_not_slow_the_link() {
    let mut link = link(Loss::default());
    offer(&mut link, ms(0), 0..3);
    let late = ms(1) + Duration::from_micros(300);
    link.advance(late);
    link.advance(ms(2));
    for now in [11, 12, 13].map(ms) {
        assert!(link.arrive(now).is_some());
    }
    assert!(link.arrive(ms(99)).is_none());
}

#[test]
fn a_shorter_route_lets_packets_overtake() {
    let mut link = link(Loss::default());
    offer(&mut link, ms(0), [1]);
    link.set_delay(Duration::from_millis(2));
    offer(&mut link, ms(1), [2]);
    assert_eq!(drain(&mut link), vec![(ms(4), 2), (ms(11), 1)]);
}

#[test]
fn a_link_with_jitter_loses_nothing_and_reorders() {
    let mut link = link(Loss::default());
    let jitter = Jitter { max: Duration::from_millis(5), in_order: false };
    link.set_disorder(Disorder { jitter, duplication: 0.1, ..Disorder::default() }, |purpose| {
        Random::from_seed(purpose.len() as u64)
    });
    for flow in 0..1000 {
        let _ = link.offer(ms(flow), &mut Some(TestParcel::new(flow, 1000)), Time::ZERO);
    }
    let arrivals = drain(&mut link);
    assert!(arrivals.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    assert!(arrivals.windows(2).any(|pair| pair[0].1 > pair[1].1), "in order");
    let late = |(at, flow): &(Time, u64)| at.since(ms(*flow));
    assert!(arrivals.iter().map(late).all(|late| (11..16).contains(&(late.as_nanos() / 1_000_000))));
    let flows: std::collections::BTreeSet<u64> = arrivals.iter().map(|(_, flow)| *flow).collect();
    assert_eq!(flows.len(), 1000);
    assert!((1070..1130).contains(&arrivals.len()), "{}", arrivals.len());
}

#[test]
fn utilization_counts_each_rate_for_as_long_as_it_held() {
    let mut link = link(Loss::default());
    offer(&mut link, ms(0), [1]);
    link.start_measuring(ms(1), false);
    link.set_rate(ms(3), Rate::from_bps(16_000_000));
    offer(&mut link, ms(4), [1]);
    // 2 ms at 1 kB/ms, 4 ms at 2 kB/ms; the first packet was sent before the measurement.
    assert_eq!(link.utilization(ms(7)), 1000.0 / 10_000.0);
}

#[test]
fn random_loss_has_its_rate() {
    for loss in [Loss { per_packet: 0.1, ..Loss::default() }, Loss { per_bit: 1.317e-5, ..Loss::default() }] {
        let mut link = link(loss);
        for n in 0..20_000 {
            let _ = link.offer(ms(n), &mut Some(TestParcel::new(1, 1000)), Time::ZERO);
        }
        let arrived = drain(&mut link).len();
        assert!((17_700..18_300).contains(&arrived), "{arrived}");
        assert_eq!(link.counts().lost + arrived as u64, 20_000);
    }
}

/// A link with this trace and no propagation delay.
fn traced(trace: &str) -> Link<TestParcel, DropTail<TestParcel>> {
    varying(&Capacity::Trace(Arc::new(Trace::parse(trace).unwrap())))
}

/// A link with this capacity and no propagation delay.
fn varying(capacity: &Capacity) -> Link<TestParcel, DropTail<TestParcel>> {
    let config = LinkConfig { rate: capacity.mean(), delay: Duration::ZERO, loss: Loss::default() };
    let router = DropTail::new(&Config::default(), ENVIRONMENT, Random::from_seed(1));
    let mut link = Link::new(config, router, Random::from_seed(2));
    link.set_capacity(capacity, LinkStreams::from_seeds(3, 3));
    link
}

#[test]
fn the_bytes_of_an_opportunity_have_its_delay() {
    let capacity = models().make("docsis", &"mean = '20 Mb/s'".parse().unwrap()).unwrap();
    let first = capacity.opportunities(LinkStreams::from_seeds(3, 3)).unwrap().next();
    assert!(first.delay > Duration::ZERO);
    let mut link = varying(&capacity);
    offer(&mut link, ms(0), [0]);
    assert_eq!(drain(&mut link), [(first.at + first.delay, 0)]);
}

#[test]
fn a_new_rate_waits_for_the_last_opportunity_of_a_packet() {
    let mut link = traced("10\n20\n");
    let _ = link.offer(ms(5), &mut Some(TestParcel::new(0, 3000)), Time::ZERO);
    offer(&mut link, ms(5), [1]);
    link.advance(ms(12));
    link.set_rate(ms(12), ENVIRONMENT.rate);
    assert_eq!(drain(&mut link), [(ms(20), 0), (ms(21), 1)]);
}

#[test]
fn packets_leave_at_the_opportunities_of_a_trace() {
    let mut link = traced("3\n5\n5\n9\n");
    for flow in 0..5 {
        let _ = link.offer(ms(0), &mut Some(TestParcel::new(flow, 1500)), Time::ZERO);
    }
    assert_eq!(link.router().unwrap().backlog().packets, 5);
    assert_eq!(drain(&mut link), [(ms(3), 0), (ms(5), 1), (ms(5), 2), (ms(9), 3), (ms(12), 4)]);
}

#[test]
fn small_packets_share_an_opportunity_large_ones_use_several() {
    let mut link = traced("2\n4\n6\n8\n");
    for (flow, bytes) in [500, 600, 1000, 2000, 100].into_iter().enumerate() {
        let _ = link.offer(ms(0), &mut Some(TestParcel::new(flow as u64, bytes)), Time::ZERO);
    }
    // 1500 bytes each: 500 + 600 + 400 | 600 + 900 | 1100 + 100
    assert_eq!(drain(&mut link), [(ms(2), 0), (ms(2), 1), (ms(4), 2), (ms(6), 3), (ms(6), 4)]);
}

#[test]
fn opportunities_that_find_the_queue_empty_are_lost() {
    let mut link = traced("2\n4\n6\n8\n");
    let _ = link.offer(ms(0), &mut Some(TestParcel::new(0, 100)), Time::ZERO);
    link.advance(ms(2));
    assert!(link.arrive(ms(2)).is_some());
    let _ = link.offer(ms(2), &mut Some(TestParcel::new(1, 100)), Time::ZERO);
    assert_eq!(drain(&mut link), [(ms(4), 1)]);
    let _ = link.offer(ms(6), &mut Some(TestParcel::new(2, 1500)), Time::ZERO);
    assert_eq!(drain(&mut link), [(ms(8), 2)]);
}

#[test]
fn the_head_of_the_queue_waits_in_the_queue_for_its_opportunity() {
    let mut link = traced("10\n");
    let _ = link.offer(ms(1), &mut Some(TestParcel::new(0, 100)), Time::ZERO);
    link.advance(ms(9));
    assert_eq!(link.router().unwrap().backlog().packets, 1);
    link.advance(ms(10));
    assert_eq!(link.router().unwrap().backlog().packets, 0);
}

#[test]
fn utilization_of_a_trace_counts_its_opportunities() {
    let mut link = traced("2\n4\n6\n8\n");
    link.start_measuring(ms(5), false);
    let _ = link.offer(ms(5), &mut Some(TestParcel::new(0, 1500)), Time::ZERO);
    link.advance(ms(12));
    // At 6, 8, 10 and 12 ms.
    assert_eq!(link.utilization(ms(12)), 0.25);
    assert_eq!(link.rate(), Rate::from_bps(6_000_000));
}

/// 1 kB/ms, with bursts of 3 kB at 4 kB/ms.
#[test]
fn a_shaped_link_queues_what_exceeds_its_burst() {
    let (mean, peak) = (Rate::from_bps(8_000_000), Rate::from_bps(32_000_000));
    let capacity = Capacity::TokenBucket(token_bucket::Config { mean, peak, burst: Bytes::new(3000) });
    let mut link = link(Loss::default());
    link.set_capacity(&capacity, LinkStreams::from_seeds(3, 3));
    offer(&mut link, ms(0), 0..6);
    assert_eq!(link.rate(), mean);
    let micros = |at: Time| at.as_nanos() / 1000 - 10_000;
    let left: Vec<u64> = drain(&mut link).into_iter().map(|(at, _)| micros(at)).collect();
    assert_eq!(left, [250, 500, 750, 1250, 2250, 3250]);
}

#[test]
fn packets_wait_out_an_outage() {
    let mut link = link(Loss::default());
    offer(&mut link, ms(0), 0..3);
    // Half of the first packet has left. It leaves completely, the others wait.
    let half = ms(0) + Duration::from_micros(500);
    link.set_rate(half, Rate::ZERO);
    link.start_measuring(half, false);
    offer(&mut link, ms(40), [3]);
    assert_eq!(link.next_event(), ms(11));
    link.advance(ms(11));
    assert_eq!(link.arrive(ms(11)).map(|packet| packet.flow), Some(0));
    assert_eq!((link.next_event(), link.router().unwrap().backlog().packets), (Time::MAX, 3));
    link.advance(ms(50));
    link.set_rate(ms(50), ENVIRONMENT.rate);
    assert_eq!(drain(&mut link), [(ms(61), 1), (ms(62), 2), (ms(63), 3)]);
    assert_eq!(link.utilization(ms(56)), 0.5);
}

#[test]
fn an_outage_shorter_than_a_packet_delays_nothing() {
    let mut link = link(Loss::default());
    offer(&mut link, ms(0), 0..2);
    for (micros, rate) in [(100, Rate::ZERO), (200, Rate::ZERO), (300, ENVIRONMENT.rate)] {
        link.set_rate(ms(0) + Duration::from_micros(micros), rate);
    }
    assert_eq!(drain(&mut link), [(ms(11), 0), (ms(12), 1)]);
}

#[test]
fn every_router_survives_an_outage() {
    for (name, _) in Registry::default().list() {
        let mut link = behind(name, if name == "policer" { "rate = '1 Mb/s'" } else { "" });
        let mut arrived = [0, 0, 0];
        for n in 0..9000 {
            let now = ms(n);
            link.advance(now);
            match n {
                3000 => link.set_rate(now, Rate::ZERO),
                6000 => link.set_rate(now, ENVIRONMENT.rate),
                _ => {}
            }
            while link.arrive(now).is_some() {
                arrived[n as usize / 3000] += 1;
            }
            if n % 2 == 0 {
                let _ = link.offer(now, &mut Some(TestParcel::new(n % 7, 1000).capable()), Time::ZERO);
            }
        }
        let [before, during, after] = arrived;
        assert!(before >= 300 && during <= 11 && after >= 300, "{name}: {arrived:?}");
    }
}
