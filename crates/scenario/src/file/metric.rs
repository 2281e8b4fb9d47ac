//! `[metrics]`: values of a run that the scenario defines, by the values that every run has.

use std::fmt::Display;

use crate::ScenarioError;
use crate::document::{Item, Place};
use crate::error::Result;

/// A metric of a scenario's own, not yet read: what it means is the business of those who compute it.
#[derive(Debug, Clone)]
pub struct MetricText {
    /// Its name.
    pub name: String,
    /// How it is computed.
    pub text: String,
    place: Place,
}

impl MetricText {
    /// The entries of `[metrics]`, in the order of the file.
    pub(crate) fn read_all(item: &Item<'_>) -> Result<Vec<Self>> {
        let read =
            |item: Item<'_>| Ok(Self { name: item.key.to_owned(), text: item.text()?.to_owned(), place: item.place() });
        item.section("[metrics]")?.items().map(read).collect()
    }

    /// An error at its place.
    pub fn error(&self, problem: impl Display) -> ScenarioError {
        self.place.error(format!("the metric `{}`: {problem}", self.name))
    }
}
