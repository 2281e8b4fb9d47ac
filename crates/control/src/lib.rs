//! Congestion controllers behind one trait, [`Controller`].
//!
//! A controller receives events (packets sent, acknowledged and lost; idle times). It returns the maximum number of
//! bytes in flight, the time at which the next packet may be sent and the maximum size of that packet. It owns no
//! clock, no socket and no packet: the same object runs in the simulator, in the emulated network and on a real
//! network.
//!
//! Window controllers limit [`Controller::window`] and permit packets at any time. Rate controllers do not limit the
//! window and space the packets. All sizes are those of whole IP packets, headers included, because links carry whole
//! packets.
//!
//! Most window controllers are TCP with two rules of their own, [`rules::Rules`]. The following one reduces its window
//! by a quarter after a loss, instead of half:
//!
//! ```
//! use rampmeter_control::rules::{AckEvent, Amount, Congestion, Rules, Windowed};
//! use rampmeter_control::units::{Bytes, Duration, Random, Time};
//! use rampmeter_control::{Controller, Path, Registry, newreno};
//!
//! #[derive(Debug, Clone)]
//! struct Gentle;
//!
//! impl Rules for Gentle {
//!     type Config = newreno::Config;
//!     fn new(_: &newreno::Config) -> Self { Self }
//!     fn first_window(config: &newreno::Config) -> u64 { config.initial_window }
//!     fn increase(&mut self, event: &AckEvent<'_>) -> Amount { Amount::Packets(event.delivered / event.window) }
//!     fn decrease(&mut self, congestion: &Congestion) -> Amount { Amount::Packets(0.75 * congestion.window) }
//! }
//!
//! let registry = Registry::default().add::<Windowed<Gentle>>("gentle", "TCP that reduces its window by a quarter");
//! let factory = registry.factory("gentle", &"initial_window = 4".parse()?)?;
//! let mut gentle = factory(Random::from_seed(1));
//! gentle.on_path(Time::ZERO, &Path::new(Bytes::new(1500), Duration::from_millis(20), None));
//! assert_eq!(gentle.window(), Bytes::new(6000));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The front page of `rampmeter-sim` simulates it. A controller of another kind implements [`Controller`] directly, as
//! `examples/my_controller` does.
//!
//! `parts` has what several controllers are made of. To add a controller here, add a file in `algorithms` with a type that implements [`Algorithm`], a line in [`registry`] and a row in
//! `docs/controllers.md`.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod algorithms;
mod controller;
mod fault;
mod history;
mod parts;
mod record;
pub mod registry;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use algorithms::*;
pub use controller::{
    Ack, Algorithm, Arrival, Controller, Departure, Loss, LossKind, MarkCount, Notice, Path, Sent, spread,
};
pub use fault::Fault;
pub use history::History;
pub use parts::delivery_rate;
pub use parts::pacer::Pacer;
pub use rampmeter_units as units;
pub use rampmeter_units::Settings;
pub use rampmeter_wire::RouterFeedback;
pub use record::Record;
pub use registry::{AnyController, Registry};

/// What window schemes are made of: their rules, and a controller that applies them.
pub mod rules {
    pub use crate::parts::events::{AckEvent, Congestion, Rounds};
    pub use crate::parts::rules::Rules;
    pub use crate::parts::slow_start::SlowStart;
    pub use crate::parts::window::Amount;
    pub use crate::parts::windowed::Windowed;
    #[cfg(test)]
    pub(crate) use crate::parts::windowed::tests;
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
