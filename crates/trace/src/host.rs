//! The trace of a host on a real network: a directory with a file for each of its connections.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rampmeter_units::{Bytes, Time};

use crate::directory::{Directory, Selection};
use crate::event::Trace;
use crate::qlog::About;

/// The trace of a host, shared by its threads.
#[derive(Debug, Clone)]
pub struct HostTrace(Arc<Mutex<Directory>>);

impl HostTrace {
    /// A trace in the directory at `path`, which is created; its files have about `limit` at most, together.
    pub fn new(path: &Path, limit: Bytes) -> io::Result<Self> {
        let mut directory = Directory::new(path, Selection::default(), limit)?;
        directory.is_of_host = true;
        Ok(Self(Arc::new(Mutex::new(directory))))
    }

    /// What hosts write to.
    pub fn trace(&self) -> Trace {
        Trace::new(&self.0)
    }

    /// A new connection, with the host of this name. Returns its index in the trace, with which its files begin; `None`
    /// once the trace has ended.
    pub fn add(&self, peer: &str, description: String) -> Option<u32> {
        let mut directory = self.directory();
        if !directory.is_open() {
            return None;
        }
        let number = directory.flows();
        let name: String = peer.chars().map(|c| if c.is_alphanumeric() || c == '.' { c } else { '_' }).collect();
        Some(directory.add_flow(format!("{number}-{name}"), About { title: format!("{number}: {peer}"), description }))
    }

    /// Ends all files. Returns when they were cut because the limit was reached.
    pub fn finish(&self) -> io::Result<Option<Time>> {
        self.directory().finish()
    }

    /// One that panicked in another thread goes on: a trace must not end a transfer.
    fn directory(&self) -> MutexGuard<'_, Directory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
