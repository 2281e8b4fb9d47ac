//! `rampmeter kernel` as a user drives it: programs that know nothing of it, over loopback. A kernel has one controller of
//! this name, so the tests run one after another. Where it cannot run they say why and pass.

mod common;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use common::{Workspace, text};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use serde_json::Value;

/// Both ends of a TCP connection: sends `argv[1]` bytes in parts with `argv[2]` seconds between them, prints the name of
/// the sender's controller, and checks that all has arrived.
const TRANSFER: &str = "
import socket, sys, threading, time
parts, pause = 20, float(sys.argv[2])
listener = socket.create_server(('127.0.0.1', 0))
sender = socket.create_connection(listener.getsockname())
receiver = listener.accept()[0]
received = []
def receive():
    while data := receiver.recv(1 << 16):
        received.append(len(data))
thread = threading.Thread(target=receive)
thread.start()
for _ in range(parts):
    sender.sendall(bytes(int(sys.argv[1]) // parts))
    time.sleep(pause)
name = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b'\\0').decode()
sender.close()
thread.join()
print(name, sum(received), flush=True)
";

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The right to run; `None` where this machine cannot.
fn turn(test: &str) -> Option<MutexGuard<'static, ()>> {
    let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if !geteuid().is_root() {
        eprintln!("SKIPPED: {test}: not root");
        return None;
    }
    let output = Workspace::new("kernel-probe").rampmeter(&["kernel", "run", "--json", "--", "true"]);
    if output.status.success() {
        return Some(turn);
    }
    let error = text(&output.stderr);
    let lacks = ["no /sys/kernel/btf", "does not take TCP controllers", "no control groups", "only from root"];
    assert!(lacks.iter().any(|reason| error.contains(reason)), "{error}");
    eprintln!("SKIPPED: {test}: {}", error.trim());
    None
}

#[test]
fn a_program_has_the_controller_and_all_its_bytes() {
    let Some(_turn) = turn("a_program_has_the_controller") else { return };
    for controller in ["newreno", "pcp"] {
        let arguments =
            ["kernel", "run", "--json", "--controller", controller, "--", "python3", "-c", TRANSFER, "4000000", "0.01"];
        let output = Workspace::new("kernel-run").rampmeter(&arguments);
        let error = text(&output.stderr);
        assert!(output.status.success(), "{error}");
        assert_eq!(text(&output.stdout), "rampmeter 4000000\n");
        let summary: Value = serde_json::from_str(error.lines().last().unwrap()).unwrap();
        assert_eq!(summary["controller"], controller);
        // Both ends are sockets of the program. TCP counts the end of a stream as a byte.
        let [connections, bytes] = ["connections", "bytes"].map(|key| summary[key].as_u64().unwrap());
        assert!(connections == 2 && (4_000_000..=4_000_002).contains(&bytes), "{summary}");
        let [acks, fallback] = ["acks", "fallback_acks"].map(|key| summary[key].as_u64().unwrap());
        assert!(acks > 20 && fallback <= acks / 2, "{summary}");
    }
}

#[test]
fn a_program_survives_the_daemon() {
    let Some(_turn) = turn("a_program_survives_the_daemon") else { return };
    for signal in [Signal::SIGKILL, Signal::SIGSTOP] {
        let workspace = Workspace::new("kernel-killed");
        let printed = workspace.0.join("printed");
        let mut command = workspace.command(&["kernel", "run", "--", "python3", "-c", TRANSFER, "4000000", "0.1"]);
        let output = fs::File::create(&printed).unwrap();
        let mut daemon = command.stdout(output).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(700));
        let process = Pid::from_raw(daemon.id() as i32);
        kill(process, signal).unwrap();
        let began = Instant::now();
        while fs::read_to_string(&printed).unwrap().is_empty() {
            assert!(began.elapsed() < Duration::from_secs(30), "{signal}: the transfer stalls");
            std::thread::sleep(Duration::from_millis(20));
        }
        let ended = fs::read_to_string(&printed).unwrap();
        assert!(ended.ends_with(" 4000000\n"), "{ended}");
        kill(process, Signal::SIGKILL).unwrap_or_default();
        daemon.wait().unwrap();
    }
}

#[test]
fn others_cannot_choose_it_and_errors_are_one_line() {
    let Some(_turn) = turn("others_cannot_choose_it") else { return };
    let workspace = Workspace::new("kernel-errors");
    let no_group = workspace.0.display().to_string();
    let mut daemon = workspace.command(&["kernel", "attach", "--all"]).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    let available = Path::new("/proc/sys/net/ipv4/tcp_available_congestion_control");
    while !fs::read_to_string(available).unwrap().contains("rampmeter") {
        assert!(began.elapsed() < Duration::from_secs(20), "the daemon does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    let choice = "import socket; socket.socket().setsockopt(6, socket.TCP_CONGESTION, b'rampmeter')";
    let other = Command::new("python3").args(["-c", choice]).uid(65_534).output().unwrap();
    assert!(text(&other.stderr).contains("PermissionError"), "{}", text(&other.stderr));
    let second = workspace.rampmeter(&["kernel", "attach", "--all"]);
    kill(Pid::from_raw(daemon.id() as i32), Signal::SIGINT).unwrap();
    assert!(daemon.wait().unwrap().success());
    let wrong = workspace.rampmeter(&["kernel", "attach", "--cgroup", &no_group]);
    let unknown = workspace.rampmeter(&["kernel", "run", "--controller", "cubik", "--", "true"]);
    for (output, code, message) in [
        (second, 1, "another `rampmeter kernel` runs"),
        (wrong, 2, "control group"),
        (unknown, 2, "did you mean `cubic`"),
    ] {
        let error = text(&output.stderr);
        assert_eq!((output.status.code(), error.lines().count()), (Some(code), 1), "{error}");
        assert!(error.contains(message), "{error}");
    }
}
