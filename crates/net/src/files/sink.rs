//! A file below a directory that is being written: first as `.NAME.part`, locked, then renamed.
//!
//! A file has its name only when it is complete and its hash is right. A part that remains is where the next transfer of
//! the file goes on.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use nix::fcntl::{Flock, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::changes::{Place, set_time};
use super::directory::{Directory, PART_SUFFIX};
use super::locked::open_locked;
use super::protocol::{Hash, Modified};

/// The longest name of a file in Linux.
const MAX_BASE: usize = 255;

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct Sink {
    place: Place,
    part: String,
    file: Flock<File>,
    hasher: Box<blake3::Hasher>,
    /// The number of bytes written.
    pub(crate) len: u64,
    /// Of the bytes of an earlier transfer, those that are hashed.
    hashed: u64,
    /// The size that the file will have, if known.
    pub(crate) expected: u64,
}

/// The name of the part file of `base`.
fn part_name(base: &str) -> String {
    let name = format!(".{base}{PART_SUFFIX}");
    if name.len() <= MAX_BASE {
        return name;
    }
    format!(".{}{PART_SUFFIX}", blake3::hash(base.as_bytes()).to_hex())
}

impl Sink {
    /// The size of the part of an earlier transfer of `name`.
    pub(crate) fn part_len(directory: &Directory, name: &str) -> Option<u64> {
        let mut place = directory.place(name, false).ok()?;
        place.base = part_name(&place.base);
        place.state().ok()?.map(|state| state.size)
    }

    /// Opens the part file of `name`. Its bytes are kept until [`Sink::clear`], and not yet hashed. An error of the kind
    /// [`io::ErrorKind::WouldBlock`] if another transfer is writing it.
    pub(crate) fn open(directory: &Directory, name: &str) -> io::Result<Self> {
        let place = directory.place(name, true)?;
        let part = part_name(&place.base);
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS;
        let how = OpenHow::new().flags(flags).mode(Mode::from_bits_truncate(0o666)).resolve(resolve);
        let open = || Ok(File::from(openat2(&place.parent, part.as_str(), how)?));
        let file = open_locked(&place.parent, Path::new(&part), open)?;
        let len = file.metadata()?.len();
        Ok(Self { place, part, file, hasher: Box::default(), len, hashed: 0, expected: 0 })
    }

    /// Bytes of the expected size that were not written.
    pub(crate) fn missing(&self) -> u64 {
        self.expected.saturating_sub(self.len)
    }

    /// Bytes of an earlier transfer that are not hashed yet.
    pub(crate) fn unhashed(&self) -> u64 {
        self.len - self.hashed
    }

    /// Hashes up to `max` of the bytes of an earlier transfer.
    pub(crate) fn read_back(&mut self, max: u64) -> io::Result<()> {
        let mut buffer = vec![0; super::source::PIECE];
        let end = self.hashed.saturating_add(max).min(self.len);
        while self.hashed < end {
            let space = buffer.len().min(usize::try_from(end - self.hashed).unwrap_or(usize::MAX));
            let count = self.file.read(&mut buffer[..space])?;
            if count == 0 {
                self.len = self.hashed; // another program has made it shorter
                return Ok(());
            }
            self.hasher.update(&buffer[..count]);
            self.hashed += count as u64;
        }
        Ok(())
    }

    /// Discards the bytes written so far.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        if self.len > 0 {
            self.file.set_len(0)?;
            self.file.seek(SeekFrom::Start(0))?;
        }
        self.hasher.reset();
        (self.len, self.hashed) = (0, 0);
        Ok(())
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.hasher.update(bytes);
        self.len += bytes.len() as u64;
        self.hashed = self.len;
        Ok(())
    }

    pub(crate) fn hash(&self) -> Hash {
        *self.hasher.finalize().as_bytes()
    }

    /// The size of the file that has this name already.
    pub(crate) fn existing(&self) -> io::Result<Option<u64>> {
        Ok(self.place.state()?.map(|state| state.size))
    }

    /// Gives the file its name and its time. If it replaces a file, its bytes are on the disk before; otherwise they are
    /// after [`Directory::sync`].
    pub(crate) fn complete(self, modified: Modified, replace: bool) -> io::Result<()> {
        let exists = self.place.state()?.is_some();
        if exists && !replace {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        set_time(&self.file, modified)?;
        if exists {
            self.file.sync_all()?;
        }
        self.place.take(&self.part, replace)
    }

    /// Deletes the part file.
    pub(crate) fn discard(self) {
        // An error is ignored: the next transfer finds that the part does not match.
        let _ = unlinkat(&self.place.parent, self.part.as_str(), UnlinkatFlags::NoRemoveDir);
    }

    /// Deletes the part file if it is empty.
    pub(crate) fn close(self) {
        if self.len == 0 {
            self.discard();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_written_by_one_and_gets_its_name_when_complete() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::open(place.path(), false).unwrap();
        let modified = Modified { seconds: 1_000_000, nanos: 5 };
        let mut sink = Sink::open(&directory, "a/f").unwrap();
        assert_eq!(Sink::open(&directory, "a/f").unwrap_err().kind(), io::ErrorKind::WouldBlock);
        sink.append(b"abc").unwrap();
        drop(sink);
        assert_eq!(Sink::part_len(&directory, "a/f"), Some(3));
        let mut sink = Sink::open(&directory, "a/f").unwrap();
        sink.read_back(2).unwrap();
        assert_eq!((sink.unhashed(), sink.hash()), (1, *blake3::hash(b"ab").as_bytes()));
        sink.read_back(u64::MAX).unwrap();
        sink.append(b"def").unwrap();
        assert_eq!(sink.hash(), *blake3::hash(b"abcdef").as_bytes());
        sink.complete(modified, false).unwrap();
        assert_eq!(std::fs::read(place.path().join("a/f")).unwrap(), b"abcdef");
        assert_eq!(directory.state("a/f").unwrap().unwrap().modified, modified);
        assert_eq!(std::fs::read_dir(place.path().join("a")).unwrap().count(), 1, "no part is left");

        let sink = Sink::open(&directory, "a/f").unwrap();
        assert_eq!(sink.complete(modified, false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        let long = "n".repeat(255);
        let mut sink = Sink::open(&directory, &long).unwrap();
        sink.append(b"x").unwrap();
        sink.complete(modified, false).unwrap();
        assert_eq!(std::fs::read(place.path().join(long)).unwrap(), b"x");
    }
}
