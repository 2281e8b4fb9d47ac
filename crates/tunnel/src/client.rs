//! The client's end: listens for programs of this machine, and keeps a session with the server.
//!
//! A session that ends is opened again, at once and then after growing waits. Programs that connect in the meantime, or
//! while the server does not answer, wait for it, for ten seconds at most.

use std::collections::BTreeMap;
use std::fmt;
use std::future::pending;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rampmeter_net::{ContactError, ServerAddress, os_random};
use rampmeter_streams::{Client, ClientOptions, Session, Stream, StreamError};
use rand::Rng;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, split};
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::forward::Forward;
use super::protocol::{Message, Refusal, Target, VERSION, Weight};
use super::proxy::{Asked, proxy_request};
use super::relay::{self, Answered, CONNECT_TIMEOUT, connect, no_answer, prepare, read_message, relay, reset};
use super::{Event, FIRST_WINDOWS, OnEvent, SERVICE, TunnelError, report_degraded};

/// The waits between attempts to reach the server.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The time after which a server is asked again for a listener that it could not bind.
const LISTEN_AGAIN: Duration = Duration::from_secs(5);

/// The maximum time for what a program says to the port of SOCKS5 and HTTP.
const PROXY_TIMEOUT: Duration = Duration::from_secs(10);

/// Streams that are opened in advance: a browser opens about as many at once.
const SPARE: usize = 8;

/// The options of a tunnel's client.
pub struct TunnelOptions {
    /// `HOST:PORT` or `HOST:PORT?key=KEY`.
    pub server: String,
    /// Keys, controller and limits.
    pub client: ClientOptions,
    /// The controller that the server should use; without it, the server's own.
    pub server_controller: Option<String>,
    /// Listeners here, for destinations that the server reaches.
    pub local: Vec<Forward>,
    /// Listeners at the server, for destinations that this host reaches.
    pub remote: Vec<Forward>,
    /// Listeners here for SOCKS5 and HTTP `CONNECT`.
    pub socks: Vec<Target>,
    /// Whether the client ends if the server cannot listen for one of `remote`.
    pub exit_on_forward_failure: bool,
    /// The maximum number of connections of programs; further ones wait.
    pub max_connections: usize,
    /// Called for each event.
    pub on_event: OnEvent,
}

impl fmt::Debug for TunnelOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TunnelOptions").field("server", &self.server).finish_non_exhaustive()
    }
}

/// A tunnel's client, whose listeners are bound.
pub struct TunnelClient {
    options: TunnelOptions,
    listeners: Vec<(TcpListener, Way)>,
}

impl fmt::Debug for TunnelClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TunnelClient").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Where the connections of a listener go.
#[derive(Debug, Clone)]
enum Way {
    To(Target, Weight),
    Proxy,
}

/// What all connections share.
struct Shared {
    session: watch::Receiver<Option<Session>>,
    on_event: OnEvent,
}

impl TunnelClient {
    /// Binds all listeners.
    pub async fn bind(options: TunnelOptions) -> Result<Self, TunnelError> {
        ServerAddress::read(&options.server)?;
        let local = options.local.iter().map(|f| (&f.listen, Way::To(f.to.clone(), f.weight)));
        let socks = options.socks.iter().map(|at| (at, Way::Proxy));
        let mut listeners = Vec::new();
        for (at, way) in local.chain(socks) {
            let failed = |error| TunnelError::CannotListen(at.clone(), error);
            let addresses: Vec<_> = lookup_host((at.host.as_str(), at.port)).await.map_err(failed)?.collect();
            listeners.push((TcpListener::bind(&addresses[..]).await.map_err(failed)?, way));
        }
        Ok(Self { options, listeners })
    }

    /// The addresses of its listeners: those of `local`, then those of `socks`.
    pub fn addresses(&self) -> Vec<std::net::SocketAddr> {
        self.listeners.iter().filter_map(|(listener, _)| listener.local_addr().ok()).collect()
    }

    /// Forwards until `stop` is ready, or the server refuses this client for good.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), TunnelError> {
        self.run_with(stop, |_| pending()).await
    }

    /// The same, and carries one connection: what `input` has goes to `to`, and what that sends to `output`. Ends when
    /// the destination has ended, with an error if that was not reached or did not end regularly.
    pub async fn carry(
        self,
        to: Target,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin,
        stop: impl Future<Output = ()>,
    ) -> Result<(), TunnelError> {
        self.run_with(stop, |shared| async move { shared.carry(to, input, output).await }).await
    }

    /// Forwards until `stop` or what `main` makes is ready, or the server refuses this client for good.
    async fn run_with<M: Future<Output = Result<(), TunnelError>>>(
        self,
        stop: impl Future<Output = ()>,
        main: impl FnOnce(Arc<Shared>) -> M,
    ) -> Result<(), TunnelError> {
        let (sender, session) = watch::channel(None);
        let ended = Mutex::new(None);
        let shared = Arc::new(Shared { session, on_event: Arc::clone(&self.options.on_event) });
        let places = Arc::new(Semaphore::new(self.options.max_connections));
        let mut tasks = JoinSet::new();
        for (listener, way) in self.listeners {
            tasks.spawn(accept(listener, way, Arc::clone(&shared), Arc::clone(&places)));
        }
        let result = tokio::select! {
            () = stop => Ok(()),
            result = main(shared) => result,
            error = keep(&self.options, &sender, &ended) => Err(error),
        };
        tasks.shutdown().await;
        // Without this the process could end before the goodbye has left.
        let ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(ended) = ended {
            ended.await;
        }
        result
    }
}

/// The end of a session.
type Ended = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Keeps a session with the server. Ends with an error that another attempt would not mend.
async fn keep(
    options: &TunnelOptions,
    sender: &watch::Sender<Option<Session>>,
    ended: &Mutex<Option<Ended>>,
) -> TunnelError {
    let mut wait = FIRST_WAIT;
    let mut has_begun = false;
    loop {
        let began = Instant::now();
        let client =
            ClientOptions { service: SERVICE, spare: SPARE, first_windows: FIRST_WINDOWS, ..options.client.clone() };
        let error = match Client::connect(&options.server, client).await {
            Ok(client) => {
                has_begun = true;
                *ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::pin(client.ended()));
                use_session(options, client, sender).await
            }
            Err(error) => error.into(),
        };
        sender.send_replace(None);
        // Anybody between both ends may keep a client from its server for a while, and answer in its place.
        let may_be_false = matches!(
            error,
            TunnelError::Contact(
                ContactError::KeyChanged(_) | ContactError::NotThisService(_) | ContactError::NotThisName(..)
            )
        );
        if error.is_permanent() && !(has_begun && may_be_false) {
            return error;
        }
        if began.elapsed() > MAX_WAIT {
            wait = FIRST_WAIT;
        }
        // Clients of one server do not all return at the same moment.
        let wait_now = wait.mul_f64(os_random().random_range(0.75..1.25));
        (options.on_event)(&Event::Lost { reason: error.to_string(), wait: wait_now });
        sleep(wait_now).await;
        wait = (wait * 2).min(MAX_WAIT);
    }
}

/// Uses a session until its end.
async fn use_session(
    options: &TunnelOptions,
    mut client: Client,
    sender: &watch::Sender<Option<Session>>,
) -> TunnelError {
    let (mut messages, mut control) = match timeout(CONNECT_TIMEOUT, greet(options, &client)).await {
        Ok(Ok(control)) => split(control),
        Ok(Err(error)) => return error,
        Err(_) => return ContactError::NoAnswer(client.address()).into(),
    };
    (options.on_event)(&Event::Connected {
        server: client.address(),
        key: client.session().peer_key(),
        is_new: client.is_new_server(),
    });
    sender.send_replace(Some(client.session().clone()));
    // Listeners that the server could not bind, and when to ask again: an earlier client that is gone may have the port.
    let mut refused: BTreeMap<u16, Instant> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    tasks.spawn(report_silence(client.session().clone(), client.address(), Arc::clone(&options.on_event)));
    tasks.spawn(report_degraded(client.session().clone(), None, Arc::clone(&options.on_event)));
    // Read in a task: what a cancelled read has taken would be lost.
    let (sender, mut received) = mpsc::channel(1);
    tasks.spawn(async move { while sender.send(read_message(&mut messages).await).await.is_ok() {} });
    loop {
        let next = refused.iter().min_by_key(|(_, at)| **at).map(|(forward, at)| (*forward, *at));
        tokio::select! {
            Some(message) = received.recv() => match message {
                Ok(Message::Listening { forward, port }) => {
                    let Some(wanted) = options.remote.get(usize::from(forward)) else { break };
                    let was_refused = match port {
                        Err(Refusal::CannotListen) => refused.insert(forward, Instant::now() + LISTEN_AGAIN).is_some(),
                        _ => refused.remove(&forward).is_some(),
                    };
                    if let (true, Err(refusal)) = (options.exit_on_forward_failure, port) {
                        return TunnelError::CannotForward(wanted.listen.clone(), refusal);
                    }
                    if !(was_refused && port == Err(Refusal::CannotListen)) {
                        (options.on_event)(&Event::Listening { forward: wanted.clone(), port });
                    }
                }
                Ok(_) => return TunnelError::Refused(Refusal::BadMessage),
                Err(_) => break,
            },
            stream = client.accept() => match stream {
                Some(stream) => drop(tasks.spawn(forwarded(stream, options.remote.clone(), Arc::clone(&options.on_event)))),
                None => break,
            },
            _ = tasks.join_next(), if !tasks.is_empty() => {}
            Some(forward) = due(next) => {
                refused.insert(forward, Instant::now() + LISTEN_AGAIN);
                let Some(wanted) = options.remote.get(usize::from(forward)) else { break };
                if control.write_all(&listen(forward, wanted)).await.is_err() {
                    break;
                }
            }
        }
    }
    // The session has ended, or its server has left the protocol.
    let ended = timeout(FIRST_WAIT, client.session().ended()).await;
    StreamError::Ended(ended.unwrap_or(rampmeter_net::SessionEnd::NoAnswer)).into()
}

/// Waits until it is time to ask for a listener again; `None` without one.
async fn due(next: Option<(u16, Instant)>) -> Option<u16> {
    let (forward, at) = next?;
    sleep_until(at).await;
    Some(forward)
}

/// Asks for the listener of `forward`.
fn listen(index: u16, forward: &Forward) -> Vec<u8> {
    Message::Listen { forward: index, weight: forward.weight, at: forward.listen.clone() }.encode()
}

/// Reports when the server stops to answer, and when it answers again.
async fn report_silence(session: Session, server: std::net::SocketAddr, on_event: OnEvent) {
    while session.answers(false).await {
        on_event(&Event::Silent { server });
        if session.answers(true).await {
            on_event(&Event::Answers { server });
        }
    }
}

/// Opens the control stream, and asks for the controller and the listeners.
async fn greet(options: &TunnelOptions, client: &Client) -> Result<Stream, TunnelError> {
    let mut control = client.open().await?;
    control.set_weight(10.0); // a few bytes that should not wait
    let controller = options.server_controller.clone().unwrap_or_default();
    let mut hello = Message::Control { version: VERSION, controller }.encode();
    for (index, forward) in options.remote.iter().enumerate() {
        hello.extend(listen(index as u16, forward));
    }
    let lost = |error: io::Error| match error.kind() {
        io::ErrorKind::InvalidData => TunnelError::Refused(Refusal::BadMessage),
        _ => ContactError::NoAnswer(client.address()).into(),
    };
    control.write_all(&hello).await.map_err(lost)?;
    match read_message(&mut control).await.map_err(lost)? {
        Message::Welcome(None) => Ok(control),
        Message::Welcome(Some(refusal)) => Err(TunnelError::Refused(refusal)),
        _ => Err(TunnelError::Refused(Refusal::BadMessage)),
    }
}

/// Takes the connections of a listener.
async fn accept(listener: TcpListener, way: Way, shared: Arc<Shared>, places: Arc<Semaphore>) {
    let mut tasks = JoinSet::new();
    loop {
        while tasks.try_join_next().is_some() {}
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return pending().await };
        match listener.accept().await {
            Ok((tcp, _)) => {
                let (way, shared) = (way.clone(), Arc::clone(&shared));
                tasks.spawn(async move {
                    let _place = place;
                    prepare(&tcp);
                    match way {
                        Way::To(to, weight) => shared.forward(tcp, to, weight).await,
                        Way::Proxy => shared.proxy(tcp).await,
                    }
                });
            }
            // Such as too many open files: others end.
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

impl Shared {
    /// A stream with a connection to a destination behind it, once the server has answered.
    async fn open(&self, to: Target, weight: Weight) -> Option<Answered> {
        let mut session = self.session.clone();
        let opened = async {
            let session = loop {
                let session = session.wait_for(Option::is_some).await.ok()?.clone()?;
                if session.answers(true).await {
                    break session;
                }
                sleep(FIRST_WAIT).await; // it has ended, and another one is opened
            };
            let mut stream = session.open().await.ok()?;
            stream.set_weight(weight.value());
            stream.write_all(&Message::Connect { weight, to: to.clone() }.encode()).await.ok()?;
            Some(Answered::new(stream))
        };
        let stream = timeout(CONNECT_TIMEOUT, opened).await.ok().flatten();
        if stream.is_none() {
            (self.on_event)(&Event::NotCarried { to });
        }
        stream
    }

    fn report(&self, to: Target, refusal: Refusal) {
        (self.on_event)(&Event::Refused { client: None, to, refusal });
    }

    async fn forward(&self, mut tcp: TcpStream, to: Target, weight: Weight) {
        let Some(mut stream) = self.open(to.clone(), weight).await else { return reset(&tcp) };
        // The program's first bytes leave with the request. How the connection ends is the business of both programs.
        let _ = relay(&mut tcp, &mut stream).await;
        if let Some(refusal) = stream.refusal() {
            self.report(to, refusal);
        }
    }

    async fn carry(
        &self,
        to: Target,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin,
    ) -> Result<(), TunnelError> {
        let Some(mut stream) = self.open(to.clone(), Weight::default()).await else {
            return Err(TunnelError::NoConnection(to, no_answer()));
        };
        let carried = relay::carry(input, output, &mut stream).await;
        carried.map_err(|error| TunnelError::NoConnection(to, error.to_string()))
    }

    /// A connection of a program that names its destination, by SOCKS5 or HTTP.
    async fn proxy(&self, mut tcp: TcpStream) {
        let asked = timeout(PROXY_TIMEOUT, proxy_request(&mut tcp)).await;
        let Some(Asked { by, to, rest }) = asked.ok().flatten() else { return };
        let Some(mut stream) = self.open(to.clone(), Weight::default()).await else {
            let _ = tcp.write_all(&by.refusal(None)).await;
            return;
        };
        match stream.answer().await {
            Ok(Ok(())) => {
                if tcp.write_all(&by.success()).await.is_ok() && stream.write_all(&rest).await.is_ok() {
                    let _ = relay(&mut tcp, &mut stream).await; // how it ends is the business of both programs
                }
            }
            Ok(Err(refusal)) => {
                self.report(to, refusal);
                let _ = tcp.write_all(&by.refusal(Some(refusal))).await;
            }
            Err(_) => drop(tcp.write_all(&by.refusal(None)).await),
        }
    }
}

/// A connection to one of the server's listeners.
async fn forwarded(mut stream: Stream, remote: Vec<Forward>, on_event: OnEvent) {
    let message = timeout(CONNECT_TIMEOUT, read_message(&mut stream)).await;
    let Ok(Ok(Message::Forwarded { forward })) = message else { return };
    let Some(forward) = remote.get(usize::from(forward)) else { return };
    stream.set_weight(forward.weight.value());
    match connect(&forward.to, None).await {
        Ok(mut tcp) => {
            if stream.write_u8(0).await.is_ok() {
                let _ = relay(&mut tcp, &mut stream).await; // how it ends is the business of both programs
            }
        }
        Err(refusal) => {
            on_event(&Event::Refused { client: None, to: forward.to.clone(), refusal });
            let _ = stream.write_u8(refusal as u8).await;
            let _ = stream.shutdown().await;
        }
    }
}
