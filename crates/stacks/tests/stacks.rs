//! The stacks as hosts of simulated networks.

use std::thread;

use rampmeter_control::Registry as Controllers;
use rampmeter_scenario::stack::Stack as _;
use rampmeter_scenario::{Outcome, Plan, Scenario, World};
use rampmeter_sim::Simulated;
use rampmeter_stacks::{Quinn, registries};

const STACKS: [&str; 3] = ["noq", "quinn", "s2n-quic"];

/// A run of these schemes over 20 Mb/s and 40 ms, with a buffer of 100 kB.
fn plan(schemes: &str, traffic: &str, seed: u64) -> Plan {
    let text = format!(
        r#"
        duration = "20 s"
        drain = "20 s"
        hosts = [{{ name = "source", at = "left", rate = "unlimited", delay = "1 ms", count = 3 }},
                 {{ name = "sink", at = "right", rate = "unlimited", delay = "1 ms", count = 3 }}]
        link = [{{ name = "bottleneck", between = ["left", "right"], rate = "20 Mb/s", delay = "18 ms",
                  router = {{ kind = "drop-tail", packets = 67 }}, measure = true }}]
        {schemes}
        {traffic}
        axes.seed = [{seed}]
        "#
    );
    let scenario = Scenario::parse("stacks.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    scenario.plan(&scenario.points()[0], &registries()).unwrap_or_else(|error| panic!("{error}"))
}

fn theirs(stack: &str, controller: &str) -> String {
    format!(r#"scheme.it = {{ controller = "{stack}:{controller}" }}"#)
}

const DOWNLOAD: &str = r#"traffic = [{ name = "download", scheme = "it", from = "source", to = "sink", size = "10 MB",
    arrivals = { count = 1 } }]"#;

const TRANSFERS: &str = r#"traffic = [{ name = "transfers", scheme = "it", from = "source", to = "sink", pairs = "any",
    size = "100 kB", arrivals = { per_second = 10 } }]"#;

/// At a load of 0.9, so that packets are lost.
const BUSY: &str = r#"traffic = [{ name = "transfers", scheme = "it", from = "source", to = "sink", pairs = "any",
    size = "100 kB", arrivals = { per_second = 22 } }]"#;

/// Pages: the opener is the server, which waits for requests.
const WEB: &str = r#"traffic = [{ name = "web", scheme = "it", from = "source", to = "sink", web = { },
    arrivals = { per_second = 1 } }]"#;

const BULK: &str =
    r#"traffic = [{ name = "bulk", scheme = "it", from = "source", to = "sink", arrivals = { count = 1 } }]"#;

fn run(plan: &Plan) -> Outcome {
    Simulated.run(plan).unwrap()
}

fn seconds(scheme: &str) -> f64 {
    run(&plan(scheme, DOWNLOAD, 1)).flows[0].fct.expect("it completes").as_secs_f64()
}

#[test]
fn a_download_takes_as_long_as_in_our_transport() {
    // The stacks' own controllers, and ours in quinn. What differs is the size of headers and what is acknowledged when.
    for (stack, prefix, tolerance) in
        [("noq", "", 0.05), ("quinn", "", 0.05), ("quinn", "rampmeter-", 0.03), ("s2n-quic", "", 0.05)]
    {
        let controllers = if stack == "s2n-quic" { &["cubic"][..] } else { &["cubic", "newreno"] };
        for controller in controllers {
            let theirs = seconds(&theirs(stack, &format!("{prefix}{controller}")));
            let ours = seconds(&format!(r#"scheme.it = {{ controller = "{controller}" }}"#));
            assert!((theirs / ours - 1.0).abs() < tolerance, "{stack}, {prefix}{controller}: {theirs} and {ours} s");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run_in_every_thread() {
    for (stack, controller) in [
        ("noq", "cubic"),
        ("noq", "newreno"),
        ("quinn", "cubic"),
        ("quinn", "newreno"),
        ("quinn", "rampmeter-bbr"),
        ("quinn", "rampmeter-newreno"),
        ("s2n-quic", "bbr"),
        ("s2n-quic", "cubic"),
    ] {
        for traffic in [TRANSFERS, BULK] {
            let of = |seed| run(&plan(&theirs(stack, controller), traffic, seed));
            let first = of(1);
            let again =
                thread::scope(|scope| [1, 1].map(|seed| scope.spawn(move || of(seed))).map(|it| it.join().unwrap()));
            assert!(again.iter().all(|outcome| *outcome == first), "{stack}, {controller}");
        }
        let [first, second] = [1, 2].map(|seed| run(&plan(&theirs(stack, controller), TRANSFERS, seed)));
        assert!(first != second, "{stack}, {controller}");
    }
}

#[test]
fn every_transfer_completes() {
    for (stack, controller, traffic) in [
        ("noq", "bbr3", TRANSFERS),
        ("noq", "cubic", TRANSFERS),
        ("noq", "newreno", TRANSFERS),
        ("noq", "cubic", BUSY),
        ("noq", "cubic", WEB),
        ("quinn", "bbr", TRANSFERS),
        ("quinn", "cubic", TRANSFERS),
        ("quinn", "newreno", TRANSFERS),
        ("quinn", "cubic", BUSY),
        ("quinn", "cubic", WEB),
        ("quinn", "rampmeter-pcp", TRANSFERS),
        ("quinn", "rampmeter-copa", BUSY),
        ("quinn", "rampmeter-bbr", WEB),
        ("s2n-quic", "bbr", TRANSFERS),
        ("s2n-quic", "bbr", WEB),
        ("s2n-quic", "cubic", TRANSFERS),
        ("s2n-quic", "cubic", BUSY),
        ("s2n-quic", "cubic", WEB),
    ] {
        let outcome = run(&plan(&theirs(stack, controller), traffic, 1));
        let completed = outcome.flows.iter().filter(|flow| flow.fct.is_some()).count();
        assert!(
            completed > 10 && completed == outcome.flows.len(),
            "{stack}, {controller}: {completed} of {}",
            outcome.flows.len()
        );
    }
}

#[test]
fn packets_grow_to_what_the_path_carries() {
    for stack in STACKS {
        let outcome = run(&plan(&theirs(stack, "cubic"), BULK, 1));
        let counts = outcome.links[0].counts;
        let mean = counts.transmitted_bytes.as_f64() / counts.transmitted as f64;
        assert!((1400.0..=1500.0).contains(&mean), "{stack}: {mean} bytes");
    }
}

#[test]
fn dropped_packets_count_as_retransmitted() {
    for (stack, controller) in [("noq", "newreno"), ("quinn", "newreno"), ("s2n-quic", "cubic")] {
        let outcome = run(&plan(&theirs(stack, controller), DOWNLOAD, 1));
        let (dropped, flow) = (outcome.links[0].counts.dropped, &outcome.flows[0]);
        assert!(dropped > 0 && flow.retransmitted_packets == dropped, "{stack}: {flow:?}, {dropped}");
    }
}

#[test]
fn a_flow_that_stops_sends_no_more() {
    let traffic = BULK.replace("{ count = 1 }", "{ count = 1 }, duration = \"5 s\"");
    for stack in STACKS {
        let outcome = run(&plan(&theirs(stack, "cubic"), &traffic, 1));
        let delivered = outcome.flows[0].delivered.as_f64() * 8.0 / 20e6;
        assert!((4.0..5.2).contains(&delivered), "{stack}: {delivered} s at the link's rate");
    }
}

#[test]
fn packets_that_quic_cannot_use_are_refused() {
    for stack in STACKS {
        let text = format!(
            r#"
            duration = "1 s"
            packet = "1000 B"
            hosts = [{{ name = "a", at = "left", rate = "unlimited", delay = "1 ms" }},
                     {{ name = "b", at = "right", rate = "unlimited", delay = "1 ms" }}]
            link = [{{ name = "l", between = ["left", "right"], rate = "1 Mb/s", delay = "1 ms",
                      router = {{ kind = "drop-tail" }} }}]
            {}
            traffic = [{{ name = "t", scheme = "it", from = "a", to = "b", arrivals = {{ count = 1 }} }}]
            "#,
            theirs(stack, "cubic")
        );
        let scenario = Scenario::parse("small.toml", &text);
        let error = scenario.and_then(|scenario| scenario.plan(&scenario.points()[0], &registries()).map(drop));
        let error = error.unwrap_err().to_string();
        let wrong = format!("`packet` is 1 kB, and stack `{stack}` needs at least 1.228 kB");
        assert!(error.contains(&wrong), "{error}");
    }
}

#[test]
fn a_long_lived_flow_shares_the_link_with_ours() {
    let flow = |name: &str, scheme: &str| {
        format!(
            r#"{{ name = "{name}", scheme = "{scheme}", from = "source", to = "sink", arrivals = {{ count = 1 }} }}"#
        )
    };
    let traffic = format!("traffic = [{}, {}]", flow("a", "it"), flow("b", "ours"));
    for stack in STACKS {
        let schemes = format!("{}\n{}", theirs(stack, "cubic"), r#"scheme.ours = { controller = "cubic" }"#);
        let outcome = run(&plan(&schemes, &traffic, 1));
        let [theirs, ours] = [0, 1].map(|flow| outcome.flows[flow].delivered.as_f64() * 8.0 / 20e6);
        assert!(theirs + ours > 18.0 && theirs > 2.0 && ours > 2.0, "{stack}: {theirs} and {ours} Mb/s");
    }
}

#[test]
fn a_controller_with_a_rate_keeps_its_queue_short() {
    let queue = |controller| run(&plan(&theirs("quinn", controller), BULK, 1)).links[0].queue.mean_bytes;
    let (rate, window) = (queue("rampmeter-bbr"), queue("rampmeter-newreno"));
    assert!(rate < window / 2.0, "{rate} and {window} B"); // the window of BBR alone would keep a full queue
}

#[test]
fn controllers_that_need_settings_are_not_offered() {
    let quinn = Quinn::new(&Controllers::default());
    let names = quinn.controllers();
    assert!(names.contains(&"rampmeter-pcp") && !names.contains(&"rampmeter-fixed-rate"), "{names:?}");
}
