//! A file under a lock: the part of a download, a history. Renaming another file over it takes no lock, so a file counts
//! as locked only if its name still leads to it.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::fcntl::{Flock, FlockArg};

/// What to do about a file that another process has locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfLocked {
    /// Waits until it is free.
    Wait,
    /// Returns an error of the kind [`io::ErrorKind::WouldBlock`].
    Fail,
}

/// Opens the file at `path` with `open` and locks it, for as long as the result is kept.
pub fn open_locked(
    path: &Path,
    if_locked: IfLocked,
    mut open: impl FnMut() -> io::Result<File>,
) -> io::Result<Flock<File>> {
    let how = match if_locked {
        IfLocked::Wait => FlockArg::LockExclusive,
        IfLocked::Fail => FlockArg::LockExclusiveNonblock,
    };
    loop {
        let file = Flock::lock(open()?, how).map_err(|(_, error)| io::Error::from(error))?;
        let opened = file.metadata()?;
        let is_there = std::fs::symlink_metadata(path)
            .is_ok_and(|found| (found.dev(), found.ino()) == (opened.dev(), opened.ino()));
        if is_there {
            return Ok(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::path::PathBuf;

    use super::*;

    fn open(path: &Path) -> io::Result<File> {
        File::options().write(true).create(true).truncate(false).open(path)
    }

    /// Opens a part with `open`, writes to it, and returns what is then in the complete file and in the part.
    fn write_part(mut open: impl FnMut(&Path, &Path) -> io::Result<File>) -> [Vec<u8>; 2] {
        let place = tempfile::tempdir().unwrap();
        let [part, complete]: [PathBuf; 2] = ["f.part", "f"].map(|name| place.path().join(name));
        let mut file = open_locked(&part, IfLocked::Fail, || open(&part, &complete)).unwrap();
        file.write_all(b"second").unwrap();
        [complete, part].map(|path| fs::read(path).unwrap_or_default())
    }

    #[test]
    fn a_part_that_another_transfer_completed_is_not_reused() {
        let mut races = 3;
        let written = write_part(|part, complete| {
            let file = open(part)?;
            if races > 0 {
                races -= 1;
                fs::write(part, b"first").unwrap();
                fs::rename(part, complete).unwrap();
            }
            Ok(file)
        });
        assert_eq!(written, [b"first".to_vec(), b"second".to_vec()]);
        assert_eq!(races, 0);
    }

    #[test]
    fn a_part_that_another_transfer_replaced_is_not_reused() {
        let mut is_first = true;
        let written = write_part(|part, complete| {
            let file = open(part)?;
            if std::mem::take(&mut is_first) {
                fs::write(part, b"first").unwrap();
                fs::rename(part, complete).unwrap();
                drop(open(part)?); // a third transfer has begun
            }
            Ok(file)
        });
        assert_eq!(written, [b"first".to_vec(), b"second".to_vec()]);
    }

    #[test]
    fn a_locked_file_is_refused_until_it_is_free() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("f");
        let lock = || open_locked(&path, IfLocked::Fail, || open(&path));
        let first = lock().unwrap();
        assert_eq!(lock().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(first);
        lock().unwrap();
    }
}
