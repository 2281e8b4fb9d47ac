//! TCP across an island of VCP routers.
//!
//! ```text
//!   source.0..7 ─── west ─────────────┬ a ══ core, 20 Mb/s, VCP ══ b ── east ── sink.0..7
//!   other.0..7 ──── south ────────────┘                             borders: west, south and b
//! ```

use rampmeter_router::Counts;
use rampmeter_scenario::{LinkOutcome, Outcome, Plan, Registries, Scenario, World};
use rampmeter_sim::Simulated;

/// Round trip 52 ms; the core's buffer is one bandwidth-delay product.
const NETWORK: &str = r#"
duration = "60 s"
warmup = "30 s"
packet = "1500 B"
link = [
    { name = "core", between = ["a", "b"], rate = "20 Mb/s", delay = "20 ms", measure = true, reverse = { measure = true },
      router = { kind = "vcp", packets = { time = "52 ms" } }, changes = [CHANGES] },
    { name = "west", between = ["west", "a"], rate = "1 Gb/s", delay = "2 ms", router = { kind = "drop-tail" } },
    { name = "south", between = ["south", "a"], rate = "1 Gb/s", delay = "2 ms", router = { kind = "drop-tail" } },
    { name = "east", between = ["b", "east"], rate = "1 Gb/s", delay = "2 ms", router = { kind = "drop-tail" },
      measure = true },
]
hosts = [
    { name = "source", count = 8, at = "west", rate = "1 Gb/s", delay = "1 ms" },
    { name = "other", count = 8, at = "south", rate = "1 Gb/s", delay = "1 ms" },
    { name = "sink", count = 8, at = "east", rate = "1 Gb/s", delay = "1 ms" },
]
[[island]]
name = "island"
borders = ["west", "south", "b"]
router = { kind = "QUEUE", packets = { time = "52 ms" } }
measure = true
[scheme.tcp]
controller = "newreno"
transport = { recovery = "sack", ecn = "ECN" }
[[traffic]]
name = "west"
scheme = "tcp"
from = "source"
to = "sink"
arrivals = { count = 8, spread = "1 s" }
"#;

const SECOND: &str = r#"
[[traffic]]
name = "south"
scheme = "tcp"
from = "other"
to = "sink"
arrivals = { count = 2, spread = "1 s" }
"#;

fn plan(text: &str) -> Plan {
    let text = text.replace("CHANGES", "").replace("QUEUE", "drop-tail").replace("ECN", "not-ect");
    let registries = Registries::default();
    let scenario = Scenario::parse("test.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    scenario.plan(&scenario.points()[0], &registries).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn run(text: &str) -> Outcome {
    Simulated.run(&plan(text)).unwrap()
}

fn link<'a>(outcome: &'a Outcome, name: &str) -> &'a LinkOutcome {
    outcome.links.iter().find(|link| link.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// The core has no losses and nearly no queue. TCP's losses occur at the ingress.
#[test]
fn tcp_fills_an_island_whose_core_has_no_queue_and_no_losses() {
    let outcome = run(NETWORK);
    let (core, entry) = (link(&outcome, "core"), link(&outcome, "island.west.b"));
    assert!((0.86..0.98).contains(&core.utilization), "{core:?}");
    assert!(core.counts.dropped == 0 && core.queue.mean_packets < 4.0, "{core:?}");
    assert!(entry.counts.dropped > 0 && entry.queue.mean_packets > 10.0, "{entry:?}");
    assert_eq!(outcome.links.len(), 4, "one aggregate, for the only pair of borders with traffic: {:?}", outcome.links);
}

/// Over the whole run, all packets that entered the island left it and reached the sinks.
#[test]
fn packets_leave_the_island_without_its_header() {
    let outcome =
        run(&NETWORK.replace("warmup = \"30 s\"\n", "").replace("arrivals =", "duration = \"50 s\"\narrivals ="));
    let Counts { transmitted: entered, transmitted_bytes: wrapped, offered, dropped, .. } =
        link(&outcome, "island.west.b").counts;
    let east = link(&outcome, "east").counts;
    assert_eq!(offered, entered + dropped, "the run ends with an empty queue");
    assert_eq!(outcome.data_packets, entered);
    // `east` also carries packets without payload: a handshake and an end for each flow.
    let bare = east.transmitted - entered;
    assert!(bare < 40, "{bare}");
    let difference = (wrapped.as_u64() - 32 * entered).abs_diff(east.transmitted_bytes.as_u64() - 54 * bare);
    assert!(difference < 54 * bare, "{difference} bytes of {wrapped}");
}

/// The reverse direction of the core carries an answer for each packet that left the island.
#[test]
fn answers_are_traffic_in_the_reverse_direction() {
    let outcome = run(NETWORK);
    let (back, out) = (link(&outcome, "core.reverse").counts, link(&outcome, "east").counts.transmitted);
    let answers = 44 * out; // bytes
    assert!(back.transmitted_bytes.as_u64() > answers, "{back:?}");
    assert!(back.transmitted > out && back.dropped == 0, "{back:?}");
}

/// TCP's packets keep the marks of the ingress queue.
#[test]
fn marks_of_the_ingress_slow_tcp_down_without_drops() {
    let codel = NETWORK.replace("\"QUEUE\", packets = { time = \"52 ms\" }", "\"codel\"").replace("ECN", "ect0");
    let outcome = run(&codel);
    let (core, entry) = (link(&outcome, "core"), link(&outcome, "island.west.b"));
    assert!(entry.counts.marked > 100 && entry.counts.dropped == 0, "{entry:?}");
    assert!(core.utilization > 0.86 && core.counts.dropped == 0, "{core:?}");
}

/// Only the core's routers read codes here. So TCP's outcome depends neither on the codes of its packets nor on
/// overload in the core, unless the egress propagates overload.
#[test]
fn marks_of_the_core_reach_tcp_only_if_propagated() {
    let (plain, capable) = (run(NETWORK), run(&NETWORK.replace("ECN", "ect0")));
    assert!(link(&capable, "core").counts.marked > 100);
    assert_eq!(plain.flows, capable.flows);
    let handed_on = run(&NETWORK.replace("ECN", "ect0").replace("borders =", "propagate_overload = true\nborders ="));
    assert_ne!(plain.flows, handed_on.flows);
}

#[test]
fn an_aggregate_of_eight_and_one_of_two_share_equally() {
    let text = format!("{NETWORK}{SECOND}").replace("duration = \"60 s\"", "duration = \"300 s\"");
    let outcome = run(&text.replace("warmup = \"30 s\"", "warmup = \"200 s\""));
    let [west, south] = ["island.west.b", "island.south.b"].map(|name| link(&outcome, name));
    let ratio = west.utilization / south.utilization;
    assert!((0.8..1.25).contains(&ratio), "{west:?} {south:?}");
    assert_eq!(link(&outcome, "core").counts.dropped, 0);
}

/// 20 Mb/s, from 20 s on 10, from 50 s on 20 again: measured when it has had ten seconds.
#[test]
fn an_aggregate_follows_the_core() {
    let change = |at, rate| format!("{{ at = \"{at} s\", rate = \"{rate} Mb/s\" }}");
    let halved = NETWORK.replace("CHANGES", &change(20, 10));
    let doubled = NETWORK.replace("CHANGES", &[change(0, 10), change(20, 20)].join(", "));
    for text in [halved, doubled] {
        let outcome = run(&text);
        let core = link(&outcome, "core");
        assert!(core.utilization > 0.86 && core.counts.dropped == 0 && core.queue.mean_packets < 5.0, "{core:?}");
    }
}

#[test]
fn an_island_that_is_not_active_changes_nothing() {
    let off = run(&NETWORK.replace("borders =", "active = false\nborders ="));
    let without = &NETWORK[..NETWORK.find("[[island]]").unwrap()];
    let without = run(&format!("{without}{}", &NETWORK[NETWORK.find("[scheme.tcp]").unwrap()..]));
    assert_eq!(off, without);
    assert!(off.links.iter().all(|link| !link.name.starts_with("island")));
}

#[test]
fn the_same_plan_gives_the_same_outcome() {
    let plan = plan(&format!("{NETWORK}{SECOND}"));
    let run = || Simulated.run(&plan).unwrap();
    assert_eq!(run(), run());
}
