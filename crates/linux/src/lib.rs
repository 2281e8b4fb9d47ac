//! The emulated world: a plan run with real packets on one Linux machine.
//!
//! ```text
//!   namespace A                     this process                     namespace B
//!  sockets ─ kernel ─ TUN ──► links and routers of the plan ──► TUN ─ kernel ─ sockets
//! ```
//!
//! Senders are real: Rampmeter's endpoints and other transports' stacks on UDP sockets, and the kernel's own
//! TCP. The network between them is the
//! same [`rampmeter_router::Link`] objects that the simulator runs, with the packets of two TUN devices. Namespaces
//! and devices belong to open files, so the system removes them when the process ends, even if it crashes.
//!
//! It needs root, or a user namespace ([`enter_user_namespace`]) and a `/dev/net/tun` that the user can open. [`probe`]
//! reports what the machine allows. Runs take as long as the plan's time, and only one runs at a time: two would
//! disturb each other's timing.

mod clock;
mod commands;
mod datagram;
mod drive;
mod emulation;
mod endpoints;
mod host;
mod interface;
mod keeper;
mod kernel;
mod name;
mod namespace;
mod priority;
mod probe;
mod route;
mod run_state;
mod sides;
mod stacks;
mod terminal;
mod tun;
mod user;
mod world;

pub use commands::{CommandHost, Commands, Status};
pub use probe::{Abilities, Ability, kernel_tcp, probe};
pub use user::enter_user_namespace;
pub use world::Emulated;
