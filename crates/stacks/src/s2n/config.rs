//! What an endpoint is made of. The parts are those that the crate `s2n-quic` takes by default, as it ships.
//!
//! *Deviations*: connection ids and random numbers come from the run; packets are not encrypted; no address-validation
//! tokens are sent or accepted; a silent connection sends a ping every 10 s.

use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use rampmeter_units::{Bytes, Random};
use s2n_quic_core::connection::close::Production;
use s2n_quic_core::connection::id::{ConnectionInfo, Generator, LocalId, Validator};
use s2n_quic_core::connection::{InitialId, Limits};
use s2n_quic_core::endpoint::Endpoint as _;
use s2n_quic_core::endpoint::limits::{ConnectionAttempt, Limiter, Outcome};
use s2n_quic_core::packet::interceptor;
use s2n_quic_core::path::{RemoteAddress, migration, mtu};
use s2n_quic_core::recovery::congestion_controller;
use s2n_quic_core::stateless_reset::token;
use s2n_quic_core::token::{Context as TokenContext, Format};
use s2n_quic_core::{datagram, dc, random};
use s2n_quic_transport::endpoint::handle::{Acceptor, Connector};
use s2n_quic_transport::endpoint::{Config, Context, Endpoint, Type};
use s2n_quic_transport::{connection, stream};

use super::driver::{Driver, Meter};
use super::session::Sessions;

/// The smallest IP packet: QUIC needs a payload of 1200 bytes (RFC 9000, section 14), and 28 bytes are headers.
pub(super) const MIN_PACKET: u64 = 1228;

/// The largest IP packet of the crate's defaults.
const MAX_PACKET: u64 = 1500;

/// A flow may have nothing to send for longer than the idle timeout of 30 s.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The bytes of a connection id, as by default.
const ID: usize = 16;

/// Starts an endpoint that opens connections.
type StartClient = fn(Random, Bytes) -> (Box<dyn Driver>, Connector);

/// Starts an endpoint that accepts connections.
type StartServer = fn(Random, Bytes) -> (Box<dyn Driver>, Acceptor);

/// Starts endpoints whose connections have one controller, with random numbers and the largest IP packet.
#[derive(Clone, Copy)]
pub(super) struct EndpointFactory {
    pub(super) client: StartClient,
    pub(super) server: StartServer,
}

impl EndpointFactory {
    pub(super) fn of<C: congestion_controller::Endpoint + Default>() -> Self {
        Self {
            client: |random, packet| {
                let (mut endpoint, connector) = Endpoint::new_client(Parts::<C, true>::new(random));
                endpoint.set_mtu_config(mtu_of(packet));
                (Box::new(endpoint), connector)
            },
            server: |random, packet| {
                let (mut endpoint, acceptor) = Endpoint::new_server(Parts::<C, false>::new(random));
                endpoint.set_mtu_config(mtu_of(packet));
                (Box::new(endpoint), acceptor)
            },
        }
    }
}

fn mtu_of(packet: Bytes) -> mtu::Config {
    let largest = packet.as_u64().clamp(MIN_PACKET, MAX_PACKET) as u16;
    let builder = mtu::Config::builder().with_max_mtu(largest).and_then(mtu::Builder::build);
    builder.expect("it is at least the smallest")
}

/// Random numbers of the run.
struct RunRandom(Random);

impl RunRandom {
    fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.0.below(u64::MAX).to_be_bytes()[..part.len()]);
        }
    }

    /// Random numbers that these give a seed.
    fn split(&mut self) -> Self {
        Self(Random::from_seed(self.0.below(u64::MAX)))
    }
}

impl random::Generator for RunRandom {
    fn public_random_fill(&mut self, bytes: &mut [u8]) {
        self.fill(bytes);
    }

    fn private_random_fill(&mut self, bytes: &mut [u8]) {
        self.fill(bytes);
    }
}

impl Generator for RunRandom {
    fn generate(&mut self, _: &ConnectionInfo<'_>) -> LocalId {
        let mut id = [0; ID];
        self.fill(&mut id);
        LocalId::try_from_bytes(&id).expect("its length is permitted")
    }
}

impl Validator for RunRandom {
    fn validate(&self, _: &ConnectionInfo<'_>, bytes: &[u8]) -> Option<usize> {
        (bytes.len() >= ID).then_some(ID)
    }
}

impl token::Generator for RunRandom {
    // By default the tokens are random, so that no reset can be sent.
    const ENABLED: bool = false;

    fn generate(&mut self, _: &[u8]) -> s2n_quic_core::stateless_reset::Token {
        let mut token = [0; token::LEN];
        self.fill(&mut token);
        token.into()
    }
}

/// Accepts every connection.
struct AcceptAll;

impl Limiter for AcceptAll {
    fn on_connection_attempt(&mut self, _: &ConnectionAttempt<'_>) -> Outcome {
        Outcome::allow()
    }
}

/// No address-validation tokens: no endpoint asks for one, or opens a second connection.
struct NoToken;

impl Format for NoToken {
    const TOKEN_LEN: usize = 0;

    fn generate_new_token(&mut self, _: &mut TokenContext<'_>, _: &LocalId, _: &mut [u8]) -> Option<()> {
        None
    }

    fn generate_retry_token(&mut self, _: &mut TokenContext<'_>, _: &InitialId, _: &mut [u8]) -> Option<()> {
        None
    }

    fn validate_token(&mut self, _: &mut TokenContext<'_>, _: &[u8]) -> Option<InitialId> {
        None
    }
}

/// The parts of an endpoint whose connections have the controllers of `C`.
struct Parts<C, const IS_CLIENT: bool> {
    controllers: C,
    ids: RunRandom,
    tokens: RunRandom,
    random: RunRandom,
    limits: Limits,
    mtu: mtu::Manager<mtu::Inherit>,
    meter: Meter,
    sessions: Sessions,
    endpoint_limits: AcceptAll,
    token: NoToken,
    close: Production,
    migration: migration::default::Validator,
    interceptor: interceptor::Disabled,
    datagram: datagram::Disabled,
    dc: dc::Disabled,
}

impl<C: Default, const IS_CLIENT: bool> Parts<C, IS_CLIENT> {
    fn new(random: Random) -> Self {
        let mut random = RunRandom(random);
        Self {
            controllers: C::default(),
            ids: random.split(),
            tokens: random.split(),
            random,
            limits: Limits::default().with_max_keep_alive_period(KEEP_ALIVE).expect("it is permitted"),
            mtu: mtu::Manager::new(mtu::Inherit::default()),
            meter: Meter::default(),
            sessions: Sessions,
            endpoint_limits: AcceptAll,
            token: NoToken,
            close: Production,
            migration: migration::default::Validator,
            interceptor: interceptor::Disabled::default(),
            datagram: datagram::Disabled::default(),
            dc: dc::Disabled::default(),
        }
    }
}

impl<C, const IS_CLIENT: bool> fmt::Debug for Parts<C, IS_CLIENT> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

impl<C: congestion_controller::Endpoint, const IS_CLIENT: bool> Config for Parts<C, IS_CLIENT> {
    type TLSEndpoint = Sessions;
    type CongestionControllerEndpoint = C;
    type Connection = connection::Implementation<Self>;
    type ConnectionLock = Mutex<Self::Connection>;
    type ConnectionIdFormat = RunRandom;
    type StatelessResetTokenGenerator = RunRandom;
    type RandomGenerator = RunRandom;
    type TokenFormat = NoToken;
    type EndpointLimits = AcceptAll;
    type ConnectionLimits = Limits;
    type Mtu = mtu::Inherit;
    type StreamManager = stream::DefaultStreamManager;
    type ConnectionCloseFormatter = Production;
    type EventSubscriber = Meter;
    type PathHandle = RemoteAddress;
    type PathMigrationValidator = migration::default::Validator;
    type PacketInterceptor = interceptor::Disabled;
    type DatagramEndpoint = datagram::Disabled;
    type DcEndpoint = dc::Disabled;

    const ENDPOINT_TYPE: Type = if IS_CLIENT { Type::Client } else { Type::Server };

    fn context(&mut self) -> Context<'_, Self> {
        Context {
            congestion_controller: &mut self.controllers,
            connection_id_format: &mut self.ids,
            stateless_reset_token_generator: &mut self.tokens,
            random_generator: &mut self.random,
            tls: &mut self.sessions,
            endpoint_limits: &mut self.endpoint_limits,
            token: &mut self.token,
            connection_limits: &mut self.limits,
            mtu: &mut self.mtu,
            connection_close_formatter: &mut self.close,
            event_subscriber: &mut self.meter,
            path_migration: &mut self.migration,
            packet_interceptor: &mut self.interceptor,
            datagram: &mut self.datagram,
            dc: &mut self.dc,
        }
    }
}
