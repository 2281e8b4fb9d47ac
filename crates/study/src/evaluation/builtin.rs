//! The questionnaires that the program has with it: directories of `studies`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::StudyError;
use crate::journal::write_atomically;

macro_rules! files {
    ($suite:literal: $($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../../studies/", $suite, "/", $name)))),*]
    };
}

/// A questionnaire with its scenarios and schemes.
#[derive(Debug, Clone, Copy)]
pub struct Suite {
    /// Its name, that of its directory.
    pub name: &'static str,
    /// The names of the files and their contents.
    files: &'static [(&'static str, &'static str)],
}

/// The questions of RFC 9743, then conformance suites: is a controller what its name says?
pub const SUITES: [Suite; 3] = [
    Suite {
        name: "rfc9743",
        files: files! { "rfc9743":
            "alone.toml"
            "aqm.toml"
            "beside.toml"
            "beside_aqm.toml"
            "constrained.toml"
            "crowd.toml"
            "data_center.toml"
            "deep_alone.toml"
            "deep_crowd.toml"
            "fairness.toml"
            "fall.toml"
            "frames.toml"
            "jump.toml"
            "long_beside_short.toml"
            "misbehaving.toml"
            "outage.toml"
            "own_call.toml"
            "policer.toml"
            "questions.toml"
            "random_loss.toml"
            "real_time.toml"
            "reordering.toml"
            "route.toml"
            "satellite.toml"
            "satellite_transfers.toml"
            "schemes.toml"
            "short.toml"
            "short_beside_long.toml"
            "silence.toml"
            "start.toml"
            "transients.toml"
            "tunnel.toml"
            "wireless.toml"
        },
    },
    Suite {
        name: "cubic",
        files: files! { "cubic":
            "beside_reno.toml"
            "outage.toml"
            "questions.toml"
            "regular_losses.toml"
            "schemes.toml"
            "start.toml"
            "two_flows.toml"
        },
    },
    Suite {
        name: "bbr",
        files: files! { "bbr":
            "aggregation.toml"
            "beside_cubic.toml"
            "changes.toml"
            "long_lived.toml"
            "questions.toml"
            "random_loss.toml"
            "schemes.toml"
            "start.toml"
            "two_flows.toml"
        },
    },
];

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_a_suite_is_built_in() {
        for Suite { name, files } in SUITES {
            let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies").join(name);
            let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<String> =
                names.filter(|name| name != "claims.toml" && name != "measured.json").collect();
            names.sort();
            assert_eq!(names, files.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        }
    }
}
