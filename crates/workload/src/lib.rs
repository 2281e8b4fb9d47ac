//! Applications: the data that flows send, and when. An [`Application`] receives the time and the events of its flow
//! and returns what the flow should do, so the same object runs on a simulated network and in a real program.
//!
//! ```text
//!                on_start, on_event, on_deadline
//!   world  ────────────────────────────────────────►  application
//!          ◄────────────────────────────────────────
//!            Reply: write, finish, datagrams, complete
//! ```
//!
//! `docs/workloads.md` lists all workloads and explains how to add one.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod audio;
pub mod bulk;
pub mod datagrams;
pub mod media;
pub mod registry;
pub mod representations;
pub mod transfer;
pub mod video;
pub mod web;

mod application;
mod deadlines;
mod levels;

pub use application::{Application, Carrier, End, Event, Path, Reply, Report, Workload};
pub use deadlines::Alarms;
pub use rampmeter_units as units;
pub use rampmeter_units::Settings;
use rampmeter_units::settings::ensure;
pub use registry::{AnyApplication, AnyWorkload};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
