//! A file that is being read and sent: its bytes are hashed as they are read.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{SystemTime, UNIX_EPOCH};

use rampmeter_net::Directory;

use crate::protocol::Refusal;

/// The bytes that are read and hashed at once: some tens of microseconds of work.
pub(super) const PIECE: usize = 256 * 1024;

/// A file that is being read.
#[derive(Debug)]
pub(super) struct Source {
    file: File,
    /// The size and the modification time when the file was opened.
    pub(super) size: u64,
    pub(super) modified: Option<SystemTime>,
    /// The number of bytes read.
    pub(super) at: u64,
    hasher: Box<blake3::Hasher>,
}

/// The time of modification, if that is after the beginning of time.
fn modified(metadata: &Metadata) -> Option<SystemTime> {
    metadata.modified().ok().filter(|time| *time >= UNIX_EPOCH)
}

impl Source {
    pub(super) fn open(directory: &Directory, name: &str) -> Result<Self, Refusal> {
        let (file, metadata) = directory.file(name)?;
        Ok(Self { file, size: metadata.len(), modified: modified(&metadata), at: 0, hasher: Box::default() })
    }

    /// Reads the next piece, nothing from `end` on, into `buffer`, whose old contents are lost.
    pub(super) fn read(&mut self, end: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
        buffer.resize(end.saturating_sub(self.at).min(PIECE as u64) as usize, 0);
        self.file.read_exact_at(buffer, self.at)?;
        self.hasher.update(buffer);
        self.at += buffer.len() as u64;
        Ok(())
    }

    /// Reads the file from its beginning, again.
    pub(super) fn rewind(&mut self) {
        self.hasher.reset();
        self.at = 0;
    }

    /// The hash of the bytes read so far.
    pub(super) fn hash(&self) -> String {
        self.hasher.finalize().to_string()
    }

    /// Whether the file still has the size and the time that it had at first.
    pub(super) fn is_unchanged(&self) -> bool {
        self.file.metadata().is_ok_and(|now| (now.len(), modified(&now)) == (self.size, self.modified))
    }
}
