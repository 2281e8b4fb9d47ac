//! A server: streams of many clients.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rampmeter_control::{History, Registry};
use rampmeter_manager::Destination;
use rampmeter_net::monitor::Monitor;
use rampmeter_net::{
    Access, Clock, ContactError, EventLoop, HistoryFile, Host, MAX_THREADS, Port, Socket, contact, default_threads,
    max_datagram, os_random,
};
use rampmeter_session::{
    Clients, Config as SessionConfig, KeyPair, Member, Name, PublicKey, Purpose, Service, Sessions,
};
use rampmeter_trace::HostTrace;
use rampmeter_transport::Config;
use rampmeter_units::{Bytes, Duration};
use tokio::sync::{mpsc, watch};

use super::engine::{Engine, Settings, Sharers};
use super::entry::Windows;
use super::link::{Command, Link};
use super::stream::Stream;
use super::{DEFAULT_PORT, SERVICE, default_limits, default_transport, ended, endpoint};

/// The session with a client ends after this time without packets: clients that sleep or move can return.
const DEAD_CLIENT: Duration = Duration::from_secs(60);

/// The options of a server.
pub struct ServerOptions {
    /// The address to listen on; by default only this machine's.
    pub address: SocketAddr,
    /// The server's key; by default a new one.
    pub identity: KeyPair,
    /// The service that it is.
    pub service: Service,
    /// The names by which clients may ask for it, HOST:PORT each; by default any.
    pub names: Vec<String>,
    /// The clients that it serves; by default all.
    pub clients: Access,
    /// The controller of what this server sends.
    pub controller: String,
    /// Its settings.
    pub settings: toml::Table,
    /// The available controllers.
    pub registry: Registry,
    /// The maximum number of streams that have a first window each, as TCP connections have; with one, all streams share
    /// one.
    pub first_windows: usize,
    /// The transport settings of streams.
    pub transport: Config,
    /// The number of threads that send and receive, 1 to [`MAX_THREADS`]. Each has a socket of its own on the port, and
    /// all sessions of some of the clients. By default as many as there are cores.
    pub threads: usize,
    /// The maximum number of sessions.
    pub max_sessions: usize,
    /// The maximum number of streams of a session that its client has opened; further ones are reset.
    pub max_streams: usize,
    /// The maximum sum of the receive windows of all streams, and of what their send buffers have beyond 4 MB each.
    pub memory: Bytes,
    /// A stream is reset if there are bytes for its client, or its end, and the client takes none of them for this time.
    /// By default it may wait for as long as it likes.
    pub max_stall: Duration,
    /// The file in which the server keeps what it learns of paths, and what is in it
    /// ([`HistoryFile::open`](rampmeter_net::HistoryFile::open)).
    pub history: Option<(HistoryFile, Vec<(Destination, History)>)>,
    /// Where it puts its state once a second.
    pub monitor: Option<Monitor>,
    /// The trace of its connections.
    pub trace: Option<HostTrace>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            address: (Ipv4Addr::LOCALHOST, DEFAULT_PORT).into(),
            identity: KeyPair::generate(&mut os_random()),
            service: SERVICE,
            names: Vec::new(),
            clients: Clients::Anyone.into(),
            controller: "newreno".into(),
            settings: toml::Table::new(),
            registry: Registry::default(),
            first_windows: 1,
            transport: default_transport(),
            threads: default_threads(),
            max_sessions: 256,
            max_streams: 256,
            memory: Bytes::new(1 << 30),
            max_stall: Duration::MAX,
            history: None,
            monitor: None,
            trace: None,
        }
    }
}

impl ServerOptions {
    /// The settings of sessions at this port.
    fn sessions(&self, port: u16) -> SessionConfig {
        SessionConfig {
            clients: self.clients.clients(),
            names: contact::names(&self.names),
            port,
            max_sessions: self.max_sessions,
            max_half_open: self.max_sessions.div_ceil(4) + 16,
            ..SessionConfig::client(self.identity.clone(), Purpose { service: self.service, name: Name::new("") })
        }
    }
}

impl fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerOptions")
            .field("address", &self.address)
            .field("controller", &self.controller)
            .field("key", &self.identity.public())
            .finish_non_exhaustive()
    }
}

/// A server bound to its address, and the threads that carry its sessions.
///
/// This one serves a client with a listed key only. A stream has its [`Session`](super::Session), in which the server
/// opens streams of its own and may choose another controller for what it sends.
///
/// ```
/// use std::collections::BTreeSet;
///
/// use rampmeter_net::{ContactError, keys};
/// use rampmeter_session::Clients;
/// use rampmeter_streams::{Client, ClientOptions, Server, ServerOptions};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let place = tempfile::tempdir()?;
/// let identity = keys::create_key(&place.path().join("key"))?;
/// let clients = Clients::Listed(BTreeSet::from([identity.public()])).into();
/// let address = "127.0.0.1:0".parse()?;
/// let mut server = Server::bind(ServerOptions { address, clients, ..ServerOptions::default() })?;
/// let url = format!("{}?key={}", server.address(), server.key());
/// let serving = tokio::spawn(async move {
///     let request = server.accept().await.unwrap();
///     let mut notice = request.session().open().await.unwrap();
///     notice.write_all(b"welcome").await.unwrap();
///     notice.shutdown().await.unwrap();
///     server.close().await; // once all is delivered
/// });
///
/// let stranger = Client::connect(&url, ClientOptions::default()).await;
/// assert!(matches!(stranger, Err(ContactError::NotAuthorized { .. })));
///
/// let mut client = Client::connect(&url, ClientOptions { identity: Some(identity), ..Default::default() }).await?;
/// let mut request = client.open().await?;
/// request.write_all(b"hello").await?;
/// let mut notice = client.accept().await.ok_or("the server has closed the session")?;
/// let mut text = String::new();
/// notice.read_to_string(&mut text).await?;
/// assert_eq!(text, "welcome");
/// client.close().await;
/// serving.await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    key: PublicKey,
    refused_threads: Option<io::Error>,
    incoming: mpsc::UnboundedReceiver<Stream>,
    /// One for each thread.
    links: Arc<[Arc<Link>]>,
    /// Closed when the last thread has ended.
    done: watch::Receiver<()>,
}

impl Server {
    /// Binds a server to its address, and serves.
    pub fn bind(options: ServerOptions) -> Result<Self, ContactError> {
        options.transport.check().map_err(ContactError::BadOption)?;
        let make = endpoint(&options.registry, &options.controller, &options.settings, options.first_windows)?;
        let refused = |reason| ContactError::listen(options.address, reason);
        let port = Port::bind(options.address, options.threads.clamp(1, MAX_THREADS)).map_err(refused)?;
        let address = port.sockets[0].local_address().map_err(refused)?;
        if let Some(monitor) = &options.monitor {
            monitor.set_address(address);
        }
        let (incoming_sender, incoming) = mpsc::unbounded_channel();
        let (done_sender, done) = watch::channel(());
        let key = options.identity.public();
        // Connections that have ended remain for a while, beside those that are open.
        let max_connections = options.max_sessions.saturating_mul(options.max_streams).saturating_mul(2);
        let members = Member::group(port.sockets.len()).into_iter();
        let sessions: Vec<_> =
            members.map(|m| Sessions::of_member(m, options.sessions(address.port()), os_random())).collect();
        let (history, learnt) = options.history.unzip();
        let settings = Settings {
            max_streams: options.max_streams,
            spare: 0,
            windows: Arc::new(Windows::new(options.memory)),
            sharers: match options.clients.clients() {
                Clients::Listed(_) => Sharers::Keys,
                Clients::Anyone | Clients::None => Sharers::Networks,
            },
            number: 0,
            transport: options.transport,
            monitor: options.monitor,
            trace: options.trace,
            history: history.map(Arc::new),
            max_silence: DEAD_CLIENT,
            max_stall: options.max_stall,
        };
        let copy = |socket: &Socket| socket.as_fd().try_clone_to_owned();
        let sockets: Arc<[OwnedFd]> = port.sockets.iter().map(copy).collect::<io::Result<_>>()?;
        let clock = Clock::start();
        let mut engines = Vec::new();
        for (number, (socket, sessions)) in port.sockets.into_iter().zip(sessions).enumerate() {
            let settings = Settings { number, ..settings.clone() };
            let mut net = EventLoop::with_clock(clock, max_datagram(&settings.transport))?;
            let mut endpoint = make(settings.transport.clone(), max_connections);
            for &(destination, history) in learnt.iter().flatten() {
                endpoint.import_history(destination, history);
            }
            let mut host = Host::new(endpoint, sessions, socket, default_limits());
            host.serve_clients(options.clients.clone());
            let host = net.add(host)?;
            let link = Arc::new(Link::new(net.alarm()?));
            engines.push(Engine::new(net, host, link, settings, incoming_sender.clone()));
        }
        let links = engines.iter().map(|engine| Arc::clone(engine.link())).collect();
        let server = Self { address, key, refused_threads: port.refused, incoming, links, done };
        for (number, engine) in engines.into_iter().enumerate() {
            let end = EndAll {
                own: Arc::clone(engine.link()),
                links: Arc::clone(&server.links),
                _sockets: Arc::clone(&sockets),
                _done: done_sender.clone(),
            };
            let body = move || {
                let _end = end;
                engine.run();
            };
            // If this fails, the end of `server` stops the others.
            std::thread::Builder::new().name(format!("rampmeter-{number}")).spawn(body)?;
        }
        Ok(server)
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its public key.
    pub fn key(&self) -> PublicKey {
        self.key
    }

    /// Why there is one thread, if there should be more.
    pub fn refused_threads(&self) -> Option<&io::Error> {
        self.refused_threads.as_ref()
    }

    /// The next stream that a client has opened, once its first byte has arrived; `None` after the end.
    pub async fn accept(&mut self) -> Option<Stream> {
        self.incoming.recv().await
    }

    /// Ends all sessions once everything that finished streams have written is delivered, after five seconds at most.
    ///
    /// It begins at once; the future waits for the end.
    pub fn close(&self) -> impl Future<Output = ()> + Send + use<> {
        stop(&self.links);
        ended(self.done.clone())
    }
}

impl Drop for Server {
    /// Ends all sessions in the same way, in the background.
    fn drop(&mut self) {
        stop(&self.links);
    }
}

/// Ends all threads when one of them ends, in whatever way.
struct EndAll {
    own: Arc<Link>,
    links: Arc<[Arc<Link>]>,
    /// All are open until the last thread has ended: without one of them, the kernel would give the others new numbers,
    /// by which the program chooses.
    _sockets: Arc<[OwnedFd]>,
    _done: watch::Sender<()>,
}

impl Drop for EndAll {
    fn drop(&mut self) {
        self.own.end();
        stop(&self.links);
    }
}

/// Ends all threads, once what is finished is delivered.
fn stop(links: &[Arc<Link>]) {
    for link in links {
        link.push(Command::Stop);
    }
}
