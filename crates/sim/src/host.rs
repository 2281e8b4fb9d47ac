//! A host for one scheme: an endpoint with that scheme's settings, and the flow of each of its connections.

use std::collections::{BTreeMap, VecDeque};

use rampmeter_control::AnyController;
use rampmeter_manager::FlowId;
use rampmeter_scenario::Stalling;
use rampmeter_transport::{Config, ConnectionId, Endpoint};
use rampmeter_units::Time;
use rampmeter_workload::Alarms;

use crate::clock::HostClock;
use crate::packet::InTransit;
use crate::paths::PathId;

pub(crate) struct Host {
    pub(crate) endpoint: Endpoint<AnyController, PathId>,
    /// Settings of the connections that the host opens.
    pub(crate) config: Config,
    /// The clock whose readings are the endpoint's time.
    pub(crate) clock: HostClock,
    /// The deadlines of the applications here, by flow.
    pub(crate) alarms: Alarms,
    /// The host's flows that send datagrams or use their shares, by their identifiers in the manager.
    pub(crate) by_name: BTreeMap<FlowId, u32>,
    /// A flow of datagrams to or from this host, to which the messages of its Congestion Manager count.
    pub(crate) datagram_flow: u32,
    /// The flow of each connection, by the connection's index.
    flow_of: Vec<u32>,
    stalling: Option<Stalling>,
    /// Packets that arrived during a stall and are not yet processed.
    pub(crate) receive_backlog: VecDeque<InTransit>,
    /// When the host can process the next packet of the backlog.
    pub(crate) backlog_ready_at: Time,
    /// Whether the host had output during a stall.
    pub(crate) output_pending: bool,
    /// The local time, which may be ahead of the simulation's.
    pub(crate) local_time: Time,
}

impl Host {
    pub(crate) fn new(
        endpoint: Endpoint<AnyController, PathId>,
        config: Config,
        clock: HostClock,
        stalling: Option<Stalling>,
    ) -> Self {
        Self {
            endpoint,
            config,
            clock,
            alarms: Alarms::default(),
            by_name: BTreeMap::new(),
            datagram_flow: u32::MAX,
            flow_of: Vec::new(),
            stalling,
            receive_backlog: VecDeque::new(),
            backlog_ready_at: Time::ZERO,
            output_pending: false,
            local_time: Time::ZERO,
        }
    }

    /// Whether the host has stalls.
    pub(crate) fn stalls(&self) -> bool {
        self.stalling.is_some()
    }

    /// When the current stall ends; none if the host is not stalled.
    pub(crate) fn stalled_until(&mut self, now: Time) -> Option<Time> {
        self.stalling.as_mut()?.until(now)
    }

    /// Whether the host has sent or received datagrams.
    pub(crate) fn has_datagrams(&self) -> bool {
        self.datagram_flow != u32::MAX
    }

    /// Whether the manager may have share changes or messages for applications of this host.
    pub(crate) fn has_watchers(&self) -> bool {
        self.has_datagrams() || !self.by_name.is_empty()
    }

    /// The next deadline, or the local time if the deadline is before it.
    pub(crate) fn due(&self) -> Time {
        self.deadline().max(self.local_time)
    }

    /// The earliest deadline of the endpoint and of the applications.
    pub(crate) fn deadline(&self) -> Time {
        self.clock.reached(self.endpoint.deadline()).min(self.alarms.next())
    }

    pub(crate) fn flow(&self, connection: ConnectionId) -> u32 {
        self.flow_of[connection.index()]
    }

    pub(crate) fn set_flow(&mut self, connection: ConnectionId, flow: u32) {
        if self.flow_of.len() <= connection.index() {
            self.flow_of.resize(connection.index() + 1, u32::MAX);
        }
        self.flow_of[connection.index()] = flow;
    }
}
