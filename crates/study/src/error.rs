//! What can go wrong between a scenario and its tables: one line each.

use std::path::{Path, PathBuf};

use rampmeter_scenario::{ScenarioError, WorldError};
use thiserror::Error;

use crate::claims::ClaimsError;

/// Why a study did not come to its end.
#[derive(Debug, Error)]
pub enum StudyError {
    /// The scenario is wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A file of claims is wrong.
    #[error(transparent)]
    Claims(#[from] ClaimsError),
    /// A world could not run a point.
    #[error("at {point}: {error}")]
    World {
        /// The point.
        point: String,
        /// Why.
        error: WorldError,
    },
    /// A folder holds another run.
    #[error("{}: {what}; give another folder with --out, or remove this one", folder.display())]
    Taken {
        /// The folder.
        folder: PathBuf,
        /// What is in it.
        what: String,
    },
    /// A file of the run folder could not be read or written.
    #[error("{}: cannot be {action}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// "written".
        action: &'static str,
        /// What the system said.
        reason: String,
    },
    /// The user stopped it.
    #[error("interrupted with {done} of {total} points finished")]
    Interrupted {
        /// Points finished, now or before.
        done: usize,
        /// Points of the sweep.
        total: usize,
    },
}

impl StudyError {
    pub(crate) fn file(path: &Path, action: &'static str, reason: &impl ToString) -> Self {
        Self::File { path: path.to_owned(), action, reason: reason.to_string() }
    }

    /// Whether the user's input is to blame rather than the run.
    pub fn is_bad_input(&self) -> bool {
        matches!(self, Self::Scenario(_) | Self::Claims(_) | Self::Taken { .. })
    }
}
