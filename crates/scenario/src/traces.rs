//! The traces of capacity that a scenario names: files beside it, read once, so that all its runs have the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use rampmeter_router::capacity::Trace;
use sha2::{Digest, Sha256};

use crate::beside::Beside;

/// The maximum size of a trace's file.
const MAX_BYTES: u64 = 64_000_000;

#[derive(Debug, Clone)]
pub(crate) struct Traces {
    beside: Beside,
    read: Arc<Mutex<BTreeMap<String, Found>>>,
}

/// A trace and the hash of its file, or why there is none.
type Found = Result<(Arc<Trace>, String), String>;

impl Traces {
    /// The traces among the files `beside` a scenario.
    pub(crate) fn new(beside: Beside) -> Self {
        Self { beside, read: Arc::default() }
    }

    /// The text of the file called `name`, if it can be used.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        Some(String::from_utf8_lossy(&self.beside.read(name, MAX_BYTES).ok()?).into_owned())
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
        let found = open(&self.beside, name);
        read.insert(name.to_owned(), found.clone());
        found
    }
}

fn open(beside: &Beside, name: &str) -> Found {
    let shown = beside.path(name);
    let bytes = beside.read(name, MAX_BYTES).map_err(|problem| {
        let advice = "name a file of mahimahi's format, relative to the scenario; a long trace can be cut, it repeats";
        format!("trace {shown} cannot be read: {problem}; {advice}")
    })?;
    let trace = Trace::parse(&String::from_utf8_lossy(&bytes));
    let trace = trace.map_err(|error| format!("trace {shown}:{}: {}", error.line, error.problem))?;
    Ok((Arc::new(trace), format!("{:x}", Sha256::digest(&bytes))))
}
