//! The errors of scenarios. Each is one line with the place, what is wrong and the remedy.

use rampmeter_units::Known;
use thiserror::Error;

/// An error in a scenario, or in a file of claims about scenarios.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// The file could not be read.
    #[error("{file}: cannot be read: {error}; give the path of a file that this user may read")]
    Unreadable {
        /// Its path.
        file: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// The file contains an error.
    #[error("{file}:{line}: {problem}")]
    Wrong {
        /// The file's name.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The error and its remedy.
        problem: String,
    },
    /// Values set from outside, for example on the command line, are invalid for an axis.
    #[error("{file}: {problem}")]
    Set {
        /// The file's name.
        file: String,
        /// The error and its remedy.
        problem: String,
    },
}

pub(crate) type Result<T, E = ScenarioError> = std::result::Result<T, E>;

/// The message that no `kind` of thing is called `name`.
pub(crate) fn unknown<'n>(kind: &str, name: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    format!("no {kind} is called `{}`; {}", name.escape_debug(), Known::near(name, known))
}
