//! What the registries of controllers, routers and workloads share: names, the trait of settings, errors.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use toml::Table;

use crate::{Known, settings};

/// The settings of one controller, router or workload, as in a scenario file.
pub trait Settings: Serialize + DeserializeOwned + Debug + Clone + Send + Sync + 'static {
    /// Refuses invalid values; the error names the setting and the remedy.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Things of one kind by name: each with a description, with `facts` about it, and made from its settings.
#[derive(Clone)]
pub struct Registry<T, F = ()> {
    kind: &'static str,
    entries: BTreeMap<String, Entry<T, F>>,
}

#[derive(Clone)]
struct Entry<T, F> {
    about: String,
    facts: F,
    settings: &'static [&'static str],
    make: Make<T>,
    complete: Make<Table>,
}

type Make<T> = Arc<dyn Fn(&Table) -> Result<T, String> + Send + Sync>;

impl<T, F> Registry<T, F> {
    /// An empty registry; `kind` is what it holds, for errors: "controller".
    pub fn new(kind: &'static str) -> Self {
        Self { kind, entries: BTreeMap::new() }
    }

    /// Adds what `make` makes from its settings under `name`; `about` is one line for listings.
    #[must_use]
    pub fn insert<C: Settings>(
        mut self,
        name: &str,
        about: &str,
        facts: F,
        make: impl Fn(C) -> T + Send + Sync + 'static,
    ) -> Self {
        let make = Arc::new(move |table: &Table| settings::checked(table).map(&make));
        let complete =
            |table: &Table| Table::try_from(settings::checked::<C>(table)?).map_err(|error| error.to_string());
        let (settings, complete) = (settings::names::<C>().unwrap_or_default(), Arc::new(complete));
        self.entries.insert(name.to_owned(), Entry { about: about.to_owned(), facts, settings, make, complete });
        self
    }

    /// What `name` stands for, made from `settings`.
    pub fn make(&self, name: &str, settings: &Table) -> Result<T, RegistryError> {
        (self.entry(name)?.make)(settings).map_err(|reason| RegistryError::settings(self.kind, name, reason))
    }

    /// All settings of `name`: those in `settings`, and the defaults of the others.
    pub fn complete(&self, name: &str, settings: &Table) -> Result<Table, RegistryError> {
        (self.entry(name)?.complete)(settings).map_err(|reason| RegistryError::settings(self.kind, name, reason))
    }

    fn entry(&self, name: &str) -> Result<&Entry<T, F>, RegistryError> {
        let unknown = || RegistryError::unknown(self.kind, name, self.entries.keys().map(String::as_str));
        self.entries.get(name).ok_or_else(unknown)
    }

    /// The facts about `name`.
    pub fn facts(&self, name: &str) -> Option<&F> {
        self.entries.get(name).map(|entry| &entry.facts)
    }

    /// The names of the settings of every entry, without repetitions.
    pub fn settings(&self) -> BTreeSet<&'static str> {
        self.entries.values().flat_map(|entry| entry.settings.iter().copied()).collect()
    }

    /// Every name with its description, in alphabetical order.
    pub fn list(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry.about.as_str()))
    }
}

impl<T, F> Debug for Registry<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.entries.keys()).finish()
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
