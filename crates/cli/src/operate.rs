//! What operators of servers and tunnels use: logs, metrics, `rampmeter status`.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use rampmeter_net::monitor::{Monitor, PathStatus, Snapshot, StatusSocket, read_all, runtime_directory};
use rampmeter_net::{MAX_THREADS, return_memory};
use serde::Serialize;
use tracing::level_filters::LevelFilter;
use tracing::warn;

use crate::failure::Failure;
use crate::files::HostPort;
use crate::table::table;
use crate::{cm, print_result};

/// The variable that has the level of logs, if `--log` is not given.
const LOG: &str = "RAMPMETER_LOG";

/// Arguments of commands that run for a long time.
#[derive(Debug, Args)]
pub(crate) struct OperateArgs {
    /// Answer HTTP requests of Prometheus for /metrics at this address; port 0 picks a free one
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<HostPort>,
    #[command(flatten)]
    log: LogArgs,
}

/// Arguments for logs.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Log events of this level and above to standard error [default: the variable `RAMPMETER_LOG`, or off]
    #[arg(long, value_name = "LEVEL")]
    log: Option<Level>,
}

/// A level of logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Level {
    Off,
    Error,
    Warn,
    Info,
    Debug,
}

impl From<Level> for LevelFilter {
    fn from(level: Level) -> Self {
        match level {
            Level::Off => Self::OFF,
            Level::Error => Self::ERROR,
            Level::Warn => Self::WARN,
            Level::Info => Self::INFO,
            Level::Debug => Self::DEBUG,
        }
    }
}

impl LogArgs {
    /// Writes logs from now on.
    pub(crate) fn start(&self) -> Result<(), Failure> {
        let level = match (self.log, std::env::var(LOG)) {
            (Some(level), _) => level,
            (None, Ok(text)) if !text.is_empty() => Level::from_str(&text, true)
                .map_err(|_| Failure::input(format!("{LOG}={text}: there are off, error, warn, info and debug")))?,
            (None, _) => Level::Off,
        };
        tracing_subscriber::fmt()
            .with_max_level(LevelFilter::from(level))
            .with_ansi(false)
            .with_target(false)
            .with_writer(io::stderr)
            .init();
        Ok(())
    }
}

impl OperateArgs {
    /// Starts what a process that does `role` has for its operator: logs, metrics, the status, which ends with the
    /// socket, and a thread that returns free memory to the system.
    pub(crate) fn start(&self, role: &str) -> Result<(Monitor, Option<StatusSocket>), Failure> {
        self.log.start()?;
        return_memory();
        let monitor = Monitor::new(role);
        self.serve_metrics(|address| monitor.serve_metrics(address))?;
        let socket = match monitor.serve_status() {
            Ok(socket) => Some(socket),
            Err(error) => {
                warn!(directory = %runtime_directory().display(), %error, "no socket for `rampmeter status`");
                None
            }
        };
        Ok((monitor, socket))
    }

    /// Starts the logs of a process with a status of its own.
    pub(crate) fn start_log(&self) -> Result<(), Failure> {
        self.log.start()
    }

    /// Starts metrics by `serve`, if they are wanted.
    pub(crate) fn serve_metrics(
        &self,
        serve: impl FnOnce(SocketAddr) -> io::Result<SocketAddr>,
    ) -> Result<(), Failure> {
        let Some(address) = &self.metrics else { return Ok(()) };
        let address = address.resolve()?;
        let address = serve(address)
            .map_err(|error| Failure::failed(format!("--metrics {address}: {error}; write another port")))?;
        eprintln!("rampmeter: metrics at http://{address}/metrics"); // standard output may carry bytes
        Ok(())
    }
}

/// Parses a server's number of threads.
pub(crate) fn threads(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=MAX_THREADS).contains(number));
    number.ok_or_else(|| format!("write 1 to {MAX_THREADS}"))
}

/// Says why a server has one thread, if it should have more.
pub(crate) fn print_refused_threads(reason: Option<&io::Error>) {
    if let Some(reason) = reason {
        eprintln!(
            "rampmeter: one thread serves all clients, since the kernel refuses several sockets on one port: {reason}"
        );
    }
}

/// The arguments of `rampmeter status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The directory of the processes' sockets [default: that of this user's processes]
    directory: Option<PathBuf>,
    /// Write one JSON object to standard output
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct States {
    processes: Vec<Snapshot>,
    /// That of the Congestion Manager's daemon, if one runs.
    cm: Option<rampmeter_cm::daemon::Status>,
}

pub(crate) fn status(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let directory = args.directory.clone().unwrap_or_else(runtime_directory);
    let processes =
        read_all(&directory).map_err(|error| Failure::failed(format!("{}: {error}", directory.display())))?;
    let cm = if args.directory.is_none() { cm::running_status() } else { None };
    if processes.is_empty() && cm.is_none() && !args.json {
        return Err(Failure::failed(nothing_found(args.directory.is_some(), &directory)));
    }
    print_result(args.json, &States { processes, cm }, format_states)
}

/// What to say if `directory`, perhaps that of the command line, has no socket of a process.
fn nothing_found(is_given: bool, directory: &Path) -> String {
    let (place, what) = (directory.display(), "no server, tunnel or daemon was found");
    match (directory.is_dir(), is_given) {
        (true, true) => format!("{what}: {place} has no socket of one that runs"),
        (true, false) => format!(
            "{what}: {place} has no socket of one of this user; one that runs as a service is shown by \
             `rampmeter status DIRECTORY`, such as /run/rampmeter-serve"
        ),
        (false, true) => format!("{what}: there is no directory {place}; write that of its socket"),
        (false, false) if directory.parent().is_some_and(Path::is_dir) => {
            format!("{what}: this user has none; one that runs as a service is shown by `rampmeter status DIRECTORY`")
        }
        (false, false) => format!(
            "{what}: there is no directory {place}; if one runs, start it again and this command with XDG_RUNTIME_DIR \
             set to a directory that only this user may enter, or write the directory of its socket"
        ),
    }
}

fn format_states(states: &States) -> String {
    let daemon = states.cm.iter().map(|status| format!("Congestion Manager\n{}", cm::format_status(status)));
    states.processes.iter().map(format_process).chain(daemon).collect::<Vec<_>>().join("\n")
}

/// The columns of [`path_row`].
const PATH_HEAD: [&str; 11] =
    ["peer", "controller", "state", "permitted", "window", "rtt", "min rtt", "queue", "flows", "lost", "marked"];

fn format_process(process: &Snapshot) -> String {
    let (status, openers) = (&process.status, &process.status.openers);
    let at = process.address.map_or_else(String::new, |address| format!(" on {address}"));
    let mut text = format!(
        "{}{at}, process {}, for {:.0} s\n{} sessions, {} streams, {} bytes received, {} sent\n",
        process.role,
        process.pid,
        process.uptime_s,
        status.sessions,
        status.streams,
        status.received_bytes,
        status.sent_bytes
    );
    let refused = [
        ("over the rate of their network", openers.over_rate),
        ("for another key", openers.other_key),
        ("with keys that are not listed", openers.not_authorized),
        ("without a place", openers.busy),
        ("displaced", openers.displaced),
    ];
    let refused = refused.iter().filter(|(_, count)| *count > 0).map(|(why, count)| format!(", {count} {why}"));
    let handshakes = format!("{} accepted, {} asked for cookies", openers.accepted, openers.cookies);
    text.extend([&*format!("handshakes: {handshakes}"), &*refused.collect::<Vec<_>>().concat(), "\n"]);
    if !status.paths.is_empty() {
        text.push_str(&table(&PATH_HEAD.map(str::to_owned), &status.paths.iter().map(path_row).collect::<Vec<_>>()));
    }
    for path in &status.paths {
        let degraded = path.degraded.iter();
        text.extend(degraded.map(|why| format!("{}: {} is degraded: {why}\n", path.peer, path.controller)));
    }
    if status.other_paths > 0 {
        text.extend([&*format!("and {} paths with lower rates\n", status.other_paths)]);
    }
    text
}

fn path_row(path: &PathStatus) -> Vec<String> {
    let milliseconds = |seconds: f64| format!("{:.1} ms", seconds * 1e3);
    let all = (path.delivered_bytes + path.lost_bytes).max(1);
    vec![
        path.peer.to_string(),
        path.controller.clone(),
        path.state.clone(),
        format!("{:.2} Mb/s", path.rate_bps as f64 / 1e6),
        path.window_bytes.map_or_else(|| "-".to_owned(), |window| format!("{window} B")),
        milliseconds(path.rtt_s),
        milliseconds(path.min_rtt_s),
        milliseconds(path.queue_delay_s),
        path.flows.to_string(),
        format!("{:.2}%", path.lost_bytes as f64 * 100.0 / all as f64),
        path.marked_packets.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use rampmeter_net::monitor::{Openers, Status};

    use super::*;

    #[test]
    fn the_page_for_operators_has_this_status() {
        let path = PathStatus {
            peer: "198.51.100.23".parse().unwrap(),
            controller: "newreno".into(),
            state: "congestion_avoidance".into(),
            degraded: None,
            rate_bps: 94_100_000,
            window_bytes: Some(493_056),
            in_flight_bytes: 480_000,
            rtt_s: 0.0419,
            min_rtt_s: 0.0382,
            queue_delay_s: 0.0037,
            flows: 8,
            sent_bytes: 100_000_000,
            delivered_bytes: 99_980_000,
            lost_bytes: 20_000,
            marked_packets: 0,
        };
        let openers = Openers { accepted: 41, not_authorized: 2, ..Openers::default() };
        let (received_bytes, sent_bytes) = (1_893_241, 911_823_410);
        let paths = vec![path];
        let status =
            Status { sessions: 3, streams: 12, received_bytes, sent_bytes, openers, paths, ..Status::default() };
        let address = Some("203.0.113.5:7267".parse().unwrap());
        let process = Snapshot { role: "serve".into(), pid: 4711, address, uptime_s: 86.0, status };
        let (page, text) = (include_str!("../../../docs/operations.md"), format_process(&process));
        assert!(page.contains(&text), "docs/operations.md does not have:\n{text}");
    }

    #[test]
    fn a_server_has_one_to_sixteen_threads() {
        assert_eq!(threads("16"), Ok(16));
        assert!(threads("0").unwrap_err().contains("1 to 16") && threads("17").is_err());
    }
}
