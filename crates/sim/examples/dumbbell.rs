//! Measures the speed of the simulator with one run of `studies/bench/dumbbell.toml`.
//!
//! ```text
//! cargo run --release -p rampmeter-sim --example dumbbell -- [FILE.toml] [flows=30] [rate='"150 Mb/s"'] [duration='"60 s"']
//! ```
//!
//! Data packets are counted at their receivers. Reading and planning are not timed.

use std::time::Instant;

use rampmeter_scenario::{Outcome, Registries, Run, Scenario, Schema, Summary, World, values};
use rampmeter_sim::Simulated;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/bench/dumbbell.toml");
    let registries = Registries::default();
    let (settings, files): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|argument| argument.contains('='));
    let mut scenario = Scenario::read(files.first().map_or(file, String::as_str))?;
    for (axis, value) in settings.iter().filter_map(|setting| setting.split_once('=')) {
        scenario.set(axis, values(value))?;
    }
    for point in scenario.points() {
        let plan = scenario.plan(&point, &registries)?;
        let start = Instant::now();
        let outcome = Simulated.run(&plan)?;
        let wall = start.elapsed().as_secs_f64();
        let fingerprint = fingerprint(&outcome);
        let run = Run { plan, outcome, world: Simulated.name(), wall_s: wall };
        let summary = Summary::of(&Schema::default(), &run);
        println!("{point}");
        for (name, link) in &summary.links {
            let metric = |name| link.number(name).unwrap_or_default();
            let (utilization, queue, drops) =
                (metric("utilization"), metric("queue_mean_packets"), metric("drop_rate"));
            println!("  {name}: utilization {utilization:.4}, mean queue {queue:.1} packets, drop rate {drops:.5}");
        }
        let packets = run.outcome.data_packets as f64;
        println!(
            "  {} data packets in {wall:.3} s: {:.3} M/s, {:.0} ns each",
            packets,
            packets / wall / 1e6,
            wall * 1e9 / packets
        );
        println!("  peak memory {}; outcome {:016x}, the same in every build", peak_memory(), fingerprint);
    }
    Ok(())
}

/// FNV-1a over the whole outcome.
fn fingerprint(outcome: &Outcome) -> u64 {
    let text = format!("{outcome:?}");
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("unknown").trim().to_owned()
}
