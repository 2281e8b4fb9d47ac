//! Rampmeter's congestion controllers behind the reports of QUIC stacks like quinn: the part that
//! `rampmeter-quinn` and `rampmeter-noq` share. A stack's crate implements the stack's traits with an [`Adapter`] for each connection.
//!
//! ```text
//!   stack                           Adapter                                rampmeter-control
//!   on_sent, on_ack      ─────►     numbers packets, joins times  ─────►   Controller
//!   window(), rate()     ◄─────     window and rate               ◄─────   window(), rate()
//! ```
//!
//! The controller starts with the first acknowledgement, and gets no report of packets sent before. A packet counts as
//! arrived when its acknowledgement did, so delays are those of the round trip. Where one acknowledgement reports many, they
//! arrived evenly since the last one, as far as none was faster than the minimum. A report of marks counts as one mark.

mod adapter;
mod in_flight;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use rampmeter_control::registry::Factory as Make;
use rampmeter_control::{AnyController, Registry};
use rampmeter_units::{Random, RegistryError};
use toml::Table;

pub use adapter::{Adapter, Pacing};
pub use rampmeter_control as control;
pub use rampmeter_units as units;

/// Makes the controller of each connection.
pub struct Controllers {
    make: Make,
    random: Mutex<Random>,
}

impl Controllers {
    /// The built-in controller `name` with its default settings.
    ///
    /// # Errors
    ///
    /// No controller has this name, or it needs settings.
    pub fn named(name: &str) -> Result<Self, RegistryError> {
        Registry::default().factory(name, &Table::new()).map(Self::new)
    }

    /// Makes controllers as [`Registry::factory`] returns them. Their random numbers have a seed from the operating system,
    /// by the keys of a [`RandomState`].
    pub fn new(make: Make) -> Self {
        Self::with_random(make, Random::from_seed(RandomState::new().hash_one(0)))
    }

    /// The same with the random numbers of a simulation.
    pub fn with_random(make: Make, random: Random) -> Self {
        Self { make, random: Mutex::new(random) }
    }

    fn make(&self) -> AnyController {
        let seed = self.random.lock().unwrap_or_else(PoisonError::into_inner).below(u64::MAX);
        (self.make)(Random::from_seed(seed))
    }
}

impl fmt::Debug for Controllers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controllers").finish_non_exhaustive()
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
