//! A file that is being read and sent: its bytes are hashed as they are read.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;

use super::protocol::{Hash, Modified};

/// The bytes that are read and hashed at once: some tens of microseconds of work.
pub(crate) const PIECE: usize = 128 * 1024;

/// A file that is being read.
#[derive(Debug)]
pub(crate) struct Source {
    file: File,
    /// The size and the modification time when the file was opened.
    pub(crate) size: u64,
    pub(crate) modified: Modified,
    /// The number of bytes read.
    pub(crate) at: u64,
    /// Whether the file still had its size and its time after the last byte was read.
    pub(crate) was_unchanged: bool,
    hasher: Box<blake3::Hasher>,
}

fn modified(metadata: &Metadata) -> Modified {
    Modified { seconds: metadata.mtime(), nanos: metadata.mtime_nsec() as u32 }
}

impl Source {
    pub(crate) fn new(file: File, metadata: &Metadata) -> Self {
        let (size, modified) = (metadata.len(), modified(metadata));
        Self { file, size, modified, at: 0, was_unchanged: false, hasher: Box::default() }
    }

    /// Reads and hashes the next piece into `buffer`, whose old contents are lost.
    pub(crate) fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<()> {
        self.read_until(self.size, buffer)
    }

    /// The same, but nothing from `end` on.
    pub(crate) fn read_until(&mut self, end: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
        let rest = usize::try_from(end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        buffer.resize(rest.min(PIECE), 0);
        self.file.read_exact(buffer)?;
        self.hasher.update(buffer);
        self.at += buffer.len() as u64;
        if self.is_at_end() {
            let now = self.file.metadata()?;
            self.was_unchanged = (now.len(), modified(&now)) == (self.size, self.modified);
        }
        Ok(())
    }

    pub(crate) fn rewind(&mut self) -> io::Result<()> {
        self.hasher.reset();
        self.at = 0;
        self.file.seek(SeekFrom::Start(0)).map(|_| ())
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.size
    }

    /// The hash of the bytes read so far.
    pub(crate) fn hash(&self) -> Hash {
        *self.hasher.finalize().as_bytes()
    }
}
