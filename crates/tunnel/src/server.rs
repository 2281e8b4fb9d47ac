//! The server's end: connects to destinations, and listens, for clients whose keys are listed.
//!
//! What a client costs is bounded: connections, those that are not established yet, listeners; and the bytes in memory,
//! by the streams.

use std::collections::BTreeMap;
use std::fmt;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use rampmeter_net::{Access, ContactError, ControllerPolicy, NotLent, fresh_seed};
use rampmeter_session::PublicKey;
use rampmeter_streams::{DRAIN_TIMEOUT, Server, ServerOptions, Session, Stream};
use rampmeter_units::Random;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::allow::Allow;
use super::protocol::{Message, Refusal, Target, VERSION, Weight};
use super::relay::{Answered, CONNECT_TIMEOUT, connect, prepare, read_message, relay, reset};
use super::{Event, FIRST_WINDOWS, OnEvent, SERVICE, report_degraded};

/// Connections of a client that are not established yet.
const MAX_PENDING: usize = 64;

/// Listeners of a client.
const MAX_LISTENERS: usize = 64;

/// The options of a tunnel's server.
pub struct TunnelServerOptions {
    /// Address, key, clients, controller and limits.
    pub server: ServerOptions,
    /// Where clients may connect to.
    pub allow: Allow,
    /// Where clients may listen.
    pub allow_listen: Allow,
    /// Called for each event.
    pub on_event: OnEvent,
}

impl fmt::Debug for TunnelServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TunnelServerOptions").field("server", &self.server).finish_non_exhaustive()
    }
}

/// A tunnel's server, bound to its address.
pub struct TunnelServer {
    server: Server,
    shared: Arc<Shared>,
}

impl fmt::Debug for TunnelServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TunnelServer").field("server", &self.server).finish_non_exhaustive()
    }
}

struct Shared {
    access: Access,
    /// Where clients may connect to, and where they may listen.
    allow: RwLock<(Allow, Allow)>,
    /// Connections that are carried, or being made.
    carried: AtomicUsize,
    /// Whether nothing new is accepted.
    is_draining: watch::Sender<bool>,
    on_event: OnEvent,
    max_streams: usize,
    policy: Arc<ControllerPolicy>,
    clients: Mutex<BTreeMap<PublicKey, Arc<Places>>>,
    /// The sessions that listen, by key and address.
    listening: Mutex<BTreeMap<(PublicKey, SocketAddr), Session>>,
}

/// What a client may still have.
struct Places {
    connections: Semaphore,
    pending: Semaphore,
    listeners: Semaphore,
}

impl TunnelServer {
    /// Binds the server to its address.
    pub fn bind(options: TunnelServerOptions) -> Result<Self, ContactError> {
        let seed = Random::from_seed(fresh_seed());
        let ServerOptions { controller, settings, registry, .. } = &options.server;
        let own = registry.factory(controller, settings)?;
        let policy = ControllerPolicy::new(controller, own, registry, seed);
        let shared = Arc::new(Shared {
            access: options.server.clients.clone(),
            allow: RwLock::new((options.allow, options.allow_listen)),
            carried: AtomicUsize::new(0),
            is_draining: watch::Sender::new(false),
            on_event: options.on_event,
            max_streams: options.server.max_streams,
            policy: Arc::new(policy),
            clients: Mutex::default(),
            listening: Mutex::default(),
        });
        let server = ServerOptions { service: SERVICE, first_windows: FIRST_WINDOWS, ..options.server };
        Ok(Self { server: Server::bind(server)?, shared })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Its public key.
    pub fn key(&self) -> PublicKey {
        self.server.key()
    }

    /// Why there is one thread, if there should be more.
    pub fn refused_threads(&self) -> Option<&io::Error> {
        self.server.refused_threads()
    }

    /// What an operator may change while it runs.
    pub fn rules(&self) -> TunnelRules {
        TunnelRules(Arc::clone(&self.shared))
    }

    /// Serves until `stop` is ready.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        self.run_or_drain(stop, pending()).await;
    }

    /// The same. Once `drain` is ready, it accepts no further connections, listeners and sessions, and ends when the
    /// connections that it has have ended, after a minute at the latest.
    pub async fn run_or_drain(mut self, stop: impl Future<Output = ()>, drain: impl Future<Output = ()>) {
        let mut tasks = JoinSet::new();
        let shared = Arc::clone(&self.shared);
        let drained = async {
            drain.await;
            shared.is_draining.send_replace(true);
            let _ = timeout(DRAIN_TIMEOUT, shared.nothing_carried()).await;
        };
        tokio::pin!(stop, drained);
        loop {
            tokio::select! {
                () = &mut stop => break,
                () = &mut drained => break,
                stream = self.server.accept() => match stream {
                    Some(stream) => drop(tasks.spawn(Arc::clone(&self.shared).serve(stream))),
                    None => break,
                },
                _ = tasks.join_next(), if !tasks.is_empty() => {}
            }
        }
        tasks.shutdown().await;
        self.server.close().await;
    }
}

/// What an operator may change while a tunnel's server runs.
#[derive(Clone)]
pub struct TunnelRules(Arc<Shared>);

impl fmt::Debug for TunnelRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TunnelRules").finish_non_exhaustive()
    }
}

impl TunnelRules {
    /// From now on clients connect to `allow` and listen at `allow_listen`. Connections that are open go on; a listener
    /// elsewhere resets further ones.
    pub fn set_allowed(&self, allow: Allow, allow_listen: Allow) {
        *self.0.allow.write().unwrap_or_else(PoisonError::into_inner) = (allow, allow_listen);
    }
}

/// A connection that is carried, or being made, until it is dropped.
struct Carried(Arc<Shared>);

impl Carried {
    /// `None` if the server is about to end. The lock of `is_draining` orders this and [`Shared::nothing_carried`].
    fn new(shared: &Arc<Shared>) -> Option<Self> {
        shared.carried.fetch_add(1, Ordering::Relaxed);
        let carried = Self(Arc::clone(shared));
        (!*shared.is_draining.borrow()).then_some(carried)
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        self.0.carried.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    /// Ready when no connection is carried.
    async fn nothing_carried(&self) {
        while self.carried.load(Ordering::Relaxed) > 0 {
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Where clients may connect to, and where they may listen.
    fn allowed(&self) -> RwLockReadGuard<'_, (Allow, Allow)> {
        self.allow.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn may_listen(&self, at: SocketAddr) -> bool {
        self.allowed().1.allows_address(at.ip(), at.port(), &[])
    }

    fn places(&self, key: PublicKey) -> Arc<Places> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Places {
            connections: Semaphore::new(self.max_streams),
            pending: Semaphore::new(MAX_PENDING),
            listeners: Semaphore::new(MAX_LISTENERS),
        };
        Arc::clone(clients.entry(key).or_insert_with(|| Arc::new(new())))
    }

    fn listening(&self) -> MutexGuard<'_, BTreeMap<(PublicKey, SocketAddr), Session>> {
        self.listening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn serve(self: Arc<Self>, mut stream: Stream) {
        match timeout(CONNECT_TIMEOUT, read_message(&mut stream)).await {
            Ok(Ok(Message::Connect { weight, to })) => self.connect(stream, weight, &to).await,
            Ok(Ok(Message::Control { version, controller })) => self.control(stream, version, &controller).await,
            // Another message, or nothing: the stream is dropped, and reset.
            _ => {}
        }
    }

    async fn connect(self: Arc<Self>, mut stream: Stream, weight: Weight, to: &Target) {
        let key = stream.session().peer_key();
        let places = self.places(key);
        let established = async {
            let carried = Carried::new(&self).ok_or(Refusal::Stopping)?;
            let place = wait_for(&places.connections).await?;
            let _pending = wait_for(&places.pending).await?;
            let allow = self.allowed().0.clone();
            Ok((connect(to, Some(&allow)).await?, place, carried))
        };
        stream.set_weight(weight.value());
        match established.await {
            Ok((mut tcp, _place, _carried)) => {
                tracing::info!(client = self.access.label(key), %to, "connected");
                if stream.write_u8(0).await.is_ok() {
                    // How it ends is the business of both programs.
                    let _ = relay(&mut tcp, &mut stream).await;
                }
            }
            Err(refusal) => {
                (self.on_event)(&Event::Refused { client: Some(self.access.label(key)), to: to.clone(), refusal });
                let _ = stream.write_u8(refusal as u8).await;
                let _ = stream.shutdown().await;
            }
        }
    }

    async fn control(self: Arc<Self>, mut stream: Stream, version: u8, controller: &str) {
        let refusal = match version {
            VERSION if *self.is_draining.borrow() => Some(Refusal::Stopping),
            VERSION => self.choose(stream.session(), controller).err(),
            _ => Some(Refusal::OtherVersion),
        };
        let welcomed = stream.write_all(&Message::Welcome(refusal).encode()).await;
        if welcomed.is_err() || refusal.is_some() {
            let _ = stream.shutdown().await;
            return;
        }
        let (session, places) = (stream.session().clone(), self.places(stream.session().peer_key()));
        // Its listeners and reports end with it.
        let mut tasks = JoinSet::new();
        tasks.spawn(report_degraded(
            session.clone(),
            Some(self.access.label(session.peer_key())),
            Arc::clone(&self.on_event),
        ));
        while let Ok(Message::Listen { forward, weight, at }) = read_message(&mut stream).await {
            let bound = match places.listeners.try_acquire() {
                _ if *self.is_draining.borrow() => Err(Refusal::Stopping),
                Ok(place) => self.listen(&at).await.map(|bound| (bound, place)),
                Err(_) => Err(Refusal::TooMany),
            };
            let port = match bound {
                Ok((listener, place)) => {
                    place.forget();
                    let (shared, session, places) = (Arc::clone(&self), session.clone(), Arc::clone(&places));
                    let place = Listening::new(Arc::clone(&self), &session, Arc::clone(&places), &listener);
                    let port = place.of.map_or(0, |(_, address)| address.port());
                    tasks.spawn(async move {
                        let _place = place;
                        shared.accept(listener, &session, &places, forward, weight).await;
                    });
                    Ok(port)
                }
                Err(refusal) => {
                    // Most likely the client itself has listened there until it was killed.
                    let has_port = |of: &(PublicKey, SocketAddr)| of.0 == session.peer_key() && of.1.port() == at.port;
                    self.listening().iter().filter(|(of, _)| has_port(of)).for_each(|(_, earlier)| earlier.check());
                    Err(refusal)
                }
            };
            if stream.write_all(&Message::Listening { forward, port }.encode()).await.is_err() {
                break;
            }
        }
    }

    /// Uses the controller that a client has asked for.
    fn choose(&self, session: &Session, controller: &str) -> Result<(), Refusal> {
        if controller.is_empty() {
            return Ok(());
        }
        session.lend_controller(&self.policy, controller).map_err(|refusal| match refusal {
            NotLent::NoSuchController => Refusal::NoSuchController,
            NotLent::NotAllowed => Refusal::ControllerNotAllowed,
        })
    }

    async fn listen(&self, at: &Target) -> Result<TcpListener, Refusal> {
        let found = lookup_host((at.host.as_str(), at.port)).await.map_err(|_| Refusal::CannotListen)?;
        for address in found {
            if !self.may_listen(address) {
                return Err(Refusal::ListenNotAllowed);
            }
            if let Ok(listener) = TcpListener::bind(address).await {
                return Ok(listener);
            }
        }
        Err(Refusal::CannotListen)
    }

    /// Takes connections of programs for a client, until the server is about to end.
    async fn accept(
        self: &Arc<Self>,
        listener: TcpListener,
        session: &Session,
        places: &Arc<Places>,
        id: u16,
        weight: Weight,
    ) {
        let (mut tasks, mut draining) = (JoinSet::new(), self.is_draining.subscribe());
        loop {
            while tasks.try_join_next().is_some() {}
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = draining.wait_for(|is_draining| *is_draining) => break,
            };
            match accepted {
                Ok((tcp, _)) => {
                    // The list may have changed.
                    let is_allowed = listener.local_addr().is_ok_and(|at| self.may_listen(at));
                    let carried = Carried::new(self).filter(|_| is_allowed);
                    let (session, places) = (session.clone(), Arc::clone(places));
                    tasks.spawn(async move {
                        match (carried, places.connections.try_acquire()) {
                            (Some(_carried), Ok(_place)) => forward(tcp, &session, id, weight).await,
                            _ => reset(&tcp),
                        }
                    });
                }
                // Such as too many open files: others end.
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
        drop(listener);
        tasks.join_all().await;
    }
}

/// A place among those of a client, after a wait for one if necessary.
async fn wait_for(places: &Semaphore) -> Result<SemaphorePermit<'_>, Refusal> {
    let place = timeout(CONNECT_TIMEOUT, places.acquire()).await;
    place.ok().and_then(Result::ok).ok_or(Refusal::TooMany)
}

/// A listener of a client. Returns its place when it ends.
struct Listening {
    shared: Arc<Shared>,
    places: Arc<Places>,
    /// The client's key and the address, unless the system does not say it.
    of: Option<(PublicKey, SocketAddr)>,
}

impl Listening {
    fn new(shared: Arc<Shared>, session: &Session, places: Arc<Places>, listener: &TcpListener) -> Self {
        let of = listener.local_addr().ok().map(|address| (session.peer_key(), address));
        shared.listening().extend(of.map(|of| (of, session.clone())));
        Self { shared, places, of }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(of) = &self.of {
            self.shared.listening().remove(of);
        }
        self.places.listeners.add_permits(1);
    }
}

/// Carries one connection to the client's end of a listener.
async fn forward(mut tcp: TcpStream, session: &Session, forward: u16, weight: Weight) {
    prepare(&tcp);
    let Ok(mut stream) = session.open().await else { return reset(&tcp) };
    stream.set_weight(weight.value());
    if stream.write_all(&Message::Forwarded { forward }.encode()).await.is_err() {
        return reset(&tcp);
    }
    // How it ends is the business of both programs.
    let _ = relay(&mut tcp, &mut Answered::new(stream)).await;
}
