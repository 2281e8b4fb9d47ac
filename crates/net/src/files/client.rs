//! Gets one file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rampmeter_control::Algorithm;
use rampmeter_control::newreno::{Config as OwnConfig, NewReno};
use rampmeter_transport::{Config, ConnectionId, Endpoint, EndpointConfig, State};
use rampmeter_units::{Duration, Stream, Time};
use serde::Serialize;

use super::error::NetError;
use super::part::Part;
use super::progress::{Progress, loss};
use super::protocol::{Answer, HEARTBEAT, Nonsense, Refusal, Request, check_controller};
use super::url::read_url;
use super::{default_transport, fresh_seed, unforeseeable};
use crate::driver::{HostId, Loop};
use crate::host::{Ended, Event, Host, Limits};
use crate::socket::Socket;

/// A heartbeat leaves this often.
const HEARTBEAT_EVERY: Duration = Duration::from_millis(250);

/// How long to stay for the last acknowledgements once the file is here.
const FAREWELL: Duration = Duration::from_millis(500);

/// How to get.
#[derive(Debug)]
pub struct GetOptions {
    /// HOST:PORT/NAME.
    pub url: String,
    /// Where to put it: a file, replaced if it is there; a directory; a device or a pipe, written to as the bytes come, like
    /// standard output for [`STANDARD_OUTPUT`](super::STANDARD_OUTPUT). Without it, the name's last part, here.
    pub out: Option<PathBuf>,
    /// Go on from an earlier download's part if the server's file begins with it.
    pub resume: bool,
    /// Show a progress bar if standard error is a terminal.
    pub progress: bool,
    /// The controller that the server should send the file under; without it, the server's own.
    pub controller: Option<String>,
    /// How the connection behaves.
    pub transport: Config,
    /// How long the server may be silent.
    pub patience: Duration,
    /// Stops the download when raised; what has come stays for the next.
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
            patience: Duration::from_secs(10),
            stop: Arc::default(),
        }
    }
}

/// A download that is complete.
#[derive(Debug, Clone, Serialize)]
pub struct GetReport {
    /// What was asked for.
    pub name: String,
    /// From whom.
    pub server: SocketAddr,
    /// Where it is now.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Bytes of it that an earlier download had brought.
    pub resumed_from: u64,
    /// Its BLAKE3 hash, as the server sent it and as it was found here.
    pub blake3: String,
    /// The controller that it was sent under, as the server says.
    pub controller: String,
    /// From the first packet to the last byte.
    pub seconds: f64,
    /// Bits of the file per second over that time.
    pub goodput_bps: f64,
    /// Round-trip time of the handshake.
    pub handshake_s: f64,
    /// Least round-trip time.
    pub min_rtt_s: f64,
    /// Smoothed round-trip time at the end.
    pub rtt_s: f64,
    /// The part of the server's packets that did not arrive.
    pub loss: f64,
}

/// Gets a file.
pub fn get(options: &GetOptions) -> Result<GetReport, NetError> {
    let (addresses, name) = read_url(&options.url)?;
    options.transport.check().map_err(NetError::BadOption)?;
    if let Some(name) = &options.controller {
        check_controller(name).map_err(|reason| {
            NetError::BadOption(format!("{name:?} can't be a controller: {reason}; give for example `pcp`"))
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
        let mut download = match Download::begin(options, address, &name, &mut part, &progress) {
            Ok(download) => download,
            Err(error) => {
                failure = error;
                continue;
            }
        };
        let result = download.run();
        failure = match (result, download.result(address, &name)) {
            (Ok(()), report) => {
                let path = part.complete()?;
                return Ok(GetReport { path, ..report });
            }
            // The host's next address may do better.
            (Err(error @ (NetError::NobodyListens(_) | NetError::NoRoute { .. })), _) => error,
            (Err(error @ NetError::Corrupt { .. }), _) => {
                part.discard();
                return Err(error);
            }
            (Err(error), _) => {
                part.leave();
                return Err(error);
            }
        };
    }
    part.leave();
    Err(failure)
}

/// Where a download stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Waiting for the server's `Start`.
    Asked,
    /// The file's bytes come.
    Receiving { size: u64 },
    /// All of it is here, and right.
    Verified { at: Time, size: u64 },
}

struct Download<'a> {
    options: &'a GetOptions,
    /// What this end sends, a request and heartbeats, is nothing to be clever about.
    net: Loop<NewReno>,
    host: HostId,
    id: ConnectionId,
    server: SocketAddr,
    request: Request,
    part: &'a mut Part,
    progress: &'a Progress,
    stage: Stage,
    /// Read from the stream and not yet understood.
    unread: Vec<u8>,
    began: Time,
    next_heartbeat: Time,
    handshake: Option<Duration>,
    resumed_from: u64,
    controller: String,
    rtt: (Duration, Duration),
    loss: f64,
}

impl<'a> Download<'a> {
    fn begin(
        options: &'a GetOptions,
        server: SocketAddr,
        name: &str,
        part: &'a mut Part,
        progress: &'a Progress,
    ) -> Result<Self, NetError> {
        let make = || NewReno::new(&OwnConfig::default(), Stream::from_seed(fresh_seed()));
        let endpoint = Endpoint::new(EndpointConfig::default(), make, unforeseeable());
        let socket = Socket::connect(server).map_err(|reason| NetError::reach(server, reason))?;
        let limits = Limits { patience: options.patience, ..Limits::default() };
        let mut net = Loop::new(options.transport.packet.as_u64() as usize)?;
        let began = net.now();
        let mut host = Host::new(endpoint, socket, limits);
        let id = host.open(began, server, &options.transport).ok_or(NetError::NoAnswer(server))?;
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
            stage: Stage::Asked,
            unread: Vec::new(),
            began,
            next_heartbeat: Time::MAX,
            handshake: None,
            resumed_from: 0,
            controller: String::new(),
            rtt: (Duration::ZERO, Duration::ZERO),
            loss: 0.0,
        })
    }

    /// Runs until the file is here and right.
    fn run(&mut self) -> Result<(), NetError> {
        let result = self.receive();
        if result.is_err() {
            let now = self.net.now();
            if let Some(host) = self.net.host_mut(self.host) {
                host.abort(now, self.id);
            }
            self.net.turn(now)?; // tells the server
        }
        result
    }

    fn receive(&mut self) -> Result<(), NetError> {
        loop {
            let now = self.net.now();
            let until = self.next_heartbeat.min(now + Duration::from_millis(100));
            self.net.turn(until)?;
            while let Some((_, event)) = self.net.poll_event() {
                self.on_event(event)?;
            }
            self.look();
            if let Stage::Verified { at, .. } = self.stage {
                let connection = self.net.host(self.host).and_then(|host| host.endpoint().connection(self.id));
                let parted = connection.is_none_or(|connection| connection.state() == State::Lingering);
                if parted || self.net.now().since(at) >= FAREWELL {
                    return Ok(());
                }
            }
            if self.options.stop.load(Ordering::Relaxed) && !matches!(self.stage, Stage::Verified { .. }) {
                return Err(NetError::Interrupted { got: self.part.len, size: self.size(), kept: self.part.is_kept() });
            }
            if self.next_heartbeat <= self.net.now() {
                self.beat();
            }
        }
    }

    /// Shows how it goes.
    fn look(&mut self) {
        let Some(host) = self.net.host(self.host) else { return };
        let Some(connection) = host.endpoint().connection(self.id) else { return };
        let statistics = connection.statistics();
        self.rtt = (statistics.min_rtt, statistics.smoothed_rtt);
        let arrivals = host.arrivals(self.id);
        self.loss = loss(arrivals);
        self.progress.show(self.part.len, statistics.smoothed_rtt, arrivals);
    }

    fn beat(&mut self) {
        let now = self.net.now();
        self.next_heartbeat = now + HEARTBEAT_EVERY;
        if let Some(host) = self.net.host_mut(self.host) {
            host.write(now, self.id, &[HEARTBEAT]);
        }
    }

    fn size(&self) -> Option<u64> {
        match self.stage {
            Stage::Asked => None,
            Stage::Receiving { size } | Stage::Verified { size, .. } => Some(size),
        }
    }

    fn on_event(&mut self, event: Event) -> Result<(), NetError> {
        let now = self.net.now();
        match event {
            Event::Opened(_, rtt) => {
                self.handshake = Some(rtt);
                self.next_heartbeat = now + HEARTBEAT_EVERY;
                if let Some(host) = self.net.host_mut(self.host) {
                    host.write(now, self.id, &self.request.encode());
                }
                Ok(())
            }
            Event::Readable(_) => self.read(now),
            Event::Closed(_, ended, _) => self.on_closed(ended),
            // Once the server has answered, trouble on the way may pass; its silence ends the download if it does not.
            Event::Trouble(error) if self.handshake.is_none() => Err(NetError::reach(self.server, error)),
            // A client sends next to nothing: whatever hinders its controller hinders no download.
            Event::Accepted(..)
            | Event::Datagram(..)
            | Event::Writable(_)
            | Event::Trouble(_)
            | Event::Hindered(..) => Ok(()),
        }
    }

    fn on_closed(&self, ended: Ended) -> Result<(), NetError> {
        let (address, got, size, kept) = (self.server, self.part.len, self.size(), self.part.is_kept());
        match (self.stage, ended) {
            (Stage::Verified { .. }, _) => Ok(()),
            _ if self.handshake.is_none() => Err(NetError::NoAnswer(address)),
            (_, Ended::Vanished) => Err(NetError::Vanished { address, got, size, kept }),
            _ => Err(NetError::BrokenOff { address, got, size, kept }),
        }
    }

    fn read(&mut self, now: Time) -> Result<(), NetError> {
        let Some(host) = self.net.host_mut(self.host) else { return Ok(()) };
        host.read(now, self.id, &mut self.unread);
        let over = host.is_read(self.id);
        let unread = std::mem::take(&mut self.unread);
        let used = self.understand(now, &unread)?;
        self.unread = unread;
        self.unread.drain(..used);
        if over && !matches!(self.stage, Stage::Verified { .. }) {
            return Err(NetError::BadAnswer(self.server)); // it ended its stream before its last word
        }
        Ok(())
    }

    /// Goes through what has come; says how much of it was understood.
    fn understand(&mut self, now: Time, bytes: &[u8]) -> Result<usize, NetError> {
        let mut used = 0;
        while used < bytes.len() {
            let rest = &bytes[used..];
            let left = self.size().map_or(0, |size| size - self.part.len);
            if left > 0 {
                let len = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                self.part.append(&rest[..len])?;
                used += len;
                continue;
            }
            let answer = Answer::parse(rest).map_err(|Nonsense| NetError::BadAnswer(self.server))?;
            let Some((answer, len)) = answer else { break };
            self.on_answer(now, answer)?;
            used += len;
        }
        Ok(used)
    }

    fn on_answer(&mut self, now: Time, answer: Answer) -> Result<(), NetError> {
        match (self.stage, answer) {
            (Stage::Asked, Answer::Checking) => Ok(()),
            (Stage::Asked, Answer::Start { size, offset, controller }) => {
                if self.request.controller.as_ref().is_some_and(|wish| *wish != controller) {
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
                    return Err(NetError::Corrupt { name: self.request.name.clone(), kept: self.part.is_kept() });
                }
                self.stage = Stage::Verified { at: now, size };
                self.next_heartbeat = Time::MAX;
                if let Some(host) = self.net.host_mut(self.host) {
                    host.finish(now, self.id);
                }
                Ok(())
            }
            (Stage::Asked | Stage::Receiving { .. }, Answer::Refused(reason)) => {
                let wish = self.request.controller.as_ref();
                let refused = match reason {
                    Refusal::NoSuchController | Refusal::NotLent => wish.unwrap_or(&self.request.name),
                    _ => &self.request.name,
                };
                Err(NetError::Refused { address: self.server, name: refused.clone(), reason })
            }
            _ => Err(NetError::BadAnswer(self.server)),
        }
    }

    /// What there is to report; all but the path.
    fn result(&self, server: SocketAddr, name: &str) -> GetReport {
        let end = if let Stage::Verified { at, .. } = self.stage { at } else { self.net.now() };
        let seconds = end.since(self.began).as_secs_f64();
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
