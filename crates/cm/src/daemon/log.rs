//! What the daemon logs: a line for each client, never one for each packet.

use rampmeter_units::{Duration, Time};
use tracing::info;

use crate::error::Error;
use crate::handshake::Peer;

/// A line about refused clients is written at most once in this time: a program may try again and again.
const INTERVAL: Duration = Duration::from_secs(1);

/// Counts refused clients, and logs some of them.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) refused_clients: u64,
    refused_at: Option<Time>,
}

impl Log {
    pub(super) fn refused(&mut self, now: Time, Peer { pid, uid }: Peer, error: Error) {
        let why = if error == Error::Denied { "it belongs to another user" } else { "there is no place for it" };
        self.refused_clients += 1;
        if self.refused_at.is_none_or(|at| now.since(at) >= INTERVAL) {
            self.refused_at = Some(now);
            info!(pid, uid, %why, refused_so_far = self.refused_clients, "client refused");
        }
    }
}

pub(super) fn connected(Peer { pid, uid }: Peer, client: u32) {
    info!(pid, uid, client, "client connected");
}

pub(super) fn disconnected(Peer { pid, uid }: Peer, client: u32) {
    info!(pid, uid, client, "client disconnected");
}
