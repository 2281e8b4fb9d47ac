//! The options of a daemon, and the errors of its start.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rampmeter_control::Registry;
use rampmeter_manager::{Scheduling, Sharing};
use rampmeter_units::{Duration, RegistryError};
use thiserror::Error as ThisError;

use super::protocol::{Carriage, Protocol, RAW_PROTOCOL};
use crate::default_socket;

/// The limits for flows of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A grant without an answer is revoked after two round trips, and at the earliest after this time.
    pub grant_timeout: Duration,
    /// The number of unanswered grants in a row after which a flow is closed.
    pub max_unanswered: u32,
    /// A flow without calls and without pending requests or grants is closed after this time.
    pub idle_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { grant_timeout: Duration::from_millis(100), max_unanswered: 8, idle_timeout: Duration::from_secs(600) }
    }
}

/// The options of a daemon.
#[derive(Debug, Clone)]
pub struct Options {
    /// The path of its socket.
    pub socket: PathBuf,
    /// The controller of each macroflow, by name.
    pub controller: String,
    /// That controller's settings.
    pub settings: toml::Table,
    /// The registry of controllers.
    pub registry: Registry,
    /// How flows share their paths. The flows to one host always form one macroflow, whatever the grouping here.
    pub sharing: Sharing,
    /// The limits for flows of clients.
    pub limits: Limits,
    /// Serve the processes of all users, not only of its own user and root.
    pub public: bool,
    /// The protocol to daemons of other hosts; none by default.
    pub protocol: Protocol,
    /// Set from outside to end the daemon.
    pub stop: Arc<AtomicBool>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            socket: default_socket(),
            controller: "cm".into(),
            settings: toml::Table::new(),
            registry: Registry::default(),
            sharing: Sharing { scheduling: Scheduling::RoundRobin, ..Sharing::default() },
            limits: Limits::default(),
            public: false,
            protocol: Protocol::default(),
            stop: Arc::default(),
        }
    }
}

/// The reason why a daemon could not start or continue.
#[derive(Debug, ThisError)]
pub enum DaemonError {
    /// The controller cannot be created.
    #[error(transparent)]
    Controller(#[from] RegistryError),
    /// Another daemon listens there.
    #[error("a congestion manager already listens at {0}; stop it, or choose another path with --socket")]
    Running(PathBuf),
    /// The daemon cannot listen at this path.
    #[error("cannot listen at {0}: {1}; choose another path with --socket or RAMPMETER_CM_SOCKET")]
    Listen(PathBuf, io::Error),
    /// The daemon cannot open its sockets to other daemons.
    #[error(
        "cannot communicate with other congestion managers {}: {error}; {}",
        endpoint(*.carriage, *.address), remedy(*.carriage, .error)
    )]
    CarrierFailed {
        /// The carriage.
        carriage: Carriage,
        /// The local address.
        address: Option<IpAddr>,
        /// The error.
        error: io::Error,
    },
    /// The system refused a resource.
    #[error("the system refused a resource of the congestion manager: {0}")]
    System(#[from] io::Error),
}

fn endpoint(carriage: Carriage, address: Option<IpAddr>) -> String {
    let at = address.map_or_else(String::new, |address| format!(" at {address}"));
    match carriage {
        Carriage::Udp(port) => format!("over UDP port {port}{at}"),
        _ => format!("in IP packets of protocol {RAW_PROTOCOL}{at}"),
    }
}

fn remedy(carriage: Carriage, error: &io::Error) -> &'static str {
    match (carriage, error.kind()) {
        (Carriage::Raw, io::ErrorKind::PermissionDenied) => {
            "start it as root, give the command CAP_NET_RAW (setcap cap_net_raw+ep), or omit --raw"
        }
        (_, io::ErrorKind::AddrInUse) => {
            "another daemon uses it; choose another port with --port, on both hosts, or none: --port 0"
        }
        (_, io::ErrorKind::AddrNotAvailable) => "--listen needs an address of this host",
        (Carriage::Raw, _) => "--raw is for IPv4 only",
        _ => "choose another port with --port, on both hosts, or none: --port 0",
    }
}
