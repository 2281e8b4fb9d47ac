//! Conditions of the library carry traffic: all of them briefly in every run of the tests, and long enough to judge their
//! utilization with `cargo test --release --package rampmeter-sim --test conditions -- --ignored`.

use rampmeter_scenario::{ConditionFacts, Outcome, Plan, Registries, Scenario, World};
use rampmeter_sim::Simulated;
use rampmeter_units::{Bytes, Duration};

/// One flow over a condition, as the library has it.
const SCENARIO: &str = concat!(
    include_str!("../../scenario/src/conditions/network.toml"),
    include_str!("../../scenario/src/conditions/flow.toml")
);

/// Groups whose conditions have neither losses, nor other traffic, nor a limit beside the bottleneck's rate. What one flow
/// sends there fills half of the capacity or more, also in its first round trips.
const PLAIN: [&str; 6] = ["access", "wifi", "cellular", "wide-area", "datacentre", "queue"];

/// The points of both schemes over the condition for this time.
fn plans(name: &str, duration: Duration) -> Vec<Plan> {
    let mut text = SCENARIO.replace("NAME", name);
    for (key, usual, value) in [("duration", "30 s", duration), ("warmup", "5 s", duration.scale(0.3))] {
        let line = format!("{key} = \"{usual}\"");
        assert!(text.contains(&line), "{line}");
        text = text.replace(&line, &format!("{key} = \"{value}\""));
    }
    let scenario = Scenario::parse("conditions", &text).unwrap();
    scenario.points().iter().map(|point| scenario.plan(point, &Registries::default()).unwrap()).collect()
}

/// What the flow delivered after the warm-up, as a share of the condition's rate; and the outcome.
fn run(facts: &ConditionFacts, plan: &Plan) -> (f64, Outcome) {
    let outcome = Simulated.run(plan).unwrap();
    let measured = outcome.flows.iter().filter(|flow| flow.traffic == 0);
    let bytes = measured.map(|flow| flow.delivered_measured.as_f64()).sum::<f64>();
    (bytes * 8.0 / plan.measured().as_secs_f64() / facts.rate.as_bps_f64(), outcome)
}

/// Runs both schemes over the condition, for up to `packets` packets of its rate.
fn judge(facts: &ConditionFacts, packets: u64) {
    let limit = facts.rate.time_to_send(Bytes::new(1500) * packets);
    for plan in plans(&facts.name, (facts.round_trip * 40).max(Duration::from_secs(20)).min(limit)) {
        let (share, outcome) = run(facts, &plan);
        assert!((0.01..1.6).contains(&share), "{}: {share} of the mean rate", plan.point);
        let link = outcome.links.iter().find(|link| link.name == "bottleneck").unwrap();
        let plain = PLAIN.contains(&facts.group.as_str()) && facts.loss == 0.0;
        assert!(!plain || link.utilization > 0.5, "{}: {}", plan.point, link.utilization);
    }
}

fn facts() -> Vec<ConditionFacts> {
    ConditionFacts::all(&Registries::default()).unwrap()
}

#[test]
fn every_condition_carries_traffic_in_its_first_round_trips() {
    for facts in facts() {
        // A timeout of a second is over by then, so a loss of the first packet is repaired.
        let duration = facts.round_trip * 12 + Duration::from_secs(2);
        let duration = duration.min(facts.rate.time_to_send(Bytes::new(1500) * 10_000));
        for plan in plans(&facts.name, duration) {
            let (share, _) = run(&facts, &plan);
            assert!(share > 0.0 && share < 4.0, "{}: {share} of the mean rate", plan.point);
        }
    }
}

#[test]
fn conditions_of_each_kind_carry_traffic() {
    for name in ["lte-walking", "wifi-crowded", "starlink-busy", "cable-upload", "l4s-40", "outages", "parking-lot"] {
        judge(facts().iter().find(|facts| facts.name == name).unwrap(), 10_000);
    }
}

#[test]
#[ignore = "takes a minute in a release build"]
fn every_condition_carries_its_rate() {
    for facts in facts() {
        judge(&facts, 300_000);
    }
}
