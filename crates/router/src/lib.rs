//! What happens to packets inside the network: queue disciplines behind one trait, [`Router`], and the [`Link`] that a
//! router feeds.
//!
//! A router decides what happens to packets that wait for a link: which is next, which is dropped, what is written into
//! them. A [`Link`] adds what is physical: rate, delay, random loss. Both are told the time and own no clock, so the same
//! objects stand in the simulator and behind real network devices.
//!
//! To add a router: a file with a type that implements [`Router`], a line in [`registry`], a row in `docs/routers.md`.

mod active_flows;
mod buffer;
mod counts;
mod exponential_marking;
mod flow_table;
mod fluid;
mod indexed_heap;
mod link;
mod meter;
mod prefetch;
pub mod registry;
mod router;
mod timed_queue;
mod transmitter;
mod virtual_backlog;

pub mod avq;
pub mod codel;
pub mod drop_tail;
pub mod fair_queueing;
pub mod fair_share;
pub mod fq_codel;
pub mod pie;
pub mod policer;
pub mod red;
pub mod rem;
pub mod vcp;
pub mod virtual_queue;
pub mod xcp;

pub use counts::Counts;
pub use link::{EcnPassage, Link, LinkConfig, Loss};
pub use meter::{QueueMeter, QueueSummary};
pub use prefetch::prefetch;
pub use registry::{AnyConfig, AnyRouter};
pub use router::{Backlog, Discipline, Environment, Parcel, Router, Settings, Tally, Verdict};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
