//! The quantities everything else is written in: time, rate, bytes, ECN codes and random streams; and how people write
//! them down.
//!
//! Every number that has a unit has a type here, so that a delay can't be added to a rate and nobody has to ask
//! whether a field is in bits or bytes. All are plain integers inside: the same inputs give the same outputs on every
//! machine.

mod bytes;
mod ecn;
pub mod exact;
mod load;
mod names;
mod quantity;
mod random;
mod rate;
mod registry;
mod renamed;
pub mod settings;
mod time;

pub use bytes::Bytes;
pub use ecn::Ecn;
pub use load::{LoadCodes, LoadRegion};
pub use names::Known;
pub use quantity::BadQuantity;
pub use random::{Stream, Streams};
pub use rate::Rate;
pub use registry::{RegistryError, Settings};
pub use time::{Duration, Time};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
