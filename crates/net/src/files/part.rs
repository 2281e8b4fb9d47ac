//! The output of a download: `NAME.part`, locked while it grows, or a device, a pipe or standard output, from which no
//! later download can resume. The bytes are hashed as they are written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, Flock};

use super::changes::set_time;
use super::error::NetError;
use super::locked::open_locked;
use super::protocol::{Hash, Modified};
use super::stream_output::StreamOutput;
use crate::driver::Alarm;

/// The name of standard output. A file of this name is `./-`.
pub const STANDARD_OUTPUT: &str = "-";

/// The output of a download in progress.
#[derive(Debug)]
pub(crate) struct Part {
    output: Output,
    /// The path of the complete file.
    target: PathBuf,
    hasher: blake3::Hasher,
    /// The number of bytes received.
    pub(crate) len: u64,
}

/// Where the bytes are written.
#[derive(Debug)]
enum Output {
    /// A part file, which is renamed once it is complete.
    Part { file: Flock<File>, path: PathBuf },
    /// A device, a pipe or standard output.
    Stream(StreamOutput),
}

impl Part {
    /// Opens the output for `target`, with the bytes of an earlier download if `keep`.
    pub(crate) fn open(target: &Path, keep: bool) -> Result<Self, NetError> {
        let mut target = target.to_owned();
        let output = if target == Path::new(STANDARD_OUTPUT) {
            let out = io::stdout().as_fd().try_clone_to_owned();
            let out = out.and_then(|out| StreamOutput::new(out.into()));
            Output::Stream(out.map_err(|reason| NetError::file(&target, reason))?)
        } else {
            // A link is kept, and the file that it points to is replaced.
            if target.is_symlink() {
                target = fs::canonicalize(&target).unwrap_or(target);
            }
            Output::open(&target)?
        };
        let mut part = Self { output, target, hasher: blake3::Hasher::new(), len: 0 };
        if keep { part.read_back() } else { part.restart() }.map_err(|reason| part.error(reason))?;
        Ok(part)
    }

    /// The path of the complete file.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Whether a later download can resume from this one.
    pub(crate) fn is_resumable(&self) -> bool {
        matches!(self.output, Output::Part { .. })
    }

    fn error(&self, reason: io::Error) -> NetError {
        match &self.output {
            Output::Part { path, .. } => NetError::file(path, reason),
            Output::Stream(_) => NetError::File(self.target.clone(), reason),
        }
    }

    /// Hashes the bytes in the part file.
    fn read_back(&mut self) -> io::Result<()> {
        let Output::Part { file, .. } = &mut self.output else { return Ok(()) };
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
        if let Output::Part { file, .. } = &mut self.output {
            file.set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
        }
        self.hasher.reset();
        self.len = 0;
        Ok(())
    }

    /// Discards the bytes received so far.
    pub(crate) fn clear(&mut self) -> Result<(), NetError> {
        self.restart().map_err(|reason| self.error(reason))
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), NetError> {
        match &mut self.output {
            Output::Part { file, .. } => file.write_all(bytes),
            Output::Stream(stream) => stream.append(bytes),
        }
        .map_err(|reason| self.error(reason))?;
        self.hasher.update(bytes);
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Whether no more bytes should be appended now: their reader pauses. If so, `alarm` rings when it goes on.
    pub(crate) fn is_full(&self, alarm: &Alarm) -> bool {
        matches!(&self.output, Output::Stream(stream) if stream.is_full(alarm))
    }

    /// Whether bytes were appended and are not written. If so, `alarm` rings when they may be.
    pub(crate) fn is_writing(&self, alarm: &Alarm) -> bool {
        matches!(&self.output, Output::Stream(stream) if stream.is_writing(alarm))
    }

    /// The hash of the bytes received so far.
    pub(crate) fn hash(&self) -> Hash {
        *self.hasher.finalize().as_bytes()
    }

    /// Renames the file, last changed at `modified`, to its target, after it was written to the disk; the new name is on
    /// the disk, too. A file that belongs to another user keeps the present time.
    pub(crate) fn complete(self, modified: Modified) -> Result<PathBuf, NetError> {
        if let Output::Stream(stream) = &self.output {
            stream.check().map_err(|reason| self.error(reason))?;
        }
        if let Output::Part { file, path } = &self.output {
            let directory = self.target.parent().filter(|parent| !parent.as_os_str().is_empty());
            let _ = set_time(file, modified);
            let done = file
                .sync_all()
                .and_then(|()| fs::rename(path, &self.target))
                .and_then(|()| File::open(directory.unwrap_or(Path::new(".")))?.sync_all());
            done.map_err(|reason| NetError::file(&self.target, reason))?;
        }
        Ok(self.target)
    }

    /// Deletes the part file.
    pub(crate) fn discard(self) {
        if let Output::Part { path, .. } = &self.output {
            // An error is ignored: the next download finds that the part does not match.
            let _ = fs::remove_file(path);
        }
    }

    /// Deletes the part file if it is empty.
    pub(crate) fn close(self) {
        if self.len == 0 {
            self.discard();
        }
    }
}

impl Output {
    fn open(target: &Path) -> Result<Self, NetError> {
        let error = |reason| NetError::file(target, reason);
        match fs::metadata(target) {
            // Renaming over the file needs no write permission for it, but a file without that permission is not to be
            // replaced.
            Ok(found) if found.is_file() => OpenOptions::new().write(true).open(target).map(drop).map_err(error)?,
            Ok(_) => {
                let opened = OpenOptions::new().write(true).open(target).and_then(StreamOutput::new);
                return opened.map(Self::Stream).map_err(error);
            }
            Err(_) => {}
        }
        let mut name = target.as_os_str().to_owned();
        name.push(".part");
        let path = PathBuf::from(name);
        // Another user with access to the directory could have put a link to one of this user's files here.
        let mut how = OpenOptions::new();
        how.read(true).write(true).create(true).truncate(false).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        match open_locked(AT_FDCWD, &path, || how.open(&path)) {
            Ok(file) => Ok(Self::Part { file, path }),
            Err(reason) if reason.kind() == io::ErrorKind::WouldBlock => Err(NetError::PartInUse(path)),
            // If there is no part, its name is not known to the user.
            Err(reason) => Err(NetError::file(if path.symlink_metadata().is_ok() { &path } else { target }, reason)),
        }
    }
}
