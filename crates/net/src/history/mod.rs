//! The histories of destinations in a file, so that a process starts with what earlier processes learnt (PCP section
//! 3.4).
//!
//! The file is JSON. Each change reads it under a lock, adds what was learnt, and renames a complete new file over it; so
//! several processes may use it at once, the last one to write a destination's history wins, and a crash leaves the old
//! file or the new one. The file holds no more destinations than the manager keeps, and none older than a month. Disks
//! are slow, so a separate thread writes every few seconds, and histories that arrive faster than it can write are
//! dropped: a history saves one or two round trips, which is not worth a wait.

mod contents;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration as StdDuration, Instant, SystemTime, UNIX_EPOCH};

use rampmeter_control::History;
use rampmeter_manager::{Destination, MAX_DESTINATIONS};
use thiserror::Error;

use self::contents::Learnt;
use crate::locked::{IfLocked, open_locked};

/// The maximum age of a history in seconds: an older path may have changed.
const MAX_AGE: u64 = 30 * 24 * 3600;

/// The maximum number of histories that wait to be written.
const MAX_PENDING: usize = 1024;

/// The maximum size of a file: more than that of the maximum number of histories.
const MAX_BYTES: u64 = 512 * MAX_DESTINATIONS as u64;

/// The time between two writes.
const INTERVAL: StdDuration = StdDuration::from_secs(5);

/// Why a file cannot store histories.
#[derive(Debug, Error)]
pub enum HistoryError {
    /// It has other contents.
    #[error("{0}: is not a history file of this version ({1}); delete it, or give another path with --history")]
    Unreadable(PathBuf, String),
    /// The operating system refused it.
    #[error("{0}: {1}; give the path of a file in a writable directory with --history")]
    Refused(PathBuf, io::Error),
}

/// An open history file.
#[derive(Debug)]
pub struct HistoryFile {
    learnt: Option<SyncSender<(Destination, Learnt)>>,
    writer: Option<JoinHandle<()>>,
}

impl HistoryFile {
    /// Opens the file at `path`, or creates it. Returns the histories in it.
    pub fn open(path: &Path) -> Result<(Self, Vec<(Destination, History)>), HistoryError> {
        let histories = update(path, &BTreeMap::new())?;
        let histories = histories.into_iter().map(|(destination, (history, _))| (destination, history)).collect();
        let (learnt, pending) = sync_channel(MAX_PENDING);
        let own_path = path.to_owned();
        let writer = std::thread::Builder::new()
            .name("histories".into())
            .spawn(move || write(&own_path, &pending))
            .map_err(|error| HistoryError::Refused(path.to_owned(), error))?;
        Ok((Self { learnt: Some(learnt), writer: Some(writer) }, histories))
    }

    /// Stores the history of `destination`; never waits.
    pub fn keep(&self, destination: Destination, history: History) {
        if let Some(learnt) = &self.learnt {
            let _ = learnt.try_send((destination, (history, seconds())));
        }
    }
}

impl Drop for HistoryFile {
    /// Waits until all histories are written.
    fn drop(&mut self) {
        self.learnt = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// Writes histories until the sender is closed. After an error, the next write tries again.
fn write(path: &Path, pending: &Receiver<(Destination, Learnt)>) {
    let mut learnt = BTreeMap::new();
    let (mut is_open, mut due) = (true, Instant::now());
    while is_open {
        let first = pending.recv();
        is_open = first.is_ok();
        learnt.extend(first);
        while is_open && Instant::now() < due {
            match pending.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok((destination, history)) => drop(learnt.insert(destination, history)),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => is_open = false,
            }
        }
        learnt.extend(pending.try_iter());
        if !learnt.is_empty() {
            match update(path, &learnt) {
                Ok(_) => learnt.clear(),
                Err(error) => {
                    tracing::warn!(%error, "histories not written");
                    keep_newest(&mut learnt);
                }
            }
            due = Instant::now() + INTERVAL;
        }
    }
}

/// Adds what was `learnt` to the file at `path`. Returns its histories.
fn update(path: &Path, learnt: &BTreeMap<Destination, Learnt>) -> Result<BTreeMap<Destination, Learnt>, HistoryError> {
    let refused = |error| HistoryError::Refused(path.to_owned(), error);
    let unreadable = |reason| HistoryError::Unreadable(path.to_owned(), reason);
    let open = || {
        let mut how = OpenOptions::new();
        how.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = how.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("is not a regular file")) }
    };
    // The lock ends with the file.
    let file = open_locked(path, IfLocked::Wait, open).map_err(refused)?;
    let mut bytes = Vec::new();
    (&*file).take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(refused)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(unreadable(format!("it is larger than {MAX_BYTES} bytes")));
    }
    let mut histories = if bytes.is_empty() { BTreeMap::new() } else { contents::parse(&bytes).map_err(unreadable)? };
    histories.extend(learnt.iter().map(|(&destination, &learnt)| (destination, learnt)));
    keep_newest(&mut histories);
    let new = contents::encode(&histories).map_err(|error| refused(error.into()))?;
    if new != bytes {
        replace(path, &new).map_err(refused)?;
    }
    Ok(histories)
}

/// Deletes old histories, and the oldest of the others beyond the maximum number.
fn keep_newest(histories: &mut BTreeMap<Destination, Learnt>) {
    let mut oldest = seconds().saturating_sub(MAX_AGE);
    if histories.len() > MAX_DESTINATIONS {
        let mut times: Vec<u64> = histories.values().map(|(_, learnt)| *learnt).collect();
        times.sort_unstable();
        oldest = oldest.max(times[times.len() - MAX_DESTINATIONS]);
    }
    histories.retain(|_, (_, learnt)| *learnt >= oldest);
    while histories.len() > MAX_DESTINATIONS {
        histories.pop_first(); // more than the maximum are of one second
    }
}

/// Writes a new file, and gives it this name once it is on the disk. Only its owner may read it.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    // What an interrupted write has left; nobody else writes it now.
    let _ = fs::remove_file(&new);
    let write = || {
        let mut how = OpenOptions::new();
        let mut file = how.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    };
    write().inspect_err(|_| drop(fs::remove_file(&new)))
}

/// Seconds since 1970, by the wall clock: histories outlive processes.
fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use rampmeter_units::{Duration, Rate};
    use tempfile::{TempDir, tempdir};

    use super::*;

    fn history(mbps: u64) -> History {
        History {
            base_rate: Rate::from_bps(mbps * 1_000_000),
            capacity: Rate::from_bps(100_000_000),
            trust: 0.5,
            competing_traffic: 0.25,
            competitive_rate: Rate::ZERO,
            variation: Duration::from_micros(50),
            min_rtt: Duration::from_millis(20),
        }
    }

    /// A path in a new directory, which is deleted with it.
    fn path() -> (TempDir, PathBuf) {
        let directory = tempdir().unwrap();
        let path = directory.path().join("histories");
        (directory, path)
    }

    fn write(path: &Path, rows: impl IntoIterator<Item = (u128, u64)>) {
        let (file, _) = HistoryFile::open(path).unwrap();
        rows.into_iter().for_each(|(destination, mbps)| file.keep(Destination(destination), history(mbps)));
    }

    fn read(path: &Path) -> Vec<(Destination, History)> {
        HistoryFile::open(path).unwrap().1
    }

    #[test]
    fn the_next_process_reads_the_histories_of_the_last() {
        let (directory, path) = path();
        assert_eq!(read(&path), []);
        write(&path, [(1, 10), (u128::MAX, 20)]);
        write(&path, [(1, 30)]);
        assert_eq!(read(&path), [(Destination(1), history(30)), (Destination(u128::MAX), history(20))]);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no other file is left");
    }

    #[test]
    fn processes_may_share_a_file() {
        let (_directory, path) = path();
        std::thread::scope(|scope| {
            for part in 0..4 {
                let path = &path;
                scope.spawn(move || write(path, (0..100).map(|n| (part * 1000 + n, n as u64 + 1))));
            }
        });
        assert_eq!(read(&path).len(), 400);
    }

    #[test]
    fn the_number_and_age_of_histories_are_bounded() {
        let (_directory, path) = path();
        let now = seconds();
        let many = 0..MAX_DESTINATIONS as u128 + 50;
        let many = many.map(|n| (Destination(n), (history(1), now - u64::from(n < 40)))).collect();
        let kept = update(&path, &many).unwrap();
        assert_eq!(kept.len(), MAX_DESTINATIONS);
        assert!(kept.keys().all(|&destination| destination >= Destination(40)), "the oldest ones are not kept");
        assert!(fs::metadata(&path).unwrap().len() < MAX_BYTES);
        let old = BTreeMap::from([(Destination(1), (history(1), now - MAX_AGE - 10))]);
        assert!(!update(&path, &old).unwrap().contains_key(&Destination(1)), "older than a month");
    }

    #[test]
    fn an_unreadable_file_is_an_error_and_stays() {
        let (directory, path) = path();
        write(&path, [(1, 10)]);
        let cut = fs::read(&path).unwrap().split_last().unwrap().1.to_vec();
        let large = vec![b' '; MAX_BYTES as usize + 1];
        for bytes in [&b"SQLite format 3\0"[..], &cut, &large] {
            fs::write(&path, bytes).unwrap();
            let error = HistoryFile::open(&path).unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, HistoryError::Unreadable(..)) && text.contains("histories: is not"), "{text}");
            assert!(text.ends_with("delete it, or give another path with --history") && !text.contains('\n'), "{text}");
            assert!(fs::read(&path).unwrap() == bytes);
        }
        assert!(matches!(HistoryFile::open(directory.path()), Err(HistoryError::Refused(..))));
    }

    #[test]
    fn a_link_is_not_followed_and_the_remains_of_a_crash_do_no_harm() {
        let (directory, path) = path();
        let [mine, new] = ["mine", "histories.new"].map(|name| directory.path().join(name));
        fs::write(&mine, "dear").unwrap();
        std::os::unix::fs::symlink(&mine, &new).unwrap();
        write(&path, [(1, 10)]);
        assert_eq!((read(&path).len(), fs::read(&mine).unwrap()), (1, b"dear".to_vec()));
        std::os::unix::fs::symlink(&mine, &new).unwrap();
        assert!(matches!(HistoryFile::open(&new), Err(HistoryError::Refused(..))));
        assert_eq!(fs::read(&mine).unwrap(), b"dear");
    }

    #[test]
    fn only_the_owner_may_read_the_file() {
        use std::os::unix::fs::PermissionsExt;
        let (_directory, path) = path();
        write(&path, [(1, 10)]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o077, 0);
    }
}
