//! The questionnaires that the program has with it: directories of `studies`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::StudyError;
use crate::journal::write_atomically;

/// A questionnaire with its scenarios and schemes.
#[derive(Debug, Clone, Copy)]
pub struct Suite {
    /// Its name, that of its directory.
    pub name: &'static str,
    /// The names of the files and their contents.
    files: &'static [(&'static str, &'static str)],
}

/// The questions of RFC 9743, then conformance suites: is a controller what its name says?
pub const SUITES: [Suite; 4] = include!(concat!(env!("OUT_DIR"), "/suites.rs"));

impl Suite {
    /// The suite called `name`.
    pub fn called(name: &str) -> Option<Self> {
        SUITES.into_iter().find(|suite| suite.name == name)
    }

    /// Writes the questions, the scenarios and the schemes into `directory`, and returns the path of the questions.
    pub fn write(self, directory: &Path) -> Result<PathBuf, StudyError> {
        fs::create_dir_all(directory).map_err(|error| StudyError::file(directory, "made", &error))?;
        for (name, content) in self.files {
            write_atomically(&directory.join(name), content.as_bytes())?;
        }
        Ok(directory.join("questions.toml"))
    }
}
