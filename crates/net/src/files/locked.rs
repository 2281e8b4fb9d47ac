//! A file that grows under a lock and then gets another name: the part of a transfer.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::fcntl::{AtFlags, Flock, FlockArg};
use nix::sys::stat::fstatat;

/// Opens a regular file with `open` and locks it, for as long as the result is kept. Its name is `name` in `directory`.
/// An error of the kind [`io::ErrorKind::WouldBlock`] if another transfer has locked it.
pub(super) fn open_locked(
    directory: impl AsFd,
    name: &Path,
    mut open: impl FnMut() -> io::Result<File>,
) -> io::Result<Flock<File>> {
    loop {
        let file = open()?;
        let opened = file.metadata()?;
        if !opened.is_file() {
            return Err(io::Error::other("is not a regular file"));
        }
        let file = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| io::Error::from(error))?;
        // Between opening and locking, another transfer may have completed it and given it its last name: its bytes
        // must stay as they are.
        let is_there = fstatat(&directory, name, AtFlags::AT_SYMLINK_NOFOLLOW)
            .is_ok_and(|found| (found.st_dev, found.st_ino) == (opened.dev(), opened.ino()));
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
        let directory = File::open(place.path()).unwrap();
        let mut file = open_locked(&directory, Path::new("f.part"), || open(&part, &complete)).unwrap();
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
    fn a_locked_part_belongs_to_another_transfer() {
        let place = tempfile::tempdir().unwrap();
        let (path, directory) = (place.path().join("f.part"), File::open(place.path()).unwrap());
        let lock = || open_locked(&directory, Path::new("f.part"), || open(&path));
        let first = lock().unwrap();
        assert_eq!(lock().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(first);
        lock().unwrap();
    }
}
