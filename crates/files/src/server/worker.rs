//! One thread of a server: a host, and the connections of its sessions.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rampmeter_control::{AnyController, History};
use rampmeter_manager::Destination;
use rampmeter_net::{
    Clock, ControllerPolicy, EndReason, Event, EventLoop, Host, HostId, MakeController, Socket, contact, fresh_seed,
    max_datagram, os_random, set_min_timer_slack,
};
use rampmeter_session::{Member, Name, PublicKey, Purpose, SessionId, Sessions};
use rampmeter_transport::{Address, Config, Connection, ConnectionId, Endpoint, EndpointConfig, Statistics};
use rampmeter_units::{Duration, Random, Time};

use super::common::Common;
use super::lane::{Context, Lane, Next, REQUEST_WINDOW, Stage};
use super::options::TransferReport;
use super::shared::Shared;
use crate::SERVICE;
use crate::error::NetError;
use crate::pool::Pool;

/// Threads that read files for a thread of the network.
const DISK_THREADS: usize = 4;

/// The time that a refused client has to read the reason.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(2);

/// One thread of a server.
#[derive(Debug)]
pub(super) struct Worker {
    number: usize,
    common: Arc<Common>,
    net: EventLoop<AnyController>,
    host: HostId,
    clients: BTreeMap<ConnectionId, Client>,
    shared: Shared,
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

/// Ends all threads when one of them ends, in whatever way.
struct EndAll<'a>(&'a Common);

impl Drop for EndAll<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Worker {
    /// A thread of the server with this number. All threads have the same `clock`.
    pub(super) fn new(
        number: usize,
        common: Arc<Common>,
        clock: Clock,
        socket: Socket,
        member: Member,
        make: &MakeController,
        histories: &[(Destination, History)],
    ) -> Result<Self, NetError> {
        let options = &common.options;
        let random = Random::from_seed(fresh_seed());
        let policy = ControllerPolicy::new(&options.controller, Arc::clone(make), &options.registry, random);
        let mut net = EventLoop::with_clock(clock, max_datagram(&options.transport))?;
        let host = new_host(&common, socket, member, make, histories);
        let host = net.add(host)?;
        let alarm = net.alarm()?;
        let pool = Pool::new(DISK_THREADS, &alarm)?;
        common.admission.set_alarm(number, alarm);
        let shared = Shared::new(Arc::clone(&common), pool, policy);
        Ok(Self { number, common, net, host, clients: BTreeMap::new(), shared })
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Serves until the server ends.
    pub(super) fn run(mut self) -> Result<(), NetError> {
        let common = Arc::clone(&self.common);
        let _end = EndAll(&common);
        set_min_timer_slack();
        let mut next_sweep = self.net.now();
        while !common.is_ending() {
            let now = self.net.now();
            let due = self.clients.values().map(|client| client.due).min().unwrap_or(Time::MAX);
            self.net.run_once(due.min(now + Duration::from_millis(100)))?;
            self.on_events();
            self.on_outcomes();
            self.advance();
            // Last: a request that has just been read needs a place, and may get it before the next event.
            self.exchange_places();
            let now = self.net.now();
            if next_sweep <= now {
                next_sweep = now + Duration::from_secs(1);
                self.abort_idle_clients(now);
                self.shared.pool.help_stalled();
                if let Some(host) = self.net.host_mut(self.host) {
                    host.check_clients(now);
                }
                if let (Some(monitor), Some(host)) = (&common.options.monitor, self.net.host(self.host)) {
                    monitor.publish_of(self.number, host.status(now, AnyController::name));
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
                if let (Some(client), Some(on_degraded)) = (self.clients.get(&id), &self.common.options.on_degraded) {
                    on_degraded(client.peer, &client.lane.controller, reason);
                }
            }
            Event::Closed(id, ended, statistics) => {
                if let Some(client) = self.clients.remove(&id) {
                    self.remove_client(now, id, client, ended, &statistics);
                }
            }
            Event::Moved(session) => {
                if let Some(host) = self.net.host_mut(self.host) {
                    self.shared.on_moved(now, host, session);
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
        let (Some(peer), Some(session)) = (host.peer(id), host.session(id)) else { return };
        if self.common.is_draining() || !self.common.admission.open(peer.ip()) {
            host.abort(now, id);
            return;
        }
        let key = host.peer_key(id);
        let controller = self.shared.join(now, host, session, id);
        let lane = Lane::new(peer.ip(), &controller);
        let client =
            Client { peer, session, key, lane, started_at: now, due: now, is_queued: false, progress: (now, 0) };
        self.common.connections.fetch_add(1, Ordering::Relaxed);
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
        self.common.connections.fetch_sub(1, Ordering::Relaxed);
        self.common.admission.close(self.number, id, client.peer.ip(), client.lane.has_place);
        self.common.memory().give_back(client.peer.ip(), client.lane.more_to_send);
        client.lane.end_hashing(&self.common);
        self.shared.leave(client.session, id);
        self.keep_history(client.peer);
        self.report(now, &client, ended, statistics);
    }

    fn on_outcomes(&mut self) {
        while let Some((id, outcome)) = self.shared.pool.poll() {
            let now = self.net.now();
            let (Some(client), Some(host)) = (self.clients.get_mut(&id), self.net.host_mut(self.host)) else {
                continue; // the connection ended in the meantime
            };
            let mut cx = Context { now, host, id, shared: &mut self.shared };
            client.due = now;
            if client.lane.on_outcome(&mut cx, outcome) == Next::Failed {
                cx.host.abort(now, id);
            }
        }
    }

    /// Queues connections with requests for places, and gives back the places of those that have all they asked for.
    fn exchange_places(&mut self) {
        let is_new = |client: &Client| !client.is_queued && client.lane.waits_for_place();
        if !self.common.admission.is_pending() && !self.clients.values().any(is_new) {
            return;
        }
        let now = self.net.now();
        let Some(host) = self.net.host(self.host) else { return };
        let (mut waiting, mut given_up) = (Vec::new(), Vec::new());
        for (&id, client) in &mut self.clients {
            if is_new(client) {
                client.is_queued = true;
                waiting.push((id, client.peer.ip()));
            }
            let acknowledged = host.endpoint().connection(id).map_or(u64::MAX, Connection::acknowledged);
            let needs_place = client.lane.is_busy(acknowledged) || !client.lane.input.is_empty();
            if client.lane.has_place && !needs_place {
                client.lane.has_place = false;
                given_up.push(client.peer.ip());
            }
        }
        for id in self.common.admission.exchange(self.number, &waiting, &given_up) {
            if let Some(client) = self.clients.get_mut(&id) {
                client.lane.has_place = true;
                client.is_queued = false;
                client.due = now;
            }
        }
    }

    /// Does a piece of work for each client that has work.
    fn advance(&mut self) {
        self.shared.begin_turn();
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
        let options = &self.common.options;
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
                Stage::Greeting => options.limits.peer_timeout.min(options.max_idle),
                Stage::Ended if lane.done.refused > 0 => REFUSED_TIMEOUT,
                _ => options.max_idle,
            };
            if now.since(client.progress.0) >= max {
                host.abort(now, id);
            }
        }
    }

    fn keep_history(&self, peer: SocketAddr) {
        let destination = peer.destination();
        let learnt = self.net.host(self.host).and_then(|host| host.endpoint().manager().history(destination));
        if let (Some(file), Some(history)) = (&self.common.histories, learnt) {
            file.keep(destination, history);
        }
    }

    fn report(&self, now: Time, client: &Client, ended: EndReason, statistics: &Statistics) {
        let Some(on_transfer) = &self.common.options.on_transfer else { return };
        let done = &client.lane.done;
        let ended = match ended {
            _ if done.refusal.is_some() && done.files == 0 => "refused",
            EndReason::Finished => "finished",
            EndReason::PeerTimeout => "timed_out",
            EndReason::Reset => "reset",
            EndReason::Aborted => "aborted",
            EndReason::FalseFeedback => "false_feedback",
        };
        let (refused_name, refusal) = done.refusal.clone().unzip();
        on_transfer(&TransferReport {
            peer: client.peer,
            key: client.key.map(|key| key.to_string()).unwrap_or_default(),
            client: client.key.map(|key| self.common.options.clients.label(key)).unwrap_or_default(),
            name: done.name.clone(),
            files: done.files,
            controller: client.lane.controller.clone(),
            bytes: done.sent,
            seconds: statistics.delivered_at.unwrap_or(now).since(client.started_at).as_secs_f64(),
            ended,
            refused: done.refused,
            refused_name,
            refusal: refusal.map(|refusal| refusal.to_string()),
            rtt_s: statistics.smoothed_rtt.as_secs_f64(),
            packets: statistics.data_packets,
            retransmitted: statistics.retransmitted,
        });
    }
}

/// The host of a thread.
fn new_host(
    common: &Common,
    socket: Socket,
    member: Member,
    make: &MakeController,
    histories: &[(Destination, History)],
) -> Host<AnyController> {
    let options = &common.options;
    // Half-open sessions and connections are limited for each thread, so that a flood at one thread leaves the others
    // theirs; all other limits are those of the server.
    let max_half_open = options.max_clients + 16;
    let config = EndpointConfig {
        accept: Some(Config {
            receive_window: REQUEST_WINDOW.max(options.transport.packet),
            ..options.transport.clone()
        }),
        max_connections: options.max_connections(),
        max_half_open,
        ..EndpointConfig::default()
    };
    let (make, mut seeds) = (Arc::clone(make), Random::from_seed(fresh_seed()));
    let mut endpoint = Endpoint::new(config, move || make(Random::from_seed(seeds.below(u64::MAX))), os_random());
    for &(destination, history) in histories {
        endpoint.import_history(destination, history);
    }
    let sessions = rampmeter_session::Config {
        clients: options.clients.clients(),
        names: contact::names(&options.names),
        port: socket.local_address().map_or(0, |address| address.port()),
        // A client may open another session before its last one is discarded.
        max_sessions: options.max_clients * 8 + 64 + (member.members() - 1) * max_half_open,
        max_half_open,
        ..rampmeter_session::Config::client(options.identity.clone(), Purpose { service: SERVICE, name: Name::new("") })
    };
    let mut host = Host::new(endpoint, Sessions::of_member(member, sessions, os_random()), socket, options.limits);
    host.serve_clients(options.clients.clone());
    host
}
