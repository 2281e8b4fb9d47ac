//! noq: the state machine `noq-proto`, a fork of `quinn-proto` with BBRv3 and multipath, with its own controllers,
//! and with Rampmeter's.

mod api;
#[path = "../quic/flow.rs"]
mod flow;
#[path = "../quic/host.rs"]
mod host;
#[path = "../quic/session.rs"]
mod session;

use std::sync::Arc;

use noq_proto as proto;
use noq_proto::congestion::{Bbr3Config, ControllerFactory, CubicConfig, NewRenoConfig};
use rampmeter_control::Registry;
use rampmeter_noq::Factory;
use rampmeter_scenario::stack::{Setup, Stack, StackHost};
use rampmeter_units::Bytes;

use self::host::Host;
use crate::ours::Ours;

/// The stack noq.
#[derive(Debug, Clone)]
pub struct Noq(Ours);

impl Noq {
    /// With its own controllers, and as `rampmeter-NAME` with each of these that needs no settings.
    pub fn new(controllers: &Registry) -> Self {
        Self(Ours::of(controllers))
    }
}

impl Stack for Noq {
    fn about(&self) -> &'static str {
        option_env!("RAMPMETER_NOQ").unwrap_or("noq-proto 1.4.0") // `make checkout` names the checkout
    }

    fn controllers(&self) -> Vec<&str> {
        ["bbr3", "cubic", "newreno"].into_iter().chain(self.0.names()).collect()
    }

    fn min_packet(&self) -> Bytes {
        Bytes::new(host::MIN_PACKET)
    }

    fn host(&self, controller: &str, mut setup: Setup) -> Box<StackHost> {
        let factory: Arc<dyn ControllerFactory + Send + Sync> = match controller {
            "bbr3" => Arc::new(Bbr3Config::default()),
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
