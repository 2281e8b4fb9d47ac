//! The scenario of this crate, in the worlds that this machine can run, and the evaluation of its controller.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
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

/// A `cargo` that has built this crate's program already: it checks its arguments and runs that.
const BUILT: &str = r#"#!/bin/sh
[ "$1 $2 $3 $4 $5 $6" = "run --release --quiet --manifest-path $CRATE/Cargo.toml --" ] || exit 9
shift 6
CARGO_MANIFEST_DIR=$CRATE exec "$PROGRAM" "$@"
"#;

#[test]
fn evaluate_runs_a_crate_by_cargo_and_finds_its_controller() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("evaluate");
    std::fs::create_dir_all(&directory).unwrap();
    let cargo = directory.join("cargo");
    std::fs::write(&cargo, BUILT).unwrap();
    std::fs::set_permissions(&cargo, Permissions::from_mode(0o755)).unwrap();
    let (program, package) = (env!("CARGO_BIN_EXE_my-controller"), env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(program);
    command.args(["evaluate", "--crate", package, "--quick", "--only", "start-loss", "--seeds", "1"]);
    command.args(["--against", "newreno", "--json", "--out"]).arg(&directory);
    command.env("PATH", &directory).env("PROGRAM", program).env("CRATE", package);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let questions: Vec<&Value> = result["evaluation"]["sections"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|section| section["questions"].as_array().unwrap())
        .collect();
    let [question] = questions[..] else { panic!("{questions:?}") };
    let schemes: Vec<&Value> = question["answers"].as_array().unwrap().iter().map(|answer| &answer["scheme"]).collect();
    assert_eq!(schemes, ["steady", "newreno"]);
    let page = std::fs::read_to_string(directory.join("index.html")).unwrap();
    assert!(page.contains(&format!("cargo run --release --quiet --manifest-path {package}/Cargo.toml -- run")));
}
