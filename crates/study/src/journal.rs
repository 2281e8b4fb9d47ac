//! Finished points on disk: one file each, there whole or not at all.
//!
//! A file is written under another name and then renamed, so an interrupted run leaves no half of one. A point counts as
//! finished only if the very program that asks ran it: a rebuilt controller never meets its predecessor's results.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use std::{fs, io};

use rampmeter_scenario::Point;
use sha2::{Digest, Sha256};

use crate::StudyError;
use crate::record::Record;

/// The program that runs the points, told from its other builds by its size and its time of change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program(String);

impl Program {
    /// The program in the file at `path`.
    pub fn of(path: &Path) -> Result<Self, StudyError> {
        let about = || -> io::Result<_> {
            let about = fs::metadata(path)?;
            Ok((about.len(), about.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()))
        };
        let (len, changed) = about().map_err(|error| StudyError::file(path, "read", &error))?;
        Ok(Self(short_hash(&[&len.to_string(), &changed.to_string()])))
    }

    /// The program that is running.
    pub fn this() -> Result<Self, StudyError> {
        Self::of(Path::new("/proc/self/exe"))
    }
}

/// The finished points of one scenario in one world.
#[derive(Debug, Clone)]
pub struct Journal {
    folder: PathBuf,
    program: Program,
}

impl Journal {
    /// Opens the journal in `folder`, which is made if it is not there.
    pub fn open(folder: impl Into<PathBuf>, program: Program) -> Result<Self, StudyError> {
        let folder = folder.into();
        fs::create_dir_all(&folder).map_err(|error| StudyError::file(&folder, "made", &error))?;
        Ok(Self { folder, program })
    }

    /// Forgets every point.
    pub fn clear(&self) -> Result<(), StudyError> {
        let refuse = |error| StudyError::file(&self.folder, "emptied", &error);
        fs::remove_dir_all(&self.folder).map_err(refuse)?;
        fs::create_dir_all(&self.folder).map_err(refuse)
    }

    /// The record of `point`, if this program finished it.
    pub(crate) fn load(&self, point: &Point) -> Option<Record> {
        let text = fs::read(self.path(point)).ok()?;
        let record: Record = serde_json::from_slice(&text).ok()?;
        (record.point == point.to_string() && record.program == self.program.0).then_some(record)
    }

    pub(crate) fn store(&self, point: &Point, record: &Record) -> Result<(), StudyError> {
        let path = self.path(point);
        let text = serde_json::to_vec(record).map_err(|error| StudyError::file(&path, "written", &error))?;
        write_whole(&path, &text)
    }

    pub(crate) fn program(&self) -> &str {
        &self.program.0
    }

    fn path(&self, point: &Point) -> PathBuf {
        self.folder.join(format!("{}.json", short_hash(&[&point.to_string()])))
    }
}

/// Writes a file that is there whole or not at all.
pub(crate) fn write_whole(path: &Path, content: &[u8]) -> Result<(), StudyError> {
    let beside = path.with_extension(format!("{}.tmp", std::process::id()));
    let write = || {
        fs::write(&beside, content)?;
        fs::rename(&beside, path)
    };
    write().map_err(|error| StudyError::file(path, "written", &error))
}

/// 16 hexadecimal digits that stand for `parts`.
pub(crate) fn short_hash(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    format!("{:x}", hash.finalize())[..16].to_owned()
}
