//! `rampmeter serve` and `rampmeter get`: files over UDP, under one of our controllers.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use rampmeter_control::Registry;
use rampmeter_net::files::{self, GetOptions, NetError, STANDARD_OUTPUT, ServeOptions, Server, TransferReport};
use rampmeter_units::{Bytes, Rate};

use crate::failure::Failure;
use crate::lists::check_controller;
use crate::stop_flag;

/// What `rampmeter serve` takes.
#[derive(Debug, Args)]
#[command(after_help = "Nothing is encrypted or authenticated yet: listen on other addresses than this machine's own \
                        loopback only where everybody on the way is trusted.")]
pub(crate) struct ServeArgs {
    /// The directory whose regular files are offered
    directory: PathBuf,
    /// Where to listen; port 0 picks a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7267", value_parser = address)]
    listen: SocketAddr,
    /// The congestion controller that files leave under where `get` names no other (`rampmeter controllers` lists them)
    #[arg(long, value_name = "NAME", default_value = "newreno")]
    controller: String,
    /// Keep what is learnt of clients' paths in this file, for the next time; several servers may share one
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
}

/// What `rampmeter get` takes.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// HOST:PORT/NAME
    url: String,
    /// The file or directory to write to; a device or a pipe is written to as the bytes come, like standard output for -
    /// (what is told then goes to standard error) [default: the name, here]
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
    check_controller(registry, &args.controller)?;
    let server = Server::bind(ServeOptions {
        directory: args.directory.clone(),
        address: args.listen,
        controller: args.controller.clone(),
        registry: registry.clone(),
        on_transfer: Some(Box::new(tell)),
        on_degraded: Some(Box::new(|peer, controller, why| eprintln!("rampmeter: {peer}: {controller}: {why}"))),
        history: args.history.clone(),
        stop: stop_flag(),
        ..ServeOptions::default()
    })?;
    println!("serving {} on {} with {}", args.directory.display(), server.address(), args.controller);
    if let Some(aside) = server.put_aside() {
        eprintln!("rampmeter: the file of histories was damaged: it is now {}, and a new one begun", aside.display());
    }
    server.run()?;
    Ok(ExitCode::SUCCESS)
}

/// An address, also by a host's name.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().map_err(|error| format!("{error}; write for example 127.0.0.1:7267"))?;
    found.into_iter().next().ok_or_else(|| "this name has no address".to_owned())
}

/// A line a transfer. The name comes from a stranger, so nothing in it reaches the terminal raw.
fn tell(served: &TransferReport) {
    let amount = amount(served.bytes, served.seconds, served.bytes as f64 * 8.0 / served.seconds.max(1e-9));
    let how = match (served.ended, &served.refusal) {
        (_, Some(reason)) => format!("refused: {reason}"),
        ("finished", None) => amount,
        (ended, None) => format!("{ended} after {amount}"),
    };
    println!("{} {:?}: {how}, {}", served.peer, served.name, served.controller);
}

/// How much, in what time, how fast.
fn amount(bytes: u64, seconds: f64, bps: f64) -> String {
    let (bytes, rate) = (Bytes::new(rounded(bytes as f64) as u64), Rate::from_bps_f64(rounded(bps)));
    format!("{bytes} in {} s, {rate}", rounded(seconds))
}

/// To the four significant digits that anyone reads.
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
    let told = if args.json {
        serde_json::to_string(&report).map_err(Failure::failed)?
    } else {
        let received = report.bytes - report.resumed_from;
        let before = match report.resumed_from {
            0 => String::new(),
            some => format!(" after {} of earlier", Bytes::new(rounded(some as f64) as u64)),
        };
        format!(
            "{}: {}{before}, loss {}%, {}, blake3 {}",
            report.path.display(),
            amount(received, report.seconds, report.goodput_bps),
            rounded(report.loss * 100.0),
            report.controller,
            report.blake3
        )
    };
    match args.output.as_deref() {
        Some(output) if output == Path::new(STANDARD_OUTPUT) => eprintln!("{told}"),
        _ => println!("{told}"),
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_four_digits() {
        assert_eq!(amount(250_000, 0.2, 10_000_000.4), "250 kB in 0.2 s, 10 Mb/s");
        assert_eq!(amount(123_456_789, 10.004, 98_726_123.0), "123.5 MB in 10 s, 98.73 Mb/s");
        assert_eq!(amount(0, 0.0, 0.0), "0 B in 0 s, 0 b/s");
    }

    #[test]
    fn hosts_have_names() {
        assert!(address("localhost:0").unwrap().ip().is_loopback());
        assert!(address("nowhere").unwrap_err().contains("127.0.0.1:7267"));
    }
}
