//! What every world does with a plan, without clocks, sockets and buffers.
//!
//! ```text
//!                      plan
//!        ┌──────────────┼───────────────┐
//!    Timetable        Network         Flows ──── applications (`workload`)
//!    what is due      links, paths,     │
//!    and when         their meters    Host port: our endpoint, the kernel's sockets, another stack
//!        └──────────────┼───────────────┘
//!                     world: the time, and what moves packets between hosts and network
//! ```
//!
//! A world gives the time with every call. It runs the entries of the [`Timetable`] when they are due, moves packets
//! through the [`Network`] and notifies [`Flows`] when a [`Host`] may have events. So a meter or a workload works in every
//! world.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod flows;
mod network;
mod ours;
mod timetable;
mod traced;

pub use flows::{FlowResults, Flows, Site, StreamEvent, WatchFlows};
pub use network::{Hop, HopId, Network, Routed, Step, Watch};
pub use ours::Name;
pub use rampmeter_scenario::port::{Event, Host, Opening, PacketHost, Sent};
pub use timetable::{Entry, Timetable};
pub use traced::{Applications, Links};
