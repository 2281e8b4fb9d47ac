//! The entry point: runs a plan and returns its outcome.

use rampmeter_scenario::{Outcome, Plan, RunProgress, World, WorldError};

use crate::simulation::Simulation;

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
        if let Some(scheme) = plan.kernel_scheme() {
            return Err(WorldError::Unsupported {
                world: self.name(),
                what: format!("kernel TCP (scheme `{}`)", scheme.name),
                advice: "run it with --world emulated".into(),
            });
        }
        Simulation::new(plan)?.run(reached)
    }
}
