//! The real network: the connections and controllers of the simulator, over UDP sockets and real time. For Linux.
//!
//! ```text
//! files      an application: serves the files of a directory, downloads them by name
//! streams    streams of bytes for asynchronous programs (feature `async`)
//! tunnel     an application: TCP connections of other programs over streams (feature `tunnel`)
//! driver     EventLoop: many hosts in one thread; events
//! host       Host: an endpoint, its socket, the streams of its connections
//! history    the histories of destinations in a file
//! monitor    the state of a running process, for operators
//! tcp_info   the kernel's statistics of its TCP connections
//! contact    the first contact of two hosts: addresses, trust, errors
//! keys       files of keys                peer       the other host of a connection
//! locked     a file under a lock
//! socket     batches of packets with ECN codes and receive timestamps, over layout
//! steering   several sockets on one port, one for each thread
//! receive_window  grows as far as the path needs it
//! clock      precise time and waits      ready   readiness of sockets
//! memory     returned to the system
//! ```
//!
//! All packets are encrypted and authenticated (`rampmeter-session`), except in scenarios, whose streams carry no data:
//! only the feature `clear` has hosts that send in clear.

mod clock;
mod contact;
mod driver;
pub mod files;
#[cfg(test)]
mod fuzz_seed;
mod history;
mod host;
pub mod keys;
mod layout;
mod locked;
mod memory;
pub mod monitor;
mod peer;
mod ready;
#[cfg(feature = "async")]
mod receive_window;
mod socket;
mod steering;
mod stream;
#[cfg(feature = "async")]
pub mod streams;
mod tcp_info;
#[cfg(feature = "tunnel")]
pub mod tunnel;

pub use clock::{Clock, WakeupLatency, set_min_timer_slack, set_realtime_priority};
pub use contact::{ContactError, KeyChanged, KeyOrigin, Trust};
pub use driver::{Alarm, EventLoop, HostId};
pub use history::{HistoryError, HistoryFile};
pub use host::{EndReason, Event, Host, Limits, LineLimit, SessionEnd};
pub use memory::return_memory;
pub use peer::Peer;
pub use socket::Socket;
pub use stream::Arrivals;
#[cfg(feature = "async")]
pub use streams::{Client, ClientOptions, Degraded, Server, ServerOptions, Session, Stream, StreamError};
pub use tcp_info::TcpInfo;
