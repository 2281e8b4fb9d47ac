//! What run directories are for: `run` again, `show`, `diff` and `repeat`.

mod common;

use std::fs;
use std::process::{Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use common::{SMALL, Workspace, text};

/// Standard output of a command that succeeds.
fn succeeds(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn only_what_is_new_runs() {
    let workspace = Workspace::new("only_new");
    let run = |sets: &[&str]| {
        let output = workspace.rampmeter(&[&["run", "small.toml", "--quiet"], sets].concat());
        (succeeds(&output), text(&output.stderr))
    };
    let (first, message) = run(&[]);
    assert_eq!(message, "");
    // Two seeds are one row, with half of the 95% confidence interval.
    let lines: Vec<&str> = first.lines().collect();
    assert!(lines[0].starts_with("scheme  seeds  transfers") && lines[2].contains(" ± "), "{first}");
    fs::write(workspace.0.join("small.toml"), format!("# A comment\n{SMALL}")).unwrap();
    let (_, message) = run(&["--set", "seed=2,3"]);
    assert!(message.contains("1 of 2 runs were already finished"), "{message}");
    let (_, message) = run(&["--set", "seed=2"]);
    assert!(message.contains("have 1 points now and had 2"), "{message}");
    let (_, message) = run(&["--fresh"]);
    assert_eq!(message, "");
    assert_eq!(fs::read_dir(workspace.0.join("runs")).unwrap().count(), 1);
}

#[test]
fn show_prints_the_table_again() {
    let workspace = Workspace::new("show");
    let run = |each: &[&str]| {
        let command = ["run", "small.toml", "--quiet", "--out", "kept"];
        succeeds(&workspace.rampmeter(&[&command, each].concat()))
    };
    for each in [&[][..], &["--each"]] {
        let table = run(each);
        let shown = succeeds(&workspace.rampmeter(&[&["show", "kept"], each].concat()));
        assert!(table.starts_with(&shown) && shown.lines().count() > 2, "{shown}");
    }
    let output = workspace.rampmeter(&["show", "."]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("there is no run.json"), "{}", text(&output.stderr));
}

#[test]
fn show_and_diff_need_a_directory() {
    let workspace = Workspace::new("show_nothing");
    let output = workspace.rampmeter(&["diff", "none", "none"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).starts_with("rampmeter: none: "), "{}", text(&output.stderr));
}

#[test]
fn diff_lists_what_chance_does_not_explain() {
    let workspace = Workspace::new("diff");
    let seeds = ["--set", "seed=1,2,3"];
    let run = |out: &str| {
        let output = workspace.rampmeter(&[&["run", "small.toml", "--quiet", "--out", out], &seeds[..]].concat());
        succeeds(&output);
    };
    run("before");
    run("same");
    fs::write(workspace.0.join("small.toml"), SMALL.replace("delay = \"10 ms\"", "delay = \"40 ms\"")).unwrap();
    run("after");
    let same = succeeds(&workspace.rampmeter(&["diff", "before", "same"]));
    assert!(same.starts_with("no difference of "), "{same}");
    let output = workspace.rampmeter(&["diff", "before", "after"]);
    assert_eq!(output.status.code(), Some(1));
    let table = text(&output.stdout);
    assert!(table.lines().any(|line| line.contains("flows.fct_mean_s") && line.contains('+')), "{table}");
    let longer = ["run", "small.toml", "--quiet", "--out", "longer", "--set", "duration=3s", "--set", "seed=1"];
    succeeds(&workspace.rampmeter(&longer));
    let output = workspace.rampmeter(&["diff", "before", "longer", "--value", "flows"]);
    let wrong = "no point in common, seeds aside; only the second has the axis duration (--set)";
    assert_eq!(text(&output.stderr), format!("rampmeter: the two runs have {wrong}\n"));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn repeat_gives_equal_tables() {
    let workspace = Workspace::new("repeat");
    succeeds(&workspace.rampmeter(&["run", "small.toml", "--quiet", "--out", "kept", "--set", "seed=7"]));
    fs::remove_file(workspace.0.join("small.toml")).unwrap();
    let repeated = succeeds(&workspace.rampmeter(&["repeat", "kept"]));
    assert_eq!(repeated, "the tables of kept and kept-repeated are equal\n");
    let output = workspace.rampmeter(&["repeat", "kept", "--out", "kept"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    succeeds(&workspace.rampmeter(&["show", "kept"]));
}

#[test]
fn a_scenario_has_metrics_of_its_own() {
    let workspace = Workspace::new("metrics");
    let write = |metric: &str| {
        fs::write(workspace.0.join("small.toml"), format!("{SMALL}\n[metrics]\nwait = \"{metric}\"\n")).unwrap();
    };
    write("flows.fct_mean_s - 2 * 0.012");
    let run = ["run", "small.toml", "--set", "seed=1", "--out", "kept"];
    let table = succeeds(&workspace.rampmeter(&run));
    assert!(table.lines().next().unwrap().contains(" wait "), "{table}");
    let json = succeeds(&workspace.rampmeter(&[&run[..], &["--json"]].concat()));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let [wait, fct] =
        ["/runs/0/metrics/wait", "/runs/0/flows/fct_mean_s"].map(|path| json.pointer(path).unwrap().as_f64());
    assert!((fct.unwrap() - wait.unwrap() - 0.024).abs() < 1e-12, "{json}");
    write("flows.fct_man_s");
    let output = workspace.rampmeter(&run);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    let line = SMALL.lines().count() + 3;
    assert!(message.contains(&format!("small.toml:{line}: the metric `wait`: no value is called")), "{message}");
    assert!(message.contains("did you mean `flows.fct_mean_s`"), "{message}");
    let named = format!("{SMALL}\n[metrics]\nscheme = \"flows.fct_mean_s\"\n");
    fs::write(workspace.0.join("small.toml"), named).unwrap();
    let message = text(&workspace.rampmeter(&run).stderr);
    assert!(message.contains("the metric `scheme`: an axis has this name"), "{message}");
}

#[test]
fn metrics_name_shares_and_axes() {
    let workspace = Workspace::new("shares");
    let bulk = SMALL.replace("scheme = [\"tcp\"]", "cubics = [1, 3]").replace("seed = [1, 2]", "seed = [1]");
    let bulk = bulk.replace("size = \"100 kB\"\narrivals = { per_second = 4 }", "arrivals = { count = 1 }");
    let cubic = "[[traffic]]\nname = \"rival\"\nscheme = \"cubic\"\nfrom = \"source\"\nto = \"sink\"\n\
                 arrivals = { count = \"$cubics\" }\n[scheme.cubic]\ncontroller = \"cubic\"\n[metrics]\n\
                 fair = \"share(tcp) / (1/(1+$cubics))\"\nrest = \"1 - share(rival)\"\nn = \"$cubics\"\n";
    fs::write(workspace.0.join("small.toml"), bulk.replace("\"$scheme\"", "\"tcp\"") + cubic).unwrap();
    let json = succeeds(&workspace.rampmeter(&["run", "small.toml", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    for (run, cubics) in json["runs"].as_array().unwrap().iter().zip([1.0, 3.0]) {
        let value = |path: &str| run.pointer(path).and_then(serde_json::Value::as_f64).unwrap();
        let share = value("/traffic/transfers/goodput_sum_bps") / value("/flows/goodput_sum_bps");
        assert_eq!((value("/metrics/n"), value("/metrics/fair")), (cubics, share / (1.0 / (1.0 + cubics))));
        assert!((value("/metrics/rest") - share).abs() < 1e-9 && share > 0.1, "{run}");
    }
}

#[test]
fn a_run_of_few_round_trips_is_announced() {
    let workspace = Workspace::new("short");
    let bulk = SMALL.replace("size = \"100 kB\"\narrivals = { per_second = 4 }", "arrivals = { count = 1 }");
    fs::write(workspace.0.join("small.toml"), bulk).unwrap();
    let warnings = |set: &str| {
        let output = workspace.rampmeter(&["run", "small.toml", "--quiet", "--set", set]);
        assert!(output.status.success());
        text(&output.stderr)
    };
    assert_eq!(warnings("duration=240ms"), "");
    let warning = warnings("duration=230ms");
    assert!(warning.starts_with("rampmeter: 230 ms are measured at "), "{warning}");
    let reason = "fewer than ten round trips (24 ms) of source.0 > sink.0, so results show how flows start";
    assert!(warning.ends_with(&format!("{reason}; make `duration` at least 240 ms\n")), "{warning}");
}

#[test]
fn run_json_has_all_settings_and_show_those_that_were_changed() {
    let workspace = Workspace::new("settings");
    let axis = SMALL.replace("seed = [1, 2]", "seed = [1]\nfirst = [10, 4]");
    let own = "controller = \"newreno\"\nsettings = { initial_window = \"$first\" }\ntransport = { min_rto = \"1 s\" }";
    fs::write(workspace.0.join("small.toml"), axis.replace("controller = \"newreno\"", own)).unwrap();
    succeeds(&workspace.rampmeter(&["run", "small.toml", "--quiet", "--out", "kept"]));
    let json: serde_json::Value =
        serde_json::from_slice(&fs::read(workspace.0.join("kept/run.json")).unwrap()).unwrap();
    let scheme = &json["schemes"]["tcp"];
    assert_eq!((&scheme["controller"], &scheme["macroflow"]), (&"newreno".into(), &"flow".into()), "{scheme}");
    assert_eq!(scheme["settings"]["initial_window"]["varies"], serde_json::json!([10, 4]));
    assert_eq!((&scheme["transport"]["packet"], &scheme["transport"]["min_rto"]), (&"1.25 kB".into(), &"1 s".into()));
    let shown = succeeds(&workspace.rampmeter(&["show", "kept"]));
    let changed: Vec<&str> = shown.lines().skip_while(|line| !line.starts_with("scheme  setting")).skip(2).collect();
    let words = |line: &&str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = ["tcp settings.initial_window 10, 4 10", "tcp transport.min_rto 1 s 200 ms"];
    assert_eq!(changed.iter().map(words).collect::<Vec<_>>(), expected, "{shown}");
}

#[test]
fn a_second_command_in_a_directory_names_the_first() {
    let workspace = Workspace::new("locked");
    let long =
        SMALL.replace("duration = \"3 s\"", "duration = \"20000 s\"").replace("per_second = 4", "per_second = 40");
    fs::write(workspace.0.join("small.toml"), long).unwrap();
    let run = ["run", "small.toml", "--quiet", "--out", "kept"];
    let mut first = workspace.command(&run).stderr(Stdio::null()).spawn().unwrap();
    while !workspace.0.join("kept/run.json").exists() {
        sleep(Duration::from_millis(5));
    }
    let second = workspace.rampmeter(&run);
    first.kill().unwrap(); // SIGKILL
    first.wait().unwrap();
    let message = text(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{message}");
    assert!(message.starts_with(&format!("rampmeter: kept belongs to process {} since 2", first.id())), "{message}");
    assert!(message.contains("rampmeter run small.toml --quiet --out kept`)"), "{message}");
    assert!(message.ends_with("`flock kept/lock true`, or give another directory with --out\n"), "{message}");
    fs::write(workspace.0.join("small.toml"), SMALL).unwrap();
    succeeds(&workspace.rampmeter(&run));
}
