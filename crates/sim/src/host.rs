//! A host as one scheme sees it: an endpoint with that scheme's settings, and which flow each of its connections is.

use rampmeter_control::AnyController;
use rampmeter_transport::{Config, ConnectionId, Endpoint};

use crate::paths::PathId;

pub(crate) struct Host {
    pub(crate) endpoint: Endpoint<AnyController, PathId>,
    /// For the connections it opens.
    pub(crate) config: Config,
    /// The flow of each connection, by the connection's index.
    flow_of: Vec<u32>,
}

impl Host {
    pub(crate) fn new(endpoint: Endpoint<AnyController, PathId>, config: Config) -> Self {
        Self { endpoint, config, flow_of: Vec::new() }
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
