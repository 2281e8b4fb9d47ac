//! A client: one session with a server.

use std::net::SocketAddr;
use std::sync::Arc;

use rampmeter_control::Registry;
use rampmeter_net::monitor::Monitor;
use rampmeter_net::{ContactError, EventLoop, Host, ServerAddress, Socket, Trust, Trusted, max_datagram, os_random};
use rampmeter_session::{Config as SessionConfig, KeyPair, Service, Sessions};
use rampmeter_trace::HostTrace;
use rampmeter_transport::Config;
use rampmeter_units::{Bytes, Duration, Time};
use tokio::sync::{mpsc, oneshot, watch};

use super::dial::{Connected, Dial};
use super::engine::{Engine, Settings, Sharers};
use super::entry::Windows;
use super::error::StreamError;
use super::link::{Command, Link};
use super::session::Session;
use super::stream::Stream;
use super::{SERVICE, default_limits, default_transport, ended, endpoint};

/// The options of a client.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// How the server is known, if its key is not in its address. Another key here than there is an error.
    pub trust: Trust,
    /// This client's key; by default a new one.
    pub identity: Option<KeyPair>,
    /// The service that it asks for.
    pub service: Service,
    /// The controller of what this client sends.
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
    /// Streams that are opened in advance, so that the next ones need no round trip; one keeps the session open while
    /// there is no other.
    pub spare: usize,
    /// The maximum number of streams that the server has opened.
    pub max_streams: usize,
    /// The maximum wait for an answer at each of the server's addresses.
    pub timeout: Duration,
    /// The session ends after this time without packets of the server.
    pub max_silence: Duration,
    /// The maximum sum of the receive windows of all streams.
    pub memory: Bytes,
    /// Where it puts its state once a second.
    pub monitor: Option<Monitor>,
    /// The trace of its connections.
    pub trace: Option<HostTrace>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            trust: Trust::default(),
            identity: None,
            service: SERVICE,
            controller: "newreno".into(),
            settings: toml::Table::new(),
            registry: Registry::default(),
            first_windows: 1,
            transport: default_transport(),
            spare: 1,
            max_streams: 256,
            timeout: Duration::from_secs(10),
            max_silence: Duration::from_secs(30),
            memory: Bytes::new(1 << 30),
            monitor: None,
            trace: None,
        }
    }
}

impl ClientOptions {
    pub(super) fn engine_settings(&self) -> Settings {
        Settings {
            transport: self.transport.clone(),
            max_streams: self.max_streams,
            spare: self.spare,
            windows: Arc::new(Windows::new(self.memory)),
            sharers: Sharers::One,
            number: 0,
            monitor: self.monitor.clone(),
            trace: self.trace.clone(),
            history: None,
            max_silence: self.max_silence,
            max_stall: Duration::MAX,
        }
    }
}

/// A session with a [`Server`](super::Server), and the thread that carries it.
#[derive(Debug)]
pub struct Client {
    session: Session,
    address: SocketAddr,
    handshake: Duration,
    is_new_server: bool,
    incoming: mpsc::UnboundedReceiver<Stream>,
    link: Arc<Link>,
    /// Closed when the thread has ended.
    done: watch::Receiver<()>,
}

impl Client {
    /// Opens a session with the server at `HOST:PORT` or `HOST:PORT?key=KEY`.
    pub async fn connect(address: &str, options: ClientOptions) -> Result<Self, ContactError> {
        options.transport.check().map_err(ContactError::BadOption)?;
        let make = endpoint(&options.registry, &options.controller, &options.settings, options.first_windows)?;
        let server = ServerAddress::read(address)?;
        let trusted = Trusted::new(&server, &options.trust, options.identity.as_ref())?;
        let (incoming_sender, incoming) = mpsc::unbounded_channel();
        let (reply, connected) = oneshot::channel();
        let (link_sender, link) = oneshot::channel();
        let (done_sender, done) = watch::channel(());
        let body = move || {
            let _done = done_sender;
            let started = || -> Result<_, ContactError> {
                let mut addresses = server.resolve()?;
                addresses.reverse();
                let address = addresses.pop().ok_or_else(|| ContactError::UnknownHost(server.text.clone()))?;
                let socket = Socket::connect(address).map_err(|error| ContactError::reach(address, error))?;
                let mut net = EventLoop::new(max_datagram(&options.transport))?;
                let sessions = {
                    let purpose = trusted.purpose(options.service);
                    Sessions::new(SessionConfig::client(trusted.identity.clone(), purpose), os_random())
                };
                let endpoint = make(options.transport.clone(), options.max_streams * 2 + 1024);
                let host = net.add(Host::new(endpoint, sessions, socket, default_limits()))?;
                let link = Arc::new(Link::new(net.alarm()?));
                let engine = Engine::new(net, host, Arc::clone(&link), options.engine_settings(), incoming_sender);
                Ok((engine, link, address, addresses))
            };
            match started() {
                Ok((mut engine, link, address, others)) => {
                    drop(link_sender.send(link));
                    let (session, deadline, is_new_server) = (None, Time::MAX, false);
                    let timeout = options.timeout;
                    engine.dial(Dial { trusted, address, session, others, timeout, deadline, is_new_server, reply });
                    engine.run();
                }
                Err(error) => drop(reply.send(Err(error))),
            }
        };
        std::thread::Builder::new().name("rampmeter-net".into()).spawn(body)?;
        let failed = || ContactError::System(std::io::Error::other("the thread of the session has ended"));
        let Connected { session, address, handshake, is_new_server } = connected.await.map_err(|_| failed())??;
        let link = link.await.map_err(|_| failed())?;
        Ok(Self { session, address, handshake, is_new_server, incoming, link, done })
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The server's address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The round-trip time of the first connection's handshake.
    pub fn handshake(&self) -> Duration {
        self.handshake
    }

    /// Whether this was the first contact, and the server's key was stored.
    pub fn is_new_server(&self) -> bool {
        self.is_new_server
    }

    /// Opens a stream.
    pub async fn open(&self) -> Result<Stream, StreamError> {
        self.session.open().await
    }

    /// The next stream that the server has opened, once its first byte has arrived; `None` after the end.
    pub async fn accept(&mut self) -> Option<Stream> {
        self.incoming.recv().await
    }

    /// Waits until the session has ended and its goodbye has left.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        ended(self.done.clone())
    }

    /// Ends the session once everything that finished streams have written is delivered, after five seconds at most.
    ///
    /// It begins at once; the future waits for the end.
    pub fn close(&self) -> impl Future<Output = ()> + Send + use<> {
        self.link.push(Command::Stop);
        ended(self.done.clone())
    }
}

impl Drop for Client {
    /// Ends the session in the same way, in the background.
    fn drop(&mut self) {
        self.link.push(Command::Stop);
    }
}
