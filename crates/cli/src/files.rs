//! `rampmeter serve` and `rampmeter get`: files over UDP, under one of our controllers.

use std::net::SocketAddr;
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
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7267")]
    listen: SocketAddr,
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
        address: args.listen,
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

/// A line a transfer. The name comes from a stranger, so nothing in it reaches the terminal raw.
fn tell(served: &Served) {
    let rate = Rate::from_bps_f64(served.bytes as f64 * 8.0 / served.seconds.max(1e-9));
    let (peer, name, controller, bytes) = (served.peer, &served.name, &served.controller, Bytes::new(served.bytes));
    println!("{peer} {name:?}: {bytes} in {:.2} s, {rate}, {controller}", served.seconds);
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
        let rate = Rate::from_bps_f64(report.goodput_bps.round());
        let (path, bytes) = (report.path.display(), Bytes::new(report.bytes));
        println!(
            "{path}: {bytes} in {:.2} s, {rate}, loss {:.2}%, {}, {}",
            report.seconds,
            report.loss * 100.0,
            report.controller,
            report.blake3
        );
    }
    Ok(ExitCode::SUCCESS)
}
