//! Finished points on disk: one file each, complete or absent.
//!
//! A file is written under a temporary name and then renamed, so an interrupted run leaves no partial file. A point
//! counts as finished only if the same build of the program ran it: results of an older build of a controller are not
//! reused, and a record of another version of this format is not read.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use std::{fs, io};

use rampmeter_scenario::{Outcome, Point};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::StudyError;

/// The program that runs the points, identified by its size and its modification time.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// A finished point. Numbers are exact: an outcome read back equals the one written.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record<O> {
    point: String,
    program: String,
    /// Duration of the run in seconds of real time.
    pub(crate) wall_s: f64,
    pub(crate) outcome: O,
}

/// The finished points of one scenario in one world.
#[derive(Debug, Clone)]
pub struct Journal {
    directory: PathBuf,
    program: Program,
}

impl Journal {
    /// Opens the journal in `directory`, and creates the directory if it is missing.
    pub fn open(directory: impl Into<PathBuf>, program: Program) -> Result<Self, StudyError> {
        let directory = directory.into();
        fs::create_dir_all(&directory).map_err(|error| StudyError::file(&directory, "made", &error))?;
        Ok(Self { directory, program })
    }

    /// Removes all points.
    pub fn clear(&self) -> Result<(), StudyError> {
        let refuse = |error| StudyError::file(&self.directory, "emptied", &error);
        fs::remove_dir_all(&self.directory).map_err(refuse)?;
        fs::create_dir_all(&self.directory).map_err(refuse)
    }

    /// The record of `point`, if this program finished it.
    pub(crate) fn load(&self, point: &Point) -> Option<Record<Outcome>> {
        let text = fs::read(self.path(point)).ok()?;
        let record: Record<Outcome> = serde_json::from_slice(&text).ok()?;
        (record.point == point.to_string() && record.program == self.program.0).then_some(record)
    }

    /// Stores the outcome of a run of `point` that took `wall_s` seconds.
    pub(crate) fn store(&self, point: &Point, outcome: &Outcome, wall_s: f64) -> Result<(), StudyError> {
        let path = self.path(point);
        let record = Record { point: point.to_string(), program: self.program.0.clone(), wall_s, outcome };
        let text = serde_json::to_vec(&record).map_err(|error| StudyError::file(&path, "written", &error))?;
        write_atomically(&path, &text)
    }

    fn path(&self, point: &Point) -> PathBuf {
        self.directory.join(format!("{}.json", short_hash(&[&point.to_string()])))
    }
}

/// Writes a file atomically: it is complete or absent.
pub(crate) fn write_atomically(path: &Path, content: &[u8]) -> Result<(), StudyError> {
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
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
        let point = Point::default();
        journal.store(&point, &outcome(), 0.1).unwrap();
        assert_eq!(journal.load(&point).unwrap().outcome, outcome());
    }

    #[test]
    fn a_record_of_another_version_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path(), Program::this().unwrap()).unwrap();
        let point = Point::default();
        journal.store(&point, &outcome(), 0.1).unwrap();
        let text = fs::read_to_string(journal.path(&point)).unwrap();
        fs::write(journal.path(&point), text.replace("\"fct\"", "\"response\"")).unwrap();
        assert!(journal.load(&point).is_none());
    }
}
