//! s2n-quic: the crate `s2n-quic-transport`, which is all of it but sockets and cryptography, with its own controllers.
//!
//! ```text
//!   host.rs   one flow, one connection, one endpoint: passes datagrams, deadlines and events on
//!   flow.rs   the application of a flow: opens and accepts streams, writes, reads, closes
//!   driver.rs an endpoint in virtual time: queues of one datagram, and a meter of its events
//!   config.rs what an endpoint is made of: the defaults of the crate `s2n-quic`, but with the run's random numbers
//!   session.rs a handshake and packets of the sizes of TLS 1.3, without encryption
//! ```

mod config;
mod driver;
mod flow;
mod host;
mod session;

use rampmeter_scenario::stack::{Setup, Stack, StackHost};
use rampmeter_units::Bytes;
use s2n_quic_core::recovery::{bbr, cubic};

use self::config::EndpointFactory;
use self::host::Host;

/// The stack s2n-quic.
#[derive(Debug, Clone, Copy)]
pub struct S2nQuic;

impl Stack for S2nQuic {
    fn about(&self) -> &'static str {
        "s2n-quic-transport 0.83.0"
    }

    fn controllers(&self) -> Vec<&str> {
        vec!["bbr", "cubic"]
    }

    fn min_packet(&self) -> Bytes {
        Bytes::new(config::MIN_PACKET)
    }

    fn host(&self, controller: &str, setup: Setup) -> Box<StackHost> {
        let factory = match controller {
            "bbr" => EndpointFactory::of::<bbr::Endpoint>(),
            "cubic" => EndpointFactory::of::<cubic::Endpoint>(),
            other => unreachable!("{other} is not one of `controllers`"),
        };
        Box::new(Host::new(factory, setup))
    }
}
