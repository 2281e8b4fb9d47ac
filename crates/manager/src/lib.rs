//! The Congestion Manager (CM): congestion control in one place, for all flows to a destination.
//!
//! A flow never decides when to send. It asks ([`Manager::request`]), is told ([`Manager::grant`]), says what it sent
//! ([`Manager::notify`]) and what became of it ([`Manager::update`]). The manager owns the controller of each
//! *macroflow* (the flows that share one path's state), shares its sending rate out among them and remembers what a
//! destination was like. Source: `congestion-manager.md`, sections 2 to 4, with the API of its Figure 4.
//!
//! Which flows share a macroflow is a policy, [`Grouping`]: one flow each, as TCP, PCP and VCP are measured by their own
//! papers, or all flows to a destination, as the CM paper proposes. History is kept per destination either way.

mod agent;
mod aging;
mod destinations;
mod feedback;
mod flow;
mod macroflow;
mod manager;
mod rtt;
mod scheduler;
mod segregation;
mod shares;
mod timers;
mod trail;
mod treatment;

pub use agent::{Agent, AgentConfig, Delivery, PeerStatus, Presence};
pub use aging::HalfLife;
pub use destinations::{Destination, MAX_DESTINATIONS};
pub use feedback::{LossMode, Report, Update, UpdateLoss};
pub use flow::{Change, FlowId, Grant, Grouping, Share, Sharing, Thresholds};
pub use macroflow::Status;
pub use manager::Manager;
pub use rtt::RttEstimator;
pub use scheduler::{Scheduling, ServiceCurve};
pub use timers::Timers;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
