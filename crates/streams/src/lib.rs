//! Streams for asynchronous programs: reliable sequences of bytes over encrypted sessions, on tokio.
//!
//! ```text
//! Server, Client   engines in threads of their own: sockets, sessions, precise timers
//! Session          two hosts; both open streams in it
//! Stream           AsyncRead and AsyncWrite, over the pipe to its connection
//! ```
//!
//! Each stream is a connection of the transport, with a receive window of its own, so that a stream that nobody reads
//! does not delay others. All streams of a session share a macroflow: one controller decides how much the path carries,
//! and the manager's scheduler divides it by the weights of the streams.
//!
//! ```
//! use rampmeter_streams::{Client, ClientOptions, Server, ServerOptions};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let address = "127.0.0.1:0".parse().unwrap();
//! let mut server = Server::bind(ServerOptions { address, ..ServerOptions::default() })?;
//! let url = format!("{}?key={}", server.address(), server.key());
//!
//! // An echo for one stream.
//! tokio::spawn(async move {
//!     let mut stream = server.accept().await.unwrap();
//!     let mut text = String::new();
//!     stream.read_to_string(&mut text).await.unwrap();
//!     stream.write_all(text.as_bytes()).await.unwrap();
//!     stream.shutdown().await.unwrap();
//!     server.close().await;
//! });
//!
//! let client = Client::connect(&url, ClientOptions::default()).await?;
//! let mut stream = client.open().await?;
//! stream.set_weight(2.0);
//! stream.write_all(b"to and fro").await?;
//! stream.shutdown().await?;
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer).await?;
//! assert_eq!(answer, "to and fro");
//! client.close().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! The cost of another host is bounded: the number of sessions, of streams of each session, the bytes of each stream in
//! memory, and the sum of all receive windows and of what send buffers have beyond four megabytes.

mod client;
mod dial;
mod engine;
mod entry;
mod error;
mod link;
mod pipe;
mod receive_window;
mod server;
mod session;
mod stream;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rampmeter_control::{AnyController, Registry};
use rampmeter_manager::{Grouping, Scheduling, Sharing};
use rampmeter_session::Service;
use rampmeter_transport::{Config, Endpoint, EndpointConfig};
use rampmeter_units::{Duration, Random};
use tokio::sync::watch;

pub use client::{Client, ClientOptions};
pub use error::StreamError;
pub use server::{Server, ServerOptions};
pub use session::{Degraded, Session};
pub use stream::{PathState, Stream};

use rampmeter_net::{ContactError, Limits, Peer, fresh_seed, os_random};

/// The service of servers that name no other, in the handshakes of sessions.
pub const SERVICE: Service = Service(2);

/// The default port of servers of streams.
pub const DEFAULT_PORT: u16 = rampmeter_net::contact::STREAMS_PORT;

/// The default transport settings of streams. A peer may be away for a minute or two.
pub fn default_transport() -> Config {
    Config { receive_window: entry::FIRST_WINDOW, max_timeouts: 8, ..rampmeter_net::default_transport() }
}

/// A connection has few unsent bytes, so that a stream's next bytes leave soon. The engine notices silent peers.
fn default_limits() -> Limits {
    Limits { send_buffer: entry::FIRST_SEND_BUFFER.as_u64() as usize, unsent: 256 * 1024 }
}

/// The maximum time for what goes on when a server is to end.
pub const DRAIN_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);

/// Waits until a signal has set this flag ([`rampmeter_net::stop_on_interrupt`]).
pub async fn stopped(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// How long a stream may send before it is the turn of the next one. So a key that is pressed waits no longer for each
/// stream that is busy.
const TURN: Duration = Duration::from_millis(10);

/// Waits until the thread that has the sender has ended.
async fn ended(mut thread: watch::Receiver<()>) {
    while thread.changed().await.is_ok() {}
}

/// What makes an endpoint whose connections in one session share a macroflow, under the controller of this name.
fn endpoint(
    registry: &Registry,
    controller: &str,
    settings: &toml::Table,
    first_windows: usize,
) -> Result<impl Fn(Config, usize) -> Endpoint<AnyController, Peer> + Send + use<>, ContactError> {
    let factory = registry.factory(controller, settings)?;
    Ok(move |transport, max_connections| {
        let mut seeds = Random::from_seed(fresh_seed());
        let factory = Arc::clone(&factory);
        let make = move || factory(Random::from_seed(seeds.below(u64::MAX)));
        let sharing = Sharing {
            // Others may begin at the same address, behind a NAT. They need not be honest, nor there, and may move.
            grouping: Grouping::PerSession,
            scheduling: Scheduling::RoundRobin,
            first_windows,
            turn: TURN,
            ..Sharing::default()
        };
        let config = EndpointConfig { sharing, accept: Some(transport), max_connections, ..EndpointConfig::default() };
        Endpoint::new(config, make, os_random())
    })
}
