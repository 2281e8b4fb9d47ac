//! The client: gets files by their names.
//!
//! ```text
//! mod        the options, the outputs of the files
//! session    a session with the server, and another one if it breaks
//! download   one file
//! state      the progress of all
//! report     the report
//! ```

mod download;
mod report;
mod session;
mod state;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rampmeter_session::PublicKey;
use rampmeter_streams::ClientOptions;
use rampmeter_units::Bytes;

use self::download::Download;
use self::session::Downloads;
use super::ProgressHandler;
use super::error::NetError;
use super::part::{Part, STANDARD_OUTPUT, part_path};
use super::protocol::check_controller;
use super::url::Url;

pub use report::{FileReport, Report};

/// The options of a download.
#[derive(Debug, Default)]
pub struct GetOptions {
    /// Files at one server: HOST:PORT/NAME. The key in HOST:PORT/NAME?key=KEY counts instead of the file of known
    /// servers.
    pub urls: Vec<String>,
    /// The output. For one file: a file, which is replaced if it exists; a directory; a device or a pipe, written to as
    /// the bytes arrive; or standard output for [`STANDARD_OUTPUT`]. For several files: a directory, which is made if it
    /// does not exist. Without it, each file has the last part of its name, in the current directory.
    pub out: Option<PathBuf>,
    /// Do not resume from parts of earlier downloads.
    pub fresh: bool,
    /// The BLAKE3 hash that the file must have.
    pub blake3: Option<[u8; 32]>,
    /// The size of the largest file that is accepted.
    pub max_size: Option<Bytes>,
    /// The controller that should send the files; without it the server's default.
    pub controller: Option<String>,
    /// How often to try again after an error that may be temporary, with longer waits from one to the next.
    pub retry: u32,
    /// The same, at least, once the server has answered: after an interruption the transfer goes on where it stopped.
    /// Unless both are 0, a file that was changed meanwhile, or arrived damaged, is asked for again once.
    pub resume: u32,
    /// Receives the progress of the transfer.
    pub on_progress: Option<ProgressHandler>,
    /// Stops the transfer when set; what was received stays for the next one.
    pub stop: Arc<AtomicBool>,
    /// Trust, key and timeout, after which the server counts as unreachable. It sends requests only, so its controller
    /// does not matter.
    pub client: ClientOptions,
}

/// A BLAKE3 hash from its 64 hexadecimal digits; `None` for other text.
pub fn parse_hash(text: &str) -> Option<[u8; 32]> {
    blake3::Hash::from_hex(text).ok().map(Into::into)
}

/// Gets files. An error if nothing could be done, or if the only file failed; files that failed among others are in the
/// report.
pub fn get(options: &GetOptions) -> Result<Report, NetError> {
    let (url, names) = read_urls(&options.urls)?;
    if let Some(name) = &options.controller {
        check_controller(name).map_err(|reason| {
            NetError::BadOption(format!("{name:?} cannot be a controller: {reason}; write a name such as `pcp`"))
        })?;
    }
    let targets = targets(options, &names)?;
    let mut queue = Vec::new();
    for (index, (name, target)) in names.iter().zip(&targets).enumerate() {
        // Before the connection: an output that cannot be written is noticed first, and a part takes time to hash.
        let opens = names.len() == 1 || part_path(target).symlink_metadata().is_ok();
        queue.push(Download {
            index,
            name: name.clone(),
            target: target.clone(),
            part: if opens { Some(Part::open(target, !options.fresh)?) } else { None },
            max_size: options.max_size.map_or(u64::MAX, Bytes::as_u64),
            blake3: options.blake3.map(|hash| blake3::Hash::from(hash).to_string()),
            controller: options.controller.clone(),
            is_repeated: false,
        });
    }
    let server = url.server.key.map_or(url.server.text.clone(), |key| format!("{}?key={key}", url.server.text));
    let mut downloads = Downloads::new(options, server, queue.into());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let facts = runtime.block_on(downloads.run());
    runtime.shutdown_background(); // the reader of a pipe may not go on
    let facts = facts?;
    let mut results: Vec<_> = downloads.results.drain(..).flatten().collect();
    if results.len() == 1 {
        results = vec![Ok(results.remove(0)?)];
    }
    let files = names.into_iter().zip(targets).zip(results);
    let files = files.map(|((name, path), result)| FileReport::new(name, path, result)).collect();
    Ok(Report::new(&downloads, &facts, files))
}

/// Reads the addresses of files at one server.
fn read_urls(urls: &[String]) -> Result<(Url, Vec<String>), NetError> {
    let mut read = Vec::new();
    for text in urls {
        read.push(Url::read(text)?);
    }
    let names = read.iter().map(|url| url.name.clone()).collect();
    let mut all = read.into_iter().zip(urls);
    let no_address = || NetError::BadOption("there is no address: write HOST:PORT/NAME".into());
    let (mut first, _) = all.next().ok_or_else(no_address)?;
    for (url, text) in all {
        if url.server.text != first.server.text {
            return Err(Url::bad(text, "it is at another server than the first one").into());
        }
        let is_other = |key: PublicKey| first.server.key.is_some_and(|known| known != key);
        if url.server.key.is_some_and(is_other) {
            return Err(Url::bad(text, "it has another key than an address before it").into());
        }
        first.server.key = first.server.key.or(url.server.key);
    }
    Ok((first, names))
}

/// The paths of the files.
fn targets(options: &GetOptions, names: &[String]) -> Result<Vec<PathBuf>, NetError> {
    let last = |name: &str| PathBuf::from(name.rsplit('/').next().unwrap_or(name));
    let out = options.out.as_deref();
    if let [name] = names {
        return Ok(vec![match out {
            None => last(name),
            Some(out) if out.is_dir() => out.join(last(name)),
            Some(out) => out.to_owned(),
        }]);
    }
    if options.blake3.is_some() {
        return Err(NetError::BadOption("a hash is for one file: write its address alone".into()));
    }
    if out == Some(Path::new(STANDARD_OUTPUT)) {
        return Err(NetError::BadOption("several files cannot go to standard output: give a directory".into()));
    }
    let directory = out.unwrap_or(Path::new(""));
    let targets: Vec<_> = names.iter().map(|name| directory.join(last(name))).collect();
    let mut paths = BTreeSet::new();
    if let Some(path) = targets.iter().find(|path| !paths.insert(*path)) {
        let problem = format!("several files would be {}: get each with a command of its own", path.display());
        return Err(NetError::BadOption(problem));
    }
    if !directory.as_os_str().is_empty() {
        std::fs::create_dir_all(directory).map_err(|error| NetError::file(directory, error))?;
    }
    Ok(targets)
}
