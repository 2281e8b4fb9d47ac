//! `rampmeter serve` and `rampmeter get`: files over UDP, with one of Rampmeter's controllers.

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

/// The arguments of `rampmeter serve`.
#[derive(Debug, Args)]
#[command(
    after_help = "Nothing is encrypted or authenticated: listen on addresses other than loopback only in networks \
                        that you trust."
)]
pub(crate) struct ServeArgs {
    /// The directory whose regular files to serve
    directory: PathBuf,
    /// The address to listen at; port 0 picks a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7267", value_parser = address)]
    listen: SocketAddr,
    /// The congestion controller of transfers for which `get` names none (`rampmeter controllers` lists them)
    #[arg(long, value_name = "NAME", default_value = "newreno")]
    controller: String,
    /// Keep measurements of clients' paths in this file for later transfers; several servers may share one file
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
}

/// The arguments of `rampmeter get`.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// HOST:PORT/NAME
    url: String,
    /// The file or directory to write to; a device, a pipe or - (standard output) receives the bytes as they arrive,
    /// and with - messages go to standard error [default: the name, in the current directory]
    #[arg(long, short, value_name = "PATH")]
    out: Option<PathBuf>,
    /// The congestion controller that the server should use [default: the server's choice]
    #[arg(long, value_name = "NAME")]
    controller: Option<String>,
    /// Start over instead of resuming an interrupted download
    #[arg(long)]
    fresh: bool,
    /// Write one JSON object to standard output, without a progress bar
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
        on_transfer: Some(Box::new(print_transfer)),
        on_degraded: Some(Box::new(|peer, controller, why| eprintln!("rampmeter: {peer}: {controller}: {why}"))),
        history: args.history.clone(),
        stop: stop_flag(),
        ..ServeOptions::default()
    })?;
    println!("serving {} on {} with {}", args.directory.display(), server.address(), args.controller);
    if let Some(renamed_to) = server.renamed_history() {
        eprintln!(
            "rampmeter: the history file was damaged: renamed it to {} and created a new one",
            renamed_to.display()
        );
    }
    server.run()?;
    Ok(ExitCode::SUCCESS)
}

/// Parses an address; the host may be a name.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().map_err(|error| format!("{error}; write for example 127.0.0.1:7267"))?;
    found.into_iter().next().ok_or_else(|| "this name has no address".to_owned())
}

/// Prints one line per transfer. The file name comes from an untrusted client, so it is escaped.
fn print_transfer(served: &TransferReport) {
    let amount = amount(served.bytes, served.seconds, served.bytes as f64 * 8.0 / served.seconds.max(1e-9));
    let result = match (served.ended, &served.refusal) {
        (_, Some(reason)) => format!("refused: {reason}"),
        ("finished", None) => amount,
        (ended, None) => format!("{ended} after {amount}"),
    };
    println!("{} {:?}: {result}, {}", served.peer, served.name, served.controller);
}

/// Formats an amount of data, its time and its rate.
fn amount(bytes: u64, seconds: f64, bps: f64) -> String {
    format!("{} in {} s, {}", Bytes::new(rounded(bytes as f64) as u64), rounded(seconds), rate(bps))
}

/// Formats a rate with four significant digits.
pub(crate) fn rate(bps: f64) -> String {
    Rate::from_bps_f64(rounded(bps)).to_string()
}

/// Rounds to four significant digits.
fn rounded(number: f64) -> f64 {
    format!("{number:.3e}").parse().unwrap_or(number)
}

pub(crate) fn get(args: &GetArgs) -> Result<ExitCode, Failure> {
    let report = files::get(&GetOptions {
        url: args.url.clone(),
        out: args.out.clone(),
        resume: !args.fresh,
        progress: !args.json,
        controller: args.controller.clone(),
        stop: stop_flag(),
        ..GetOptions::default()
    });
    let report = report.map_err(|error| match error {
        NetError::Interrupted(_) => Failure::interrupted(error),
        error => error.into(),
    })?;
    let message = if args.json {
        serde_json::to_string(&report).map_err(Failure::failed)?
    } else {
        let received = report.bytes - report.resumed_from;
        let earlier = match report.resumed_from {
            0 => String::new(),
            some => format!(" ({} resumed from an earlier download)", Bytes::new(rounded(some as f64) as u64)),
        };
        format!(
            "{}: {}{earlier}, loss {}%, {}, blake3 {}",
            report.path.display(),
            amount(received, report.seconds, report.goodput_bps),
            rounded(report.loss * 100.0),
            report.controller,
            report.blake3
        )
    };
    match args.out.as_deref() {
        Some(output) if output == Path::new(STANDARD_OUTPUT) => eprintln!("{message}"),
        _ => println!("{message}"),
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
