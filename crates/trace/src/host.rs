//! The trace of a host on a real network: a directory with a file for each of its connections.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rampmeter_units::{Bytes, Time};

use crate::directory::Directory;
use crate::event::Trace;

/// The trace of a host, shared by its threads.
#[derive(Debug, Clone)]
pub struct HostTrace(Arc<Mutex<Directory>>);

impl HostTrace {
    /// A trace in the directory at `path`, which is created; its files have about `limit` at most, together: then the
    /// oldest ones are removed.
    pub fn new(path: &Path, limit: Bytes) -> io::Result<Self> {
        Ok(Self(Arc::new(Mutex::new(Directory::of_host(path, limit)?))))
    }

    /// What hosts write to.
    pub fn trace(&self) -> Trace {
        Trace::new(&self.0)
    }

    /// A new connection, with the host of this name. Returns its index in the trace, with which its files begin; `None`
    /// if the trace cannot be written.
    pub fn add(&self, peer: &str, description: String) -> Option<u32> {
        self.directory().add_connection(peer, description)
    }

    /// Ends all files. Returns when the oldest one begins, if earlier ones were removed because the limit was reached.
    pub fn finish(&self) -> io::Result<Option<Time>> {
        self.directory().finish()
    }

    /// One that panicked in another thread goes on: a trace must not end a transfer.
    fn directory(&self) -> MutexGuard<'_, Directory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
