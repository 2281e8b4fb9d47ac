//! The histories of destinations in a file, so that a process starts with what earlier processes learnt (PCP section
//! 3.4).
//!
//! The file is an `SQLite` database with a row for each destination. Several processes may use it at once; the last one
//! to write a destination's history wins. Every transaction takes the write lock at its start: a transaction that asks
//! for it only after reading fails at once if another process holds it, because both could otherwise wait for each
//! other. The file holds no more destinations than the manager keeps, and none older than a month. Disks are slow, so a
//! separate thread writes, and histories that arrive faster than it can write are dropped: a history saves one or two
//! round trips, which is not worth a wait.
//!
//! A damaged file is renamed and a new one is made. A file of another program is refused and not changed.

mod row;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration as StdDuration, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::sys::stat::{Mode, SFlag, mknod};
use rampmeter_control::History;
use rampmeter_manager::{Destination, MAX_DESTINATIONS};
use row::Row;
use rusqlite::{Connection, OpenFlags, TransactionBehavior, params};
use thiserror::Error;

/// The application id in the file's header: "Ramp".
const APPLICATION: u32 = 0x5261_6d70;

/// The first bytes of an `SQLite` file, and the offset of the application id.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const APPLICATION_AT: usize = 68;

/// The maximum age of a history in seconds: an older path may have changed.
const MAX_AGE: u64 = 30 * 24 * 3600;

/// The maximum number of histories that wait to be written.
const MAX_PENDING: usize = 1024;

/// The maximum time to wait for the locks of other processes.
const BUSY_TIMEOUT: StdDuration = StdDuration::from_secs(5);

/// The version of the table. A file with another version is emptied: histories save only one or two round trips.
const VERSION: i64 = 3;

const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS history (
    destination BLOB PRIMARY KEY,
    base_rate INTEGER NOT NULL,
    capacity INTEGER NOT NULL,
    deviation INTEGER NOT NULL,
    trust REAL NOT NULL,
    competing_traffic REAL NOT NULL,
    host_jitter INTEGER NOT NULL,
    min_rtt INTEGER NOT NULL,
    learnt INTEGER NOT NULL
) WITHOUT ROWID, STRICT";

/// Why a file cannot store histories.
#[derive(Debug, Error)]
pub enum HistoryError {
    /// It is a file of another program.
    #[error("{0}: is not a history file; give another path with --history")]
    Foreign(PathBuf),
    /// The operating system or the database refused it.
    #[error("{0}: {1}; give a writable path with --history")]
    Refused(PathBuf, String),
}

/// An open history file.
#[derive(Debug)]
pub struct HistoryFile {
    learnt: Option<SyncSender<(Destination, History)>>,
    writer: Option<JoinHandle<()>>,
}

/// The contents of a history file.
#[derive(Debug)]
pub struct Remembered {
    /// Each destination's history.
    pub histories: Vec<(Destination, History)>,
    /// The new path of the file, if it was damaged and renamed.
    pub renamed: Option<PathBuf>,
}

impl HistoryFile {
    /// Opens the file at `path`, or creates it.
    pub fn open(path: &Path) -> Result<(Self, Remembered), HistoryError> {
        let mut renamed = None;
        let refused = |reason: String| HistoryError::Refused(path.to_owned(), reason);
        create(path).map_err(|error| refused(error.to_string()))?;
        let mut read = load(path);
        if read.as_ref().is_err_and(is_damaged) {
            if !has_our_id(path).map_err(|error| refused(error.to_string()))? {
                return Err(HistoryError::Foreign(path.to_owned()));
            }
            let new_path = with_suffix(path, ".damaged");
            std::fs::rename(path, &new_path).map_err(|error| refused(error.to_string()))?;
            // The journal of an interrupted write must not be applied to the new file.
            let _ = std::fs::remove_file(with_suffix(path, "-journal"));
            renamed = Some(new_path);
            create(path).map_err(|error| refused(error.to_string()))?;
            read = load(path);
        }
        let (database, histories) = read.map_err(|error| refused(error.to_string()))?;
        let (learnt, pending) = sync_channel(MAX_PENDING);
        let writer = std::thread::Builder::new()
            .name("histories".into())
            .spawn(move || write(database, &pending))
            .map_err(|error| refused(error.to_string()))?;
        let file = Self { learnt: Some(learnt), writer: Some(writer) };
        Ok((file, Remembered { histories, renamed }))
    }

    /// Stores the history of `destination`; never waits.
    pub fn keep(&self, destination: Destination, history: History) {
        if let Some(learnt) = &self.learnt {
            let _ = learnt.try_send((destination, history));
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

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Creates an empty file at `path` that only its owner may read, unless it exists. The file is never opened: closing it
/// would release all locks of this process on it, and another thread may use them.
fn create(path: &Path) -> io::Result<()> {
    match mknod(path, SFlag::S_IFREG, Mode::S_IRUSR | Mode::S_IWUSR, 0) {
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether the file at `path`, which the database cannot read, has this program's application id. Only for such a file:
/// closing it releases all locks of this process on it.
fn has_our_id(path: &Path) -> io::Result<bool> {
    let mut header = Vec::new();
    File::open(path)?.take(100).read_to_end(&mut header)?;
    let id = header.get(APPLICATION_AT..APPLICATION_AT + 4);
    Ok(header.starts_with(MAGIC) && id == Some(&APPLICATION.to_be_bytes()[..]))
}

fn is_damaged(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
}

fn damaged(what: String) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT), Some(what))
}

/// Opens the database at `path`, updates its table, and reads it.
fn load(path: &Path) -> rusqlite::Result<(Connection, Vec<(Destination, History)>)> {
    let mut database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    database.busy_timeout(BUSY_TIMEOUT)?;
    // A power failure may damage the file; a crash of the process loses at most the last rows.
    database.pragma_update(None, "synchronous", "normal")?;
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    prepare(&transaction)?;
    delete_old(&transaction)?;
    let histories = {
        let mut all = transaction.prepare("SELECT * FROM history")?;
        all.query_map([], read_row)?.collect::<rusqlite::Result<Vec<_>>>()?
    };
    transaction.commit()?;
    Ok((database, histories.into_iter().flatten().collect()))
}

/// Checks that `database` is this program's, undamaged, and of this version.
fn prepare(database: &Connection) -> rusqlite::Result<()> {
    let number = |sql: &str| database.query_row(sql, [], |row| row.get::<_, i64>(0));
    if number("PRAGMA application_id")? != i64::from(APPLICATION) {
        if number("SELECT count(*) FROM sqlite_schema")? != 0 {
            return Err(damaged("the tables of another program".into()));
        }
        database.pragma_update(None, "application_id", APPLICATION)?;
    }
    let is_valid: String = database.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if is_valid != "ok" {
        return Err(damaged(is_valid));
    }
    if number("PRAGMA user_version")? != VERSION {
        database.execute_batch("DROP TABLE IF EXISTS history")?;
        database.pragma_update(None, "user_version", VERSION)?;
    }
    database.execute_batch(SCHEMA)
}

/// Deletes old histories, and the oldest of the others beyond the maximum number.
fn delete_old(database: &Connection) -> rusqlite::Result<()> {
    database.execute("DELETE FROM history WHERE learnt < ?1", [seconds().saturating_sub(MAX_AGE) as i64])?;
    let excess = "DELETE FROM history WHERE destination IN (SELECT destination FROM history
                ORDER BY learnt DESC LIMIT -1 OFFSET ?1)";
    database.execute(excess, [MAX_DESTINATIONS as i64]).map(drop)
}

/// Reads a row; `None` if its values are invalid.
fn read_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<(Destination, History)>> {
    let destination: Vec<u8> = row.get(0)?;
    let row = Row {
        destination: &destination,
        rates: [row.get(1)?, row.get(2)?, row.get(3)?],
        trust: row.get(4)?,
        competing_traffic: row.get(5)?,
        host_jitter: row.get(6)?,
        min_rtt: row.get(7)?,
    };
    Ok(row.decode())
}

/// Writes histories until the sender is closed. Errors are ignored: the next process learns the history again.
fn write(mut database: Connection, pending: &Receiver<(Destination, History)>) {
    while let Ok(first) = pending.recv() {
        let _ = write_all(&mut database, std::iter::once(first).chain(pending.try_iter()));
    }
    let _ = database
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .and_then(|transaction| delete_old(&transaction).and_then(|()| transaction.commit()));
}

fn write_all(database: &mut Connection, learnt: impl Iterator<Item = (Destination, History)>) -> rusqlite::Result<()> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let sql = "INSERT OR REPLACE INTO history VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        let mut insert = transaction.prepare_cached(sql)?;
        for (Destination(destination), history) in learnt {
            let destination = destination.to_be_bytes();
            let row = Row::encode(&destination, &history);
            let [base_rate, capacity, deviation] = row.rates;
            insert.execute(params![
                row.destination,
                base_rate,
                capacity,
                deviation,
                row.trust,
                row.competing_traffic,
                row.host_jitter,
                row.min_rtt,
                seconds() as i64,
            ])?;
        }
    }
    transaction.commit()
}

/// Seconds since 1970, by the wall clock: histories outlive processes.
fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rampmeter_units::{Duration, Rate};
    use tempfile::tempdir;

    use super::*;

    fn history(mbps: u64) -> History {
        History {
            base_rate: Rate::from_bps(mbps * 1_000_000),
            capacity: Rate::from_bps(100_000_000),
            deviation: Rate::from_bps(1_000),
            trust: 0.5,
            competing_traffic: 0.25,
            competitive_rate: Rate::ZERO,
            host_jitter: Duration::from_micros(50),
            min_rtt: Duration::from_millis(20),
        }
    }

    fn write(path: &Path, rows: impl IntoIterator<Item = (u128, u64)>) {
        let (file, _) = HistoryFile::open(path).unwrap();
        rows.into_iter().for_each(|(destination, mbps)| file.keep(Destination(destination), history(mbps)));
    }

    fn read(path: &Path) -> Vec<(Destination, History)> {
        HistoryFile::open(path).unwrap().1.histories
    }

    #[test]
    fn the_next_process_reads_the_histories_of_the_last() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("histories");
        assert_eq!(read(&path), []);
        write(&path, [(1, 10), (u128::MAX, 20)]);
        write(&path, [(1, 30)]);
        assert_eq!(read(&path), [(Destination(1), history(30)), (Destination(u128::MAX), history(20))]);
    }

    #[test]
    fn processes_may_share_a_file() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("histories");
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
        let directory = tempdir().unwrap();
        let path = directory.path().join("histories");
        drop(HistoryFile::open(&path).unwrap());
        let (mut database, _) = load(&path).unwrap();
        let many = (0..MAX_DESTINATIONS as u128 + 50).map(|n| (Destination(n), history(1)));
        write_all(&mut database, many).unwrap();
        assert_eq!(read(&path).len(), MAX_DESTINATIONS);
        database.execute("UPDATE history SET learnt = 1", []).unwrap();
        assert_eq!(read(&path), [], "older than a month");
    }

    #[test]
    fn a_damaged_file_is_renamed_and_a_foreign_one_refused() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("histories");
        write(&path, (0..500).map(|n| (n, 10)));
        let mut bytes = fs::read(&path).unwrap();
        bytes[100..].iter_mut().for_each(|byte| *byte ^= 0x5a);
        fs::write(&path, &bytes).unwrap();
        let (_, found) = HistoryFile::open(&path).unwrap();
        assert_eq!(found.histories, []);
        assert!(fs::read(found.renamed.unwrap()).unwrap()[100..] == bytes[100..]);

        let foreign = directory.path().join("foreign");
        fs::write(&foreign, "Dear reader,").unwrap();
        let error = HistoryFile::open(&foreign).unwrap_err().to_string();
        assert!(error.ends_with("foreign: is not a history file; give another path with --history"));
        assert_eq!(fs::read(&foreign).unwrap(), b"Dear reader,");
        assert!(matches!(HistoryFile::open(directory.path()), Err(HistoryError::Refused { .. })));
    }

    #[test]
    fn an_invalid_row_is_skipped() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("histories");
        write(&path, [(1, 10), (2, 20), (3, 30)]);
        let database = Connection::open(&path).unwrap();
        database.execute("UPDATE history SET trust = 7.0 WHERE base_rate = 10000000", []).unwrap();
        database.execute("UPDATE history SET destination = x'00' WHERE base_rate = 20000000", []).unwrap();
        assert_eq!(read(&path), [(Destination(3), history(30))]);
    }

    #[test]
    fn only_the_owner_may_read_the_file() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempdir().unwrap();
        let path = directory.path().join("histories");
        write(&path, [(1, 10)]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o077, 0);
    }

    #[test]
    fn a_file_of_another_version_is_emptied() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("histories");
        drop(HistoryFile::open(&path).unwrap());
        let database = Connection::open(&path).unwrap();
        let old = "DROP TABLE history; CREATE TABLE history (destination BLOB, base_rate INTEGER, learnt INTEGER);
            INSERT INTO history VALUES (x'01', 1, 1); PRAGMA user_version = 1;";
        database.execute_batch(old).unwrap();
        drop(database);
        let (file, remembered) = HistoryFile::open(&path).unwrap();
        assert!(remembered.histories.is_empty() && remembered.renamed.is_none());
        file.keep(Destination(1), history(10));
        drop(file);
        assert_eq!(HistoryFile::open(&path).unwrap().1.histories, [(Destination(1), history(10))]);
    }
}
