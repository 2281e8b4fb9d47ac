//! quinn: the state machine `quinn-proto` with its own controllers, and with Rampmeter's.

mod api;
#[path = "../quic/flow.rs"]
mod flow;
#[path = "../quic/host.rs"]
mod host;
#[path = "../quic/session.rs"]
mod session;

use std::sync::Arc;

use quinn_proto as proto;
use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use rampmeter_control::Registry;
use rampmeter_quinn::Factory;
use rampmeter_scenario::stack::{Setup, Stack, StackHost};
use rampmeter_units::Bytes;

use self::host::Host;
use crate::ours::Ours;

/// The stack quinn.
#[derive(Debug, Clone)]
pub struct Quinn(Ours);

impl Quinn {
    /// With its own controllers, and as `rampmeter-NAME` with each of these that needs no settings.
    pub fn new(controllers: &Registry) -> Self {
        Self(Ours::of(controllers))
    }
}

impl Stack for Quinn {
    fn about(&self) -> &'static str {
        option_env!("RAMPMETER_QUINN").unwrap_or("quinn-proto 0.11.19") // `make checkout` names the checkout
    }

    fn controllers(&self) -> Vec<&str> {
        ["bbr", "cubic", "newreno"].into_iter().chain(self.0.names()).collect()
    }

    fn min_packet(&self) -> Bytes {
        Bytes::new(host::MIN_PACKET)
    }

    fn host(&self, controller: &str, mut setup: Setup) -> Box<StackHost> {
        let factory: Arc<dyn ControllerFactory + Send + Sync> = match controller {
            "bbr" => Arc::new(BbrConfig::default()),
            "cubic" => Arc::new(CubicConfig::default()),
            "newreno" => Arc::new(NewRenoConfig::default()),
            other => {
                let make = self.0.get(other).expect("it is one of `controllers`");
                Arc::new(Factory::with_random(make, host::seed(&mut setup.random)))
            }
        };
        Box::new(Host::new(factory, setup))
    }
}
