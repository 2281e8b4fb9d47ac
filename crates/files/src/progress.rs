//! What a client reports while it moves files.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use rampmeter_session::PublicKey;
use rampmeter_units::Duration;

/// Something that happened to a transfer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Progress {
    /// Bytes were moved.
    Moved {
        /// The bytes so far of all files, those of earlier transfers included.
        bytes: u64,
        /// Their size, if it is known.
        total: Option<u64>,
        /// The smoothed round-trip time.
        rtt: Duration,
        /// The fraction of the sender's packets that did not arrive.
        loss: f64,
    },
    /// The server was not known, and its key is stored now, whatever follows.
    FirstContact {
        /// The server's address.
        server: SocketAddr,
        /// Its public key.
        key: PublicKey,
    },
    /// An attempt failed.
    Failed {
        /// Why.
        reason: String,
        /// The time until the next attempt.
        wait: Duration,
    },
}

/// Receives the progress of a transfer, many times a second, in the thread that moves the files: it should not block.
#[derive(Clone)]
pub struct ProgressHandler(Arc<dyn Fn(&Progress) + Send + Sync>);

impl ProgressHandler {
    /// Calls `handle`.
    pub fn new(handle: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        Self(Arc::new(handle))
    }

    pub(crate) fn call(&self, progress: &Progress) {
        (self.0)(progress);
    }
}

impl fmt::Debug for ProgressHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProgressHandler").finish()
    }
}
