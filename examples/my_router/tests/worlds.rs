//! The scenario of this crate, in the worlds that this machine can run.

use std::process::{Command, Output};

use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/scenario.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_my-router"));
    command.current_dir(env!("CARGO_TARGET_TMPDIR")); // `runs` is written here
    command.args(["run", scenario, "--json"]).args(arguments).output().unwrap()
}

/// Utilization of the bottleneck, mean packets waiting there and the fraction of packets marked, for each run.
fn bottlenecks(output: &Output) -> Vec<[f64; 3]> {
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let value = |run: &Value, name: &str| run["links"]["bottleneck"][name].as_f64().unwrap();
    let runs = results["runs"].as_array().unwrap().iter();
    runs.map(|run| ["utilization", "queue_mean_packets", "mark_rate"].map(|name| value(run, name))).collect()
}

#[test]
fn simulated_packets_are_marked_and_the_queue_is_short() {
    let output = run(&[]);
    let [[busy, queue, marks], [_, drop_tail_queue, _]] = bottlenecks(&output)[..] else { panic!("{output:?}") };
    assert!(busy > 0.85 && marks > 0.0 && queue < drop_tail_queue / 5.0, "busy {busy}, queue {queue}, marks {marks}");
}

#[test]
fn real_packets_are_marked_and_the_queue_is_short() {
    let output = run(&["--world", "emulated", "--set", "router=step"]);
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        assert!(reason.contains("cannot create"), "{reason}");
        println!("SKIPPED, real packets: {reason}");
        return;
    }
    let [[busy, queue, marks]] = bottlenecks(&output)[..] else { panic!("{output:?}") };
    // The bounds are wide, because a busy machine delays real packets. The test in the simulator checks the
    // performance.
    assert!(busy > 0.05 && queue < 60.0 && marks > 0.0, "busy {busy}, queue {queue}, marks {marks}");
}

#[test]
fn a_wrong_setting_is_refused_with_its_line_and_a_remedy() {
    let output = run(&["--set", "router=stepp"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("scenario.toml:13: no router is called `stepp`; did you mean `step`?"), "{error}");
}
