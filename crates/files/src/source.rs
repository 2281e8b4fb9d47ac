//! A file that is being read and sent: its bytes are hashed as they are read, unless the hash is known.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::SystemTime;

use super::hashes::{FileState, Hashes};
use super::page_cache::read_cached;
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
    /// The hash of the whole file, if none of it has to be hashed.
    known: Option<Hash>,
    shared: Option<Box<Shared>>,
}

/// A file whose hash other readers may know, or use.
#[derive(Debug)]
struct Shared {
    hashes: Arc<Hashes>,
    /// The file's state when it was opened, and the time of that.
    state: FileState,
    opened: SystemTime,
}

fn modified(metadata: &Metadata) -> Modified {
    Modified { seconds: metadata.mtime(), nanos: metadata.mtime_nsec() as u32 }
}

impl Source {
    /// The file is hashed from its beginning.
    pub(crate) fn new(file: File, metadata: &Metadata) -> Self {
        let (size, modified) = (metadata.len(), modified(metadata));
        Self { file, size, modified, at: 0, was_unchanged: false, hasher: Box::default(), known: None, shared: None }
    }

    /// The same. If all of it is read, later readers need no hashing. After [`rewind`](Self::rewind) a known hash is
    /// used.
    pub(crate) fn of_part(file: File, metadata: &Metadata, hashes: &Arc<Hashes>) -> Self {
        let (hashes, state, opened) = (Arc::clone(hashes), FileState::of(metadata), SystemTime::now());
        Self { shared: Some(Box::new(Shared { hashes, state, opened })), ..Self::new(file, metadata) }
    }

    /// The file is hashed only if `hashes` does not have its hash.
    pub(crate) fn of_whole(file: File, metadata: &Metadata, hashes: &Arc<Hashes>) -> Self {
        let mut source = Self::of_part(file, metadata, hashes);
        source.look_up();
        source
    }

    fn look_up(&mut self) {
        self.known = self.shared.as_ref().and_then(|shared| shared.hashes.find(&shared.state));
    }

    /// The length of the next piece, which ends at `end` at the latest.
    fn piece_until(&self, end: u64) -> usize {
        end.saturating_sub(self.at).min(PIECE as u64) as usize
    }

    /// Makes room for the next piece in `buffer`, whose old contents are lost.
    pub(crate) fn reserve(&self, buffer: &mut Vec<u8>) {
        buffer.clear();
        buffer.reserve_exact(self.piece_until(self.size));
    }

    /// Reads the next piece, and hashes it, into `buffer`, whose old contents are lost.
    pub(crate) fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<()> {
        self.read_until(self.size, buffer)
    }

    /// The same, but nothing from `end` on.
    pub(crate) fn read_until(&mut self, end: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
        let len = self.piece_until(end);
        buffer.clear();
        buffer.reserve_exact(len);
        if (&mut self.file).take(len as u64).read_to_end(buffer)? < len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.on_read(buffer)
    }

    /// Reads a piece that is in memory, or its beginning, and hashes it. False if another thread has to read the next
    /// bytes.
    pub(crate) fn read_cached(&mut self, buffer: &mut Vec<u8>) -> bool {
        let len = self.piece_until(self.size);
        if len == 0 {
            return false;
        }
        self.reserve(buffer);
        read_cached(&self.file, len, buffer);
        if buffer.len() < len {
            buffer.shrink_to_fit(); // a send buffer counts the bytes that it keeps, not their memory
        }
        if self.on_read(buffer).is_err() {
            self.was_unchanged = false;
        }
        !buffer.is_empty()
    }

    /// The next bytes were read.
    fn on_read(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.known.is_none() {
            self.hasher.update(bytes);
        }
        self.at += bytes.len() as u64;
        if self.is_at_end() { self.end() } else { Ok(()) }
    }

    /// The last byte was read.
    fn end(&mut self) -> io::Result<()> {
        let now = self.file.metadata()?;
        self.was_unchanged = (now.len(), modified(&now)) == (self.size, self.modified);
        let Some(shared) = &self.shared else { return Ok(()) };
        let is_same = FileState::of(&now) == shared.state;
        if self.known.is_some() {
            self.was_unchanged &= is_same; // nobody has hashed what was read
        } else if is_same && shared.state.has_settled(shared.opened) {
            shared.hashes.insert(shared.state, self.hash());
        }
        Ok(())
    }

    /// Reads the file from its beginning, again.
    pub(crate) fn rewind(&mut self) -> io::Result<()> {
        self.hasher.reset();
        self.look_up();
        self.at = 0;
        self.file.seek(SeekFrom::Start(0))?;
        if self.is_at_end() { self.end() } else { Ok(()) }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.size
    }

    /// The hash of the bytes read so far.
    pub(crate) fn hash(&self) -> Hash {
        self.known.unwrap_or_else(|| *self.hasher.finalize().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn read_all(source: &mut Source) -> Hash {
        let mut buffer = Vec::new();
        while !source.is_at_end() {
            source.read(&mut buffer).unwrap();
        }
        source.hash()
    }

    /// A file of two pieces, and its state.
    fn file() -> (tempfile::NamedTempFile, Metadata) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&vec![7; 2 * PIECE]).unwrap();
        let metadata = file.as_file().metadata().unwrap();
        (file, metadata)
    }

    #[test]
    fn a_known_hash_is_used_while_the_file_is_unchanged() {
        let (file, metadata) = file();
        let hashes = Arc::<Hashes>::default();
        hashes.insert(FileState::of(&metadata), [1; 32]); // none that hashing gives
        let open = || Source::of_whole(file.reopen().unwrap(), &file.as_file().metadata().unwrap(), &hashes);
        let mut source = open();
        assert_eq!(source.known, Some([1; 32]));
        assert_eq!((read_all(&mut source), source.was_unchanged), ([1; 32], true));

        let mut source = open();
        source.read(&mut Vec::new()).unwrap();
        let other_time = std::fs::FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
        file.as_file().set_times(other_time).unwrap();
        read_all(&mut source);
        assert!(!source.was_unchanged);
        let mut source = open();
        assert_eq!((source.known, read_all(&mut source)), (None, *blake3::hash(&vec![7; 2 * PIECE]).as_bytes()));
    }

    #[test]
    fn a_file_in_memory_is_read_and_hashed_without_a_thread() {
        let (file, metadata) = file();
        let hashes = Arc::<Hashes>::default();
        let read = || {
            let mut source = Source::of_whole(file.reopen().unwrap(), &metadata, &hashes);
            let (mut buffer, mut bytes) = (Vec::new(), 0);
            while source.read_cached(&mut buffer) {
                assert!(buffer.len() <= PIECE && buffer.iter().all(|&byte| byte == 7));
                bytes += buffer.len();
            }
            if bytes == 0 {
                eprintln!("skipped: this file system cannot tell which bytes are in memory");
            }
            let hash = read_all(&mut source); // what another program has removed from memory
            assert_eq!((source.was_unchanged, source.at), (true, 2 * PIECE as u64));
            hash
        };
        assert_eq!(read(), *blake3::hash(&vec![7; 2 * PIECE]).as_bytes());
        hashes.insert(FileState::of(&metadata), [1; 32]); // none that hashing gives
        assert_eq!(read(), [1; 32]);
    }

    #[test]
    fn a_wrong_part_is_hashed_and_then_the_known_hash_is_used() {
        let (file, metadata) = file();
        let hashes = Arc::<Hashes>::default();
        hashes.insert(FileState::of(&metadata), [1; 32]); // none that hashing gives
        let mut source = Source::of_part(file.reopen().unwrap(), &metadata, &hashes);
        source.read_until(1000, &mut Vec::new()).unwrap();
        assert_eq!(source.hash(), *blake3::hash(&[7; 1000]).as_bytes());
        source.rewind().unwrap();
        assert_eq!((read_all(&mut source), source.was_unchanged), ([1; 32], true));
    }

    #[test]
    fn the_hash_of_a_new_file_is_not_kept() {
        let (file, metadata) = file();
        let hashes = Arc::<Hashes>::default();
        let mut source = Source::of_whole(file.reopen().unwrap(), &metadata, &hashes);
        read_all(&mut source);
        assert!(source.was_unchanged && hashes.find(&FileState::of(&metadata)).is_none());
        source.rewind().unwrap();
        source.shared.as_mut().unwrap().opened += std::time::Duration::from_secs(100);
        read_all(&mut source);
        assert!(hashes.find(&FileState::of(&metadata)).is_some(), "it had settled");
    }
}
