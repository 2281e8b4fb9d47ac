//! `rampmeter serve` and `rampmeter get`: files over UDP, under one of our controllers.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use rampmeter_control::Registry;
use rampmeter_net::files::{self, GetOptions, NetError, ServeOptions, Served, Server};
use rampmeter_units::{Bytes, Rate};

use crate::failure::Failure;
use crate::stop_flag;

/// What `rampmeter serve` takes.
#[derive(Debug, Args)]
#[command(after_help = "Nothing is encrypted or authenticated yet: listen on other addresses than this machine's own \
                        loopback only where everybody on the way is trusted.")]
pub(crate) struct ServeArgs {
    /// The directory whose regular files are offered
    directory: PathBuf,
    /// Where to listen; port 0 picks a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7267")]
    listen: String,
    /// The congestion controller that files leave under where `get` names no other (`rampmeter controllers` lists them)
    #[arg(long, value_name = "NAME", default_value = "newreno")]
    controller: String,
}

/// What `rampmeter get` takes.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// HOST:PORT/NAME
    url: String,
    /// The file or directory to write to [default: the name, here]
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,
    /// The congestion controller that the server should send the file under [default: the server's own]
    #[arg(long, value_name = "NAME")]
    controller: Option<String>,
    /// Begin anew instead of going on from an interrupted download
    #[arg(long)]
    restart: bool,
    /// One JSON object on standard output, no progress bar
    #[arg(long)]
    json: bool,
}

pub(crate) fn serve(args: &ServeArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let server = Server::bind(ServeOptions {
        directory: args.directory.clone(),
        address: listen_address(&args.listen)?,
        controller: args.controller.clone(),
        registry: registry.clone(),
        observe: Some(Box::new(tell)),
        stop: stop_flag(),
        ..ServeOptions::default()
    })?;
    println!("serving {} on {} with {}", args.directory.display(), server.address(), args.controller);
    server.run()?;
    Ok(ExitCode::SUCCESS)
}

/// The address that `text` names; of a host with several an IPv4 one, which `get` finds by the host's name as well.
fn listen_address(text: &str) -> Result<SocketAddr, Failure> {
    let refuse = |reason: String| {
        let example = "127.0.0.1:7267, localhost:0 or [::1]:7267";
        Failure::input(format!("--listen {text}: {reason}; give HOST:PORT of this machine, for example {example}"))
    };
    let addresses: Vec<SocketAddr> = text.to_socket_addrs().map_err(|error| refuse(error.to_string()))?.collect();
    let chosen = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    chosen.copied().ok_or_else(|| refuse("it has no address".into()))
}

/// A line a transfer. The name comes from a stranger, so nothing in it reaches the terminal raw.
fn tell(served: &Served) {
    let how = match (served.ended, &served.refusal) {
        ("finished", _) => pace(served.bytes, served.seconds),
        (_, Some(reason)) => format!("refused: {reason}"),
        (ended, None) => format!("{ended} after {}", pace(served.bytes, served.seconds)),
    };
    println!("{} {:?}: {how}, {}", served.peer, served.name, served.controller);
}

/// "12.35 MB in 2.471 s, 40 Mb/s".
fn pace(bytes: u64, seconds: f64) -> String {
    let rate = Rate::from_bps_f64(rounded(bytes as f64 * 8.0 / seconds.max(1e-9)));
    format!("{} in {} s, {rate}", Bytes::new(rounded(bytes as f64) as u64), rounded(seconds))
}

/// To four significant digits.
fn rounded(number: f64) -> f64 {
    format!("{number:.3e}").parse().unwrap_or(number)
}

pub(crate) fn get(args: &GetArgs) -> Result<ExitCode, Failure> {
    let report = files::get(&GetOptions {
        url: args.url.clone(),
        out: args.output.clone(),
        resume: !args.restart,
        progress: !args.json,
        controller: args.controller.clone(),
        stop: stop_flag(),
        ..GetOptions::default()
    });
    let report = report.map_err(|error| match error {
        NetError::Interrupted { .. } => Failure::interrupted(error),
        error => error.into(),
    })?;
    if args.json {
        println!("{}", serde_json::to_string(&report).map_err(Failure::failed)?);
    } else {
        let pace = pace(report.bytes - report.resumed_from, report.seconds);
        let (path, loss) = (report.path.display(), rounded(report.loss * 100.0));
        println!("{path}: {pace}, loss {loss}%, {}, blake3 {}", report.controller, report.blake3);
    }
    Ok(ExitCode::SUCCESS)
}
