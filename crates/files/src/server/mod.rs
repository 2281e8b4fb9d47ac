//! The server: serves the regular files below a directory to many clients.
//!
//! ```text
//! mod        the options; accepts streams
//! session    the streams of one session, and its report
//! transfer   one stream: a request, and the file
//! source     a file that is read and hashed
//! places     what clients share
//! ```

mod places;
mod session;
mod source;
mod transfer;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rampmeter_net::{Access, ContactError, ControllerPolicy, Directory, HistoryFile, fresh_seed};
use rampmeter_session::PublicKey;
use rampmeter_streams::{DRAIN_TIMEOUT, Server as StreamServer, ServerOptions, Session};
use rampmeter_transport::Config;
use rampmeter_units::{Bytes, Random};
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;
use tokio::time::interval;

use self::places::Places;
use super::error::NetError;
use super::protocol::Refusal;
use super::{DEFAULT_PORT, SERVICE};

pub use session::TransferReport;

/// Streams of a session that are served at once. A client asks for as many files.
const MAX_STREAMS: usize = 8;

/// The receive window of a stream: more than a request.
const REQUEST_WINDOW: Bytes = Bytes::new(16 * 1024);

/// The maximum sum of what send buffers have beyond 4 MB each, and of the receive windows.
const MEMORY: Bytes = Bytes::new(256 << 20);

/// The maximum number of threads that hash at once what clients have. A network (24 bits of IPv4, 48 of IPv6) has at most
/// four of them, and a client (an IPv4 address, 64 bits of IPv6) three: a short request can ask for much hashing.
const MAX_HASHING: usize = 5;

/// How often a server looks whether it is to end.
const INTERVAL: Duration = Duration::from_millis(100);

/// Receives the report of every session that has ended, in the thread of the server.
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
    /// Address, key, names, clients, controller and threads. What clients may cost is limited by the options here.
    pub server: ServerOptions,
    /// The maximum number of files that are sent at once. One network (24 bits of IPv4, 48 of IPv6) has at most four
    /// fifths of these places, and one client (an IPv4 address, 64 bits of IPv6) four fifths of those. Further requests
    /// wait for a place, in four times as many sessions.
    pub max_clients: usize,
    /// The time after which a client that responds but takes no bytes, or asks for nothing, is disconnected.
    pub max_idle: Duration,
    /// Called after every session.
    pub on_transfer: Option<TransferHandler>,
    /// Called once for each session and reason for which its controller is degraded, until the client moves to another
    /// address.
    pub on_degraded: Option<DegradedHandler>,
    /// The file for the histories of clients' paths; `None` for none.
    pub history: Option<PathBuf>,
    /// Stops the server when set.
    pub stop: Arc<AtomicBool>,
    /// When it is set, the server serves no further sessions, and ends once those that it has have ended, after a
    /// minute at the latest.
    pub drain: Arc<AtomicBool>,
}

impl Default for ServeOptions {
    fn default() -> Self {
        let defaults = ServerOptions::default();
        let address = SocketAddr::new(defaults.address.ip(), DEFAULT_PORT);
        Self {
            directory: PathBuf::from("."),
            hidden: false,
            server: ServerOptions { address, controller: rampmeter_net::DEFAULT_CONTROLLER.into(), ..defaults },
            max_clients: 256,
            max_idle: Duration::from_secs(60),
            on_transfer: None,
            on_degraded: None,
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
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// What all sessions use.
struct Shared {
    directory: Directory,
    places: Arc<Places>,
    hashing: Arc<Places>,
    policy: Arc<ControllerPolicy>,
    /// The name of the server's own controller.
    controller: String,
    clients: Access,
    max_idle: Duration,
    on_transfer: Option<TransferHandler>,
    on_degraded: Option<DegradedHandler>,
}

impl Shared {
    /// Uses the controller that a client asks for. Returns its name.
    fn choose(&self, session: &Session, asked: Option<String>) -> Result<String, Refusal> {
        let present = session.controller().unwrap_or_else(|| self.controller.clone());
        let Some(asked) = asked.filter(|asked| *asked != present) else { return Ok(present) };
        session.lend_controller(&self.policy, &asked)?;
        Ok(asked)
    }
}

/// A server bound to its address.
pub struct Server {
    sessions: StreamServer,
    shared: Arc<Shared>,
    max_threads: usize,
    stop: Arc<AtomicBool>,
    drain: Arc<AtomicBool>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("sessions", &self.sessions).finish_non_exhaustive()
    }
}

impl Server {
    /// Binds the server to its address.
    pub fn bind(options: ServeOptions) -> Result<Self, NetError> {
        let ServerOptions { controller, settings, registry, clients, .. } = &options.server;
        let own = registry.factory(controller, settings)?;
        let policy = ControllerPolicy::new(controller, own, registry, Random::from_seed(fresh_seed()));
        let bad_directory = |reason| NetError::BadDirectory(options.directory.clone(), reason);
        let shared = Shared {
            directory: Directory::open(&options.directory, options.hidden).map_err(bad_directory)?,
            places: Places::new(options.max_clients),
            hashing: Places::new(MAX_HASHING),
            policy: Arc::new(policy),
            controller: controller.clone(),
            clients: clients.clone(),
            max_idle: options.max_idle,
            on_transfer: options.on_transfer,
            on_degraded: options.on_degraded,
        };
        let sessions = StreamServer::bind(ServerOptions {
            service: SERVICE,
            transport: Config { receive_window: REQUEST_WINDOW, ..options.server.transport },
            max_sessions: options.max_clients * 4 + 16,
            max_streams: MAX_STREAMS,
            memory: MEMORY,
            max_stall: rampmeter_units::Duration::from_nanos(options.max_idle.as_nanos() as u64),
            history: options.history.as_deref().map(HistoryFile::open).transpose()?,
            ..options.server
        })?;
        let max_threads = options.max_clients + MAX_HASHING;
        Ok(Self { sessions, shared: Arc::new(shared), max_threads, stop: options.stop, drain: options.drain })
    }

    /// The address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.sessions.address()
    }

    /// The server's public key.
    pub fn key(&self) -> PublicKey {
        self.sessions.key()
    }

    /// Why there is one thread, if there should be more.
    pub fn refused_threads(&self) -> Option<&io::Error> {
        self.sessions.refused_threads()
    }

    /// Serves until `options.stop` is set, or a thread fails.
    pub fn run(self) -> Result<(), NetError> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime =
            runtime.enable_time().thread_name("rampmeter-disk").max_blocking_threads(self.max_threads).build()?;
        let result = runtime.block_on(self.serve());
        runtime.shutdown_background(); // a disk may not answer
        result
    }

    async fn serve(mut self) -> Result<(), NetError> {
        let (mut sessions, mut running, mut interval) = (HashMap::new(), JoinSet::new(), interval(INTERVAL));
        let mut draining_since = None;
        let result = loop {
            tokio::select! {
                stream = self.sessions.accept() => {
                    let failed = || ContactError::System(io::Error::other("a thread of the server has ended"));
                    let Some(stream) = stream else { break Err(failed().into()) };
                    let session = stream.session().clone();
                    if !sessions.contains_key(&session) && (draining_since.is_some() || session.end().is_some()) {
                        session.close();
                        continue;
                    }
                    let streams = sessions.entry(session.clone()).or_insert_with(|| {
                        let (sender, receiver) = unbounded_channel();
                        running.spawn(session::serve(Arc::clone(&self.shared), session, receiver));
                        sender
                    });
                    drop(streams.send(stream)); // a stream of a session that has ended is dropped
                }
                Some(Ok(session)) = running.join_next(), if !running.is_empty() => drop(sessions.remove(&session)),
                _ = interval.tick() => {}
            }
            if self.drain.load(Ordering::Relaxed) {
                draining_since.get_or_insert_with(Instant::now);
            }
            let is_drained = |since: Instant| sessions.is_empty() || since.elapsed() >= DRAIN_TIMEOUT;
            if self.stop.load(Ordering::Relaxed) || draining_since.is_some_and(is_drained) {
                break Ok(());
            }
        };
        self.sessions.close().await;
        while running.join_next().await.is_some() {}
        result
    }
}
