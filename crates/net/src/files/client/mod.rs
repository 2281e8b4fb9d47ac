//! The client: gets, puts and synchronizes files, over one session with one server.
//!
//! ```text
//! get, put, sync   plan: lists and local files become tasks
//! engine           runs tasks over the connections of a link; connects again if it breaks
//! lane             one connection: requests in sequence, answers in the same order
//! lists            the files of a directory, here and there
//! link             the session with the server
//! ```

mod engine;
mod get;
mod lane;
mod link;
mod lists;
mod output;
mod put;
mod report;
mod sync;
mod task;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rampmeter_control::Registry;
use rampmeter_session::KeyPair;
use rampmeter_transport::Config;
use rampmeter_units::Duration;

use super::{ProgressHandler, default_transport};
use crate::contact::Trust;

pub use get::{GetOptions, get, parse_hash};
pub use put::{PutOptions, put};
pub use report::{FileReport, FileResult, Report};
pub use sync::{SyncOptions, sync};

/// The options of a client.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// How the server is known, unless its key is in the URL. Another key here than in the URL is an error.
    pub trust: Trust,
    /// This client's key; by default a new one for each session.
    pub identity: Option<KeyPair>,
    /// The controller that should send the files; without it the sender's default.
    pub controller: Option<String>,
    /// The controllers that this client can send with.
    pub registry: Registry,
    /// The number of connections, which share a macroflow.
    pub jobs: usize,
    /// How often to try again after an error that may be temporary, with longer waits from one to the next.
    pub retry: u32,
    /// Receives the progress of the transfer.
    pub on_progress: Option<ProgressHandler>,
    /// The transport settings of connections.
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
            jobs: 4,
            retry: 0,
            on_progress: None,
            transport: default_transport(),
            peer_timeout: Duration::from_secs(10),
            stop: Arc::default(),
        }
    }
}
