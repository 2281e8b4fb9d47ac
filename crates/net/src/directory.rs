//! Opens regular files below one directory, and no others.
//!
//! The kernel resolves the name (`openat2` with `RESOLVE_BENEATH`, Linux 5.6), so `..`, absolute names and links out of
//! the directory fail there, without a race between check and open.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::Mode;

/// The maximum length of a file's name in bytes.
pub const MAX_NAME: usize = 1024;

/// Why a file is not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unopened {
    /// The name leads out of the directory, or is not a valid name.
    BadName,
    /// The file does not exist.
    NoSuchFile,
    /// It is not a regular file.
    NotAFile,
    /// It cannot be read.
    Unreadable,
}

/// A directory whose files are served.
#[derive(Debug)]
pub struct Directory {
    directory: OwnedFd,
    /// Whether hidden files are served, too: those with a part of their name that begins with a dot.
    hidden: bool,
}

impl Directory {
    /// Opens the directory at `path`, with its hidden files if `hidden`.
    pub fn open(path: &Path, hidden: bool) -> io::Result<Self> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(Self { directory: open(path, flags, Mode::empty())?, hidden })
    }

    /// Opens the file called `name`.
    pub fn file(&self, name: &str) -> Result<(File, Metadata), Unopened> {
        check_name(name).map_err(|_| Unopened::BadName)?;
        if !self.hidden && name.split('/').any(|part| part.starts_with('.')) {
            return Err(Unopened::NoSuchFile);
        }
        // Opening a pipe would block, and a terminal could become the controlling terminal.
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        let file =
            openat2(&self.directory, name, OpenHow::new().flags(flags).resolve(resolve)).map_err(
                |error| match error {
                    Errno::EXDEV | Errno::ELOOP | Errno::ENAMETOOLONG => Unopened::BadName,
                    Errno::ENOENT | Errno::ENOTDIR => Unopened::NoSuchFile,
                    Errno::ENXIO => Unopened::NotAFile,
                    _ => Unopened::Unreadable,
                },
            )?;
        let file = File::from(file);
        let metadata = file.metadata().map_err(|_| Unopened::Unreadable)?;
        if metadata.is_file() { Ok((file, metadata)) } else { Err(Unopened::NotAFile) }
    }
}

/// Refuses a name that is not a path below a directory, with the reason.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("it is empty");
    }
    if name.len() > MAX_NAME {
        return Err("it is longer than 1024 bytes");
    }
    // Some terminals obey those of 8 bits, too.
    if name.chars().any(char::is_control) {
        return Err("it has control characters");
    }
    if name.starts_with('/') {
        return Err("it starts with `/`: write a path below the served directory");
    }
    if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err("it has an empty part, `.` or `..`: write a path below the served directory");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_regular_files_below_the_directory_open() {
        let outside = tempfile::tempdir().unwrap();
        let inside = outside.path().join("served");
        std::fs::create_dir_all(inside.join("sub")).unwrap();
        std::fs::write(outside.path().join("secret"), "s").unwrap();
        std::fs::write(inside.join("sub/file"), "f").unwrap();
        symlink("../secret", inside.join("out")).unwrap();
        symlink(outside.path().join("secret"), inside.join("absolute")).unwrap();
        symlink("..", inside.join("up")).unwrap();
        symlink("sub/file", inside.join("within")).unwrap();
        symlink("loop", inside.join("loop")).unwrap();
        nix::unistd::mkfifo(&inside.join("pipe"), Mode::S_IRWXU).unwrap();

        let directory = Directory::open(&inside, false).unwrap();
        let refused = |name: &str| directory.file(name).unwrap_err();
        for name in ["../secret", "/etc/passwd", "out", "absolute", "up/secret", "sub/../../secret", "loop", ""] {
            assert_eq!(refused(name), Unopened::BadName, "{name}");
        }
        for name in ["none", "sub/file/x"] {
            assert_eq!(refused(name), Unopened::NoSuchFile, "{name}");
        }
        for name in ["sub", "pipe"] {
            assert_eq!(refused(name), Unopened::NotAFile, "{name}");
        }
        for name in ["sub/file", "within"] {
            assert!(directory.file(name).is_ok(), "{name}");
        }
        assert!(Directory::open(&outside.path().join("secret"), false).is_err());
    }

    #[test]
    fn hidden_files_open_only_if_asked_for() {
        let inside = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(inside.path().join(".ssh")).unwrap();
        for name in [".env", ".ssh/id"] {
            std::fs::write(inside.path().join(name), "s").unwrap();
            let open = |hidden| Directory::open(inside.path(), hidden).unwrap().file(name).map(drop);
            assert_eq!((open(false), open(true)), (Err(Unopened::NoSuchFile), Ok(())), "{name}");
        }
    }
}
