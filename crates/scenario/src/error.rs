//! The errors of scenario files. Each is one line with the place and the remedy.

use rampmeter_units::{BadQuantity, Known, RegistryError};
use thiserror::Error;

use crate::NoPath;

/// An error in a scenario.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// The file could not be read.
    #[error("{file}: cannot be read: {error}")]
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
        problem: Box<Problem>,
    },
    /// Values set from outside, for example on the command line, are invalid for an axis.
    #[error("{file}: {problem}")]
    Set {
        /// The file's name.
        file: String,
        /// The error and its remedy.
        problem: Box<Problem>,
    },
}

/// An error and its remedy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// The text is not TOML.
    #[error("not TOML: {0}")]
    Syntax(String),
    /// An unknown key.
    #[error("{place} has no key `{key}`; {known}")]
    UnknownKey {
        /// The table that has the key.
        place: String,
        /// The key.
        key: String,
        /// The known or similar names.
        known: Known,
    },
    /// A required key is missing.
    #[error("{place} needs `{key}`, for example {example}")]
    MissingKey {
        /// The table that needs it.
        place: String,
        /// The key.
        key: &'static str,
        /// An example.
        example: &'static str,
    },
    /// A value of the wrong type.
    #[error("`{key}` is {found}; it should be {expected}")]
    WrongType {
        /// The key.
        key: String,
        /// The value found.
        found: String,
        /// The type or range expected.
        expected: String,
    },
    /// A quantity that cannot be parsed.
    #[error("`{key}`: {error}")]
    Quantity {
        /// The key.
        key: String,
        /// The error and its remedy.
        error: BadQuantity,
    },
    /// A value that can be parsed but is invalid.
    #[error("{what}; {advice}")]
    Impossible {
        /// What is invalid.
        what: String,
        /// What to write instead.
        advice: String,
    },
    /// A name that is not defined.
    #[error("no {kind} is called `{name}`; {known}")]
    UnknownName {
        /// The kind of thing that it should name.
        kind: &'static str,
        /// The name.
        name: String,
        /// The known or similar names.
        known: Known,
    },
    /// A name given twice.
    #[error("there are two {kind} called `{name}`; rename one")]
    Duplicate {
        /// The kind of thing, in the plural: "links".
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// `"$name"` without an axis of that name.
    #[error("no axis is called `{name}`, which `\"${name}\"` stands for; {known}")]
    UndefinedAxis {
        /// The name.
        name: String,
        /// The known or similar names.
        known: Known,
    },
    /// An axis that no placeholder uses.
    #[error("axis `{name}` changes nothing; write \"${name}\" where its value belongs, or remove it")]
    UnusedAxis {
        /// The axis.
        name: String,
    },
    /// Two hosts exchange packets but no path connects them.
    #[error("{0}; packets and their acknowledgements each need a path: add a link, or remove `one_way`")]
    NoPath(#[from] NoPath),
    /// The name or the settings of a controller or router are invalid.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A scheme's transport settings are invalid.
    #[error("transport: {0}")]
    Transport(String),
    /// An island's settings are invalid.
    #[error("island settings: {0}")]
    Island(String),
}

impl Problem {
    pub(crate) fn impossible(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::Impossible { what: what.into(), advice: advice.into() }
    }

    pub(crate) fn unknown<'n>(kind: &'static str, name: &str, known: impl IntoIterator<Item = &'n str>) -> Self {
        Self::UnknownName { kind, name: name.escape_debug().to_string(), known: Known::near(name, known) }
    }
}
