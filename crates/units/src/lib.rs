//! The quantities that all other crates use: time, rate, bytes, ECN codes and random streams, and their text form.
//!
//! Every number with a unit has a type here, and is an integer: the same inputs give the same outputs on every machine.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod bytes;
mod ecn;
pub mod exact;
mod load;
mod names;
mod quantity;
mod random;
mod rate;
mod registry;
pub mod settings;
mod time;

pub use bytes::Bytes;
pub use ecn::Ecn;
pub use load::{LoadCodes, LoadRegion};
pub use names::{Known, nearest};
pub use quantity::BadQuantity;
pub use random::{Random, Streams};
pub use rate::Rate;
pub use registry::{Registry, RegistryError, Settings};
pub use time::{Duration, Time};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
