//! Puts files and whole directories.

use std::path::PathBuf;
use std::sync::Arc;

use super::ClientOptions;
use super::engine::Engine;
use super::get::{file_report, is_directory, moved_report};
use super::lists::{join, local_files, remote_files};
use super::report::{FileResult, Report};
use super::task::{LocalFile, PutTask, Task, TaskResult};
use crate::contact::Trusted;
use crate::files::changes::FileState;
use crate::files::directory::Directory;
use crate::files::error::NetError;
use crate::files::protocol::{Modified, Refusal, check_name};
use crate::files::url::Url;

/// The options of an upload.
#[derive(Debug, Default)]
pub struct PutOptions {
    /// Files and directories of this machine.
    pub sources: Vec<PathBuf>,
    /// HOST:PORT/NAME for one file, HOST:PORT/NAME/ for a directory.
    pub url: String,
    /// Replace files that the server has already, if it allows that.
    pub overwrite: bool,
    /// Do not resume from parts of earlier uploads, and put files of directories that are there already.
    pub fresh: bool,
    /// Put hidden files of directories, too.
    pub hidden: bool,
    /// The session.
    pub client: ClientOptions,
}

/// A file to put: its name at the server, the file, its state.
pub(super) type Planned = (String, LocalFile, FileState);

fn plan(options: &PutOptions, name: &str) -> Result<(Vec<Planned>, u64), NetError> {
    let (mut planned, mut skipped) = (Vec::new(), 0);
    for source in &options.sources {
        let unreadable = |error| NetError::Unreadable(source.clone(), error);
        let metadata = std::fs::metadata(source).map_err(unreadable)?;
        let base = source.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
        let bad_name = || NetError::BadOption(format!("{}: its name is not UTF-8: rename it", source.display()));
        if metadata.is_dir() {
            // The contents of one directory become those of the target; several keep their names.
            let above =
                if options.sources.len() == 1 { name.to_owned() } else { join(name, &base.ok_or_else(bad_name)?) };
            let directory = Arc::new(Directory::open(source, options.hidden).map_err(unreadable)?);
            let (entries, others) = local_files(&directory, source)?;
            skipped += others;
            planned.extend(entries.into_iter().map(|entry| {
                let local = LocalFile::Below(Arc::clone(&directory), source.clone(), entry.name.clone());
                (join(&above, &entry.name), local, entry.state)
            }));
        } else if !metadata.is_file() {
            return Err(unreadable(std::io::Error::other("is no regular file")));
        } else {
            let remote = if is_directory(name) { join(name, &base.ok_or_else(bad_name)?) } else { name.to_owned() };
            let modified = Modified::default(); // the file's own, when it is opened
            let state = FileState { size: metadata.len(), modified };
            planned.push((remote, LocalFile::Path(source.clone()), state));
        }
    }
    for (name, ..) in &planned {
        check_name(name).map_err(|reason| NetError::BadOption(format!("`{name}` cannot be a name there: {reason}")))?;
    }
    Ok((planned, skipped))
}

/// Puts files. An error if nothing could be done, or if the only file failed; files that failed among others are in the
/// report.
pub fn put(options: &PutOptions) -> Result<Report, NetError> {
    let url = Url::read(&options.url)?;
    let trusted = Trusted::new(&url.server, &options.client.trust, options.client.identity.as_ref())?;
    if options.sources.len() > 1 && !is_directory(&url.name) {
        let problem = "several files need a directory there: end it with `/`";
        return Err(Url::bad(&options.url, problem).into());
    }
    let (mut planned, skipped) = plan(options, &url.name)?;
    let is_one = matches!(&options.sources[..], [one] if one.is_file());
    let mut engine = Engine::new(&options.client, &trusted, &url, true)?;
    let mut reports = Vec::new();
    if !is_one && !options.fresh {
        let there: std::collections::BTreeMap<_, _> =
            remote_files(&mut engine, &url.name, &[Refusal::NoSuchFile, Refusal::NotListed])?
                .0
                .into_iter()
                .map(|entry| (join(&url.name, &entry.name), entry.state))
                .collect();
        planned.retain(|(name, local, state)| {
            let is_there = there.get(name) == Some(state);
            if is_there {
                let path = local.path();
                reports.push(file_report(name, path, FileResult::Unchanged, state.size));
            }
            !is_there
        });
    }
    let results = put_all(&mut engine, &planned, options.overwrite, !options.fresh)?;
    for ((name, local, _), result) in planned.iter().zip(results) {
        match result {
            Err(error) if is_one => return Err(error),
            result => reports.push(moved_report(name, local.path(), result)),
        }
    }
    engine.finish()?;
    Ok(engine.report(reports, skipped))
}

/// Puts files, and makes sure that they are on the server's disk.
pub(super) fn put_all(
    engine: &mut Engine<'_>,
    planned: &[Planned],
    replace: bool,
    resume: bool,
) -> Result<Vec<TaskResult>, NetError> {
    if planned.is_empty() {
        return Ok(Vec::new());
    }
    let task = |(name, local, state): &Planned| {
        Task::Put(PutTask { name: name.clone(), local: local.clone(), size: state.size, replace, resume })
    };
    let mut results = engine.run(planned.iter().map(task).collect())?;
    let mut waits = engine.waits_for_a_name();
    loop {
        let is_in_use = |result: &TaskResult| matches!(result, Err(NetError::Refused { reason: Refusal::InUse, .. }));
        let again: Vec<usize> = (0..results.len()).filter(|&n| is_in_use(&results[n])).collect();
        let Some(wait) = waits.next().filter(|_| !again.is_empty()) else { break };
        let sizes = again.iter().map(|&n| planned[n].2.size).sum();
        engine.wait_to_repeat(wait, sizes)?;
        for (&n, result) in again.iter().zip(engine.run(again.iter().map(|&n| task(&planned[n])).collect())?) {
            results[n] = result;
        }
    }
    if results.iter().any(Result::is_ok) {
        for result in engine.run(vec![Task::Sync])? {
            result?;
        }
    }
    Ok(results)
}
