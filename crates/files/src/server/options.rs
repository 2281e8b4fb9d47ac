//! What a server is asked to do, and what it reports.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rampmeter_control::Registry;
use rampmeter_net::monitor::Monitor;
use rampmeter_net::{Access, DEFAULT_CONTROLLER, Limits, default_transport, os_random};
use rampmeter_session::{Clients, KeyPair};
use rampmeter_transport::Config;
use rampmeter_units::{Bytes, Duration};
use serde::Serialize;

use crate::DEFAULT_PORT;

/// Receives the report of every transfer that has ended, in the thread that has served it.
pub type TransferHandler = Box<dyn Fn(&TransferReport) + Send + Sync>;

/// Receives a client's address, the name of its degraded controller and the reason
/// ([`degraded_reason`](rampmeter_control::Controller::degraded_reason)).
pub type DegradedHandler = Box<dyn Fn(SocketAddr, &str, &str) + Send + Sync>;

/// The options of a server.
pub struct ServeOptions {
    /// The directory whose regular files are served.
    pub directory: PathBuf,
    /// Whether hidden files are served, too.
    pub hidden: bool,
    /// The address to listen on; by default only this machine's.
    pub address: SocketAddr,
    /// The server's key; by default a new one.
    pub identity: KeyPair,
    /// The names by which clients may ask for it, HOST:PORT each; by default any.
    pub names: Vec<String>,
    /// The clients that it serves; by default all.
    pub clients: Access,
    /// The maximum sum of what send buffers have beyond that of `limits`. Clients share it as they share places.
    pub memory: Bytes,
    /// The controller for clients that name no other.
    pub controller: String,
    /// Its settings.
    pub settings: toml::Table,
    /// The available controllers.
    pub registry: Registry,
    /// The transport settings of connections, apart from the receive window.
    pub transport: Config,
    /// The maximum number of connections that are served at once. One network (24 bits of
    /// IPv4, 48 of IPv6) has at most four fifths of these places, and one client (an IPv4 address, 64 bits of IPv6) four
    /// fifths of those. Further connections wait for a place, and four times as many are refused.
    pub max_clients: usize,
    /// The number of threads that send and receive, 1 to [`MAX_THREADS`](super::MAX_THREADS). Each has a socket of its
    /// own on the port, and all sessions of some of the clients.
    pub threads: usize,
    /// The limits of each client's connection.
    pub limits: Limits,
    /// The time after which a client that responds but takes no bytes, or sends no request, is disconnected.
    pub max_idle: Duration,
    /// Called after every transfer.
    pub on_transfer: Option<TransferHandler>,
    /// Called once for each session and reason for which its controller is degraded, until the client moves to another
    /// address.
    pub on_degraded: Option<DegradedHandler>,
    /// Where the server puts its state once a second.
    pub monitor: Option<Monitor>,
    /// The file for the histories of clients' paths; `None` for none.
    pub history: Option<PathBuf>,
    /// Stops the server when set.
    pub stop: Arc<AtomicBool>,
    /// When it is set, the server serves no further connections, and ends once those that it has have ended, after a
    /// minute at the latest.
    pub drain: Arc<AtomicBool>,
}

impl ServeOptions {
    /// Connections with a place, and those that wait for one.
    pub(super) fn max_connections(&self) -> usize {
        self.max_clients * 4 + 16
    }
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            directory: PathBuf::from("."),
            hidden: false,
            memory: Bytes::new(256 << 20),
            address: (Ipv4Addr::LOCALHOST, DEFAULT_PORT).into(),
            identity: KeyPair::generate(&mut os_random()),
            names: Vec::new(),
            clients: Clients::Anyone.into(),
            controller: DEFAULT_CONTROLLER.into(),
            settings: toml::Table::new(),
            registry: Registry::default(),
            transport: default_transport(),
            max_clients: 256,
            threads: 1,
            limits: Limits::default(),
            max_idle: Duration::from_secs(60),
            on_transfer: None,
            on_degraded: None,
            monitor: None,
            history: None,
            stop: Arc::default(),
            drain: Arc::default(),
        }
    }
}

impl fmt::Debug for ServeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServeOptions")
            .field("directory", &self.directory)
            .field("address", &self.address)
            .field("controller", &self.controller)
            .field("key", &self.identity.public())
            .finish_non_exhaustive()
    }
}

/// The server's report of a connection that has ended.
#[derive(Debug, Clone, Serialize)]
pub struct TransferReport {
    /// The client's address.
    pub peer: SocketAddr,
    /// The client's public key.
    pub key: String,
    /// The key, and its comment in the list of clients.
    pub client: String,
    /// The name in the first request; empty without a request. It comes from the network: escape it before printing it
    /// to a terminal.
    pub name: String,
    /// Files that were sent completely.
    pub files: u64,
    /// The controller that sent the files.
    pub controller: String,
    /// Bytes of files that were sent.
    pub bytes: u64,
    /// The duration of the connection.
    pub seconds: f64,
    /// `finished`, `refused` if nothing else was done, `timed_out`, `reset`, `aborted` or `false_feedback`.
    pub ended: &'static str,
    /// Requests that were refused.
    pub refused: u64,
    /// The name in the last request that was refused. It comes from the network.
    pub refused_name: Option<String>,
    /// Why that request was refused.
    pub refusal: Option<String>,
    /// The smoothed round-trip time at the end.
    pub rtt_s: f64,
    /// Packets with payload sent.
    pub packets: u64,
    /// Retransmissions among them.
    pub retransmitted: u64,
}
