//! The files of a directory: of this machine, or of the server.

use std::path::Path;
use std::sync::Arc;

use super::engine::Engine;
use super::task::{Done, Task};
use crate::files::directory::Directory;
use crate::files::error::NetError;
use crate::files::protocol::Refusal;
use crate::files::walk::{Entry, Walk};

/// All files below a directory of this machine, and the number of those that cannot be sent.
pub(super) fn local_files(directory: &Arc<Directory>, path: &Path) -> Result<(Vec<Entry>, u64), NetError> {
    let unreadable = |error| NetError::Unreadable(path.to_owned(), error);
    let mut walk = Walk::new(Arc::clone(directory), "").map_err(unreadable)?;
    let mut entries = Vec::new();
    while let Some(entry) = walk.next().map_err(unreadable)? {
        entries.push(entry);
    }
    Ok((entries, walk.skipped))
}

/// The files that the server has below `name`, and the number of those that it cannot send: none if it refuses the list
/// for one of the reasons in `none_if`.
pub(super) fn remote_files(
    engine: &mut Engine<'_>,
    name: &str,
    none_if: &[Refusal],
) -> Result<(Vec<Entry>, u64), NetError> {
    let name = name.trim_end_matches('/').to_owned();
    match engine.run(vec![Task::List { name }])?.pop() {
        Some(Ok(Done::Listed(entries, skipped))) => Ok((entries, skipped)),
        Some(Err(NetError::Refused { reason, .. })) if none_if.contains(&reason) => Ok((Vec::new(), 0)),
        Some(Err(error)) => Err(error),
        _ => Ok((Vec::new(), 0)),
    }
}

/// `name` below the directory called `above`.
pub(super) fn join(above: &str, name: &str) -> String {
    let above = above.trim_end_matches('/');
    if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") }
}
