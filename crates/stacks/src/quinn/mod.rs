//! quinn: the state machine `quinn-proto` with its own controllers.

mod host;
mod session;

use std::sync::Arc;

use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use rampmeter_scenario::stack::{Setup, Stack, StackHost};

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

    fn host(&self, controller: &str, setup: Setup) -> Box<StackHost> {
        let factory: Arc<dyn ControllerFactory + Send + Sync> = match controller {
            "bbr" => Arc::new(BbrConfig::default()),
            "newreno" => Arc::new(NewRenoConfig::default()),
            _ => Arc::new(CubicConfig::default()),
        };
        Box::new(Host::new(factory, setup))
    }
}
