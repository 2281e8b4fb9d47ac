//! QUIC implementations as hosts of simulated and emulated networks: whole stacks at pinned versions, with their own controllers
//! and with Rampmeter's.
//!
//! ```text
//!   scenario: controller = "quinn:cubic"
//!                  │
//!   Stack ──► host port: the run's time, UDP datagrams, streams ◄── a world
//!                  │
//!   quinn-proto, noq-proto or s2n-quic-transport, unchanged, with a session that encrypts nothing
//! ```
//!
//! A stack's own settings are its defaults. Runs can be repeated to the byte: random numbers, connection ids and the time
//! come from the run, unless a controller asks the operating system itself, as quinn's `bbr` and noq's `bbr3` do.
//!
//! noq-proto is a fork of quinn-proto, so one source serves both: the files of `quic` are modules of `quinn` and of
//! `noq`, and the compiler reads them once for each. What they call `proto` is the crate of the stack, and `api` is the
//! stack's file of calls that differ between the two crates. A fix in `quic` is a fix in both stacks. s2n-quic has an
//! interface of its own, and so has its host.

#![expect(clippy::duplicate_mod, reason = "the modules of `quic` are compiled for each stack")]

mod noq;
mod ours;
mod quinn;
mod s2n;

pub use noq::Noq;
pub use quinn::Quinn;
use rampmeter_scenario::Registries;
pub use s2n::S2nQuic;

/// The built-in controllers and routers, and the stacks of this crate.
pub fn registries() -> Registries {
    let registries = Registries::default();
    let (noq, quinn) = (Noq::new(&registries.controllers), Quinn::new(&registries.controllers));
    registries.stack("noq", noq).stack("quinn", quinn).stack("s2n-quic", S2nQuic)
}
