//! A flow's application, both ends: the sender writes its bytes and ends its stream, the receiver takes what arrives at
//! once and ends its own stream when all has come.

use rampmeter_manager::FlowId;
use rampmeter_scenario::SourceOutcome;
use rampmeter_transport::{ConnectionId, Statistics};
use rampmeter_units::{Bytes, Duration};

use crate::paths::PathId;

#[derive(Debug)]
pub(crate) struct Flow {
    /// The host that sends, among the simulation's.
    pub(crate) sender: u32,
    /// The host that receives.
    pub(crate) receiver: u32,
    /// The path from one to the other.
    pub(crate) path: PathId,
    /// The connection's name at the sender.
    pub(crate) opened: Option<ConnectionId>,
    /// The connection's name at the receiver.
    pub(crate) accepted: Option<ConnectionId>,
    /// The flow's name at the sender's manager, if it sends datagrams.
    pub(crate) datagrams: Option<FlowId>,
    /// Bytes the receiver's application has taken.
    pub(crate) delivered: Bytes,
    /// Of these, what it had at the end of the warm-up, later what it took while flows were measured.
    pub(crate) delivered_measured: Bytes,
    /// Stream bytes that it is to transfer; `None` for a long-lived flow.
    pub(crate) bytes: Option<Bytes>,
    /// How long the whole took.
    pub(crate) fct: Option<Duration>,
    /// It is one of those that a run waits for, and has not ended.
    pub(crate) pending: bool,
    /// What the sender's connection has counted, once it is over.
    pub(crate) statistics: Statistics,
    /// What its source of datagrams has come to.
    pub(crate) source: SourceOutcome,
}

impl Flow {
    pub(crate) fn new(sender: u32, receiver: u32, path: PathId, bytes: Option<Bytes>) -> Self {
        Self {
            sender,
            receiver,
            path,
            opened: None,
            datagrams: None,
            accepted: None,
            delivered: Bytes::ZERO,
            delivered_measured: Bytes::ZERO,
            bytes,
            fct: None,
            pending: false,
            statistics: Statistics::default(),
            source: SourceOutcome::default(),
        }
    }
}
