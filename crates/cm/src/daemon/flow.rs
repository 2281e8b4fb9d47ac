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

/// Who says what became of its packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fed {
    /// Nobody yet.
    Undecided,
    /// The receiver's Congestion Manager, if there is one.
    ByAgent,
    /// Its process, if anybody.
    ByItself,
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
    pub(super) fed: Fed,
    /// Sent and not known to have arrived or to be lost, but for what the agent keeps the books of. What a flow says of more
    /// than this is not believed.
    pub(super) in_flight: Bytes,
    /// Since when nothing has been said of what is outstanding.
    pub(super) unreported: Option<Time>,
    /// Was given back after long silence, and may be told of yet.
    pub(super) late: Bytes,
    /// Of what the agent keeps the books of: bytes of the process's, and of whole packets.
    pub(super) by_agent: (u64, u64),
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

    /// When somebody must look after it, who closes it after that `silence` and waits so long for news (`patience`).
    pub(super) fn deadline(&self, silence: Duration, patience: Duration) -> Time {
        let end = self.last_heard + silence;
        let end = self.unreported.map_or(end, |since| end.min(since + patience));
        self.held.front().map_or(end, |held| held.until.min(end))
    }

    /// Outstanding beyond grants that have no answer.
    pub(super) fn on_its_way(&self) -> Bytes {
        self.held.iter().fold(self.in_flight, |left, held| left.saturating_sub(held.bytes))
    }
}
