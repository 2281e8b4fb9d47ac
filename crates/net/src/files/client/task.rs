//! What a client can ask of a server, and the results.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::output::Target;
use crate::files::directory::Directory;
use crate::files::error::NetError;
use crate::files::protocol::{Hash, Modified, Refusal};
use crate::files::source::Source;
use crate::files::walk::Entry;

/// A file on this machine.
#[derive(Debug, Clone)]
pub(super) enum LocalFile {
    Path(PathBuf),
    /// Below a directory: its path, and the file's name there.
    Below(Arc<Directory>, PathBuf, String),
}

impl LocalFile {
    /// The path that reports show.
    pub(super) fn path(&self) -> PathBuf {
        match self {
            Self::Path(path) => path.clone(),
            Self::Below(_, path, name) => path.join(name),
        }
    }

    pub(super) fn unreadable(&self, error: io::Error) -> NetError {
        NetError::Unreadable(self.path(), error)
    }

    /// Opens the file to read it.
    pub(super) fn open(&self) -> Result<Source, NetError> {
        let opened = match self {
            Self::Path(path) => File::open(path).and_then(|file| {
                let metadata = file.metadata()?;
                if metadata.is_file() { Ok((file, metadata)) } else { Err(io::Error::other("is no regular file")) }
            }),
            Self::Below(directory, _, name) => directory.file(name).map_err(|reason| match reason {
                Refusal::Unreadable => io::ErrorKind::PermissionDenied.into(),
                reason => io::Error::other(reason.to_string()),
            }),
        };
        let (file, metadata) = opened.map_err(|error| self.unreadable(error))?;
        Ok(Source::new(file, &metadata))
    }
}

/// What to ask of the server.
#[derive(Debug)]
pub(super) enum Task {
    List {
        name: String,
    },
    Get(GetTask),
    Put(PutTask),
    /// Whether the server's file has the same hash as this machine's.
    Compare {
        name: String,
        local: LocalFile,
        size: u64,
    },
    Delete {
        name: String,
    },
    SetModified {
        name: String,
        modified: Modified,
    },
    Sync,
}

#[derive(Debug)]
pub(super) struct GetTask {
    pub(super) name: String,
    pub(super) target: Target,
    /// The size, if it is known from a list.
    pub(super) size: Option<u64>,
    /// The largest size that is accepted.
    pub(super) max_size: u64,
    /// Whether to go on with the part of an earlier transfer.
    pub(super) resume: bool,
    /// The hash that the file must have.
    pub(super) blake3: Option<Hash>,
}

#[derive(Debug)]
pub(super) struct PutTask {
    pub(super) name: String,
    pub(super) local: LocalFile,
    pub(super) size: u64,
    pub(super) replace: bool,
    pub(super) resume: bool,
}

impl Task {
    /// The name that errors show.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::List { name }
            | Self::Compare { name, .. }
            | Self::Delete { name }
            | Self::SetModified { name, .. }
            | Self::Get(GetTask { name, .. })
            | Self::Put(PutTask { name, .. }) => name,
            Self::Sync => "",
        }
    }

    /// The bytes that the task will move, if they are known.
    pub(super) fn size(&self) -> Option<u64> {
        match self {
            Self::Get(get) => get.size,
            Self::Put(put) => Some(put.size),
            _ => Some(0),
        }
    }
}

/// The result of a task.
#[derive(Debug)]
pub(super) enum Done {
    /// The files of a directory, and the number of those that the server cannot serve.
    Listed(Vec<Entry>, u64),
    /// A file was moved.
    Moved(Moved),
    /// Whether the files are the same.
    Compared(bool),
    Changed,
}

/// A file that was received or sent.
#[derive(Debug)]
pub(super) struct Moved {
    pub(super) path: PathBuf,
    pub(super) size: u64,
    pub(super) resumed_from: u64,
    pub(super) blake3: Hash,
}

pub(super) type TaskResult = Result<Done, NetError>;
