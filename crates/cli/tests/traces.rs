//! `rampmeter run --trace`: the files, and what is said where they are not what was asked for.

mod common;

use std::fs;

use common::{Workspace, text};

fn names(workspace: &Workspace, directory: &str) -> Vec<String> {
    let files = fs::read_dir(workspace.0.join(directory)).unwrap();
    let mut names: Vec<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn each_run_has_a_directory_of_traces() {
    let workspace = Workspace::new("traces");
    let output = workspace.stdout(&["run", "small.toml", "--quiet", "--trace", "t", "--trace-flow", "1"]);
    assert!(output.ends_with("traces: t\n"), "{output}");
    assert_eq!(names(&workspace, "t"), ["scheme=tcp,seed=1", "scheme=tcp,seed=2"]);
    let files = names(&workspace, "t/scheme=tcp,seed=2");
    assert_eq!(files, ["1-transfers.client.qlog", "1-transfers.server.qlog", "bottleneck.pcapng"]);
    let log = fs::read_to_string(workspace.0.join("t/scheme=tcp,seed=2/1-transfers.client.qlog")).unwrap();
    assert!(log.contains("quic:packet_sent") && log.contains("scheme tcp; scheme = "), "{}", &log[..600]);
    assert!(log.contains("rampmeter:stream_opened") && log.contains("\"offset\":0,\"length\":100000"));
    let log = fs::read_to_string(workspace.0.join("t/scheme=tcp,seed=2/1-transfers.server.qlog")).unwrap();
    assert!(log.contains("rampmeter:message_received") && log.contains("rampmeter:transfer_completed"));
    // Finished runs are repeated, as there is no trace without a run.
    fs::remove_dir_all(workspace.0.join("t")).unwrap();
    workspace.rampmeter(&["run", "small.toml", "--quiet", "--trace", "t"]);
    assert!(names(&workspace, "t/scheme=tcp,seed=1").contains(&"0-transfers.client.qlog".to_owned()));
}

#[test]
fn an_unknown_flow_or_link_is_one_line_with_those_that_exist() {
    let workspace = Workspace::new("traces_unknown");
    for (option, name, problem) in [
        ("--trace-flow", "video", "no traffic is called `video`; there is transfers"),
        ("--trace-flow", "transfer", "no traffic is called `transfer`; did you mean `transfers`?"),
        ("--trace-flow", "99", "the flows at scheme = \"tcp\", seed = 1 are 0 to "),
        ("--trace-link", "bottlneck", "no link is called `bottlneck`; did you mean `bottleneck`?"),
    ] {
        let run = ["run", "small.toml", "--quiet", "--out", "o", "--trace", "t", option, name];
        let output = workspace.rampmeter(&run);
        let errors = text(&output.stderr);
        assert!(errors.starts_with(&format!("rampmeter: {option} {name}: {problem}")), "{errors}");
        assert_eq!((output.status.code(), errors.trim_end().lines().count()), (Some(2), 1), "{errors}");
        assert!(!workspace.0.join("o").exists() && !workspace.0.join("t").exists());
    }
}

#[test]
fn a_trace_that_is_cut_is_announced_and_tables_are_whole() {
    let workspace = Workspace::new("traces_cut");
    let whole = workspace.rampmeter(&["run", "small.toml", "--quiet", "--json"]);
    let output =
        workspace.rampmeter(&["run", "small.toml", "--quiet", "--json", "--trace", "t", "--trace-limit", "50 kB"]);
    assert!(text(&output.stderr).contains("it has reached --trace-limit 50 kB"), "{}", text(&output.stderr));
    let runs = |output: &[u8]| {
        let mut json: serde_json::Value = serde_json::from_slice(output).unwrap();
        json["runs"].as_array_mut().unwrap().iter_mut().for_each(|run| run["wall_s"] = 0.into());
        json
    };
    assert_eq!(runs(&output.stdout), runs(&whole.stdout));
}

#[test]
fn a_series_has_a_row_for_each_acknowledgement() {
    let workspace = Workspace::new("traces_series");
    let run = |directory: &str, series: &str| {
        let arguments = ["run", "small.toml", "--quiet", "--seed", "1", "--trace", directory, "--series", series];
        workspace.stdout(&arguments);
        let place = workspace.0.join(directory).join("scheme=tcp,seed=1");
        fs::read(place.join("0-transfers.client.parquet")).unwrap()
    };
    let (all, few) = (run("all", "ack"), run("few", "100ms"));
    assert!(all.starts_with(b"PAR1") && all.len() > few.len(), "{} and {}", all.len(), few.len());
    assert!(!names(&workspace, "all/scheme=tcp,seed=1").iter().any(|name| name.ends_with("server.parquet")));
    let output = workspace.rampmeter(&["run", "small.toml", "--trace", "t", "--series", "often"]);
    assert!(!output.status.success() && text(&output.stderr).contains("write ack, or an interval such as 10ms"));
}
