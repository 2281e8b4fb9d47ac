//! The Congestion Manager (CM): congestion control in one place, for all flows to a destination.
//!
//! A flow never decides when to send. It requests permission ([`Manager::request`]), receives it ([`Manager::grant`]),
//! and reports what it sent ([`Manager::notify`]) and what arrived or was lost ([`Manager::update`]). The manager owns
//! the controller of each *macroflow* (the flows that share one path's state), divides its sending rate among them and
//! keeps a history of each destination. Source: `congestion-manager.md`, sections 2 to 4, with the API of its Figure 4.
//!
//! Which flows share a macroflow is a policy, [`Grouping`]: one macroflow per flow, as in the papers on TCP, PCP and
//! VCP, or one for all flows to a destination, as the CM paper proposes. History is kept per destination in both cases.
//! A third one is for sessions with hosts that need not be honest: one for all flows of a session, without a history.
//! [`Manager::set_macroflow`] puts a flow into another one.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod agent;
mod aging;
mod careful_resume;
mod choice;
mod destinations;
mod feedback;
mod flow;
mod macroflow;
mod manager;
mod paths;
mod quotas;
mod rtt;
mod scheduler;
mod segregation;
mod send_times;
mod shares;
mod timers;
mod treatment;

pub use agent::{Agent, AgentConfig, Delivery, OwnHeader, PeerStatus, Presence, is_own_name};
pub use aging::HalfLife;
pub use choice::{MacroflowChoice, MacroflowError};
pub use destinations::{Destination, MAX_DESTINATIONS, Owner};
pub use feedback::{LossMode, Report, Update, UpdateLoss};
pub use flow::{Change, FlowId, Grant, Grouping, Share, Sharing, Thresholds};
pub use macroflow::Status;
pub use manager::Manager;
pub use paths::{PathState, Totals};
pub use quotas::Quotas;
pub use rtt::RttEstimator;
pub use scheduler::{MAX_TURN, Scheduling, ServiceCurve};
pub use timers::Timers;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
