//! What a download is written to: `NAME.part`, locked while it grows, or straight into a device, a pipe or standard output,
//! which keep nothing to go on from. Hashed as it grows.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use super::error::NetError;
use super::protocol::Hash;

/// The target that is standard output. A file of that name is `./-`.
pub const STANDARD_OUTPUT: &str = "-";

/// A download that has begun.
#[derive(Debug)]
pub(crate) struct Part {
    place: Place,
    /// What it is called when it is whole.
    target: PathBuf,
    hasher: blake3::Hasher,
    /// Bytes it has.
    pub(crate) len: u64,
}

/// Where its bytes go.
#[derive(Debug)]
enum Place {
    /// Into a file that gets its name in the end.
    Beside { file: Flock<File>, path: PathBuf },
    /// Where they are out of our hands.
    Through(File),
}

impl Part {
    /// Opens the part of `target`, with what an earlier download left in it if `keep`.
    pub(crate) fn open(target: &Path, keep: bool) -> Result<Self, NetError> {
        let mut target = target.to_owned();
        let place = if target == Path::new(STANDARD_OUTPUT) {
            let out = io::stdout().as_fd().try_clone_to_owned();
            Place::Through(out.map_err(|reason| NetError::file(&target, reason))?.into())
        } else {
            // A link stays one, and what it leads to is replaced.
            if target.is_symlink() {
                target = fs::canonicalize(&target).unwrap_or(target);
            }
            Place::open(&target)?
        };
        let mut part = Self { place, target, hasher: blake3::Hasher::new(), len: 0 };
        if keep { part.read_back() } else { part.restart() }.map_err(|reason| part.trouble(reason))?;
        Ok(part)
    }

    /// Whether another download may go on from what this one leaves.
    pub(crate) fn is_kept(&self) -> bool {
        matches!(self.place, Place::Beside { .. })
    }

    fn trouble(&self, reason: io::Error) -> NetError {
        match &self.place {
            Place::Beside { path, .. } => NetError::file(path, reason),
            Place::Through(_) => NetError::File { path: self.target.clone(), reason },
        }
    }

    /// Hashes what is there.
    fn read_back(&mut self) -> io::Result<()> {
        let Place::Beside { file, .. } = &mut self.place else { return Ok(()) };
        let mut buffer = vec![0; 256 * 1024];
        loop {
            let count = file.read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            self.hasher.update(&buffer[..count]);
            self.len += count as u64;
        }
    }

    fn restart(&mut self) -> io::Result<()> {
        if let Place::Beside { file, .. } = &mut self.place {
            file.set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
        }
        self.hasher.reset();
        self.len = 0;
        Ok(())
    }

    /// Throws away what is there.
    pub(crate) fn clear(&mut self) -> Result<(), NetError> {
        self.restart().map_err(|reason| self.trouble(reason))
    }

    /// Adds bytes.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), NetError> {
        match &mut self.place {
            Place::Beside { file, .. } => file.write_all(bytes),
            Place::Through(file) => file.write_all(bytes),
        }
        .map_err(|reason| self.trouble(reason))?;
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
        if let Place::Beside { file, path } = &self.place {
            let done = file.sync_all().and_then(|()| fs::rename(path, &self.target));
            done.map_err(|reason| NetError::file(&self.target, reason))?;
        }
        Ok(self.target)
    }

    /// Deletes it.
    pub(crate) fn discard(self) {
        if let Place::Beside { path, .. } = &self.place {
            // It is of no use to anybody; if it stays, the next download finds that out.
            let _ = fs::remove_file(path);
        }
    }

    /// Deletes it if nothing ever came.
    pub(crate) fn leave(self) {
        if self.len == 0 {
            self.discard();
        }
    }
}

impl Place {
    fn open(target: &Path) -> Result<Self, NetError> {
        let trouble = |reason| NetError::file(target, reason);
        match fs::metadata(target) {
            // Replacing it would need no leave to write to it, but who forbids that means it.
            Ok(found) if found.is_file() => OpenOptions::new().write(true).open(target).map(drop).map_err(trouble)?,
            Ok(_) => return OpenOptions::new().write(true).open(target).map(Self::Through).map_err(trouble),
            Err(_) => {}
        }
        let mut name = target.as_os_str().to_owned();
        name.push(".part");
        let path = PathBuf::from(name);
        // Whoever may write to the directory could have put a link here to a file of ours.
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&path);
        let is_plain = |file: File| {
            if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("is no regular file")) }
        };
        let file = opened.and_then(is_plain).map_err(|reason| NetError::file(&path, reason))?;
        let file = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| NetError::PartInUse(path.clone()))?;
        Ok(Self::Beside { file, path })
    }
}
