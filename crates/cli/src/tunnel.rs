//! `rampmeter tunnel`: TCP connections of programs that exist, over one macroflow.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use rampmeter_control::Registry;
use rampmeter_net::{Access, Hangups, Trust, default_threads, hide_memory, keys, stop_or_drain};
use rampmeter_session::PublicKey;
use rampmeter_streams::{ClientOptions, ServerOptions, stopped};
use rampmeter_tunnel::{
    Allow, Event, Forward, OnEvent, Target, TunnelClient, TunnelOptions, TunnelServer, TunnelServerOptions,
    listen_address, raise_file_limit,
};
use tokio::runtime::{Builder, Runtime};

use crate::failure::Failure;
use crate::files::{HostPort, authorized, key_file, reached_at, reload};
use crate::lists::check_controller;
use crate::operate::{OperateArgs, print_refused_threads, threads};
use crate::trace::TraceArgs;
use crate::{log, stop_flag};

/// The arguments of `rampmeter tunnel`.
#[derive(Debug, Args)]
#[command(after_help = "At the server: rampmeter tunnel --listen 0.0.0.0:7268 --authorized FILE --allow public:443\n\
                        At a client:   rampmeter tunnel 'HOST:7268?key=KEY' --socks 1080\n\n\
                        A server serves only keys in its file, and connects only where --allow says. --allow takes a \
                        name, *.DOMAIN, an address, a network such as 10.0.0.0/8, `public` (the Internet, and nothing \
                        near the server) or *, then a port, a range such as 8000-8999, or *.")]
pub(crate) struct TunnelArgs {
    /// The server: HOST:PORT, with ?key=KEY if you have been given its public key
    #[arg(value_name = "SERVER", required_unless_present = "listen", conflicts_with = "listen")]
    server: Option<String>,
    /// Forward connections to a port of this machine to a host that the server reaches
    #[arg(short = 'L', value_name = "[BIND:]PORT:HOST:HOSTPORT[,weight=N]", conflicts_with = "listen")]
    local: Vec<Forward>,
    /// Forward connections to a port of the server to a host that this machine reaches
    #[arg(short = 'R', value_name = "[BIND:]PORT:HOST:HOSTPORT[,weight=N]", conflicts_with = "listen")]
    remote: Vec<Forward>,
    /// Serve SOCKS5 and HTTP CONNECT on a port of this machine; any program here may use it
    #[arg(long, value_name = "[BIND:]PORT", value_parser = listen_address, conflicts_with = "listen")]
    socks: Vec<Target>,
    /// Connect standard input and output to a host that the server reaches, and end with the connection; for ssh's
    /// `ProxyCommand`
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["listen", "local", "remote", "socks"])]
    stdio: Option<Target>,
    /// End if a port of -R cannot be opened at the server, as with one of -L or --socks here
    #[arg(long, requires = "server")]
    exit_on_forward_failure: bool,
    /// The server's public key [default: the one in the file of known servers; a new server's is added there]
    #[arg(long, value_name = "KEY", requires = "server", allow_hyphen_values = true)]
    // a key may begin with a hyphen
    key: Option<PublicKey>,
    /// Be a tunnel's server at this address
    #[arg(long, value_name = "HOST:PORT", requires_all = ["authorized", "allow"])]
    listen: Option<HostPort>,
    /// The clients: a public key and, if wanted, a comment on each line
    #[arg(long, value_name = "FILE", conflicts_with = "server")]
    authorized: Option<PathBuf>,
    /// Serve only clients that ask for this name; may be given several times. So nobody leads clients of one server to
    /// another one with the same key
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "server")]
    name: Vec<String>,
    /// Where clients may connect to; may be given several times, and there is no default. @FILE: the lines of a file,
    /// which SIGHUP reads again, as it does --authorized
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "server")]
    allow: Vec<String>,
    /// Where clients may listen with -R, such as 127.0.0.1:8000-8999; may be given several times, also as @FILE
    /// [default: nowhere]
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "server")]
    allow_listen: Vec<String>,
    /// The number of threads that send and receive at a server, 1 to 16; a client is always served by the same one
    /// [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = threads, conflicts_with = "server")]
    threads: Option<usize>,
    /// The maximum number of connections of a client
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    connections: u16,
    /// This host's secret key [default: ~/.config/rampmeter/key; made if it does not exist]
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// The congestion controller of both directions; at a server, of clients that name none [default: pcp]
    #[arg(long, value_name = "NAME")]
    controller: Option<String>,
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    operate: OperateArgs,
}

/// The controller of tunnels.
const CONTROLLER: &str = "pcp";

pub(crate) fn tunnel(args: &TunnelArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    if let Some(controller) = &args.controller {
        check_controller(registry, controller)?;
    }
    raise_file_limit();
    let threads = if args.listen.is_some() { args.threads.unwrap_or_else(default_threads) } else { 1 };
    let runtime = runtime(threads).map_err(Failure::failed)?;
    hide_memory();
    // A client has nothing to drain. Without signal handlers a signal only ends the process less gracefully.
    let (stop, drain) =
        if args.listen.is_some() { stop_or_drain().unwrap_or_default() } else { (stop_flag(), Arc::default()) };
    let result = runtime.block_on(async {
        match (&args.server, &args.listen) {
            (Some(server), _) => client(args, server, registry, &stop).await,
            (None, Some(listen)) => serve(args, listen.resolve()?, threads, registry, &stop, &drain).await,
            (None, None) => Err(Failure::input("write a server's address, or --listen")),
        }
    });
    // A thread may still wait for standard input.
    runtime.shutdown_background();
    result.map(|()| ExitCode::SUCCESS)
}

/// What runs the TCP side of all connections, beside the threads of the sessions.
fn runtime(threads: usize) -> io::Result<Runtime> {
    let mut builder = match threads {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.worker_threads(threads).thread_name("rampmeter-tcp").enable_all().build()
}

fn print_events() -> OnEvent {
    Arc::new(|event: &Event| log(io::stderr(), format_args!("rampmeter: {event}")))
}

/// Prints events of which the user of another program should know.
fn print_problems() -> OnEvent {
    let print = print_events();
    Arc::new(move |event: &Event| {
        // The first is no problem, and the second one is the error with which the command ends.
        if !matches!(event, Event::Connected { is_new: false, .. } | Event::NotCarried { .. }) {
            print(event);
        }
    })
}

async fn client(args: &TunnelArgs, server: &str, registry: &Registry, stop: &AtomicBool) -> Result<(), Failure> {
    if args.local.is_empty() && args.remote.is_empty() && args.socks.is_empty() && args.stdio.is_none() {
        let problem = "nothing to forward: write -L, -R, --socks or --stdio, for example --socks 1080";
        return Err(Failure::input(problem));
    }
    let (identity, is_new) = identity(args)?;
    if is_new {
        eprintln!(
            "rampmeter: this host's public key, for the server's file of keys: {identity}",
            identity = identity.public()
        );
    }
    let (monitor, _socket) = args.operate.start("tunnel")?;
    let trace = args.trace.open()?;
    let defaults = ClientOptions::default();
    let tunnel = TunnelClient::bind(TunnelOptions {
        server: server.to_owned(),
        client: ClientOptions {
            trust: args.key.map_or(defaults.trust.clone(), Trust::Key),
            identity: Some(identity),
            controller: args.controller.clone().unwrap_or_else(|| CONTROLLER.to_owned()),
            registry: registry.clone(),
            max_streams: args.connections.into(),
            monitor: Some(monitor),
            trace: trace.clone(),
            ..defaults
        },
        server_controller: args.controller.clone(),
        local: args.local.clone(),
        remote: args.remote.clone(),
        socks: args.socks.clone(),
        exit_on_forward_failure: args.exit_on_forward_failure,
        max_connections: args.connections.into(),
        on_event: if args.stdio.is_some() { print_problems() } else { print_events() },
    })
    .await?;
    if let Some(to) = &args.stdio {
        let result = tunnel.carry(to.clone(), tokio::io::stdin(), tokio::io::stdout(), stopped(stop)).await;
        args.trace.finish(trace);
        return Ok(result?);
    }
    let forwards = args.local.iter().map(|forward| format!("for {}", forward.to));
    for (at, what) in
        tunnel.addresses().iter().zip(forwards.chain(args.socks.iter().map(|_| "for SOCKS5 and HTTP".to_owned())))
    {
        println!("listening on {at} {what}");
    }
    let result = tunnel.run(stopped(stop)).await;
    args.trace.finish(trace);
    Ok(result?)
}

/// How a client reaches what is allowed: the only target, or anything.
fn way(allow: &[String]) -> String {
    let is_target = |text: &str| text.parse::<Target>().is_ok() && !text.contains(['*', '/', '@']);
    match allow {
        [only] if is_target(only) && !only.starts_with("public:") => format!("-L 8000:{only}"),
        _ => "--socks 1080".to_owned(),
    }
}

/// What `--allow` and `--allow-listen` say.
fn allowed(patterns: &[Vec<String>; 2]) -> Result<[Allow; 2], Failure> {
    let read = |option: &str, patterns: &[String]| {
        let mut lines = Vec::new();
        for pattern in patterns {
            match pattern.strip_prefix('@') {
                Some(path) => {
                    let text = std::fs::read_to_string(path)
                        .map_err(|error| Failure::input(format!("{option} {path}: {error}")))?;
                    let written = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
                    lines.extend(written.map(str::to_owned));
                }
                None => lines.push(pattern.clone()),
            }
        }
        Allow::read(lines.iter().map(String::as_str)).map_err(|error| Failure::input(format!("{option} {error}")))
    };
    Ok([read("--allow", &patterns[0])?, read("--allow-listen", &patterns[1])?])
}

async fn serve(
    args: &TunnelArgs,
    listen: SocketAddr,
    threads: usize,
    registry: &Registry,
    stop: &AtomicBool,
    drain: &AtomicBool,
) -> Result<(), Failure> {
    let hangups = Hangups::catch().map_err(Failure::failed)?;
    let Some(path) = args.authorized.clone() else { return Err(Failure::input("write --authorized FILE")) };
    let patterns = [args.allow.clone(), args.allow_listen.clone()];
    let [allow, allow_listen] = allowed(&patterns)?;
    let clients = Access::from(authorized(&path)?);
    let (identity, _) = identity(args)?;
    let (monitor, _socket) = args.operate.start("tunnel-server")?;
    let trace = args.trace.open()?;
    let server = TunnelServer::bind(TunnelServerOptions {
        server: ServerOptions {
            address: listen,
            identity,
            names: args.name.clone(),
            clients: clients.clone(),
            controller: args.controller.clone().unwrap_or_else(|| CONTROLLER.to_owned()),
            registry: registry.clone(),
            threads,
            max_streams: args.connections.into(),
            monitor: Some(monitor),
            trace: trace.clone(),
            ..ServerOptions::default()
        },
        allow,
        allow_listen,
        on_event: print_events(),
    })?;
    print_refused_threads(server.refused_threads());
    let (address, key) = (server.address(), server.key());
    println!("tunnel on {address}");
    println!("connect with: rampmeter tunnel '{}?key={key}' {}", reached_at(address, &args.name), way(&args.allow));
    let rules = server.rules();
    let set_allowed = move || allowed(&patterns).map(|[allow, allow_listen]| rules.set_allowed(allow, allow_listen));
    hangups.on_each(move || reload(&path, &clients, &set_allowed)).map_err(Failure::failed)?;
    server.run_or_drain(stopped(stop), stopped(drain)).await;
    args.trace.finish(trace);
    Ok(())
}

fn identity(args: &TunnelArgs) -> Result<(rampmeter_session::KeyPair, bool), Failure> {
    let path = key_file(args.identity.as_ref())?;
    let (pair, is_new) = keys::read_or_create_key(&path)?;
    if is_new {
        eprintln!("rampmeter: made the secret key {}", path.display());
    }
    Ok((pair, is_new))
}

#[cfg(test)]
mod tests {
    use super::way;

    #[test]
    fn the_way_to_a_single_target_is_a_port() {
        for (allow, expected) in [
            (&["127.0.0.1:22"][..], "-L 8000:127.0.0.1:22"),
            (&["public:443"], "--socks 1080"),
            (&["*.example.org:443"], "--socks 1080"),
            (&["a:1", "b:2"], "--socks 1080"),
        ] {
            assert_eq!(way(&allow.iter().map(ToString::to_string).collect::<Vec<_>>()), expected);
        }
    }
}
