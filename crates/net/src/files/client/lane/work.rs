//! The work of a lane that reads or hashes files: jobs in other threads, and their results.

use std::io;

use super::super::output::{Output, Target};
use super::super::task::LocalFile;
use crate::files::error::NetError;
use crate::files::pool::{Class, Pool};
use crate::files::protocol::Hash;
use crate::files::source::{PIECE, Source};

/// Files up to this size are put without asking for a part of an earlier upload.
pub(super) const AT_ONCE: u64 = PIECE as u64;

/// The result of a job for a task.
#[derive(Debug)]
pub(in super::super) enum Work {
    /// The part of a file to get is open.
    Prepared(Result<Output, NetError>),
    /// A file to put is open, with its first bytes if it is small.
    Opened(Result<(Source, Vec<u8>), NetError>),
    /// The next bytes of it.
    Read(io::Result<(Source, Vec<u8>)>),
    /// Whether the beginning of it is the same as the server's part.
    Matched(io::Result<(Source, bool)>),
    /// The hash of a file to compare.
    Hashed(io::Result<Hash>),
}

/// The threads of a client; a job's key is the index of its task.
pub(in super::super) type Jobs = Pool<usize, Work>;

fn hash_until(source: &mut Source, end: u64) -> io::Result<Hash> {
    let mut buffer = Vec::new();
    while source.at < end {
        source.read_until(end, &mut buffer)?;
    }
    Ok(source.hash())
}

impl Jobs {
    /// Opens the output of a get, and hashes what is there.
    pub(super) fn prepare(&self, index: usize, target: Target, resume: bool) {
        self.submit(index, Class::Background, move || Work::Prepared(Output::open(target, resume)));
    }

    /// Opens a file to put, and reads all of it if it is small.
    pub(super) fn open(&self, index: usize, local: LocalFile) {
        let open = move || {
            let (mut source, mut bytes) = (local.open()?, Vec::new());
            if source.size <= AT_ONCE {
                source.read(&mut bytes).map_err(|error| local.unreadable(error))?;
            }
            Ok((source, bytes))
        };
        self.submit(index, Class::Urgent, move || Work::Opened(open()));
    }

    /// Reads the next bytes of a file to put.
    pub(super) fn read(&self, index: usize, mut source: Source) {
        self.submit(index, Class::Urgent, move || {
            let mut bytes = Vec::new();
            Work::Read(source.read(&mut bytes).map(|()| (source, bytes)))
        });
    }

    /// Compares the beginning of a file to put with the `offset` bytes that the server has.
    pub(super) fn match_part(&self, index: usize, mut source: Source, offset: u64, prefix: Hash) {
        self.submit(index, Class::Background, move || {
            if offset == 0 || offset > source.size {
                return Work::Matched(Ok((source, offset == 0)));
            }
            let hash = hash_until(&mut source, offset);
            Work::Matched(hash.map(|hash| (source, hash == prefix)))
        });
    }

    /// Hashes a file to compare.
    pub(super) fn hash(&self, index: usize, local: LocalFile) {
        self.submit(index, Class::Background, move || {
            let opened = local.open().map_err(io::Error::other);
            Work::Hashed(opened.and_then(|mut source| {
                let size = source.size;
                hash_until(&mut source, size)
            }))
        });
    }
}
