//! The server: serves the regular files below a directory to many clients, in one thread.

mod budget;
mod controller_policy;
mod jobs;
mod lane;
mod options;
mod places;
mod quota;
mod shared;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rampmeter_control::AnyController;
use rampmeter_session::{PublicKey, SessionId, Sessions, Suite};
use rampmeter_transport::{Address, Config, Connection, ConnectionId, Endpoint, EndpointConfig, Statistics};
use rampmeter_units::{Bytes, Duration, Stream, Time};

use self::budget::Budgets;
use self::jobs::Outcome;
use self::lane::{Context, Lane, Next, Stage};
use self::quota::Quota;
use self::shared::Shared;
use super::directory::Directory;
use super::error::NetError;
use super::pool::{Class, Pool};
use super::protocol::Refusal;
use super::sink::Sink;
use super::{fresh_seed, max_datagram, os_random};
use crate::driver::{EventLoop, HostId};
use crate::history::HistoryFile;
use crate::host::{EndReason, Event, Host};
use crate::socket::Socket;

pub(crate) use controller_policy::ControllerPolicy;
pub use options::{DegradedHandler, ServeOptions, TransferHandler, TransferReport, Writers};
pub use places::has_place;

/// Threads that read and write files.
const DISK_THREADS: usize = 4;

/// The window of connections to a server that takes no uploads: some hundred requests.
const REQUEST_WINDOW: Bytes = Bytes::new(64 * 1024);

/// The window of connections that may upload.
const UPLOAD_WINDOW: Bytes = Bytes::new(4 << 20);

/// The time that a refused client has to read the reason.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(2);

/// A server bound to its address.
#[derive(Debug)]
pub struct Server {
    options: ServeOptions,
    net: EventLoop<AnyController>,
    host: HostId,
    address: SocketAddr,
    max_connections: usize,
    clients: BTreeMap<ConnectionId, Client>,
    /// Connections that wait for a place, the longest wait first.
    waiting: VecDeque<ConnectionId>,
    shared: Shared,
    histories: Option<HistoryFile>,
    renamed_history: Option<PathBuf>,
}

/// What a client may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Access {
    write: bool,
    overwrite: bool,
}

#[derive(Debug)]
struct Client {
    peer: SocketAddr,
    session: SessionId,
    key: Option<PublicKey>,
    lane: Lane,
    started_at: Time,
    /// When the lane has work to do: [`Time::MAX`] if it waits for an event.
    due: Time,
    /// Whether it is in the queue for places.
    is_queued: bool,
    /// The time of the last progress, and its measure then.
    progress: (Time, u64),
}

/// Serves until `options.stop` is set.
pub fn serve(options: ServeOptions) -> Result<(), NetError> {
    Server::bind(options)?.run()
}

impl Server {
    /// Binds the server to its address.
    pub fn bind(options: ServeOptions) -> Result<Self, NetError> {
        let bad_directory = |reason| NetError::BadDirectory(options.directory.clone(), reason);
        let directory = Arc::new(Directory::open(&options.directory, options.hidden).map_err(bad_directory)?);
        let (max_size, max_total) = (options.max_size.map(Bytes::as_u64), options.quota.map(Bytes::as_u64));
        let quota = Quota::new(&options.directory, max_size, max_total).map_err(bad_directory)?;
        options.transport.check().map_err(NetError::BadOption)?;
        let factory = options.registry.factory(&options.controller, &options.settings)?;
        let window = if options.writers == Writers::None { REQUEST_WINDOW } else { UPLOAD_WINDOW };
        let max_connections = options.max_clients * 4 + 16;
        let config = EndpointConfig {
            accept: Some(Config { receive_window: window.max(options.transport.packet), ..options.transport.clone() }),
            max_connections,
            max_half_open: options.max_clients + 16,
            ..EndpointConfig::default()
        };
        let mut seeds = Stream::from_seed(fresh_seed());
        let random = Stream::from_seed(fresh_seed());
        let policy = ControllerPolicy::new(&options.controller, Arc::clone(&factory), &options.registry, random);
        let make = move || factory(Stream::from_seed(seeds.below(u64::MAX)));
        let mut endpoint = Endpoint::new(config, make, os_random());
        let (mut histories, mut renamed_history) = (None, None);
        if let Some(path) = &options.history {
            let (file, remembered) = HistoryFile::open(path)?;
            for (destination, history) in remembered.histories {
                endpoint.import_history(destination, history);
            }
            (histories, renamed_history) = (Some(file), remembered.renamed);
        }

        let refused = |reason| NetError::listen(options.address, reason);
        let socket = Socket::bind(options.address).map_err(refused)?;
        let address = socket.local_address().map_err(refused)?;
        if let Some(monitor) = &options.monitor {
            monitor.set_address(address);
        }
        let sessions = Sessions::new(
            rampmeter_session::Config {
                own: options.identity.clone(),
                clients: options.clients.clone(),
                suite: Suite::fastest(),
                // A client may open another session before its last one is discarded.
                max_sessions: options.max_clients * 8 + 64,
                max_half_open: options.max_clients + 16,
            },
            os_random(),
        );
        let mut net = EventLoop::new(max_datagram(&options.transport))?;
        let host = net.add(Host::new(endpoint, sessions, socket, options.limits))?;
        let shared = Shared {
            directory,
            lists: options.lists,
            pool: Pool::new(DISK_THREADS, &net.alarm()?)?,
            budgets: Budgets::new(net.now(), options.rate, options.client_rate),
            quota,
            policy,
            macroflows: BTreeMap::new(),
        };
        Ok(Self {
            options,
            net,
            host,
            address,
            max_connections,
            clients: BTreeMap::new(),
            waiting: VecDeque::new(),
            shared,
            histories,
            renamed_history,
        })
    }

    /// The address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The server's public key.
    pub fn key(&self) -> PublicKey {
        self.options.identity.public()
    }

    /// The new path of a damaged history file, if there was one.
    pub fn renamed_history(&self) -> Option<&Path> {
        self.renamed_history.as_deref()
    }

    /// Serves until `options.stop` is set.
    pub fn run(mut self) -> Result<(), NetError> {
        let mut next_sweep = self.net.now();
        while !self.options.stop.load(Ordering::Relaxed) {
            let now = self.net.now();
            let due = self.clients.values().map(|client| client.due).min().unwrap_or(Time::MAX);
            self.net.run_once(due.min(now + Duration::from_millis(100)))?;
            self.on_events();
            self.on_outcomes();
            self.grant_places();
            self.advance();
            let now = self.net.now();
            if next_sweep <= now {
                next_sweep = now + Duration::from_secs(1);
                self.abort_idle_clients(now);
                self.shared.budgets.sweep(now);
                if let (Some(monitor), Some(host)) = (&self.options.monitor, self.net.host(self.host)) {
                    monitor.publish(host.status(now, AnyController::name));
                }
            }
        }
        let now = self.net.now();
        if let Some(host) = self.net.host_mut(self.host) {
            self.clients.keys().for_each(|&id| host.abort(now, id));
            host.disconnect_all(now);
        }
        self.net.run_once(now)?; // notifies the clients
        self.on_events();
        Ok(())
    }

    fn on_events(&mut self) {
        while let Some((_, event)) = self.net.poll_event() {
            self.on_event(&event);
        }
    }

    fn on_event(&mut self, event: &Event) {
        let now = self.net.now();
        match *event {
            Event::Accepted(id, _) => self.add_client(now, id),
            Event::Readable(id) | Event::Writable(id) => {
                if let Some(client) = self.clients.get_mut(&id) {
                    client.due = now;
                }
            }
            Event::Degraded(id, reason) => {
                if let (Some(client), Some(on_degraded)) = (self.clients.get(&id), &mut self.options.on_degraded) {
                    on_degraded(client.peer, &client.lane.controller, reason);
                }
            }
            Event::Closed(id, ended, statistics) => {
                if let Some(client) = self.clients.remove(&id) {
                    self.remove_client(now, id, client, ended, &statistics);
                }
            }
            // A client that cannot be reached any more runs into its timeout.
            Event::Opened(..)
            | Event::Moved(_)
            | Event::Datagram(..)
            | Event::SocketError(_)
            | Event::Key(..)
            | Event::SessionEnded(..) => {}
        }
    }

    fn add_client(&mut self, now: Time, id: ConnectionId) {
        let Some(host) = self.net.host_mut(self.host) else { return };
        let (Some(peer), Some(session)) = (host.peer(id), host.session(id)) else { return };
        let others = self.clients.values().map(|client| client.peer.ip());
        if !has_place(peer.ip(), self.max_connections, others) {
            host.abort(now, id);
            return;
        }
        let key = host.peer_key(id);
        let write = self.options.writers.allow(key);
        let access = Access { write, overwrite: write && self.options.overwrite };
        let controller = self.shared.join(now, host, session, id);
        let lane = Lane::new(peer.ip(), access, &controller);
        let client =
            Client { peer, session, key, lane, started_at: now, due: now, is_queued: false, progress: (now, 0) };
        self.clients.insert(id, client);
    }

    fn remove_client(
        &mut self,
        now: Time,
        id: ConnectionId,
        mut client: Client,
        ended: EndReason,
        statistics: &Statistics,
    ) {
        self.waiting.retain(|&other| other != id);
        self.shared.leave(client.session, id);
        if let Stage::Receiving(upload) = std::mem::replace(&mut client.lane.stage, Stage::Ended) {
            self.close_part(id, upload.into_sink());
        }
        self.keep_history(client.peer);
        self.report(now, &client, ended, statistics);
    }

    /// Closes the part file of an upload that ended early: in a thread, because closing may write.
    fn close_part(&mut self, id: ConnectionId, sink: Option<Sink>) {
        if let Some(sink) = sink {
            self.shared.quota.give_back(sink.missing());
            self.shared.pool.submit(id, Class::Urgent, move || {
                sink.close();
                Outcome::Done(0)
            });
        }
    }

    fn on_outcomes(&mut self) {
        while let Some((id, outcome)) = self.shared.pool.poll() {
            let now = self.net.now();
            let (Some(client), Some(host)) = (self.clients.get_mut(&id), self.net.host_mut(self.host)) else {
                // The connection ended in the meantime.
                match outcome {
                    Outcome::PartOpened(sink, before) => {
                        self.shared.quota.give_back(before);
                        self.close_part(id, Some(sink));
                    }
                    Outcome::Written(sink) => self.close_part(id, Some(sink)),
                    Outcome::Failed(_, bytes) | Outcome::Done(bytes) => self.shared.quota.give_back(bytes),
                    _ => {}
                }
                continue;
            };
            let mut cx = Context { now, host, id, shared: &mut self.shared };
            client.due = now;
            if client.lane.on_outcome(&mut cx, outcome) == Next::Failed {
                cx.host.abort(now, id);
            }
        }
    }

    /// Gives places to connections with requests, those that wait longest first. A client that has all that it asked for
    /// needs no place any more.
    fn grant_places(&mut self) {
        for (&id, client) in &mut self.clients {
            if !client.is_queued && client.lane.waits_for_place() {
                client.is_queued = true;
                self.waiting.push_back(id);
            }
        }
        if self.waiting.is_empty() {
            return;
        }
        let now = self.net.now();
        let Some(host) = self.net.host(self.host) else { return };
        for (id, client) in &mut self.clients {
            let acknowledged = host.endpoint().connection(*id).map_or(u64::MAX, Connection::acknowledged);
            client.lane.has_place &= client.lane.is_busy(acknowledged) || !client.lane.input.is_empty();
        }
        let Self { waiting, clients, options, .. } = self;
        waiting.retain(|id| {
            let Some(waiter) = clients.get(id) else { return false };
            let ip = waiter.peer.ip();
            let served = clients.values().filter(|client| client.lane.has_place).map(|client| client.peer.ip());
            if !has_place(ip, options.max_clients, served) {
                return true;
            }
            if let Some(client) = clients.get_mut(id) {
                client.lane.has_place = true;
                client.is_queued = false;
                client.due = now;
            }
            false
        });
    }

    /// Does a piece of work for each client that has work.
    fn advance(&mut self) {
        let now = self.net.now();
        for (&id, client) in self.clients.iter_mut().filter(|(_, client)| client.due <= now) {
            let now = self.net.now();
            let Some(host) = self.net.host_mut(self.host) else { return };
            let mut cx = Context { now, host, id, shared: &mut self.shared };
            client.due = match client.lane.advance(&mut cx) {
                Next::More => now,
                Next::Wait => Time::MAX,
                Next::WaitUntil(until) => until,
                Next::Failed => {
                    cx.host.abort(now, id);
                    Time::MAX
                }
            };
        }
    }

    /// Aborts connections of clients that respond but make no progress.
    fn abort_idle_clients(&mut self, now: Time) {
        for (&id, client) in &mut self.clients {
            let Some(host) = self.net.host_mut(self.host) else { return };
            let taken = host.endpoint().connection(id).map_or(0, Connection::acknowledged);
            let lane = &client.lane;
            let progress = taken + lane.handled;
            // A client that waits for this host makes no progress, which is not its fault.
            let waits_for_host = lane.has_job || client.is_queued || client.due < Time::MAX;
            if progress > client.progress.1 || waits_for_host {
                client.progress = (now, progress);
            }
            let max = match lane.stage {
                Stage::Greeting => self.options.limits.peer_timeout.min(self.options.max_idle),
                Stage::Ended if lane.done.refused > 0 => REFUSED_TIMEOUT,
                _ => self.options.max_idle,
            };
            if now.since(client.progress.0) >= max {
                host.abort(now, id);
            }
        }
    }

    fn keep_history(&self, peer: SocketAddr) {
        let destination = peer.destination();
        let learnt = self.net.host(self.host).and_then(|host| host.endpoint().manager().history(destination));
        if let (Some(file), Some(history)) = (&self.histories, learnt) {
            file.keep(destination, history);
        }
    }

    fn report(&mut self, now: Time, client: &Client, ended: EndReason, statistics: &Statistics) {
        let Some(on_transfer) = &mut self.options.on_transfer else { return };
        let done = &client.lane.done;
        let ended = match ended {
            _ if done.refusal.is_some() && done.files == 0 => "refused",
            EndReason::Finished => "finished",
            EndReason::PeerTimeout => "timed_out",
            EndReason::Reset => "reset",
            EndReason::Aborted => "aborted",
            EndReason::FalseFeedback => "false_feedback",
        };
        on_transfer(&TransferReport {
            peer: client.peer,
            key: client.key.map(|key| key.to_string()).unwrap_or_default(),
            name: done.name.clone(),
            files: done.files,
            controller: client.lane.controller.clone(),
            bytes: done.sent + done.received,
            seconds: statistics.delivered_at.unwrap_or(now).since(client.started_at).as_secs_f64(),
            ended,
            refused: done.refused,
            refusal: done.refusal.map(|refusal| refusal.to_string()),
            rtt_s: statistics.smoothed_rtt.as_secs_f64(),
            packets: statistics.data_packets,
            retransmitted: statistics.retransmitted,
        });
    }
}
