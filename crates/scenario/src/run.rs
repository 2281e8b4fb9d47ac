//! A run: a plan and what came of it.

use crate::{Outcome, Plan};

/// A plan that ran, with its result.
#[derive(Debug, Clone)]
pub struct Run {
    /// What was to happen.
    pub plan: Plan,
    /// What happened.
    pub outcome: Outcome,
    /// The world that it happened in: `simulated`.
    pub world: &'static str,
    /// Seconds of real time that it took.
    pub wall_s: f64,
}
