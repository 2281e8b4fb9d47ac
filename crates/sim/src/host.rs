//! A host as one scheme sees it: an endpoint with that scheme's settings, and which flow each of its connections is.

use std::collections::{BTreeMap, VecDeque};

use rampmeter_control::AnyController;
use rampmeter_manager::FlowId;
use rampmeter_scenario::Stalling;
use rampmeter_transport::{Config, ConnectionId, Endpoint};
use rampmeter_units::Time;
use rampmeter_workload::Alarms;

use crate::packet::Travelling;
use crate::paths::PathId;

pub(crate) struct Host {
    pub(crate) endpoint: Endpoint<AnyController, PathId>,
    /// For the connections it opens.
    pub(crate) config: Config,
    /// The deadlines of the applications here, by flow.
    pub(crate) alarms: Alarms,
    /// The flows from here that send datagrams or choose by their shares, by their names at the manager.
    pub(crate) by_name: BTreeMap<FlowId, u32>,
    /// A flow of datagrams to or from here: whose packets its Congestion Manager's own count as.
    pub(crate) datagram_flow: u32,
    /// The flow of each connection, by the connection's index.
    flow_of: Vec<u32>,
    stalling: Option<Stalling>,
    /// Packets that arrived while it stalled.
    pub(crate) untaken: VecDeque<Travelling>,
    /// When it can take the next of them.
    pub(crate) taking_from: Time,
    /// It had something to say while it stalled.
    pub(crate) held_back: bool,
    /// The time that it has come to, perhaps ahead of the others'.
    pub(crate) lived_to: Time,
}

impl Host {
    pub(crate) fn new(endpoint: Endpoint<AnyController, PathId>, config: Config, stalling: Option<Stalling>) -> Self {
        Self {
            endpoint,
            config,
            alarms: Alarms::default(),
            by_name: BTreeMap::new(),
            datagram_flow: u32::MAX,
            flow_of: Vec::new(),
            stalling,
            untaken: VecDeque::new(),
            taking_from: Time::ZERO,
            held_back: false,
            lived_to: Time::ZERO,
        }
    }

    /// When the stall ends that it is in; none if it is awake.
    pub(crate) fn stalled_until(&mut self, now: Time) -> Option<Time> {
        self.stalling.as_mut()?.until(now)
    }

    /// Whether datagrams have left from here or come here.
    pub(crate) fn has_datagrams(&self) -> bool {
        self.datagram_flow != u32::MAX
    }

    /// Whether its manager may have something for applications here.
    pub(crate) fn has_watchers(&self) -> bool {
        self.has_datagrams() || !self.by_name.is_empty()
    }

    /// When it next has something to do: what should have been done before is done now.
    pub(crate) fn due(&self) -> Time {
        self.deadline().max(self.lived_to)
    }

    /// When it should next do something.
    pub(crate) fn deadline(&self) -> Time {
        self.endpoint.deadline().min(self.alarms.next())
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
