//! What the manager knows of each path, for operators.

use rampmeter_control::Controller;
use rampmeter_units::{Bytes, Time};

use crate::destinations::Destination;
use crate::flow::FlowId;
use crate::macroflow::{Macroflow, Status};
use crate::manager::Manager;

/// What happened to a macroflow's packets since it began, headers included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Bytes sent.
    pub sent: Bytes,
    /// Bytes reported as delivered.
    pub delivered: Bytes,
    /// Bytes reported as lost.
    pub lost: Bytes,
    /// Packets that arrived with a mark of congestion.
    pub marked: u64,
}

/// A macroflow: the flows that share congestion control, and their path.
#[derive(Debug, Clone, Copy)]
pub struct PathState<'a, C> {
    /// Where it goes.
    pub destination: Destination,
    /// Its controller.
    pub controller: &'a C,
    /// Rate, window and round trip of all its flows together.
    pub status: Status,
    /// The sums since it began.
    pub totals: Totals,
}

impl<'a, C: Controller> PathState<'a, C> {
    fn of(now: Time, macroflow: &'a Macroflow<C>) -> Self {
        Self {
            destination: macroflow.place.destination,
            controller: &macroflow.controller,
            status: macroflow.status(now, 1.0),
            totals: macroflow.totals,
        }
    }
}

impl<C: Controller> Manager<C> {
    /// All macroflows with flows.
    pub fn paths(&self, now: Time) -> impl Iterator<Item = PathState<'_, C>> {
        let with_flows = self.macroflows.iter().flatten().filter(|macroflow| !macroflow.members.is_empty());
        with_flows.map(move |macroflow| PathState::of(now, macroflow))
    }

    /// The macroflow of this flow.
    pub fn path(&self, now: Time, flow: FlowId) -> Option<PathState<'_, C>> {
        self.of_flow(flow).map(|(_, macroflow)| PathState::of(now, macroflow))
    }
}
