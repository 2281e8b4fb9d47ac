//! What a daemon is to be like, and why it could not start.

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

/// What a daemon puts up with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A grant is taken back after two round trips, and not before this.
    pub patience: Duration,
    /// Grants in a row that a flow may leave unanswered.
    pub ignored: u32,
    /// A flow that says nothing for so long, and has nothing under way, is closed.
    pub silence: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { patience: Duration::from_millis(100), ignored: 8, silence: Duration::from_secs(600) }
    }
}

/// What a daemon is to be like.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it listens.
    pub socket: PathBuf,
    /// The controller of each macroflow, by name.
    pub controller: String,
    /// That controller's settings.
    pub settings: toml::Table,
    /// Where names of controllers come from.
    pub registry: Registry,
    /// How flows share their paths. Those to one host are one macroflow, whatever this says of their grouping.
    pub sharing: Sharing,
    /// What it puts up with.
    pub limits: Limits,
    /// Serve processes of all users, not only of its own and root.
    pub public: bool,
    /// How it talks to daemons of other hosts; not at all by default.
    pub protocol: Protocol,
    /// Raised from outside to end it.
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

/// Why a daemon could not start or go on.
#[derive(Debug, ThisError)]
pub enum DaemonError {
    /// The controller can't be made.
    #[error(transparent)]
    Controller(#[from] RegistryError),
    /// Another one listens there.
    #[error("a congestion manager already listens at {0}; stop it, or choose another place with --socket")]
    Running(PathBuf),
    /// It can't listen there.
    #[error("can't listen at {path}: {error}; choose another place with --socket or RAMPMETER_CM_SOCKET")]
    Listen {
        /// Where.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// It can't speak to other daemons there.
    #[error("can't speak to other congestion managers {}: {error}; {}", place(*.carriage, *.address), remedy(*.carriage, .error))]
    Speak {
        /// What in.
        carriage: Carriage,
        /// From which address.
        address: Option<IpAddr>,
        /// Why not.
        error: io::Error,
    },
    /// The system refused something.
    #[error("the system refused what a congestion manager needs: {0}")]
    System(#[from] io::Error),
}

fn place(carriage: Carriage, address: Option<IpAddr>) -> String {
    let at = address.map_or_else(String::new, |address| format!(" at {address}"));
    match carriage {
        Carriage::Udp(port) => format!("over UDP port {port}{at}"),
        _ => format!("in IP packets of protocol {RAW_PROTOCOL}{at}"),
    }
}

fn remedy(carriage: Carriage, error: &io::Error) -> &'static str {
    match (carriage, error.kind()) {
        (Carriage::Raw, io::ErrorKind::PermissionDenied) => {
            "start it as root, give the command CAP_NET_RAW (setcap cap_net_raw+ep), or leave --raw out"
        }
        (_, io::ErrorKind::AddrInUse) => {
            "another daemon has it; choose another with --port, on both hosts, or none: --port 0"
        }
        (_, io::ErrorKind::AddrNotAvailable) => "--bind takes an address of this host",
        (Carriage::Raw, _) => "--raw is for IPv4 only",
        _ => "choose another with --port, on both hosts, or none: --port 0",
    }
}
