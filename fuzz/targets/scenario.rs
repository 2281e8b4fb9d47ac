//! Scenario files: every text gives a scenario or an error of one line, and every scenario a plan or an error of one
//! line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rampmeter_scenario::{Registries, Scenario, ScenarioError, values};

/// Maximum number of planned points, because large plans are valid but slow.
const MAX_POINTS: usize = 4;

fuzz_target!(|text: &str| {
    let Some(mut scenario) = one_line(Scenario::parse("fuzz.toml", text)) else { return };
    let registries = Registries::default();
    let points = scenario.points();
    for point in points.iter().take(MAX_POINTS) {
        if let Some(plan) = one_line(scenario.plan(point, &registries)) {
            assert!(plan.flows.is_sorted_by_key(|flow| flow.start));
            assert!(plan.flows.iter().all(|flow| flow.from != flow.to && flow.bytes.is_none_or(|b| b.as_u64() > 0)));
        }
    }
    // The same text as a value on the command line.
    if let Some(axis) = scenario.axes().first().map(|axis| axis.name.clone()) {
        one_line(scenario.set(&axis, values(text)));
    }
});

fn one_line<T>(result: Result<T, ScenarioError>) -> Option<T> {
    result.map_err(|error| assert_eq!(error.to_string().lines().count(), 1, "{error}")).ok()
}
