//! A configurable dumbbell, and a function that runs it.
//!
//! ```text
//!   source.0 ──┐                                   ┌── sink.0
//!      ...     ├ left ══ bottleneck, 8 ms ══ right ┤     ...      access links: unlimited, 1 ms each;
//!   source.n ──┘                                   └── sink.n     the round trip is 20 ms
//! ```

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use rampmeter_scenario::{Outcome, Plan, Registries, Scenario, World};
use rampmeter_sim::Simulated;

/// The variable parts of the scenario.
pub struct Dumbbell<'a> {
    pub duration: &'a str,
    pub warmup: &'a str,
    pub drain: &'a str,
    /// Keys of the bottleneck, without its name and ends.
    pub bottleneck: &'a str,
    pub hosts: u64,
    /// Keys of the only scheme.
    pub scheme: &'a str,
    /// Keys of the only kind of traffic, without its name, scheme and ends.
    pub traffic: &'a str,
    /// Further tables.
    pub more: &'a str,
}

impl Default for Dumbbell<'_> {
    fn default() -> Self {
        Self {
            duration: "10 s",
            warmup: "0 s",
            drain: "60 s",
            bottleneck: r#"rate = "unlimited", delay = "8 ms", router = { kind = "drop-tail" }"#,
            hosts: 1,
            scheme: r#"controller = "newreno""#,
            traffic: "arrivals = { count = 1 }",
            more: "",
        }
    }
}

impl Dumbbell<'_> {
    pub fn plan(&self) -> Plan {
        self.plan_with(&Registries::default())
    }

    pub fn plan_with(&self, registries: &Registries) -> Plan {
        let Self { duration, warmup, drain, hosts, more, .. } = self;
        let (bottleneck, scheme, traffic) =
            (toml_lines(self.bottleneck), toml_lines(self.scheme), toml_lines(self.traffic));
        let text = format!(
            r#"
duration = "{duration}"
warmup = "{warmup}"
drain = "{drain}"
packet = "1054 B"
[[link]]
name = "bottleneck"
between = ["left", "right"]
measure = true
{bottleneck}
[[hosts]]
name = "source"
count = {hosts}
at = "left"
rate = "unlimited"
delay = "1 ms"
[[hosts]]
name = "sink"
count = {hosts}
at = "right"
rate = "unlimited"
delay = "1 ms"
[scheme.it]
{scheme}
[[traffic]]
name = "flows"
scheme = "it"
from = "source"
to = "sink"
{traffic}
{more}
"#
        );
        let scenario = Scenario::parse("test.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let points = scenario.points();
        scenario.plan(&points[0], registries).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    pub fn run(&self) -> Outcome {
        run(&self.plan())
    }
}

pub fn run(plan: &Plan) -> Outcome {
    Simulated.run(plan).unwrap()
}

/// Puts each key of `a = 1, b = { c = 2, d = 3 }` on a line of its own.
fn toml_lines(keys: &str) -> String {
    let mut depth = 0;
    let line = |c: char| {
        depth += i32::from("{[".contains(c)) - i32::from("}]".contains(c));
        if c == ',' && depth == 0 { '\n' } else { c }
    };
    keys.chars().map(line).collect()
}
