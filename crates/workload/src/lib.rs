//! What applications send and when. An [`Application`] is a plain object: it learns the time and what happened to its
//! flow, and answers with what the flow should do. It owns no socket, clock or thread, so the same object runs on a
//! simulated network, on an emulated one and in a program of its own.
//!
//! ```text
//!                on_start, on_event, on_deadline
//!   world  ────────────────────────────────────────►  application
//!          ◄────────────────────────────────────────
//!            Reply: write, finish, datagrams, complete
//! ```
//!
//! `docs/workloads.md` has a table of all workloads and says how to add one.

pub mod audio;
pub mod bulk;
pub mod datagrams;
pub mod registry;
pub mod representations;
pub mod transfer;
pub mod video;

mod alarms;
mod application;

pub use alarms::Alarms;
pub use application::{Application, Carrier, End, Event, Path, Reply, Report, Workload};
pub use rampmeter_units::Settings;
pub use registry::{AnyApplication, AnyWorkload};
