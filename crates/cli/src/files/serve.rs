//! `rampmeter serve`.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use clap::Args;
use rampmeter_control::Registry;
use rampmeter_files::{ServeOptions, Server, TransferReport};
use rampmeter_net::keys::KeyError;
use rampmeter_net::{
    Access, Clock, Comments, DEFAULT_CONTROLLER, Hangups, LineLimit, default_threads, hide_memory, keys, stop_or_drain,
};
use rampmeter_session::Clients;
use rampmeter_streams::ServerOptions;
use rampmeter_units::{Duration, Time};

use super::print::amount;

use super::{HostPort, key_file, reached_at};
use crate::failure::Failure;
use crate::lists::check_controller;
use crate::log;
use crate::operate::{OperateArgs, print_refused_threads, threads};
use crate::trace::TraceArgs;

/// Transfers that are printed in a second, and warnings of degraded controllers: clients cause them.
const LINES_A_SECOND: u32 = 100;

/// The arguments of `rampmeter serve`.
#[derive(Debug, Args)]
#[command(after_help = "Everything is encrypted. By default anyone who reaches the address can fetch the files; \
                        --authorized limits who is served. Nobody can change them.")]
pub(crate) struct ServeArgs {
    /// The directory whose regular files to serve
    directory: PathBuf,
    /// The address to listen at; port 0 picks a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7267")]
    listen: HostPort,
    /// The server's secret key; made if the file does not exist [default: ~/.config/rampmeter/key]
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// Serve only clients whose public key is in this file: a key and, if wanted, a comment on each line
    #[arg(long, value_name = "FILE")]
    authorized: Option<PathBuf>,
    /// Serve only clients that ask for this name; may be given several times. So nobody leads clients of one server to
    /// another one with the same key
    #[arg(long, value_name = "HOST:PORT")]
    name: Vec<String>,
    /// The maximum number of files that are sent at once; one network has at most four fifths of these places, and
    /// further requests wait
    #[arg(long, value_name = "N", default_value_t = ServeOptions::default().max_clients, value_parser = clients)]
    clients: usize,
    /// The number of threads that send and receive, 1 to 16; a client is always served by the same one
    /// [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = threads)]
    threads: Option<usize>,
    /// Disconnect a client that takes no bytes for this time
    #[arg(long, value_name = "TIME", default_value = "60 s", value_parser = timeout)]
    timeout: Duration,
    /// Serve hidden files, too: those with a part of their name that begins with a dot
    #[arg(long)]
    hidden: bool,
    /// The congestion controller of transfers for which `get` names none (`rampmeter controllers` lists them)
    #[arg(long, value_name = "NAME", default_value = DEFAULT_CONTROLLER)]
    controller: String,
    /// Keep measurements of clients' paths in this file for later transfers; several servers may share one file
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    operate: OperateArgs,
}

/// Parses a number of clients.
fn clients(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=10_000).contains(number));
    number.ok_or_else(|| "write 1 to 10000".to_owned())
}

/// Parses a timeout.
pub(super) fn timeout(text: &str) -> Result<Duration, String> {
    let time: Duration = text.parse().map_err(|error| format!("{error}"))?;
    let valid = Duration::from_secs(1)..=Duration::from_secs(86_400);
    if valid.contains(&time) { Ok(time) } else { Err("write `1 s` to `86400 s`".to_owned()) }
}

/// Reads the keys of clients, and warns if there are none.
pub(crate) fn authorized(path: &Path) -> Result<Comments, KeyError> {
    let keys = keys::read_authorized_keys(path)?;
    if keys.is_empty() {
        eprintln!("rampmeter: {} has no keys: nobody can connect", path.display());
    }
    Ok(keys)
}

/// Reads the keys of clients again, and does what `also` does; everything stays as it is if either fails.
pub(crate) fn reload(path: &Path, clients: &Access, also: impl FnOnce() -> Result<(), Failure>) {
    match authorized(path).map_err(Failure::from).and_then(|keys| also().map(|()| keys)) {
        Ok(keys) => {
            log(io::stderr(), format_args!("rampmeter: read {} again: {} keys", path.display(), keys.len()));
            clients.set_listed(keys);
        }
        Err(error) => log(io::stderr(), format_args!("rampmeter: nothing is changed: {error}")),
    }
}

pub(crate) fn serve(args: &ServeArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let hangups = Hangups::catch().map_err(Failure::failed)?;
    check_controller(registry, &args.controller)?;
    let listen = args.listen.resolve()?;
    hide_memory();
    let path = key_file(args.identity.as_ref())?;
    let (identity, is_new) = keys::read_or_create_key(&path)?;
    let clients = match &args.authorized {
        Some(path) => Access::from(authorized(path)?),
        None => Clients::Anyone.into(),
    };
    if let Some(path) = args.authorized.clone() {
        let clients = clients.clone();
        hangups.on_each(move || reload(&path, &clients, || Ok(()))).map_err(Failure::failed)?;
    }
    // Without signal handlers a signal only ends the process less gracefully: this is no error.
    let (stop, drain) = stop_or_drain().unwrap_or_default();
    let (monitor, _socket) = args.operate.start("serve")?;
    let trace = args.trace.open()?;
    let limit = || Mutex::new(LineLimit::new(LINES_A_SECOND));
    let (clock, lines, warnings) = (Clock::start(), limit(), limit());
    let server = Server::bind(ServeOptions {
        directory: args.directory.clone(),
        hidden: args.hidden,
        server: ServerOptions {
            address: listen,
            identity,
            names: args.name.clone(),
            clients,
            controller: args.controller.clone(),
            registry: registry.clone(),
            threads: args.threads.unwrap_or_else(default_threads),
            monitor: Some(monitor),
            trace: trace.clone(),
            ..ServerOptions::default()
        },
        max_clients: args.clients,
        max_idle: std::time::Duration::from_nanos(args.timeout.as_nanos()),
        on_transfer: Some(Box::new(move |served| {
            let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(lines) = transfer_lines(served, clock.now(), &mut lines) {
                log(io::stdout(), lines);
            }
        })),
        on_degraded: Some(Box::new(move |peer, controller, why| {
            let mut warnings = warnings.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(warning) = degraded_lines(peer, controller, why, clock.now(), &mut warnings) {
                log(io::stderr(), warning);
            }
        })),
        history: args.history.clone(),
        stop,
        drain,
    })?;
    if is_new {
        eprintln!("rampmeter: made the secret key {}", path.display());
    }
    let (address, key) = (server.address(), server.key());
    println!("serving {} on {address} with {}", args.directory.display(), args.controller);
    let address = reached_at(address, &args.name);
    println!("fetch with: rampmeter get '{address}/NAME?key={key}'");
    print_refused_threads(server.refused_threads());
    let result = server.run();
    args.trace.finish(trace);
    result?;
    Ok(ExitCode::SUCCESS)
}

/// One line per connection, a limited number each second, and how many were omitted. The file name comes from an
/// untrusted client, so it is escaped.
fn transfer_lines(served: &TransferReport, now: Time, lines: &mut LineLimit) -> Option<String> {
    let omitted = match lines.admit(now)? {
        0 => String::new(),
        omitted => format!("{omitted} transfers are not shown: more than {LINES_A_SECOND} a second\n"),
    };
    let amount = amount(served.bytes, served.seconds, served.bytes as f64 * 8.0 / served.seconds.max(1e-9));
    let files = if served.files > 1 { format!("{} files, ", served.files) } else { String::new() };
    let result = match (served.ended, &served.refusal) {
        ("refused", Some(reason)) if served.refused > 1 => {
            format!("{} refused, the last one: {reason}", served.refused)
        }
        ("refused", Some(reason)) => format!("refused: {reason}"),
        ("finished", _) if served.files == 0 && served.bytes == 0 => "no files".to_owned(),
        ("finished", _) => format!("{files}{amount}"),
        (ended, _) => format!("{ended} after {files}{amount}"),
    };
    let refused = match (&served.refused_name, &served.refusal) {
        (Some(name), Some(reason)) if served.ended != "refused" => {
            format!(", {} refused (the last one {name:?}: {reason})", served.refused)
        }
        _ => String::new(),
    };
    let name = served.refused_name.as_ref().filter(|_| served.ended == "refused").unwrap_or(&served.name);
    let client = if served.client.is_empty() { String::new() } else { format!(" {}", served.client) };
    Some(format!("{omitted}{}{client} {name:?}: {result}{refused}, {}", served.peer, served.controller))
}

/// One line per session whose controller is degraded, a limited number each second, and how many were omitted.
fn degraded_lines(
    peer: SocketAddr,
    controller: &str,
    why: &str,
    now: Time,
    warnings: &mut LineLimit,
) -> Option<String> {
    let omitted = match warnings.admit(now)? {
        0 => String::new(),
        omitted => format!("rampmeter: {omitted} warnings are not shown: more than {LINES_A_SECOND} a second\n"),
    };
    Some(format!("{omitted}rampmeter: {peer}: {controller} is degraded: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served() -> TransferReport {
        TransferReport {
            peer: "10.0.0.1:5".parse().unwrap(),
            client: String::new(),
            name: "f\n".into(),
            files: 1,
            controller: "newreno".into(),
            bytes: 1000,
            seconds: 1.0,
            ended: "finished",
            refused: 0,
            refused_name: None,
            refusal: None,
        }
    }

    #[test]
    fn a_flood_of_transfers_prints_few_lines_and_their_number() {
        let (served, mut limit) = (served(), LineLimit::new(LINES_A_SECOND));
        let mut print = |seconds| {
            let now = Time::ZERO + Duration::from_secs(seconds);
            (0..4200).filter_map(|_| transfer_lines(&served, now, &mut limit)).collect::<Vec<_>>()
        };
        assert_eq!(print(0).len(), 100);
        let next = print(1);
        assert!(next[0].starts_with("4100 transfers are not shown") && next[0].lines().count() == 2, "{next:?}");
        assert!(next[1..].iter().all(|line| line.lines().count() == 1 && line.contains("\"f\\n\"")), "{next:?}");
        assert_eq!(next.len(), 100);
    }

    #[test]
    fn a_line_names_the_request_that_was_refused() {
        let line = |ended, files| {
            let served = TransferReport {
                ended,
                files,
                refused: 2,
                refused_name: Some("g\n".into()),
                refusal: Some("why".into()),
                ..served()
            };
            transfer_lines(&served, Time::ZERO, &mut LineLimit::new(1)).unwrap()
        };
        let refused = line("refused", 0);
        assert!(refused.contains("10.0.0.1:5 \"g\\n\": 2 refused, the last one: why"), "{refused}");
        let finished = line("finished", 1);
        assert!(finished.contains("\"f\\n\": 1 kB"), "{finished}");
        assert!(finished.contains("2 refused (the last one \"g\\n\": why)"), "{finished}");
    }

    #[test]
    fn a_flood_of_degraded_controllers_prints_few_lines() {
        let (mut limit, peer) = (LineLimit::new(LINES_A_SECOND), "10.0.0.1:5".parse().unwrap());
        let mut print = |seconds| {
            let now = Time::ZERO + Duration::from_secs(seconds);
            (0..4200).filter_map(|_| degraded_lines(peer, "vcp", "no codes", now, &mut limit)).collect::<Vec<_>>()
        };
        let first = print(0);
        assert_eq!((first.len(), first[0].as_str()), (100, "rampmeter: 10.0.0.1:5: vcp is degraded: no codes"));
        let next = print(1);
        assert!(next[0].starts_with("rampmeter: 4100 warnings are not shown"), "{next:?}");
    }

    #[test]
    fn a_timeout_has_a_unit() {
        assert_eq!(timeout("2 s"), Ok(Duration::from_secs(2)));
        assert!(timeout("0 s").unwrap_err().contains("`1 s`") && timeout("2").is_err());
    }
}
