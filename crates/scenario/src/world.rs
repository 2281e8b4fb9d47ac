//! The interface between a plan and the worlds that run it.

use std::sync::atomic::{AtomicU64, Ordering};

use rampmeter_control::Fault;
use rampmeter_trace::Trace;
use rampmeter_units::Time;
use thiserror::Error;

use crate::{NoPath, Outcome, Plan};

/// An error of a world.
#[derive(Debug, Error)]
pub enum WorldError {
    /// The plan needs a feature that this world does not have.
    #[error("the {world} world has no {what}; {advice}")]
    Unsupported {
        /// The world's name.
        world: &'static str,
        /// The missing feature: "kernel TCP (scheme `linux-cubic`)".
        what: String,
        /// The remedy: "run it with --world emulated".
        advice: String,
    },
    /// A flow has no path.
    #[error(transparent)]
    NoPath(#[from] NoPath),
    /// An error of the operating system.
    #[error("{what}: {error}")]
    System {
        /// The failed operation: "cannot create a network namespace".
        what: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// A controller returned a wrong value.
    #[error("the controller of scheme `{scheme}` {fault}; of flow {flow}, at {}", at.since(Time::ZERO))]
    Controller {
        /// The name of its scheme.
        scheme: String,
        /// Its flow: `source.0 > sink.0`.
        flow: String,
        /// What is wrong, and the remedy.
        fault: Fault,
        /// When.
        at: Time,
    },
    /// The plan has no such flow or link to trace; the names that it has.
    #[error("--trace: {0}")]
    Trace(String),
    /// The user interrupted the run.
    #[error("interrupted")]
    Interrupted,
}

impl WorldError {
    /// The error if the controller of the flow with this index in [`Plan::flows`] has a `fault` at `at`.
    pub fn of_controller(plan: &Plan, flow: usize, fault: Fault, at: Time) -> Self {
        let scheme = plan.schemes[plan.flows[flow].scheme].name.clone();
        Self::Controller { scheme, flow: plan.flow_name(flow), fault, at }
    }

    /// Whether the error is in what a point runs, so that other points may run.
    pub fn is_of_point(&self) -> bool {
        matches!(self, Self::Controller { .. })
    }
}

/// The progress of a run: the world writes it, others read it. Runs do not depend on it.
#[derive(Debug, Default)]
pub struct RunProgress(AtomicU64);

impl RunProgress {
    /// Reports that the run has reached `now`.
    pub fn report(&self, now: Time) {
        self.0.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// The time that the run last reported.
    pub fn at(&self) -> Time {
        Time::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// Runs plans: a simulator, an emulated network.
pub trait World: Send + Sync {
    /// The name in results: `simulated`.
    fn name(&self) -> &'static str;

    /// Whether a run needs the whole machine: runs with real packets would disturb each other.
    fn needs_whole_machine(&self) -> bool {
        false
    }

    /// Whether a run stops immediately when the user interrupts it; otherwise it is finished.
    fn stops_immediately(&self) -> bool {
        false
    }

    /// Runs `plan`.
    fn run(&self, plan: &Plan) -> Result<Outcome, WorldError>;

    /// The same, and writes what happens to `trace`.
    fn run_traced(&self, _plan: &Plan, _progress: &RunProgress, _trace: &Trace) -> Result<Outcome, WorldError> {
        let advice = "use --world simulated".into();
        Err(WorldError::Unsupported { world: self.name(), what: "traces".into(), advice })
    }

    /// The same, and reports progress from time to time, if this world supports it.
    fn run_with_progress(&self, plan: &Plan, _progress: &RunProgress) -> Result<Outcome, WorldError> {
        self.run(plan)
    }
}
