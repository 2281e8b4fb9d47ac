//! All errors of one reading of a file.
//!
//! The reader goes on after an error in a table or a value. What it could not read is *lost*: an error about its name
//! would only repeat the first one.

use std::collections::HashSet;

use crate::error::{Result, ScenarioError};

/// The errors found so far.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    found: Vec<ScenarioError>,
    lost: HashSet<String>,
    /// Whether something without a name is lost, which could be anything.
    lost_all: bool,
    /// Places with a placeholder that could not be filled, as in messages.
    unfilled: Vec<String>,
}

impl Errors {
    /// The value, or the error for later. An error that was found before counts once.
    pub(crate) fn keep<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    pub(crate) fn add(&mut self, error: ScenarioError) {
        let text = error.to_string();
        let is_unfilled = self.unfilled.iter().any(|place| text.starts_with(place));
        if !is_unfilled && self.found.iter().all(|known| known.to_string() != text) {
            self.found.push(error);
        }
    }

    /// Leaves out later errors at this place of a placeholder that could not be filled.
    pub(crate) fn unfilled(&mut self, place: String) {
        self.unfilled.push(place);
    }

    /// Whether a placeholder could not be filled.
    pub(crate) fn has_unfilled(&self) -> bool {
        !self.unfilled.is_empty()
    }

    /// Remembers that what is called `name` could not be read.
    pub(crate) fn lose(&mut self, name: Option<&str>) {
        match name {
            Some(name) => drop(self.lost.insert(name.to_owned())),
            None => self.lost_all = true,
        }
    }

    /// Whether what is called `name` could not be read.
    pub(crate) fn is_lost(&self, name: &str) -> bool {
        self.lost_all || self.lost.contains(name)
    }

    /// Whether something could not be read.
    pub(crate) fn has_lost(&self) -> bool {
        self.lost_all || !self.lost.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The first error, or the result of the reading.
    pub(crate) fn or<T>(self, read: Result<T>) -> Result<T> {
        self.found.into_iter().next().map_or(read, Err)
    }

    /// All errors, those of a file in the order of its lines.
    pub(crate) fn into_sorted(mut self) -> Vec<ScenarioError> {
        self.found.sort_by_cached_key(ScenarioError::place);
        self.found
    }
}
