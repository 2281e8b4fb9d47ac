//! Routers and links: queue disciplines behind one trait, [`Router`], and the [`Link`] that sends a router's packets.
//!
//! A router decides about the packets that wait for a link: which one is next, which one is dropped, which fields are
//! rewritten. A [`Link`] adds the physical properties: rate, delay, random loss. Both get the time as an argument and
//! own no clock, so the same objects work in the simulator and behind real network devices.
//!
//! A router of your own queues [`AnyPacket`]s, the packets of every world. This one sends the last packet first:
//!
//! ```
//! use rampmeter_router::units::{Bytes, Stream, Time};
//! use rampmeter_router::{AnyPacket, Backlog, Discipline, Environment, Parcel, Registry, Router, Verdict, drop_tail};
//!
//! #[derive(Debug, Default)]
//! struct Stack(Vec<AnyPacket>);
//!
//! impl Router for Stack {
//!     fn enqueue(&mut self, _now: Time, packet: AnyPacket) -> Verdict<AnyPacket> {
//!         self.0.push(packet);
//!         Verdict::Queued
//!     }
//!     fn dequeue(&mut self, _now: Time) -> Option<AnyPacket> { self.0.pop() }
//!     fn backlog(&self) -> Backlog {
//!         let bytes = self.0.iter().fold(Bytes::ZERO, |sum, packet| sum + packet.bytes());
//!         Backlog { packets: self.0.len() as u64, bytes }
//!     }
//! }
//!
//! impl Discipline for Stack {
//!     type Config = drop_tail::Config; // its settings; usually a type of its own
//!     fn new(_: &drop_tail::Config, _: Environment, _: Stream) -> Self { Self::default() }
//! }
//!
//! let registry = Registry::default().add::<Stack>("stack", "Last in, first out");
//! let config = registry.config("stack", &"packets = 100".parse()?)?;
//! # let environment = Environment { rate: rampmeter_units::Rate::MAX, delay: rampmeter_units::Duration::ZERO };
//! # let mut router = config.make::<AnyPacket>(environment, Stream::from_seed(1));
//! # assert!(router.dequeue(Time::ZERO).is_none() && router.backlog() == Backlog::default());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `examples/my_router` has settings, marks packets and runs in both worlds.
//!
//! To add a router here: a file with a type that implements [`Router`], a line in [`registry`], a row in
//! `docs/routers.md`.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod active_flows;
mod buffer;
pub mod capacity;
mod counts;
mod delays;
mod departures;
mod disorder;
mod exponential_marking;
mod external;
mod flow_table;
mod fluid;
mod indexed_heap;
mod isolation;
mod link;
mod loss;
mod meter;
mod prefetch;
pub mod registry;
mod router;
mod schedule;
mod timed_queue;
mod transit;
mod transmitter;
mod virtual_backlog;
mod waits;

pub mod avq;
pub mod codel;
pub mod docsis_pie;
pub mod drop_tail;
pub mod dualpi2;
pub mod fair_queueing;
pub mod fair_share;
pub mod fq_codel;
pub mod pie;
pub mod policer;
pub mod red;
pub mod rem;
pub mod step_marking;
pub mod vcp;
pub mod vcp_plus;
pub mod virtual_queue;
pub mod xcp;

pub use capacity::Capacity;
pub use counts::Counts;
pub use delays::{ClassDelays, DelaySummary};
pub use disorder::{Disorder, Jitter, Reordering};
pub use external::{AnyPacket, External, ExternalConfig};
pub use isolation::Isolation;
pub use link::{EcnPassage, Link, LinkConfig, Offered};
pub use loss::{Burst, BurstLength, Loss};
pub use meter::{QueueMeter, QueueSummary};
pub use prefetch::prefetch;
pub use rampmeter_units as units;
pub use rampmeter_units::Settings;
use rampmeter_units::settings::{check_range, ensure};
pub use registry::{AnyConfig, AnyRouter, Registry};
pub use router::{Backlog, Discipline, Environment, Hosts, Parcel, Router, Tally, Verdict};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
