//! What a plan is made of, checked on the scenarios that ship and on small ones.

use rampmeter_control::Registry;
use rampmeter_manager::{Grouping, Scheduling, ServiceCurve, Sharing};
use rampmeter_scenario::{
    FlowOutcome, FlowSample, Lateness, LinkId, LinkOutcome, LinkSample, NodeId, Outcome, Plan, Scenario, ScenarioError,
    SchemePlan, Sender, Series, Summary, values,
};
use rampmeter_units::{Bytes, Duration, Rate, Time};

fn study(path: &str) -> Scenario {
    Scenario::read(format!("{}/../../studies/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn first_plan(scenario: &Scenario) -> Result<Plan, ScenarioError> {
    scenario.plan(&scenario.points()[0], &Registry::default())
}

fn plan(text: &str) -> Plan {
    first_plan(&Scenario::parse("x.toml", text).unwrap()).unwrap()
}

#[test]
fn a_record_is_known_by_its_name_and_stands_for_all_its_fields() {
    let mut scenario = study("pcp/paths.toml");
    scenario.set("path", values("p22,p40")).unwrap();
    scenario.set("sender", values("four-pcp")).unwrap();
    assert!(scenario.set("path", values("p41")).unwrap_err().to_string().contains("`p41`"));
    let points = scenario.points();
    assert_eq!(
        points.iter().map(|point| point.get("path").unwrap().as_str().unwrap()).collect::<Vec<_>>(),
        ["p22", "p40"]
    );
    let plans = points.iter().map(|point| scenario.plan(point, &Registry::default()).unwrap()).collect::<Vec<_>>();
    let flows = |plan: &Plan, traffic: usize| plan.flows.iter().filter(|flow| flow.traffic == traffic).count();
    // Seven times four transfers; on the first path nobody else, on the other one web traffic and two long-lived flows.
    assert_eq!([0, 1, 2].map(|traffic| flows(&plans[0], traffic)), [28, 0, 0]);
    assert_eq!((flows(&plans[1], 0), flows(&plans[1], 1) > 100, flows(&plans[1], 2)), (28, true, 2));
    assert_eq!(
        plans.iter().map(|plan| plan.links[0].config.rate.as_bps()).collect::<Vec<_>>(),
        [12_000_000, 99_000_000]
    );
}

#[test]
fn a_groups_clock_is_that_of_its_hosts() {
    let mut scenario = study("pcp/clocks.toml");
    scenario.set("clock", values("slow")).unwrap();
    let plan = first_plan(&scenario).unwrap();
    let fast = |name| plan.nodes[node(&plan, name)].clock.fast;
    assert_eq!((fast("source.3"), fast("sink.3")), (0, -200));
}

#[test]
fn flows_share_a_macroflow_by_the_weights_of_their_traffic() {
    let mut scenario = study("cm/sharing.toml");
    scenario.set("weights", values("unequal")).unwrap();
    scenario.set("scheme", values("tcp-cm")).unwrap();
    let plan = first_plan(&scenario).unwrap();
    let weights: Vec<f64> = plan.flows.iter().map(|flow| plan.share(flow).weight).collect();
    assert_eq!(weights, [1.0, 2.0, 3.0, 4.0]);
    let sharing = |scheme: &SchemePlan| match scheme.sender {
        Sender::Ours { sharing, .. } => sharing,
        Sender::Kernel { .. } => unreachable!(),
    };
    let together =
        Sharing { grouping: Grouping::PerDestination, scheduling: Scheduling::RoundRobin, ..Sharing::default() };
    assert_eq!(sharing(&plan.schemes[plan.flows[0].scheme]), together);
}

#[test]
fn flows_are_guaranteed_the_curve_of_their_traffic() {
    let hfsc = SMALL.replace("\"newreno\"", "\"newreno\"\nmacroflow = \"destination\"\nscheduler = \"h-fsc\"");
    let promised = |curve: &str| {
        let plan = plan(&format!("{hfsc}{curve}\narrivals = {{ count = 1 }}"));
        assert!(
            matches!(plan.schemes[0].sender, Sender::Ours { sharing, .. } if sharing.scheduling == Scheduling::ServiceCurves)
        );
        plan.share(&plan.flows[0]).curve
    };
    let [m1, m2] = [1_600_000, 320_000].map(Rate::from_bps);
    let d = Duration::from_millis(5);
    let two_pieces = "curve = { m1 = \"1.6 Mb/s\", d = \"5 ms\", m2 = \"320 kb/s\" }";
    assert_eq!(promised(two_pieces), Some(ServiceCurve { m1, d, m2 }));
    assert_eq!(promised("curve = { m2 = \"320 kb/s\" }"), Some(ServiceCurve::linear(m2)));
    assert_eq!(promised(""), None);
}

/// Three borders, and flows between two of them: one aggregate, in their direction, at the rate of its slowest link.
#[test]
fn an_aggregate_leads_from_the_first_border_on_a_flows_way_to_the_last() {
    let link = |name: &str, ends: &str, rate: &str| {
        format!(
            "[[link]]\nname = \"{name}\"\nbetween = {ends}\nrate = \"{rate}\"\ndelay = \"3 ms\"\nrouter = {{ kind = \"drop-tail\" }}\n"
        )
    };
    let more = link("on", "[\"b\", \"c\"]", "40 Mb/s") + &link("off", "[\"c\", \"e\"]", "1 Mb/s");
    let island = "[[island]]\nname = \"i\"\nborders = [\"c\", \"b\", \"a\"]\nrouter = { kind = \"drop-tail\", packets = { worth = \"10540 us\" } }\n";
    let small =
        SMALL.replacen("at = \"b\"", "at = \"e\"", 1).replacen("[[hosts]]", &format!("{more}{island}[[hosts]]"), 1);
    let plan = plan(&format!("{small}arrivals = {{ count = 4 }}"));
    let [aggregate] = plan.aggregates.as_slice() else { panic!("{:?}", plan.aggregates) };
    let names = |links: &[rampmeter_scenario::LinkId]| {
        links.iter().map(|link| plan.links[link.0].name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&aggregate.way), ["wire", "on"]);
    assert_eq!(names(&aggregate.back), ["on.reverse", "wire.reverse"]);
    assert_eq!((aggregate.entry.name.as_str(), aggregate.entry.room), ("i.a.c", Some(10)));
    assert_eq!(plan.link(rampmeter_scenario::LinkId(plan.links.len())).name, "i.a.c");
}

fn names(plan: &Plan, from: usize, to: usize) -> Vec<&str> {
    let path = plan.path(NodeId(from), NodeId(to)).unwrap();
    path.iter().map(|link| plan.links[link.0].name.as_str()).collect()
}

fn node(plan: &Plan, name: &str) -> usize {
    plan.nodes.iter().position(|node| node.name == name).unwrap()
}

const SMALL: &str = r#"
duration = "100 s"
warmup = "10 s"
packet = "1054 B"
[[link]]
name = "wire"
between = ["a", "b"]
rate = "8 Mb/s"
delay = "10 ms"
router = { kind = "drop-tail", packets = 10 }
measure = true
[[hosts]]
name = "s"
count = 4
at = "a"
rate = "unlimited"
delay = "1 ms"
[[hosts]]
name = "d"
count = 4
at = "b"
rate = "1 Gb/s"
delay = "1 ms"
[scheme.tcp]
controller = "newreno"
[[traffic]]
name = "t"
scheme = "tcp"
from = "s"
to = "d"
"#;

#[test]
fn figure_4_is_set_up_as_in_the_paper() {
    let mut scenario = study("pcp/offered_load.toml");
    assert_eq!(scenario.points().len(), 3 * 6 * 5);
    scenario.set("scheme", values("tcp")).unwrap();
    scenario.set("load", values("0.6")).unwrap();
    let plan = first_plan(&scenario).unwrap();

    let (first, last) = (node(&plan, "source.0"), node(&plan, "source.99"));
    assert_eq!(names(&plan, last, node(&plan, "sink.99")), ["source.99", "bottleneck", "sink.99.reverse"]);
    let round_trip = |from: usize, to: usize| {
        let delay = |link: &LinkId| plan.links[link.0].config.delay.as_secs_f64();
        let there: f64 = plan.path(NodeId(from), NodeId(to)).unwrap().iter().map(delay).sum();
        let back: f64 = plan.path(NodeId(to), NodeId(from)).unwrap().iter().map(delay).sum();
        there + back
    };
    assert!((round_trip(first, node(&plan, "sink.0")) - 0.0151).abs() < 1e-9);
    assert!((round_trip(last, node(&plan, "sink.99")) - 0.0349).abs() < 1e-9);

    // 12 transfers of 200 packets of 1250 B a second are 24 of 40 Mb/s; over 320 s, 3840 with a deviation of 62.
    assert!((3650..4030).contains(&plan.flows.len()), "{}", plan.flows.len());
    assert!(plan.flows.iter().all(|flow| flow.bytes == Some(Bytes::new(200 * 1196))));
    assert!(plan.flows.is_sorted_by_key(|flow| flow.start));
    assert!(plan.flows.iter().all(|flow| flow.start < Time::ZERO + plan.duration));
    assert_eq!(plan.links.iter().filter(|link| link.measured).count(), 1);
}

#[test]
fn what_ships_is_right() {
    for path in ["pcp/offered_load.toml", "pcp/first_light.toml", "bench/dumbbell.toml"] {
        study(path).check(&Registry::default()).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn the_example_in_the_reference_is_right() {
    let page = std::fs::read_to_string(format!("{}/../../docs/scenario.md", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let scenario = Scenario::parse("docs/scenario.md", example).unwrap();
    scenario.check(&Registry::default()).unwrap();
    assert_eq!(scenario.points().len(), 12);
}

#[test]
fn the_dumbbell_scales_with_its_buffer() {
    let mut scenario = study("bench/dumbbell.toml");
    let buffer = |plan: &Plan| format!("{:?}", plan.links[0].router);
    let plan = first_plan(&scenario).unwrap();
    assert!(buffer(&plan).contains("packets: Some(1500)"), "{}", buffer(&plan));
    assert_eq!(plan.flows.len(), 60);
    assert!(plan.flows.iter().all(|flow| flow.bytes.is_none() && flow.start < Time::ZERO + Duration::from_secs(1)));
    assert_eq!(plan.payload(), Bytes::new(1000));

    scenario.set("flows", values("1000")).unwrap();
    scenario.set("rate", values("5 Gb/s")).unwrap();
    let plan = first_plan(&scenario).unwrap();
    assert!(buffer(&plan).contains("packets: Some(50000)"), "{}", buffer(&plan));
    assert_eq!(plan.flows.len(), 2000);
    let senders: std::collections::HashSet<_> = plan.flows.iter().map(|flow| flow.from).collect();
    assert_eq!(senders.len(), 2000);
}

#[test]
fn another_scheme_meets_the_same_flows_and_another_seed_others() {
    let scenario = study("pcp/first_light.toml");
    let flows = |scheme: &str, seed: &str| {
        let mut scenario = scenario.clone();
        scenario.set("scheme", values(scheme)).unwrap();
        scenario.set("seed", values(seed)).unwrap();
        first_plan(&scenario).unwrap().flows
    };
    assert_eq!(flows("tcp", "1"), flows("linux-cubic", "1"));
    assert_ne!(flows("tcp", "1"), flows("tcp", "2"));
}

#[test]
fn a_scheme_brings_its_router_only_when_it_runs() {
    let text = SMALL.replace(
        "[[traffic]]",
        "[scheme.big]\nkernel = \"cubic\"\nrouters = { wire = { kind = \"drop-tail\", packets = 99 }, \
         \"wire.reverse\" = { kind = \"drop-tail\", packets = 98 } }\n[[traffic]]",
    ) + "arrivals = { count = 1 }";
    let routers = |plan: &Plan| [0, 1].map(|link| format!("{:?}", plan.links[link].router));
    let [there, back] = routers(&plan(&text));
    assert!(there.contains("Some(10)") && back.contains("Some(10)"), "{there} {back}");
    let plan = plan(&text.replace("scheme = \"tcp\"", "scheme = \"big\""));
    let [there, back] = routers(&plan);
    assert!(there.contains("Some(99)") && back.contains("Some(98)"), "{there} {back}");
    assert_eq!(plan.schemes.len(), 1);
    assert_eq!(plan.schemes[0].sender, Sender::Kernel { algorithm: "cubic".into() });
}

#[test]
fn the_way_back_is_like_the_way_there_except_where_the_file_says_otherwise() {
    let text =
        SMALL.replace("measure = true", "measure = true\nreverse = { rate = \"1 Mb/s\" }") + "arrivals = { count = 1 }";
    let plan = plan(&text);
    let [there, back] = [&plan.links[0], &plan.links[1]];
    assert_eq!((there.name.as_str(), back.name.as_str()), ("wire", "wire.reverse"));
    assert_eq!((there.from, there.to), (back.to, back.from));
    assert_eq!((there.config.rate, back.config.rate), (Rate::from_bps(8_000_000), Rate::from_bps(1_000_000)));
    assert_eq!(there.config.delay, back.config.delay);
    assert_eq!((there.measured, back.measured), (true, false));
}

#[test]
fn the_shortest_way_is_taken_and_of_equals_the_first() {
    let link = |name: &str, a: &str, b: &str| {
        format!(
            "[[link]]\nname = \"{name}\"\nbetween = [\"{a}\", \"{b}\"]\nrate = \"8 Mb/s\"\ndelay = \"1 ms\"\nrouter = {{ kind = \"drop-tail\" }}\n"
        )
    };
    //   a ── wire ── b          and  a ── x ── c ── y ── b,  twice a ── c
    let links = link("x", "a", "c") + &link("second", "a", "c") + &link("y", "c", "b");
    let text = SMALL.replacen("[[hosts]]", &(links + "[[hosts]]"), 1) + "arrivals = { count = 1 }";
    let plan = plan(&text);
    assert_eq!(names(&plan, node(&plan, "s.0"), node(&plan, "d.3")), ["s.0", "wire", "d.3.reverse"]);
    assert_eq!(names(&plan, node(&plan, "s.0"), node(&plan, "c")), ["s.0", "x"]);
    assert_eq!(names(&plan, node(&plan, "s.0"), node(&plan, "s.1")), ["s.0", "s.1.reverse"]);
    assert!(names(&plan, 0, 0).is_empty());
}

#[test]
fn arrivals_have_their_rate_and_sizes_their_mean() {
    let text = format!("{SMALL}size = {{ mean = \"50 kB\", pareto = 2.5 }}\narrivals = {{ per_second = 50 }}");
    for text in [text.clone(), text.replace("per_second = 50", "per_second = 50, gaps = { pareto = 2.5 }")] {
        let plan = plan(&text);
        assert!((4700..5300).contains(&plan.flows.len()), "{}", plan.flows.len());
        let bytes: Bytes = plan.flows.iter().filter_map(|flow| flow.bytes).sum();
        let mean = bytes.as_f64() / plan.flows.len() as f64;
        assert!((46_000.0..54_000.0).contains(&mean), "{mean}");
    }
}

#[test]
fn groups_start_together_again_and_again() {
    let plan = plan(&format!("{SMALL}lasts = \"5 s\"\narrivals = {{ count = 6, at = \"1 s\", every = \"40 s\" }}"));
    let starts: Vec<u64> = plan.flows.iter().map(|flow| flow.start.as_nanos() / 1_000_000_000).collect();
    assert_eq!(starts, [[1; 6], [41; 6], [81; 6]].concat());
    assert!(plan.flows.iter().all(|flow| flow.stop == Some(flow.start + Duration::from_secs(5))));
    assert_eq!(plan.flows[0].from, plan.flows[4].from);
    assert_ne!(plan.flows[0].from, plan.flows[1].from);
}

#[test]
fn any_pair_is_never_a_host_with_itself() {
    let text =
        SMALL.replace("to = \"d\"", "to = \"s\"") + "pairs = \"any\"\nsize = \"9 kB\"\narrivals = { per_second = 20 }";
    let plan = plan(&text);
    assert!(plan.flows.iter().all(|flow| flow.from != flow.to));
    let pairs: std::collections::HashSet<_> = plan.flows.iter().map(|flow| (flow.from, flow.to)).collect();
    assert_eq!(pairs.len(), 12);
}

#[test]
fn the_summary_counts_transfers_after_warm_up_and_is_the_object_promised() {
    let text = SMALL.replace("[[traffic]]", "[axes]\nload = [0.5]\n[[traffic]]")
        + "size = \"1 kB\"\narrivals = { load = \"$load\", of = \"wire\", until = \"11 s\" }";
    let plan = plan(&text);
    let early = plan.flows.iter().filter(|flow| flow.start < Time::ZERO + plan.warmup).count();
    let outcome = |(flow, planned): (usize, &rampmeter_scenario::FlowPlan)| FlowOutcome {
        flow,
        traffic: 0,
        scheme: 0,
        start: planned.start,
        response: (flow != early).then(|| Duration::from_millis(if flow % 2 == 0 { 10 } else { 30 })),
        delivered: Bytes::new(1000),
        delivered_measured: Bytes::ZERO,
        sent_packets: 1,
        retransmitted_packets: 0,
        just_below_share: None,
    };
    let counts =
        rampmeter_router::Counts { offered: 200, offered_data: 100, dropped: 2, marked: 1, ..Default::default() };
    let queue =
        rampmeter_router::QueueSummary { mean_packets: 2.5, p90_packets: 7, max_packets: 10, ..Default::default() };
    let link = LinkOutcome { link: LinkId(0), name: "wire".into(), utilization: 0.5, queue, counts };
    let outcome = Outcome {
        flows: plan.flows.iter().enumerate().map(outcome).collect(),
        links: vec![link],
        data_packets: 12,
        ..Outcome::default()
    };
    let summary = Summary::of(&plan, &outcome, "simulated", 0.25);
    assert_eq!(summary.flows.completed as usize, plan.flows.len() - early - 1);
    assert_eq!(summary.flows.unfinished, 1);
    assert!((summary.flows.response_mean_s.unwrap() - 0.020).abs() < 1e-3);
    assert_eq!(summary.flows.response_p99_s, Some(0.030));
    // Goodputs of x and 3x in equal numbers: (4x)² / (2 · 10x²).
    assert!((summary.flows.goodput_jain.unwrap() - 0.8).abs() < 1e-3);

    let json = serde_json::to_string(&summary).unwrap();
    assert!(json.starts_with(r#"{"point":{"load":0.5,"seed":1},"world":"simulated","flows":{"completed":"#), "{json}");
    let links = r#""links":{"wire":{"utilization":0.5,"queue_mean_packets":2.5,"queue_mean_bytes":0.0,"queue_sd_bytes":0.0,"queue_p90_packets":7,"queue_p99_packets":0,"queue_max_packets":10,"queue_mean_share":0.25,"queue_p90_share":0.7,"drop_rate":0.01,"mark_rate":0.005,"data_mark_rate":0.01,"unmarked_per_mark":99.0,"rate_variation":null}},"data_packets":12,"wall_s":0.25}"#;
    assert!(json.ends_with(links), "{json}");
}

#[test]
fn lateness_is_judged_by_the_least_round_trip() {
    let plan = plan(&format!("{SMALL}arrivals = {{ count = 2 }}"));
    assert_eq!(plan.least_round_trip(), Some(Duration::from_millis(24)));
    for (micros, is_late) in [(1_900, false), (2_100, true)] {
        let p99 = Duration::from_micros(micros);
        let lateness = Some(Lateness { p50: Duration::ZERO, p99, max: p99 });
        let summary = Summary::of(&plan, &Outcome { lateness, ..Outcome::default() }, "emulated", 0.25);
        assert_eq!(summary.is_late(), is_late);
        let json = serde_json::to_value(&summary).unwrap();
        assert_eq!((&json["lateness_p99_s"], &json["rtt_min_s"]), (&(micros as f64 / 1e6).into(), &0.024.into()));
    }
}

#[test]
fn long_lived_flows_are_judged_by_what_they_got_while_measured() {
    let plan = plan(&format!("{SMALL}arrivals = {{ count = 2 }}"));
    let outcome = |flow: usize, megabytes: u64| FlowOutcome {
        flow,
        traffic: 0,
        scheme: 0,
        start: Time::ZERO,
        response: None,
        delivered: Bytes::new(999_000_000),
        delivered_measured: Bytes::new(megabytes * 1_000_000),
        sent_packets: 1,
        retransmitted_packets: 0,
        just_below_share: None,
    };
    let outcome = Outcome { flows: vec![outcome(0, 9), outcome(1, 27)], ..Outcome::default() };
    let flows = Summary::of(&plan, &outcome, "simulated", 0.0).flows;
    // 9 and 27 MB in 90 s are 0.8 and 2.4 Mb/s.
    assert_eq!((flows.completed, flows.unfinished, flows.response_mean_s), (0, 0, None));
    assert!((flows.goodput_mean_bps.unwrap() - 1.6e6).abs() < 1.0);
    assert!((flows.goodput_jain.unwrap() - 0.8).abs() < 1e-9);
    assert!((flows.goodput_most_bps.unwrap() / flows.goodput_least_bps.unwrap() - 3.0).abs() < 1e-9);
}

#[test]
fn rates_vary_from_sample_to_sample_once_they_count() {
    let plan = plan(&format!("{SMALL}arrivals = {{ count = 2 }}"));
    let at = |seconds: u64| Time::ZERO + plan.warmup + Duration::from_secs(seconds);
    let flow = |seconds: u64, flow: usize, kbps: u64| FlowSample {
        at: at(seconds),
        flow,
        window: None,
        rate: Some(Rate::from_bps(kbps * 1000)),
        delivered: Bytes::ZERO,
    };
    let link = |seconds: u64, kilobytes: u64| LinkSample {
        at: at(seconds),
        link: LinkId(0),
        queue: rampmeter_router::Backlog::default(),
        transmitted: Bytes::new(kilobytes * 1000),
    };
    let early = FlowSample { at: Time::ZERO, ..flow(0, 0, 900) };
    let outcome = Outcome {
        links: vec![LinkOutcome {
            link: LinkId(0),
            name: "wire".into(),
            utilization: 0.5,
            queue: rampmeter_router::QueueSummary::default(),
            counts: rampmeter_router::Counts::default(),
        }],
        series: Series {
            // 20 and 10 kB a second: a mean of 15, a deviation (n - 1) of the square root of 50.
            links: vec![link(0, 10), link(1, 30), link(2, 40)],
            // 10, 30, 20, 20: a mean of 20, a deviation of the square root of 200/3.
            flows: vec![early, flow(0, 0, 10), flow(0, 1, 30), flow(1, 0, 20), flow(1, 1, 20)],
        },
        ..Outcome::default()
    };
    let summary = Summary::of(&plan, &outcome, "simulated", 0.0);
    assert!((summary.flows.rate_variation.unwrap() - (200.0_f64 / 3.0).sqrt() / 20.0).abs() < 1e-9);
    assert!((summary.links[0].1.rate_variation.unwrap() - 50.0_f64.sqrt() / 15.0).abs() < 1e-9);
}

#[test]
fn each_kind_of_traffic_is_judged_by_itself_where_there_are_several() {
    let second = SMALL.rsplit_once("[[traffic]]").unwrap().1.replace("name = \"", "name = \"more-");
    let arrivals = "arrivals = { count = 2 }\n";
    let plan = plan(&format!("{SMALL}{arrivals}[[traffic]]{second}{arrivals}"));
    let outcome = |flow: usize| FlowOutcome {
        flow,
        traffic: plan.flows[flow].traffic,
        scheme: 0,
        start: Time::ZERO,
        response: None,
        delivered: Bytes::ZERO,
        // 0.8 Mb/s of the first kind, three times as much of the second.
        delivered_measured: Bytes::new(9_000_000 * (1 + 2 * plan.flows[flow].traffic as u64)),
        sent_packets: 1,
        retransmitted_packets: 0,
        just_below_share: None,
    };
    let outcome = Outcome { flows: (0..4).map(outcome).collect(), ..Outcome::default() };
    let summary = Summary::of(&plan, &outcome, "simulated", 0.0);
    let names: Vec<&str> = plan.traffic.iter().map(|traffic| traffic.name.as_str()).collect();
    for ((name, flows), (expected, bps)) in summary.traffic.iter().zip(names.iter().zip([0.8e6, 2.4e6])) {
        assert_eq!(name, expected);
        assert!((flows.goodput_mean_bps.unwrap() - bps).abs() < 1.0 && flows.goodput_jain == Some(1.0));
    }
    assert!((summary.flows.goodput_mean_bps.unwrap() - 1.6e6).abs() < 1.0);
}

#[test]
fn the_hash_is_of_the_text() {
    let hash = |text: &str| Scenario::parse("x.toml", text).unwrap().hash();
    let text = format!("{SMALL}arrivals = {{ count = 2 }}");
    assert_eq!(hash(&text), hash(&text));
    assert_ne!(hash(&text), hash(&text.replace("100 s", "101 s")));
    assert_eq!(hash(&text).len(), 64);
}
