//! Studies: runs a scenario over its sweep, keeps the results on disk, and judges claims by them.
//!
//! ```text
//!   Scenario ── points ──► Sweep ── threads ──► World ── outcome ──► Journal: one file per finished point
//!                            │                                          │
//!                            └── summaries, in the sweep's order        └──► Directory: run.json and Parquet tables
//! ```
//!
//! A point's outcome depends only on the scenario and the point, so the tables of a sweep are identical to the byte for
//! any number of threads. An interruption loses only the points that are running: finished points are on disk,
//! complete, and a later run of the same points by the same program reuses them. Tables are written from the journal,
//! in the order of the sweep. The duration of a run, which varies, is not part of the tables.
//!
//! [`claims`] tests measurable sentences of papers against such runs. [`evaluation`] asks the questions of RFC 9743 of a
//! controller and of its rivals.

mod caught;
mod chance;
pub mod claims;
mod cluster;
mod difference;
mod directory;
mod entries;
mod error;
pub mod evaluation;
mod journal;
mod metrics;
mod overview;
mod sweep;
mod tables;
mod trace_files;
mod traced;

pub use cluster::{BUILD, Cluster, run_points};
pub use difference::{Difference, Differences};
pub use directory::{ChangedSetting, Directory, default_directory, tables_that_differ};
pub use error::StudyError;
pub use journal::{Journal, Program};
pub use metrics::check_metrics;
pub use overview::{overview, significant};
pub use sweep::{Finished, Progress, RunningPoints, Sweep, Task, Unfinished};
pub use traced::{TraceOptions, Traced, file_name};
