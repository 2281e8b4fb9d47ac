//! The output of a download: `NAME.part`, locked while it grows, or a device, a pipe or standard output, from which no
//! later download can resume. The bytes are hashed as they are written.
//!
//! Another user may write to the directory. So no symbolic link is followed, a part file is made anew or is one that this
//! user made, and the complete file gets its name by a rename, which follows nothing.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::fcntl::Flock;
use rampmeter_net::{IfLocked, open_locked};

use super::error::NetError;

/// The name of standard output. A file of this name is `./-`.
pub const STANDARD_OUTPUT: &str = "-";

/// The bits of a mode that a complete file keeps: what the server sent is not to run as another user.
const PERMISSIONS: u32 = 0o777;

/// The output of a download in progress.
#[derive(Debug)]
pub(crate) struct Part {
    output: Output,
    /// The path of the complete file.
    target: PathBuf,
    hasher: Box<blake3::Hasher>,
    /// The number of bytes received.
    pub(crate) len: u64,
}

impl Drop for Part {
    /// An empty part file is deleted.
    fn drop(&mut self) {
        if self.len == 0 {
            self.delete();
        }
    }
}

/// Where the bytes are written.
#[derive(Debug)]
enum Output {
    /// A part file, which is renamed once it is complete.
    Part { file: Flock<File>, path: PathBuf },
    /// A device, a pipe or standard output.
    Stream(File),
}

/// The path of the part file of `target`.
pub(crate) fn part_path(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

impl Part {
    /// Opens the output for `target`, with the bytes of an earlier download if `keep`.
    pub(crate) fn open(target: &Path, keep: bool) -> Result<Self, NetError> {
        let output = if target == Path::new(STANDARD_OUTPUT) {
            let out = io::stdout().as_fd().try_clone_to_owned();
            Output::Stream(out.map_err(|reason| NetError::file(target, reason))?.into())
        } else {
            Output::open(target)?
        };
        let mut part = Self { output, target: target.to_owned(), hasher: Box::default(), len: 0 };
        if keep { part.read_back() } else { part.restart() }.map_err(|reason| part.error(reason))?;
        Ok(part)
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
            Output::Stream(file) => file.write_all(bytes),
        }
        .map_err(|reason| self.error(reason))?;
        self.hasher.update(bytes);
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// The hash of the bytes received so far.
    pub(crate) fn hash(&self) -> String {
        self.hasher.finalize().to_string()
    }

    /// Gives the file its time, the permissions of the file that it replaces, and its name, after it was written to the
    /// disk; the new name is on the disk, too.
    pub(crate) fn complete(self, modified: Option<SystemTime>) -> Result<(), NetError> {
        if let Output::Part { file, path } = &self.output {
            let directory = self.target.parent().filter(|parent| !parent.as_os_str().is_empty());
            let complete = || {
                // A file system that refuses the time gives the file the present one.
                let _ = modified.map(|modified| file.set_modified(modified));
                if let Ok(replaced) = fs::symlink_metadata(&self.target)
                    && replaced.is_file()
                {
                    file.set_permissions(Permissions::from_mode(replaced.mode() & PERMISSIONS))?;
                }
                file.sync_all()?;
                fs::rename(path, &self.target)?;
                File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
            };
            complete().map_err(|reason| NetError::file(&self.target, reason))?;
        }
        Ok(())
    }

    /// Deletes the part file.
    pub(crate) fn discard(mut self) {
        self.len = 0;
    }

    fn delete(&self) {
        if let Output::Part { path, .. } = &self.output {
            // An error is ignored: the next download finds that the part does not match.
            let _ = fs::remove_file(path);
        }
    }
}

impl Output {
    fn open(target: &Path) -> Result<Self, NetError> {
        let error = |reason| NetError::file(target, reason);
        let mut open_target = OpenOptions::new();
        open_target.write(true).custom_flags(libc::O_NOFOLLOW);
        let mode = match fs::symlink_metadata(target) {
            Ok(found) if found.is_symlink() => {
                return Err(NetError::NotOwnFile(target.to_owned(), "is a symbolic link, which is not followed"));
            }
            // Renaming over the file needs no write permission for it, but a file without that permission is not to be
            // replaced. Until it is complete, the new one is for its owner only.
            Ok(found) if found.is_file() => {
                open_target.open(target).map_err(error)?;
                0o600
            }
            Ok(_) => return open_target.open(target).map(Self::Stream).map_err(error),
            Err(_) => 0o666,
        };
        let path = part_path(target);
        match open_locked(&path, IfLocked::Fail, || open_part(&path, mode)) {
            Ok(file) => Ok(Self::Part { file, path }),
            Err(reason) if reason.kind() == io::ErrorKind::WouldBlock => Err(NetError::PartInUse(path)),
            Err(reason) => Err(match reason.downcast::<NotOwnPart>() {
                Ok(NotOwnPart(problem)) => NetError::NotOwnFile(path, problem),
                // If there is no part, its name is not known to the user.
                Err(reason) => NetError::file(if path.symlink_metadata().is_ok() { &path } else { target }, reason),
            }),
        }
    }
}

/// What is at the path of a part file is not a part file of this user.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NotOwnPart(&'static str);

/// Makes a part file with this mode, or opens that of an earlier download.
fn open_part(path: &Path, mode: u32) -> io::Result<File> {
    let mut make = OpenOptions::new();
    make.read(true).write(true).create_new(true).mode(mode).custom_flags(libc::O_NOFOLLOW);
    let mut reopen = OpenOptions::new();
    reopen.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    loop {
        match make.open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made,
        }
        let file = match reopen.open(path) {
            // Another download has completed it in the meantime.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                return Err(io::Error::other(NotOwnPart("is a symbolic link, which is not followed")));
            }
            opened => opened?,
        };
        let found = file.metadata()?;
        let problem = match () {
            () if !found.is_file() => "is not a regular file",
            () if found.uid() != nix::unistd::geteuid().as_raw() => "belongs to another user",
            () if found.nlink() > 1 => "has another name, too (a hard link)",
            () => return Ok(file),
        };
        return Err(io::Error::other(NotOwnPart(problem)));
    }
}
