//! Scenario files, plans and outcomes.
//!
//! A [`Scenario`] is a TOML file with axes to sweep. Each [`Point`] of the sweep gives one [`Plan`]: checked, typed and
//! complete, with the start, the ends and the size of every flow, so that every [`World`] runs the same work. A world
//! turns a plan into an [`Outcome`]. A [`Schema`] declares the columns of results, which are read from both.
//! [`Summary`] is a run as one JSON object.
//!
//! This crate sends no packets and reads no clock. `docs/scenario.md` explains the format.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod axis;
mod beside;
mod build;
mod columns;
mod conditions;
mod document;
mod error;
mod errors;
mod file;
mod json_schema;
mod keys;
mod limits;
mod outcome;
mod placeholder;
mod plan;
mod planner;
mod point;
pub mod port;
mod portable;
mod registries;
mod resolved;
mod routes;
mod scenario;
mod schema;
mod sets;
mod shared_schemes;
mod sizes;
mod slowdown;
pub mod stack;
mod stalls;
mod statistics;
mod summary;
mod traces;
mod world;

pub use axis::{Axis, SEED, expanded, values};
pub use build::{Scheme, path_of};
pub use columns::FlowGroup;
pub use conditions::{CONDITIONS, Condition, ConditionFacts};
pub use error::ScenarioError;
pub use file::MetricText;
pub use json_schema::json_schema;
pub use outcome::{
    Degraded, FlowOutcome, FlowSample, HostJitter, LinkOutcome, LinkSample, Outcome, Run, SenderState, Series,
};
pub use plan::{
    AggregatePlan, Change, FlowPlan, LinkId, LinkPlan, Meters, Node, NodeId, Plan, QueueId, SchemePlan, Sender,
    TrafficPlan, payload,
};
pub use point::Point;
pub use portable::Portable;
pub use rampmeter_transport::Limits;
pub use registries::Registries;
pub use resolved::{SchemeSettings, VARIES};
pub use routes::{NoPath, Routes};
pub use scenario::Scenario;
pub use schema::{About, Column, Kind, Row, Schema, Shown, Value, abouts};
pub use stalls::{Stalling, Stalls};
pub use summary::{DegradedSummary, Summary};
pub use world::{RunProgress, World, WorldError};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
