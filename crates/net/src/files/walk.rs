//! All regular files below a directory, one after the other.
//!
//! Links are not followed and not returned. A directory that this process may not read is returned itself, so that it
//! fails as a file does that cannot be read: its files must not count as deleted.
//!
//! A walk has at most two descriptors for each level, and no names of files beyond the current one, so that the size of a
//! directory costs no memory.

use std::io;
use std::os::fd::OwnedFd;

use nix::dir::{Dir, OwningIter};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{SFlag, fstatat};

use super::changes::{FileState, is_regular};
use super::directory::{Directory, PART_SUFFIX};
use super::protocol::{MAX_NAME, Modified, check_name};

/// The maximum number of levels.
const MAX_DEPTH: usize = 64;

/// The maximum number of files.
pub(crate) const MAX_FILES: u64 = 1_000_000;

/// A file, or a directory that cannot be read; its name is relative to the walk's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) state: FileState,
}

/// A walk through a directory.
pub(crate) struct Walk {
    levels: Vec<Level>,
    directory: std::sync::Arc<Directory>,
    /// Whether part files are returned, too.
    pub(crate) with_parts: bool,
    pub(crate) files: u64,
    /// Links, devices and files whose names this protocol cannot carry.
    pub(crate) skipped: u64,
}

struct Level {
    /// The level's name, with a `/` at the end unless it is the first.
    prefix: String,
    entries: OwningIter,
    directory: OwnedFd,
}

impl std::fmt::Debug for Walk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Walk").field("files", &self.files).field("levels", &self.levels.len()).finish_non_exhaustive()
    }
}

fn open_level(above: &OwnedFd, name: &str, prefix: String) -> Result<Level, Errno> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS;
    let directory = openat2(above, name, OpenHow::new().flags(flags).resolve(resolve))?;
    let entries = Dir::from_fd(directory.try_clone().map_err(|_| Errno::EMFILE)?)?.into_iter();
    Ok(Level { prefix, entries, directory })
}

impl Walk {
    /// A walk through the directory called `name`, whose name must have been checked; an empty name is the directory
    /// itself.
    pub(crate) fn new(directory: std::sync::Arc<Directory>, name: &str) -> io::Result<Self> {
        let start = if name.is_empty() { "." } else { name };
        let first = open_level(&directory.directory, start, String::new())?;
        Ok(Self { levels: vec![first], directory, with_parts: false, files: 0, skipped: 0 })
    }

    /// The next file. An error if there are too many or the directory is too deep ([`io::ErrorKind::InvalidData`]), or
    /// if it cannot be read.
    pub(crate) fn next(&mut self) -> io::Result<Option<Entry>> {
        loop {
            let depth = self.levels.len();
            let Some(level) = self.levels.last_mut() else { return Ok(None) };
            let Some(found) = level.entries.next() else {
                self.levels.pop();
                continue;
            };
            let found = found?;
            let Ok(base) = found.file_name().to_str() else {
                self.skipped += 1;
                continue;
            };
            let is_wanted = self.directory.shows(base) || self.with_parts && base.ends_with(PART_SUFFIX);
            if matches!(base, "." | "..") || !is_wanted {
                continue;
            }
            let state = match fstatat(&level.directory, base, AtFlags::AT_SYMLINK_NOFOLLOW) {
                Ok(state) => state,
                Err(Errno::ENOENT) => continue, // deleted in the meantime
                Err(error) => return Err(error.into()),
            };
            let name = format!("{}{base}", level.prefix);
            if check_name(&name).is_err() {
                self.skipped += 1;
            } else if is_regular(&state) {
                self.files += 1;
                if self.files > MAX_FILES {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                return Ok(Some(Entry { name, state: FileState::new(&state) }));
            } else if state.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFDIR.bits() {
                if depth >= MAX_DEPTH || name.len() >= MAX_NAME {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                match open_level(&level.directory, base, format!("{name}/")) {
                    Ok(level) => self.levels.push(level),
                    // Deleted, or replaced by a link or a file.
                    Err(Errno::ENOENT | Errno::ELOOP | Errno::ENOTDIR | Errno::EXDEV) => self.skipped += 1,
                    Err(_) => {
                        self.files += 1;
                        let state = FileState { size: 0, modified: Modified::default() };
                        return Ok(Some(Entry { name, state }));
                    }
                }
            } else {
                self.skipped += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::Arc;

    use super::*;

    fn names(walk: &mut Walk) -> Vec<String> {
        let mut names: Vec<_> = std::iter::from_fn(|| walk.next().unwrap()).map(|entry| entry.name).collect();
        names.sort();
        names
    }

    #[test]
    fn a_walk_returns_visible_regular_files_only() {
        let place = tempfile::tempdir().unwrap();
        let inside = place.path().join("in");
        std::fs::create_dir_all(inside.join("a/b")).unwrap();
        std::fs::create_dir_all(inside.join(".git")).unwrap();
        for name in ["f", "a/g", "a/b/h", ".git/config", "a/.env", ".f.part"] {
            std::fs::write(inside.join(name), name).unwrap();
        }
        symlink("f", inside.join("link")).unwrap();
        symlink("..", inside.join("up")).unwrap();
        symlink("a", inside.join("a2")).unwrap();
        let at = |hidden| Arc::new(Directory::open(&inside, hidden).unwrap());
        let mut walk = Walk::new(at(false), "").unwrap();
        assert_eq!(names(&mut walk), ["a/b/h", "a/g", "f"]);
        assert_eq!((walk.files, walk.skipped), (3, 3));
        assert_eq!(names(&mut Walk::new(at(true), "").unwrap()), [".git/config", "a/.env", "a/b/h", "a/g", "f"]);
        assert_eq!(names(&mut Walk::new(at(false), "a").unwrap()), ["b/h", "g"]);
        for name in ["up", "a2", "f", "none"] {
            assert!(Walk::new(at(false), name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_directory_that_cannot_be_read_is_returned() {
        let place = tempfile::tempdir().unwrap();
        std::fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
        for name in ["open", "closed"] {
            std::fs::create_dir(place.path().join(name)).unwrap();
            std::fs::write(place.path().join(name).join("f"), name).unwrap();
        }
        std::fs::set_permissions(place.path().join("closed"), Permissions::from_mode(0o000)).unwrap();
        let walk = || {
            let mut walk = Walk::new(Arc::new(Directory::open(place.path(), false).unwrap()), "").unwrap();
            (names(&mut walk), walk.files, walk.skipped)
        };
        let (found, files, skipped) = std::thread::scope(|scope| {
            let as_nobody = || {
                // SAFETY: it changes the user of this thread only, for files; root loses its permission to read all.
                unsafe { libc::setfsuid(65534) };
                walk()
            };
            scope.spawn(as_nobody).join().unwrap()
        });
        assert_eq!((found, files, skipped), (vec!["closed".to_owned(), "open/f".to_owned()], 2, 0));
        std::fs::set_permissions(place.path().join("closed"), Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn a_walk_ends_in_a_directory_that_is_too_deep() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(place.path().join("d/".repeat(70))).unwrap();
        let mut walk = Walk::new(Arc::new(Directory::open(place.path(), false).unwrap()), "").unwrap();
        assert_eq!(walk.next().unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
