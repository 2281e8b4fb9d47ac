//! The lock of a run directory: one command at a time writes there.
//!
//! It is flock(2) on the file `lock`, which the system releases when the process ends, even if it is killed. The file says
//! which process has it.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::SystemTime;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::StudyError;

pub(super) const LOCK: &str = "lock";

/// A lock, until it is dropped; none on a file system that has no locks.
#[derive(Debug)]
pub(super) struct Lock(#[allow(dead_code, reason = "held")] Option<Flock<File>>);

impl Lock {
    /// Locks the directory at `path`, which exists.
    pub(super) fn new(path: &Path) -> Result<Self, StudyError> {
        let file = path.join(LOCK);
        let open = OpenOptions::new().write(true).create(true).truncate(false).open(&file);
        let open = open.map_err(|error| StudyError::file(&file, "written", &error))?;
        match Flock::lock(open, FlockArg::LockExclusiveNonblock) {
            Ok(mut locked) => {
                let write = locked.set_len(0).and_then(|()| locked.write_all(holder().as_bytes()));
                write.map_err(|error| StudyError::file(&file, "written", &error))?;
                Ok(Self(Some(locked)))
            }
            Err((_, Errno::EWOULDBLOCK)) => {
                let holder = fs::read_to_string(&file).unwrap_or_default();
                Err(StudyError::Locked { directory: path.to_owned(), holder: holder.trim().to_owned() })
            }
            Err(_) => Ok(Self(None)),
        }
    }
}

/// This process.
fn holder() -> String {
    let command: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let since = humantime::format_rfc3339_seconds(SystemTime::now());
    format!("process {} since {since} (`{}`)\n", std::process::id(), command.join(" "))
}
