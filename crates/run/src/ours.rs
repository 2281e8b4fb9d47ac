//! Our endpoint as a host: what it calls the ends of flows, and what it says about them in every world.

use rampmeter_control::{Controller, Fault};
use rampmeter_manager::FlowId;
use rampmeter_scenario::{SenderState, path_of};
use rampmeter_transport::{Address, Connection, ConnectionId, Endpoint};
use rampmeter_units::{Bytes, Duration, Time};
use rampmeter_workload::Path;

use rampmeter_scenario::port::Sent;

/// What our endpoint calls an end of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// A connection.
    Connection(ConnectionId),
    /// A flow of datagrams, at its sender.
    Datagrams(FlowId),
}

impl Name {
    /// The flow's name in the manager.
    pub fn managed<C: Controller, A: Address>(self, endpoint: &Endpoint<C, A>) -> Option<FlowId> {
        match self {
            Self::Connection(connection) => endpoint.flow(connection),
            Self::Datagrams(name) => Some(name),
        }
    }

    /// The flow's path, as its congestion control sees it at the endpoint's time `now`.
    pub fn path<C: Controller, A: Address>(self, now: Time, endpoint: &Endpoint<C, A>) -> Path {
        self.managed(endpoint).map_or_else(Path::default, |name| path_of(now, name, endpoint))
    }

    /// What the flow's controller allows, and what its connection, if it has one, measured.
    pub fn state<C: Controller, A: Address>(self, endpoint: &Endpoint<C, A>) -> Option<SenderState> {
        let controller = endpoint.manager().controller(self.managed(endpoint)?)?;
        let connection = if let Self::Connection(id) = self { endpoint.connection(id) } else { None };
        Some(sender_state(controller, connection))
    }

    /// What the flow has sent; `None` if its connection has ended.
    pub fn sent<C: Controller, A: Address>(self, endpoint: &Endpoint<C, A>) -> Option<Sent> {
        match self {
            Self::Connection(connection) => Some(endpoint.connection(connection)?.statistics().into()),
            Self::Datagrams(name) => Some(Sent { packets: endpoint.datagrams_sent(name), ..Sent::default() }),
        }
    }

    /// What is wrong with the values that the flow's controller returns, whose packets are this large.
    pub fn fault<C: Controller, A: Address>(self, endpoint: &Endpoint<C, A>, packet: Bytes) -> Option<Fault> {
        Fault::of(endpoint.manager().controller(self.managed(endpoint)?)?, packet)
    }
}

fn sender_state(controller: &impl Controller, connection: Option<&Connection>) -> SenderState {
    let state = SenderState {
        window: Some(controller.window()).filter(|&window| window < Bytes::MAX),
        rate: controller.rate(),
        ..SenderState::default()
    };
    let Some(connection) = connection else { return state };
    let measured = connection.statistics();
    SenderState {
        in_flight: Some(connection.in_flight()),
        smoothed_rtt: Some(measured.smoothed_rtt).filter(|rtt| *rtt > Duration::ZERO),
        lost: measured.lost,
        timeouts: Some(measured.timeouts),
        ..state
    }
}
