//! The real network: the connections and controllers of the simulator, over UDP sockets and real time. For Linux.
//!
//! ```text
//! files      an application: serves a directory, downloads files
//! driver     EventLoop: many hosts in one thread; events
//! host       Host: an endpoint, its socket, the streams of its connections
//! history    the histories of destinations in a file
//! tcp_info   the kernel's statistics of its TCP connections
//! socket     batches of packets with ECN codes and receive timestamps, over layout
//! clock      precise time and waits      ready   readiness of sockets
//! ```
//!
//! **Nothing here is encrypted or authenticated yet.** An attacker who sees the packets can read a file; an attacker
//! who can inject packets can abort a transfer, or alter it together with its hash. The hash protects against
//! accidents, not against attackers.

mod clock;
mod driver;
pub mod files;
#[cfg_attr(not(feature = "history"), path = "no_history.rs")]
mod history;
mod host;
mod layout;
mod ready;
mod socket;
mod stream;
mod tcp_info;

pub use clock::{Clock, WakeupLatency, set_min_timer_slack, set_realtime_priority};
pub use driver::{EventLoop, HostId};
pub use history::{HistoryError, HistoryFile, Remembered};
pub use host::{EndReason, Event, Host, Limits};
pub use socket::Socket;
pub use stream::Arrivals;
pub use tcp_info::TcpInfo;
