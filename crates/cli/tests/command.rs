//! Tests of the command line.

mod common;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use common::{RAMPMETER, SMALL, Workspace, text};

#[test]
fn invalid_input_gives_one_line_and_exit_code_2() {
    let workspace = Workspace::new("bad_input");
    std::fs::create_dir(workspace.0.join("empty")).unwrap();
    let wrong = [("key.toml", "delay = \"10 ms\"", "dellay = \"10 ms\""), ("rate.toml", "40 Mb/s", "40 MB/s")];
    for (file, right, wrong) in wrong {
        std::fs::write(workspace.0.join(file), SMALL.replacen(right, wrong, 1)).unwrap();
    }
    let model = "{ model = \"docsis\", mean = \"40 Mb/s\", map = \"50 ms\" }";
    std::fs::write(workspace.0.join("model.toml"), SMALL.replacen("\"40 Mb/s\"", model, 1)).unwrap();
    for (arguments, expected) in [
        (&["run", "key.toml"][..], "key.toml:15: "),
        (&["run", "rate.toml"], "rate.toml:14: "),
        (&["run", "missing.toml"], "missing.toml: cannot be read"),
        (&["run", "small.toml", "--set", "scheme"], "--set load=0.3,0.6"),
        (&["run", "small.toml", "--set", "scheme=tpc"], "did you mean `tcp`"),
        (&["run", "small.toml", "--set", "lode=1"], "no axis is called `lode`"),
        (&["run", "small.toml", "--world", "real"], "there are simulated and emulated"),
        (&["run", "small.toml", "--set", "=1"], "--set load=0.3,0.6"),
        (&["trace", "small.toml"], "no link of the scenario has opportunities; give a link a trace or a model"),
        (&["trace", "small.toml", "--link", "botleneck"], "no link is called `botleneck`; did you mean `bottleneck`?"),
        (&["trace", "small.toml", "--link", "bottleneck"], "link `bottleneck` sends at a rate of its own"),
        (&["trace", "model.toml", "--length", "7200 s"], "use up to 600 s, or --out FILE"),
        (&["trace", "model.toml", "--out", "x", "--length", "2 ms"], "the trace is empty"),
        (&["trace", "model.toml", "--out", "x", "--length", "4000000 s"], "use at most 10000000: a shorter --length"),
        (&["claims", "--studies", "nowhere"], "name the directory of the studies with --studies"),
        (&["claims", "--studies", "empty"], "empty: no directory in it has a claims.toml"),
        (&["get", "not-an-address"], "HOST:PORT/NAME"),
        (&["serve", "no/such/directory"], "no/such/directory"),
        (&["serve", ".", "--controller", "fixed-rate"], "cannot be used here: it needs settings"),
        (&["cm", "daemon", "--controller", "fixed-rate"], "cannot be used here: it needs settings"),
        (&["cm", "daemon", "--controller", "fixd-rate"], "fair-share, fast, hstcp"),
        (&["get", "--jobs", "0", "h:1/x"], "invalid value '0' for '--jobs <N>': write 1 to 64"),
        (&["serve", ".", "--timeout", "2"], "for '--timeout <TIME>': "),
        (&["serve", ".", "--log", "loud"], "possible values: off, error, warn"),
        (&["get"], "<URL>...; usage: rampmeter get <URL>..."),
        (&["put", "--owerwrite", "x", "h:1/x"], "--overwrite"),
        (&["srve"], "serve"),
        (&["serve", ".", "--rate", "-5 Mb/s"], "which cannot be negative"),
        (
            &["sync", "no/such", "127.0.0.1:1/"],
            "no/such: No such file or directory (os error 2); give a readable directory",
        ),
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
    let workspace = Workspace::new("trace");
    let with_rate = |name: &str, rate: &str| {
        std::fs::write(workspace.0.join(name), SMALL.replacen("\"40 Mb/s\"", rate, 1)).unwrap();
    };
    with_rate("model.toml", "{ model = \"wifi\", mean = \"40 Mb/s\" }");
    with_rate("trace.toml", "{ trace = \"written.trace\" }");
    let written = workspace.rampmeter(&["trace", "model.toml", "--out", "written.trace", "--length", "20 s"]);
    assert!(written.status.success(), "{}", text(&written.stderr));
    let drawn = |arguments: &[&str]| {
        let output = workspace.rampmeter(&[&["trace", "--length", "20 s"], arguments].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let model = drawn(&["model.toml"]);
    assert_eq!(model[1..], drawn(&["trace.toml"])[1..]);
    assert!(model[0].starts_with("bottleneck: 40 Mb/s on average, "), "{model:?}");
    assert_ne!(model, drawn(&["model.toml", "--seed", "2"]));
    assert_ne!(model[1..], drawn(&["model.toml", "--link", "bottleneck.reverse"])[1..]);
}

#[test]
fn manual_writes_a_page_and_completions_for_each_command() {
    let workspace = Workspace::new("manual");
    let output = workspace.rampmeter(&["manual", "share"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
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
fn an_invalid_value_of_a_flag_names_the_flag() {
    let workspace = Workspace::new("bad_flag");
    for (arguments, flag, right) in [
        (&["run", "small.toml", "--jobs", "0"][..], "--jobs <N>", "a whole number of at least 1"),
        (&["claims", "--jobs", "0"], "--jobs <N>", "a whole number of at least 1"),
        (&["serve", ".", "--listen", "localhost"], "--listen <HOST:PORT>", "write for example 127.0.0.1:7267"),
    ] {
        let output = workspace.rampmeter(arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(flag) && message.contains(right), "{arguments:?}: {message}");
    }
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
fn get_knows_a_server_by_its_key() {
    let workspace = Workspace::new("keys");
    let server = RunningServer::start(&workspace, &[]);
    let url = format!("{}/small.toml", server.address);
    let get = |more: &[&str]| workspace.rampmeter(&[&["get", &url, "-o", "copy"], more].concat());
    assert_eq!(text(&get(&["--key", &server.key]).stderr), "");
    let first = text(&get(&[]).stderr);
    assert!(first.contains("first contact") && first.contains(&server.key), "{first}");
    assert_eq!(text(&get(&[]).stderr), "", "it is known now");
    let other = text(&workspace.rampmeter(&["key", "other"]).stdout);
    let hyphen = format!("-{}", "A".repeat(42));
    for key in [other.trim_end(), &hyphen] {
        let wrong = get(&["--key", key]);
        assert_eq!(wrong.status.code(), Some(1), "{}", text(&wrong.stderr));
        assert!(text(&wrong.stderr).contains(&server.key) && text(&wrong.stderr).lines().count() == 1);
    }
    let hash = get(&["--blake3", &"0".repeat(64)]);
    assert_eq!((hash.status.code(), text(&hash.stderr).lines().count()), (Some(1), 1), "{}", text(&hash.stderr));
}

#[test]
fn serve_refuses_keys_that_are_not_on_its_list() {
    let workspace = Workspace::new("authorized");
    let own = text(&workspace.rampmeter(&["key", "mine"]).stdout);
    std::fs::write(workspace.0.join("list"), format!("{} my laptop\n", own.trim_end())).unwrap();
    let server = RunningServer::start(&workspace, &["--authorized", "list"]);
    let url = format!("{}/small.toml?key={}", server.address, server.key);
    let refused = workspace.rampmeter(&["get", &url, "-o", "copy", "--identity", "other"]);
    assert_eq!(refused.status.code(), Some(2), "there is no such key");
    workspace.rampmeter(&["key", "other"]);
    let refused = workspace.rampmeter(&["get", &url, "-o", "copy", "--identity", "other"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("as the identity"), "{}", text(&refused.stderr));
    assert_eq!(workspace.rampmeter(&["get", &url, "-o", "copy", "--identity", "mine"]).status.code(), Some(0));
}

/// A running `rampmeter serve`, stopped when dropped.
struct RunningServer {
    child: Child,
    address: String,
    key: String,
    /// Standard output; the server ends if it is closed.
    printed: BufReader<ChildStdout>,
}

impl RunningServer {
    fn start(workspace: &Workspace, arguments: &[&str]) -> Self {
        Self::of(&mut workspace.command(&[&["serve", ".", "--listen", "127.0.0.1:0"], arguments].concat()))
    }

    fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let printed = BufReader::new(child.stdout.take().unwrap());
        let mut serving = Self { child, address: String::new(), key: String::new(), printed };
        let line = serving.line();
        serving.address.push_str(line.split(' ').find(|word| word.starts_with("127.0.0.1:")).unwrap());
        let fetch = serving.line();
        serving.key.push_str(fetch.trim_end().trim_end_matches('\'').rsplit_once("?key=").unwrap().1);
        serving
    }

    /// The next line that it prints.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.printed.read_line(&mut line).unwrap();
        line
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_upload_goes_on_at_once_after_its_client_was_killed() {
    let workspace = Workspace::new("killed_upload");
    let bytes: Vec<u8> = (0..60_000_000_u32).map(|n| ((n * 7) >> 5) as u8).collect();
    std::fs::write(workspace.0.join("large"), &bytes).unwrap();
    std::fs::write(workspace.0.join("small"), &bytes[..8_000_000]).unwrap();
    std::fs::create_dir(workspace.0.join("here")).unwrap();
    let mut command = workspace.command(&["serve", "here", "--listen", "127.0.0.1:0", "--writers", "anyone"]);
    let server = RunningServer::of(command.args(["--rate", "32 Mb/s"]));
    let put = |file: &str, options: &[&str]| {
        let url = format!("{}/?key={}", server.address, server.key);
        let mut command = workspace.command(&[&["put", file, &url, "--json"], options].concat());
        command.env("XDG_CONFIG_HOME", workspace.0.join("client")).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let begin = |file: &str| {
        let client = put(file, &[]).spawn().unwrap();
        let (part, until) = (workspace.0.join(format!("here/.{file}.part")), Instant::now() + Duration::from_secs(20));
        while std::fs::metadata(&part).map_or(0, |part| part.len()) < 500_000 {
            assert!(Instant::now() < until, "nothing arrives");
            std::thread::sleep(Duration::from_millis(20));
        }
        client
    };
    let mut live = begin("large");
    workspace.rampmeter(&["key", "other"]);
    for options in [&[][..], &["--identity", "other"]] {
        let refused = put("large", options).output().unwrap();
        assert_eq!(refused.status.code(), Some(1), "{options:?}");
        assert!(text(&refused.stderr).contains("another upload is writing that file"), "{}", text(&refused.stderr));
    }
    assert!(live.try_wait().unwrap().is_none(), "a live upload goes on");
    live.kill().unwrap();
    live.wait().unwrap();

    let mut killed = begin("small");
    killed.kill().unwrap();
    killed.wait().unwrap();
    let again = put("small", &[]).output().unwrap();
    assert!(again.status.success(), "{}", text(&again.stderr));
    let report: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert!(report["resumed_from"].as_u64().unwrap() >= 500_000, "{report}");
    assert!(std::fs::read(workspace.0.join("here/small")).unwrap() == bytes[..8_000_000]);
}

#[test]
fn get_chooses_the_controller_of_the_server() {
    let workspace = Workspace::new("get_controller");
    let server = RunningServer::start(&workspace, &["--controller", "reno"]);
    let url = format!("{}/small.toml", server.address);
    for (option, controller) in
        [(&[][..], "reno"), (&["--controller", "pcp"], "pcp"), (&["--controller", "reno"], "reno")]
    {
        let output = workspace.rampmeter(&[&["get", &url, "-o", "copy", "--json"], option].concat());
        assert!(output.status.success(), "{option:?}: {}", text(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["controller"], controller, "{option:?}");
        assert_eq!(std::fs::read_to_string(workspace.0.join("copy")).unwrap(), SMALL);
        std::fs::remove_file(workspace.0.join("copy")).unwrap();
    }
    for (name, code, expected) in [
        ("compound", 1, "refuses `compound`: it has no controller of that name"),
        ("fixed-rate", 1, "refuses `fixed-rate`: it lends clients only controllers"),
        ("no name", 2, "cannot be a controller"),
    ] {
        let output = workspace.rampmeter(&["get", &url, "-o", "copy", "--controller", name]);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{name}: {message}");
        assert!(message.contains(expected) && message.starts_with("rampmeter: "), "{name}: {message}");
        assert_eq!(message.lines().count(), 1, "{name}: {message}");
        assert_eq!(text(&output.stdout), "");
    }
    assert!(!workspace.0.join("copy").exists() && !workspace.0.join("copy.part").exists());
    assert!(text(&workspace.rampmeter(&["get", "--help"]).stdout).contains("server should use"));
}

#[test]
fn directories_are_fetched_put_and_synchronized() {
    let workspace = Workspace::new("directories");
    for name in ["in/a", "in/sub/b", "in/sub/c"] {
        let path = workspace.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, name).unwrap();
    }
    std::os::unix::fs::symlink("a", workspace.0.join("in/link")).unwrap();
    let server = RunningServer::start(&workspace, &["--list", "--writers", "anyone", "--overwrite"]);
    let url = |name: &str| format!("{}/{name}?key={}", server.address, server.key);
    let run = |arguments: &[&str], code| {
        let output = workspace.rampmeter(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    };
    let (got, _) = run(&["get", &url("in/"), "-o", "got"], 0);
    assert!(got.starts_with("got: 3 files, 20 B in ") && got.contains(", 1 skipped: links"), "{got}");
    assert_eq!(std::fs::read_to_string(workspace.0.join("got/sub/b")).unwrap(), "in/sub/b");
    let (json, _) = run(&["get", &url("in/"), "-o", "got", "--json"], 0);
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&report["complete"], &report["unchanged"]), (&0.into(), &3.into()), "{report}");
    assert_eq!(report["files"].as_array().unwrap().len(), 3);

    let (_, errors) = run(&["get", &url("in/a"), &url("in/none"), "-o", "some"], 3);
    assert!(errors.contains("in/none") && errors.contains("no such file") && errors.lines().count() == 1, "{errors}");
    assert_eq!(std::fs::read_to_string(workspace.0.join("some/a")).unwrap(), "in/a");

    let (put, _) = run(&["put", "in", &url("up/")], 0);
    assert!(put.contains(": 3 files, 20 B in "), "{put}");
    assert_eq!(std::fs::read_to_string(workspace.0.join("up/sub/c")).unwrap(), "in/sub/c");
    let (_, refused) = run(&["put", "in/a", &url("up/a")], 1);
    assert!(refused.contains("--overwrite") && refused.lines().count() == 1, "{refused}");

    std::fs::write(workspace.0.join("up/extra"), "x").unwrap();
    std::fs::write(workspace.0.join("in/new"), "n").unwrap();
    let (plan, _) = run(&["sync", "in/", &url("up/"), "--delete", "--dry-run"], 0);
    assert!(plan.contains("would transfer up/new\nwould delete up/extra\n"), "{plan}");
    let (done, _) = run(&["sync", "in/", &url("up/"), "--delete"], 0);
    assert!(done.contains("1 file, ") && done.contains("3 unchanged, 1 deleted"), "{done}");
    assert!(workspace.0.join("up/new").exists() && !workspace.0.join("up/extra").exists());
    let (nothing, _) = run(&["sync", "in/", &url("up/")], 0);
    assert!(nothing.contains("/up/: 4 unchanged, 1 skipped: links"), "{nothing}");
    let (_, both_here) = run(&["sync", "in/", "up/"], 2);
    assert!(both_here.contains("neither `in/` nor `up/` is at a server"), "{both_here}");
}

#[test]
fn a_transfer_prints_one_line_at_both_ends() {
    let workspace = Workspace::new("transfer_lines");
    std::fs::write(workspace.0.join("large"), vec![7; 1_234_567]).unwrap();
    let mut server = RunningServer::start(&workspace, &[]);
    let url = format!("{}/large", server.address);
    let got = text(&workspace.rampmeter(&["get", &url, "-o", "copy"]).stdout);
    let json = workspace.rampmeter(&["get", &url, "-o", "copy", "--json"]).stdout;
    let report: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let hash = report["files"][0]["blake3"].as_str().unwrap();
    let through = workspace.rampmeter(&["get", &url, "-o", "-"]);
    assert!(through.stdout == vec![7; 1_234_567] && text(&through.stderr).starts_with("-: 1.235 MB in "));
    assert!(got.starts_with("copy: 1.235 MB in ") && got.ends_with(&format!(" blake3 {hash}\n")), "{got}");

    let served = server.line();
    assert!(served.contains(" \"large\": 1.235 MB in ") && served.ends_with(" newreno\n"), "{served}");
    for line in [got.split(" blake3 ").next().unwrap(), &served] {
        for number in line.split([' ', ',', '%']).filter(|word| word.parse::<f64>().is_ok()) {
            let digits = number.replace('.', "");
            assert!(digits.trim_start_matches('0').len() <= 4, "{number} in {line}");
        }
    }
    server.line(); // of the second transfer
    server.line(); // of the third transfer
    assert_eq!(workspace.rampmeter(&["get", &format!("{}/none", server.address)]).status.code(), Some(1));
    let refused = server.line();
    assert!(refused.contains(" \"none\": refused: ") && refused.contains("no such file"), "{refused}");
}

#[test]
fn standard_output_has_only_the_json_with_every_value() {
    let workspace = Workspace::new("json");
    let output = workspace.rampmeter(&["run", "small.toml", "--seed", "7", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
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
    for format in [&[][..], &["--json"]] {
        let none = workspace.rampmeter(&[&["run", "both.toml", "--set", "scheme=linux"], format].concat());
        let message = text(&none.stderr);
        assert_eq!((none.status.code(), text(&none.stdout)), (Some(1), String::new()), "{message}");
        assert!(
            message.contains("--world emulated") && message.ends_with("any of the 2 points, for the reasons above\n"),
            "{message}"
        );
    }
}

#[test]
fn marks_are_shown_only_if_a_link_marks() {
    let workspace = Workspace::new("marks");
    let marking = SMALL.replace("drop-tail", "virtual-queue").replace("\"newreno\"", "\"stable\"");
    std::fs::write(workspace.0.join("marking.toml"), marking).unwrap();
    for (file, shows_marks) in [("small.toml", false), ("marking.toml", true)] {
        let output = workspace.rampmeter(&["run", file, "--set", "seed=1"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout).contains("bottleneck marked %"), shows_marks, "{}", text(&output.stdout));
    }
}

#[test]
fn tables_are_identical_with_one_thread_and_with_two() {
    let workspace = Workspace::new("threads");
    for jobs in ["1", "2"] {
        let output = workspace.rampmeter(&["run", "small.toml", "--jobs", jobs, "--out", jobs, "--quiet"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let mut compared = 0;
    for entry in std::fs::read_dir(workspace.0.join("1")).unwrap() {
        let name = entry.unwrap().file_name();
        if Path::new(&name).extension().is_some_and(|kind| kind == "parquet") {
            let read = |jobs: &str| std::fs::read(workspace.0.join(jobs).join(&name)).unwrap();
            assert!(read("1") == read("2"), "{}", name.display());
            compared += 1;
        }
    }
    assert!(compared >= 3, "{compared} tables");
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
    for arguments in [&["figure", "pcp.4"][..], &["report", "runs/some"]] {
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
    assert!(run.contains("--fresh") && run.contains("instead of resuming an interrupted run"), "{run}");
    assert!(text(&workspace.rampmeter(&["figure", "--help"]).stdout).contains("rampmeter figure pcp.4 --help"));
    assert!(text(&workspace.rampmeter(&["controllers"]).stdout).contains("newreno"));
}
