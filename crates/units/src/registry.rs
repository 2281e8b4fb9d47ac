//! Common parts of the registries of controllers, routers and workloads: the trait of settings, and errors.

use std::fmt::Debug;

use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::Known;

/// The settings of one controller, router or workload, as in a scenario file.
pub trait Settings: DeserializeOwned + Debug + Clone + Send + Sync + 'static {
    /// Refuses invalid values; the error names the setting and the remedy.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Why a controller, a router or a workload could not be created.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RegistryError {
    /// The registry has no such name.
    #[error("no {kind} is called `{name}`; {known}")]
    Unknown {
        /// The kind of registry: "controller".
        kind: &'static str,
        /// The unknown name.
        name: String,
        /// The names that exist.
        known: Known,
    },
    /// The settings are invalid.
    #[error("{kind} `{name}`: {reason}")]
    Settings {
        /// The kind of registry: "controller".
        kind: &'static str,
        /// Its name.
        name: String,
        /// The error and its remedy.
        reason: String,
    },
}

impl RegistryError {
    /// The error that no `kind` is called `name`; `names` are those that exist.
    pub fn unknown<'n>(kind: &'static str, name: &str, names: impl IntoIterator<Item = &'n str>) -> Self {
        Self::Unknown { kind, name: name.to_owned(), known: Known::near(name, names) }
    }

    /// The error that the settings of the `kind` called `name` are invalid.
    pub fn settings(kind: &'static str, name: &str, reason: String) -> Self {
        Self::Settings { kind, name: name.to_owned(), reason }
    }
}
