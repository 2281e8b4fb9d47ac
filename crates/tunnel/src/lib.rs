//! A tunnel: TCP connections of programs that exist, over one macroflow.
//!
//! ```text
//! program ── TCP ── client ══ streams of one session, UDP ══ server ── TCP ── destination
//! ```
//!
//! Each TCP connection is a stream of its own, so none waits for another's losses, and the manager's scheduler divides
//! the macroflow by weight. Both ends of a connection see its ends and resets as if it were one. `protocol.rs` has the
//! messages.
//!
//! ```
//! use std::future::pending;
//! use std::sync::Arc;
//!
//! use rampmeter_streams::{ClientOptions, ServerOptions};
//! use rampmeter_tunnel::{Allow, TunnelClient, TunnelOptions, TunnelServer, TunnelServerOptions};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use tokio::net::{TcpListener, TcpStream};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! // A program that exists: it listens for TCP connections.
//! let program = TcpListener::bind("127.0.0.1:0").await?;
//! let destination = program.local_addr()?;
//! tokio::spawn(async move { program.accept().await.unwrap().0.write_all(b"through the tunnel").await });
//!
//! let address = "127.0.0.1:0".parse()?;
//! let server = TunnelServer::bind(TunnelServerOptions {
//!     server: ServerOptions { address, controller: "pcp".into(), ..ServerOptions::default() },
//!     allow: Allow::read([destination.to_string().as_str()])?,
//!     allow_listen: Allow::read([])?,
//!     on_event: Arc::new(|event| println!("{event:?}")),
//! })?;
//! let client = TunnelClient::bind(TunnelOptions {
//!     server: format!("{}?key={}", server.address(), server.key()),
//!     client: ClientOptions { controller: "pcp".into(), ..ClientOptions::default() },
//!     server_controller: None,
//!     local: vec![format!("0:{destination}").parse()?],
//!     remote: Vec::new(),
//!     socks: Vec::new(),
//!     exit_on_forward_failure: false,
//!     max_connections: 16,
//!     on_event: Arc::new(|event| println!("{event:?}")),
//! })
//! .await?;
//! let entrance = client.addresses()[0];
//! tokio::spawn(server.run(pending()));
//! tokio::spawn(client.run(pending()));
//!
//! let mut text = String::new();
//! TcpStream::connect(entrance).await?.read_to_string(&mut text).await?;
//! assert_eq!(text, "through the tunnel");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A server serves only listed keys, connects only to destinations that its operator has allowed, and listens only
//! where that is allowed.

mod allow;
mod client;
mod forward;
mod http;
mod near;
mod protocol;
mod proxy;
mod relay;
mod server;
mod socks;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rampmeter_session::PublicKey;
use thiserror::Error;

pub use allow::Allow;
pub use client::{TunnelClient, TunnelOptions};
pub use forward::{Forward, listen_address};
pub use protocol::{Refusal, Target, Weight};
pub use server::{TunnelRules, TunnelServer, TunnelServerOptions};

use rampmeter_net::ContactError;
use rampmeter_session::Service;
use rampmeter_streams::{Degraded, Session, StreamError};

/// The service, in the handshakes of sessions.
pub const SERVICE: Service = Service(3);

/// The streams of a tunnel that have a first window each (RFC 6928): browsers open as many TCP connections to a host.
const FIRST_WINDOWS: usize = 6;

/// Called for each event of a tunnel.
pub type OnEvent = Arc<dyn Fn(&Event) + Send + Sync>;

/// What an operator may want to know.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// The session with the server is open.
    Connected {
        /// The server's address.
        server: SocketAddr,
        /// Its key.
        key: PublicKey,
        /// Whether this was the first contact, and its key was stored.
        is_new: bool,
    },
    /// There is no session with the server; the next attempt follows after a while.
    Lost {
        /// Why.
        reason: String,
        /// The time until the next attempt.
        wait: Duration,
    },
    /// The server does not answer at present. Connections wait for it, new ones for ten seconds at most.
    Silent {
        /// The server's address.
        server: SocketAddr,
    },
    /// The server answers again.
    Answers {
        /// The server's address.
        server: SocketAddr,
    },
    /// The controller of what this host sends cannot work as designed on the path. Reported once for each reason and
    /// session, until the other host has another address.
    Degraded {
        /// The client, at a server: its key, and the comment of that.
        client: Option<String>,
        /// The controller, and the reason.
        degraded: Degraded,
    },
    /// A program's connection is refused, because it has waited too long for the server.
    NotCarried {
        /// The destination.
        to: Target,
    },
    /// The server's answer to a listener.
    Listening {
        /// The listener.
        forward: Forward,
        /// The port at the server, or why it does not listen.
        port: Result<u16, Refusal>,
    },
    /// A connection was refused.
    Refused {
        /// The client, at a server: its key, and the comment of that.
        client: Option<String>,
        /// The destination.
        to: Target,
        /// Why.
        refusal: Refusal,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected { server, key, is_new: false } => write!(f, "connected to {server} ({key})"),
            Self::Connected { server, key, is_new: true } => write!(
                f,
                "first contact with {server}: its key {key} is now a known one; ask its operator whether it is right"
            ),
            Self::Lost { reason, wait } => write!(f, "{reason}; next attempt in {:.1} s", wait.as_secs_f64()),
            Self::Silent { server } => write!(f, "{server} does not answer; connections wait for it"),
            Self::Answers { server } => write!(f, "{server} answers again"),
            Self::Degraded { client, degraded: Degraded { controller, reason } } => {
                let of = client.as_ref().map_or_else(String::new, |client| format!(" for {client}"));
                write!(f, "{controller}{of} is degraded: {reason}")
            }
            Self::NotCarried { to } => write!(f, "no connection to {to}: {}", relay::no_answer()),
            Self::Listening { forward, port: Ok(port) } => {
                write!(
                    f,
                    "the server listens on {} for {}",
                    Target { port: *port, ..forward.listen.clone() },
                    forward.to
                )
            }
            Self::Listening { forward, port: Err(refusal) } => write!(f, "-R {}: {refusal}", forward.listen),
            Self::Refused { client: None, to, refusal } => write!(f, "no connection to {to}: {refusal}"),
            Self::Refused { client: Some(client), to, refusal } => {
                write!(f, "no connection to {to} for {client}: {refusal}")
            }
        }
    }
}

/// Why a tunnel's client ends or fails.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TunnelError {
    /// The server cannot be contacted.
    #[error(transparent)]
    Contact(#[from] ContactError),
    /// The session with the server has ended.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The server refuses this client.
    #[error("the tunnel's server refuses: {0}")]
    Refused(Refusal),
    /// The server does not listen for this client, and the client is to end then.
    #[error("cannot forward -R {0}: {1}")]
    CannotForward(Target, Refusal),
    /// The one connection that a client carries was not made, or did not end regularly.
    #[error("no connection to {0}: {1}")]
    NoConnection(Target, String),
    /// A listener cannot be bound.
    #[error("cannot listen on {0}: {1}; write an address of this machine and a free port that is allowed")]
    CannotListen(Target, io::Error),
}

impl TunnelError {
    /// Whether another attempt cannot succeed before somebody changes something.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Contact(error) => error.is_permanent(),
            Self::Stream(_) | Self::Refused(Refusal::Stopping) => false,
            Self::Refused(_) | Self::CannotListen(..) | Self::CannotForward(..) | Self::NoConnection(..) => true,
        }
    }

    /// Whether the error is in the request itself.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Contact(error) => error.is_usage(),
            Self::Refused(refusal) => matches!(refusal, Refusal::NoSuchController | Refusal::ControllerNotAllowed),
            Self::Stream(_) | Self::CannotListen(..) | Self::CannotForward(..) | Self::NoConnection(..) => false,
        }
    }
}

/// Reports when the controller of a session is degraded.
async fn report_degraded(session: Session, client: Option<String>, on_event: OnEvent) {
    let mut known = None;
    while let Some(degraded) = session.degraded(known).await {
        on_event(&Event::Degraded { client: client.clone(), degraded });
        known = Some(degraded);
    }
}

/// Raises the number of files that this process may have open to what the system allows it: a connection is one.
pub fn raise_file_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    // Where it fails, the number stays, and connections beyond it wait.
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}
