//! The content of plans of the scenarios in the repository and of small ones.

mod common;

use common::{SMALL, first_plan, plan};
use rampmeter_manager::{Grouping, Scheduling, ServiceCurve, Sharing};
use rampmeter_scenario::{LinkId, NodeId, Plan, QueueId, Registries, Scenario, Sender, values};
use rampmeter_units::{Bytes, Duration, Rate, Time};

fn study(path: &str) -> Scenario {
    Scenario::read(format!("{}/../../studies/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn a_record_is_named_and_sets_all_its_fields() {
    let mut scenario = study("pcp/paths.toml");
    scenario.set("path", values("p22,p40")).unwrap();
    scenario.set("sender", values("four-pcp")).unwrap();
    assert!(scenario.set("path", values("p41")).unwrap_err().to_string().contains("`p41`"));
    let points = scenario.points();
    assert_eq!(
        points.iter().map(|point| point.get("path").unwrap().as_str().unwrap()).collect::<Vec<_>>(),
        ["p22", "p40"]
    );
    let plans = points.iter().map(|point| scenario.plan(point, &Registries::default()).unwrap()).collect::<Vec<_>>();
    let flows = |plan: &Plan, traffic: usize| plan.flows.iter().filter(|flow| flow.traffic == traffic).count();
    // Seven times four transfers. The first path has no other traffic, the second one web traffic and two long-lived
    // flows.
    assert_eq!([0, 1, 2].map(|traffic| flows(&plans[0], traffic)), [28, 0, 0]);
    assert_eq!((flows(&plans[1], 0), flows(&plans[1], 1) > 100, flows(&plans[1], 2)), (28, true, 2));
    assert_eq!(
        plans.iter().map(|plan| plan.links[0].config.rate.as_bps()).collect::<Vec<_>>(),
        [12_000_000, 99_000_000]
    );
}

#[test]
fn products_of_two_factors_are_filled_in() {
    let text =
        SMALL.replacen("duration = \"100 s\"", "duration = \"$n * 7 s\"\naxes = { n = [3], step = [\"2 ms\"] }", 1);
    let text = text.replacen("delay = \"10 ms\"", "delay = \"$n * $step\"", 1);
    let text = text.replacen("packets = 10", "packets = \"$n * 4\"", 1);
    let plan = plan(&format!("{text}arrivals = {{ count = \"$n*$n\" }}"));
    assert_eq!((plan.duration, plan.flows.len()), (Duration::from_secs(21), 9));
    assert_eq!((plan.links[0].config.delay, plan.links[0].room), (Duration::from_millis(6), Some(12)));
}

#[test]
fn the_hosts_of_a_group_have_its_clock() {
    let mut scenario = study("pcp/clocks.toml");
    scenario.set("clock", values("slow")).unwrap();
    let plan = first_plan(&scenario).unwrap();
    let drift_ppm = |name| plan.nodes[node(&plan, name)].clock.drift_ppm;
    assert_eq!((drift_ppm("source.3"), drift_ppm("sink.3")), (0, -200));
}

#[test]
fn hosts_with_random_clocks_differ_up_to_the_maximum() {
    let offsets = |max: &str, seed: &str| {
        let mut scenario = study("pcp/sender_clocks.toml");
        scenario.set("max_offset", values(max)).unwrap();
        scenario.set("seed", values(seed)).unwrap();
        let plan = first_plan(&scenario).unwrap();
        plan.nodes.iter().filter(|node| node.is_host).map(|node| node.clock.offset).collect::<Vec<_>>()
    };
    let seconds = Duration::from_secs;
    let (first, second) = (offsets("10 s", "1"), offsets("10 s", "2"));
    assert!(first.iter().all(|offset| *offset < seconds(10)) && first.iter().any(|offset| *offset > seconds(9)));
    assert!(first[0] != first[1] && first != second);
    assert_eq!(first, offsets("10 s", "1"), "the same seed");
    assert!(offsets("0 s", "1").iter().all(|offset| *offset == seconds(0)));
}

#[test]
fn flows_share_a_macroflow_by_the_weights_of_their_traffic() {
    let mut scenario = study("cm/sharing.toml");
    scenario.set("weights", values("unequal")).unwrap();
    scenario.set("scheme", values("tcp-cm")).unwrap();
    let plan = first_plan(&scenario).unwrap();
    let weights: Vec<f64> = plan.flows.iter().map(|flow| plan.share(flow).weight).collect();
    assert_eq!(weights, [1.0, 2.0, 3.0, 4.0]);
    let together =
        Sharing { grouping: Grouping::PerDestination, scheduling: Scheduling::RoundRobin, ..Sharing::default() };
    assert_eq!(plan.schemes[plan.flows[0].scheme].ours().unwrap().sharing, together);
}

#[test]
fn flows_have_the_service_curve_of_their_traffic() {
    let hfsc = SMALL.replace("\"newreno\"", "\"newreno\"\nmacroflow = \"destination\"\nscheduler = \"h-fsc\"");
    let curve_of = |curve: &str| {
        let plan = plan(&format!("{hfsc}{curve}\narrivals = {{ count = 1 }}"));
        assert_eq!(plan.schemes[0].ours().unwrap().sharing.scheduling, Scheduling::ServiceCurves);
        plan.share(&plan.flows[0]).curve
    };
    let [m1, m2] = [1_600_000, 320_000].map(Rate::from_bps);
    let d = Duration::from_millis(5);
    let two_pieces = "curve = { m1 = \"1.6 Mb/s\", d = \"5 ms\", m2 = \"320 kb/s\" }";
    assert_eq!(curve_of(two_pieces), Some(ServiceCurve { m1, d, m2 }));
    assert_eq!(curve_of("curve = { m2 = \"320 kb/s\" }"), Some(ServiceCurve::linear(m2)));
    assert_eq!(curve_of(""), None);
}

/// Three borders, and flows between two of them: one aggregate, in their direction, at the rate of its slowest link.
#[test]
fn an_aggregate_runs_from_a_paths_first_border_to_its_last() {
    let link = |name: &str, ends: &str, rate: &str| {
        format!(
            "[[link]]\nname = \"{name}\"\nbetween = {ends}\nrate = \"{rate}\"\ndelay = \"3 ms\"\nrouter = {{ kind = \"vcp\" }}\n"
        )
    };
    let more = link("on", "[\"b\", \"c\"]", "40 Mb/s") + &link("off", "[\"c\", \"e\"]", "1 Mb/s");
    let island = "[[island]]\nname = \"i\"\nborders = [\"c\", \"b\", \"a\"]\nrouter = { kind = \"drop-tail\", packets = { time = \"10540 us\" } }\n";
    let small =
        SMALL.replacen("at = \"b\"", "at = \"e\"", 1).replacen("[[hosts]]", &format!("{more}{island}[[hosts]]"), 1);
    let small = small.replacen("kind = \"drop-tail\", packets = 10", "kind = \"vcp\"", 1);
    let plan = plan(&format!("{small}arrivals = {{ count = 4 }}"));
    let [aggregate] = plan.aggregates.as_slice() else { panic!("{:?}", plan.aggregates) };
    let names = |links: &[LinkId]| links.iter().map(|link| plan.links[link.0].name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&aggregate.way), ["wire", "on"]);
    assert_eq!(names(&aggregate.back), ["on.reverse", "wire.reverse"]);
    assert_eq!((aggregate.name.as_str(), aggregate.room), ("i.a.c", Some(10)));
    assert_eq!(plan.queue_name(QueueId::Ingress(0)), "i.a.c");
}

fn names(plan: &Plan, from: usize, to: usize) -> Vec<&str> {
    let path = plan.path(NodeId(from), NodeId(to)).unwrap();
    path.iter().map(|link| plan.links[link.0].name.as_str()).collect()
}

fn node(plan: &Plan, name: &str) -> usize {
    plan.nodes.iter().position(|node| node.name == name).unwrap()
}

#[test]
fn figure_4_is_set_up_as_in_the_paper() {
    let mut scenario = study("pcp/offered_load.toml");
    assert_eq!(scenario.points().len(), 7 * 6 * 5);
    scenario.set("scheme", values("tcp")).unwrap();
    scenario.set("load", values("0.6")).unwrap();
    let plan = first_plan(&scenario).unwrap();

    let (first, last) = (node(&plan, "source.0"), node(&plan, "source.99"));
    assert_eq!(names(&plan, last, node(&plan, "sink.99")), ["source.99", "bottleneck", "sink.99.reverse"]);
    let round_trip = |from: usize, to: usize| {
        let delay = |link: &LinkId| plan.links[link.0].config.delay.as_secs_f64();
        let forward: f64 = plan.path(NodeId(from), NodeId(to)).unwrap().iter().map(delay).sum();
        let reverse: f64 = plan.path(NodeId(to), NodeId(from)).unwrap().iter().map(delay).sum();
        forward + reverse
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
fn the_studies_are_valid() {
    for path in ["pcp/offered_load.toml", "pcp/quick_start.toml", "bench/dumbbell.toml"] {
        study(path).check(&Registries::default()).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn the_example_in_the_reference_is_valid() {
    let page = std::fs::read_to_string(format!("{}/../../docs/scenario.md", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let scenario = Scenario::parse("docs/scenario.md", example).unwrap();
    scenario.check(&Registries::default()).unwrap();
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
fn flows_depend_on_the_seed_and_not_on_the_scheme() {
    let scenario = study("pcp/quick_start.toml");
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
fn a_schemes_router_is_used_only_when_it_runs() {
    let text = SMALL.replace(
        "[[traffic]]",
        "[scheme.big]\nkernel = \"cubic\"\nrouters = { wire = { kind = \"drop-tail\", packets = 99 }, \
         \"wire.reverse\" = { kind = \"drop-tail\", packets = 98 } }\n[[traffic]]",
    ) + "arrivals = { count = 1 }";
    let routers = |plan: &Plan| [0, 1].map(|link| format!("{:?}", plan.links[link].router));
    let [forward, reverse] = routers(&plan(&text));
    assert!(forward.contains("Some(10)") && reverse.contains("Some(10)"), "{forward} {reverse}");
    let plan = plan(&text.replace("scheme = \"tcp\"", "scheme = \"big\""));
    let [forward, reverse] = routers(&plan);
    assert!(forward.contains("Some(99)") && reverse.contains("Some(98)"), "{forward} {reverse}");
    assert_eq!(plan.schemes.len(), 1);
    assert!(matches!(&plan.schemes[0].sender, Sender::Kernel { algorithm } if algorithm == "cubic"));
}

#[test]
fn the_reverse_direction_has_the_same_settings_by_default() {
    let text =
        SMALL.replace("measure = true", "measure = true\nreverse = { rate = \"1 Mb/s\" }") + "arrivals = { count = 1 }";
    let plan = plan(&text);
    let [forward, reverse] = [&plan.links[0], &plan.links[1]];
    assert_eq!((forward.name.as_str(), reverse.name.as_str()), ("wire", "wire.reverse"));
    assert_eq!((forward.from, forward.to), (reverse.to, reverse.from));
    assert_eq!((forward.config.rate, reverse.config.rate), (Rate::from_bps(8_000_000), Rate::from_bps(1_000_000)));
    assert_eq!(forward.config.delay, reverse.config.delay);
    assert_eq!((forward.measured, reverse.measured), (true, false));
}

#[test]
fn the_first_of_the_shortest_paths_is_taken() {
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
fn groups_start_together_and_repeatedly() {
    let plan = plan(&format!("{SMALL}duration = \"5 s\"\narrivals = {{ count = 6, at = \"1 s\", every = \"40 s\" }}"));
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
fn the_hash_is_of_the_text() {
    let hash = |text: &str| Scenario::parse("x.toml", text).unwrap().hash();
    let text = format!("{SMALL}arrivals = {{ count = 2 }}");
    assert_eq!(hash(&text), hash(&text));
    assert_ne!(hash(&text), hash(&text.replace("100 s", "101 s")));
    assert_eq!(hash(&text).len(), 64);
}
