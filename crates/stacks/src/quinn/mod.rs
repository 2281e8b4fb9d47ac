//! quinn: the state machine `quinn-proto` with its own controllers.

mod host;
mod session;

use std::sync::Arc;

use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use rampmeter_scenario::stack::{Setup, Stack, StackHost};
use rampmeter_units::Bytes;

use self::host::Host;

/// The stack quinn.
#[derive(Debug, Clone, Copy)]
pub struct Quinn;

impl Stack for Quinn {
    fn about(&self) -> &'static str {
        "quinn-proto 0.11.19"
    }

    fn controllers(&self) -> Vec<&str> {
        vec!["bbr", "cubic", "newreno"]
    }

    fn min_packet(&self) -> Bytes {
        Bytes::new(host::MIN_PACKET)
    }

    fn host(&self, controller: &str, setup: Setup) -> Box<StackHost> {
        let factory: Arc<dyn ControllerFactory + Send + Sync> = match controller {
            "bbr" => Arc::new(BbrConfig::default()),
            "cubic" => Arc::new(CubicConfig::default()),
            "newreno" => Arc::new(NewRenoConfig::default()),
            other => unreachable!("`{other}` is none of `controllers`"),
        };
        Box::new(Host::new(factory, setup))
    }
}
