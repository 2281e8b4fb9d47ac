//! The open wire: the same connections and controllers as in the simulator, over UDP sockets and real time. For Linux.
//!
//! ```text
//! files      serve a directory, get a file: an application
//! driver     Loop: many hosts, one thread; turns, events
//! host       Host: an endpoint, its socket, its connections' bytes
//! history    what destinations are remembered for, in a file
//! tcp_info   what the kernel tells of its own TCP
//! socket     batches of packets with ECN codes and arrival stamps, over layout
//! clock      precise time and waits      ready   which sockets are ready
//! ```
//!
//! **Nothing here is encrypted or authenticated yet.** Whoever sees the packets can read a file; whoever can inject
//! packets can end a transfer or alter it together with its hash. The hash guards against accidents, not against people.

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

pub use clock::{Clock, Punctuality, be_punctual, be_urgent};
pub use driver::{HostId, Loop};
pub use history::{HistoryError, HistoryFile, Remembered};
pub use host::{Ended, Event, Host, Limits};
pub use socket::Socket;
pub use stream::Arrivals;
pub use tcp_info::TcpInfo;
