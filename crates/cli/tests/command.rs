//! Tests of the command line.

mod common;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{RAMPMETER, SMALL, Workspace, text};

#[test]
fn invalid_input_gives_one_line_and_exit_code_2() {
    let workspace = Workspace::new("bad_input");
    std::fs::create_dir(workspace.0.join("empty")).unwrap();
    let wrong = [("key.toml", "delay = \"10 ms\"", "dellay = \"10 ms\""), ("rate.toml", "40 Mb/s", "40 mbps")];
    for (file, right, wrong) in wrong {
        std::fs::write(workspace.0.join(file), SMALL.replacen(right, wrong, 1)).unwrap();
    }
    let model = "{ model = \"docsis\", mean = \"40 Mb/s\", map = \"50 ms\" }";
    std::fs::write(workspace.0.join("model.toml"), SMALL.replacen("\"40 Mb/s\"", model, 1)).unwrap();
    let bucket = "{ model = \"token-bucket\", mean = \"40 Mb/s\" }";
    std::fs::write(workspace.0.join("bucket.toml"), SMALL.replacen("\"40 Mb/s\"", bucket, 1)).unwrap();
    for (arguments, expected) in [
        (&["run", "key.toml"][..], "key.toml:17: "),
        (&["run", "rate.toml"], "rate.toml:16: "),
        (&["run", "missing.toml"], "missing.toml: cannot be read"),
        (&["run", "small.toml", "--set", "scheme"], "--set load=0.3,0.6"),
        (&["run", "small.toml", "--set", "scheme=tpc"], "did you mean `tcp`"),
        (&["run", "small.toml", "--set", "lode=1"], "--set lode: no axis or key is called `lode`"),
        (&["run", "small.toml", "--world", "real"], "there are simulated and emulated"),
        (&["run", "small.toml", "--set", "=1"], "--set load=0.3,0.6"),
        (&["capacity", "bucket.toml"], "link `bottleneck` is a token bucket, whose capacity depends on what was sent"),
        (&["capacity", "small.toml", "--set", "seed=1,2"], "axis `seed` has 2 values, and this command uses one"),
        (&["emulate", "small.toml", "--left", "true", "--set", "seed=3,4"], "write for example --set seed=3"),
        (
            &["run", "lte-walking", "--set", "scheme=bbrv3"],
            "lte-walking: no controller is called `bbrv3`; did you mean",
        ),
        (&["conditions", "wifi-hom"], "no condition or group is called `wifi-hom`; did you mean `wifi-home`?"),
        (&["conditions", "mars"], "the groups are access, wifi, cellular"),
        (
            &["capacity", "small.toml", "--link", "botleneck"],
            "no link is called `botleneck`; did you mean `bottleneck`?",
        ),
        (&["capacity", "model.toml", "--length", "7200 s"], "use up to 600 s, or --out FILE"),
        (&["capacity", "model.toml", "--out", "x", "--length", "2 ms"], "the trace is empty"),
        (
            &["capacity", "model.toml", "--out", "x", "--length", "4000000 s"],
            "use at most 10000000: a shorter --length",
        ),
        (&["claims", "--studies", "nowhere"], "name the directory of the studies with --studies"),
        (&["claims", "--studies", "empty"], "empty: no directory in it has a claims.toml"),
        (&["get", "not-an-address"], "HOST:PORT/NAME"),
        (&["serve", "no/such/directory"], "no/such/directory"),
        (&["serve", ".", "--controller", "fixed-rate"], "cannot be used here: it needs settings"),
        (&["cm", "daemon", "--controller", "fixed-rate"], "cannot be used here: it needs settings"),
        (&["cm", "daemon", "--controller", "fixd-rate"], "fair-share, fast, hstcp"),
        (&["serve", ".", "--timeout", "2"], "for '--timeout <TIME>': "),
        (&["serve", ".", "--listen", "localhost"], "write for example 127.0.0.1:7267"),
        (&["run", "small.toml", "--jobs", "0"], "a whole number of at least 1"),
        (&["serve", ".", "--log", "loud"], "possible values: off, error, warn"),
        (&["get"], "<URL>...; usage: rampmeter get <URL>..."),
        (&["get", "--frsh", "h:1/x"], "--fresh"),
        (&["get", "h:1/directory/"], "rsync through a tunnel copies directories"),
        (&["srve"], "serve"),
        (&["key", "."], "give a file that this user may use"),
        (&["get", "127.0.0.1:1/x", "--identity", "small.toml"], ": this is no secret key"),
    ] {
        let output = workspace.rampmeter(arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(expected), "{arguments:?}: {message}");
        assert!(message.starts_with("rampmeter: "), "{arguments:?}: {message}");
        assert_eq!(message.lines().count(), 1, "{arguments:?}: {message}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
    }
}

#[test]
fn a_model_written_as_a_trace_has_the_same_capacity() {
    let workspace = Workspace::new("capacity");
    let with_rate = |name: &str, rate: &str| {
        std::fs::write(workspace.0.join(name), SMALL.replacen("\"40 Mb/s\"", rate, 1)).unwrap();
    };
    with_rate("model.toml", "{ model = \"wifi\", mean = \"40 Mb/s\" }");
    with_rate("trace.toml", "{ trace = \"written.trace\" }");
    workspace.stdout(&["capacity", "model.toml", "--out", "written.trace", "--length", "20 s"]);
    let drawn = |arguments: &[&str]| {
        let output = workspace.stdout(&[&["capacity", "--length", "20 s"], arguments].concat());
        output.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let model = drawn(&["model.toml"]);
    assert_eq!(model[1..], drawn(&["trace.toml"])[1..]);
    assert!(model[0].starts_with("bottleneck: 40 Mb/s on average, "), "{model:?}");
    assert_ne!(model, drawn(&["model.toml", "--seed", "2"]));
    assert_ne!(model[1..], drawn(&["model.toml", "--link", "bottleneck.reverse"])[1..]);
}

#[test]
fn a_trace_of_a_constant_rate_has_its_changes() {
    let workspace = Workspace::new("constant_trace");
    let changes = "rate = \"12 Mb/s\"\nchanges = [{ at = \"5 ms\", rate = \"24 Mb/s\" }]";
    std::fs::write(workspace.0.join("steps.toml"), SMALL.replacen("rate = \"40 Mb/s\"", changes, 1)).unwrap();
    workspace.stdout(&["capacity", "steps.toml", "--out", "steps.trace", "--length", "9 ms"]);
    let trace = std::fs::read_to_string(workspace.0.join("steps.trace")).unwrap();
    // A packet of 1500 bytes takes 1 ms at 12 Mb/s.
    assert_eq!(trace, "1\n2\n3\n4\n5\n6\n6\n7\n7\n8\n8\n");
    let unwritable = workspace.rampmeter(&["capacity", "steps.toml", "--out", "nowhere/steps.trace"]);
    let message = text(&unwritable.stderr);
    assert!(message.starts_with("rampmeter: nowhere/steps.trace cannot be written: "), "{message}");
}

#[test]
fn conditions_are_listed_by_group_and_from_files() {
    let workspace = Workspace::new("conditions");
    let listed = |arguments: &[&str]| workspace.stdout(&[&["conditions"], arguments].concat());
    let names = |list: &str| {
        list.lines().skip(2).filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(names(&listed(&["satellite"]))[..2], ["satellite", "starlink"]);
    let all = names(&listed(&[]));
    assert!(all.contains(&"wifi".to_owned()) && all.contains(&"wifi-home".to_owned()), "{all:?}");
    std::fs::write(workspace.0.join("mine.toml"), listed(&["geo"])).unwrap();
    assert_eq!(names(&listed(&["mine.toml"])), ["satellite", "mine.toml"]);
    assert!(listed(&["satellite", "--json"]).contains("\"geo-inflight\""));
    workspace.stdout(&["run", "mine.toml", "--set", "scheme=cubic"]);
}

#[test]
fn manual_writes_a_page_and_completions_for_each_command() {
    let workspace = Workspace::new("manual");
    workspace.stdout(&["manual", "share"]);
    let read = |path: &str| std::fs::read_to_string(workspace.0.join("share").join(path)).unwrap();
    assert!(read("man/man1/rampmeter-run.1").contains("simulated, or emulated"));
    assert!(read("man/man1/rampmeter-cm-daemon.1").contains("scheduler"));
    for completions in ["bash-completion/completions/rampmeter", "zsh/site-functions/_rampmeter"] {
        assert!(read(completions).contains("--world"), "{completions}");
    }
    assert!(read("fish/vendor_completions.d/rampmeter.fish").contains("-l world"));
}

#[test]
fn unwritable_output_is_an_error_and_a_closed_pipe_is_none() {
    let run = |out: Stdio| Command::new(RAMPMETER).arg("routers").stdout(out).stderr(Stdio::piped()).output().unwrap();
    let full = run(File::options().write(true).open("/dev/full").unwrap().into());
    let message = text(&full.stderr);
    assert_eq!(full.status.code(), Some(1), "{message}");
    assert!(
        message.starts_with("rampmeter: standard output cannot be written: ") && message.lines().count() == 1,
        "{message}"
    );

    let (writer, _) = UnixStream::pair().unwrap();
    let gone = run(OwnedFd::from(writer).into());
    assert_eq!((gone.status.code(), text(&gone.stderr).as_str()), (Some(141), ""));
}

#[test]
fn a_missing_server_is_an_error_of_one_line() {
    let workspace = Workspace::new("no_server");
    let output = workspace.rampmeter(&["get", "127.0.0.1:9/file"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr).lines().count(), 1);
}

#[test]
fn a_key_is_made_once() {
    let workspace = Workspace::new("key");
    let made = workspace.rampmeter(&["key"]);
    assert!(text(&made.stderr).contains("rampmeter/key"), "{}", text(&made.stderr));
    assert_eq!(text(&made.stdout).trim_end().len(), 43);
    let again = workspace.rampmeter(&["key"]);
    assert_eq!((text(&again.stdout), text(&again.stderr)), (text(&made.stdout), String::new()));
    std::fs::write(workspace.0.join("wrong"), "x").unwrap();
    let wrong = workspace.rampmeter(&["key", "wrong"]);
    assert_eq!((wrong.status.code(), text(&wrong.stderr).lines().count()), (Some(2), 1), "{}", text(&wrong.stderr));
}

#[test]
fn standard_output_has_only_the_json_with_every_value() {
    let workspace = Workspace::new("json");
    let output = workspace.stdout(&["run", "small.toml", "--seed", "7", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&output).unwrap();
    let run = &value["runs"][0];
    assert_eq!(run["point"], serde_json::json!({ "scheme": "tcp", "seed": 7 }));
    assert_eq!(run["world"], "simulated");
    for column in ["completed", "unfinished", "fct_mean_s", "fct_sd_s", "fct_p50_s", "fct_p99_s"] {
        assert!(run["flows"][column].is_number(), "{column}: {run}");
    }
    let link = &run["links"]["bottleneck"];
    for column in ["utilization", "drop_rate", "mark_rate", "data_mark_rate"] {
        assert!(link[column].is_number(), "{column}: {run}");
    }
    for column in ["mean_packets", "mean_bytes", "sd_bytes", "p90_packets", "p99_packets", "max_packets"] {
        assert!(link[format!("queue_{column}")].is_number(), "{column}: {run}");
    }
    assert!(run["data_packets"].as_u64().unwrap() > 100 && run["wall_s"].is_number());
}

#[test]
fn a_sweep_without_possible_runs_fails_with_the_reason() {
    let workspace = Workspace::new("all_skipped");
    let both = SMALL.replace("[\"tcp\"]", "[\"tcp\", \"linux\"]") + "[scheme.linux]\nkernel = \"cubic\"\n";
    std::fs::write(workspace.0.join("both.toml"), both).unwrap();
    let some = workspace.rampmeter(&["run", "both.toml"]);
    assert!(
        some.status.success() && text(&some.stderr).contains("skipped scheme = \"linux\""),
        "{}",
        text(&some.stderr)
    );
    let reason = "any of the 2 points, for the reasons above";
    for (format, end) in
        [(&[][..], format!("{reason}\n")), (&["--json"][..], format!("{reason}\",\"exit_code\":1}}\n"))]
    {
        let none = workspace.rampmeter(&[&["run", "both.toml", "--set", "scheme=linux"], format].concat());
        let message = text(&none.stderr);
        assert_eq!((none.status.code(), text(&none.stdout)), (Some(1), String::new()), "{message}");
        assert!(message.contains("--world emulated") && message.ends_with(&end), "{message}");
    }
}

#[test]
fn marks_are_shown_only_if_a_link_marks() {
    let workspace = Workspace::new("marks");
    let marking = SMALL.replace("drop-tail", "virtual-queue").replace("\"newreno\"", "\"stable\"");
    std::fs::write(workspace.0.join("marking.toml"), marking).unwrap();
    for (file, shows_marks) in [("small.toml", false), ("marking.toml", true)] {
        let output = workspace.stdout(&["run", file, "--set", "seed=1"]);
        assert_eq!(output.contains("marked %"), shows_marks, "{output}");
    }
}

/// Copies a program in a separate process. A descriptor of this process that is open for writing could be inherited by
/// a process that another test starts, and a file that is open for writing cannot be executed ("text file busy").
fn install(program: &Path, to: &Path) {
    let installed = Command::new("install").arg("--mode=755").args([program, to]).status().unwrap();
    assert!(installed.success(), "{}", to.display());
}

#[test]
fn commands_of_python_name_the_way_to_install_the_package() {
    // Neither this command nor the current directory may be in a checkout, which could have a Python.
    let away = std::env::temp_dir().join(format!("rampmeter-no-python-{}", std::process::id()));
    std::fs::create_dir_all(&away).unwrap();
    install(Path::new(RAMPMETER), &away.join("rampmeter"));
    for arguments in [&["figure", "pcp.4"][..], &["report", "runs/some"], &["view", "traces"]] {
        let mut command = Command::new(away.join("rampmeter"));
        let output = command.args(arguments).current_dir(&away).env("PATH", "").output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("make python"), "{}", text(&output.stderr));
    }
    std::fs::remove_dir_all(&away).unwrap();
}

#[test]
fn the_python_of_the_commands_checkout_is_used_anywhere() {
    let (workspace, elsewhere) = (Workspace::new("checkouts_python"), Workspace::new("elsewhere"));
    let (bin, target) = (workspace.0.join(".venv/bin"), workspace.0.join("target/release"));
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::create_dir_all(&target).unwrap();
    std::fs::write(workspace.0.join("python.sh"), "#!/bin/sh\necho \"$@\"\n").unwrap();
    install(&workspace.0.join("python.sh"), &bin.join("python"));
    install(Path::new(RAMPMETER), &target.join("rampmeter"));
    for (arguments, expected) in [
        (&["figure", "pcp.4", "--quick"][..], "-m rampmeter.figures pcp.4 --quick\n"),
        (&["figure", "pcp.4", "--help"], "-m rampmeter.figures pcp.4 --help\n"),
        (&["report", "runs/some"], "-m rampmeter.report -- runs/some\n"),
        (&["view", "a", "b", "--port", "80", "--live"], "-m rampmeter.view --port 80 --live -- a b\n"),
        (
            &["report", "runs/some", "--x", "buffer", "--y", "share(bbr)", "--y", "fct_mean_s", "--lines", "flows"],
            "-m rampmeter.report --x=buffer --y=share(bbr) --y=fct_mean_s --lines=flows -- runs/some\n",
        ),
    ] {
        let output = Command::new(target.join("rampmeter")).args(arguments).current_dir(&elsewhere.0).output().unwrap();
        assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
    }
}

#[test]
fn help_shows_examples_and_defaults() {
    let workspace = Workspace::new("help");
    let output = workspace.rampmeter(&["--help"]);
    assert!(output.status.success());
    assert!(text(&output.stdout).contains("--world emulated"));
    let run = text(&workspace.rampmeter(&["run", "--help"]).stdout);
    assert!(run.contains("--fresh") && run.contains("Repeat finished runs"), "{run}");
    assert!(text(&workspace.rampmeter(&["figure", "--help"]).stdout).contains("rampmeter figure pcp.4 --help"));
    assert!(text(&workspace.rampmeter(&["controllers"]).stdout).contains("newreno"));
}
