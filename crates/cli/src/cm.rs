//! `rampmeter cm`: the Congestion Manager of this host, and two applications of it.

mod audio;
mod bench;
mod web;

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use rampmeter_cm::daemon::{
    self, Carriage, DEFAULT_PORT, Daemon, DaemonError, Limits, MacroflowStatus, Options, PeerStatus, Protocol, Status,
};
use rampmeter_cm::{Client, default_socket};
use rampmeter_control::Registry;
use rampmeter_manager::{HalfLife, Scheduling, Sharing};
use rampmeter_units::{Bytes, Rate};

use crate::failure::Failure;
use crate::lists::check_controller;
use crate::stop_flag;
use crate::table::table;

/// What `rampmeter cm` takes.
#[derive(Debug, Args)]
pub(crate) struct CmArgs {
    #[command(subcommand)]
    command: CmCommand,
}

#[derive(Debug, Subcommand)]
enum CmCommand {
    /// Manage congestion for all of this host's programs that ask
    Daemon(DaemonArgs),
    /// Say what the running daemon does: paths, rates, flows, processes
    Status(StatusArgs),
    /// Measure what a grant costs, with a daemon of its own
    Bench(bench::BenchArgs),
    /// Offer a directory over HTTP: the daemon says when to send, and how good a picture fits
    Web(web::WebArgs),
    /// Send layered audio: the daemon says which encoding fits
    Audio(audio::AudioArgs),
    /// Receive layered audio, and acknowledge it
    Listen(audio::ListenArgs),
}

#[derive(Debug, Args)]
struct DaemonArgs {
    /// Where programs find it [default: `$XDG_RUNTIME_DIR/rampmeter/cm.sock`, for root /run/rampmeter/cm.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The congestion controller of each path: cm, newreno, reno or another window. Of controllers that need what programs
    /// don't report (the time of each arrival, routers' answers) it warns
    #[arg(long, value_name = "NAME", default_value = "cm")]
    controller: String,
    /// How flows on one path share it
    #[arg(long, value_enum, default_value_t = Scheduler::RoundRobin)]
    scheduler: Scheduler,
    /// Give flows that the network treats worse than others to the same host a rate of their own
    #[arg(long)]
    segregation: bool,
    /// While nothing comes back, the rate halves with every round trip: the least, or the mean, which grows with queues
    #[arg(long, value_enum, default_value_t = Aging::MinRtt)]
    half_life: Aging,
    /// Serve programs of all users, not only one's own and root's
    #[arg(long)]
    public: bool,
    /// Close flows that have been silent for so long
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    silence: u64,
    /// The UDP port at which daemons of other hosts are spoken to and heard, the same on all; 0: none are [default: 2961]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Speak to them in IP packets of protocol 253 instead, which takes privileges
    #[arg(long, conflicts_with = "port")]
    raw: bool,
    /// Speak from this address only [default: all addresses of this host]
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<IpAddr>,
    /// Hand datagrams from other daemons on to these UDP ports, although no program has asked for it
    #[arg(long, value_name = "PORT", value_delimiter = ',')]
    deliver: Vec<u16>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Scheduler {
    /// By weights, within classes
    RoundRobin,
    /// Guarantees of rate and delay first, then by weights (H-FSC)
    ServiceCurves,
    /// In the order in which they ask
    InTurn,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Aging {
    /// The least
    MinRtt,
    /// The smoothed mean
    MeanRtt,
}

#[derive(Debug, Args)]
struct StatusArgs {
    /// Where the daemon listens
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// One JSON object on standard output
    #[arg(long)]
    json: bool,
}

pub(crate) fn cm(args: &CmArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    match &args.command {
        CmCommand::Daemon(args) => serve(args, registry),
        CmCommand::Status(args) => tell(args),
        CmCommand::Bench(args) => bench::measure(args),
        CmCommand::Web(args) => web::serve(args),
        CmCommand::Audio(args) => audio::send(args),
        CmCommand::Listen(args) => audio::listen(args),
    }
}

/// A connection to the daemon that listens at `socket`, or at the usual place.
fn connect(socket: Option<&Path>) -> Result<Client, Failure> {
    let path = socket.map_or_else(default_socket, Path::to_owned);
    Client::connect_to(&path).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}

fn serve(args: &DaemonArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    check_controller(registry, &args.controller)?;
    let scheduling = match args.scheduler {
        Scheduler::RoundRobin => Scheduling::RoundRobin,
        Scheduler::ServiceCurves => Scheduling::ServiceCurves,
        Scheduler::InTurn => Scheduling::InTurn,
    };
    let half_life = match args.half_life {
        Aging::MinRtt => HalfLife::MinRtt,
        Aging::MeanRtt => HalfLife::MeanRtt,
    };
    let silence = rampmeter_units::Duration::from_secs(args.silence.clamp(1, 1 << 30));
    let carriage = match (args.raw, args.port) {
        (true, _) => Carriage::Raw,
        (_, Some(0)) => Carriage::None,
        (_, port) => Carriage::Udp(port.unwrap_or(DEFAULT_PORT)),
    };
    if let Some(wrong) = args.deliver.iter().find(|&&port| port == 0 || carriage == Carriage::Udp(port)) {
        return Err(Failure::input(format!(
            "--deliver {wrong}: no program can have this port; name those of programs"
        )));
    }
    let mut options = Options {
        socket: args.socket.clone().unwrap_or_else(default_socket),
        controller: args.controller.clone(),
        registry: registry.clone(),
        sharing: Sharing { scheduling, half_life, segregation: args.segregation, ..Sharing::default() },
        limits: Limits { silence, ..Limits::default() },
        public: args.public,
        protocol: Protocol { carriage, address: args.bind, deliver: args.deliver.clone() },
        stop: stop_flag(),
        ..Options::default()
    };
    let mut daemon = match Daemon::bind(options.clone()) {
        // Another user's daemon has the usual port: of the rest nothing is lost.
        Err(error @ DaemonError::Speak { .. }) if args.port.is_none() && !args.raw && is_taken(&error) => {
            eprintln!("warning: {error}");
            options.protocol.carriage = Carriage::None;
            Daemon::bind(options)
        }
        other => other,
    }
    .map_err(refuse)?;
    if let Some(need) = registry.needs(&args.controller) {
        eprintln!("warning: {} {need}; cm, newreno and reno do without", args.controller);
    }
    println!("managing congestion at {} with {}", daemon.path().display(), args.controller);
    daemon.run().map_err(refuse)?;
    Ok(ExitCode::SUCCESS)
}

fn is_taken(error: &DaemonError) -> bool {
    matches!(error, DaemonError::Speak { error, .. } if error.kind() == io::ErrorKind::AddrInUse)
}

fn refuse(error: DaemonError) -> Failure {
    match error {
        DaemonError::Controller(_) => Failure::input(error),
        _ => Failure::failed(error),
    }
}

fn tell(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let path = args.socket.clone().unwrap_or_else(default_socket);
    let status = daemon::status(&path).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
    if args.json {
        println!("{}", serde_json::to_string(&status).map_err(Failure::failed)?);
    } else {
        print!("{}", describe(&status));
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(status: &Status) -> String {
    let mut text = format!("controller {}, processes {}\n", status.controller, list(&status.processes));
    if status.macroflows.is_empty() {
        text.push_str("no flows\n");
    } else {
        let head = ["destination", "rate", "window", "outstanding", "srtt", "flows", "processes"].map(String::from);
        let rows: Vec<_> = status.macroflows.iter().map(macroflow_row).collect();
        text.push_str(&table(&head, &rows));
    }
    if !status.peers.is_empty() {
        let head = ["peer", "manager", "rtt", "probes", "answered", "flows"].map(String::from);
        text.push_str(&table(&head, &status.peers.iter().map(peer_row).collect::<Vec<_>>()));
    }
    if status.senders > 0 {
        text = format!("{text}{} other managers send to this one\n", status.senders);
    }
    if status.refused > 0 {
        text = format!("{text}{} datagrams were refused by the kernel\n", status.refused);
    }
    text
}

/// A rate to four digits: nobody reads more.
fn rounded(bps: u64) -> String {
    let unit = 10_u64.pow(bps.checked_ilog10().unwrap_or(0).saturating_sub(3));
    Rate::from_bps((bps + unit / 2) / unit * unit).to_string()
}

fn macroflow_row(macroflow: &MacroflowStatus) -> Vec<String> {
    vec![
        macroflow.destination.to_string(),
        rounded(macroflow.rate_bps),
        macroflow.window_bytes.map_or("-".into(), |bytes| Bytes::new(bytes).to_string()),
        Bytes::new(macroflow.in_flight_bytes).to_string(),
        format!("{:.3} ms", macroflow.srtt_s * 1e3),
        macroflow.flows.to_string(),
        list(&macroflow.processes),
    ]
}

fn peer_row(peer: &PeerStatus) -> Vec<String> {
    let manager = match peer.present {
        None => "asked",
        Some(true) => "yes",
        Some(false) => "no",
    };
    vec![
        // In IP packets of our own there are no ports.
        if peer.address.port() == 0 { peer.address.ip().to_string() } else { peer.address.to_string() },
        manager.into(),
        peer.rtt_s.map_or("-".into(), |rtt| format!("{:.3} ms", rtt * 1e3)),
        peer.probes.to_string(),
        peer.responses.to_string(),
        peer.flows.to_string(),
    ]
}

fn list(numbers: &[i32]) -> String {
    if numbers.is_empty() { "-".into() } else { numbers.iter().map(i32::to_string).collect::<Vec<_>>().join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_four_digits() {
        let shown = [0, 999, 11_540_672, 1_936_000].map(rounded);
        assert_eq!(shown, ["0 b/s", "999 b/s", "11.54 Mb/s", "1.936 Mb/s"]);
    }
}
