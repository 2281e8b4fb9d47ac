//! The errors of studies, one line each.

use std::path::{Path, PathBuf};

use rampmeter_scenario::{ScenarioError, WorldError};
use thiserror::Error;

/// An error of a study.
#[derive(Debug, Error)]
pub enum StudyError {
    /// A scenario or a file of claims is invalid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A world could not run a point.
    #[error("at {point}: {error}")]
    World {
        /// The point.
        point: String,
        /// The error.
        error: WorldError,
    },
    /// A directory holds another run.
    #[error("{}: {what}; give another directory with --out, or remove this one", directory.display())]
    Taken {
        /// The directory.
        directory: PathBuf,
        /// The content of the directory.
        what: String,
    },
    /// Another command writes to the directory.
    #[error(
        "{directory} belongs to {holder}; wait for its end with `flock {directory}/lock true`, or give another \
         directory with --out", directory = directory.display()
    )]
    Locked {
        /// The directory.
        directory: PathBuf,
        /// The process that writes there.
        holder: String,
    },
    /// A directory holds no run.
    #[error("{}: there is no run.json; name a directory of `rampmeter run`", directory.display())]
    NoRun {
        /// The directory.
        directory: PathBuf,
    },
    /// A file of the run directory could not be read or written.
    #[error("{}: cannot be {action}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The failed action: "written".
        action: &'static str,
        /// The system's error.
        reason: String,
    },
    /// A cluster could not run points.
    #[error("cluster: {problem}")]
    Cluster {
        /// The problem and its remedy.
        problem: String,
    },
    /// The user interrupted the study.
    #[error("interrupted with {done} of {total} points finished")]
    Interrupted {
        /// Points finished, including those of earlier runs.
        done: usize,
        /// Points of the sweep.
        total: usize,
    },
}

impl StudyError {
    pub(crate) fn file(path: &Path, action: &'static str, reason: &impl ToString) -> Self {
        Self::File { path: path.to_owned(), action, reason: reason.to_string() }
    }

    /// Whether the cause is the user's input rather than the run.
    pub fn is_bad_input(&self) -> bool {
        matches!(self, Self::Scenario(_) | Self::Taken { .. } | Self::NoRun { .. })
    }
}
