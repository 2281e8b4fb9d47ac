//! What registries of controllers and routers share: the trait of settings, and why something could not be made.

use std::fmt::Debug;

use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::Known;

/// The settings of one controller, router or workload, as a scenario file has them.
pub trait Settings: DeserializeOwned + Debug + Clone + Send + Sync + 'static {
    /// Refuses values that make no sense; the error names the setting and says what would be right.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Why a controller, a router or a workload could not be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RegistryError {
    /// The registry has no such name.
    #[error("no {kind} is called `{name}`; {known}")]
    Unknown {
        /// What was asked for: "controller".
        kind: &'static str,
        /// The unknown name.
        name: String,
        /// The names that exist.
        known: Known,
    },
    /// The settings are wrong.
    #[error("{kind} `{name}`: {reason}")]
    Settings {
        /// What was asked for: "controller".
        kind: &'static str,
        /// Its name.
        name: String,
        /// What is wrong and what would be right.
        reason: String,
    },
}

impl RegistryError {
    /// No `kind` is called `name`; `names` are those that exist.
    pub fn unknown<'n>(kind: &'static str, name: &str, names: impl IntoIterator<Item = &'n str>) -> Self {
        Self::Unknown { kind, name: name.to_owned(), known: Known::near(name, names) }
    }

    /// The settings of the `kind` called `name` are wrong.
    pub fn settings(kind: &'static str, name: &str, reason: String) -> Self {
        Self::Settings { kind, name: name.to_owned(), reason }
    }
}
