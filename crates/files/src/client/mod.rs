//! The client: gets files by their names, over one connection with one server.
//!
//! ```text
//! get      the options, the outputs of the files, the report
//! engine   runs downloads; connects again if the session breaks
//! lane     the connection: requests in sequence, answers in the same order
//! link     the session with the server
//! ```

mod engine;
mod get;
mod lane;
mod link;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rampmeter_control::Registry;
use rampmeter_net::{Trust, default_transport};
use rampmeter_session::KeyPair;
use rampmeter_transport::Config;
use rampmeter_units::Duration;

use super::ProgressHandler;

pub use get::{FileReport, GetOptions, Report, get, parse_hash};

/// The options of a client.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// How the server is known, unless its key is in the URL. Another key here than in the URL is an error.
    pub trust: Trust,
    /// This client's key; by default a new one for each session.
    pub identity: Option<KeyPair>,
    /// The controller that should send the files; without it the server's default.
    pub controller: Option<String>,
    /// The controllers that this client can send its requests with.
    pub registry: Registry,
    /// How often to try again after an error that may be temporary, with longer waits from one to the next.
    pub retry: u32,
    /// The same, at least, once the server has answered: after an interruption the transfer goes on where it stopped.
    pub resume: u32,
    /// Receives the progress of the transfer.
    pub on_progress: Option<ProgressHandler>,
    /// The transport settings of the connection.
    pub transport: Config,
    /// The time without packets after which the server counts as unreachable.
    pub peer_timeout: Duration,
    /// Stops the transfer when set; what was received stays for the next one.
    pub stop: Arc<AtomicBool>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            trust: Trust::default(),
            identity: None,
            controller: None,
            registry: Registry::default(),
            retry: 0,
            resume: 0,
            on_progress: None,
            transport: default_transport(),
            peer_timeout: Duration::from_secs(10),
            stop: Arc::default(),
        }
    }
}
