//! The host-wide Congestion Manager: one daemon owns congestion control for all flows of a host, of all its processes.
//!
//! Source: `congestion-manager.md`, section 3 (the API of Figure 4), and RFC 3124 where it is silent. The algorithms are
//! `rampmeter-manager`'s and `rampmeter-control`'s; here is how processes come to share them.
//!
//! ```text
//! process                                          daemon
//! Client ── commands ring ──────────────────────►  Session ──► Host ──► Manager: one macroflow per destination
//!        ◄─ events ring ────────────────────────             ◄── grants, changes
//!        ── data ring (cm_send) ────────────────►          ──► Output ──► the network
//!        ── Unix socket: hello, then only death ─
//! ```
//!
//! Each client shares memory of its own with the daemon, so that a grant costs no system call while both are busy, and
//! nobody can write where another reads. The Unix socket says who a client is and when it is gone.
//!
//! *Deviations from Figure 4*: `cm_notify` names a flow, not a destination: only so can a grant be told from the next
//! one (RFC 3124 does the same). Bytes are what applications see, without headers, as in RFC 3124.

mod bell;
pub mod bench;
mod client;
pub mod daemon;
mod data;
mod error;
mod fork;
mod layout;
pub mod limits;
mod meeting;
mod memory;
mod message;
mod place;
mod ring;
mod spin;
mod time;

pub use client::{Client, Event, Id, Options};
pub use error::Error;
pub use message::{Feedback, PathState};
pub use place::{SOCKET_VARIABLE, default_socket};
pub use rampmeter_manager::LossMode;
pub use rampmeter_manager::{ServiceCurve, Share, Thresholds};
