//! Gets files by their names.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rampmeter_net::Trusted;
use rampmeter_session::PublicKey;
use rampmeter_units::Bytes;
use serde::Serialize;

use super::ClientOptions;
use super::engine::Engine;
use super::lane::{Complete, Download};
use super::link::check_options;
use crate::error::NetError;
use crate::part::{Part, STANDARD_OUTPUT, part_path};
use crate::url::Url;

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
    /// The session.
    pub client: ClientOptions,
}

/// One file.
#[derive(Debug, Clone, Serialize)]
pub struct FileReport {
    /// Its name at the server.
    pub name: String,
    /// Its path on this machine.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Bytes that an earlier transfer had moved.
    pub resumed_from: u64,
    /// The verified BLAKE3 hash of a complete file; empty otherwise.
    pub blake3: String,
    /// Why it failed.
    pub error: Option<String>,
}

/// The report of a client.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The server's address.
    pub server: SocketAddr,
    /// The server's public key.
    pub server_key: String,
    /// Whether this was the first contact, and its key was stored.
    pub is_new_server: bool,
    /// The controller that sent the files, as the server reports.
    pub controller: String,
    /// The sizes of all complete files.
    pub bytes: u64,
    /// Bytes of them that earlier transfers had moved.
    pub resumed_from: u64,
    /// The number of complete files.
    pub complete: usize,
    /// The number of files that failed.
    pub failed: usize,
    /// The time from the first packet to the last byte.
    pub seconds: f64,
    /// Moved bits of files per second over that time.
    pub goodput_bps: f64,
    /// The round-trip time of the handshake.
    pub handshake_s: f64,
    /// The minimum round-trip time.
    pub min_rtt_s: f64,
    /// The smoothed round-trip time at the end.
    pub rtt_s: f64,
    /// The fraction of the server's packets that did not arrive.
    pub loss: f64,
    /// The files.
    pub files: Vec<FileReport>,
}

/// A BLAKE3 hash from its 64 hexadecimal digits; `None` for other text.
pub fn parse_hash(text: &str) -> Option<[u8; 32]> {
    blake3::Hash::from_hex(text).ok().map(Into::into)
}

/// Gets files. An error if nothing could be done, or if the only file failed; files that failed among others are in the
/// report.
pub fn get(options: &GetOptions) -> Result<Report, NetError> {
    let (url, names) = read_urls(&options.urls)?;
    let trusted = Trusted::new(&url.server, &options.client.trust, options.client.identity.as_ref())?;
    check_options(&options.client)?;
    let mut downloads = Vec::new();
    for (index, (name, target)) in names.iter().zip(targets(options, &names)?).enumerate() {
        // Before the connection: an output that cannot be written is noticed first, and a part takes time to hash.
        let opens = names.len() == 1 || part_path(&target).symlink_metadata().is_ok();
        let part = if opens { Some(Part::open(&target, !options.fresh)?) } else { None };
        let max_size = options.max_size.map_or(u64::MAX, Bytes::as_u64);
        downloads.push(Download {
            index,
            name: name.clone(),
            target,
            part,
            size: None,
            max_size,
            blake3: options.blake3,
        });
    }
    let paths: Vec<_> = downloads.iter().map(|download| download.target.clone()).collect();
    let mut engine = Engine::new(&options.client, &trusted, &url, downloads);
    let mut results = engine.run()?;
    if results.len() == 1 {
        results = vec![Ok(results.remove(0)?)];
    }
    let files = names.into_iter().zip(paths).zip(results);
    Ok(engine.report(files.map(|((name, path), result)| file_report(name, path, result)).collect()))
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

fn file_report(name: String, path: PathBuf, result: Result<Complete, NetError>) -> FileReport {
    match result {
        Ok(Complete { size, resumed_from, blake3 }) => {
            let blake3 = blake3::Hash::from(blake3).to_hex().to_string();
            FileReport { name, path, bytes: size, resumed_from, blake3, error: None }
        }
        Err(error) => {
            FileReport { name, path, bytes: 0, resumed_from: 0, blake3: String::new(), error: Some(error.to_string()) }
        }
    }
}
