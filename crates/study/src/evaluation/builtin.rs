//! The questions and scenarios that the program has with it: the directory `studies/rfc9743`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::StudyError;
use crate::journal::write_atomically;

macro_rules! files {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../../studies/rfc9743/", $name)))),*]
    };
}

/// The files and their contents.
const FILES: &[(&str, &str)] = files! {
    "alone.toml"
    "aqm.toml"
    "beside.toml"
    "beside_aqm.toml"
    "constrained.toml"
    "crowd.toml"
    "data_center.toml"
    "fairness.toml"
    "long_beside_short.toml"
    "misbehaving.toml"
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
};

/// Writes the questions, the scenarios and the schemes into `directory`, and returns the path of the questions.
pub fn write_builtin(directory: &Path) -> Result<PathBuf, StudyError> {
    fs::create_dir_all(directory).map_err(|error| StudyError::file(directory, "made", &error))?;
    for (name, content) in FILES {
        write_atomically(&directory.join(name), content.as_bytes())?;
    }
    Ok(directory.join("questions.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_study_is_built_in() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/rfc9743");
        let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name != "claims.toml" && name != "measured.json").collect();
        names.sort();
        assert_eq!(names, FILES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }
}
