//! Rampmeter's congestion controllers in [quinn](https://docs.rs/quinn): [`controller`] makes any of them by name.
//!
//! quinn paces by the window alone. `rampmeter-quic` has what connects a controller with a stack.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use rampmeter_quic::control::registry::Factory as Make;
use rampmeter_quic::units::{Random, Rate, RegistryError};
use rampmeter_quic::{Adapter, Controllers, Pacing};

pub use rampmeter_quic::control;

/// The built-in controller `name` with its default settings, for `TransportConfig::congestion_controller_factory`.
///
/// [`Factory::new`] takes settings and controllers of other crates.
///
/// # Errors
///
/// No controller has this name, or it needs settings.
pub fn controller(name: &str) -> Result<Arc<Factory>, RegistryError> {
    Ok(Arc::new(Factory(Arc::new(Controllers::named(name)?))))
}

/// Makes the controller of each connection.
#[derive(Debug)]
pub struct Factory(Arc<Controllers>);

impl Factory {
    /// Makes controllers as [`control::Registry::factory`] returns them. Their random numbers have a seed from the operating
    /// system.
    pub fn new(make: Make) -> Self {
        Self(Arc::new(Controllers::new(make)))
    }

    /// The same with the random numbers of a simulation.
    pub fn with_random(make: Make, random: Random) -> Self {
        Self(Arc::new(Controllers::with_random(make, random)))
    }
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(InQuinn(Adapter::new(self.0.clone(), now, current_mtu, Pacing::ByWindow)))
    }
}

/// A controller of one connection.
struct InQuinn(Adapter);

impl Controller for InQuinn {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.0.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.0.on_ack(now, sent, bytes, app_limited, [rtt.get(), rtt.min()]);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _largest_acked: Option<u64>) {
        self.0.on_end_acks(now, in_flight, app_limited);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent_congestion: bool, lost_bytes: u64) {
        self.0.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.0.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.0.window()
    }

    /// The rate in bits a second, which quinn only reports.
    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.0.window();
        metrics.pacing_rate = self.0.rate().map(Rate::as_bps);
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self(self.0.at_another_port()))
    }

    fn initial_window(&self) -> u64 {
        self.0.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
