//! The entry point: runs a plan and returns its outcome.

use rampmeter_run::{Applications, Links, PacketHost};
use rampmeter_scenario::{Outcome, Plan, RunProgress, World, WorldError};

use rampmeter_trace::{Recorder, Trace};

use crate::any_host::AnyHost;
use crate::packet::{InTransit, Pool};
use crate::paths::PathId;
use crate::simulation::Simulation;

/// A host whose packets the simulation moves.
pub(crate) trait SimulatedHost: PacketHost<Packet = InTransit, Shared = Pool, Address = PathId> {}

impl<H: PacketHost<Packet = InTransit, Shared = Pool, Address = PathId>> SimulatedHost for H {}

/// The simulated world.
#[derive(Debug, Clone, Copy, Default)]
pub struct Simulated;

impl World for Simulated {
    fn name(&self) -> &'static str {
        "simulated"
    }

    fn run(&self, plan: &Plan) -> Result<Outcome, WorldError> {
        self.run_with_progress(plan, &RunProgress::default())
    }

    fn run_with_progress(&self, plan: &Plan, reached: &RunProgress) -> Result<Outcome, WorldError> {
        self.check(plan)?;
        let make = |node, scheme, number| AnyHost::new(plan, node, scheme, number, ());
        Simulation::new(plan, ((), ()), make)?.run(reached)
    }

    fn run_traced(&self, plan: &Plan, reached: &RunProgress, trace: &Trace) -> Result<Outcome, WorldError> {
        self.check(plan)?;
        let make = |node, scheme, number| AnyHost::new(plan, node, scheme, number, Recorder::new(trace.clone()));
        let watch = (Links(trace.clone()), Applications::new(trace.clone()));
        Simulation::new(plan, watch, make)?.run(reached)
    }
}

impl Simulated {
    fn check(self, plan: &Plan) -> Result<(), WorldError> {
        let Some(scheme) = plan.kernel_scheme() else { return Ok(()) };
        Err(WorldError::Unsupported {
            world: self.name(),
            what: format!("kernel TCP (scheme `{}`)", scheme.name),
            advice: "run it with --world emulated".into(),
        })
    }
}
