//! A valid file, and what is said about it with a mistake.

use rampmeter_scenario::{Registries, Scenario, ScenarioError};

/// A valid file. The tests below refer to its line numbers.
pub const GOOD: &str = r#"title = "T"
duration = "10 s"
warmup = "1 s"
drain = "5 s"
packet = "1250 B"
[axes]
scheme = ["tcp", "fixed"]
load = [0.3, 0.6]
[meters]
series = "100 ms"
[[link]]
name = "bottleneck"
between = ["left", "right"]
rate = "40 Mb/s"
delay = "2.5 ms"
router = { kind = "drop-tail", packets = 100 }
loss = { per_packet = 0.01 }
changes = [{ at = "4 s", rate = "20 Mb/s" }]
reverse = { rate = "20 Mb/s", measure = true }
[[hosts]]
name = "source"
count = 3
at = "left"
rate = "1 Gb/s"
delay = { from = "4 ms", to = "14 ms" }
[[hosts]]
name = "sink"
count = 3
at = "right"
rate = "1 Gb/s"
delay = "1 ms"
[scheme.tcp]
controller = "newreno"
settings = { initial_window = 1 }
transport = { min_rto = "1 s" }
[scheme.fixed]
controller = "fixed-rate"
settings = { rate = "2 Mb/s" }
routers = { bottleneck = { kind = "drop-tail", packets = 7 } }
[[traffic]]
name = "transfers"
scheme = "$scheme"
from = "source"
to = "sink"
size = { packets = 20 }
arrivals = { load = "$load", of = "bottleneck" }
[[traffic]]
name = "background"
scheme = "$scheme"
from = "sink"
to = "source"
duration = "3 s"
pairs = "any"
arrivals = { count = 2, at = "1 s", spread = "1 s" }
"#;

pub fn check(text: &str) -> Result<(), ScenarioError> {
    Scenario::parse("x.toml", text)?.check(&Registries::default())
}

/// The message for `GOOD` with `find` replaced.
pub fn message(find: &str, replace: &str) -> String {
    assert!(GOOD.contains(find), "{find}");
    check(&GOOD.replacen(find, replace, 1)).expect_err(replace).to_string()
}

/// Asserts that `GOOD` with `find` replaced is refused in one line that names the line and the remedy.
pub fn is_refused(find: &str, replace: &str, line: usize, advice: &str) {
    let message = message(find, replace);
    assert!(message.starts_with(&format!("x.toml:{line}: ")), "{replace}: {message}");
    assert!(message.contains(advice), "{replace}: {message}");
    assert_eq!(message.lines().count(), 1, "{message}");
}
