//! Scenario files, the plans made of them and what a run yields.
//!
//! A [`Scenario`] is a TOML file with axes to sweep. Each [`Point`] of the sweep gives one [`Plan`]: checked, typed and
//! complete down to the start, the ends and the size of every flow, so that every [`World`] runs the very same work. A
//! world turns a plan into an [`Outcome`], and [`Summary`] is that outcome in one JSON object.
//!
//! Nothing here moves a packet or reads a clock. `docs/scenario.md` explains the format.

mod axis;
mod build;
mod document;
mod error;
mod file;
mod hole;
mod outcome;
mod plan;
mod planner;
mod point;
mod routes;
mod scenario;
mod stalls;
mod summary;
mod world;

pub use axis::{Axis, values};
pub use build::{Scheme, path_of};
pub use error::{Problem, ScenarioError};
pub use outcome::{FlowOutcome, FlowSample, Hindered, Lateness, LinkOutcome, LinkSample, Outcome, Series};
pub use plan::{
    AggregatePlan, Change, FlowPlan, LinkId, LinkPlan, Meters, Node, NodeId, Plan, SchemePlan, Sender, TrafficPlan,
    payload,
};
pub use point::Point;
pub use routes::{NoPath, Routes};
pub use scenario::Scenario;
pub use stalls::{Stalling, Stalls};
pub use summary::{FlowSummary, HinderedSummary, LinkSummary, Summary};
pub use world::{Reached, World, WorldError};
