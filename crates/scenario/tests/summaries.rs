//! Summaries of made-up outcomes.

mod common;

use common::{SMALL, plan};
use rampmeter_scenario::{
    FlowOutcome, FlowSample, HostJitter, Limits, LinkId, LinkOutcome, LinkSample, Outcome, Plan, QueueId, Run, Schema,
    SenderState, Series, Summary,
};
use rampmeter_units::{Bytes, Duration, Rate, Time};

fn summary(plan: &Plan, outcome: Outcome) -> Summary {
    Summary::of(&Schema::default(), &Run { plan: plan.clone(), outcome, world: "simulated", wall_s: 0.25 })
}

/// A transfer of 1000 bytes in one packet.
fn transfer(plan: &Plan, flow: usize, fct: Option<Duration>) -> FlowOutcome {
    FlowOutcome {
        flow,
        traffic: 0,
        scheme: 0,
        start: plan.flows[flow].start,
        fct,
        delivered: Bytes::new(1000),
        delivered_measured: Bytes::ZERO,
        sent_packets: 1,
        retransmitted_packets: 0,
        limits: Limits::default(),
        report: rampmeter_workload::Report::default(),
    }
}

#[test]
fn the_summary_counts_transfers_after_warm_up() {
    let text = SMALL.replace("[[traffic]]", "[axes]\nload = [0.5]\n[[traffic]]")
        + "size = \"1 kB\"\narrivals = { load = \"$load\", of = \"wire\", until = \"11 s\" }";
    let plan = plan(&text);
    let early = plan.flows.iter().filter(|flow| flow.start < Time::ZERO + plan.warmup).count();
    let fct = |flow| (flow != early).then(|| Duration::from_millis(if flow % 2 == 0 { 10 } else { 30 }));
    let counts =
        rampmeter_router::Counts { offered: 200, offered_data: 100, dropped: 2, marked: 1, ..Default::default() };
    let queue =
        rampmeter_router::QueueSummary { mean_packets: 2.5, p90_packets: 7, max_packets: 10, ..Default::default() };
    let link = LinkOutcome {
        id: QueueId::Link(LinkId(0)),
        name: "wire".into(),
        utilization: 0.5,
        queue,
        counts,
        waits: None,
        delays: None,
    };
    let outcome = Outcome {
        flows: (0..plan.flows.len()).map(|flow| transfer(&plan, flow, fct(flow))).collect(),
        links: vec![link],
        data_packets: 12,
        ..Outcome::default()
    };
    let summary = summary(&plan, outcome);
    let completed = (plan.flows.len() - early - 1) as f64;
    assert_eq!(summary.flows.number("completed"), Some(completed));
    assert_eq!(summary.flows.number("unfinished"), Some(1.0));
    assert!((summary.flows.number("fct_mean_s").unwrap() - 0.020).abs() < 1e-3);
    assert_eq!(summary.flows.number("fct_p99_s"), Some(0.030));
    // The age of the transfer that did not complete is the time from its start to the end of `drain`.
    let age = plan.end().since(plan.flows[early].start).as_secs_f64();
    let expected = (summary.flows.number("fct_mean_s").unwrap() * completed + age) / (completed + 1.0);
    assert!(age > 88.0 && (summary.flows.number("fct_or_age_mean_s").unwrap() - expected).abs() < 1e-9);
    // Goodputs of x and 3x in equal numbers: (4x)² / (2 · 10x²).
    assert!((summary.flows.number("goodput_jain").unwrap() - 0.8).abs() < 1e-3);

    let json = serde_json::to_string(&summary).unwrap();
    let start = r#"{"point":{"load":0.5,"seed":1},"world":"simulated","data_packets":12,"flows":{"completed":"#;
    assert!(json.starts_with(start) && json.ends_with(r#"},"wall_s":0.25}"#), "{json}");
    let links = r#""links":{"wire":{"link":"wire","utilization":0.5,"queue_mean_packets":2.5,"queue_mean_bytes":0.0,"#;
    assert!(json.contains(links), "{json}");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    for (column, value) in [
        ("queue_p90_packets", 7.0),
        ("queue_max_packets", 10.0),
        ("queue_mean_share", 0.25),
        ("queue_p90_share", 0.7),
        ("buffer_packets", 10.0),
        ("offered_data_packets", 100.0),
        ("dropped_packets", 2.0),
        ("drop_rate", 0.01),
        ("mark_rate", 0.005),
        ("data_mark_rate", 0.01),
        ("unmarked_per_mark", 99.0),
    ] {
        assert_eq!(json["links"]["wire"][column].as_f64(), Some(value), "{column}");
    }
    assert!(json["links"]["wire"]["throughput_variation"].is_null());
}

#[test]
fn an_unfinished_transfer_has_the_slowdown_of_its_age() {
    let plan = plan(&format!("{SMALL}size = \"1 kB\"\narrivals = {{ count = 2, at = \"20 s\" }}"));
    let flows = vec![transfer(&plan, 0, Some(Duration::from_millis(50))), transfer(&plan, 1, None)];
    let summary = summary(&plan, Outcome { flows, ..Outcome::default() });
    let number = |column: &str| summary.flows.number(column);
    // A round trip and a half are 36 ms; sending one packet takes 1.1 ms.
    let completed = number("slowdown_p50").unwrap();
    assert!((1.3..50.0 / 36.0).contains(&completed), "{completed}");
    let age = plan.end().since(plan.flows[1].start).as_secs_f64();
    assert!((number("slowdown_p99").unwrap() / completed - age / 0.050).abs() < 1e-6);
    assert_eq!((number("slowdown_small_p99"), number("slowdown_large_p50")), (number("slowdown_p99"), None));
}

#[test]
fn host_jitter_is_judged_by_the_minimum_round_trip() {
    let plan = plan(&format!("{SMALL}arrivals = {{ count = 2 }}"));
    assert_eq!(plan.min_round_trip(), Some(Duration::from_millis(24)));
    for (micros, is_late) in [(1_900, false), (2_100, true)] {
        let p99 = Duration::from_micros(micros);
        let host_jitter = Some(HostJitter { p50: Duration::ZERO, p99, max: p99 });
        let summary = summary(&plan, Outcome { host_jitter, ..Outcome::default() });
        assert_eq!(summary.is_late(), is_late);
        let json = serde_json::to_value(&summary).unwrap();
        assert_eq!((&json["host_jitter_p99_s"], &json["rtt_min_s"]), (&(micros as f64 / 1e6).into(), &0.024.into()));
    }
}

#[test]
fn long_lived_flows_are_judged_by_measured_bytes() {
    let plan = plan(&format!("{SMALL}arrivals = {{ count = 2 }}"));
    let outcome = |flow, megabytes: u64| FlowOutcome {
        delivered: Bytes::new(999_000_000),
        delivered_measured: Bytes::new(megabytes * 1_000_000),
        ..transfer(&plan, flow, None)
    };
    let outcome = Outcome { flows: vec![outcome(0, 9), outcome(1, 27)], ..Outcome::default() };
    let flows = summary(&plan, outcome).flows;
    // 9 and 27 MB in 90 s are 0.8 and 2.4 Mb/s.
    assert_eq!(
        (flows.number("completed"), flows.number("unfinished"), flows.number("fct_mean_s")),
        (Some(0.0), Some(0.0), None)
    );
    assert!((flows.number("goodput_mean_bps").unwrap() - 1.6e6).abs() < 1.0);
    assert!((flows.number("goodput_jain").unwrap() - 0.8).abs() < 1e-9);
    assert!((flows.number("goodput_max_bps").unwrap() / flows.number("goodput_min_bps").unwrap() - 3.0).abs() < 1e-9);
}

#[test]
fn rate_variation_excludes_samples_before_warm_up() {
    let plan = plan(&format!("{SMALL}arrivals = {{ count = 2 }}"));
    let at = |seconds: u64| Time::ZERO + plan.warmup + Duration::from_secs(seconds);
    let flow = |seconds: u64, flow: usize, kbps: u64| FlowSample {
        at: at(seconds),
        flow,
        sender: SenderState { rate: Some(Rate::from_bps(kbps * 1000)), ..SenderState::default() },
        delivered: Bytes::ZERO,
    };
    let link = |seconds: u64, kilobytes: u64| LinkSample {
        at: at(seconds),
        id: QueueId::Link(LinkId(0)),
        queue: rampmeter_router::Backlog::default(),
        transmitted: Bytes::new(kilobytes * 1000),
    };
    let early = FlowSample { at: Time::ZERO, ..flow(0, 0, 900) };
    let outcome = Outcome {
        links: vec![LinkOutcome {
            id: QueueId::Link(LinkId(0)),
            name: "wire".into(),
            utilization: 0.5,
            queue: rampmeter_router::QueueSummary::default(),
            counts: rampmeter_router::Counts::default(),
            waits: None,
            delays: None,
        }],
        series: Series {
            // 20 and 10 kB a second: a mean of 15, a deviation (n - 1) of the square root of 50.
            links: vec![link(0, 10), link(1, 30), link(2, 40)],
            // 10, 30, 20, 20: a mean of 20, a deviation of the square root of 200/3.
            flows: vec![early, flow(0, 0, 10), flow(0, 1, 30), flow(1, 0, 20), flow(1, 1, 20)],
        },
        ..Outcome::default()
    };
    let summary = summary(&plan, outcome);
    assert!((summary.flows.number("rate_variation").unwrap() - (200.0_f64 / 3.0).sqrt() / 20.0).abs() < 1e-9);
    assert!((summary.links[0].1.number("throughput_variation").unwrap() - 50.0_f64.sqrt() / 15.0).abs() < 1e-9);
}

#[test]
fn each_of_several_kinds_of_traffic_has_a_summary() {
    let second = SMALL.rsplit_once("[[traffic]]").unwrap().1.replace("name = \"", "name = \"more-");
    let arrivals = "arrivals = { count = 2 }\n";
    let plan = plan(&format!("{SMALL}{arrivals}[[traffic]]{second}{arrivals}"));
    let outcome = |flow: usize| FlowOutcome {
        traffic: plan.flows[flow].traffic,
        // 0.8 Mb/s of the first kind, three times as much of the second.
        delivered_measured: Bytes::new(9_000_000 * (1 + 2 * plan.flows[flow].traffic as u64)),
        ..transfer(&plan, flow, None)
    };
    let outcome = Outcome { flows: (0..4).map(outcome).collect(), ..Outcome::default() };
    let summary = summary(&plan, outcome);
    let names: Vec<&str> = plan.traffic.iter().map(|traffic| traffic.name.as_str()).collect();
    for ((name, flows), (expected, bps)) in summary.traffic.iter().zip(names.iter().zip([0.8e6, 2.4e6])) {
        assert_eq!(name, expected);
        assert!(
            (flows.number("goodput_mean_bps").unwrap() - bps).abs() < 1.0 && flows.number("goodput_jain") == Some(1.0)
        );
    }
    assert!((summary.flows.number("goodput_mean_bps").unwrap() - 1.6e6).abs() < 1.0);
}
