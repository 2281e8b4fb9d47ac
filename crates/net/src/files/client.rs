//! The client: downloads one file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rampmeter_control::Algorithm;
use rampmeter_control::newreno::{Config as NewRenoConfig, NewReno};
use rampmeter_session::{Config as SessionConfig, Goodbye, KeyPair, PublicKey, SessionId, Sessions};
use rampmeter_transport::{Config, ConnectionId, Endpoint, EndpointConfig, State};
use rampmeter_units::{Duration, Stream, Time};
use serde::Serialize;

use super::error::{KeyChanged, NetError, Received};
use super::part::Part;
use super::progress::{Progress, loss};
use super::protocol::{Answer, HEARTBEAT, InvalidMessage, Refusal, Request, check_controller};
use super::url::Url;
use super::{default_transport, fresh_seed, max_datagram, os_random};
use crate::driver::{EventLoop, HostId};
use crate::host::{EndReason, Event, Host, Limits, SessionEnd};
use crate::keys;
use crate::socket::Socket;

const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(250);

/// The maximum wait for the last acknowledgements once the file is complete.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// How a client knows that a server is the right one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// By its key.
    Key(PublicKey),
    /// By the key in this file, in which the key of a new server is stored at first contact.
    KnownServers(PathBuf),
}

/// The options of a download.
#[derive(Debug)]
pub struct GetOptions {
    /// HOST:PORT/NAME, or HOST:PORT/NAME?key=KEY, whose key then counts instead of `trust`.
    pub url: String,
    /// How the server is known.
    pub trust: Trust,
    /// This client's key; by default a new one for each download.
    pub identity: Option<KeyPair>,
    /// The output: a file, which is replaced if it exists; a directory; a device or a pipe, written to as the bytes
    /// arrive; or standard output for [`STANDARD_OUTPUT`](super::STANDARD_OUTPUT). Without it, the last part of the
    /// file's name, in the current directory.
    pub out: Option<PathBuf>,
    /// Resume from the part of an earlier download if the server's file begins with it.
    pub resume: bool,
    /// Show a progress bar if standard error is a terminal.
    pub progress: bool,
    /// The BLAKE3 hash that the file must have.
    pub blake3: Option<[u8; 32]>,
    /// The controller that the server should use for the file; without it, the server's default.
    pub controller: Option<String>,
    /// The transport settings of the connection.
    pub transport: Config,
    /// The time without packets after which the server counts as unreachable.
    pub peer_timeout: Duration,
    /// Stops the download when set; the received part stays for the next download.
    pub stop: Arc<AtomicBool>,
}

impl Default for GetOptions {
    fn default() -> Self {
        Self {
            url: String::new(),
            trust: Trust::KnownServers(keys::default_directory().join("known_servers")),
            identity: None,
            out: None,
            resume: true,
            progress: true,
            blake3: None,
            controller: None,
            transport: default_transport(),
            peer_timeout: Duration::from_secs(10),
            stop: Arc::default(),
        }
    }
}

/// The report of a complete download.
#[derive(Debug, Clone, Serialize)]
pub struct GetReport {
    /// The requested name.
    pub name: String,
    /// The server's address.
    pub server: SocketAddr,
    /// The server's public key.
    pub server_key: String,
    /// Whether this was the first contact, and its key was stored.
    pub is_new_server: bool,
    /// The path of the file.
    pub path: PathBuf,
    /// The size of the file.
    pub bytes: u64,
    /// Bytes that an earlier download had received.
    pub resumed_from: u64,
    /// The file's BLAKE3 hash, as sent by the server and verified here.
    pub blake3: String,
    /// The controller that sent the file, as the server reports.
    pub controller: String,
    /// The time from the first packet to the last byte.
    pub seconds: f64,
    /// Received bits of the file per second over that time.
    pub goodput_bps: f64,
    /// The round-trip time of the handshake.
    pub handshake_s: f64,
    /// The minimum round-trip time.
    pub min_rtt_s: f64,
    /// The smoothed round-trip time at the end.
    pub rtt_s: f64,
    /// The fraction of the server's packets that did not arrive.
    pub loss: f64,
}

/// Downloads a file.
pub fn get(options: &GetOptions) -> Result<GetReport, NetError> {
    let Url { server, addresses, name, key } = Url::read(&options.url)?;
    let expected = match (key, &options.trust) {
        (Some(key), _) => Some(key),
        (None, Trust::Key(key)) => Some(*key),
        (None, Trust::KnownServers(path)) => keys::known_server(path, &server)?,
    };
    let identity = options.identity.clone().unwrap_or_else(|| KeyPair::generate(&mut os_random()));
    let trusted = Trusted { server, is_in_url: key.is_some(), expected, identity };
    options.transport.check().map_err(NetError::BadOption)?;
    if let Some(name) = &options.controller {
        check_controller(name).map_err(|reason| {
            NetError::BadOption(format!("{name:?} cannot be a controller: {reason}; write a name such as `pcp`"))
        })?;
    }
    let last = name.rsplit('/').next().unwrap_or(&name);
    let target = match &options.out {
        None => PathBuf::from(last),
        Some(out) if out.is_dir() => out.join(last),
        Some(out) => out.clone(),
    };
    let mut part = Part::open(&target, options.resume)?;
    let progress = Progress::new(options.progress, last);
    let mut failure = NetError::UnknownHost(options.url.clone());
    for address in addresses {
        let mut download = match Download::start(options, &trusted, address, &name, &mut part, &progress) {
            Ok(download) => download,
            Err(error) => {
                failure = error;
                continue;
            }
        };
        let result = download.run();
        failure = match (result, download.report(address, &name)) {
            (Ok(()), report) => {
                let path = part.complete()?;
                return Ok(GetReport { path, ..report });
            }
            // Another address of the host may work.
            (Err(error @ (NetError::ConnectionRefused(_) | NetError::NoRoute(..))), _) => error,
            (Err(error @ (NetError::Corrupt { .. } | NetError::OtherContent { .. })), _) => {
                part.discard();
                return Err(error);
            }
            (Err(error), _) => {
                part.close();
                return Err(error);
            }
        };
    }
    part.close();
    Err(failure)
}

/// Which server is the right one, and who this client is.
struct Trusted {
    /// HOST:PORT, as written.
    server: String,
    /// Whether the expected key is in the URL.
    is_in_url: bool,
    expected: Option<PublicKey>,
    identity: KeyPair,
}

/// The stage of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Waits for the server's `Start`.
    Requested,
    /// Receives the file's bytes.
    Receiving { size: u64 },
    /// The file is complete and its hash is right.
    Verified { at: Time, size: u64 },
}

struct Download<'a> {
    options: &'a GetOptions,
    trusted: &'a Trusted,
    /// This end sends only a request and heartbeats, so any controller will do.
    net: EventLoop<NewReno>,
    host: HostId,
    session: SessionId,
    /// None while the server's key is not known.
    id: Option<ConnectionId>,
    server: SocketAddr,
    server_key: Option<PublicKey>,
    is_new_server: bool,
    request: Request,
    part: &'a mut Part,
    progress: &'a Progress,
    stage: Stage,
    /// Bytes read from the stream and not processed yet.
    unread: Vec<u8>,
    started_at: Time,
    next_heartbeat: Time,
    handshake: Option<Duration>,
    resumed_from: u64,
    controller: String,
    rtt: (Duration, Duration),
    loss: f64,
}

impl<'a> Download<'a> {
    fn start(
        options: &'a GetOptions,
        trusted: &'a Trusted,
        server: SocketAddr,
        name: &str,
        part: &'a mut Part,
        progress: &'a Progress,
    ) -> Result<Self, NetError> {
        let make = || NewReno::new(&NewRenoConfig::default(), Stream::from_seed(fresh_seed()));
        let endpoint = Endpoint::new(EndpointConfig::default(), make, os_random());
        let socket = Socket::connect(server).map_err(|reason| NetError::reach(server, reason))?;
        let limits = Limits { peer_timeout: options.peer_timeout, ..Limits::default() };
        let mut net = EventLoop::new(max_datagram(&options.transport))?;
        let started_at = net.now();
        let sessions = Sessions::new(SessionConfig::client(trusted.identity.clone()), os_random());
        let mut host = Host::new(endpoint, sessions, socket, limits);
        let session = host.connect(started_at, server, trusted.expected).ok_or(NetError::NoAnswer(server))?;
        let id = trusted.expected.and_then(|_| host.open(started_at, session, &options.transport));
        let host = net.add(host)?;
        let controller = options.controller.clone();
        let request = Request { name: name.to_owned(), controller, offset: part.len, prefix: part.hash() };
        Ok(Self {
            options,
            trusted,
            net,
            host,
            session,
            id,
            server,
            server_key: trusted.expected,
            is_new_server: false,
            request,
            part,
            progress,
            stage: Stage::Requested,
            unread: Vec::new(),
            started_at,
            next_heartbeat: Time::MAX,
            handshake: None,
            resumed_from: 0,
            controller: String::new(),
            rtt: (Duration::ZERO, Duration::ZERO),
            loss: 0.0,
        })
    }

    /// Runs until the file is complete and verified.
    fn run(&mut self) -> Result<(), NetError> {
        let result = self.receive();
        let now = self.net.now();
        if let Some(host) = self.net.host_mut(self.host) {
            match (&result, self.id) {
                (Err(_), Some(id)) => host.abort(now, id),
                _ => host.disconnect(now, self.session, Goodbye::Finished),
            }
        }
        self.net.run_once(now)?; // notifies the server
        result
    }

    fn receive(&mut self) -> Result<(), NetError> {
        loop {
            let now = self.net.now();
            let until = self.next_heartbeat.min(now + Duration::from_millis(100));
            self.net.run_once(until)?;
            while let Some((_, event)) = self.net.poll_event() {
                self.on_event(event)?;
            }
            self.update_progress();
            if let Stage::Verified { at, .. } = self.stage {
                let connection = self.id.and_then(|id| self.net.host(self.host)?.endpoint().connection(id));
                let is_closed = connection.is_none_or(|connection| connection.state() == State::Lingering);
                if is_closed || self.net.now().since(at) >= CLOSE_TIMEOUT {
                    return Ok(());
                }
            }
            if self.options.stop.load(Ordering::Relaxed) && !matches!(self.stage, Stage::Verified { .. }) {
                return Err(NetError::Interrupted(self.received()));
            }
            if self.next_heartbeat <= self.net.now() {
                self.send_heartbeat();
            }
        }
    }

    /// Updates the progress bar.
    fn update_progress(&mut self) {
        let (Some(host), Some(id)) = (self.net.host(self.host), self.id) else { return };
        let Some(connection) = host.endpoint().connection(id) else { return };
        let statistics = connection.statistics();
        self.rtt = (statistics.min_rtt, statistics.smoothed_rtt);
        let arrivals = host.arrivals(id);
        self.loss = loss(arrivals);
        self.progress.show(self.part.len, statistics.smoothed_rtt, arrivals);
    }

    fn send_heartbeat(&mut self) {
        let now = self.net.now();
        self.next_heartbeat = now + HEARTBEAT_INTERVAL;
        if let (Some(host), Some(id)) = (self.net.host_mut(self.host), self.id) {
            host.write(now, id, &[HEARTBEAT]);
        }
    }

    fn size(&self) -> Option<u64> {
        match self.stage {
            Stage::Requested => None,
            Stage::Receiving { size } | Stage::Verified { size, .. } => Some(size),
        }
    }

    fn on_event(&mut self, event: Event) -> Result<(), NetError> {
        let now = self.net.now();
        match event {
            Event::Key(session, key) => self.on_key(now, session, key),
            Event::SessionEnded(_, end) => self.on_session_ended(now, end),
            Event::Opened(id, rtt) => {
                self.handshake = Some(rtt);
                self.next_heartbeat = now + HEARTBEAT_INTERVAL;
                if let Some(host) = self.net.host_mut(self.host) {
                    host.write(now, id, &self.request.encode());
                }
                Ok(())
            }
            Event::Readable(_) => self.read(now),
            Event::Closed(id, ended, _) if self.id == Some(id) => self.on_closed(ended),
            // After the server's first answer, errors of the path may be temporary; the peer timeout ends the download
            // if they are not.
            Event::SocketError(error) if self.handshake.is_none() => Err(NetError::reach(self.server, error)),
            // A client sends almost nothing: a degraded controller does not slow the download.
            Event::Closed(..)
            | Event::Accepted(..)
            | Event::Datagram(..)
            | Event::Writable(_)
            | Event::SocketError(_)
            | Event::Degraded(..) => Ok(()),
        }
    }

    /// The server has shown its key: it is new, or another than the expected one.
    fn on_key(&mut self, now: Time, session: SessionId, key: PublicKey) -> Result<(), NetError> {
        let trusted = self.trusted;
        match (&self.options.trust, trusted.expected) {
            (trust, Some(expected)) if expected != key => {
                let (origin, remedy) = match trust {
                    _ if trusted.is_in_url => ("is in the URL".to_owned(), "write it there"),
                    Trust::Key(_) => ("--key gives".to_owned(), "give it there"),
                    Trust::KnownServers(path) => {
                        (format!("{} has", path.display()), "delete the server's line in that file")
                    }
                };
                let server = trusted.server.clone();
                let changed = KeyChanged { server, got: key, expected, origin, remedy };
                return Err(NetError::KeyChanged(Box::new(changed)));
            }
            (Trust::KnownServers(path), None) => {
                keys::remember_server(path, &trusted.server, key)?;
                self.is_new_server = true;
            }
            // It has the expected key: what said otherwise was damaged or forged.
            _ => {}
        }
        self.server_key = Some(key);
        if let Some(host) = self.net.host_mut(self.host) {
            self.id = host.open(now, session, &self.options.transport);
        }
        Ok(())
    }

    fn on_session_ended(&mut self, now: Time, end: SessionEnd) -> Result<(), NetError> {
        let address = self.server;
        match end {
            _ if matches!(self.stage, Stage::Verified { .. }) => Ok(()),
            // Asks for its key, to say what it is.
            SessionEnd::WrongKey => {
                self.id = None;
                let session = self.net.host_mut(self.host).and_then(|host| host.connect(now, address, None));
                self.session = session.ok_or(NetError::NoAnswer(address))?;
                Ok(())
            }
            SessionEnd::NotAuthorized => Err(NetError::NotAuthorized { address, own: self.trusted.identity.public() }),
            SessionEnd::Finished | SessionEnd::Stopping | SessionEnd::Restarted => {
                Err(NetError::Restarted(address, self.received()))
            }
            SessionEnd::NoAnswer => Err(NetError::NoAnswer(address)),
        }
    }

    fn on_closed(&self, ended: EndReason) -> Result<(), NetError> {
        match (self.stage, ended) {
            (Stage::Verified { .. }, _) => Ok(()),
            _ if self.handshake.is_none() => Err(NetError::NoAnswer(self.server)),
            (_, EndReason::PeerTimeout) => Err(NetError::PeerTimeout(self.server, self.received())),
            _ => Err(NetError::Aborted(self.server, self.received())),
        }
    }

    fn received(&self) -> Received {
        Received { got: self.part.len, size: self.size(), resumable: self.part.is_resumable() }
    }

    fn read(&mut self, now: Time) -> Result<(), NetError> {
        let (Some(host), Some(id)) = (self.net.host_mut(self.host), self.id) else { return Ok(()) };
        host.read(now, id, &mut self.unread);
        let ended = host.is_read_to_end(id);
        let unread = std::mem::take(&mut self.unread);
        let processed = self.process(now, &unread)?;
        self.unread = unread;
        self.unread.drain(..processed);
        if ended && !matches!(self.stage, Stage::Verified { .. }) {
            return Err(NetError::BadAnswer(self.server)); // the server ended its stream before its last message
        }
        Ok(())
    }

    /// Processes the bytes received. Returns the number of bytes processed.
    fn process(&mut self, now: Time, bytes: &[u8]) -> Result<usize, NetError> {
        let mut processed = 0;
        while processed < bytes.len() {
            let rest = &bytes[processed..];
            let remaining = self.size().map_or(0, |size| size - self.part.len);
            if remaining > 0 {
                let len = usize::try_from(remaining).unwrap_or(usize::MAX).min(rest.len());
                self.part.append(&rest[..len])?;
                processed += len;
                continue;
            }
            let answer = Answer::parse(rest).map_err(|InvalidMessage| NetError::BadAnswer(self.server))?;
            let Some((answer, len)) = answer else { break };
            self.on_answer(now, answer)?;
            processed += len;
        }
        Ok(processed)
    }

    fn on_answer(&mut self, now: Time, answer: Answer) -> Result<(), NetError> {
        match (self.stage, answer) {
            (Stage::Requested, Answer::Checking) => Ok(()),
            (Stage::Requested, Answer::Start { size, offset, controller }) => {
                if self.request.controller.as_ref().is_some_and(|requested| *requested != controller) {
                    return Err(NetError::BadAnswer(self.server));
                }
                if offset == 0 {
                    self.part.clear()?;
                } else if offset != self.part.len {
                    return Err(NetError::BadAnswer(self.server));
                }
                self.resumed_from = offset;
                self.controller = controller;
                self.stage = Stage::Receiving { size };
                self.progress.start(size, offset);
                Ok(())
            }
            (Stage::Receiving { size }, Answer::Whole(hash)) => {
                if hash != self.part.hash() {
                    return Err(NetError::Corrupt {
                        name: self.request.name.clone(),
                        deleted: self.part.is_resumable(),
                    });
                }
                if self.options.blake3.is_some_and(|expected| expected != hash) {
                    return Err(NetError::OtherContent {
                        name: self.request.name.clone(),
                        blake3: blake3::Hash::from(hash).to_hex().to_string(),
                        deleted: self.part.is_resumable(),
                    });
                }
                self.stage = Stage::Verified { at: now, size };
                self.next_heartbeat = Time::MAX;
                if let (Some(host), Some(id)) = (self.net.host_mut(self.host), self.id) {
                    host.finish(now, id);
                }
                Ok(())
            }
            (Stage::Requested | Stage::Receiving { .. }, Answer::Refused(reason)) => {
                let requested = self.request.controller.as_ref();
                let refused = match reason {
                    Refusal::NoSuchController | Refusal::ControllerNotAllowed => {
                        requested.unwrap_or(&self.request.name)
                    }
                    _ => &self.request.name,
                };
                Err(NetError::Refused { address: self.server, name: refused.clone(), reason })
            }
            _ => Err(NetError::BadAnswer(self.server)),
        }
    }

    /// The report, without the path.
    fn report(&self, server: SocketAddr, name: &str) -> GetReport {
        let end = if let Stage::Verified { at, .. } = self.stage { at } else { self.net.now() };
        let seconds = end.since(self.started_at).as_secs_f64();
        let received = self.part.len.saturating_sub(self.resumed_from);
        GetReport {
            name: name.to_owned(),
            server,
            server_key: self.server_key.map(|key| key.to_string()).unwrap_or_default(),
            is_new_server: self.is_new_server,
            path: PathBuf::new(),
            bytes: self.part.len,
            resumed_from: self.resumed_from,
            blake3: blake3::Hash::from(self.part.hash()).to_hex().to_string(),
            controller: self.controller.clone(),
            seconds,
            goodput_bps: received as f64 * 8.0 / seconds.max(1e-9),
            handshake_s: self.handshake.unwrap_or_default().as_secs_f64(),
            min_rtt_s: self.rtt.0.as_secs_f64(),
            rtt_s: self.rtt.1.as_secs_f64(),
            loss: self.loss,
        }
    }
}
