//! What can be wrong with a scenario: one line each, with the place and what would be right.

use rampmeter_units::{BadQuantity, Known, RegistryError};
use thiserror::Error;

use crate::NoPath;

/// Why a scenario cannot be used.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// The file could not be read.
    #[error("{file}: cannot be read: {error}")]
    Unreadable {
        /// Its path.
        file: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// Something in the file is wrong.
    #[error("{file}:{line}: {problem}")]
    Wrong {
        /// The file's name.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong and what would be right.
        problem: Box<Problem>,
    },
    /// An axis was given values from outside that it cannot take.
    #[error("{file}: {problem}")]
    Set {
        /// The file's name.
        file: String,
        /// What is wrong and what would be right.
        problem: Box<Problem>,
    },
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// The text is not TOML.
    #[error("not TOML: {0}")]
    Syntax(String),
    /// A key that means nothing here.
    #[error("{place} has no key `{key}`; {known}")]
    UnknownKey {
        /// What the key stands in.
        place: String,
        /// The key.
        key: String,
        /// What would be right.
        known: Known,
    },
    /// A key that must be there is not.
    #[error("{place} needs `{key}`, for example {example}")]
    MissingKey {
        /// What lacks it.
        place: String,
        /// The key.
        key: &'static str,
        /// How it could look.
        example: &'static str,
    },
    /// A value of the wrong kind.
    #[error("`{key}` is {found}; it should be {expected}")]
    WrongType {
        /// The key.
        key: String,
        /// What it is.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// A quantity that cannot be read.
    #[error("`{key}`: {error}")]
    Quantity {
        /// The key.
        key: String,
        /// What is wrong and what would be right.
        error: BadQuantity,
    },
    /// A value that can be read but makes no sense.
    #[error("{what}; {advice}")]
    Impossible {
        /// What makes no sense.
        what: String,
        /// What would.
        advice: String,
    },
    /// A name that nothing goes by.
    #[error("no {kind} is called `{name}`; {known}")]
    UnknownName {
        /// What it should name.
        kind: &'static str,
        /// The name.
        name: String,
        /// What would be right.
        known: Known,
    },
    /// A name given twice.
    #[error("there are two {kind} called `{name}`; rename one")]
    Duplicate {
        /// What it names, of which there are two: "links".
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// `"$name"` without an axis of that name.
    #[error("no axis is called `{name}`, which `\"${name}\"` stands for; {known}")]
    UndefinedAxis {
        /// The name.
        name: String,
        /// What would be right.
        known: Known,
    },
    /// An axis that changes nothing.
    #[error("axis `{name}` changes nothing; write \"${name}\" where its value belongs, or remove it")]
    UnusedAxis {
        /// The axis.
        name: String,
    },
    /// Two hosts that exchange packets and cannot.
    #[error("{0}; packets and their acknowledgements need a way each: add a link, or drop `one_way`")]
    NoPath(#[from] NoPath),
    /// The name or the settings of a controller or router are wrong.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A scheme's transport settings are wrong.
    #[error("transport: {0}")]
    Transport(String),
    /// An island's settings are wrong.
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
