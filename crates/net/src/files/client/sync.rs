//! Makes a directory the same as another one: this machine's as the server's, or the server's as this machine's.
//!
//! A file with the same size and the same time is the same. With the same size and another time, the hashes decide, and
//! if they agree only the time is set.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::ClientOptions;
use super::engine::Engine;
use super::get::{file_report, make_directory, moved_report};
use super::lists::{join, local_files, remote_files};
use super::output::Target;
use super::put::{Planned, put_all};
use super::report::{FileReport, FileResult, Report};
use super::task::{Done, GetTask, LocalFile, Task, TaskResult};
use crate::contact::{ContactError, Trusted};
use crate::files::changes::FileState;
use crate::files::directory::Directory;
use crate::files::error::NetError;
use crate::files::protocol::Refusal;
use crate::files::url::Url;
use crate::files::walk::Entry;

/// The options of a synchronization.
#[derive(Debug, Default)]
pub struct SyncOptions {
    /// The directory to take: of this machine, or HOST:PORT/NAME/.
    pub from: String,
    /// The directory to change: the other kind.
    pub to: String,
    /// Delete files that are not in the directory to take.
    pub delete: bool,
    /// Change nothing, and report what would be done.
    pub dry_run: bool,
    /// Take and delete hidden files, too.
    pub hidden: bool,
    /// The session.
    pub client: ClientOptions,
}

/// What to do with each file.
#[derive(Default)]
struct Plan {
    transfer: Vec<Entry>,
    /// Files to transfer into a directory that does not exist because a file has its name.
    blocked: Vec<Entry>,
    /// These files. The reverse stays: what looks like a file in the place of a directory may be a directory that cannot
    /// be read.
    blocking: Vec<Entry>,
    /// The same content with another time.
    touch: Vec<Entry>,
    delete: Vec<Entry>,
    unchanged: Vec<Entry>,
}

/// Synchronizes a directory. Files that failed are in the report.
pub fn sync(options: &SyncOptions) -> Result<Report, NetError> {
    match (Url::read(&options.from), Url::read(&options.to)) {
        (Ok(url), Err(ContactError::BadAddress { .. })) => pull(options, &url, Path::new(&options.to)),
        (Err(ContactError::BadAddress { .. }), Ok(url)) => push(options, Path::new(&options.from), &url),
        (Ok(_), Ok(_)) => {
            let problem = "both directories are at servers: one must be on this machine; write `./` before its name";
            Err(NetError::BadOption(problem.into()))
        }
        (Err(ContactError::BadAddress { .. }), Err(ContactError::BadAddress { .. })) => {
            let (from, to) = (&options.from, &options.to);
            let problem = format!("neither `{from}` nor `{to}` is at a server: write one of them as HOST:PORT/NAME/");
            Err(NetError::BadOption(problem))
        }
        (_, Err(error)) | (Err(error), _) => Err(error.into()),
    }
}

/// Compares the directory to take with the one to change. `local`: this machine's.
fn compare(
    engine: &mut Engine<'_>,
    from: Vec<Entry>,
    to: Vec<Entry>,
    (local, path): (&Arc<Directory>, &Path),
    remote: &str,
) -> Result<Plan, NetError> {
    let mut to: BTreeMap<String, FileState> = to.into_iter().map(|entry| (entry.name, entry.state)).collect();
    let mut plan = Plan::default();
    let mut unsure = Vec::new();
    for entry in from {
        match to.remove(&entry.name) {
            Some(state) if state == entry.state => plan.unchanged.push(entry),
            Some(state) if state.size == entry.state.size => unsure.push(entry),
            _ => plan.transfer.push(entry),
        }
    }
    let new: BTreeSet<&str> = plan.transfer.iter().map(|entry| entry.name.as_str()).collect();
    let deleted = to.into_iter().map(|(name, state)| Entry { name, state });
    (plan.blocking, plan.delete) = deleted.partition(|entry| has_files_below(&entry.name, &new));
    let blocking: BTreeSet<&str> = plan.blocking.iter().map(|entry| entry.name.as_str()).collect();
    (plan.blocked, plan.transfer) =
        plan.transfer.into_iter().partition(|entry| above(&entry.name).any(|name| blocking.contains(name)));
    let tasks = unsure.iter().map(|entry| {
        let local = LocalFile::Below(Arc::clone(local), path.to_owned(), entry.name.clone());
        Task::Compare { name: join(remote, &entry.name), local, size: entry.state.size }
    });
    let results = engine.run(tasks.collect())?;
    for (entry, result) in unsure.into_iter().zip(results) {
        match result {
            Ok(Done::Compared(true)) => plan.touch.push(entry),
            // A file that changed or cannot be hashed is transferred, or its error appears there.
            _ => plan.transfer.push(entry),
        }
    }
    Ok(plan)
}

/// The report of a dry run.
fn report_plan(
    engine: &Engine<'_>,
    options: &SyncOptions,
    plan: Plan,
    remote: &str,
    local: &Path,
    skipped: u64,
) -> Report {
    let report = |entry: Entry, result| {
        file_report(&join(remote, &entry.name), local.join(&entry.name), result, entry.state.size)
    };
    let transfer = plan.transfer.into_iter().chain(plan.blocked);
    let mut reports: Vec<_> = transfer.map(|entry| report(entry, FileResult::WouldTransfer)).collect();
    reports.extend(plan.touch.into_iter().chain(plan.unchanged).map(|entry| report(entry, FileResult::Unchanged)));
    if options.delete {
        let delete = plan.blocking.into_iter().chain(plan.delete);
        reports.extend(delete.map(|entry| report(entry, FileResult::WouldDelete)));
    }
    engine.report(reports, skipped)
}

fn pull(options: &SyncOptions, url: &Url, path: &Path) -> Result<Report, NetError> {
    let trusted = Trusted::new(&url.server, &options.client.trust, options.client.identity.as_ref())?;
    let mut engine = Engine::new(&options.client, &trusted, url, false)?;
    let (from, skipped) = remote_files(&mut engine, &url.name, &[])?;
    let from: Vec<_> = from.into_iter().filter(|entry| options.hidden || !is_hidden(&entry.name)).collect();
    if options.dry_run && !path.exists() {
        let transfer = from;
        let plan = Plan { transfer, ..Plan::default() };
        engine.finish()?;
        return Ok(report_plan(&engine, options, plan, &url.name, path, skipped));
    }
    let directory = make_directory(path)?;
    let to = local_files(&directory, path)?.0;
    let to: Vec<_> = to.into_iter().filter(|entry| options.hidden || !is_hidden(&entry.name)).collect();
    let plan = compare(&mut engine, from, to, (&directory, path), &url.name)?;
    if options.dry_run {
        engine.finish()?;
        return Ok(report_plan(&engine, options, plan, &url.name, path, skipped));
    }
    let change = |name: &str, result: std::io::Result<()>, success: FileResult, bytes: u64| {
        let local = path.join(name);
        match result {
            Ok(()) => file_report(&join(&url.name, name), local, success, bytes),
            Err(error) => moved_report(&join(&url.name, name), local.clone(), Err(NetError::file(&local, error))),
        }
    };
    let delete = |entry: &Entry| {
        change(&entry.name, directory.delete(&entry.name).map(drop), FileResult::Deleted, entry.state.size)
    };
    let transfer = |engine: &mut Engine<'_>, entries: &[Entry]| -> Result<Vec<FileReport>, NetError> {
        let tasks = entries.iter().map(|entry| {
            Task::Get(GetTask {
                name: join(&url.name, &entry.name),
                target: Target::Below(Arc::clone(&directory), path.to_owned(), entry.name.clone()),
                size: Some(entry.state.size),
                max_size: u64::MAX,
                resume: true,
                blake3: None,
            })
        });
        let results = engine.run(tasks.collect())?;
        Ok(reports_of(entries, results, &url.name, path))
    };
    let mut reports = transfer(&mut engine, &plan.transfer)?;
    if options.delete && all_succeeded(&reports) {
        reports.extend(plan.blocking.iter().map(delete));
    }
    reports.extend(transfer(&mut engine, &plan.blocked)?);
    for entry in &plan.touch {
        let set = directory.set_modified(&entry.name, entry.state.modified);
        reports.push(change(&entry.name, set, FileResult::Unchanged, entry.state.size));
    }
    if options.delete && all_succeeded(&reports) {
        reports.extend(plan.delete.iter().map(delete));
    }
    directory.sync().map_err(|error| NetError::file(path, error))?;
    engine.finish()?;
    reports.extend(
        plan.unchanged.iter().map(|entry| change(&entry.name, Ok(()), FileResult::Unchanged, entry.state.size)),
    );
    Ok(engine.report(reports, skipped))
}

fn push(options: &SyncOptions, path: &Path, url: &Url) -> Result<Report, NetError> {
    let trusted = Trusted::new(&url.server, &options.client.trust, options.client.identity.as_ref())?;
    let unreadable = |error| NetError::BadDirectory(path.to_owned(), error);
    let directory = Arc::new(Directory::open(path, options.hidden).map_err(unreadable)?);
    let (from, skipped) = local_files(&directory, path)?;
    let mut engine = Engine::new(&options.client, &trusted, url, true)?;
    let (to, _) = remote_files(&mut engine, &url.name, &[Refusal::NoSuchFile])?;
    let to: Vec<_> = to.into_iter().filter(|entry| options.hidden || !is_hidden(&entry.name)).collect();
    let plan = compare(&mut engine, from, to, (&directory, path), &url.name)?;
    if options.dry_run {
        engine.finish()?;
        return Ok(report_plan(&engine, options, plan, &url.name, path, skipped));
    }
    let remote = |entry: &Entry| join(&url.name, &entry.name);
    let transfer = |engine: &mut Engine<'_>, entries: &[Entry]| -> Result<Vec<FileReport>, NetError> {
        let plan = |entry: &Entry| {
            let local = LocalFile::Below(Arc::clone(&directory), path.to_owned(), entry.name.clone());
            (remote(entry), local, entry.state)
        };
        let planned: Vec<Planned> = entries.iter().map(plan).collect();
        let results = put_all(engine, &planned, true, true)?;
        Ok(reports_of(entries, results, &url.name, path))
    };
    let delete = |engine: &mut Engine<'_>, entries: &[Entry]| -> Result<Vec<FileReport>, NetError> {
        let tasks = entries.iter().map(|entry| Task::Delete { name: remote(entry) });
        let results = engine.run(tasks.collect())?;
        let report = |(entry, result): (&Entry, TaskResult)| match result {
            Ok(_) => file_report(&remote(entry), path.join(&entry.name), FileResult::Deleted, entry.state.size),
            Err(error) => moved_report(&remote(entry), path.join(&entry.name), Err(error)),
        };
        Ok(entries.iter().zip(results).map(report).collect())
    };
    let mut reports = transfer(&mut engine, &plan.transfer)?;
    if options.delete && all_succeeded(&reports) {
        reports.extend(delete(&mut engine, &plan.blocking)?);
    }
    reports.extend(transfer(&mut engine, &plan.blocked)?);
    // A server that does not allow to set times allows no changes of files that it has, and compares again next time.
    if engine.rights().overwrite {
        let tasks =
            plan.touch.iter().map(|entry| Task::SetModified { name: remote(entry), modified: entry.state.modified });
        engine.run(tasks.collect())?;
    }
    let unchanged = plan.touch.iter().chain(&plan.unchanged);
    reports.extend(
        unchanged
            .map(|entry| file_report(&remote(entry), path.join(&entry.name), FileResult::Unchanged, entry.state.size)),
    );
    if options.delete && all_succeeded(&reports) {
        reports.extend(delete(&mut engine, &plan.delete)?);
    }
    engine.finish()?;
    Ok(engine.report(reports, skipped))
}

fn all_succeeded(reports: &[FileReport]) -> bool {
    reports.iter().all(|file| file.result != FileResult::Failed)
}

/// The names of the directories above a file.
fn above(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('/').map(|(end, _)| &name[..end])
}

/// Whether some of the `files` are below a directory called `name`.
fn has_files_below(name: &str, files: &BTreeSet<&str>) -> bool {
    let below = format!("{name}/");
    files.range(below.as_str()..).next().is_some_and(|first| first.starts_with(&below))
}

fn is_hidden(name: &str) -> bool {
    name.split('/').any(|part| part.starts_with('.'))
}

fn reports_of(entries: &[Entry], results: Vec<TaskResult>, remote: &str, local: &Path) -> Vec<FileReport> {
    let with_results = entries.iter().zip(results);
    let report = |(entry, result): (&Entry, TaskResult)| {
        moved_report(&join(remote, &entry.name), local.join(&entry.name), result)
    };
    with_results.map(report).collect()
}
