//! Rampmeter's congestion controllers under Linux's TCP, for programs that know nothing of them.
//!
//! ```text
//!   program ── socket ──► BPF (`bpf/rampmeter.bpf.c`)   reports events, applies window and rate
//!                           │ ring buffer    ▲ array
//!                           ▼                │
//!                         `Datapath` ──► `Host` ──► rampmeter-control's `Controller`
//! ```
//!
//! [`Kernel::load`] makes the kernel know a controller `rampmeter`; [`Kernel::attach`] gives it to the new connections of a
//! control group, and [`Kernel::run`] decides for them until it is stopped. If this process ends, or does not answer for a
//! tenth of a second, each socket goes on by itself as Reno.

mod datapath;
mod host;
mod shared;
mod socket;

pub use datapath::{Kernel, KernelError, Statistics};
pub use host::Closed;

/// Which connections share a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharing {
    /// None: each has its own.
    #[default]
    Socket,
    /// Those to one address are a macroflow, and have equal parts of its window.
    Destination,
}
