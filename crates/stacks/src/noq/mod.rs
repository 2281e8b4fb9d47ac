//! noq: the state machine `noq-proto`, a fork of `quinn-proto` with BBRv3 and multipath, with its own controllers.

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
use rampmeter_scenario::stack::{Setup, Stack, StackHost};
use rampmeter_units::Bytes;

use self::host::Host;

/// The stack noq.
#[derive(Debug, Clone, Copy)]
pub struct Noq;

impl Stack for Noq {
    fn about(&self) -> &'static str {
        "noq-proto 1.4.0"
    }

    fn controllers(&self) -> Vec<&str> {
        vec!["bbr3", "cubic", "newreno"]
    }

    fn min_packet(&self) -> Bytes {
        Bytes::new(host::MIN_PACKET)
    }

    fn host(&self, controller: &str, setup: Setup) -> Box<StackHost> {
        let factory: Arc<dyn ControllerFactory + Send + Sync> = match controller {
            "bbr3" => Arc::new(Bbr3Config::default()),
            "cubic" => Arc::new(CubicConfig::default()),
            "newreno" => Arc::new(NewRenoConfig::default()),
            other => unreachable!("`{other}` is none of `controllers`"),
        };
        Box::new(Host::new(factory, setup))
    }
}
