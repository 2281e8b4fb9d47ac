//! Rampmeter's congestion controllers in [quinn](https://docs.rs/quinn): [`controller`] makes any of them by name.
//!
//! ```text
//!   quinn                           adapter                                rampmeter-control
//!   on_sent, on_ack      ─────►     numbers packets, joins times  ─────►   Controller
//!   window()             ◄─────     window and rate as a window   ◄─────   window(), rate()
//! ```
//!
//! The controller starts with the first acknowledgement, and gets no report of packets sent before. A packet counts as
//! arrived when its acknowledgement did, so delays are those of the round trip. A report of marks counts as one mark.

mod adapter;
mod in_flight;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use quinn_proto::congestion::{Controller, ControllerFactory};
use rampmeter_control::Registry;
use rampmeter_control::registry::Factory as Make;
use rampmeter_units::{Random, RegistryError};
use toml::Table;

pub use rampmeter_control as control;

use adapter::Adapter;

/// The built-in controller `name` with its default settings, for `TransportConfig::congestion_controller_factory`.
///
/// [`Factory::new`] takes settings and controllers of other crates.
///
/// # Errors
///
/// No controller has this name, or it needs settings.
pub fn controller(name: &str) -> Result<Arc<Factory>, RegistryError> {
    Registry::default().factory(name, &Table::new()).map(|make| Arc::new(Factory::new(make)))
}

/// Makes the controller of each connection.
pub struct Factory {
    make: Make,
    random: Mutex<Random>,
}

impl Factory {
    /// Makes controllers as [`Registry::factory`] returns them. Their random numbers have a seed from the operating system,
    /// by the keys of a [`RandomState`].
    pub fn new(make: Make) -> Self {
        Self::with_random(make, Random::from_seed(RandomState::new().hash_one(0)))
    }

    /// The same with the random numbers of a simulation.
    pub fn with_random(make: Make, random: Random) -> Self {
        Self { make, random: Mutex::new(random) }
    }

    fn make(&self) -> rampmeter_control::AnyController {
        let seed = self.random.lock().unwrap_or_else(PoisonError::into_inner).below(u64::MAX);
        (self.make)(Random::from_seed(seed))
    }
}

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Factory").finish_non_exhaustive()
    }
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Adapter::new(self, now, current_mtu))
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
