//! `rampmeter get`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use rampmeter_control::Registry;
use rampmeter_files::{self as files, GetOptions, NetError, Report, STANDARD_OUTPUT};
use rampmeter_net::{Trust, hide_memory, keys};
use rampmeter_session::PublicKey;
use rampmeter_streams::ClientOptions;
use rampmeter_units::{Bytes, Duration};

use super::bar::bar;
use super::print::{many_files, one_file};
use super::serve;
use crate::failure::{Failure, SOME_FAILED};
use crate::stop_flag;
use crate::trace::TraceArgs;

/// How often a transfer that was interrupted goes on without `--retry`.
const RESUME: u32 = 5;

/// The arguments of `rampmeter get`.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 all files are complete; 1 nothing could be done, or all files failed; 2 the \
                        command line is wrong; 3 some of several files failed; 130 interrupted. After 1, 3 and 130 \
                        the same command goes on where it stopped.")]
pub(crate) struct GetArgs {
    /// HOST:PORT/NAME, with ?key=KEY for a server whose public key you have been given; several files must be at one
    /// server
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    /// The file or directory to write to; a device, a pipe or - (standard output) receives the bytes of one file as
    /// they arrive, and with - messages go to standard error [default: the file's name, in the current directory]
    #[arg(long, short, value_name = "PATH")]
    out: Option<PathBuf>,
    /// The BLAKE3 hash that the file must have, as 64 hexadecimal digits
    #[arg(long, value_name = "HASH", value_parser = hash)]
    blake3: Option<[u8; 32]>,
    /// The size of the largest file that is accepted
    #[arg(long, value_name = "SIZE")]
    max_size: Option<Bytes>,
    /// Start over, without resuming interrupted downloads
    #[arg(long)]
    fresh: bool,
    /// The congestion controller that the server should use [default: the server's choice]
    #[arg(long, value_name = "NAME")]
    controller: Option<String>,
    /// The server's public key [default: the one in the file of known servers; a new server's is added there]
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)] // a key may begin with a hyphen
    key: Option<PublicKey>,
    /// This client's secret key, for servers that serve only listed keys [default: ~/.config/rampmeter/key, if it exists]
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// Try again so often if the server does not answer, stops or is busy, after 1 s, 2 s, 4 s and so on [default: 0,
    /// and 5 once the server has answered]. With 0, a file that was changed or damaged is not asked for again either
    #[arg(long, value_name = "N")]
    retry: Option<u32>,
    /// The time without an answer after which the server counts as unreachable
    #[arg(long, value_name = "TIME", default_value = "10 s", value_parser = serve::timeout)]
    timeout: Duration,
    #[command(flatten)]
    trace: TraceArgs,
    /// Write one JSON object to standard output, without a progress bar
    #[arg(long)]
    json: bool,
}

/// Parses a hash.
fn hash(text: &str) -> Result<[u8; 32], String> {
    files::parse_hash(text).ok_or_else(|| "a hash has 64 hexadecimal digits; `rampmeter get` prints it".to_owned())
}

pub(crate) fn get(args: &GetArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let title = match &args.urls[..] {
        [url] => url.split("?key=").next().unwrap_or(url).to_owned(),
        urls => format!("{} files", urls.len()),
    };
    hide_memory();
    let identity = args.identity.clone().or_else(|| keys::default_key().ok().filter(|path| path.exists()));
    let identity = identity.map(|path| keys::read_key(&path)).transpose()?;
    let trace = args.trace.open()?;
    let report = files::get(&GetOptions {
        urls: args.urls.clone(),
        out: args.out.clone(),
        fresh: args.fresh,
        blake3: args.blake3,
        max_size: args.max_size,
        controller: args.controller.clone(),
        retry: args.retry.unwrap_or(0),
        resume: args.retry.unwrap_or(RESUME),
        on_progress: Some(bar(&title, args.json)),
        stop: stop_flag(),
        client: ClientOptions {
            trust: args.key.map_or_else(Trust::default, Trust::Key),
            identity,
            registry: registry.clone(),
            timeout: args.timeout,
            trace: trace.clone(),
            ..ClientOptions::default()
        },
    });
    args.trace.finish(trace);
    let report = report.map_err(|error| match error {
        NetError::Interrupted(_) => Failure::interrupted(error),
        error => error.into(),
    })?;
    print(args, &report)?;
    Ok(match report.failed {
        0 => ExitCode::SUCCESS,
        _ if report.complete == 0 => ExitCode::FAILURE,
        _ => ExitCode::from(SOME_FAILED),
    })
}

fn print(args: &GetArgs, report: &Report) -> Result<(), Failure> {
    for file in &report.files {
        if let Some(error) = &file.error {
            eprintln!("rampmeter: {}: {error}", file.name);
        }
    }
    let out = args.out.as_deref();
    let message = match &report.files[..] {
        _ if args.json => serde_json::to_string(report).map_err(Failure::failed)?,
        [file] => one_file(report, file),
        _ => many_files(report, out.unwrap_or(Path::new("."))),
    };
    if out == Some(Path::new(STANDARD_OUTPUT)) {
        eprintln!("{message}");
    } else {
        println!("{message}");
    }
    Ok(())
}
