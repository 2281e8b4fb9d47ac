//! Gets files and whole directories.

use std::collections::BTreeSet;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rampmeter_units::Bytes;

use super::ClientOptions;
use super::engine::Engine;
use super::link::check_options;
use super::lists::join;
use super::output::Target;
use super::report::{FileReport, FileResult, Report};
use super::task::{Done, GetTask, Task, TaskResult};
use crate::contact::{ContactError, ServerAddress, Trusted};
use crate::files::directory::Directory;
use crate::files::error::NetError;
use crate::files::part::{Part, STANDARD_OUTPUT};
use crate::files::url::{self, Url};

/// The options of a download.
#[derive(Debug, Default)]
pub struct GetOptions {
    /// Names at one server: HOST:PORT/NAME for a file, HOST:PORT/NAME/ for a directory and all below it. The key in
    /// HOST:PORT/NAME?key=KEY counts instead of the file of known servers.
    pub urls: Vec<String>,
    /// The output. For one file: a file, which is replaced if it exists; a directory; a device or a pipe, written to as
    /// the bytes arrive; or standard output for [`STANDARD_OUTPUT`]. Without it, the last part of the file's name, in
    /// the current directory. For a directory or several names: a directory, which is made if it does not exist
    /// ([`GetOptions::directory`]).
    pub out: Option<PathBuf>,
    /// Do not resume from parts of earlier downloads, and get files of directories that are here already.
    pub fresh: bool,
    /// The BLAKE3 hash that the file must have.
    pub blake3: Option<[u8; 32]>,
    /// The size of the largest file that is accepted.
    pub max_size: Option<Bytes>,
    /// The session.
    pub client: ClientOptions,
}

impl GetOptions {
    /// Where the files of a directory or of several names go. Without an output, a directory keeps its name. The
    /// server's own directory has none, and several names are made below the current directory.
    pub fn directory(&self) -> PathBuf {
        let own_name = || match &self.urls[..] {
            [url] => url::name(url).map(|name| last(name.trim_end_matches('/'))).filter(|name| !name.is_empty()),
            _ => None,
        };
        self.out.clone().unwrap_or_else(|| own_name().unwrap_or(".").into())
    }
}

/// A BLAKE3 hash from its 64 hexadecimal digits; `None` for other text.
pub fn parse_hash(text: &str) -> Option<[u8; 32]> {
    blake3::Hash::from_hex(text).ok().map(Into::into)
}

/// Reads the addresses of names at one server.
pub(super) fn read_urls(urls: &[String]) -> Result<(Url, Vec<String>), NetError> {
    let mut first: Option<Url> = None;
    let mut names = Vec::new();
    for text in urls {
        let url = Url::read(text)?;
        names.push(url.name.clone());
        match &mut first {
            None => first = Some(url),
            Some(first) if first.server.text != url.server.text => {
                return Err(Url::bad(text, "it is at another server than the first one").into());
            }
            Some(Url { server: ServerAddress { key: Some(key), .. }, .. })
                if url.server.key.is_some_and(|other| other != *key) =>
            {
                return Err(Url::bad(text, "it has another key than an address before it").into());
            }
            Some(first) => first.server.key = first.server.key.or(url.server.key),
        }
    }
    let first = first.ok_or_else(|| NetError::BadOption("there is no address: write HOST:PORT/NAME".into()))?;
    Ok((first, names))
}

/// The directory at `path`, which is made if it does not exist.
pub(super) fn make_directory(path: &Path) -> Result<Arc<Directory>, NetError> {
    let made = std::fs::create_dir_all(path).and_then(|()| Directory::open(path, true));
    made.map(Arc::new).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            NetError::File(path.to_owned(), Error::new(ErrorKind::NotADirectory, "it is no directory"))
        }
        _ => NetError::file(path, error),
    })
}

fn last(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// A file that is not moved by a task: nothing to do, or a dry run.
pub(super) fn file_report(name: &str, path: PathBuf, result: FileResult, bytes: u64) -> FileReport {
    FileReport { name: name.to_owned(), path, result, bytes, resumed_from: 0, blake3: String::new(), error: None }
}

/// The report of a file that a task moved, or not.
pub(super) fn moved_report(name: &str, path: PathBuf, result: TaskResult) -> FileReport {
    match result {
        Ok(Done::Moved(moved)) => FileReport {
            resumed_from: moved.resumed_from,
            blake3: blake3::Hash::from(moved.blake3).to_hex().to_string(),
            ..file_report(
                name,
                if moved.path.as_os_str().is_empty() { path } else { moved.path },
                FileResult::Complete,
                moved.size,
            )
        },
        Ok(_) => file_report(name, path, FileResult::Complete, 0),
        Err(error) => FileReport { error: Some(error.to_string()), ..file_report(name, path, FileResult::Failed, 0) },
    }
}

/// Gets files. An error if nothing could be done, or if the only file failed; files that failed among others are in the
/// report.
pub fn get(options: &GetOptions) -> Result<Report, NetError> {
    let (url, names) = read_urls(&options.urls)?;
    let trusted = Trusted::new(&url.server, &options.client.trust, options.client.identity.as_ref())?;
    check_options(&options.client)?;
    if let [name] = &names[..] {
        if !is_directory(name) {
            return get_one(options, &url, &trusted, name);
        }
    }
    if options.blake3.is_some() {
        return Err(NetError::BadOption("a hash is for one file: write its address alone".into()));
    }
    get_many(options, &url, &trusted, &names)
}

/// Whether a name in an address is a directory's.
pub(super) fn is_directory(name: &str) -> bool {
    name.is_empty() || name.ends_with('/')
}

fn get_task(options: &GetOptions, name: &str, target: Target, size: Option<u64>) -> GetTask {
    let max_size = options.max_size.map_or(u64::MAX, Bytes::as_u64);
    GetTask { name: name.to_owned(), target, size, max_size, resume: !options.fresh, blake3: options.blake3 }
}

fn get_one(options: &GetOptions, url: &Url, trusted: &Trusted, name: &str) -> Result<Report, NetError> {
    let path = match &options.out {
        None => PathBuf::from(last(name)),
        Some(out) if out.is_dir() => out.join(last(name)),
        Some(out) => out.clone(),
    };
    // Before the connection, so that an output that cannot be written is noticed first.
    let part = Part::open(&path, !options.fresh)?;
    let mut engine = Engine::new(&options.client, trusted, url, false)?;
    let task = Task::Get(get_task(options, name, Target::Open(Box::new(part)), None));
    let result = engine.run(vec![task])?.pop().ok_or(ContactError::UnknownHost(url.server.text.clone()))?;
    engine.finish()?;
    let result = result?;
    Ok(engine.report(vec![moved_report(name, path, Ok(result))], 0))
}

fn get_many(options: &GetOptions, url: &Url, trusted: &Trusted, names: &[String]) -> Result<Report, NetError> {
    let out = options.directory();
    if options.out.as_deref() == Some(Path::new(STANDARD_OUTPUT)) {
        return Err(NetError::BadOption("several files cannot go to standard output: give a directory".into()));
    }
    let is_new = !out.exists();
    // Before the connection, so that an output that cannot be written is noticed first.
    let directory = make_directory(&out)?;
    let result = get_below(options, url, trusted, names, &out, &directory);
    if is_new && result.is_err() {
        let _ = std::fs::remove_dir(&out); // remains if there is something in it
    }
    result
}

fn get_below(
    options: &GetOptions,
    url: &Url,
    trusted: &Trusted,
    names: &[String],
    out: &Path,
    directory: &Arc<Directory>,
) -> Result<Report, NetError> {
    let mut engine = Engine::new(&options.client, trusted, url, false)?;
    let (listed, files): (Vec<_>, Vec<_>) = names.iter().partition(|name| is_directory(name));
    let lists = listed.iter().map(|name| Task::List { name: name.trim_end_matches('/').to_owned() }).collect();
    let below = |local: String| Target::Below(Arc::clone(directory), out.to_owned(), local);
    let (mut tasks, mut reports, mut skipped) = (Vec::new(), Vec::new(), 0);
    for name in files {
        tasks.push(get_task(options, name, below(last(name).to_owned()), None));
    }
    for (name, result) in listed.iter().zip(engine.run(lists)?) {
        let name = name.trim_end_matches('/');
        let entries = match result {
            Ok(Done::Listed(entries, others)) => {
                skipped += others;
                entries
            }
            Ok(_) => Vec::new(),
            Err(error) if names.len() == 1 => return Err(error),
            Err(error) => {
                reports.push(moved_report(name, out.to_owned(), Err(error)));
                continue;
            }
        };
        for entry in entries {
            let remote = join(name, &entry.name);
            // The contents of one directory become those of the output; several keep their names.
            let keeps_name = names.len() > 1 && !name.is_empty();
            let local = if keeps_name { format!("{}/{}", last(name), entry.name) } else { entry.name };
            let is_here = !options.fresh && directory.state(&local).ok().flatten() == Some(entry.state);
            if is_here {
                reports.push(file_report(&remote, out.join(&local), FileResult::Unchanged, entry.state.size));
            } else if let Some(max) = options.max_size.map(Bytes::as_u64).filter(|&max| entry.state.size > max) {
                let error = NetError::TooLarge { name: remote.clone(), size: entry.state.size, max };
                reports.push(moved_report(&remote, out.join(&local), Err(error)));
            } else {
                tasks.push(get_task(options, &remote, below(local), Some(entry.state.size)));
            }
        }
    }
    let moved: Vec<_> = tasks.iter().map(|task| (task.name.clone(), task.target.path())).collect();
    let mut paths = BTreeSet::new();
    if let Some((name, path)) = moved.iter().find(|(_, path)| !paths.insert(path)) {
        let problem = format!("`{name}` is not the only file for {}: get it with a command of its own", path.display());
        return Err(NetError::BadOption(problem));
    }
    let results = engine.run(tasks.into_iter().map(Task::Get).collect())?;
    // One write of everything to the disk costs less than one for each file.
    directory.sync().map_err(|error| NetError::file(out, error))?;
    engine.finish()?;
    reports.extend(moved.into_iter().zip(results).map(|((name, path), result)| moved_report(&name, path, result)));
    Ok(engine.report(reports, skipped))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_an_output_keeps_its_name() {
        let directory = |urls: &[&str], out: Option<&str>| {
            let (urls, out) = (urls.iter().map(ToString::to_string).collect(), out.map(PathBuf::from));
            GetOptions { urls, out, ..GetOptions::default() }.directory()
        };
        let key = "A".repeat(43);
        for (url, name) in [("h:1/a/b/", "b"), ("rampmeter://h/b/", "b"), ("h:1/", "."), ("rampmeter://h/", ".")] {
            for url in [url.to_owned(), format!("{url}?key={key}")] {
                assert_eq!(directory(&[&url], None), Path::new(name), "{url}");
                assert_eq!(directory(&[&url], Some("o")), Path::new("o"), "{url}");
            }
        }
        assert_eq!(directory(&["h:1/a/", "h:1/b"], None), Path::new("."), "each has its own name there");
    }
}
