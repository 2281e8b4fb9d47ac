//! The real network: the connections and controllers of the simulator, over UDP sockets and real time. For Linux.
//!
//! Applications are in crates of their own above this one: `rampmeter-files`, `rampmeter-streams`, `rampmeter-tunnel`.
//!
//! ```text
//! driver     EventLoop: many hosts in one thread; events
//! host       Host: an endpoint, its socket, the streams of its connections
//! history    the histories of destinations in a file
//! monitor    the state of a running process, for operators
//! tcp_info   the kernel's statistics of its TCP connections
//! access     the clients of a server, which may change
//! contact    the first contact of two hosts: addresses, trust, errors
//! controller_policy  the controllers that a server lends to clients
//! defaults   what every application begins with
//! directory  opens files below one directory
//! keys       files of keys                peer       the other host of a connection
//! locked     a file under a lock          signals    of an operator
//! socket     batches of packets with ECN codes and receive timestamps, over layout
//! steering   several sockets on one port, one for each thread
//! clock      precise time and waits      ready   readiness of sockets
//! memory     returned to the system
//! ```
//!
//! All packets are encrypted and authenticated (`rampmeter-session`), except in scenarios, whose streams carry no data:
//! only the feature `clear` has hosts that send in clear.

mod access;
mod clock;
pub mod contact;
mod controller_policy;
mod defaults;
mod directory;
mod driver;
mod history;
mod host;
pub mod keys;
mod layout;
mod locked;
mod memory;
pub mod monitor;
mod peer;
mod ready;
mod signals;
mod socket;
mod steering;
mod stream;
mod tcp_info;

pub use access::{Access, Comments};
pub use clock::{Clock, WakeupLatency, set_min_timer_slack};
pub use contact::{ContactError, KeyChanged, KeyOrigin, ServerAddress, Trust, Trusted};
pub use controller_policy::{ControllerPolicy, MakeController, NotLent};
pub use defaults::{DEFAULT_CONTROLLER, default_transport, fresh_seed, max_datagram, os_random};
pub use directory::{Directory, MAX_NAME, Unopened, check_name};
pub use driver::{Alarm, EventLoop, HostId};
pub use history::{HistoryError, HistoryFile};
pub use host::{EndReason, Event, Host, Limits, LineLimit, MAX_WINDOW, SessionEnd};
pub use locked::{IfLocked, open_locked};
pub use memory::{hide_memory, return_memory};
pub use peer::Peer;
pub use rampmeter_session::shares::has_place;
pub use signals::{Hangups, stop_on_interrupt, stop_or_drain};
pub use socket::Socket;
pub use steering::{MAX_THREADS, Port, default_threads};
pub use stream::Arrivals;
pub use tcp_info::TcpInfo;
