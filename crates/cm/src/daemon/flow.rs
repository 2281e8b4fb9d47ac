//! What the daemon knows of one flow of one process.

use std::collections::VecDeque;
use std::net::SocketAddr;

use rampmeter_manager::{Destination, FlowId};
use rampmeter_units::{Bytes, Duration, Time};

/// A grant that has not been answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) bytes: Bytes,
    /// When it is taken back.
    pub(super) until: Time,
}

#[derive(Debug)]
pub(super) struct Flow {
    /// Its process, and what that process calls it.
    pub(super) client: u32,
    pub(super) id: u32,
    pub(super) manager_id: FlowId,
    pub(super) destination: Destination,
    pub(super) to: SocketAddr,
    /// Requests that no grant has come for.
    pub(super) wanted: u32,
    /// Grants that no answer has come for, oldest first.
    pub(super) held: VecDeque<Held>,
    /// Grants in a row that were taken back.
    pub(super) ignored: u32,
    /// Sent and not known to have arrived or to be lost. What a flow says of more than this is not believed.
    pub(super) outstanding: Bytes,
    /// Datagrams that wait for a grant (`cm_send`), and their bytes.
    pub(super) queue: VecDeque<Vec<u8>>,
    pub(super) queued: u64,
    pub(super) last_heard: Time,
    /// It reported persistent loss, and since then nothing that arrived.
    pub(super) silent: bool,
}

impl Flow {
    /// Whether it has something to send.
    pub(super) fn asks(&self) -> bool {
        self.wanted > 0 || !self.queue.is_empty()
    }

    /// When somebody must look after it.
    pub(super) fn deadline(&self, silence: Duration) -> Time {
        let end = self.last_heard + silence;
        self.held.front().map_or(end, |held| held.until.min(end))
    }
}
