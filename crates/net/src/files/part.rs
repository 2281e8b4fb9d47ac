//! The file that a download grows in: `NAME.part`, locked while it is written, hashed as it grows.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use super::error::NetError;
use super::protocol::Hash;

/// A download that has begun.
#[derive(Debug)]
pub(crate) struct Part {
    file: Flock<File>,
    path: PathBuf,
    target: PathBuf,
    hasher: blake3::Hasher,
    /// Bytes it has.
    pub(crate) len: u64,
}

impl Part {
    /// Opens the part of `target`, with what an earlier download left in it if `keep`.
    pub(crate) fn open(target: &Path, keep: bool) -> Result<Self, NetError> {
        let mut name = target.as_os_str().to_owned();
        name.push(".part");
        let path = PathBuf::from(name);
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = opened.map_err(|reason| NetError::file(&path, reason))?;
        let file = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| NetError::PartInUse(path.clone()))?;
        let mut part = Self { file, path, target: target.to_owned(), hasher: blake3::Hasher::new(), len: 0 };
        if keep { part.read_back() } else { part.restart() }.map_err(|reason| NetError::file(&part.path, reason))?;
        Ok(part)
    }

    /// Hashes what is there.
    fn read_back(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; 256 * 1024];
        loop {
            let count = self.file.read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            self.hasher.update(&buffer[..count]);
            self.len += count as u64;
        }
    }

    fn restart(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.hasher.reset();
        self.len = 0;
        Ok(())
    }

    /// Throws away what is there.
    pub(crate) fn clear(&mut self) -> Result<(), NetError> {
        self.restart().map_err(|reason| NetError::file(&self.path, reason))
    }

    /// Adds bytes.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), NetError> {
        self.file.write_all(bytes).map_err(|reason| NetError::file(&self.path, reason))?;
        self.hasher.update(bytes);
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// The hash of what is there.
    pub(crate) fn hash(&self) -> Hash {
        *self.hasher.finalize().as_bytes()
    }

    /// Gives it its name, once it is safely on the disk.
    pub(crate) fn complete(self) -> Result<PathBuf, NetError> {
        let done = self.file.sync_all().and_then(|()| fs::rename(&self.path, &self.target));
        done.map_err(|reason| NetError::file(&self.target, reason))?;
        Ok(self.target)
    }

    /// Deletes it.
    pub(crate) fn discard(self) {
        // It is of no use to anybody; if it stays, the next download finds that out.
        let _ = fs::remove_file(&self.path);
    }

    /// Deletes it if nothing ever came.
    pub(crate) fn leave(self) {
        if self.len == 0 {
            self.discard();
        }
    }
}
