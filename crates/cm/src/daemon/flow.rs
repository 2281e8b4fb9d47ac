//! The daemon's state of one flow.

use std::collections::VecDeque;
use std::net::SocketAddr;

use rampmeter_manager::{Destination, FlowId, Owner};
use rampmeter_units::{Bytes, Duration, Time};

/// A grant without an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingGrant {
    /// The packet's number at the manager.
    pub(super) number: u64,
    pub(super) bytes: Bytes,
    /// The time at which it is revoked.
    pub(super) revoked_at: Time,
}

/// The source of feedback on the flow's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FeedbackSource {
    /// None so far.
    Unknown,
    /// The receiver's Congestion Manager, if there is one.
    Agent,
    /// The flow's process, or no source at all.
    Process,
}

#[derive(Debug)]
pub(super) struct DaemonFlow {
    /// The flow's process, and the process's id of the flow.
    pub(super) client: u32,
    pub(super) id: u32,
    /// The owner of the process.
    pub(super) owner: Owner,
    pub(super) manager_id: FlowId,
    pub(super) destination: Destination,
    pub(super) to: SocketAddr,
    /// The maximum size of its packets, which may be less than that of its macroflow.
    pub(super) mtu: Bytes,
    /// Requests without a grant so far.
    pub(super) requests: u32,
    /// Grants without an answer, oldest first.
    pub(super) grants: VecDeque<PendingGrant>,
    /// The number of grants in a row that were revoked.
    pub(super) unanswered: u32,
    pub(super) feedback_source: FeedbackSource,
    /// The flow's process sends from a socket of its own, with headers.
    pub(super) own_socket: bool,
    /// Bytes sent that are neither delivered nor lost, except those that the agent counts. A report of more bytes than
    /// this is cut to it.
    pub(super) in_flight: Bytes,
    /// The time since which bytes are in flight without a report.
    pub(super) unreported_since: Option<Time>,
    /// Bytes that were removed after the feedback timeout and may still be reported.
    pub(super) late_reports: Bytes,
    /// Bytes that the agent counts: application bytes, and bytes of whole packets.
    pub(super) agent_bytes: (u64, u64),
    /// Datagrams that wait for a grant (`cm_send`), and their total bytes.
    pub(super) queue: VecDeque<Vec<u8>>,
    pub(super) queued: u64,
    pub(super) last_active: Time,
    /// The flow reported persistent loss, and nothing delivered since then.
    pub(super) persistent_loss: bool,
}

impl DaemonFlow {
    /// Whether the flow waits for permission to send.
    pub(super) fn wants_to_send(&self) -> bool {
        self.requests > 0 || !self.queue.is_empty()
    }

    /// When the flow's timer is due, with the time after which an idle flow is closed and the feedback timeout.
    pub(super) fn deadline(&self, idle_timeout: Duration, feedback_timeout: Duration) -> Time {
        let end = self.last_active + idle_timeout;
        let end = self.unreported_since.map_or(end, |since| end.min(since + feedback_timeout));
        self.grants.front().map_or(end, |grant| grant.revoked_at.min(end))
    }

    /// Whether the agent counts the packets that the process sends from a socket of its own.
    pub(super) fn has_own_headers(&self) -> bool {
        self.own_socket && self.feedback_source == FeedbackSource::Agent
    }

    /// Bytes in flight that do not belong to grants without an answer.
    pub(super) fn sent_in_flight(&self) -> Bytes {
        self.grants.iter().fold(self.in_flight, |left, grant| left.saturating_sub(grant.bytes))
    }
}
