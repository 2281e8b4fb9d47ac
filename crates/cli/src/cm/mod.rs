//! `rampmeter cm`: the Congestion Manager of this host, and two applications that use it.

mod audio;
mod metrics;
mod web;

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use rampmeter_cm::daemon::{
    self, Carriage, DEFAULT_PORT, Daemon, DaemonError, Limits, MacroflowStatus, Options, PeerStatus, Protocol, Status,
};
use rampmeter_cm::{Client, default_socket};
use rampmeter_control::Registry;
use rampmeter_manager::{HalfLife, Scheduling, Sharing};
use rampmeter_units::{Bytes, Duration};

use crate::failure::Failure;
use crate::files::rate;
use crate::lists::check_controller;
use crate::operate::OperateArgs;
use crate::table::table;
use crate::{print_result, stop_flag};

/// The arguments of `rampmeter cm`.
#[derive(Debug, Args)]
pub(crate) struct CmArgs {
    #[command(subcommand)]
    command: CmCommand,
}

#[derive(Debug, Subcommand)]
enum CmCommand {
    /// Manage congestion for all programs of this host that use the Congestion Manager
    Daemon(DaemonArgs),
    /// Show the state of the running daemon: paths, rates, flows, processes
    Status(StatusArgs),
    /// Serve a directory over HTTP; the daemon paces the connections, and its rate estimate selects the image size
    Web(web::WebArgs),
    /// Send layered audio in the highest encoding that the rate estimate of the daemon allows
    Audio(audio::AudioArgs),
    /// Receive and acknowledge layered audio
    Listen(audio::ListenArgs),
}

#[derive(Debug, Args)]
struct DaemonArgs {
    /// The socket at which programs connect [default: `$XDG_RUNTIME_DIR/rampmeter/cm.sock`, for root
    /// /run/rampmeter/cm.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The congestion controller of each path: cm, newreno, reno or another one with a window. The daemon warns about
    /// controllers that need feedback which programs do not report (arrival times, router feedback)
    #[arg(long, value_name = "NAME", default_value = "cm")]
    controller: String,
    /// The scheduler that divides a path among its flows
    #[arg(long, default_value = "round-robin", value_parser = one_of(SCHEDULERS))]
    scheduler: Scheduling,
    /// If the network treats some flows to a host worse than others, control them separately
    #[arg(long)]
    segregation: bool,
    /// The time in which the rate halves while no feedback arrives: the minimum or the mean round-trip time, which
    /// grows with queues
    #[arg(long, default_value = "min-rtt", value_parser = one_of(HALF_LIVES))]
    half_life: HalfLife,
    /// Accept programs of all users, not only of this user and root
    #[arg(long)]
    public: bool,
    /// Close flows that send no command for this long
    #[arg(long, value_name = "TIME", default_value = "600s", value_parser = web::span)]
    idle_timeout: Duration,
    /// The UDP port for the daemons of other hosts, the same on all hosts; 0: no communication with them [default:
    /// 2961]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Use raw IP packets (protocol 253) instead of UDP; needs `CAP_NET_RAW`
    #[arg(long, conflicts_with = "port")]
    raw: bool,
    /// The local address for the daemons of other hosts; 0.0.0.0: all addresses of this host, of IPv6, too
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    listen: IpAddr,
    /// UDP ports to which datagrams from other daemons are delivered even if no program called `cm_listen`
    #[arg(long, value_name = "PORT", value_delimiter = ',')]
    deliver: Vec<u16>,
    #[command(flatten)]
    operate: OperateArgs,
}

/// The value of an argument by its name among `values`: names, help and values.
fn one_of<T: Copy + Send + Sync + 'static>(values: &'static [(&str, &str, T)]) -> impl TypedValueParser<Value = T> {
    let possible = values.iter().map(|(name, help, _)| PossibleValue::new(*name).help(*help));
    let find = |name: String| values.iter().find(|(known, ..)| *known == name).map(|(.., value)| *value);
    PossibleValuesParser::new(possible).try_map(move |name| find(name).ok_or("no such value"))
}

const SCHEDULERS: &[(&str, &str, Scheduling)] = &[
    ("round-robin", "By weights, within classes", Scheduling::RoundRobin),
    (
        "h-fsc",
        "By guarantees of rate and delay first, then by weights: hierarchical fair service curves",
        Scheduling::ServiceCurves,
    ),
    ("in-turn", "In the order of the requests", Scheduling::InTurn),
];

const HALF_LIVES: &[(&str, &str, HalfLife)] = &[
    ("min-rtt", "The minimum round-trip time", HalfLife::MinRtt),
    ("mean-rtt", "The smoothed mean round-trip time", HalfLife::MeanRtt),
];

#[derive(Debug, Args)]
struct StatusArgs {
    /// The socket of the daemon
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Write one JSON object to standard output
    #[arg(long)]
    json: bool,
}

pub(crate) fn cm(args: &CmArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    match &args.command {
        CmCommand::Daemon(args) => run_daemon(args, registry),
        CmCommand::Status(args) => print_status(args),
        CmCommand::Web(args) => web::serve(args),
        CmCommand::Audio(args) => audio::send(args),
        CmCommand::Listen(args) => audio::listen(args),
    }
}

/// Connects to the daemon at `socket`, or at the default path.
fn connect(socket: Option<&Path>) -> Result<Client, Failure> {
    let path = socket.map_or_else(default_socket, Path::to_owned);
    Client::connect_to(&path).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}

fn run_daemon(args: &DaemonArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    check_controller(registry, &args.controller)?;
    args.operate.start_log()?;
    let carriage = match (args.raw, args.port) {
        (true, _) => Carriage::Raw,
        (_, Some(0)) => Carriage::None,
        (_, port) => Carriage::Udp(port.unwrap_or(DEFAULT_PORT)),
    };
    if let Some(wrong) = args.deliver.iter().find(|&&port| port == 0 || carriage == Carriage::Udp(port)) {
        return Err(Failure::input(format!(
            "--deliver {wrong}: programs cannot use this port; name ports of programs"
        )));
    }
    let mut options = Options {
        socket: args.socket.clone().unwrap_or_else(default_socket),
        controller: args.controller.clone(),
        registry: registry.clone(),
        sharing: Sharing {
            scheduling: args.scheduler,
            half_life: args.half_life,
            segregation: args.segregation,
            ..Sharing::default()
        },
        limits: Limits { idle_timeout: args.idle_timeout, ..Limits::default() },
        public: args.public,
        protocol: Protocol {
            carriage,
            address: Some(args.listen).filter(|address| !address.is_unspecified()),
            deliver: args.deliver.clone(),
        },
        stop: stop_flag(),
        ..Options::default()
    };
    let mut daemon = match Daemon::bind(options.clone()) {
        // Another user's daemon has the default port. This one can work without it.
        Err(error @ DaemonError::CarrierFailed { .. })
            if args.port.is_none() && !args.raw && is_port_in_use(&error) =>
        {
            eprintln!("rampmeter: {error}; going on without it");
            options.protocol.carriage = Carriage::None;
            Daemon::bind(options)
        }
        other => other,
    }
    .map_err(refuse)?;
    if let Some(need) = registry.needs(&args.controller) {
        eprintln!("rampmeter: {} {need}; use cm, newreno or reno, which need no such feedback", args.controller);
    }
    args.operate.serve_metrics(|address| metrics::serve(address, daemon.path()))?;
    println!("managing congestion at {} with {}", daemon.path().display(), args.controller);
    daemon.run().map_err(refuse)?;
    Ok(ExitCode::SUCCESS)
}

fn is_port_in_use(error: &DaemonError) -> bool {
    matches!(error, DaemonError::CarrierFailed { error, .. } if error.kind() == io::ErrorKind::AddrInUse)
}

fn refuse(error: DaemonError) -> Failure {
    match error {
        DaemonError::Controller(_) => Failure::input(error),
        _ => Failure::failed(error),
    }
}

fn print_status(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let path = args.socket.clone().unwrap_or_else(default_socket);
    let status = daemon::status(&path).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
    print_result(args.json, &status, format_status)
}

/// The status of the daemon at the default path, if one runs.
pub(crate) fn running_status() -> Option<Status> {
    daemon::status(&default_socket()).ok()
}

pub(crate) fn format_status(status: &Status) -> String {
    let mut text = format!("controller {}, processes {}\n", status.controller, list(&status.processes));
    if status.macroflows.is_empty() {
        text.push_str("no flows\n");
    } else {
        let head =
            ["destination", "state", "rate", "window", "in flight", "srtt", "flows", "processes"].map(String::from);
        let rows: Vec<_> = status.macroflows.iter().map(macroflow_row).collect();
        text.push_str(&table(&head, &rows));
    }
    for macroflow in &status.macroflows {
        let degraded = macroflow.degraded.iter();
        text.extend(
            degraded.map(|why| format!("{}: {} is degraded: {why}\n", macroflow.destination, status.controller)),
        );
    }
    if !status.peers.is_empty() {
        let head = ["peer", "daemon", "rtt", "probes", "responses", "lost", "flows"].map(String::from);
        text.push_str(&table(&head, &status.peers.iter().map(peer_row).collect::<Vec<_>>()));
    }
    if status.senders > 0 {
        text = format!("{text}daemons that send to this host: {}\n", status.senders);
    }
    if status.refused > 0 {
        text = format!("{text}the kernel refused {} datagrams\n", status.refused);
    }
    text
}

fn macroflow_row(macroflow: &MacroflowStatus) -> Vec<String> {
    vec![
        macroflow.destination.to_string(),
        macroflow.state.clone(),
        rate(macroflow.rate_bps as f64),
        macroflow.window_bytes.map_or("-".into(), |bytes| Bytes::new(bytes).to_string()),
        Bytes::new(macroflow.in_flight_bytes).to_string(),
        format!("{:.3} ms", macroflow.srtt_s * 1e3),
        macroflow.flows.to_string(),
        list(&macroflow.processes),
    ]
}

fn peer_row(peer: &PeerStatus) -> Vec<String> {
    let daemon = match peer.present {
        None => "querying",
        Some(true) => "yes",
        Some(false) => "no",
    };
    vec![
        // Raw IP packets have no ports.
        if peer.address.port() == 0 { peer.address.ip().to_string() } else { peer.address.to_string() },
        daemon.into(),
        peer.rtt_s.map_or("-".into(), |rtt| format!("{:.3} ms", rtt * 1e3)),
        peer.probes.to_string(),
        peer.responses.to_string(),
        lost_percent(peer),
        peer.flows.to_string(),
    ]
}

/// The share of the bytes with a known outcome that were lost.
fn lost_percent(peer: &PeerStatus) -> String {
    let known = peer.delivered_bytes + peer.lost_bytes;
    if known == 0 { "-".into() } else { format!("{:.1}%", peer.lost_bytes as f64 / known as f64 * 100.0) }
}

fn list(numbers: &[i32]) -> String {
    if numbers.is_empty() { "-".into() } else { numbers.iter().map(i32::to_string).collect::<Vec<_>>().join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_four_digits() {
        let shown = [0.0, 999.0, 11_540_672.0, 1_936_000.0].map(rate);
        assert_eq!(shown, ["0 b/s", "999 b/s", "11.54 Mb/s", "1.936 Mb/s"]);
    }
}
