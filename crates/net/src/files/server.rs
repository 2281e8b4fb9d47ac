//! The server: serves the regular files below a directory to many clients, in one thread.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rampmeter_control::{AnyController, Registry};
use rampmeter_session::{Clients, KeyPair, PublicKey, Sessions, Suite};
use rampmeter_transport::{Address, Config, Connection, ConnectionId, Endpoint, EndpointConfig, Statistics};
use rampmeter_units::{Bytes, Duration, Stream, Time};
use serde::Serialize;

use super::controller_policy::ControllerPolicy;
use super::directory::Directory;
use super::error::NetError;
use super::places::has_place;
use super::protocol::{MAX_REQUEST, Refusal};
use super::transfer::{Next, PIECE, Peer, Transfer};
use super::{DEFAULT_PORT, default_transport, fresh_seed, max_datagram, os_random};
use crate::driver::{EventLoop, HostId};
use crate::history::HistoryFile;
use crate::host::{EndReason, Event, Host, Limits};
use crate::socket::Socket;

/// Receives the report of every transfer that has ended.
pub type TransferHandler = Box<dyn FnMut(&TransferReport) + Send>;

/// Receives a client's address, the name of its degraded controller and the reason
/// ([`degraded_reason`](rampmeter_control::Controller::degraded_reason)).
pub type DegradedHandler = Box<dyn FnMut(SocketAddr, &str, &str) + Send>;

/// The options of a server.
pub struct ServeOptions {
    /// The directory whose regular files are served.
    pub directory: PathBuf,
    /// Whether hidden files are served, too.
    pub hidden: bool,
    /// The address to listen on; by default only this machine's.
    pub address: SocketAddr,
    /// The server's key; by default a new one.
    pub identity: KeyPair,
    /// The clients that it serves; by default all.
    pub clients: Clients,
    /// The controller for clients that name no other.
    pub controller: String,
    /// Its settings.
    pub settings: toml::Table,
    /// The available controllers.
    pub registry: Registry,
    /// The transport settings of connections. The receive window is set to the size of a request.
    pub transport: Config,
    /// The maximum number of clients at once; further ones are refused. One IPv4 address, or one IPv6 network of 64
    /// bits, has at most four fifths of these places.
    pub max_clients: usize,
    /// The limits of each client's connection.
    pub limits: Limits,
    /// The time after which a client that responds but takes no bytes, or sends no request, is disconnected.
    pub max_idle: Duration,
    /// Called after every transfer.
    pub on_transfer: Option<TransferHandler>,
    /// Called once for each client and reason for which the controller is degraded.
    pub on_degraded: Option<DegradedHandler>,
    /// The file for the histories of clients' paths; `None` for none.
    pub history: Option<PathBuf>,
    /// Stops the server when set.
    pub stop: Arc<AtomicBool>,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            directory: PathBuf::from("."),
            hidden: false,
            address: (Ipv4Addr::LOCALHOST, DEFAULT_PORT).into(),
            identity: KeyPair::generate(&mut os_random()),
            clients: Clients::Anyone,
            controller: "newreno".into(),
            settings: toml::Table::new(),
            registry: Registry::default(),
            transport: default_transport(),
            max_clients: 256,
            limits: Limits::default(),
            max_idle: Duration::from_secs(60),
            on_transfer: None,
            on_degraded: None,
            history: None,
            stop: Arc::default(),
        }
    }
}

impl fmt::Debug for ServeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServeOptions")
            .field("directory", &self.directory)
            .field("address", &self.address)
            .field("controller", &self.controller)
            .field("key", &self.identity.public())
            .finish_non_exhaustive()
    }
}

/// The server's report of a transfer that has ended.
#[derive(Debug, Clone, Serialize)]
pub struct TransferReport {
    /// The client's address.
    pub peer: SocketAddr,
    /// The client's public key.
    pub key: String,
    /// The requested name; empty without a request. It comes from the network: escape it before printing it to a
    /// terminal.
    pub name: String,
    /// The controller that sent the file.
    pub controller: String,
    /// Bytes of the file that were sent.
    pub bytes: u64,
    /// The duration of the transfer.
    pub seconds: f64,
    /// `finished`, `refused`, `timed_out`, `reset`, `aborted` or `false_feedback`.
    pub ended: &'static str,
    /// The reason of a refusal.
    pub refusal: Option<String>,
    /// The smoothed round-trip time at the end.
    pub rtt_s: f64,
    /// Packets with payload sent.
    pub packets: u64,
    /// Retransmissions among them.
    pub retransmitted: u64,
}

/// A server bound to its address.
#[derive(Debug)]
pub struct Server {
    options: ServeOptions,
    directory: Directory,
    policy: ControllerPolicy,
    net: EventLoop<AnyController>,
    host: HostId,
    address: SocketAddr,
    clients: BTreeMap<ConnectionId, Client>,
    histories: Option<HistoryFile>,
    renamed_history: Option<PathBuf>,
    /// The buffer for pieces of files.
    piece: Box<[u8]>,
}

#[derive(Debug)]
struct Client {
    peer: SocketAddr,
    key: Option<PublicKey>,
    transfer: Transfer,
    started_at: Time,
    /// Whether the transfer has work to do.
    has_work: bool,
    /// The time of the last progress, and the bytes acknowledged by then.
    progress: (Time, u64),
}

/// Serves until `options.stop` is set.
pub fn serve(options: ServeOptions) -> Result<(), NetError> {
    Server::bind(options)?.run()
}

impl Server {
    /// Binds the server to its address.
    pub fn bind(options: ServeOptions) -> Result<Self, NetError> {
        let directory = Directory::open(&options.directory, options.hidden)
            .map_err(|reason| NetError::BadDirectory(options.directory.clone(), reason))?;
        options.transport.check().map_err(NetError::BadOption)?;
        let factory = options.registry.factory(&options.controller, &options.settings)?;
        let packet = options.transport.packet;
        let receive_window = packet.max(Bytes::new(MAX_REQUEST as u64 * 2));
        let config = EndpointConfig {
            accept: Some(Config { receive_window, ..options.transport.clone() }),
            // More connections than clients, so that the others receive the reason of their refusal.
            max_connections: options.max_clients * 2 + 16,
            max_half_open: options.max_clients + 16,
            ..EndpointConfig::default()
        };
        let mut seeds = Stream::from_seed(fresh_seed());
        let policy = ControllerPolicy::new(&options.controller, &options.registry, Stream::from_seed(fresh_seed()));
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
        let piece = vec![0; PIECE].into_boxed_slice();
        Ok(Self {
            options,
            directory,
            policy,
            net,
            host,
            address,
            clients: BTreeMap::new(),
            histories,
            renamed_history,
            piece,
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
            let has_work = self.clients.values().any(|client| client.has_work);
            self.net.run_once(if has_work { now } else { now + Duration::from_millis(100) })?;
            self.on_events();
            self.advance();
            let now = self.net.now();
            if next_sweep <= now {
                next_sweep = now + Duration::from_secs(1);
                self.abort_idle_clients(now);
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
            Event::Readable(id) => {
                let (Some(client), Some(host)) = (self.clients.get_mut(&id), self.net.host_mut(self.host)) else {
                    return;
                };
                client.transfer.on_readable(&mut Peer { now, host, id }, &self.directory, &mut self.policy);
                client.has_work = true;
            }
            Event::Writable(id) => {
                if let Some(client) = self.clients.get_mut(&id) {
                    client.has_work = true;
                }
            }
            Event::Degraded(id, reason) => {
                if let (Some(client), Some(on_degraded)) = (self.clients.get(&id), &mut self.options.on_degraded) {
                    on_degraded(client.peer, &client.transfer.controller, reason);
                }
            }
            Event::Closed(id, ended, statistics) => {
                if let Some(client) = self.clients.remove(&id) {
                    self.keep_history(client.peer);
                    self.report(now, &client, ended, &statistics);
                }
            }
            // A client that cannot be reached any more runs into its timeout.
            Event::Opened(..)
            | Event::Datagram(..)
            | Event::SocketError(_)
            | Event::Key(..)
            | Event::SessionEnded(..) => {}
        }
    }

    fn add_client(&mut self, now: Time, id: ConnectionId) {
        let Some(host) = self.net.host_mut(self.host) else { return };
        let Some(peer) = host.peer(id) else { return };
        let key = host.peer_key(id);
        let mut transfer = Transfer::new(self.policy.own());
        // A client that has its file, or was refused, needs no place any more.
        let is_served = |(id, client): &(&ConnectionId, &Client)| {
            let delivered = host.endpoint().connection(**id).is_none_or(Connection::is_delivered);
            client.transfer.refusal.is_none() && !delivered
        };
        let served = self.clients.iter().filter(is_served).map(|(_, client)| client.peer.ip());
        if !has_place(peer.ip(), self.options.max_clients, served) {
            transfer.refuse(&mut Peer { now, host, id }, Refusal::Busy);
        }
        self.clients.insert(id, Client { peer, key, transfer, started_at: now, has_work: false, progress: (now, 0) });
    }

    /// Does a piece of work for each client that has work.
    fn advance(&mut self) {
        for (&id, client) in self.clients.iter_mut().filter(|(_, client)| client.has_work) {
            let now = self.net.now();
            let Some(host) = self.net.host_mut(self.host) else { return };
            let mut peer = Peer { now, host, id };
            match client.transfer.advance(&mut peer, &mut self.piece) {
                Next::More => {}
                Next::Wait => client.has_work = false,
                Next::Failed => {
                    client.has_work = false;
                    peer.host.abort(now, id);
                }
            }
        }
    }

    /// Aborts connections of clients that respond but make no progress.
    fn abort_idle_clients(&mut self, now: Time) {
        for (&id, client) in &mut self.clients {
            let Some(host) = self.net.host_mut(self.host) else { return };
            let taken = host.endpoint().connection(id).map_or(0, Connection::acknowledged);
            if taken > client.progress.1 || client.has_work {
                client.progress = (now, taken);
            }
            let peer_timeout = if client.transfer.awaits_request() {
                self.options.limits.peer_timeout.min(self.options.max_idle)
            } else {
                self.options.max_idle
            };
            if now.since(client.progress.0) >= peer_timeout {
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
        let ended = match ended {
            _ if client.transfer.refusal.is_some() => "refused",
            EndReason::Finished => "finished",
            EndReason::PeerTimeout => "timed_out",
            EndReason::Reset => "reset",
            EndReason::Aborted => "aborted",
            EndReason::FalseFeedback => "false_feedback",
        };
        on_transfer(&TransferReport {
            peer: client.peer,
            key: client.key.map(|key| key.to_string()).unwrap_or_default(),
            name: client.transfer.name.clone(),
            controller: client.transfer.controller.clone(),
            bytes: client.transfer.sent,
            seconds: statistics.delivered_at.unwrap_or(now).since(client.started_at).as_secs_f64(),
            ended,
            refusal: client.transfer.refusal.map(|refusal| refusal.to_string()),
            rtt_s: statistics.smoothed_rtt.as_secs_f64(),
            packets: statistics.data_packets,
            retransmitted: statistics.retransmitted,
        });
    }
}
