//! Finished points on disk: one file each, complete or absent, named by what the outcome depends on.
//!
//! So a point is kept when its scenario gets another seed, another value of an axis or a comment. A file is written
//! under a temporary name and then renamed, so an interrupted run leaves no partial file. A point counts as finished
//! only if the same build of the program ran it: results of an older build of a controller are not reused, and a record
//! of another version of this format is not read.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;
use std::{fs, io};

use rampmeter_scenario::{Outcome, Point, SEED, Scenario};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::StudyError;

/// The program that runs the points, identified by its size and its modification time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program(String);

impl Program {
    /// The program in the file at `path`.
    pub fn of(path: &Path) -> Result<Self, StudyError> {
        let metadata = || -> io::Result<_> {
            let metadata = fs::metadata(path)?;
            Ok((metadata.len(), metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()))
        };
        let (len, changed) = metadata().map_err(|error| StudyError::file(path, "read", &error))?;
        Ok(Self(short_hash(&[&len.to_string(), &changed.to_string()])))
    }

    /// The program that is running.
    pub fn this() -> Result<Self, StudyError> {
        Self::of(Path::new("/proc/self/exe"))
    }
}

/// What the outcome of a point depends on, besides the program: the world, the seed, and the content of the scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key(String);

impl Key {
    /// The key of a point of `scenario` in the world of this name.
    pub(crate) fn of(scenario: &Scenario, point: &Point, world: &str) -> Result<Self, StudyError> {
        let seed = point.get(SEED).map(ToString::to_string).unwrap_or_default();
        Ok(Self(short_hash(&[world, &seed, &scenario.content(point)?.to_string()])))
    }
}

/// A finished point. Numbers are exact: an outcome read back equals the one written.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record<O> {
    program: Program,
    /// Duration of the run in seconds of real time.
    pub(crate) wall_s: f64,
    pub(crate) outcome: O,
}

/// The finished points in a directory.
#[derive(Debug, Clone)]
pub struct Journal {
    directory: PathBuf,
    /// The program whose points count.
    program: Program,
}

impl Journal {
    /// Opens the journal in `directory`, and creates the directory if it is missing.
    pub fn open(directory: impl Into<PathBuf>, program: Program) -> Result<Self, StudyError> {
        let directory = directory.into();
        fs::create_dir_all(&directory).map_err(|error| StudyError::file(&directory, "made", &error))?;
        Ok(Self { directory, program })
    }

    /// The journal in `directory` with the points of that program, to read them.
    pub(crate) fn of(directory: PathBuf, program: Program) -> Self {
        Self { directory, program }
    }

    /// The program whose points count.
    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    /// The record of a point, if the program finished it.
    pub(crate) fn load(&self, key: &Key) -> Option<Record<Outcome>> {
        let text = fs::read(self.path(key)).ok()?;
        let record: Record<Outcome> = serde_json::from_slice(&text).ok()?;
        (record.program == self.program).then_some(record)
    }

    /// Stores the outcome of a run that took `wall_s` seconds.
    pub(crate) fn store(&self, key: &Key, outcome: &Outcome, wall_s: f64) -> Result<(), StudyError> {
        let path = self.path(key);
        let text = serde_json::to_vec(&Record { program: self.program.clone(), wall_s, outcome });
        write_atomically(&path, &text.map_err(|error| StudyError::file(&path, "written", &error))?)
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.directory.join(format!("{}.json", key.0))
    }
}

/// Writes a file atomically: it is complete or absent.
pub(crate) fn write_atomically(path: &Path, content: &[u8]) -> Result<(), StudyError> {
    // Two threads may finish points of the same content.
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("{}-{number}.tmp", std::process::id()));
    let write = || {
        fs::write(&temporary, content)?;
        fs::rename(&temporary, path)
    };
    write().map_err(|error| StudyError::file(path, "written", &error))
}

/// A hash of `parts` in 16 hexadecimal digits.
pub(crate) fn short_hash(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    format!("{:x}", hash.finalize())[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use rampmeter_router::{Backlog, Counts, QueueSummary};
    use rampmeter_scenario::{
        Degraded, FlowOutcome, FlowSample, HostJitter, Limits, LinkId, LinkOutcome, LinkSample, QueueId, SenderState,
        Series,
    };
    use rampmeter_units::{Bytes, Duration, Rate, Time};
    use rampmeter_workload::Report;

    use super::*;

    fn outcome() -> Outcome {
        let flow = FlowOutcome {
            flow: 3,
            traffic: 1,
            scheme: 0,
            start: Time::from_nanos(1_234_567_890_123),
            fct: Some(Duration::from_nanos(7)),
            delivered: Bytes::new(u64::MAX),
            delivered_measured: Bytes::new(5),
            sent_packets: 9,
            retransmitted_packets: 2,
            limits: Limits::default(),
            report: Report { just_below_share: Some(1.0 / 3.0), stalls: Some(3), ..Report::default() },
        };
        let queue = QueueSummary { mean_packets: 0.1 + 0.2, sd_bytes: 1.0 / 3.0, max_packets: 4, ..Default::default() };
        let counts = Counts { offered: 10, offered_data: 9, dropped: 1, lost: 2, ..Counts::default() };
        let queue_now = Backlog { packets: 1, bytes: Bytes::new(1250) };
        let (at, rate) = (Time::from_nanos(99), Some(Rate::from_bps(7)));
        let (id, ingress) = (QueueId::Link(LinkId(6)), QueueId::Ingress(0));
        Outcome {
            flows: vec![flow, FlowOutcome { flow: 4, fct: None, ..flow }],
            links: vec![LinkOutcome {
                id,
                name: "wire".into(),
                utilization: 0.7,
                queue,
                counts,
                waits: None,
                delays: None,
            }],
            series: Series {
                links: vec![LinkSample { at, id: ingress, queue: queue_now, transmitted: Bytes::new(8) }],
                flows: vec![FlowSample {
                    at,
                    flow: 3,
                    sender: SenderState { rate, ..SenderState::default() },
                    delivered: Bytes::new(1),
                }],
            },
            data_packets: 77,
            degraded: vec![Degraded { flow: 3, reason: "no codes".into() }],
            host_jitter: Some(HostJitter {
                p50: Duration::ZERO,
                p99: Duration::from_nanos(3),
                max: Duration::from_nanos(9),
            }),
        }
    }

    #[test]
    fn an_outcome_is_read_back_exactly() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path(), Program::this().unwrap()).unwrap();
        let key = Key("a".into());
        journal.store(&key, &outcome(), 0.1).unwrap();
        assert_eq!(journal.load(&key).unwrap().outcome, outcome());
    }

    #[test]
    fn a_record_of_another_version_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path(), Program::this().unwrap()).unwrap();
        let key = Key("a".into());
        journal.store(&key, &outcome(), 0.1).unwrap();
        let text = fs::read_to_string(journal.path(&key)).unwrap();
        fs::write(journal.path(&key), text.replace("\"fct\"", "\"response\"")).unwrap();
        assert!(journal.load(&key).is_none());
    }
}
