//! A server: streams of many clients.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use rampmeter_control::Registry;
use rampmeter_session::{Clients, KeyPair, PublicKey, Sessions, Suite};
use rampmeter_transport::Config;
use rampmeter_units::Bytes;
use tokio::sync::{mpsc, oneshot, watch};

use super::engine::{Engine, Owners, Settings};
use super::link::{Command, Link};
use super::stream::Stream;
use super::{DEFAULT_PORT, default_limits, default_transport, ended, endpoint};
use crate::contact::ContactError;
use crate::driver::EventLoop;
use crate::files::{max_datagram, os_random};
use crate::host::Host;
use crate::monitor::Monitor;
use crate::socket::Socket;

/// The options of a server.
pub struct ServerOptions {
    /// The address to listen on; by default only this machine's.
    pub address: SocketAddr,
    /// The server's key; by default a new one.
    pub identity: KeyPair,
    /// The clients that it serves; by default all.
    pub clients: Clients,
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
    /// The maximum number of sessions.
    pub max_sessions: usize,
    /// The maximum number of streams of a session that its client has opened; further ones are reset.
    pub max_streams: usize,
    /// The maximum sum of the receive windows of all streams.
    pub memory: Bytes,
    /// Where it puts its state once a second.
    pub monitor: Option<Monitor>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            address: (Ipv4Addr::LOCALHOST, DEFAULT_PORT).into(),
            identity: KeyPair::generate(&mut os_random()),
            clients: Clients::Anyone,
            controller: "newreno".into(),
            settings: toml::Table::new(),
            registry: Registry::default(),
            first_windows: 1,
            transport: default_transport(),
            max_sessions: 256,
            max_streams: 256,
            memory: Bytes::new(1 << 30),
            monitor: None,
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

/// A server bound to its address, and the thread that carries its sessions.
///
/// This one serves a client with a listed key only. A stream has its [`Session`](super::Session), in which the server
/// opens streams of its own and may choose another controller for what it sends.
///
/// ```
/// use std::collections::BTreeSet;
///
/// use rampmeter_net::{Client, ClientOptions, ContactError, Server, ServerOptions, keys};
/// use rampmeter_session::Clients;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let place = tempfile::tempdir()?;
/// let identity = keys::create_key(&place.path().join("key"))?;
/// let clients = Clients::Listed(BTreeSet::from([identity.public()]));
/// let address = "127.0.0.1:0".parse()?;
/// let mut server = Server::bind(ServerOptions { address, clients, ..ServerOptions::default() }).await?;
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
    incoming: mpsc::UnboundedReceiver<Stream>,
    link: Arc<Link>,
    /// Closed when the thread has ended.
    done: watch::Receiver<()>,
}

impl Server {
    /// Binds a server to its address, and serves.
    pub async fn bind(options: ServerOptions) -> Result<Self, ContactError> {
        options.transport.check().map_err(ContactError::BadOption)?;
        let make = endpoint(&options.registry, &options.controller, &options.settings, options.first_windows)?;
        let refused = |reason| ContactError::listen(options.address, reason);
        let socket = Socket::bind(options.address).map_err(refused)?;
        let address = socket.local_address().map_err(refused)?;
        if let Some(monitor) = &options.monitor {
            monitor.set_address(address);
        }
        let key = options.identity.public();
        let (incoming_sender, incoming) = mpsc::unbounded_channel();
        let (link_sender, link) = oneshot::channel();
        let (done_sender, done) = watch::channel(());
        let body = move || {
            let _done = done_sender;
            let started = || -> Result<_, ContactError> {
                let mut net = EventLoop::new(max_datagram(&options.transport))?;
                let sessions = Sessions::new(
                    rampmeter_session::Config {
                        own: options.identity.clone(),
                        clients: options.clients.clone(),
                        suite: Suite::fastest(),
                        max_sessions: options.max_sessions,
                        max_half_open: options.max_sessions.div_ceil(4) + 16,
                    },
                    os_random(),
                );
                // Connections that have ended remain for a while, beside those that are open.
                let max_connections = options.max_sessions.saturating_mul(options.max_streams).saturating_mul(2);
                let endpoint = make(options.transport.clone(), max_connections);
                let host = net.add(Host::new(endpoint, sessions, socket, default_limits()))?;
                let link = Arc::new(Link::new(net.alarm()?));
                let settings = Settings {
                    transport: options.transport.clone(),
                    max_streams: options.max_streams,
                    spare: 0,
                    memory: options.memory,
                    owners: match options.clients {
                        Clients::Listed(_) => Owners::Keys,
                        Clients::Anyone | Clients::None => Owners::Networks,
                    },
                    monitor: options.monitor.clone(),
                };
                Ok((Engine::new(net, host, Arc::clone(&link), settings, incoming_sender), link))
            };
            match started() {
                Ok((engine, link)) => {
                    drop(link_sender.send(Ok(link)));
                    engine.run();
                }
                Err(error) => drop(link_sender.send(Err(error))),
            }
        };
        std::thread::Builder::new().name("rampmeter-net".into()).spawn(body)?;
        let failed = || ContactError::System(std::io::Error::other("the thread of the server has ended"));
        let link = link.await.map_err(|_| failed())??;
        Ok(Self { address, key, incoming, link, done })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its public key.
    pub fn key(&self) -> PublicKey {
        self.key
    }

    /// The next stream that a client has opened, once its first byte has arrived; `None` after the end.
    pub async fn accept(&mut self) -> Option<Stream> {
        self.incoming.recv().await
    }

    /// Ends all sessions once everything that finished streams have written is delivered, after five seconds at most.
    ///
    /// It begins at once; the future waits for the end.
    pub fn close(&self) -> impl Future<Output = ()> + Send + use<> {
        self.link.push(Command::Stop);
        ended(self.done.clone())
    }
}

impl Drop for Server {
    /// Ends all sessions in the same way, in the background.
    fn drop(&mut self) {
        self.link.push(Command::Stop);
    }
}
