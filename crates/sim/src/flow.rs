//! A flow: its application and its two ends.

use rampmeter_manager::FlowId;
use rampmeter_transport::{ConnectionId, Statistics};
use rampmeter_units::{Bytes, Duration};
use rampmeter_workload::{AnyApplication, End, Report};

use crate::paths::PathId;

/// One end of a flow.
#[derive(Debug)]
pub(crate) struct FlowEnd {
    /// The index of the host in the simulation.
    pub(crate) host: u32,
    /// The identifier of the connection on that host.
    pub(crate) connection: Option<ConnectionId>,
    /// Bytes that the application has read.
    pub(crate) read: Bytes,
}

#[derive(Debug)]
pub(crate) struct SimulatedFlow {
    pub(crate) application: AnyApplication,
    /// The sender's end and the receiver's end.
    pub(crate) ends: [FlowEnd; 2],
    /// The path from the sender to the receiver.
    pub(crate) path: PathId,
    /// The flow's identifier in the sender's manager, while it sends datagrams.
    pub(crate) datagrams: Option<FlowId>,
    /// Datagrams sent, set when the flow stops.
    pub(crate) sent_datagrams: u64,
    /// The bytes that the receiver read during the measurement; until its end, those that it read before.
    pub(crate) delivered_measured: Bytes,
    /// The flow completion time.
    pub(crate) fct: Option<Duration>,
    /// Whether the run waits for the flow and it has not ended.
    pub(crate) pending: bool,
    /// The counters of the sender's connection, set when it closes.
    pub(crate) statistics: Statistics,
    /// The application's report, set when the flow stops or the measurement ends.
    pub(crate) report: Option<Report>,
}

impl SimulatedFlow {
    pub(crate) fn new(application: AnyApplication, hosts: [u32; 2], path: PathId) -> Self {
        Self {
            application,
            ends: hosts.map(|host| FlowEnd { host, connection: None, read: Bytes::ZERO }),
            path,
            datagrams: None,
            sent_datagrams: 0,
            delivered_measured: Bytes::ZERO,
            fct: None,
            pending: false,
            statistics: Statistics::default(),
            report: None,
        }
    }

    pub(crate) fn sender(&self) -> &FlowEnd {
        &self.ends[End::Sender as usize]
    }

    pub(crate) fn receiver(&self) -> &FlowEnd {
        &self.ends[End::Receiver as usize]
    }

    /// The flow's end at `host`.
    pub(crate) fn end_at(&self, host: u32) -> End {
        if self.sender().host == host { End::Sender } else { End::Receiver }
    }

    /// Bytes that the receiver's application has read.
    pub(crate) fn delivered(&self) -> Bytes {
        self.receiver().read
    }
}
