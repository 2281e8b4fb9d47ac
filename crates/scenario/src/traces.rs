//! The traces of capacity that a scenario names: files beside it, read once, so that all its runs have the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rampmeter_router::capacity::Trace;
use sha2::{Digest, Sha256};

/// The maximum size of a trace's file.
const MAX_BYTES: u64 = 64_000_000;

#[derive(Debug, Clone, Default)]
pub(crate) struct Traces {
    /// The directory of the scenario's file.
    directory: PathBuf,
    read: Arc<Mutex<BTreeMap<String, Found>>>,
}

/// A trace and the hash of its file, or why there is none.
type Found = Result<(Arc<Trace>, String), String>;

impl Traces {
    /// Traces beside the scenario `file`.
    pub(crate) fn beside(file: &str) -> Self {
        Self { directory: Path::new(file).parent().unwrap_or(Path::new("")).to_owned(), read: Arc::default() }
    }

    /// The trace in the file called `name`, relative to the scenario.
    pub(crate) fn get(&self, name: &str) -> Result<Arc<Trace>, String> {
        self.find(name).map(|(trace, _)| trace)
    }

    /// The hashes of the files called `names`; empty for those that cannot be used.
    pub(crate) fn hashes(&self, names: &BTreeSet<String>) -> impl Iterator<Item = (String, String)> {
        names.iter().map(|name| (name.clone(), self.find(name).map_or_else(|_| String::new(), |(_, hash)| hash)))
    }

    fn find(&self, name: &str) -> Found {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = read.get(name) {
            return found.clone();
        }
        let found = open(&self.directory.join(name));
        read.insert(name.to_owned(), found.clone());
        found
    }
}

fn open(path: &Path) -> Found {
    let shown = path.display();
    let unreadable = |error| {
        let advice = "name a file of mahimahi's format, relative to the scenario";
        format!("trace {shown} cannot be read: {error}; {advice}")
    };
    if path.metadata().map_err(|error| unreadable(error.to_string()))?.is_file() {
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unreadable(error.to_string()))?;
        if bytes.len() as u64 > MAX_BYTES {
            let limit = MAX_BYTES / 1_000_000;
            return Err(format!("trace {shown} is larger than {limit} MB; cut it, it repeats anyway"));
        }
        let trace = Trace::parse(&String::from_utf8_lossy(&bytes));
        let trace = trace.map_err(|error| format!("trace {shown}:{}: {}", error.line, error.problem))?;
        Ok((Arc::new(trace), format!("{:x}", Sha256::digest(&bytes))))
    } else {
        Err(unreadable("it is not a file".into()))
    }
}
