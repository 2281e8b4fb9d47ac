//! Studies: a scenario run over its sweep and kept on disk, and the claims that its runs judge.
//!
//! ```text
//!   Scenario ── points ──► Sweep ── threads ──► World ── outcome ──► Journal: one file a finished point
//!                            │                                          │
//!                            └── summaries, in the sweep's order        └──► Folder: run.json and Parquet tables
//! ```
//!
//! A point's outcome depends on the scenario and the point alone, so what a sweep yields is the same to the byte however
//! many threads run it. The journal makes interruption cheap: what is finished is on disk, whole or not at all, and a
//! later run of the same points by the same program takes it from there. Tables are written from the journal, in the
//! order of the sweep. What cannot repeat, the seconds a run took, stays out of them.
//!
//! [`claims`] holds papers' measurable sentences against such runs.

pub mod claims;
mod error;
mod folder;
mod journal;
mod overview;
mod sweep;
mod tables;

pub use error::StudyError;
pub use folder::{Folder, Resume, default_folder};
pub use journal::{Journal, Program};
pub use overview::overview;
pub use sweep::{Finished, Progress, Skipped, Sweep, Task, UnderWay};
