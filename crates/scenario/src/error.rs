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
    /// A value that was set from outside, for example on the command line, is wrong.
    #[error("--set {key}: {problem}")]
    Key {
        /// The axis or the key of the file.
        key: String,
        /// The error and its remedy.
        problem: String,
    },
    /// What was asked for from outside is wrong; or an error in a text that is part of the program.
    #[error("{file}: {problem}")]
    Set {
        /// The file's name.
        file: String,
        /// The error and its remedy.
        problem: String,
    },
    /// The sender of a scheme is not Rampmeter's transport, and cannot send what the scenario asks for.
    #[error("{error}")]
    CannotSend {
        /// Why, without a remedy.
        why: String,
        /// The error with its place and its remedy.
        error: Box<Self>,
    },
}

impl ScenarioError {
    /// The file with the error and the line in it, if they are known.
    pub fn place(&self) -> (Option<String>, Option<usize>) {
        match self {
            Self::Wrong { file, line, .. } => (Some(file.clone()), Some(*line)),
            Self::Unreadable { file, .. } | Self::Set { file, .. } => (Some(file.clone()), None),
            Self::Key { .. } => (None, None),
            Self::CannotSend { error, .. } => error.place(),
        }
    }

    /// The error and its remedy, without its place.
    pub fn problem(&self) -> String {
        match self {
            Self::Wrong { problem, .. } | Self::Set { problem, .. } => problem.clone(),
            Self::Unreadable { .. } | Self::Key { .. } => self.to_string(),
            Self::CannotSend { error, .. } => error.problem(),
        }
    }
}

pub(crate) type Result<T, E = ScenarioError> = std::result::Result<T, E>;

/// The message that no `kind` of thing is called `name`.
pub(crate) fn unknown<'n>(kind: &str, name: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    format!("no {kind} is called `{}`; {}", name.escape_debug(), Known::near(name, known))
}
