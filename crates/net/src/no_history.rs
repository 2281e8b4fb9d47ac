//! What stands in for history files in a build without the feature `history`.

use std::convert::Infallible;
use std::path::Path;

use rampmeter_control::History;
use rampmeter_manager::Destination;
use thiserror::Error;

/// Why a file cannot keep histories.
#[derive(Debug, Error)]
#[error("this build has no support for --history: omit it, or rebuild with `--features history`")]
pub struct HistoryError;

/// A history file: there is none in this build.
#[derive(Debug)]
pub struct HistoryFile(Infallible);

/// What was in a history file.
#[derive(Debug)]
pub struct Remembered {
    /// Each destination's history.
    pub histories: Vec<(Destination, History)>,
    /// Where the file was put because it was damaged, if it was.
    pub renamed: Option<std::path::PathBuf>,
}

impl HistoryFile {
    /// Refuses.
    pub fn open(_path: &Path) -> Result<(Self, Remembered), HistoryError> {
        Err(HistoryError)
    }

    /// Keeps what was learnt of `destination`.
    pub fn keep(&self, _destination: Destination, _history: History) {
        match self.0 {}
    }
}
