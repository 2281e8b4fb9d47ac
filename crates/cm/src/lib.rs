//! The host-wide Congestion Manager: one daemon owns congestion control for all flows of a host, of all its processes.
//!
//! Source: `congestion-manager.md`, section 3 (the API of Figure 4), and RFC 3124 where the paper gives no detail. The
//! algorithms are in `rampmeter-manager` and `rampmeter-control`; this crate shares them between processes.
//!
//! ```text
//! process                                          daemon
//! Client ── commands ring ──────────────────────►  Session ──► Host ──► Manager: one macroflow per destination
//!        ◄─ events ring ────────────────────────             ◄── grants, changes
//!        ── data ring (cm_send) ────────────────►          ──► Output ──► the network
//!        ── Unix socket: hello, then the end ──
//! ```
//!
//! Each client has its own shared memory with the daemon. So a grant costs no system call while both are busy, and no
//! process can write where another reads. The Unix socket identifies a client and signals its end.
//!
//! *Deviations from Figure 4*: `cm_notify` takes a flow, not a destination, so that each report belongs to one grant
//! (as in RFC 3124). Bytes are application bytes without headers, as in RFC 3124. `cm_set_macroflow` names a macroflow
//! by a flow of the same process, so that no process can name another one's.

mod client;
pub mod daemon;
mod data;
mod error;
mod fork;
mod handshake;
mod inner_udp;
mod layout;
pub mod limits;
mod memory;
mod message;
mod ring;
mod socket_path;
mod spin;
mod time;
mod wakeup;

pub use client::{Client, Event, HEADER_BYTES, Header, Id, Options};
pub use error::Error;
pub use message::{Feedback, Macroflow, PathState};
pub use rampmeter_manager::LossMode;
pub use rampmeter_manager::{ServiceCurve, Share, Thresholds};
pub use socket_path::{SOCKET_VARIABLE, default_socket};
