//! The entry point: runs a plan and returns its outcome.

use rampmeter_scenario::{Outcome, Plan, Reached, World, WorldError};

use crate::simulation::Simulation;

/// The simulated world.
#[derive(Debug, Clone, Copy, Default)]
pub struct Simulated;

impl World for Simulated {
    fn name(&self) -> &'static str {
        "simulated"
    }

    fn run(&self, plan: &Plan) -> Result<Outcome, WorldError> {
        self.run_telling(plan, &Reached::default())
    }

    fn run_telling(&self, plan: &Plan, reached: &Reached) -> Result<Outcome, WorldError> {
        if let Some(scheme) = plan.kernel_scheme() {
            return Err(WorldError::Lacks {
                world: self.name(),
                what: format!("kernel TCP (scheme `{}`)", scheme.name),
                advice: "run it with --world emulated".into(),
            });
        }
        Ok(Simulation::new(plan)?.run(reached))
    }
}
