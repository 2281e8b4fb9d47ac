//! Scenarios for tests, and a guard for tests that need abilities of the machine.

use std::sync::{Mutex, PoisonError};

use rampmeter_linux::{Emulated, probe};
use rampmeter_scenario::{Outcome, Plan, Scenario, World, WorldError};

/// The plan of a scenario at its first point.
pub(crate) fn plan(text: &str) -> Plan {
    let scenario = Scenario::parse("test.toml", text).unwrap();
    scenario.plan(&scenario.points()[0], &rampmeter_stacks::registries()).unwrap()
}

/// Two hosts over one link and back: `rate` (40 Mb/s) with a queue of 100 kB and a round trip of 20 ms.
pub(crate) fn path(rest: &str) -> Plan {
    let path = r#"
        packet = "1250 B"
        hosts = [
            { name = "source", count = 2, at = "left", rate = "unlimited", delay = "0 ms" },
            { name = "sink", count = 2, at = "right", rate = "unlimited", delay = "0 ms" },
        ]
        [[link]]
        name = "bottleneck"
        between = ["left", "right"]
        rate = "40 Mb/s"
        delay = "10 ms"
        router = { kind = "drop-tail", bytes = "100 kB" }
        measure = true
    "#;
    // Top-level keys come first.
    let at = rest.find('[').unwrap();
    plan(&format!("{}{path}{}", &rest[..at], &rest[at..]))
}

/// The outcome. If this machine cannot run the test called `name`, prints the reason and returns `None`.
pub(crate) fn run(name: &str, plan: &Plan) -> Option<Outcome> {
    match try_run(plan) {
        Ok(outcome) => Some(outcome),
        Err(error) => match probe().emulation() {
            Err(reason) => {
                eprintln!("skipped {name}: {reason}");
                None
            }
            Ok(()) => panic!("{error}"),
        },
    }
}

/// The outcome. Only one run executes at a time, because two would disturb each other's timing.
pub(crate) fn try_run(plan: &Plan) -> Result<Outcome, WorldError> {
    static ONE: Mutex<()> = Mutex::new(());
    let _alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    Emulated::default().run(plan)
}
