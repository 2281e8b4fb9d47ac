//! A run: a plan and its outcome.

use crate::{Outcome, Plan};

/// A plan that ran, with its result.
#[derive(Debug, Clone)]
pub struct Run {
    /// The plan.
    pub plan: Plan,
    /// The outcome.
    pub outcome: Outcome,
    /// The name of the world: `simulated`.
    pub world: &'static str,
    /// Duration in seconds of real time.
    pub wall_s: f64,
}
