//! The files that a scenario names, relative to its own: traces of capacity, schemes that several scenarios share.
//!
//! They are beside the scenario on disk, or were carried to this machine with it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where the files are.
#[derive(Debug, Clone)]
pub(crate) enum Beside {
    /// In this directory.
    Directory(PathBuf),
    /// In memory, by the names in the scenario.
    Carried(BTreeMap<String, String>),
}

impl Beside {
    /// Files beside the scenario `file`.
    pub(crate) fn file(file: &str) -> Self {
        Self::Directory(Path::new(file).parent().unwrap_or(Path::new("")).to_owned())
    }

    /// The path of `name`, for messages.
    pub(crate) fn path(&self, name: &str) -> String {
        match self {
            Self::Directory(directory) => directory.join(name).display().to_string(),
            Self::Carried(_) => name.to_owned(),
        }
    }

    /// The content of `name`, which is at most `max` bytes long. An error is the reason, without the name.
    pub(crate) fn read(&self, name: &str, max: u64) -> Result<Vec<u8>, String> {
        match self {
            Self::Carried(files) => files.get(name).map(|text| text.clone().into()).ok_or("it was not carried".into()),
            Self::Directory(directory) => read(&directory.join(name), max),
        }
    }
}

fn read(path: &Path, max: u64) -> Result<Vec<u8>, String> {
    if !path.metadata().map_err(|error| error.to_string())?.is_file() {
        return Err("it is not a file".into());
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(max + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > max {
        return Err(format!("it is larger than {} MB", max / 1_000_000));
    }
    Ok(bytes)
}
