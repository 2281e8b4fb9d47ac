//! What lanes do with files, in the threads of the pool.

use std::sync::Arc;

use super::super::directory::Directory;
use super::super::hashes::Hashes;
use super::super::protocol::{Answer, Modified, Refusal};
use super::super::sink::Sink;
use super::super::source::{PIECE, Source};
use super::super::walk::Walk;

/// Bytes that one job hashes: a few milliseconds of work.
pub(super) const HASHED_A_JOB: u64 = 32 * PIECE as u64;

/// Bytes of a list that one job makes.
const LISTED_A_JOB: usize = 64 * 1024;

/// The result of a job.
#[derive(Debug)]
pub(crate) enum Outcome {
    Refused(Refusal),
    Opened(Source, Vec<u8>),
    Read(Source, Vec<u8>),
    ReadFailed,
    Listed(Listing, Vec<u8>),
    /// A part file is open.
    PartOpened(Sink),
    /// More of its bytes were hashed.
    PartHashed(Sink),
    /// Bytes were written to it.
    Written(Sink),
    /// The upload failed; the part file remains, or not. So many bytes of the upload are not in the directory.
    Failed(Refusal, u64),
    /// So many bytes are no longer in the directory.
    Done(u64),
}

/// Opens a file of which a client has a part.
pub(super) fn open(directory: &Directory, hashes: &Arc<Hashes>, name: &str) -> Outcome {
    match directory.file(name) {
        Ok((file, metadata)) => Outcome::Opened(Source::of_part(file, &metadata, hashes), Vec::new()),
        Err(reason) => Outcome::Refused(reason),
    }
}

pub(super) fn open_and_read(directory: &Directory, hashes: &Arc<Hashes>, name: &str, mut buffer: Vec<u8>) -> Outcome {
    match directory.file(name) {
        Ok((file, metadata)) => {
            let mut source = Source::of_whole(file, &metadata, hashes);
            match source.read(&mut buffer) {
                Ok(()) => Outcome::Opened(source, buffer),
                Err(_) => Outcome::Refused(Refusal::Unreadable),
            }
        }
        Err(reason) => Outcome::Refused(reason),
    }
}

pub(super) fn open_of_size(directory: &Directory, hashes: &Arc<Hashes>, name: &str, size: u64) -> Outcome {
    match directory.file(name) {
        Ok((_, metadata)) if metadata.len() != size => Outcome::Refused(Refusal::Changed),
        Ok((file, metadata)) => Outcome::Opened(Source::of_whole(file, &metadata, hashes), Vec::new()),
        Err(reason) => Outcome::Refused(reason),
    }
}

pub(super) fn read(mut source: Source, mut buffer: Vec<u8>) -> Outcome {
    match source.read(&mut buffer) {
        Ok(()) => Outcome::Read(source, buffer),
        Err(_) => Outcome::ReadFailed,
    }
}

/// Hashes the next bytes, up to `until`.
pub(super) fn hash(mut source: Source, until: u64, mut buffer: Vec<u8>) -> Outcome {
    let end = source.at.saturating_add(HASHED_A_JOB).min(until).min(source.size);
    loop {
        // At least once, since an empty file ends, too.
        if source.read_until(end, &mut buffer).is_err() {
            return Outcome::ReadFailed;
        }
        if source.at >= end {
            return Outcome::Read(source, buffer);
        }
    }
}

/// A list that is being made.
#[derive(Debug)]
pub(crate) struct Listing {
    walk: Walk,
    is_complete: bool,
}

impl Listing {
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// The files, and those that cannot be served.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.walk.files, self.walk.skipped)
    }
}

pub(super) fn begin_list(directory: Arc<Directory>, name: &str) -> Outcome {
    match Walk::new(directory, name) {
        Ok(walk) => list(Listing { walk, is_complete: false }),
        Err(error) => Outcome::Refused(match error.raw_os_error() {
            Some(libc::ENOENT) => Refusal::NoSuchFile,
            Some(libc::ENOTDIR) => Refusal::NotADirectory,
            Some(libc::EXDEV | libc::ELOOP | libc::ENAMETOOLONG) => Refusal::BadName,
            _ => Refusal::Unreadable,
        }),
    }
}

pub(super) fn list(mut listing: Listing) -> Outcome {
    let mut bytes = Vec::new();
    while bytes.len() < LISTED_A_JOB {
        match listing.walk.next() {
            Ok(Some(entry)) => {
                let (size, modified) = (entry.state.size, entry.state.modified);
                Answer::Entry { name: entry.name, size, modified }.encode(&mut bytes);
            }
            Ok(None) => {
                listing.is_complete = true;
                break;
            }
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => return Outcome::Refused(Refusal::TooMany),
            Err(_) => return Outcome::Refused(Refusal::Unreadable),
        }
    }
    Outcome::Listed(listing, bytes)
}

pub(super) fn delete(directory: &Directory, name: &str) -> Outcome {
    match directory.delete(name) {
        Ok(bytes) => Outcome::Done(bytes),
        Err(error) => Outcome::Refused(write_refusal(&error)),
    }
}

pub(super) fn set_modified(directory: &Directory, name: &str, modified: Modified) -> Outcome {
    match directory.set_modified(name, modified) {
        Ok(()) => Outcome::Done(0),
        Err(error) => Outcome::Refused(write_refusal(&error)),
    }
}

pub(super) fn sync(directory: &Directory) -> Outcome {
    match directory.sync() {
        Ok(()) => Outcome::Done(0),
        Err(error) => Outcome::Refused(write_refusal(&error)),
    }
}

/// The refusal for an error of a change.
pub(super) fn write_refusal(error: &std::io::Error) -> Refusal {
    match error.raw_os_error() {
        Some(libc::ENOENT) => Refusal::NoSuchFile,
        Some(libc::EISDIR) => Refusal::NotAFile,
        Some(libc::ENOTDIR) => Refusal::NotADirectory,
        Some(libc::EXDEV | libc::ELOOP | libc::ENAMETOOLONG) => Refusal::BadName,
        Some(libc::EEXIST) => Refusal::Exists,
        Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => Refusal::DiskFull,
        Some(libc::EWOULDBLOCK) => Refusal::InUse,
        _ if error.kind() == std::io::ErrorKind::AlreadyExists => Refusal::Exists,
        _ if error.kind() == std::io::ErrorKind::NotFound => Refusal::NoSuchFile,
        _ => Refusal::Unwritable,
    }
}
