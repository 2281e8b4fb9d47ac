//! What the threads of a server share: its options, and limits that hold for the server as a whole. No packet waits for
//! a lock here: connections take them when they begin, for larger buffers, and when they end.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rampmeter_net::{Directory, HistoryFile};
use rampmeter_session::shares::Shares;

use super::admission::Admission;
use super::options::ServeOptions;
use crate::hashes::Hashes;

/// The maximum number of threads that hash at once what clients have. A network (24 bits of IPv4, 48 of IPv6) has at most
/// four of them, and a client (an IPv4 address, 64 bits of IPv6) three: a short request can ask for much hashing.
const MAX_HASHING: u64 = 5;

/// The maximum time for connections that go on when the server is to end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);

/// What threads share.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) options: ServeOptions,
    pub(super) directory: Arc<Directory>,
    pub(super) hashes: Arc<Hashes>,
    pub(super) admission: Admission,
    pub(super) histories: Option<HistoryFile>,
    /// Bytes of memory for larger send buffers than each connection has.
    memory: Mutex<Shares>,
    /// The threads that check what clients have.
    hashing: Mutex<Shares>,
    /// Whether a thread has ended.
    has_ended: AtomicBool,
    /// Connections of all threads.
    pub(super) connections: AtomicUsize,
    /// When the server began to end, once it does.
    drained_since: OnceLock<Instant>,
}

impl Common {
    pub(super) fn new(
        threads: usize,
        directory: Directory,
        histories: Option<HistoryFile>,
        options: ServeOptions,
    ) -> Self {
        Self {
            directory: Arc::new(directory),
            hashes: Arc::default(),
            admission: Admission::new(threads, options.max_connections(), options.max_clients),
            histories,
            memory: Mutex::new(Shares::new(options.memory.as_u64())),
            hashing: Mutex::new(Shares::new(MAX_HASHING)),
            has_ended: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            drained_since: OnceLock::new(),
            options,
        }
    }

    pub(super) fn memory(&self) -> MutexGuard<'_, Shares> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn hashing(&self) -> MutexGuard<'_, Shares> {
        self.hashing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All threads are to end.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    /// Whether the threads are to end.
    pub(super) fn is_ending(&self) -> bool {
        self.options.stop.load(Ordering::Relaxed) || self.has_ended.load(Ordering::Relaxed) || self.is_drained()
    }

    /// Whether no further connections are served.
    pub(super) fn is_draining(&self) -> bool {
        self.options.drain.load(Ordering::Relaxed)
    }

    fn is_drained(&self) -> bool {
        let is_late = || self.drained_since.get_or_init(Instant::now).elapsed() >= DRAIN_TIMEOUT;
        self.is_draining() && (is_late() || self.connections.load(Ordering::Relaxed) == 0)
    }
}
