//! What an operator sees of a server and of the Congestion Manager's daemon: metrics, status, logs.

mod common;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use common::{SMALL, Workspace, text};

/// Killed when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn metrics(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A running file server. Nobody reads its standard output any more.
struct Serving {
    server: Server,
    /// The directory of the socket that `status` asks.
    runtime: PathBuf,
    /// What it writes to standard error.
    log: PathBuf,
    /// The address of its metrics.
    metrics_at: String,
    /// The URL of a file called `NAME`.
    url: String,
}

/// Serves the workspace with metrics.
fn serve(workspace: &Workspace, options: &[&str]) -> Serving {
    let runtime = workspace.0.join("runtime");
    fs::DirBuilder::new().mode(0o700).create(&runtime).unwrap();
    let log = workspace.0.join("log");
    let words = ["serve", ".", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
    let mut command = workspace.command(&[&words, options].concat());
    command.env("XDG_RUNTIME_DIR", &runtime).stdout(Stdio::piped()).stderr(File::create(&log).unwrap());
    let mut server = Server(command.spawn().unwrap());
    let mut output = BufReader::new(server.0.stdout.take().unwrap());
    let mut printed = output.by_ref().lines().map(Result::unwrap);
    let url = printed.nth(1).unwrap().split('\'').nth(1).unwrap().to_owned();
    let metrics_at = metrics_at(&log);
    Serving { server, runtime, log, metrics_at, url }
}

/// The address of the metrics of a process that writes to `log`.
fn metrics_at(log: &Path) -> String {
    let read = || fs::read_to_string(log).unwrap();
    until_it_has(read, &["/metrics\n"]);
    let text = read();
    text.split("metrics at http://").nth(1).and_then(|at| at.split("/metrics").next()).unwrap().to_owned()
}

#[test]
fn a_server_shows_its_state_and_logs_its_connections() {
    let workspace = Workspace::new("operate");
    let Serving { server, runtime, log, metrics_at: at, url } = serve(&workspace, &["--log", "info"]);
    let url = url.replace("NAME", "small.toml");

    workspace.stdout(&["get", &url, "-o", "copy"]);
    let until = Instant::now() + Duration::from_secs(20);
    // The state is that of the last second.
    let sent = |text: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix("rampmeter_sent_bytes_total ").map(str::to_owned));
        line.and_then(|bytes| bytes.parse::<usize>().ok()).unwrap_or(0)
    };
    while sent(&metrics(&at)) <= SMALL.len() {
        assert!(Instant::now() < until, "{}", metrics(&at));
        std::thread::sleep(Duration::from_millis(100));
    }

    let status = |arguments: &[&str]| {
        workspace.command(&[&["status"], arguments].concat()).env("XDG_RUNTIME_DIR", &runtime).output().unwrap()
    };
    let json: serde_json::Value = serde_json::from_slice(&status(&["--json"]).stdout).unwrap();
    let process = &json["processes"][0];
    assert_eq!((&process["role"], process["pid"].as_u64()), (&"serve".into(), Some(server.0.id().into())));
    assert_eq!(process["openers"]["accepted"], 1);
    let shown = text(&status(&[]).stdout);
    assert!(shown.starts_with("serve on 127.0.0.1:") && shown.contains("handshakes: 1 accepted"), "{shown}");
    let socket = runtime.join("rampmeter").join(format!("serve-{}.sock", server.0.id()));
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);

    let logged = fs::read_to_string(&log).unwrap();
    for event in ["connection accepted peer=127.0.0.1", "connection ended peer=127.0.0.1", "why=Finished"] {
        assert!(logged.contains(event), "{event} is not in\n{logged}");
    }
    let secret = fs::read_to_string(workspace.0.join("rampmeter/key")).unwrap();
    assert!(!logged.contains(secret.trim()), "the secret key is in the log");
    drop(server);
    assert_eq!(status(&[]).status.code(), Some(1), "nothing runs");
}

#[test]
fn a_status_of_no_process_says_where_it_looked() {
    let workspace = Workspace::new("operate_none");
    fs::create_dir_all(workspace.0.join("made/rampmeter")).unwrap();
    let (at, cm) = (|name: &str| workspace.0.join(name).display().to_string(), workspace.0.join("cm.sock"));
    for (runtime, arguments, remedy) in [
        ("none", &["status"][..], "XDG_RUNTIME_DIR"),
        ("made", &["status"], "`rampmeter status DIRECTORY`"),
        ("made", &["status", "made/rampmeter"], "has no socket"),
        ("made", &["status", "none"], "there is no directory none"),
    ] {
        let mut command = workspace.command(arguments);
        command.env("XDG_RUNTIME_DIR", at(runtime)).env("RAMPMETER_CM_SOCKET", &cm).env_remove("RUNTIME_DIRECTORY");
        let output = command.output().unwrap();
        let message = text(&output.stderr);
        assert_eq!((output.status.code(), message.lines().count()), (Some(1), 1), "{message}");
        assert!(message.contains(remedy) && message.starts_with("rampmeter: no server"), "{message}");
        assert!(arguments.len() > 1 || message.contains(&format!("{}/rampmeter", at(runtime))), "{message}");
    }
}

#[test]
fn a_server_goes_on_when_nobody_reads_its_output() {
    let workspace = Workspace::new("operate_unread");
    let serving = serve(&workspace, &[]);
    let url = serving.url.replace("NAME", "small.toml");
    for copy in ["first", "second", "third"] {
        // The server prints a line for each.
        workspace.stdout(&["get", &url, "-o", copy]);
    }
}

/// No router answers XCP.
#[test]
fn a_degraded_controller_is_warned_of_once_and_shown() {
    let workspace = Workspace::new("operate_degraded");
    fs::File::create(workspace.0.join("file")).unwrap().set_len(64 << 30).unwrap(); // more than is sent meanwhile
    let options = ["--log", "warn", "--controller", "xcp"];
    let Serving { server: _server, runtime, log, metrics_at: at, url } = serve(&workspace, &options);
    let url = url.replace("NAME", "file");

    let _client = Server(workspace.command(&["get", &url, "-o", "/dev/null"]).spawn().unwrap());
    until_it_has(
        || metrics(&at),
        &[
            "rampmeter_path_degraded{network=\"127.0.0.0/24\",controller=\"xcp\"} 1\n",
            "rampmeter_path_state{network=\"127.0.0.0/24\",controller=\"xcp\",state=\"",
        ],
    );
    let status = |arguments: &[&str]| {
        let words = [&["status"], arguments].concat();
        text(&workspace.command(&words).env("XDG_RUNTIME_DIR", &runtime).output().unwrap().stdout)
    };
    let why = "no XCP router answers; the window grows as TCP's until one does";
    let shown = status(&[]);
    assert!(shown.contains(&format!("\n127.0.0.1: xcp is degraded: {why}\n")), "{shown}");
    let json: serde_json::Value = serde_json::from_str(&status(&["--json"])).unwrap();
    assert_eq!(json["processes"][0]["paths"][0]["degraded"], why, "{json}");
    let state = &json["processes"][0]["paths"][0]["state"];
    assert!(["slow_start", "congestion_avoidance"].iter().any(|tcp| state == tcp), "{json}");
    let printed = fs::read_to_string(&log).unwrap();
    for (part, times) in [(" WARN controller degraded peer=127.0.0.1", 1), (": xcp is degraded: no XCP router", 1)] {
        assert_eq!(printed.matches(part).count(), times, "{part} in\n{printed}");
    }
}

/// Until `text` contains all of `parts`.
fn until_it_has(text: impl Fn() -> String, parts: &[&str]) {
    let until = Instant::now() + Duration::from_secs(20);
    while !parts.iter().all(|part| text().contains(part)) {
        assert!(Instant::now() < until, "{parts:?} are not all in\n{}", text());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_daemon_shows_its_paths_and_users_and_logs_its_clients() {
    let workspace = Workspace::new("operate_cm");
    let (socket, log) = (workspace.0.join("cm.sock"), workspace.0.join("log"));
    let cm = |words: &[&str]| {
        let mut command = workspace.command(&[&["cm"], words].concat());
        command.env("RAMPMETER_CM_SOCKET", &socket).env_remove("RAMPMETER_LOG").stdout(Stdio::piped());
        command
    };
    let mut daemon = cm(&["daemon", "--port", "0", "--metrics", "127.0.0.1:0", "--log", "info"]);
    let _daemon = Server(daemon.stderr(File::create(&log).unwrap()).spawn().unwrap());
    let at = &metrics_at(&log);

    let client = Server(cm(&["audio", "--to", "127.0.0.1:9", "--duration", "60s"]).spawn().unwrap());
    let uid = fs::metadata("/proc/self").unwrap().uid();
    let user = format!("rampmeter_user_flows{{uid=\"{uid}\"}} 1\n");
    let path = "rampmeter_path_flows{network=\"127.0.0.0/24\",controller=\"cm\"} 1\n";
    until_it_has(|| metrics(at), &["rampmeter_clients 1\n", &user, path, "role=\"cm-daemon\""]);
    let shown = text(&cm(&["status"]).output().unwrap().stdout);
    assert!(["controller cm", "127.0.0.1", "slow_start"].iter().all(|part| shown.contains(part)), "{shown}");
    let pid = client.0.id();
    drop(client);
    let event = |what: &str| format!("client {what} pid={pid} uid={uid}");
    until_it_has(|| fs::read_to_string(&log).unwrap(), &[&event("connected"), &event("disconnected")]);
    until_it_has(|| metrics(at), &["rampmeter_clients 0\n"]);
}

#[test]
fn a_port_in_use_is_the_same_failure_for_files_and_metrics() {
    let workspace = Workspace::new("ports");
    let (udp, tcp) = (UdpSocket::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let (at, metrics) = (udp.local_addr().unwrap().to_string(), tcp.local_addr().unwrap().to_string());
    for arguments in [["--listen", &at, "--metrics", "127.0.0.1:0"], ["--listen", "127.0.0.1:0", "--metrics", &metrics]]
    {
        let output = workspace.rampmeter(&[&["serve", "."], &arguments[..]].concat());
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.lines().last().is_some_and(|line| line.contains("another port")), "{message}");
    }
}

/// So that `rampmeter status` finds them.
#[test]
fn each_systemd_unit_has_a_runtime_directory() {
    let units = fs::read_dir("../../contrib/systemd").unwrap().map(|unit| unit.unwrap().path());
    let units: Vec<_> = units.collect();
    assert!(units.len() >= 3);
    for unit in units {
        let (text, name) = (fs::read_to_string(&unit).unwrap(), unit.file_stem().unwrap().to_str().unwrap().to_owned());
        let directory = name.replace('@', "-%i");
        assert!(text.contains(&format!("\nRuntimeDirectory={directory}\nRuntimeDirectoryMode=0700\n")), "{name}");
        assert!(text.contains(&format!("/run/{}", directory.replace("%i", "office"))), "{name} says where");
    }
}

#[test]
fn an_unknown_level_of_logs_is_refused() {
    let workspace = Workspace::new("log_level");
    let output = workspace.command(&["serve", "."]).env("RAMPMETER_LOG", "loud").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("error, warn, info and debug"), "{}", text(&output.stderr));
}
