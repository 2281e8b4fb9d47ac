//! quinn: the state machine `quinn-proto` with its own controllers, and with Rampmeter's.

mod api;
#[path = "../quic/flow.rs"]
mod flow;
#[path = "../quic/host.rs"]
mod host;
#[path = "../quic/session.rs"]
mod session;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use quinn_proto as proto;
use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use rampmeter_control::Registry;
use rampmeter_control::registry::Factory as Make;
use rampmeter_quinn::Factory;
use rampmeter_scenario::stack::{Setup, Stack, StackHost};
use rampmeter_units::{Bytes, Random};
use toml::Table;

use self::host::Host;

/// What the names of Rampmeter's controllers begin with in the stack.
const OURS: &str = "rampmeter-";

/// The stack quinn.
#[derive(Clone)]
pub struct Quinn {
    /// Rampmeter's controllers, by their names in the stack.
    ours: BTreeMap<String, Make>,
}

impl Quinn {
    /// With its own controllers, and as `rampmeter-NAME` with each of these that needs no settings.
    pub fn new(controllers: &Registry) -> Self {
        let made =
            controllers.list().filter_map(|(name, _)| Some((name, controllers.factory(name, &Table::new()).ok()?)));
        Self { ours: made.map(|(name, make)| (format!("{OURS}{name}"), make)).collect() }
    }
}

impl fmt::Debug for Quinn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quinn").field("controllers", &self.controllers()).finish()
    }
}

impl Stack for Quinn {
    fn about(&self) -> &'static str {
        "quinn-proto 0.11.19"
    }

    fn controllers(&self) -> Vec<&str> {
        ["bbr", "cubic", "newreno"].into_iter().chain(self.ours.keys().map(String::as_str)).collect()
    }

    fn min_packet(&self) -> Bytes {
        Bytes::new(host::MIN_PACKET)
    }

    fn host(&self, controller: &str, mut setup: Setup) -> Box<StackHost> {
        let factory: Arc<dyn ControllerFactory + Send + Sync> = match (controller, self.ours.get(controller)) {
            ("bbr", _) => Arc::new(BbrConfig::default()),
            ("cubic", _) => Arc::new(CubicConfig::default()),
            ("newreno", _) => Arc::new(NewRenoConfig::default()),
            (_, Some(make)) => {
                Arc::new(Factory::with_random(make.clone(), Random::from_seed(host::draw(&mut setup.random))))
            }
            (other, None) => unreachable!("`{other}` is none of `controllers`"),
        };
        Box::new(Host::new(factory, setup))
    }
}
