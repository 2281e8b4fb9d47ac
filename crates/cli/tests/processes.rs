//! Tests of the command as a process: signals, leftovers, running without root. A test that the machine cannot run
//! prints why it is skipped.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use common::{RAMPMETER, SMALL, Workspace, text};

/// Two emulated networks at the same time would disturb each other.
static REAL: Mutex<()> = Mutex::new(());

/// Waits until `check` returns a value, which `what` describes.
fn until<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let started_at = Instant::now();
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(started_at.elapsed() < Duration::from_secs(60), "no {what}");
        sleep(Duration::from_millis(5));
    }
}

fn start(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Sends SIGINT, as the terminal does at Ctrl-C.
fn signal(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

/// Interrupts the process; returns its output and the time until its end.
fn interrupt(child: Child) -> (Output, Duration) {
    let started_at = Instant::now();
    signal(&child);
    let output = child.wait_with_output().unwrap();
    (output, started_at.elapsed())
}

/// The finished points in a run directory with their modification times.
fn points(directory: &Path) -> BTreeMap<PathBuf, SystemTime> {
    let entries = fs::read_dir(directory.join("points")).into_iter().flatten().flatten();
    let whole = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|kind| kind == "json"));
    whole.filter_map(|path| Some((path.clone(), fs::metadata(path).ok()?.modified().ok()?))).collect()
}

#[test]
fn an_interrupted_sweep_keeps_finished_points_and_resumes() {
    const SEEDS: usize = 12;
    let workspace = Workspace::new("interrupted_sweep");
    let seeds: Vec<_> = (1..=SEEDS).map(|seed| seed.to_string()).collect();
    let long = SMALL
        .replace("duration = \"3 s\"", "duration = \"60 s\"")
        .replace("per_second = 4", "per_second = 30")
        .replace("[1, 2]", &format!("[{}]", seeds.join(", ")));
    fs::write(workspace.0.join("long.toml"), long).unwrap();
    let sweep = ["run", "long.toml", "--out", "kept", "--jobs", "1", "--json"];
    let directory = workspace.0.join("kept");

    let child = start(workspace.command(&sweep));
    until("finished point", || (points(&directory).len() >= 2).then_some(()));
    let (output, _) = interrupt(child);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{message}");
    let last = message.lines().last().unwrap_or_default();
    assert!(last.contains(" of 12 points finished") && last.contains("resumes from there"), "{message}");
    assert_eq!(text(&output.stdout), "");
    let kept = points(&directory);
    assert!((2..SEEDS).contains(&kept.len()), "{} of {SEEDS} points", kept.len());

    let output = workspace.rampmeter(&sweep);
    let message = text(&output.stderr);
    assert!(output.status.success(), "{message}");
    assert!(message.contains(&format!("{} of {SEEDS} runs were already finished", kept.len())), "{message}");
    let runs: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(SEEDS));
    let all = points(&directory);
    assert_eq!(all.len(), SEEDS);
    assert!(kept.iter().all(|(point, written)| all[point] == *written), "a finished point ran again");
}

#[test]
fn the_first_interrupt_finishes_runs_and_the_second_stops() {
    let workspace = Workspace::new("interrupted_twice");
    let unlimited = SMALL.replace("duration = \"3 s\"", "duration = \"20000 s\"").replace("[1, 2]", "[1]");
    fs::write(workspace.0.join("unlimited.toml"), unlimited).unwrap();
    let mut child = start(workspace.command(&["run", "unlimited.toml", "--out", "kept", "--quiet"]));
    until("directory", || workspace.0.join("kept/run.json").exists().then_some(()));
    until("simulation", || (cpu_ticks(child.id()) >= 20).then_some(())); // not only its preparation
    let mut message = BufReader::new(child.stderr.take().unwrap()).lines();
    signal(&child);
    let first = message.next().unwrap().unwrap();
    assert_eq!(first, "rampmeter: finishing the current runs; Ctrl-C again stops at once");
    let (output, took) = interrupt(child);
    assert_eq!(output.status.code(), Some(130));
    assert!(took < Duration::from_secs(10), "{took:?}");
    let last = message.next().unwrap().unwrap();
    assert!(last.starts_with("rampmeter: stopped; finished runs are in kept, and the same command"), "{last}");
    assert!(message.next().is_none());
}

/// The processor time that a process has used, in hundredths of a second (`proc_pid_stat(5)`).
fn cpu_ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let after_name = stat.rsplit_once(") ").unwrap().1;
    after_name.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

/// The reason why the machine cannot emulate with `command`, which runs `rampmeter`; `None` if it can.
fn refusal(mut command: Command) -> Option<String> {
    let output = command.arg("probe").output().unwrap();
    let message = text(&output.stdout);
    let able = message.lines().any(|line| line.starts_with("emulated world") && line.ends_with("yes"));
    (!able).then(|| format!("{}{}", message.trim(), text(&output.stderr).trim()))
}

/// Network devices of this namespace.
fn devices() -> BTreeSet<String> {
    let devices = fs::read_to_string("/proc/net/dev").unwrap();
    devices.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim().to_owned()).collect()
}

/// The names of network namespaces of a process, for `ip netns`.
fn names(process: u32) -> Vec<String> {
    let links = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let is_its =
        |link: &fs::DirEntry| fs::read_link(link.path()).is_ok_and(|to| to.starts_with(format!("/proc/{process}")));
    links.filter(is_its).map(|link| link.file_name().into_string().unwrap()).collect()
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// The network namespaces of a process and of its open files, as far as they are accessible.
fn namespaces(process: &Path) -> BTreeSet<u64> {
    let entries = |directory: &str| fs::read_dir(process.join(directory)).into_iter().flatten().flatten();
    let threads = entries("task").map(|thread| thread.path().join("ns/net"));
    let files = entries("fd")
        .map(|file| file.path())
        .filter(|file| fs::read_link(file).is_ok_and(|target| target.to_string_lossy().starts_with("net:[")));
    threads.chain(files).filter_map(|path| Some(fs::metadata(path).ok()?.ino())).collect()
}

#[test]
fn an_interrupted_emulation_ends_at_once_and_cleans_up() {
    let _alone = REAL.lock();
    let workspace = Workspace::new("interrupted_emulation");
    if let Some(reason) = refusal(workspace.command(&[])) {
        return eprintln!("skipped an_interrupted_emulation_ends_at_once_and_cleans_up: {reason}");
    }
    let long = SMALL.replace("duration = \"3 s\"", "duration = \"600 s\"");
    fs::write(workspace.0.join("long.toml"), long).unwrap();
    let before = devices();
    let child = start(workspace.command(&["run", "long.toml", "--world", "emulated", "--out", "kept", "--quiet"]));
    let process = PathBuf::from(format!("/proc/{}", child.id()));
    until("TUN device", || {
        let files = fs::read_dir(process.join("fd")).unwrap().flatten();
        let open = files.filter_map(|file| fs::read_link(file.path()).ok());
        (open.filter(|file| file.ends_with("net/tun")).count() == 2).then_some(())
    });
    sleep(Duration::from_millis(300)); // until packets are in transit
    let own = namespaces(Path::new("/proc/self"));
    let made: BTreeSet<u64> = namespaces(&process).difference(&own).copied().collect();
    assert_eq!(made.len(), 2, "{made:?}");

    let id = child.id();
    assert_eq!(names(id).len(), if is_root() { 2 } else { 0 });
    let (output, took) = interrupt(child);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(took < Duration::from_secs(20), "{took:?}"); // of 600
    assert_eq!(names(id).len(), 0);
    assert_eq!(points(&workspace.0.join("kept")).len(), 0);
    assert_eq!(devices(), before);
    assert_eq!(left_in(&made), Vec::<PathBuf>::new(), "still in the run's networks");
}

/// The processes, except this one and its threads, that have one of these network namespaces.
fn left_in(made: &BTreeSet<u64>) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    processes.filter(|process| !namespaces(process).is_disjoint(made)).collect()
}

#[test]
fn a_killed_emulation_leaves_nothing_behind() {
    let _alone = REAL.lock();
    let workspace = Workspace::new("killed_emulation");
    if let Some(reason) = refusal(workspace.command(&[])) {
        return eprintln!("skipped a_killed_emulation_leaves_nothing_behind: {reason}");
    }
    let long = SMALL.replace("duration = \"3 s\"", "duration = \"600 s\"");
    fs::write(workspace.0.join("long.toml"), long).unwrap();
    let before = devices();
    // A program in the background, one in a session of its own, and one that ignores signals.
    let left = "sleep 601 & setsid sleep 602 & trap '' TERM HUP; touch left; while :; do sleep 603; done";
    let right = "while ! test -e left; do sleep 0.05; done; touch right; sleep 604";
    let child = start(workspace.command(&["emulate", "long.toml", "--left", left, "--right", right]));
    let process = PathBuf::from(format!("/proc/{}", child.id()));
    until("start of both commands", || workspace.0.join("right").exists().then_some(()));
    let own = namespaces(Path::new("/proc/self"));
    let made: BTreeSet<u64> = namespaces(&process).difference(&own).copied().collect();
    assert_eq!(made.len(), 2, "{made:?}");
    assert!(left_in(&made).len() >= 6, "two shells, four programs: {:?}", left_in(&made));

    let id = child.id();
    assert_eq!(names(id).len(), if is_root() { 2 } else { 0 });
    assert!(Command::new("kill").args(["-KILL", &id.to_string()]).status().unwrap().success());
    assert!(!child.wait_with_output().unwrap().status.success());
    until("end of all processes", || left_in(&made).is_empty().then_some(()));
    assert_eq!((devices(), names(id).len()), (before, 0));
}

/// A path with nothing on it, where tests run commands. `None`, with a message, if the machine cannot emulate.
fn idle_path(test: &str) -> Option<Workspace> {
    let workspace = Workspace::new(test);
    if let Some(reason) = refusal(workspace.command(&[])) {
        eprintln!("skipped {test}: {reason}");
        return None;
    }
    fs::write(workspace.0.join("idle.toml"), SMALL.replace("per_second = 4", "count = 0")).unwrap();
    Some(workspace)
}

/// What a shell at `--inspect` prints and how it ends, given `script` on standard input.
fn inspect(workspace: &Workspace, more: &[&str], script: &str) -> Output {
    let mut command = workspace.command(&["emulate", "idle.toml", "--inspect"]);
    command.args(more).env("SHELL", "/bin/sh").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn inspect_is_a_shell_on_the_right_host() {
    let _alone = REAL.lock();
    let Some(workspace) = idle_path("inspect_is_a_shell_on_the_right_host") else { return };
    let script =
        "echo $RAMPMETER_LEFT to $RAMPMETER_HOST $RAMPMETER_RIGHT; cat /proc/net/dev; echo $$; sleep 605 & exit 7";
    let output = inspect(&workspace, &[], script);
    let (printed, message) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(7), "{message}");
    assert!(printed.starts_with("10.64.0.1 to right 10.65.0.1\n") && printed.contains("rampmeter:"), "{printed}");
    assert!(
        message.contains("a shell on the right host, 10.65.0.1 (RAMPMETER_HOST=right); the left one is 10.64.0.1"),
        "{message}"
    );
    assert!(message.contains(if is_root() { "ip netns exec rampmeter-left" } else { "nsenter" }), "{message}");
    let left = Command::new("pgrep").args(["-fx", "sleep 605"]).output();
    assert!(left.is_err() || left.unwrap().stdout.is_empty(), "a job of the shell goes on without its network");
    // The shell goes on where the command on the other host fails.
    let output = inspect(&workspace, &["--left", "exit 3"], "sleep 0.3; echo still here");
    let (printed, message) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && printed == "still here\n", "{printed}{message}");
    assert!(message.contains("the left command ended with 3"), "{message}");
}

#[test]
fn other_programs_enter_the_network_by_its_names() {
    let _alone = REAL.lock();
    let test = "other_programs_enter_the_network_by_its_names";
    let Some(workspace) = idle_path(test) else { return };
    if !is_root() || Command::new("ip").arg("-V").output().is_err() {
        return eprintln!("skipped {test}: it needs root and ip");
    }
    let child = start(workspace.command(&["emulate", "idle.toml", "--left", "touch up; sleep 606"]));
    until("start of the command", || workspace.0.join("up").exists().then_some(()));
    for (name, address) in names(child.id()).iter().map(|it| (it, if it.contains("left") { "10.64" } else { "10.65" }))
    {
        let output = Command::new("ip").args(["netns", "exec", name, "ip", "-brief", "address"]).output().unwrap();
        let printed = text(&output.stdout);
        assert!(printed.contains(address), "{name}: {printed}{}", text(&output.stderr));
    }
    interrupt(child);
}

/// The shell of a terminal reads from it and is not stopped, and Ctrl-C reaches what it runs, not the network.
#[test]
fn an_inspecting_shell_has_the_terminal() {
    let _alone = REAL.lock();
    let test = "an_inspecting_shell_has_the_terminal";
    let Some(workspace) = idle_path(test) else { return };
    let is_missing = |program: &str| Command::new(program).arg("--version").output().is_err();
    if is_missing("script") || is_missing("bash") {
        return eprintln!("skipped {test}: it needs script and bash");
    }
    let mut command = Command::new("script");
    let line = format!("exec '{RAMPMETER}' emulate idle.toml --inspect");
    command.args(["--quiet", "--return", "--command", &line, "/dev/null"]).current_dir(&workspace.0);
    command.env("SHELL", "/bin/bash").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut type_until = |keys: &str, file: &str| {
        input.write_all(keys.as_bytes()).unwrap();
        until(file, || workspace.0.join(file).exists().then_some(()));
    };
    type_until("touch one\n", "one");
    type_until("touch two; sleep 607\n", "two");
    sleep(Duration::from_millis(300)); // until sleep(1) runs
    type_until("\x03", "one");
    type_until("touch three\n", "three");
    input.write_all(b"exit 9\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(9), "{}", text(&output.stdout));
}

#[test]
fn packets_of_any_program_are_traced_with_their_drops() {
    let _alone = REAL.lock();
    let test = "packets_of_any_program_are_traced_with_their_drops";
    let Some(workspace) = idle_path(test) else { return };
    if Command::new("curl").arg("--version").output().is_err() || Command::new("python3").arg("-V").output().is_err() {
        return eprintln!("skipped {test}: it needs curl and python3");
    }
    fs::write(workspace.0.join("file"), vec![7; 1_000_000]).unwrap();
    let fetch = "for n in 1 2 3 4 5 6 7 8 9; do sleep 0.3; curl -sfo got http://$RAMPMETER_LEFT:8000/file && exit; done; \
                 exit 1";
    let serve = "exec python3 -m http.server 8000 >served 2>&1";
    let few = ["--set", "link.bottleneck.router.packets=10", "--trace", "t"];
    let output =
        workspace.rampmeter(&[&["emulate", "idle.toml", "--left", serve, "--right", fetch], &few[..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).ends_with("rampmeter: traces: t\n"), "{}", text(&output.stderr));
    let directory = fs::read_dir(workspace.0.join("t")).unwrap().next().unwrap().unwrap().path();
    let [there, back] =
        ["bottleneck", "bottleneck.reverse"].map(|link| fs::read(directory.join(format!("{link}.pcapng"))).unwrap());
    // Each packet is written twice; 256 bytes of it, or all.
    assert!(there.len() > 2 * 256 * 690 && back.len() > 2 * 52 * 300, "{} and {}", there.len(), back.len());
    assert!(there.windows(7).any(|bytes| bytes == b"dropped"));
}

/// A command that runs `rampmeter` as the user nobody, with access to `/dev/net/tun` by a device node in a mount
/// namespace. If the test does not run as root, it runs `rampmeter` as the same user.
fn unprivileged(workspace: &Workspace) -> Command {
    const BECOME_NOBODY: &str = "set -e
        mount -t tmpfs -o mode=755 none dev
        mknod -m 666 dev/tun c 10 200
        mount --bind dev/tun /dev/net/tun
        exec setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs --bounding-set=-all \"$@\"";
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return workspace.command(&[]);
    }
    fs::create_dir_all(workspace.0.join("dev")).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", BECOME_NOBODY, "sh", RAMPMETER]);
    command.current_dir(&workspace.0);
    command
}

#[test]
fn real_packets_need_no_root() {
    let _alone = REAL.lock();
    let workspace = Workspace::new("no_root");
    if let Some(reason) = refusal(unprivileged(&workspace)) {
        return eprintln!("skipped real_packets_need_no_root: {reason}");
    }
    let nobody = (fs::metadata("/proc/self").unwrap().uid() == 0).then_some(65534);
    std::os::unix::fs::chown(&workspace.0, nobody, nobody).unwrap();
    let mut command = unprivileged(&workspace);
    command.args(["run", "small.toml", "--world", "emulated", "--seed", "1", "--out", "kept", "--json"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let runs: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let run = &runs["runs"][0];
    assert_eq!((&run["world"], &run["flows"]["unfinished"]), (&"emulated".into(), &0.into()), "{run}");
    assert!(run["flows"]["completed"].as_u64().unwrap() > 3, "{run}");
    assert!(run["host_jitter_p99_s"].is_number() && run["rtt_min_s"] == 0.024, "{run}");
    if let Some(nobody) = nobody {
        assert_eq!(fs::metadata(workspace.0.join("kept/run.json")).unwrap().uid(), nobody);
    }
}

#[test]
fn audio_goes_through_the_congestion_managers_of_two_hosts() {
    let workspace = Workspace::new("through_cm");
    let cm = |host: u8, words: &[&str]| {
        let mut command = Command::new(RAMPMETER);
        let socket = workspace.0.join(format!("{host}.sock"));
        command.arg("cm").args(words).env("RAMPMETER_CM_SOCKET", socket);
        command
    };
    // Each test has a different port, because tests run at the same time.
    let daemon = |host: u8| {
        let running = start(cm(host, &["daemon", "--port", "29611", "--listen", &format!("127.0.77.{host}")]));
        until("socket", || workspace.0.join(format!("{host}.sock")).exists().then_some(()));
        running
    };
    let daemons = [daemon(1), daemon(2)];
    let listener = start(cm(2, &["listen", "127.0.77.2:29612", "--through-cm"]));
    let send = || {
        let words = ["audio", "--to", "127.0.77.2:29612", "--duration", "2s", "--through-cm", "--json"];
        let sent = cm(1, &words).output().unwrap();
        assert!(sent.status.success(), "{}", text(&sent.stderr));
        serde_json::from_slice::<serde_json::Value>(&sent.stdout).unwrap()
    };
    // The first datagrams may be sent before the receiver's manager is known, the last ones never are.
    let report = until("the highest encoding", || {
        let report = send();
        let best = report["encodings"].as_array().unwrap().last().unwrap()["part"].as_f64().unwrap();
        (best > 0.3).then_some(report)
    });
    assert!(report["datagrams"].as_u64().unwrap() > 20 && report["lost"].is_null(), "{report}");
    let status = cm(2, &["status", "--json"]).output().unwrap();
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["senders"], 1, "{status}");
    for running in daemons.into_iter().chain([listener]) {
        interrupt(running);
    }
}

#[test]
fn one_congestion_manager_has_a_socket_and_removes_it() {
    let workspace = Workspace::new("congestion_manager");
    let socket = workspace.0.join("run/cm.sock");
    let cm = |words: &[&str]| {
        let mut command = Command::new(RAMPMETER);
        command.arg("cm").args(words).env("RAMPMETER_CM_SOCKET", &socket);
        command
    };
    let status = || cm(&["status", "--json"]).output().unwrap();
    let missing = status();
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("rampmeter cm daemon"), "{}", text(&missing.stderr));
    let daemon = start(cm(&["daemon", "--controller", "newreno"]));
    until("socket", || socket.exists().then_some(()));
    let second = cm(&["daemon"]).output().unwrap();
    assert_eq!((second.status.code(), text(&second.stderr).lines().count()), (Some(1), 1));
    assert!(text(&second.stderr).contains("--socket"), "{}", text(&second.stderr));
    let status_object: serde_json::Value = serde_json::from_slice(&status().stdout).unwrap();
    let idle = serde_json::json!({
        "controller": "newreno", "processes": [], "users": [], "macroflows": [], "peers": [], "senders": 0,
        "garbage": 0, "refused": 0, "refused_clients": 0
    });
    assert_eq!(status_object, idle);
    let (output, _) = interrupt(daemon);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!socket.exists());
    let segregating = start(cm(&["daemon", "--segregation", "--half-life", "mean-rtt", "--port", "0"]));
    until("socket", || socket.exists().then_some(()));
    assert!(interrupt(segregating).0.status.success());
    for wrong in [&["daemon", "--controller", "renno"][..], &["daemon", "--port", "5000", "--deliver", "53,5000"]] {
        assert_eq!(cm(wrong).output().unwrap().status.code(), Some(2), "{wrong:?}");
    }
    let nowhere = cm(&["daemon", "--listen", "192.0.2.1"]).output().unwrap();
    assert_eq!((nowhere.status.code(), text(&nowhere.stderr).lines().count()), (Some(1), 1));
    assert!(text(&nowhere.stderr).contains("--listen") && !socket.exists(), "{}", text(&nowhere.stderr));
}

#[test]
fn the_daemon_of_a_host_listens_to_itself() {
    let workspace = Workspace::new("listens");
    let socket = workspace.0.join("cm.sock");
    let is_free = |address| std::net::UdpSocket::bind((address, 29613)).is_ok();
    for (listen, others_are_free) in [(None, true), (Some("0.0.0.0"), false)] {
        let mut command = Command::new(RAMPMETER);
        command.args(["cm", "daemon", "--port", "29613"]).env("RAMPMETER_CM_SOCKET", &socket);
        command.args(listen.map(|address| ["--listen", address]).iter().flatten());
        let daemon = start(command);
        until("socket", || socket.exists().then_some(()));
        assert!(!is_free("127.0.0.1"));
        assert_eq!(is_free("127.0.77.9"), others_are_free, "{listen:?}");
        assert!(interrupt(daemon).0.status.success());
    }
}
