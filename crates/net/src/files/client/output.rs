//! Where the bytes of a download go: to a path that the user gave, or to a file below a directory.

use std::path::PathBuf;
use std::sync::Arc;

use crate::driver::Alarm;
use crate::files::directory::Directory;
use crate::files::error::NetError;
use crate::files::part::Part;
use crate::files::protocol::{Hash, Modified};
use crate::files::sink::Sink;

/// The place of a file to download.
#[derive(Debug)]
pub(super) enum Target {
    Path(PathBuf),
    /// The path's part file is open.
    Open(Box<Part>),
    /// Below a directory: its path, and the file's name there.
    Below(Arc<Directory>, PathBuf, String),
}

impl Target {
    pub(super) fn path(&self) -> PathBuf {
        match self {
            Self::Path(path) => path.clone(),
            Self::Open(part) => part.target().to_owned(),
            Self::Below(_, path, name) => path.join(name),
        }
    }

    /// The same place, with no open part file.
    pub(super) fn closed(&self) -> Self {
        match self {
            Self::Below(directory, path, name) => Self::Below(Arc::clone(directory), path.clone(), name.clone()),
            target => Self::Path(target.path()),
        }
    }

    /// Whether there may be bytes of an earlier transfer that are to be opened and hashed first.
    pub(super) fn may_have_part(&self, resume: bool) -> bool {
        match self {
            Self::Path(_) => true,
            Self::Open(_) => false,
            Self::Below(directory, _, name) => resume && Sink::part_len(directory, name).is_some_and(|len| len > 0),
        }
    }
}

/// An open output.
#[derive(Debug)]
pub(super) enum Output {
    Part(Box<Part>),
    Sink(Box<Sink>, PathBuf),
}

impl Output {
    /// Opens the output of `target`. Its bytes are kept and hashed if `resume`.
    pub(super) fn open(target: Target, resume: bool) -> Result<Self, NetError> {
        match target {
            Target::Open(part) => Ok(Self::Part(part)),
            Target::Path(path) => Part::open(&path, resume).map(|part| Self::Part(Box::new(part))),
            Target::Below(directory, path, name) => {
                let path = path.join(&name);
                let open = || {
                    let mut sink = Sink::open(&directory, &name)?;
                    if resume {
                        sink.read_back(u64::MAX)?;
                    } else {
                        sink.clear()?;
                    }
                    Ok(sink)
                };
                match open() {
                    Ok(sink) => Ok(Self::Sink(Box::new(sink), path)),
                    Err(error) => Err(NetError::file(&path, error)),
                }
            }
        }
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Part(part) => part.len,
            Self::Sink(sink, _) => sink.len,
        }
    }

    pub(super) fn hash(&self) -> Hash {
        match self {
            Self::Part(part) => part.hash(),
            Self::Sink(sink, _) => sink.hash(),
        }
    }

    pub(super) fn is_resumable(&self) -> bool {
        match self {
            Self::Part(part) => part.is_resumable(),
            Self::Sink(..) => true,
        }
    }

    /// See [`Part::is_full`].
    pub(super) fn is_full(&self, alarm: &Alarm) -> bool {
        matches!(self, Self::Part(part) if part.is_full(alarm))
    }

    /// See [`Part::is_writing`].
    pub(super) fn is_writing(&self, alarm: &Alarm) -> bool {
        matches!(self, Self::Part(part) if part.is_writing(alarm))
    }

    pub(super) fn clear(&mut self) -> Result<(), NetError> {
        match self {
            Self::Part(part) => part.clear(),
            Self::Sink(sink, path) => sink.clear().map_err(|error| NetError::file(path, error)),
        }
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), NetError> {
        match self {
            Self::Part(part) => part.append(bytes),
            Self::Sink(sink, path) => sink.append(bytes).map_err(|error| NetError::file(path, error)),
        }
    }

    /// Gives the file its time and its name, and returns its path.
    pub(super) fn complete(self, modified: Modified) -> Result<PathBuf, NetError> {
        match self {
            Self::Part(part) => part.complete(modified),
            Self::Sink(sink, path) => match sink.complete(modified, true) {
                Ok(()) => Ok(path),
                Err(error) => Err(NetError::file(&path, error)),
            },
        }
    }

    pub(super) fn discard(self) {
        match self {
            Self::Part(part) => part.discard(),
            Self::Sink(sink, _) => sink.discard(),
        }
    }

    /// Closes the output; an empty part file is deleted.
    pub(super) fn close(self) {
        match self {
            Self::Part(part) => part.close(),
            Self::Sink(sink, _) => sink.close(),
        }
    }
}
