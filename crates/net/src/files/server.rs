//! Serves the regular files below a directory, to many clients at once, from one thread.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rampmeter_control::{AnyController, Registry};
use rampmeter_transport::{Address, Config, Connection, ConnectionId, Endpoint, EndpointConfig, Statistics};
use rampmeter_units::{Bytes, Duration, Stream, Time};
use serde::Serialize;

use super::directory::Directory;
use super::error::NetError;
use super::lending::Lender;
use super::protocol::{MOST_REQUEST, Refusal};
use super::transfer::{Next, PIECE, Transfer};
use super::{DEFAULT_PORT, default_transport, fresh_seed, unforeseeable};
use crate::driver::{HostId, Loop};
use crate::history::HistoryFile;
use crate::host::{Ended, Event, Host, Limits};
use crate::socket::Socket;

/// Is shown every transfer that is over.
pub type Observer = Box<dyn FnMut(&Served) + Send>;

/// Is told to whom a controller, by its name, can't send as it should, and why
/// ([`hindrance`](rampmeter_control::Controller::hindrance)).
pub type Warner = Box<dyn FnMut(SocketAddr, &str, &str) + Send>;

/// How to serve.
pub struct ServeOptions {
    /// Whose regular files are served.
    pub directory: PathBuf,
    /// Where to listen: this machine only, unless told otherwise.
    pub address: SocketAddr,
    /// The controller that decides how fast files leave for clients that name no other.
    pub controller: String,
    /// Its settings.
    pub settings: toml::Table,
    /// The controllers there are.
    pub registry: Registry,
    /// How connections behave. Their receive window is set by what a request needs.
    pub transport: Config,
    /// Clients at once; more are told to come back later.
    pub most_clients: usize,
    /// What one client may hold, and how long it may be silent.
    pub limits: Limits,
    /// How long a client may take nothing, or keep its request to itself, though it is alive.
    pub most_idle: Duration,
    /// Called with every transfer that is over.
    pub observe: Option<Observer>,
    /// Called once for each client whose path hinders the controller, and each reason.
    pub warn: Option<Warner>,
    /// Where to keep what is learnt of clients' paths; nowhere if `None`.
    pub history: Option<PathBuf>,
    /// Stops the server when raised.
    pub stop: Arc<AtomicBool>,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            directory: PathBuf::from("."),
            address: (Ipv4Addr::LOCALHOST, DEFAULT_PORT).into(),
            controller: "newreno".into(),
            settings: toml::Table::new(),
            registry: Registry::default(),
            transport: default_transport(),
            most_clients: 64,
            limits: Limits::default(),
            most_idle: Duration::from_secs(60),
            observe: None,
            warn: None,
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
            .finish_non_exhaustive()
    }
}

/// A transfer that is over, as the server saw it.
#[derive(Debug, Clone, Serialize)]
pub struct Served {
    /// To whom.
    pub peer: SocketAddr,
    /// What was asked for; empty if nothing was. Comes from a stranger: escape it before a terminal sees it.
    pub name: String,
    /// The controller it was sent under.
    pub controller: String,
    /// Bytes of the file that were sent.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
    /// `finished`, `refused`, `vanished`, `reset` or `aborted`.
    pub ended: &'static str,
    /// Why it was refused, if it was.
    pub refusal: Option<String>,
    /// Smoothed round-trip time at the end.
    pub rtt_s: f64,
    /// Packets with payload that left.
    pub packets: u64,
    /// Retransmissions among them.
    pub retransmitted: u64,
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    options: ServeOptions,
    directory: Directory,
    lender: Lender,
    net: Loop<AnyController>,
    host: HostId,
    address: SocketAddr,
    clients: BTreeMap<ConnectionId, Client>,
    histories: Option<HistoryFile>,
    put_aside: Option<PathBuf>,
    /// Where pieces of files pass through.
    piece: Box<[u8]>,
}

#[derive(Debug)]
struct Client {
    peer: SocketAddr,
    transfer: Transfer,
    since: Time,
    /// There is work to do for it.
    busy: bool,
    /// When it last took bytes, and how many it had taken then.
    moved: (Time, u64),
}

/// Serves until `options.stop` is raised.
pub fn serve(options: ServeOptions) -> Result<(), NetError> {
    Server::bind(options)?.run()
}

impl Server {
    /// Listens.
    pub fn bind(options: ServeOptions) -> Result<Self, NetError> {
        let directory = Directory::open(&options.directory)
            .map_err(|reason| NetError::BadDirectory { path: options.directory.clone(), reason })?;
        options.transport.check().map_err(NetError::BadOption)?;
        let factory = options.registry.factory(&options.controller, &options.settings)?;
        let packet = options.transport.packet;
        let receive_window = packet.max(Bytes::new(MOST_REQUEST as u64 * 2));
        let config = EndpointConfig {
            accept: Some(Config { receive_window, ..options.transport.clone() }),
            // Some more than are served, to tell the others why.
            most_connections: options.most_clients * 2 + 16,
            most_half_open: options.most_clients + 16,
            ..EndpointConfig::default()
        };
        let mut seeds = Stream::from_seed(fresh_seed());
        let lender = Lender::new(&options.controller, &options.registry, Stream::from_seed(fresh_seed()));
        let make = move || factory(Stream::from_seed(seeds.below(u64::MAX)));
        let mut endpoint = Endpoint::new(config, make, unforeseeable());
        let mut put_aside = None;
        let mut recall = |path: &PathBuf| {
            let (file, remembered) = HistoryFile::open(path)?;
            remembered.histories.into_iter().for_each(|(whose, history)| endpoint.recall(whose, history));
            put_aside = remembered.put_aside;
            Ok::<_, NetError>(file)
        };
        let histories = options.history.as_ref().map(&mut recall).transpose()?;

        let refused = |reason| NetError::listen(options.address, reason);
        let socket = Socket::bind(options.address).map_err(refused)?;
        let address = socket.local_address().map_err(refused)?;
        let mut net = Loop::new(packet.as_u64() as usize)?;
        let host = net.add(Host::new(endpoint, socket, options.limits))?;
        let piece = vec![0; PIECE].into_boxed_slice();
        Ok(Self {
            options,
            directory,
            lender,
            net,
            host,
            address,
            clients: BTreeMap::new(),
            histories,
            put_aside,
            piece,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where a damaged file of histories was put, if it was.
    pub fn put_aside(&self) -> Option<&Path> {
        self.put_aside.as_deref()
    }

    /// Serves until told to stop.
    pub fn run(mut self) -> Result<(), NetError> {
        let mut next_sweep = self.net.now();
        while !self.options.stop.load(Ordering::Relaxed) {
            let now = self.net.now();
            let busy = self.clients.values().any(|client| client.busy);
            self.net.turn(if busy { now } else { now + Duration::from_millis(100) })?;
            self.on_events();
            self.go_on();
            let now = self.net.now();
            if next_sweep <= now {
                next_sweep = now + Duration::from_secs(1);
                self.sweep(now);
            }
        }
        let now = self.net.now();
        for &id in self.clients.keys() {
            if let Some(host) = self.net.host_mut(self.host) {
                host.abort(now, id);
            }
        }
        self.net.turn(now)?; // tells them
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
            Event::Accepted(id, _) => self.admit(now, id),
            Event::Readable(id) => {
                let (Some(client), Some(host)) = (self.clients.get_mut(&id), self.net.host_mut(self.host)) else {
                    return;
                };
                client.transfer.on_readable(now, host, id, &self.directory, &mut self.lender);
                client.busy = true;
            }
            Event::Writable(id) => {
                if let Some(client) = self.clients.get_mut(&id) {
                    client.busy = true;
                }
            }
            Event::Hindered(id, why) => {
                if let (Some(client), Some(warn)) = (self.clients.get(&id), &mut self.options.warn) {
                    warn(client.peer, &client.transfer.controller, why);
                }
            }
            Event::Closed(id, ended, statistics) => {
                if let Some(client) = self.clients.remove(&id) {
                    self.keep_history(client.peer);
                    self.report(now, &client, ended, &statistics);
                }
            }
            // A client that can't be reached any more falls silent.
            Event::Opened(..) | Event::Datagram(..) | Event::Trouble(_) => {}
        }
    }

    fn admit(&mut self, now: Time, id: ConnectionId) {
        let Some(host) = self.net.host_mut(self.host) else { return };
        let Some(peer) = host.peer(id) else { return };
        let mut transfer = Transfer::new(self.lender.own());
        if self.clients.len() >= self.options.most_clients {
            transfer.refuse(now, host, id, Refusal::Busy);
        }
        self.clients.insert(id, Client { peer, transfer, since: now, busy: false, moved: (now, 0) });
    }

    /// Does a piece of work for each client that has some.
    fn go_on(&mut self) {
        for (&id, client) in self.clients.iter_mut().filter(|(_, client)| client.busy) {
            let now = self.net.now();
            let Some(host) = self.net.host_mut(self.host) else { return };
            match client.transfer.go_on(now, host, id, &mut self.piece) {
                Next::More => {}
                Next::Wait => client.busy = false,
                Next::Broken => {
                    client.busy = false;
                    host.abort(now, id);
                }
            }
        }
    }

    /// Breaks off with clients that are alive and take nothing.
    fn sweep(&mut self, now: Time) {
        for (&id, client) in &mut self.clients {
            let Some(host) = self.net.host_mut(self.host) else { return };
            let taken = host.endpoint().connection(id).map_or(0, Connection::acknowledged);
            if taken > client.moved.1 || client.busy {
                client.moved = (now, taken);
            }
            let patience = if client.transfer.is_asking() {
                self.options.limits.patience.min(self.options.most_idle)
            } else {
                self.options.most_idle
            };
            if now.since(client.moved.0) >= patience {
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

    fn report(&mut self, now: Time, client: &Client, ended: Ended, statistics: &Statistics) {
        let Some(observe) = &mut self.options.observe else { return };
        let ended = match ended {
            _ if client.transfer.refused.is_some() => "refused",
            Ended::Finished => "finished",
            Ended::Vanished => "vanished",
            Ended::Reset => "reset",
            Ended::Aborted => "aborted",
        };
        observe(&Served {
            peer: client.peer,
            name: client.transfer.name.clone(),
            controller: client.transfer.controller.clone(),
            bytes: client.transfer.sent,
            seconds: statistics.delivered_at.unwrap_or(now).since(client.since).as_secs_f64(),
            ended,
            refusal: client.transfer.refused.map(|refusal| refusal.to_string()),
            rtt_s: statistics.smoothed_rtt.as_secs_f64(),
            packets: statistics.data_packets,
            retransmitted: statistics.retransmitted,
        });
    }
}
