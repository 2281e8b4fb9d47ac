//! Changes of the files below a directory: making, replacing, deleting.
//!
//! The kernel resolves all names below the directory (`openat2` with `RESOLVE_BENEATH`) and follows no link, not even
//! one that stays below it. Otherwise a user could put a link into a directory, and so choose which file a client of
//! the server changes.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, RenameFlags, ResolveFlag, openat2, renameat2};
use nix::sys::stat::{FileStat, Mode, SFlag, UtimensatFlags, fstatat, mkdirat, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::{LinkatFlags, UnlinkatFlags, linkat, unlinkat};

use super::directory::Directory;
use super::protocol::Modified;

/// What is known of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileState {
    pub(crate) size: u64,
    pub(crate) modified: Modified,
}

impl FileState {
    pub(crate) fn new(found: &FileStat) -> Self {
        let modified = Modified { seconds: found.st_mtime, nanos: found.st_mtime_nsec as u32 };
        Self { size: found.st_size as u64, modified }
    }
}

pub(crate) fn is_regular(found: &FileStat) -> bool {
    found.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFREG.bits()
}

/// The place of a file: its directory and its name there.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) parent: OwnedFd,
    pub(crate) base: String,
}

impl Directory {
    fn open_below(&self, name: &str) -> Result<OwnedFd, Errno> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS;
        openat2(&self.directory, name, OpenHow::new().flags(flags).resolve(resolve))
    }

    /// The place of the file called `name`, whose directories are made if `make`. The name must have been checked.
    pub(crate) fn place(&self, name: &str, make: bool) -> io::Result<Place> {
        let (above, base) = name.rsplit_once('/').unwrap_or((".", name));
        let parent = match self.open_below(above) {
            Err(Errno::ENOENT) if make => {
                let ends = above.match_indices('/').map(|(at, _)| at).chain([above.len()]);
                let mut parent = self.directory.try_clone()?;
                for end in ends {
                    let path = &above[..end];
                    let own = path.rsplit_once('/').map_or(path, |(_, own)| own);
                    match mkdirat(&parent, own, Mode::from_bits_truncate(0o777)) {
                        Ok(()) | Err(Errno::EEXIST) => parent = self.open_below(path)?,
                        Err(error) => return Err(error.into()),
                    }
                }
                parent
            }
            opened => opened?,
        };
        Ok(Place { parent, base: base.to_owned() })
    }

    /// The state of the file called `name`: `None` if there is none, an error if it is not a regular file.
    pub(crate) fn state(&self, name: &str) -> io::Result<Option<FileState>> {
        match self.place(name, false) {
            Ok(place) => place.state(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes a file, and directories above it that are empty then.
    pub(crate) fn delete(&self, name: &str) -> io::Result<u64> {
        let place = self.place(name, false)?;
        let state = place.state()?.ok_or(io::ErrorKind::NotFound)?;
        unlinkat(&place.parent, place.base.as_str(), UnlinkatFlags::NoRemoveDir)?;
        let mut above = name;
        while let Some((directory, _)) = above.rsplit_once('/') {
            let place = self.place(directory, false)?;
            if unlinkat(&place.parent, place.base.as_str(), UnlinkatFlags::RemoveDir).is_err() {
                break;
            }
            above = directory;
        }
        Ok(state.size)
    }

    /// Sets a file's time.
    pub(crate) fn set_modified(&self, name: &str, modified: Modified) -> io::Result<()> {
        let place = self.place(name, false)?;
        place.state()?.ok_or(io::ErrorKind::NotFound)?;
        let (access, time) = (TimeSpec::new(0, libc::UTIME_OMIT), time_spec(modified));
        Ok(utimensat(&place.parent, place.base.as_str(), &access, &time, UtimensatFlags::NoFollowSymlink)?)
    }

    /// Writes all changes of the file system to the disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(nix::unistd::syncfs(self.directory.as_fd())?)
    }
}

impl Place {
    /// The state of the file: `None` if there is none, an error if it is not a regular file.
    pub(crate) fn state(&self) -> io::Result<Option<FileState>> {
        match fstatat(&self.parent, self.base.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) if is_regular(&found) => Ok(Some(FileState::new(&found))),
            Ok(_) => Err(Errno::EISDIR.into()),
            Err(Errno::ENOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Renames the file `from` in this directory to its place. An error if there is a file already and not `replace`.
    pub(crate) fn take(&self, from: &str, replace: bool) -> io::Result<()> {
        let (parent, base) = (&self.parent, self.base.as_str());
        let flags = if replace { RenameFlags::empty() } else { RenameFlags::RENAME_NOREPLACE };
        match renameat2(parent, from, parent, base, flags) {
            // The file system does not know the flag: a link does not replace a file either.
            Err(Errno::EINVAL) if !replace => {
                linkat(parent, from, parent, base, LinkatFlags::AT_SYMLINK_NOFOLLOW)?;
                Ok(unlinkat(parent, from, UnlinkatFlags::NoRemoveDir)?)
            }
            renamed => Ok(renamed?),
        }
    }
}

pub(crate) fn time_spec(modified: Modified) -> TimeSpec {
    TimeSpec::new(modified.seconds, modified.nanos.into())
}

/// Sets the time of an open file.
pub(crate) fn set_time(file: &File, modified: Modified) -> io::Result<()> {
    let access = TimeSpec::new(0, libc::UTIME_OMIT);
    Ok(nix::sys::stat::futimens(file, &access, &time_spec(modified))?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn changes_follow_no_links_and_stay_below_the_directory() {
        let around = tempfile::tempdir().unwrap();
        let inside = around.path().join("served");
        std::fs::create_dir_all(inside.join("real")).unwrap();
        std::fs::write(around.path().join("outside"), "o").unwrap();
        std::fs::write(inside.join("real/file"), "f").unwrap();
        symlink("..", inside.join("up")).unwrap();
        symlink("real", inside.join("within")).unwrap();
        symlink("real/file", inside.join("link")).unwrap();
        let directory = Directory::open(&inside, false).unwrap();
        for name in ["up/outside", "within/file", "within/new/file"] {
            assert!(directory.place(name, true).is_err(), "{name}");
            assert!(directory.delete(name).is_err(), "{name}");
        }
        for name in ["link", "real"] {
            assert!(directory.delete(name).is_err() && directory.state(name).is_err(), "{name}");
            assert!(directory.set_modified(name, Modified::default()).is_err(), "{name}");
        }
        assert!(!around.path().join("served/real/new").exists());
        assert_eq!(std::fs::read(around.path().join("outside")).unwrap(), b"o");

        let place = directory.place("a/b/c/file", true).unwrap();
        std::fs::write(inside.join("a/b/c/part"), "new").unwrap();
        place.take("part", false).unwrap();
        std::fs::write(inside.join("a/b/c/part"), "newer").unwrap();
        assert!(place.take("part", false).is_err(), "there is a file");
        place.take("part", true).unwrap();
        assert_eq!(std::fs::read(inside.join("a/b/c/file")).unwrap(), b"newer");
        assert_eq!(directory.state("a/b/c/file").unwrap().unwrap().size, 5);
        assert_eq!(directory.delete("a/b/c/file").unwrap(), 5);
        assert!(!inside.join("a").exists(), "empty directories are deleted, too");
    }
}
