//! The client: downloads one file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rampmeter_control::Algorithm;
use rampmeter_control::newreno::{Config as NewRenoConfig, NewReno};
use rampmeter_transport::{Config, ConnectionId, Endpoint, EndpointConfig, State};
use rampmeter_units::{Duration, Stream, Time};
use serde::Serialize;

use super::error::{NetError, Received};
use super::part::Part;
use super::progress::{Progress, loss};
use super::protocol::{Answer, HEARTBEAT, InvalidMessage, Refusal, Request, check_controller};
use super::url::read_url;
use super::{default_transport, fresh_seed, os_random};
use crate::driver::{EventLoop, HostId};
use crate::host::{EndReason, Event, Host, Limits};
use crate::socket::Socket;

const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(250);

/// The maximum wait for the last acknowledgements once the file is complete.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// The options of a download.
#[derive(Debug)]
pub struct GetOptions {
    /// HOST:PORT/NAME.
    pub url: String,
    /// The output: a file, which is replaced if it exists; a directory; a device or a pipe, written to as the bytes
    /// arrive; or standard output for [`STANDARD_OUTPUT`](super::STANDARD_OUTPUT). Without it, the last part of the
    /// file's name, in the current directory.
    pub out: Option<PathBuf>,
    /// Resume from the part of an earlier download if the server's file begins with it.
    pub resume: bool,
    /// Show a progress bar if standard error is a terminal.
    pub progress: bool,
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
            out: None,
            resume: true,
            progress: true,
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
    let (addresses, name) = read_url(&options.url)?;
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
        let mut download = match Download::start(options, address, &name, &mut part, &progress) {
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
            (Err(error @ NetError::Corrupt { .. }), _) => {
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
    /// This end sends only a request and heartbeats, so any controller will do.
    net: EventLoop<NewReno>,
    host: HostId,
    id: ConnectionId,
    server: SocketAddr,
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
        server: SocketAddr,
        name: &str,
        part: &'a mut Part,
        progress: &'a Progress,
    ) -> Result<Self, NetError> {
        let make = || NewReno::new(&NewRenoConfig::default(), Stream::from_seed(fresh_seed()));
        let endpoint = Endpoint::new(EndpointConfig::default(), make, os_random());
        let socket = Socket::connect(server).map_err(|reason| NetError::reach(server, reason))?;
        let limits = Limits { peer_timeout: options.peer_timeout, ..Limits::default() };
        let mut net = EventLoop::new(options.transport.packet.as_u64() as usize)?;
        let started_at = net.now();
        let mut host = Host::new(endpoint, socket, limits);
        let id = host.open(started_at, server, &options.transport).ok_or(NetError::NoAnswer(server))?;
        let host = net.add(host)?;
        let controller = options.controller.clone();
        let request = Request { name: name.to_owned(), controller, offset: part.len, prefix: part.hash() };
        Ok(Self {
            options,
            net,
            host,
            id,
            server,
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
        if result.is_err() {
            let now = self.net.now();
            if let Some(host) = self.net.host_mut(self.host) {
                host.abort(now, self.id);
            }
            self.net.run_once(now)?; // sends the reset to the server
        }
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
                let connection = self.net.host(self.host).and_then(|host| host.endpoint().connection(self.id));
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
        let Some(host) = self.net.host(self.host) else { return };
        let Some(connection) = host.endpoint().connection(self.id) else { return };
        let statistics = connection.statistics();
        self.rtt = (statistics.min_rtt, statistics.smoothed_rtt);
        let arrivals = host.arrivals(self.id);
        self.loss = loss(arrivals);
        self.progress.show(self.part.len, statistics.smoothed_rtt, arrivals);
    }

    fn send_heartbeat(&mut self) {
        let now = self.net.now();
        self.next_heartbeat = now + HEARTBEAT_INTERVAL;
        if let Some(host) = self.net.host_mut(self.host) {
            host.write(now, self.id, &[HEARTBEAT]);
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
            Event::Opened(_, rtt) => {
                self.handshake = Some(rtt);
                self.next_heartbeat = now + HEARTBEAT_INTERVAL;
                if let Some(host) = self.net.host_mut(self.host) {
                    host.write(now, self.id, &self.request.encode());
                }
                Ok(())
            }
            Event::Readable(_) => self.read(now),
            Event::Closed(_, ended, _) => self.on_closed(ended),
            // After the server's first answer, errors of the path may be temporary; the peer timeout ends the download
            // if they are not.
            Event::SocketError(error) if self.handshake.is_none() => Err(NetError::reach(self.server, error)),
            // A client sends almost nothing: a degraded controller does not slow the download.
            Event::Accepted(..)
            | Event::Datagram(..)
            | Event::Writable(_)
            | Event::SocketError(_)
            | Event::Degraded(..) => Ok(()),
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
        let Some(host) = self.net.host_mut(self.host) else { return Ok(()) };
        host.read(now, self.id, &mut self.unread);
        let ended = host.is_read_to_end(self.id);
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
                self.stage = Stage::Verified { at: now, size };
                self.next_heartbeat = Time::MAX;
                if let Some(host) = self.net.host_mut(self.host) {
                    host.finish(now, self.id);
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
