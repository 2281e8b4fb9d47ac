//! World 1: a discrete-event network.
//!
//! Time is an integer, ties are broken by the order in which things were scheduled, random streams are seeded per
//! purpose: the same plan gives the same outcome, bit for bit. A simulation has no globals; as many run side by side as
//! there are threads.
//!
//! What moves are [`rampmeter_router::Link`]s and [`rampmeter_transport::Endpoint`]s, the objects that also carry real
//! packets. Each has one wake-up; a packet that crosses an idle link costs one event, one that waits costs two.

mod agenda;
mod flows;
mod hosts;
mod network;
mod packet;
mod script;
mod simulation;

use rampmeter_control::Registry;
use rampmeter_scenario::{Outcome, Plan, Sender, World, WorldError};

/// The simulated world.
#[derive(Debug, Clone, Copy, Default)]
pub struct Simulated;

impl World for Simulated {
    fn name(&self) -> &'static str {
        "simulated"
    }

    fn run(&self, plan: &Plan, registry: &Registry) -> Result<Outcome, WorldError> {
        if let Some(scheme) = plan.kernel_scheme() {
            let Sender::Kernel { algorithm } = &scheme.sender else { unreachable!("it is the scheme with a kernel") };
            return Err(WorldError::Lacks {
                world: "simulated",
                what: format!("kernel TCP (scheme `{}`: {algorithm})", scheme.name),
                advice: "run it with --world emulated".into(),
            });
        }
        Ok(simulation::Simulation::new(plan, registry)?.run())
    }
}
