//! The emulated world: a plan run with real packets on one Linux box.
//!
//! ```text
//!   namespace A                     this process                     namespace B
//!  sockets ─ kernel ─ TUN ──► links and routers of the plan ──► TUN ─ kernel ─ sockets
//! ```
//!
//! Senders are real: Rampmeter's endpoints on UDP sockets, and the kernel's own TCP. The network between them is the
//! same [`rampmeter_router::Link`] objects that the simulator runs, fed with the packets that two TUN devices deliver.
//! Namespaces have no names and devices belong to open files, so that nothing is left behind however a run ends.
//!
//! It needs root, or a user namespace ([`enter_user_namespace`]) and a `/dev/net/tun` open to the user. [`probe`] says
//! what is there. Runs take as long as they say, one at a time: two at once would disturb each other's timing.

mod checksum;
mod clock;
mod commands;
mod datagram;
mod host;
mod interface;
mod kernel;
mod lateness;
mod namespace;
mod network;
mod ours;
mod priority;
mod probe;
mod pump;
mod sides;
mod stage;
mod timeline;
mod tun;
mod user;
mod world;

pub use commands::{Commands, Status};
pub use probe::{Abilities, Ability, probe};
pub use user::enter_user_namespace;
pub use world::Emulated;
