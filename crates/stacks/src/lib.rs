//! QUIC implementations as hosts of simulated networks: whole stacks at pinned versions, with their own controllers, and
//! quinn also with Rampmeter's.
//!
//! ```text
//!   scenario: stack = "quinn", controller = "cubic"
//!                  │
//!   Stack ──► host port: virtual time, UDP datagrams, streams ◄── a world
//!                  │
//!   quinn-proto, unchanged, with a session that encrypts nothing
//! ```
//!
//! A stack's own settings are its defaults. Runs can be repeated to the byte: random numbers, connection ids and the time
//! come from the run, unless a controller asks the operating system itself, as quinn's `bbr` does.

mod quinn;

pub use quinn::Quinn;
use rampmeter_scenario::Registries;

/// The built-in controllers and routers, and the stacks of this crate.
pub fn registries() -> Registries {
    let registries = Registries::default();
    let quinn = Quinn::new(&registries.controllers);
    registries.stack("quinn", quinn)
}
