//! A flow: its application, and where each end of it is.

use rampmeter_manager::FlowId;
use rampmeter_transport::{ConnectionId, Statistics};
use rampmeter_units::{Bytes, Duration};
use rampmeter_workload::{AnyApplication, End, Report};

use crate::paths::PathId;

/// One end of a flow.
#[derive(Debug)]
pub(crate) struct FlowEnd {
    /// Its host, among the simulation's.
    pub(crate) host: u32,
    /// The connection's name there.
    pub(crate) connection: Option<ConnectionId>,
    /// Bytes that its application has read.
    pub(crate) read: Bytes,
}

#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) application: AnyApplication,
    /// The sender's and the receiver's.
    pub(crate) ends: [FlowEnd; 2],
    /// The path from one to the other.
    pub(crate) path: PathId,
    /// The flow's name at the sender's manager, while it sends datagrams.
    pub(crate) datagrams: Option<FlowId>,
    /// Datagrams that it has sent, once that is over.
    pub(crate) sent_datagrams: u64,
    /// Of the bytes that the receiver has read, what it had at the end of the warm-up, later what it read while flows were
    /// measured.
    pub(crate) delivered_measured: Bytes,
    /// How long the whole took.
    pub(crate) fct: Option<Duration>,
    /// It is one of those that a run waits for, and has not ended.
    pub(crate) pending: bool,
    /// What the sender's connection has counted, once it is over.
    pub(crate) statistics: Statistics,
    /// How it went, once that is known.
    pub(crate) report: Option<Report>,
}

impl Flow {
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

    /// Its end at `host`.
    pub(crate) fn end_at(&self, host: u32) -> End {
        if self.sender().host == host { End::Sender } else { End::Receiver }
    }

    /// Bytes that the receiver's application has got.
    pub(crate) fn delivered(&self) -> Bytes {
        self.receiver().read
    }
}
