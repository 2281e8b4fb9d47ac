//! The simulated world: a discrete-event network that runs a plan.
//!
//! ```text
//!            plan
//!             │ setup                      timetable: flows start and stop, links change, meters read
//!             ▼                                │
//!   host ──► link ──► link ──► host            │
//!    │         └── agenda: who wakes up next ──┴──► simulation: one thing after another ──► outcome
//!    └─ endpoint: connections, manager, controllers
//! ```
//!
//! Time is whole nanoseconds. What wakes up is a link or a host, an *actor*, and each has one wake-up at a time; what
//! happens at the same instant happens in the order of the plan. Every random stream comes from the plan's seed. So the
//! same plan gives the same outcome, to the byte, on every machine and in every build.
//!
//! Packets are headers: their payload is counted and never stored. Nothing grows with the number of packets sent, and
//! nothing is global: many simulations can run side by side.

mod agenda;
mod flow;
mod host;
mod island;
mod meters;
mod packet;
mod paths;
mod setup;
mod simulation;
mod timetable;
mod world;

pub use world::Simulated;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
