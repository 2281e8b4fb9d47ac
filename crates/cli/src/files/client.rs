//! `rampmeter get`, `put` and `sync`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use rampmeter_control::Registry;
use rampmeter_net::Trust;
use rampmeter_net::files::{
    self, ClientOptions, FileResult, GetOptions, NetError, PutOptions, Report, STANDARD_OUTPUT, SyncOptions,
};
use rampmeter_net::keys::{self, KeyError};
use rampmeter_session::{KeyPair, PublicKey};
use rampmeter_units::{Bytes, Duration};

use super::bar::bar;
use super::print::{many_files, one_file};
use super::serve;
use crate::failure::{Failure, SOME_FAILED};
use crate::stop_flag;

const EXIT_CODES: &str = "Exit codes: 0 all files are complete; 1 nothing could be done, or all files failed; 2 the \
                          command line is wrong, or a file that it names cannot be read; 3 some of several files \
                          failed; 130 interrupted. After 1, 3 and 130 the same command goes on where it stopped; `put` of \
                          files needs --overwrite for those that are complete.";

/// Arguments of all three commands.
#[derive(Debug, Args)]
struct SessionArgs {
    /// The server's public key [default: the one in the file of known servers; a new server's is added there]
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)] // a key may begin with a hyphen
    key: Option<PublicKey>,
    /// This client's secret key, for servers that serve only listed keys [default: ~/.config/rampmeter/key, which `put`
    /// and `sync` make if it does not exist]
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// The number of connections, which share one congestion controller
    #[arg(long, short, value_name = "N", default_value_t = ClientOptions::default().jobs, value_parser = jobs)]
    jobs: usize,
    /// Try again so often if the server does not answer, stops or is busy, after 1 s, 2 s, 4 s and so on
    #[arg(long, value_name = "N", default_value_t = 0)]
    retry: u32,
    /// The time without an answer after which the server counts as unreachable
    #[arg(long, value_name = "TIME", default_value = "10 s", value_parser = serve::timeout)]
    timeout: Duration,
    /// Write one JSON object to standard output, without a progress bar
    #[arg(long)]
    json: bool,
}

impl SessionArgs {
    /// This client's key.
    fn identity(&self) -> Result<Option<KeyPair>, KeyError> {
        let file = self.identity.clone().or_else(|| keys::default_key().ok().filter(|path| path.exists()));
        file.map(|path| keys::read_key(&path)).transpose()
    }

    /// The same for a client that uploads: one with a key of its own goes on at once with an upload that was killed. If
    /// none can be made, it uploads without.
    fn lasting_identity(&self) -> Result<Option<KeyPair>, KeyError> {
        let identity = self.identity()?;
        if identity.is_some() {
            return Ok(identity);
        }
        let Ok(path) = keys::default_key() else { return Ok(None) };
        let made = keys::read_or_create_key(&path).ok();
        if let Some((_, true)) = made {
            eprintln!("rampmeter: made the secret key {}", path.display());
        }
        Ok(made.map(|(key, _)| key))
    }

    /// `title` is that of the progress bar.
    fn options(
        &self,
        identity: Option<KeyPair>,
        controller: Option<&String>,
        registry: &Registry,
        title: &str,
    ) -> ClientOptions {
        let defaults = ClientOptions::default();
        ClientOptions {
            trust: self.key.map_or(defaults.trust, Trust::Key),
            identity,
            controller: controller.cloned(),
            registry: registry.clone(),
            jobs: self.jobs,
            retry: self.retry,
            on_progress: Some(bar(title, self.json)),
            peer_timeout: self.timeout,
            stop: stop_flag(),
            ..ClientOptions::default()
        }
    }
}

/// The arguments of `rampmeter get`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct GetArgs {
    /// HOST:PORT/NAME for a file, HOST:PORT/NAME/ for a directory and all below it, with ?key=KEY for a server whose
    /// public key you have been given; several names must be at one server
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    /// The file or directory to write to; a device, a pipe or - (standard output) receives the bytes of one file as
    /// they arrive, and with - messages go to standard error [default: the name of the file or directory, in the current
    /// directory; the current directory itself for several names and for the server's own directory]
    #[arg(long, short, value_name = "PATH")]
    out: Option<PathBuf>,
    /// The BLAKE3 hash that the file must have, as 64 hexadecimal digits
    #[arg(long, value_name = "HASH", value_parser = hash)]
    blake3: Option<[u8; 32]>,
    /// The size of the largest file that is accepted
    #[arg(long, value_name = "SIZE")]
    max_size: Option<Bytes>,
    /// Start over: without resuming interrupted downloads, and with files of directories that are here already
    #[arg(long)]
    fresh: bool,
    /// The congestion controller that the server should use [default: the server's choice]
    #[arg(long, value_name = "NAME")]
    controller: Option<String>,
    #[command(flatten)]
    session: SessionArgs,
}

/// The arguments of `rampmeter put`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct PutArgs {
    /// Files and directories; the contents of a single directory become those of the URL's directory
    #[arg(required = true, value_name = "PATH")]
    sources: Vec<PathBuf>,
    /// HOST:PORT/NAME for one file, HOST:PORT/NAME/ for a directory, with ?key=KEY for a server whose public key you have
    /// been given
    #[arg(required = true)]
    url: String,
    /// Replace files that are there, if the server allows that
    #[arg(long)]
    overwrite: bool,
    /// Start over: without resuming interrupted uploads, and with files of directories that are there already
    #[arg(long)]
    fresh: bool,
    /// Put hidden files of directories, too
    #[arg(long)]
    hidden: bool,
    /// The congestion controller to send with [default: newreno]
    #[arg(long, value_name = "NAME")]
    controller: Option<String>,
    #[command(flatten)]
    session: SessionArgs,
}

/// The arguments of `rampmeter sync`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct SyncArgs {
    /// The directory to take: here, or HOST:PORT/NAME/
    from: String,
    /// The directory to change: the other kind
    to: String,
    /// Delete files that are not in the directory to take, once all others are complete
    #[arg(long)]
    delete: bool,
    /// Change nothing, and print what would be done
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Take and delete hidden files, too
    #[arg(long)]
    hidden: bool,
    /// The congestion controller of the sender [default: the sender's choice]
    #[arg(long, value_name = "NAME")]
    controller: Option<String>,
    #[command(flatten)]
    session: SessionArgs,
}

/// Parses a number of connections.
fn jobs(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=64).contains(number));
    number.ok_or_else(|| "write 1 to 64".to_owned())
}

/// Parses a hash.
fn hash(text: &str) -> Result<[u8; 32], String> {
    files::parse_hash(text).ok_or_else(|| "a hash has 64 hexadecimal digits; `rampmeter get` prints it".to_owned())
}

pub(crate) fn get(args: &GetArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let first = without_key(&args.urls[0]).display().to_string();
    let is_one = args.urls.len() == 1 && !first.ends_with('/');
    let title = if args.urls.len() == 1 { first } else { format!("{} names", args.urls.len()) };
    let options = GetOptions {
        urls: args.urls.clone(),
        out: args.out.clone(),
        fresh: args.fresh,
        blake3: args.blake3,
        max_size: args.max_size,
        client: args.session.options(args.session.identity()?, args.controller.as_ref(), registry, &title),
    };
    finish(files::get(&options), args.session.json, &options.directory(), is_one)
}

pub(crate) fn put(args: &PutArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let (place, identity) = (without_key(&args.url), args.session.lasting_identity()?);
    let report = files::put(&PutOptions {
        sources: args.sources.clone(),
        url: args.url.clone(),
        overwrite: args.overwrite,
        fresh: args.fresh,
        hidden: args.hidden,
        client: args.session.options(identity, args.controller.as_ref(), registry, &place.display().to_string()),
    });
    finish(report, args.session.json, &place, args.sources.len() == 1 && args.sources[0].is_file())
}

pub(crate) fn sync(args: &SyncArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let (place, identity) = (without_key(&args.to), args.session.lasting_identity()?);
    let report = files::sync(&SyncOptions {
        from: args.from.clone(),
        to: args.to.clone(),
        delete: args.delete,
        dry_run: args.dry_run,
        hidden: args.hidden,
        client: args.session.options(identity, args.controller.as_ref(), registry, &place.display().to_string()),
    });
    if let (Ok(report), true, false) = (&report, args.dry_run, args.session.json) {
        for file in &report.files {
            match file.result {
                FileResult::WouldTransfer => println!("would transfer {}", file.name),
                FileResult::WouldDelete => println!("would delete {}", file.name),
                _ => {}
            }
        }
    }
    finish(report, args.session.json, &place, false)
}

fn without_key(url: &str) -> PathBuf {
    PathBuf::from(url.split("?key=").next().unwrap_or(url))
}

/// Prints the report of files at `place`.
fn finish(report: Result<Report, NetError>, json: bool, place: &Path, is_one: bool) -> Result<ExitCode, Failure> {
    let report = report.map_err(|error| match error {
        NetError::Interrupted(_) => Failure::interrupted(error),
        error => error.into(),
    })?;
    for file in &report.files {
        if let Some(error) = &file.error {
            eprintln!("rampmeter: {}: {error}", file.name);
        }
    }
    let message = match &report.files[..] {
        _ if json => serde_json::to_string(&report).map_err(Failure::failed)?,
        [file] if is_one => one_file(&report, file),
        _ => many_files(&report, place),
    };
    if place == Path::new(STANDARD_OUTPUT) {
        eprintln!("{message}");
    } else {
        println!("{message}");
    }
    Ok(match report.failed {
        0 => ExitCode::SUCCESS,
        _ if report.complete + report.unchanged == 0 => ExitCode::FAILURE,
        _ => ExitCode::from(SOME_FAILED),
    })
}
