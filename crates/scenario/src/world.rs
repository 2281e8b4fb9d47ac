//! The seam between a plan and whoever runs it.

use std::sync::atomic::{AtomicU64, Ordering};

use rampmeter_units::Time;
use thiserror::Error;

use crate::{NoPath, Outcome, Plan};

/// Why a world could not run a plan.
#[derive(Debug, Error)]
pub enum WorldError {
    /// The plan asks for what this world does not have.
    #[error("the {world} world has no {what}; {advice}")]
    Lacks {
        /// The world's name.
        world: &'static str,
        /// What is missing: "kernel TCP (scheme `linux-cubic`)".
        what: String,
        /// What would be right: "run it with --world emulated".
        advice: String,
    },
    /// A flow has no way to go.
    #[error(transparent)]
    NoPath(#[from] NoPath),
    /// The operating system refused.
    #[error("{what}: {error}")]
    System {
        /// What was being done: "cannot create a network namespace".
        what: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// The user stopped it.
    #[error("interrupted")]
    Interrupted,
}

/// How far a run is, for those who wait for it: the world writes, others read. No run looks at it.
#[derive(Debug, Default)]
pub struct Reached(AtomicU64);

impl Reached {
    /// The run is at `now`.
    pub fn tell(&self, now: Time) {
        self.0.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// Where the run was when it last told.
    pub fn at(&self) -> Time {
        Time::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// Something that can run a plan: a simulator, an emulated network.
pub trait World: Send + Sync {
    /// Its name, as in the results: `simulated`.
    fn name(&self) -> &'static str;

    /// Whether its runs disturb each other: those of real packets need the machine to themselves.
    fn runs_alone(&self) -> bool {
        false
    }

    /// Whether a run that is under way breaks off when the user stops it: else it is worth finishing.
    fn breaks_off(&self) -> bool {
        false
    }

    /// Runs `plan`.
    fn run(&self, plan: &Plan) -> Result<Outcome, WorldError>;

    /// The same, telling how far it is now and then, if this world does.
    fn run_telling(&self, plan: &Plan, _reached: &Reached) -> Result<Outcome, WorldError> {
        self.run(plan)
    }
}
