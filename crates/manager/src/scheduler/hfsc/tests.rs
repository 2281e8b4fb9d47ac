//! Flows over a link of a given rate: their delays and rates. [`Link`] accepts any scheduler, so that H-FSC can be
//! compared with round robin.

use std::collections::VecDeque;

use proptest::prelude::*;
use rampmeter_units::{Bytes, Duration, Rate, Time};

use super::ServiceCurve;
use crate::scheduler::{Scheduler, Scheduling};

const PACKET: Bytes = Bytes::new(1000);
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn kbps(kbps: u64) -> Rate {
    Rate::from_bps(kbps * 1000)
}

/// A flow that sends as often as permitted, or at regular intervals.
#[derive(Debug)]
struct Source {
    every: Option<Duration>,
    /// The arrival times of packets that have not been sent.
    waiting: VecDeque<Time>,
    /// The arrival time of the next packet.
    next: Time,
    /// The bytes that it sends of each packet.
    bytes: Bytes,
    sent: Bytes,
    /// The maximum time from a packet's arrival to the departure of its last byte.
    delay: Duration,
}

/// A macroflow with a given rate.
struct Link {
    scheduler: Scheduler,
    sources: Vec<Source>,
    now: Time,
    free_at: Time,
}

impl Link {
    fn new(scheduling: Scheduling) -> Self {
        Self { scheduler: Scheduler::new(scheduling), sources: Vec::new(), now: Time::ZERO, free_at: Time::ZERO }
    }

    /// Adds a flow, and returns its number.
    fn flow(&mut self, weight: f64, curve: Option<ServiceCurve>, every: Option<Duration>) -> usize {
        let flow = self.sources.len() as u32;
        self.scheduler.join(flow);
        self.scheduler.set_weight(flow, weight);
        self.scheduler.guarantee(flow, curve);
        let waiting = VecDeque::new();
        let next = if every.is_some() { self.now } else { Time::MAX };
        self.sources.push(Source { every, waiting, next, bytes: PACKET, sent: Bytes::ZERO, delay: Duration::ZERO });
        if every.is_none() {
            self.scheduler.request(self.now, flow);
        }
        flow as usize
    }

    fn greedy(&mut self, weight: f64) -> usize {
        self.flow(weight, None, None)
    }

    /// Sends for `span` at `rate`.
    fn run(&mut self, rate: Rate, span: Duration) {
        let end = self.now + span;
        loop {
            let grant_at = if self.scheduler.is_empty() { Time::MAX } else { self.free_at.max(self.now) };
            let (arrival, flow) = self.sources.iter().zip(0..).map(|(source, flow)| (source.next, flow)).min().unwrap();
            if grant_at.min(arrival) >= end {
                self.now = end;
                return;
            }
            self.now = grant_at.min(arrival);
            if arrival <= grant_at {
                let source = &mut self.sources[flow as usize];
                source.next = arrival + source.every.unwrap();
                source.waiting.push_back(arrival);
                if source.waiting.len() == 1 {
                    self.scheduler.request(arrival, flow);
                }
                continue;
            }
            let flow = self.scheduler.next(self.now, PACKET, Bytes::ZERO).unwrap();
            let source = &mut self.sources[flow as usize];
            self.free_at = self.now + rate.time_to_send(source.bytes);
            source.sent += source.bytes;
            if let Some(arrived_at) = source.waiting.pop_front() {
                source.delay = source.delay.max(self.free_at.since(arrived_at));
            }
            self.scheduler.sent(flow, PACKET, source.bytes);
            if source.every.is_none() || !source.waiting.is_empty() {
                self.scheduler.request(self.now, flow);
            }
        }
    }

    /// The rate of each flow since the last call, in kb/s over `span`, and its maximum delay in ms.
    fn report(&mut self, span: Duration) -> Vec<(u64, u64)> {
        let report = |source: &mut Source| {
            let rate = Rate::of(std::mem::take(&mut source.sent), span);
            (rate.as_bps().div_ceil(1000), std::mem::take(&mut source.delay).as_nanos().div_ceil(1_000_000))
        };
        self.sources.iter_mut().map(report).collect()
    }

    fn rates(&mut self, span: Duration) -> Vec<u64> {
        self.report(span).into_iter().map(|(rate, _)| rate).collect()
    }
}

fn near(rates: &[u64], expected: &[u64]) -> bool {
    rates.len() == expected.len()
        && rates.iter().zip(expected).all(|(rate, expected_rate)| rate.abs_diff(*expected_rate) <= 10)
}

/// 1 Mb/s, on which a packet takes 8 ms; voice at 320 kb/s; nine flows that always send.
fn voice_among_nine(scheduling: Scheduling, weight: f64, curve: Option<ServiceCurve>) -> (u64, u64) {
    let mut link = Link::new(scheduling);
    let voice = link.flow(weight, curve, Some(MS * 25));
    (0..9).for_each(|_| _ = link.greedy(1.0));
    link.run(kbps(1000), SECOND * 100);
    link.report(SECOND * 100)[voice]
}

#[test]
fn a_small_flow_has_lower_delay_than_with_round_robin() {
    // Within 8 ms plus one packet that has begun (the H-FSC bound); its own packet takes all of the 8 ms.
    let curve = ServiceCurve::within(MS * 8, PACKET, kbps(320));
    let (rate, delay) = voice_among_nine(Scheduling::ServiceCurves, 1.0, Some(curve));
    assert_eq!(rate, 320);
    assert!(delay <= 16, "{delay}");
    // By weight alone it has its rate, but waits for the turns of the others.
    let weight = 9.0 * 320.0 / 680.0;
    for scheduling in [Scheduling::RoundRobin, Scheduling::ServiceCurves] {
        let (rate, delay) = voice_among_nine(scheduling, weight * 1.01, None);
        assert_eq!(rate, 320, "{scheduling:?}");
        assert!(delay > 50, "{scheduling:?}: {delay}");
    }
}

#[test]
fn delay_and_rate_are_independent() {
    let mut link = Link::new(Scheduling::ServiceCurves);
    let within = |delay, rate| Some(ServiceCurve::within(MS * delay, PACKET, kbps(rate)));
    let voice = link.flow(1.0, within(8, 80), Some(MS * 100));
    let film = link.flow(1.0, within(100, 400), Some(MS * 20));
    let bulk = link.flow(1.0, Some(ServiceCurve::linear(kbps(200))), None);
    let rest = link.greedy(1.0);
    link.run(kbps(1000), SECOND * 100);
    let report = link.report(SECOND * 100);
    assert_eq!((report[voice].0, report[film].0), (80, 400));
    assert!(report[voice].1 <= 16, "{report:?}");
    assert!(report[film].1 <= 108, "{report:?}");
    assert!(near(&[report[bulk].0, report[rest].0], &[260, 260]), "the rest is shared: {report:?}");
}

#[test]
fn guarantees_are_kept_and_the_rest_is_shared_by_weight() {
    for (guarantee, expected) in [(100, [250, 750]), (400, [400, 600]), (900, [900, 100])] {
        let mut link = Link::new(Scheduling::ServiceCurves);
        link.flow(1.0, Some(ServiceCurve::linear(kbps(guarantee))), None);
        link.greedy(3.0);
        link.run(kbps(1000), SECOND * 50);
        let rates = link.rates(SECOND * 50);
        assert!(near(&rates, &expected), "{guarantee}: {rates:?}");
    }
}

#[test]
fn a_class_shares_what_it_has_among_its_flows() {
    let mut link = Link::new(Scheduling::ServiceCurves);
    let [a, b, c, _] = [1.0, 2.0, 9.0, 1.0].map(|weight| link.greedy(weight));
    for (flow, class) in [(a, (7, 3.0)), (b, (7, 3.0)), (c, (8, 2.0))] {
        link.scheduler.classify(flow as u32, Some(class)); // while it has a request
    }
    link.run(kbps(6000), SECOND * 10);
    assert!(near(&link.rates(SECOND * 10), &[1000, 2000, 2000, 1000]));
    // The other flows share what an idle class does not use; a class with a guaranteed flow keeps to its share.
    link.scheduler.leave(a as u32);
    link.scheduler.leave(b as u32);
    link.scheduler.guarantee(c as u32, Some(ServiceCurve::linear(kbps(1500))));
    link.run(kbps(6000), SECOND * 10);
    assert!(near(&link.rates(SECOND * 10)[2..], &[4000, 2000]));
}

#[test]
fn idle_time_earns_no_credit() {
    let mut link = Link::new(Scheduling::ServiceCurves);
    let steady = link.greedy(1.0);
    link.run(kbps(1000), SECOND * 100);
    link.report(SECOND);
    let (late, guaranteed) = (link.greedy(1.0), link.flow(1.0, Some(ServiceCurve::linear(kbps(100))), None));
    link.run(kbps(900), SECOND);
    let rates = link.rates(SECOND);
    assert!(near(&[rates[steady], rates[late], rates[guaranteed]], &[300, 300, 300]), "{rates:?}");
}

#[test]
fn excess_service_does_not_count_against_the_guarantee() {
    let mut link = Link::new(Scheduling::ServiceCurves);
    let guaranteed = link.flow(1.0, Some(ServiceCurve::linear(kbps(500))), None);
    link.run(kbps(1000), SECOND * 10);
    assert_eq!(link.rates(SECOND * 10), [1000]);
    (0..9).for_each(|_| _ = link.greedy(1.0));
    link.run(kbps(1000), SECOND);
    let rates = link.rates(SECOND);
    assert!(near(&rates[guaranteed..=guaranteed], &[500]), "{rates:?}");
}

#[test]
fn small_guarantees_are_kept_when_the_rate_is_too_low() {
    let mut link = Link::new(Scheduling::ServiceCurves);
    let voice = link.flow(1.0, Some(ServiceCurve::within(MS * 5, PACKET, kbps(80))), Some(MS * 100));
    let [a, b] = [10_000, 2_000].map(|rate| link.flow(1.0, Some(ServiceCurve::linear(kbps(rate))), None));
    let rest = link.greedy(1.0);
    link.run(kbps(1000), SECOND * 100);
    let report = link.report(SECOND * 100);
    assert_eq!(report[voice].0, 80);
    // 5 ms, the packet that has begun, one packet of each late flow, and its own.
    assert!(report[voice].1 <= 5 + 4 * 8, "{report:?}");
    assert!(near(&[report[a].0, report[b].0, report[rest].0], &[460, 460, 0]), "{report:?}");
    // A rate above the sum of all curves: the deficit is made up within (10 + 2) Mb / (13 - 12.08) Mb/s.
    link.run(kbps(13_000), SECOND * 14);
    link.report(SECOND);
    link.run(kbps(13_000), SECOND * 10);
    assert!(near(&link.rates(SECOND * 10), &[80, 10_000, 2_000, 920]));
}

#[test]
fn a_long_stop_leaves_a_deficit_of_one_second() {
    let mut link = Link::new(Scheduling::ServiceCurves);
    let guaranteed = link.flow(1.0, Some(ServiceCurve::linear(kbps(500))), None);
    link.greedy(9.0);
    link.run(kbps(1000), SECOND * 10);
    link.now += SECOND * 100;
    link.report(SECOND);
    link.run(kbps(1000), SECOND * 10);
    let rate = link.rates(SECOND * 10)[guaranteed];
    assert!(rate.abs_diff(550) <= 10, "5 s at 500 kb/s and one more second of it: {rate}");
}

#[test]
fn past_guaranteed_service_does_not_exclude_a_flow_later() {
    let mut link = Link::new(Scheduling::ServiceCurves);
    let guaranteed = link.flow(1.0, Some(ServiceCurve::linear(kbps(900))), None);
    let rest = link.greedy(1.0);
    link.run(kbps(1000), SECOND * 1000);
    assert!(near(&link.rates(SECOND * 1000), &[900, 100]));
    let new = link.greedy(1.0);
    link.run(kbps(1200), SECOND * 10);
    let rates = link.rates(SECOND * 10);
    assert!(near(&[rates[guaranteed], rates[rest], rates[new]], &[900, 150, 150]), "{rates:?}");
    link.scheduler.guarantee(guaranteed as u32, None);
    link.run(kbps(1200), SECOND * 10);
    let rates = link.rates(SECOND * 10);
    assert!(rates[guaranteed] >= 340, "a third of 1.2 Mb/s, less 64 packets over 10 s: {rates:?}");
}

#[test]
fn simultaneous_voices_are_in_time_at_varying_rates() {
    // 30 times 32 kb/s is just below the minimum rate, at which a packet takes 8 ms.
    let mut link = Link::new(Scheduling::ServiceCurves);
    link.greedy(100.0);
    for _ in 0..30 {
        link.flow(1.0, Some(ServiceCurve { m1: kbps(32), d: MS * 250, m2: kbps(16) }), Some(MS * 500));
    }
    for n in 0..2000 {
        link.run(kbps(1000 + 300 * (n % 7)), MS * (n % 91));
    }
    let worst = link.sources[1..].iter().map(|voice| voice.delay).max().unwrap();
    assert!(worst <= MS * 258, "{worst}");
}

#[test]
fn ties_go_to_the_earlier_request() {
    for (scheduling, curve) in [
        (Scheduling::InTurn, None),
        (Scheduling::RoundRobin, None),
        (Scheduling::ServiceCurves, None),
        (Scheduling::ServiceCurves, Some(ServiceCurve::linear(kbps(100)))),
    ] {
        let mut scheduler = Scheduler::new(scheduling);
        (0..3).for_each(|flow| scheduler.join(flow));
        (0..3).for_each(|flow| scheduler.guarantee(flow, curve));
        let order = [2, 0, 1];
        for flow in order {
            scheduler.request(Time::ZERO, flow);
        }
        assert_eq!(
            order.map(|_| scheduler.next(Time::ZERO, PACKET, Bytes::ZERO).unwrap()),
            order,
            "{scheduling:?}, {curve:?}"
        );
    }
}

const WEIGHTED: [Scheduling; 2] = [Scheduling::ServiceCurves, Scheduling::RoundRobin];

proptest! {
    #[test]
    fn turns_go_to_all_flows_with_requests_and_to_no_other(
        calls in prop::collection::vec((0u8..10, 0u32..12, 0u64..40, any::<bool>()), 0..600),
        scheduling in prop::sample::select(&WEIGHTED),
    ) {
        let mut scheduler = Scheduler::new(scheduling);
        let mut now = Time::ZERO;
        let mut joined = [false; 12];
        let mut requested = [false; 12];
        let mut granted = None;
        let curve = |n: u64| ServiceCurve { m1: kbps(n * n), d: MS * (n % 7), m2: kbps(40 * n) };
        for (call, flow, n, flag) in calls {
            let here = joined[flow as usize];
            match call {
                0 if !here => {
                    scheduler.join(flow);
                    joined[flow as usize] = true;
                }
                1 if here && n < 10 => {
                    scheduler.leave(flow);
                    (joined[flow as usize], requested[flow as usize]) = (false, false);
                    granted = granted.filter(|granted| *granted != flow);
                }
                2 if here => scheduler.set_weight(flow, (n + 1) as f64 / 8.0),
                3 if here => scheduler.classify(flow, flag.then_some(((n % 3) as u32, (n + 1) as f64))),
                4 if here => scheduler.guarantee(flow, flag.then(|| curve(n))),
                5 | 6 if here && !requested[flow as usize] => {
                    scheduler.request(now, flow);
                    requested[flow as usize] = true;
                }
                7 => now += MS * n * n,
                8 => {
                    if let Some(flow) = granted.take() {
                        scheduler.sent(flow, PACKET, PACKET * n.min(10) / 10);
                    }
                }
                9 => {
                    let turn = scheduler.next(now, PACKET, Bytes::ZERO);
                    prop_assert_eq!(turn.is_some(), requested.contains(&true));
                    if let Some(flow) = turn {
                        prop_assert!(std::mem::take(&mut requested[flow as usize]));
                    }
                    granted = turn;
                }
                _ => {}
            }
            prop_assert_eq!(scheduler.is_empty(), !requested.contains(&true));
        }
        let mut left = requested.iter().filter(|requested| **requested).count();
        while let Some(flow) = scheduler.next(now, PACKET, Bytes::ZERO) {
            prop_assert!(std::mem::take(&mut requested[flow as usize]));
            left -= 1;
        }
        prop_assert_eq!(left, 0);
    }

    /// Within every class, and among classes, bytes sent by weight differ by at most one packet of each, or few.
    #[test]
    fn shares_are_in_proportion_to_weights(
        flows in prop::collection::vec((1u64..50, prop::option::of(0u32..3), 1u64..=10), 2..12),
        classes in prop::array::uniform3(1u64..50),
        turns in 1usize..3000,
        scheduling in prop::sample::select(&WEIGHTED),
    ) {
        let mut scheduler = Scheduler::new(scheduling);
        for (&(weight, class, _), flow) in flows.iter().zip(0..) {
            scheduler.join(flow);
            scheduler.set_weight(flow, weight as f64);
            scheduler.classify(flow, class.map(|class| (class, classes[class as usize] as f64)));
            scheduler.request(Time::ZERO, flow);
        }
        let mut sent = vec![0; flows.len()];
        for _ in 0..turns {
            let flow = scheduler.next(Time::ZERO, PACKET, Bytes::ZERO).unwrap();
            let bytes = PACKET * flows[flow as usize].2 / 10;
            scheduler.sent(flow, PACKET, bytes);
            sent[flow as usize] += bytes.as_u64();
            scheduler.request(Time::ZERO, flow);
        }
        // A round charges a packet before it is known how much of it was used, and the next one corrects that.
        let packets = if scheduling == Scheduling::RoundRobin { 3.0 } else { 1.0 };
        let spread = |members: &[(u64, u64)]| {
            let by_weight = || members.iter().map(|&(sent, weight)| sent as f64 / weight as f64);
            let packet = members.iter().map(|&(_, weight)| 1000.0 / weight as f64).fold(0.0, f64::max);
            by_weight().fold(0.0, f64::max) - by_weight().fold(f64::INFINITY, f64::min) <= packets * packet + 1e-3
        };
        let mut top = Vec::new();
        for class in 0..3 {
            let of_class = |&(flow, _): &(&(u64, Option<u32>, u64), &u64)| flow.1 == Some(class);
            let members: Vec<_> = flows.iter().zip(&sent).filter(of_class).map(|(flow, sent)| (*sent, flow.0)).collect();
            if !members.is_empty() {
                prop_assert!(spread(&members), "class {class}: {members:?}");
                top.push((members.iter().map(|(sent, _)| sent).sum(), classes[class as usize]));
            }
        }
        top.extend(flows.iter().zip(&sent).filter(|(flow, _)| flow.1.is_none()).map(|(flow, sent)| (*sent, flow.0)));
        prop_assert!(spread(&top), "{top:?}");
    }
}
