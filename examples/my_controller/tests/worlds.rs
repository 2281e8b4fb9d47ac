//! The scenario of this crate, in the worlds that this machine can run.

use std::process::{Command, Output};

use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/scenario.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_my-controller"));
    command.current_dir(env!("CARGO_TARGET_TMPDIR")); // `runs` is written here
    command.args(["run", scenario, "--json"]).args(arguments).output().unwrap()
}

/// Utilization of the bottleneck and mean packets waiting there, for each run.
fn bottlenecks(output: &Output) -> Vec<(f64, f64)> {
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let value = |run: &Value, name: &str| run["links"]["bottleneck"][name].as_f64().unwrap();
    let runs = results["runs"].as_array().unwrap().iter();
    runs.map(|run| (value(run, "utilization"), value(run, "queue_mean_packets"))).collect()
}

#[test]
fn simulated_flows_keep_the_queue_short_and_the_link_busy() {
    let output = run(&[]);
    let [(busy, queue), (_, newreno_queue)] = bottlenecks(&output)[..] else { panic!("{output:?}") };
    assert!(busy > 0.9 && queue < newreno_queue / 5.0, "busy {busy}, queue {queue}, NewReno's {newreno_queue}");
}

#[test]
fn real_packets_keep_the_queue_short_and_the_link_busy() {
    let output = run(&["--world", "emulated", "--set", "scheme=steady"]);
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        assert!(reason.contains("cannot create"), "{reason}");
        println!("SKIPPED, real packets: {reason}");
        return;
    }
    let [(busy, queue)] = bottlenecks(&output)[..] else { panic!("{output:?}") };
    // The bounds are wide: on a busy machine packets also wait for the processor, and a delay-based controller counts
    // that as a queue. The test in the simulator checks the performance. This one checks that the controller runs and
    // does not fill the buffer of about 160 packets, as a controller that ignores delay would.
    assert!(busy > 0.05 && queue < 60.0, "busy {busy}, queue {queue}");
}
