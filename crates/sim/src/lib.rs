//! The simulated world: a discrete-event network that runs a plan.
//!
//! ```text
//!            plan
//!             │ setup                      timetable: starts and stops of flows, changes of links, samples
//!             ▼                                │
//!   host ──► link ──► link ──► host            │                     timetable, network of links and flows
//!    │         └── agenda: next wake-up ───────┴──► simulation: the event loop ──► outcome     (`rampmeter-run`)
//!    └─ endpoint: connections, manager, controllers; or another transport's stack
//! ```
//!
//! Links and hosts are *actors*; each has one wake-up at a time. An endpoint's time is its host's `clock`; everything
//! else uses true time. Events of the same instant run in the order of the plan. The same plan gives the same outcome,
//! to the byte, on every machine, but for the last bit of some random draws (`rampmeter_units::Streams`).
//!
//! A crate that depends on this one and on `rampmeter-control` can simulate its own controller:
//!
//! ```
//! use rampmeter_control::rules::{AckEvent, Amount, Congestion, Rules, Windowed};
//! use rampmeter_control::newreno;
//! use rampmeter_sim::{Registries, Scenario, Simulated, World};
//!
//! #[derive(Debug, Clone)]
//! struct Gentle;
//!
//! impl Rules for Gentle {
//!     type Config = newreno::Config;
//!     fn new(_: &newreno::Config) -> Self { Self }
//!     fn first_window(config: &newreno::Config) -> u64 { config.initial_window }
//!     fn increase(&mut self, event: &AckEvent<'_>) -> Amount { Amount::Packets(event.delivered / event.window) }
//!     fn decrease(&mut self, congestion: &Congestion) -> Amount { Amount::Packets(0.75 * congestion.window) }
//! }
//!
//! let registries = Registries::default().controller::<Windowed<Gentle>>("gentle", "TCP that reduces its window by a quarter");
//! let scenario = Scenario::parse("download.toml", r#"
//!     duration = "20 s"
//!     hosts = [{ name = "server", at = "left", rate = "1 Gb/s", delay = "1 ms" },
//!              { name = "client", at = "right", rate = "1 Gb/s", delay = "1 ms" }]
//!     link = [{ name = "bottleneck", between = ["left", "right"], rate = "20 Mb/s", delay = "10 ms",
//!               router = { kind = "drop-tail", packets = 25 }, measure = true }]
//!     scheme.mine = { controller = "gentle" }
//!     traffic = [{ name = "download", scheme = "mine", from = "server", to = "client", arrivals = { count = 1 } }]
//! "#)?;
//! let plan = scenario.plan(&scenario.points()[0], &registries)?;
//! let outcome = Simulated.run(&plan)?;
//! assert!(outcome.links[0].utilization > 0.95, "{}", outcome.links[0].utilization);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The payload of packets is counted and never stored. Memory does not grow with the number of packets sent.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod agenda;
mod any_host;
mod clock;
mod forwarding;
mod host;
mod island;
mod packet;
mod paths;
mod presence;
mod setup;
mod simulation;
mod traced;
mod world;

pub use rampmeter_scenario::{Outcome, Plan, Registries, Scenario, Summary, World, WorldError};
pub use world::Simulated;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
