//! Places that clients share: for transfers, and for threads that hash what clients have.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rampmeter_session::shares::Shares;
use tokio::sync::Notify;

/// Places. A network has at most four fifths of them, and a client four fifths of those.
#[derive(Debug)]
pub(super) struct Places {
    shares: Mutex<Shares>,
    freed: Notify,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    of: Arc<Places>,
    ip: IpAddr,
}

impl Places {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { shares: Mutex::new(Shares::new(max as u64)), freed: Notify::new() })
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a client, once there is one.
    pub(super) async fn take(self: &Arc<Self>, ip: IpAddr) -> Place {
        loop {
            let freed = self.freed.notified();
            if self.shares().take(ip, 1) {
                return Place { of: Arc::clone(self), ip };
            }
            freed.await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.of.shares().give_back(self.ip, 1);
        // All that wait look: whose turn it is depends on what each of them has.
        self.of.freed.notify_waiters();
    }
}
