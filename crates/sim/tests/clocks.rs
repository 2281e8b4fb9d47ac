//! Hosts whose clocks differ.

mod common;

use common::Dumbbell;
use rampmeter_scenario::Outcome;
use rampmeter_sim::{Simulated, World};
use rampmeter_transport::Clock;
use rampmeter_units::Duration;

/// Four flows and transfers of 100 kB, each host with the clock that `clock_of` its number has.
fn run(controller: &str, clock_of: impl Fn(usize) -> Clock) -> Outcome {
    let scheme: &'static str = format!("controller = \"{controller}\"").leak();
    let bottleneck = r#"rate = "20 Mb/s", delay = "8 ms", router = { kind = "drop-tail", packets = 40 }"#;
    let traffic = r#"size = "100 kB", arrivals = { load = 0.9, of = "bottleneck" }"#;
    let mut plan = Dumbbell { duration: "10 s", hosts: 4, bottleneck, scheme, traffic, ..Dumbbell::default() }.plan();
    for (number, node) in plan.nodes.iter_mut().filter(|node| node.is_host).enumerate() {
        node.clock = clock_of(number);
    }
    Simulated.run(&plan).expect("the plan runs")
}

/// The controller and the transport use differences of times only, so nothing changes that true time shows.
#[test]
fn offsets_do_not_change_schemes_that_ignore_absolute_time() {
    let offset = |number: usize| Duration::from_millis(1 + 977 * number as u64);
    for controller in ["cubic", "newreno", "bbr", "prague"] {
        let equal = run(controller, |_| Clock::default());
        let differ = run(controller, |number| Clock { offset: offset(number), ..Clock::default() });
        assert_eq!(format!("{equal:?}"), format!("{differ:?}"), "{controller}");
        assert!(equal.flows.len() > 100 && equal.flows.iter().all(|flow| flow.fct.is_some()));
    }
}

/// A delayed acknowledgement, a retransmission and CUBIC's growth wait a tenth longer, so times change a little.
#[test]
fn clocks_that_drift_change_timers() {
    let [exact, slow] = [0, -100_000].map(|drift_ppm| {
        let outcome = run("cubic", |_| Clock { drift_ppm, ..Clock::default() });
        assert!(outcome.flows.iter().all(|flow| flow.fct.is_some()), "every transfer completes");
        outcome
    });
    assert_ne!(format!("{:?}", exact.flows), format!("{:?}", slow.flows));
}

/// Drains by the clock need clocks that agree. Flows whose clocks differ take each other for competing traffic: they lose
/// up to half more packets than flows of CUBIC.
#[test]
fn pcp_flows_whose_clocks_differ_lose_half_more_at_most() {
    let bottleneck = r#"rate = "40 Mb/s", delay = "8 ms", router = { kind = "drop-tail", packets = 100 }"#;
    let traffic = r#"arrivals = { count = 40, spread = "10 s" }, pairs = "any""#;
    let (duration, warmup) = ("60 s", "30 s");
    let [pcp, cubic] = ["pcp", "cubic"].map(|controller| {
        let scheme = &format!("controller = \"{controller}\"");
        let dumbbell = Dumbbell { duration, warmup, hosts: 40, bottleneck, scheme, traffic, ..Dumbbell::default() };
        let mut plan = dumbbell.plan();
        for (number, node) in plan.nodes.iter_mut().enumerate() {
            node.clock.offset = Duration::from_millis(377 * number as u64);
        }
        let link = &Simulated.run(&plan).expect("the plan runs").links[0];
        assert!(link.utilization > 0.95, "{controller}: {}", link.utilization);
        link.counts.dropped as f64 / link.counts.offered as f64
    });
    assert!(pcp < cubic * 1.5, "{pcp} instead of {cubic}");
}
