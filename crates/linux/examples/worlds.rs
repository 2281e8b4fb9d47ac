//! Runs one point of a scenario in both worlds and prints them side by side: `worlds FILE.toml [AXIS=VALUES]...`.
//!
//! `worlds --probe` prints the abilities of this machine.

use std::fmt::Write;
use std::process::ExitCode;

use rampmeter_linux::{Emulated, enter_user_namespace, probe};
use rampmeter_scenario::{Outcome, Plan, Registries, Scenario, World, WorldError, values};
use rampmeter_sim::Simulated;

fn main() -> ExitCode {
    let _ = enter_user_namespace();
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().unwrap_or_else(|| "--probe".into());
    if file == "--probe" {
        println!("{}", probe());
        return ExitCode::SUCCESS;
    }
    let mut scenario = Scenario::read(&file).unwrap_or_else(|error| panic!("{error}"));
    for argument in arguments {
        let (axis, list) = argument.split_once('=').expect("AXIS=VALUES");
        scenario.set(axis, values(list)).unwrap_or_else(|error| panic!("{error}"));
    }
    let registries = Registries::default();
    for point in scenario.points() {
        let plan = scenario.plan(&point, &registries).unwrap_or_else(|error| panic!("{error}"));
        let worlds: [&dyn World; 2] = [&Simulated, &Emulated::default()];
        for world in worlds {
            match world.run(&plan) {
                Ok(outcome) => println!("{:<40} {:<9} {}", point.to_string(), world.name(), line(&plan, &outcome)),
                Err(WorldError::Unsupported { .. }) => {}
                Err(error) => {
                    eprintln!("{}: {error}", world.name());
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    ExitCode::SUCCESS
}

/// Flow completion times, queue and loss in one line.
fn line(plan: &Plan, outcome: &Outcome) -> String {
    let warmup = plan.warmup;
    let counted = outcome.flows.iter().filter(|flow| flow.start.since(rampmeter_units::Time::ZERO) >= warmup);
    let mut fcts: Vec<f64> = counted.clone().filter_map(|flow| flow.fct).map(|fct| fct.as_secs_f64() * 1e3).collect();
    fcts.sort_by(f64::total_cmp);
    let mean = fcts.iter().sum::<f64>() / fcts.len().max(1) as f64;
    let quantile = |q: f64| fcts.get((fcts.len() as f64 * q) as usize).copied().unwrap_or_default();
    let goodput: u64 = outcome.flows.iter().map(|flow| flow.delivered_measured.as_u64() * 8).sum();
    let mut line = format!(
        "flows {}/{} FCT ms mean {mean:.2} p10 {:.2} p50 {:.2} p90 {:.2} goodput {:.2} Mb/s",
        fcts.len(),
        counted.count(),
        quantile(0.1),
        quantile(0.5),
        quantile(0.9),
        goodput as f64 / plan.measured().as_secs_f64() / 1e6
    );
    let sent: u64 = outcome.flows.iter().map(|flow| flow.sent_packets).sum();
    let again: u64 = outcome.flows.iter().map(|flow| flow.retransmitted_packets).sum();
    let _ = write!(line, " sent {sent} retransmitted {again} delivered {}", outcome.data_packets);
    for link in outcome.links.iter().take(1) {
        let (queue, counts) = (link.queue, link.counts);
        let _ = write!(
            line,
            " queue {:.2}/{}/{} dropped {}/{} utilization {:.3}",
            queue.mean_packets, queue.p90_packets, queue.max_packets, counts.dropped, counts.offered, link.utilization
        );
    }
    if let Some(late) = outcome.host_jitter {
        let _ = write!(line, " late {} {} {}", late.p50, late.p99, late.max);
    }
    line
}
