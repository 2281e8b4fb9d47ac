//! What the threads of a server share: its options, and limits that hold for the server as a whole. No packet waits for
//! a lock here: connections take them when they begin, for each piece of a file and when they end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rampmeter_session::shares::Shares;
use rampmeter_units::{Bytes, Time};

use super::admission::Admission;
use super::budget::Budgets;
use super::options::ServeOptions;
use super::quota::Quota;
use super::uploads::Uploads;
use crate::files::directory::Directory;
use crate::files::error::NetError;
use crate::files::hashes::Hashes;
use crate::history::HistoryFile;

/// What threads share.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) options: ServeOptions,
    pub(super) directory: Arc<Directory>,
    pub(super) hashes: Arc<Hashes>,
    pub(super) admission: Admission,
    pub(super) uploads: Arc<Uploads>,
    pub(super) histories: Option<HistoryFile>,
    /// Whether there is a limit on the rate of all clients or of each.
    has_rates: bool,
    budgets: Mutex<Budgets>,
    quota: Mutex<Quota>,
    /// Bytes of memory for larger receive windows and send buffers than each connection has.
    memory: Mutex<Shares>,
    /// Whether a thread has ended.
    has_ended: AtomicBool,
}

impl Common {
    pub(super) fn new(
        now: Time,
        threads: usize,
        directory: Directory,
        histories: Option<HistoryFile>,
        options: ServeOptions,
    ) -> Result<Self, NetError> {
        let bad_directory = |reason| NetError::BadDirectory(options.directory.clone(), reason);
        let (max_size, max_total) = (options.max_size.map(Bytes::as_u64), options.quota.map(Bytes::as_u64));
        let quota = Quota::new(&options.directory, max_size, max_total).map_err(bad_directory)?;
        Ok(Self {
            directory: Arc::new(directory),
            hashes: Arc::default(),
            admission: Admission::new(threads, options.max_connections(), options.max_clients),
            uploads: Arc::default(),
            histories,
            has_rates: options.rate.or(options.client_rate).or(options.network_rate).is_some(),
            budgets: Mutex::new(Budgets::new(now, &options)),
            quota: Mutex::new(quota),
            memory: Mutex::new(Shares::new(options.memory.as_u64())),
            has_ended: AtomicBool::new(false),
            options,
        })
    }

    /// The budgets of all clients.
    pub(super) fn budgets(&self) -> MutexGuard<'_, Budgets> {
        self.budgets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, if they limit the bytes that are sent and received.
    pub(super) fn rates(&self) -> Option<MutexGuard<'_, Budgets>> {
        self.has_rates.then(|| self.budgets())
    }

    pub(super) fn quota(&self) -> MutexGuard<'_, Quota> {
        self.quota.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn memory(&self) -> MutexGuard<'_, Shares> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All threads are to end.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    /// Whether the threads are to end.
    pub(super) fn is_ending(&self) -> bool {
        self.options.stop.load(Ordering::Relaxed) || self.has_ended.load(Ordering::Relaxed)
    }
}
