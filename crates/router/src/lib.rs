//! Routers and links: queue disciplines behind one trait, [`Router`], and the [`Link`] that sends a router's packets.
//!
//! A router decides about the packets that wait for a link: which one is next, which one is dropped, which fields are
//! rewritten. A [`Link`] adds the physical properties: rate, delay, random loss. Both get the time as an argument and
//! own no clock, so the same objects work in the simulator and behind real network devices.
//!
//! A router of your own queues [`AnyPacket`]s, the packets of every world. This one sends the last packet first:
//!
//! ```
//! use rampmeter_router::units::{Bytes, Random, Time};
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
//!     fn new(_: &drop_tail::Config, _: Environment, _: Random) -> Self { Self::default() }
//! }
//!
//! let registry = Registry::default().add::<Stack>("stack", "Last in, first out");
//! let config = registry.config("stack", &"packets = 100".parse()?)?;
//! # let environment = Environment { rate: rampmeter_units::Rate::MAX, delay: rampmeter_units::Duration::ZERO };
//! # let mut router = config.make::<AnyPacket>(environment, Random::from_seed(1));
//! # assert!(router.dequeue(Time::ZERO).is_none() && router.backlog() == Backlog::default());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `examples/my_router` has settings, marks packets and runs in both worlds.
//!
//! `link` has what a link is made of. To add a router here: a file in `disciplines` with a type that implements [`Router`], a line in [`registry`], a row in
//! `docs/routers.md`.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod disciplines;
mod external;
mod link;
pub mod registry;
mod router;

pub use disciplines::isolation::Isolation;
pub use disciplines::*;
pub use external::{AnyPacket, External, ExternalConfig};
pub use link::capacity::{self, Capacity};
pub use link::counts::Counts;
pub use link::delays::{ClassDelays, DelaySummary, Delays};
pub use link::disorder::{Disorder, Jitter, Reordering};
pub use link::loss::{Burst, BurstLength, Loss};
pub use link::meter::{QueueMeter, QueueSummary};
pub use link::prefetch::prefetch;
pub use link::{EcnPassage, Link, LinkConfig, Offered};
pub use rampmeter_units as units;
pub use rampmeter_units::Settings;
use rampmeter_units::settings::{check_range, ensure};
pub use registry::{AnyConfig, AnyRouter, Registry};
pub use router::{Backlog, Discipline, Environment, Hosts, Parcel, Router, Tally, Verdict};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
