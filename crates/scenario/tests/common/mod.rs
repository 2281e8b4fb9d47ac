//! A small network, and plans of it.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

pub mod good;

use rampmeter_scenario::{Plan, Registries, Scenario, ScenarioError};

/// Four hosts on each side of a link. Each test appends the last keys of the traffic.
pub const SMALL: &str = r#"
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

pub fn first_plan(scenario: &Scenario) -> Result<Plan, ScenarioError> {
    scenario.plan(&scenario.points()[0], &Registries::default())
}

pub fn plan(text: &str) -> Plan {
    first_plan(&Scenario::parse("x.toml", text).unwrap()).unwrap()
}
