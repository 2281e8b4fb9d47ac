//! The hashes of files that were read whole, so that a file which many clients fetch is hashed once.
//!
//! A hash is that of a file's state: device, number, size and times. A file may change without a trace in its times:
//! twice within a tick of the clock, or in memory-mapped pages that the kernel has not written back, which takes half a
//! minute. So only files that have been left alone for a minute have a hash here.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::protocol::Hash;

/// A file has settled when its times are so old.
const SETTLED: Duration = Duration::from_secs(60);

/// The number of hashes in each of two generations. Those that are used stay.
const GENERATION: usize = 4096;

/// A state of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileState {
    file: (u64, u64),
    size: u64,
    /// When its bytes, and when anything of it changed last: seconds and nanoseconds.
    times: [(i64, i64); 2],
}

impl FileState {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            file: (metadata.dev(), metadata.ino()),
            size: metadata.len(),
            times: [(metadata.mtime(), metadata.mtime_nsec()), (metadata.ctime(), metadata.ctime_nsec())],
        }
    }

    /// Whether a later change will show in its times.
    pub(crate) fn has_settled(&self, now: SystemTime) -> bool {
        let since_1970 = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let latest = since_1970.saturating_sub(SETTLED).as_secs();
        self.times.iter().all(|&(seconds, _)| seconds < i64::try_from(latest).unwrap_or(i64::MAX))
    }
}

/// Hashes by file.
#[derive(Debug, Default)]
pub(crate) struct Hashes(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    recent: BTreeMap<(u64, u64), (FileState, Hash)>,
    old: BTreeMap<(u64, u64), (FileState, Hash)>,
}

impl Hashes {
    /// The hash of the file in this state.
    pub(crate) fn find(&self, state: &FileState) -> Option<Hash> {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Generations { recent, old } = &*generations;
        let &(known, hash) = recent.get(&state.file).or_else(|| old.get(&state.file))?;
        if known != *state {
            return None;
        }
        generations.insert(known, hash);
        Some(hash)
    }

    /// Keeps the hash of a file that has settled in this state.
    pub(crate) fn insert(&self, state: FileState, hash: Hash) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(state, hash);
    }
}

impl Generations {
    fn insert(&mut self, state: FileState, hash: Hash) {
        if self.recent.len() >= GENERATION && !self.recent.contains_key(&state.file) {
            self.old = std::mem::take(&mut self.recent);
        }
        self.recent.insert(state.file, (state, hash));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(number: u64, changed: i64) -> FileState {
        FileState { file: (1, number), size: 9, times: [(5, 0), (changed, 0)] }
    }

    #[test]
    fn a_changed_file_has_no_hash() {
        let hashes = Hashes::default();
        hashes.insert(state(7, 5), [1; 32]);
        assert_eq!(hashes.find(&state(7, 5)), Some([1; 32]));
        assert_eq!(hashes.find(&state(7, 6)), None);
        assert_eq!(hashes.find(&state(8, 5)), None);
    }

    #[test]
    fn few_hashes_are_kept_and_those_in_use_stay() {
        let hashes = Hashes::default();
        for number in 0..20_000 {
            hashes.insert(state(number, 5), [2; 32]);
            assert!(hashes.find(&state(0, 5)).is_some(), "{number}");
        }
        let generations = hashes.0.lock().unwrap();
        assert!(generations.recent.len() + generations.old.len() <= 2 * GENERATION);
    }

    #[test]
    fn a_file_settles_a_minute_after_its_last_change() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert!(!state(1, 1000).has_settled(at(1060)) && state(1, 1000).has_settled(at(1061)));
        assert!(!state(1, 1000).has_settled(at(900)), "the time of a change may be in the future");
    }
}
