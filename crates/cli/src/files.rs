//! `rampmeter serve` and `rampmeter get`: files over UDP, with one of Rampmeter's controllers.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use rampmeter_control::Registry;
use rampmeter_net::files::{self, GetOptions, NetError, STANDARD_OUTPUT, ServeOptions, Server, TransferReport, Trust};
use rampmeter_net::keys;
use rampmeter_session::{Clients, PublicKey};
use rampmeter_units::{Bytes, Rate};

use crate::failure::Failure;
use crate::lists::check_controller;
use crate::stop_flag;

/// The arguments of `rampmeter serve`.
#[derive(Debug, Args)]
#[command(after_help = "Everything is encrypted. By default anyone who reaches the address can fetch the files; \
                        --authorized limits it to listed keys.")]
pub(crate) struct ServeArgs {
    /// The directory whose regular files to serve
    directory: PathBuf,
    /// The address to listen at; port 0 picks a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7267", value_parser = address)]
    listen: SocketAddr,
    /// The server's secret key; made if the file does not exist [default: ~/.config/rampmeter/key]
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// Serve only clients whose public key is in this file: a key and, if wanted, a comment on each line
    #[arg(long, value_name = "FILE")]
    authorized: Option<PathBuf>,
    /// The maximum number of clients at once; one address has at most four fifths of these places
    #[arg(long, value_name = "N", default_value_t = ServeOptions::default().max_clients, value_parser = clients)]
    clients: usize,
    /// Serve hidden files, too: those with a part of their name that begins with a dot
    #[arg(long)]
    hidden: bool,
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
    /// HOST:PORT/NAME, with ?key=KEY for a server whose public key you have been given
    url: String,
    /// The file or directory to write to; a device, a pipe or - (standard output) receives the bytes as they arrive,
    /// and with - messages go to standard error [default: the name, in the current directory]
    #[arg(long, short, value_name = "PATH")]
    out: Option<PathBuf>,
    /// The server's public key [default: the one in the file of known servers; a new server's is added there]
    #[arg(long, value_name = "KEY")]
    key: Option<PublicKey>,
    /// This client's secret key, for servers that serve only listed keys [default: ~/.config/rampmeter/key if it
    /// exists]
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// The BLAKE3 hash that the file must have, as 64 hexadecimal digits
    #[arg(long, value_name = "HASH", value_parser = hash)]
    blake3: Option<[u8; 32]>,
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
    let path = args.identity.clone().unwrap_or_else(default_key);
    let (identity, is_new) = keys::read_or_create_key(&path)?;
    let clients = match &args.authorized {
        Some(path) => Clients::Listed(keys::read_authorized_keys(path)?),
        None => Clients::Anyone,
    };
    let server = Server::bind(ServeOptions {
        directory: args.directory.clone(),
        address: args.listen,
        identity,
        clients,
        hidden: args.hidden,
        max_clients: args.clients,
        controller: args.controller.clone(),
        registry: registry.clone(),
        on_transfer: Some(Box::new(print_transfer)),
        on_degraded: Some(Box::new(|peer, controller, why| eprintln!("rampmeter: {peer}: {controller}: {why}"))),
        history: args.history.clone(),
        stop: stop_flag(),
        ..ServeOptions::default()
    })?;
    if is_new {
        eprintln!("rampmeter: made the secret key {}", path.display());
    }
    let (address, key) = (server.address(), server.key());
    println!("serving {} on {address} with {}", args.directory.display(), args.controller);
    println!("fetch with: rampmeter get '{address}/NAME?key={key}'");
    if let Some(renamed_to) = server.renamed_history() {
        eprintln!(
            "rampmeter: the history file was damaged: renamed it to {} and created a new one",
            renamed_to.display()
        );
    }
    server.run()?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn default_key() -> PathBuf {
    keys::default_directory().join("key")
}

/// Parses a number of clients.
fn clients(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=10_000).contains(number));
    number.ok_or_else(|| "write 1 to 10000".to_owned())
}

/// Parses a hash.
fn hash(text: &str) -> Result<[u8; 32], String> {
    let digit = |at: usize| text.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
    let bytes: Option<Vec<u8>> = (0..64).step_by(2).map(digit).collect();
    let bytes = bytes.filter(|_| text.len() == 64).and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| "a hash has 64 hexadecimal digits; `rampmeter get` prints it".to_owned())
}

/// The arguments of `rampmeter key`.
#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    /// The file of the secret key [default: ~/.config/rampmeter/key]
    file: Option<PathBuf>,
}

/// Prints the public key of a file, which is made if it does not exist.
pub(crate) fn key(args: &KeyArgs) -> Result<ExitCode, Failure> {
    let path = args.file.clone().unwrap_or_else(default_key);
    let (pair, is_new) = keys::read_or_create_key(&path)?;
    if is_new {
        eprintln!("rampmeter: made the secret key {}; this is its public key:", path.display());
    }
    println!("{}", pair.public());
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
    let defaults = GetOptions::default();
    let identity = match &args.identity {
        Some(path) => Some(keys::read_key(path)?),
        None => Some(default_key()).filter(|path| path.exists()).map(|path| keys::read_key(&path)).transpose()?,
    };
    let report = files::get(&GetOptions {
        url: args.url.clone(),
        trust: args.key.map_or(defaults.trust, Trust::Key),
        identity,
        blake3: args.blake3,
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
    if report.is_new_server {
        let (server, file) = (report.server, keys::default_directory().join("known_servers"));
        eprintln!(
            "rampmeter: first contact with {server}: its key {} is now in {}; ask its operator whether it is right",
            report.server_key,
            file.display()
        );
    }
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
