//! `serve` and `get`, as a user runs them.

mod common;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use common::{SMALL, Workspace, text};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

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
    let [right, wrong] = [&server.key, other.trim_end()].map(|key| format!("{url}?key={key}"));
    for arguments in [["get", &right, "--key", other.trim_end()], ["get", &right, &wrong, "--json"]] {
        let two_keys = workspace.rampmeter(&arguments);
        assert_eq!(two_keys.status.code(), Some(2), "{}", text(&two_keys.stderr));
        assert!(text(&two_keys.stderr).contains(&wrong[wrong.len() - 43..]), "{}", text(&two_keys.stderr));
    }
    let hash = get(&["--blake3", &"0".repeat(64)]);
    assert_eq!((hash.status.code(), text(&hash.stderr).lines().count()), (Some(1), 1), "{}", text(&hash.stderr));
}

/// As docs/output.md says.
#[test]
fn a_mistake_has_the_same_exit_code_in_all_commands() {
    let workspace = Workspace::new("exit_codes");
    workspace.rampmeter(&["key"]);
    std::fs::create_dir(workspace.0.join("dir")).unwrap();
    std::fs::write(workspace.0.join("bad"), "no key\n").unwrap();
    std::fs::write(workspace.0.join("keys"), "").unwrap();
    let (port, host) = ("127.0.0.1:9/", "no-such-host.invalid:9/");
    for (code, arguments) in [
        // An address of a wrong form.
        (2, "get nowhere"),
        (2, &format!("get {port}directory/")),
        (2, "serve dir --listen nowhere"),
        (2, "serve dir --metrics nowhere"),
        (2, "tunnel nowhere --socks 0"),
        (2, "tunnel --listen nowhere --authorized keys --allow *:*"),
        // A file or directory to read.
        (2, "serve none"),
        (2, "serve dir --authorized none"),
        (2, "serve dir --identity bad"),
        (2, &format!("get {port}f --identity none")),
        (2, "tunnel --listen 127.0.0.1:0 --authorized none --allow *:*"),
        // A host whose name is not known; a tunnel's client tries again.
        (1, &format!("get {host}f")),
        (1, "serve dir --listen no-such-host.invalid:9"),
        (1, "serve dir --metrics no-such-host.invalid:9"),
        (1, "tunnel --listen no-such-host.invalid:9 --authorized keys --allow *:*"),
        // An output.
        (1, &format!("get {port}f -o none/f")),
        (1, &format!("get {port}f {port}g -o bad")),
        (1, "serve dir --history none/file"),
        (1, "serve dir --history bad"),
    ] {
        if arguments.starts_with("tunnel") && !cfg!(feature = "tunnel") {
            continue;
        }
        let output = workspace.rampmeter(&arguments.split(' ').collect::<Vec<_>>());
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments}: {message}");
        assert_eq!(message.lines().filter(|line| !line.contains(" made the ")).count(), 1, "{arguments}: {message}");
    }
    std::fs::write(workspace.0.join("rampmeter/known_servers"), "127.0.0.1:9 no-key\n").unwrap();
    assert_eq!(workspace.rampmeter(&["get", "127.0.0.1:9/f"]).status.code(), Some(2));
}

#[test]
fn keys_are_not_put_into_the_current_directory() {
    let workspace = Workspace::new("no_home");
    let run = |arguments: &[&str]| {
        workspace.command(arguments).env_remove("HOME").env_remove("XDG_CONFIG_HOME").output().unwrap()
    };
    for (arguments, remedy) in [
        (&["key"][..], "`rampmeter key FILE`"),
        (&["serve", "."], "--identity FILE"),
        (&["get", "127.0.0.1:9/f"], "--key KEY"),
    ] {
        let output = run(arguments);
        let message = text(&output.stderr);
        assert_eq!((output.status.code(), message.lines().count()), (Some(2), 1), "{message}");
        assert!(message.contains("set HOME") && message.contains(remedy), "{message}");
    }
    assert!(run(&["key", "mine"]).status.success());
    assert!(!workspace.0.join("rampmeter").exists());
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
fn both_ends_of_a_transfer_are_traced() {
    let workspace = Workspace::new("traced_transfer");
    std::fs::write(workspace.0.join("large"), vec![7; 300_000]).unwrap();
    let mut server = RunningServer::start(&workspace, &["--trace", "of-server"]);
    let url = format!("{}/large", server.address);
    let output = workspace.rampmeter(&["get", &url, "-o", "copy", "--trace", "of-client"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    kill(Pid::from_raw(server.child.id() as i32), Signal::SIGINT).unwrap();
    assert!(server.child.wait().unwrap().success());
    let sent = |directory: &str, end: &str| {
        let [of_start] = &workspace.0.join(directory).read_dir().unwrap().flatten().collect::<Vec<_>>()[..] else {
            panic!()
        };
        let files = of_start.path().read_dir().unwrap().flatten().map(|file| file.path());
        let logs = files.filter(|path| path.to_string_lossy().ends_with(&format!(".{end}.qlog")));
        logs.map(|path| std::fs::read_to_string(path).unwrap().matches("quic:packet_sent").count()).sum::<usize>()
    };
    // Packets on loopback have up to 9000 bytes.
    assert!(sent("of-server", "server") > 300_000 / 9000, "{}", sent("of-server", "server"));
    assert!(sent("of-client", "client") > 3, "{}", sent("of-client", "client"));
}

#[test]
fn a_trace_of_a_long_transfer_keeps_its_last_part() {
    let workspace = Workspace::new("rotated_trace");
    std::fs::write(workspace.0.join("large"), vec![7; 3_000_000]).unwrap();
    let server = RunningServer::start(&workspace, &[]);
    let url = format!("{}/large", server.address);
    let output = workspace.rampmeter(&["get", &url, "-o", "copy", "--trace", "t", "--trace-limit", "60 kB"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let errors = text(&output.stderr);
    assert_eq!(errors.matches("it has reached --trace-limit 60 kB").count(), 1, "{errors}");
    let start = workspace.0.join("t").read_dir().unwrap().next().unwrap().unwrap().path();
    let files: Vec<_> = start.read_dir().unwrap().flatten().map(|file| file.path()).collect();
    let total: u64 = files.iter().map(|file| file.metadata().unwrap().len()).sum();
    assert!((30_000..70_000).contains(&total), "{total} bytes in {files:?}");
    assert!(files.iter().any(|file| file.to_string_lossy().ends_with(".1.client.qlog")), "{files:?}");
    for file in files {
        let log = std::fs::read_to_string(&file).unwrap();
        assert!(log.starts_with("\u{1e}{\"file_schema\"") && log.ends_with("}\n"), "{file:?}");
    }
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
        ("compound", 2, "refuses `compound`: it has no controller of that name"),
        ("fixed-rate", 2, "refuses `fixed-rate`: it lends clients only controllers"),
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
fn several_files_have_one_line_and_an_error_each() {
    let workspace = Workspace::new("several");
    for name in ["a", "b", "c"] {
        std::fs::write(workspace.0.join(name), name.repeat(4)).unwrap();
    }
    let server = RunningServer::start(&workspace, &[]);
    let url = |name: &str| format!("{}/{name}?key={}", server.address, server.key);
    let run = |arguments: &[&str], code| {
        let output = workspace.rampmeter(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    };
    let (got, _) = run(&["get", &url("a"), &url("b"), &url("c"), "-o", "got"], 0);
    assert!(got.starts_with("got: 3 files, 12 B in "), "{got}");
    assert_eq!(std::fs::read_to_string(workspace.0.join("got/b")).unwrap(), "bbbb");
    let (_, errors) = run(&["get", &url("a"), &url("none"), "-o", "some"], 3);
    assert!(errors.contains("none") && errors.contains("no such file") && errors.lines().count() == 1, "{errors}");
    let (json, _) = run(&["get", &url("a"), &url("none"), "-o", "some", "--json"], 3);
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&report["complete"], &report["failed"]), (&1.into(), &1.into()), "{report}");
    assert_eq!(report["files"].as_array().unwrap().len(), 2);
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
    assert!(served.contains(" \"large\": 1.235 MB in ") && served.ends_with(" pcp\n"), "{served}");
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

/// Ten seconds is the time without packets after which a client gives up its server.
#[test]
fn a_reader_of_the_output_may_pause_for_longer_than_ten_seconds() {
    let workspace = Workspace::new("paused_reader");
    let bytes: Vec<u8> = (0..40_000_000_u32).map(|n| ((n * 7) >> 5) as u8).collect();
    std::fs::write(workspace.0.join("large"), &bytes).unwrap();
    let server = RunningServer::start(&workspace, &[]);
    let mut command = workspace.command(&["get", &format!("{}/large", server.address), "-o", "-"]);
    let mut client = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut output = client.stdout.take().unwrap();
    let mut got = vec![0; 100_000];
    output.read_exact(&mut got).unwrap();
    std::thread::sleep(Duration::from_secs(13));
    output.read_to_end(&mut got).unwrap();
    let ended = client.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    assert!(got == bytes, "{} bytes", got.len());
}

#[test]
fn a_silent_server_counts_as_unreachable_after_the_timeout() {
    let workspace = Workspace::new("silent_server");
    std::fs::File::create(workspace.0.join("large")).unwrap().set_len(8 << 30).unwrap();
    let server = RunningServer::start(&workspace, &[]);
    let url = format!("{}/large?key={}", server.address, server.key);
    let mut command = workspace.command(&["get", &url, "-o", "copy", "--timeout", "15 s", "--retry", "0"]);
    let client = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !workspace.0.join("copy.part").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let stop = |signal| kill(Pid::from_raw(server.child.id() as i32), signal).unwrap();
    stop(Signal::SIGSTOP);
    let since = Instant::now();
    let ended = client.wait_with_output().unwrap();
    let waited = since.elapsed();
    stop(Signal::SIGCONT);
    assert_eq!(ended.status.code(), Some(1), "{}", text(&ended.stderr));
    let expected = Duration::from_secs(14)..Duration::from_secs(20);
    assert!(expected.contains(&waited), "{waited:?}: {}", text(&ended.stderr));
}

/// For as long as a client is stopped, no packet of either end reaches the other.
#[test]
fn a_download_goes_on_after_its_process_was_stopped() {
    let workspace = Workspace::new("stopped");
    std::fs::File::create(workspace.0.join("large")).unwrap().set_len(1 << 30).unwrap();
    let server = RunningServer::start(&workspace, &[]);
    let url = format!("{}/large?key={}", server.address, server.key);
    let mut command = workspace.command(&["get", &url, "-o", "copy", "--json"]);
    let client = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while std::fs::metadata(workspace.0.join("copy.part")).map_or(0, |part| part.len()) < 1 << 20 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let signal = |signal| kill(Pid::from_raw(client.id() as i32), signal).unwrap();
    signal(Signal::SIGSTOP);
    std::thread::sleep(Duration::from_secs(13));
    signal(Signal::SIGCONT);
    let ended = client.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    let report: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(report["bytes"], 1 << 30);
}

#[test]
fn a_hangup_reads_the_keys_again_and_a_termination_drains() {
    let workspace = Workspace::new("hangup");
    let [mine, other] = ["mine", "other"].map(|name| text(&workspace.rampmeter(&["key", name]).stdout));
    let list = workspace.0.join("list");
    std::fs::write(&list, format!("{} my laptop\n", mine.trim_end())).unwrap();
    let mut server = RunningServer::start(&workspace, &["--authorized", "list"]);
    let url = format!("{}/small.toml?key={}", server.address, server.key);
    let get = |name| workspace.rampmeter(&["get", &url, "-o", "copy", "--identity", name]).status.code();
    assert_eq!((get("mine"), get("other")), (Some(0), Some(1)));
    assert!(server.line().contains(&format!("{} (my laptop)", mine.trim_end())), "the key and its comment");
    let signal = |server: &RunningServer, signal| kill(Pid::from_raw(server.child.id() as i32), signal).unwrap();
    std::fs::write(&list, other).unwrap();
    signal(&server, Signal::SIGHUP);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!((get("mine"), get("other")), (Some(1), Some(0)));
    std::fs::write(&list, "no key\n").unwrap();
    signal(&server, Signal::SIGHUP);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(get("other"), Some(0), "a file with a mistake changes nothing");
    signal(&server, Signal::SIGTERM);
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_hangup_does_not_end_a_server_for_anyone() {
    let workspace = Workspace::new("hangup_anyone");
    let mut server = RunningServer::start(&workspace, &[]);
    kill(Pid::from_raw(server.child.id() as i32), Signal::SIGHUP).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(server.child.try_wait().unwrap(), None);
}

#[test]
fn errors_are_objects_where_results_are() {
    let workspace = Workspace::new("json_errors");
    for (arguments, code) in [
        (&["get", "nowhere", "--json"][..], 2),
        (&["get", "--json", "--no-such-option"], 2),
        (&["get", "no-such-host.invalid:9/f", "--json"], 1),
    ] {
        let failed = workspace.rampmeter(arguments);
        let error: serde_json::Value = serde_json::from_slice(&failed.stderr).unwrap();
        assert_eq!(error["exit_code"], code, "{arguments:?}: {error}");
        assert!(!error["error"].as_str().unwrap().is_empty());
    }
}
