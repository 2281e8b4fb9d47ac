//! Rampmeter's own senders: the endpoints and controllers of the simulator, on UDP sockets of the two hosts, all on one
//! thread.
//!
//! As in the simulator there is one endpoint for every pair of node and scheme in the plan. Each has a socket with the
//! address of its node and the port of its scheme. Random streams have the same numbers as in the simulator.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::net::{SocketAddr, UdpSocket};

use rampmeter_control::AnyController;
use rampmeter_manager::{FlowId, Thresholds};
use rampmeter_net::{Event as HostEvent, EventLoop, Host as NetHost, HostId, Limits, Peer, Socket};
use rampmeter_run::{Applications, Event, Host, Name, Opening, Sent};
use rampmeter_scenario::{NodeId, SenderState};
use rampmeter_trace::{self as trace, Trace};
use rampmeter_transport::{ConnectionId, Endpoint};
use rampmeter_units::{Bytes, Time};
use rampmeter_workload::{Carrier, End, Path};

use crate::clock::STOP_CHECK_INTERVAL;
use crate::datagram::OUR_PORTS;
use crate::drive::{Outgoing, Sockets};
use crate::run_state::RunState;

/// The name of a connection among all hosts.
type Connection = (HostId, ConnectionId);

/// A connection's flow, the end of it, and what is to be written.
#[derive(Debug)]
struct Stream {
    flow: u32,
    end: End,
    outgoing: Outgoing,
}

pub(crate) struct Endpoints<'a> {
    run: RunState<'a>,
    wire: EventLoop<AnyController>,
    /// The time of the event loop's clock at time zero of the run.
    zero: Time,
    hosts: BTreeMap<(NodeId, usize), (HostId, SocketAddr)>,
    /// Flows by the addresses and connection identifiers of their senders, until they are accepted.
    by_sender: HashMap<(SocketAddr, ConnectionId), u32>,
    streams: HashMap<Connection, Stream>,
    /// Flows that use their shares, by their identifiers in the managers of their senders.
    by_share: BTreeMap<(HostId, FlowId), u32>,
    /// Flows of datagrams by the addresses and flow numbers of their senders.
    by_datagram: HashMap<(SocketAddr, u32), u32>,
    events: VecDeque<Event<(HostId, Name)>>,
    zeros: Vec<u8>,
    scratch: Vec<u8>,
    trace: Option<Trace>,
}

impl<'a> Endpoints<'a> {
    /// Opens the sockets. They must be used on the same thread.
    pub(crate) fn new(run: RunState<'a>, mtu: usize, trace: Option<&Trace>) -> io::Result<Self> {
        let wire = EventLoop::new(mtu)?;
        let zero = wire.now() - run.clock.now().since(Time::ZERO);
        let mut endpoints = Self {
            run,
            wire,
            zero,
            hosts: BTreeMap::new(),
            by_sender: HashMap::new(),
            streams: HashMap::new(),
            by_share: BTreeMap::new(),
            by_datagram: HashMap::new(),
            events: VecDeque::new(),
            zeros: vec![0; 1 << 16],
            scratch: Vec::new(),
            trace: trace.cloned(),
        };
        for flow in &run.plan.flows {
            endpoints.add(flow.from, flow.scheme, trace)?;
            endpoints.add(flow.to, flow.scheme, trace)?;
        }
        Ok(endpoints)
    }

    fn add(&mut self, node: NodeId, scheme: usize, trace: Option<&Trace>) -> io::Result<()> {
        let Some(sending) = self.run.plan.schemes[scheme].ours() else { return Ok(()) };
        if self.hosts.contains_key(&(node, scheme)) {
            return Ok(());
        }
        let RunState { sides, plan, .. } = self.run;
        let address = SocketAddr::from((sides.address(node), OUR_PORTS + scheme as u16));
        let socket = self.run.host(sides.side(node)).namespace.inside(|| UdpSocket::bind(address))?;
        let endpoint = sending.endpoint(plan.seed, self.hosts.len() as u32, plan.nodes[node.0].clock);
        // The receive window limits a flow here as in the simulator, and not a smaller buffer of the sender.
        let send_buffer = Limits::default().send_buffer + sending.config.receive_window.as_u64() as usize;
        let limits = Limits { unsent: usize::MAX, send_buffer };
        let mut host = NetHost::in_clear(endpoint, Socket::new(socket)?, limits);
        if let Some(trace) = trace {
            host.trace(trace.clone(), self.zero);
        }
        let id = self.wire.add(host)?;
        self.hosts.insert((node, scheme), (id, address));
        Ok(())
    }

    fn endpoint(&self, host: HostId) -> Option<&Endpoint<AnyController, Peer>> {
        self.wire.host(host).map(NetHost::endpoint)
    }

    fn endpoint_mut(&mut self, host: HostId) -> Option<&mut Endpoint<AnyController, Peer>> {
        self.wire.host_mut(host).map(NetHost::endpoint_mut)
    }

    fn add_stream(&mut self, connection: Connection, flow: u32, end: End) {
        if let Some(host) = self.wire.host_mut(connection.0) {
            let side = if end == End::Sender { trace::End::Client } else { trace::End::Server };
            host.trace_flow(connection.1, flow, side);
        }
        self.streams.insert(connection, Stream { flow, end, outgoing: Outgoing::default() });
    }

    /// Writes as much as there is room for; ends the stream when all is written that should be.
    fn flush(&mut self, connection: Connection) {
        let now = self.wire.now();
        let Some(Stream { outgoing, .. }) = self.streams.get_mut(&connection) else { return };
        let (host, id) = connection;
        let Some(host) = self.wire.host_mut(host) else { return };
        while outgoing.unsent > 0 {
            let chunk = outgoing.unsent.min(self.zeros.len() as u64) as usize;
            let written = host.write(now, id, &self.zeros[..chunk]);
            outgoing.unsent -= written as u64;
            if written < chunk {
                return;
            }
        }
        if std::mem::take(&mut outgoing.finish) {
            host.finish(now, id);
        }
    }

    fn on_event(&mut self, host: HostId, event: &HostEvent) {
        match *event {
            // Packets that the kernel could not send count as lost. There are no sessions: packets are in clear.
            HostEvent::SocketError(_) | HostEvent::Key(..) | HostEvent::Moved(_) | HostEvent::SessionEnded(..) => {}
            HostEvent::Datagram(from, delivery, bytes) => {
                let flow = self.by_datagram.get(&(from, delivery.flow));
                self.events.extend(flow.map(|flow| Event::Datagram(*flow, Bytes::new(bytes as u64))));
            }
            HostEvent::Accepted(id, _) => self.accept((host, id)),
            HostEvent::Writable(id) => self.flush((host, id)),
            HostEvent::Opened(id, _)
            | HostEvent::Readable(id)
            | HostEvent::Degraded(id, _)
            | HostEvent::Closed(id, ..) => {
                let connection = (host, id);
                let Some(&Stream { flow, end, .. }) = self.streams.get(&connection) else { return };
                match *event {
                    HostEvent::Opened(..) => self.events.push_back(Event::Opened(flow)),
                    HostEvent::Degraded(_, why) => {
                        let plan = self.run.plan;
                        let scheme = plan.schemes[plan.flows[flow as usize].scheme].ours();
                        let both = self.endpoint(host).zip(scheme);
                        let fault = both.and_then(|(it, ours)| Name::Connection(id).fault(it, ours.config.packet));
                        self.events.push_back(Event::Degraded(flow, why, fault));
                    }
                    _ => self.events.push_back(Event::Readable(flow, end)),
                }
                if let HostEvent::Closed(_, _, statistics) = *event {
                    self.streams.remove(&connection);
                    let name = (host, Name::Connection(id));
                    self.events.push_back(Event::Closed(flow, name, Box::new(statistics.into())));
                }
            }
        }
    }

    fn accept(&mut self, connection: Connection) {
        let (host_id, id) = connection;
        let Some(host) = self.wire.host(host_id) else { return };
        let Some((accepted, peer)) = host.endpoint().connection(id).zip(host.peer(id)) else { return };
        let Some(flow) = self.by_sender.remove(&(peer, accepted.peer())) else { return };
        self.add_stream(connection, flow, End::Receiver);
        self.events.push_back(Event::Accepted(flow, (host_id, Name::Connection(id))));
    }

    /// Collects the changes of shares.
    fn poll_changes(&mut self) {
        let mut last = None;
        for &(host, _) in self.by_share.keys() {
            if last.replace(host) == Some(host) {
                continue;
            }
            let Some(endpoint) = self.wire.host_mut(host).map(NetHost::endpoint_mut) else { continue };
            while let Some(change) = endpoint.poll_change() {
                let path = Path { share: change.share, smoothed_rtt: change.smoothed_rtt };
                let flow = self.by_share.get(&(host, change.flow));
                self.events.extend(flow.map(|&flow| Event::ShareChanged(flow, path)));
            }
        }
    }
}

impl Sockets for Endpoints<'_> {
    fn wait(&mut self, until: Time) -> io::Result<()> {
        let until = self.zero + until.since(Time::ZERO);
        self.wire.run_once(until.min(self.wire.now() + STOP_CHECK_INTERVAL))?;
        self.poll_changes();
        Ok(())
    }

    fn watch(&self) -> Option<Applications> {
        self.trace.clone().map(Applications::new)
    }
}

/// Calls come with the run's time; the event loop's clock gives the time of its hosts.
impl Host for Endpoints<'_> {
    type Id = (HostId, Name);
    type Address = ();

    fn open(&mut self, _now: Time, opening: &Opening<()>) -> Option<(HostId, Name)> {
        let (plan, flow) = (self.run.plan, opening.flow);
        let planned = &plan.flows[flow as usize];
        let config = &plan.schemes[planned.scheme].ours()?.config;
        let (host, address) = self.hosts[&(planned.from, planned.scheme)];
        let (_, peer) = self.hosts[&(planned.to, planned.scheme)];
        let now = self.wire.now();
        let sending = self.wire.host_mut(host)?;
        let id = match opening.carrier {
            Carrier::Stream => {
                let id = sending.open_in_clear(now, peer, config)?;
                sending.share(id, opening.share);
                self.by_sender.insert((address, id), flow);
                self.add_stream((host, id), flow, End::Sender);
                Name::Connection(id)
            }
            Carrier::Datagrams(size) => {
                let endpoint = sending.endpoint_mut();
                let name = endpoint.open_datagrams(now, peer.into(), size.as_u64() as u16, config);
                endpoint.share_datagrams(name, opening.share);
                self.by_datagram.extend(endpoint.datagram_name(name).map(|name| ((address, name), flow)));
                Name::Datagrams(name)
            }
        };
        let name = self.endpoint(host).filter(|_| opening.uses_share).and_then(|endpoint| id.managed(endpoint));
        if let Some((endpoint, name)) = self.endpoint_mut(host).zip(name) {
            endpoint.watch(now, name, Thresholds::default());
            self.by_share.insert((host, name), flow);
        }
        Some((host, id))
    }

    fn write(&mut self, _now: Time, (host, id): (HostId, Name), bytes: u64) {
        let Name::Connection(id) = id else { return };
        if let Some(stream) = self.streams.get_mut(&(host, id)) {
            stream.outgoing.unsent += bytes;
            self.flush((host, id));
        }
    }

    fn finish(&mut self, _now: Time, (host, id): (HostId, Name)) {
        let Name::Connection(id) = id else { return };
        if let Some(stream) = self.streams.get_mut(&(host, id)) {
            stream.outgoing.finish = true;
            self.flush((host, id));
        }
    }

    fn stop(&mut self, _now: Time, (host, id): (HostId, Name)) {
        let now = self.wire.now();
        match id {
            Name::Connection(id) => {
                if let Some(stream) = self.streams.get_mut(&(host, id)) {
                    stream.outgoing = Outgoing::default();
                }
                if let Some(host) = self.wire.host_mut(host) {
                    host.finish_early(now, id);
                }
            }
            Name::Datagrams(name) => {
                self.by_share.remove(&(host, name));
                if let Some(endpoint) = self.endpoint_mut(host) {
                    endpoint.close_datagrams(now, name);
                }
            }
        }
    }

    fn read(&mut self, _now: Time, (host, id): (HostId, Name), read: Bytes) -> Option<(Bytes, bool)> {
        let Name::Connection(id) = id else { return None };
        let now = self.wire.now();
        let host = self.wire.host_mut(host)?;
        self.scratch.clear();
        let bytes = host.read(now, id, &mut self.scratch) as u64;
        Some((read + Bytes::new(bytes), host.is_read_to_end(id)))
    }

    fn queue_datagrams(&mut self, _now: Time, (host, id): (HostId, Name), count: u64) {
        let now = self.wire.now();
        let Name::Datagrams(name) = id else { return };
        if let Some(endpoint) = self.endpoint_mut(host) {
            endpoint.queue_datagrams(now, name, count);
        }
    }

    fn send_datagram(&mut self, _now: Time, (host, id): (HostId, Name)) {
        let now = self.wire.now();
        let Name::Datagrams(name) = id else { return };
        if let Some(endpoint) = self.endpoint_mut(host) {
            endpoint.send_datagram_now(now, name);
        }
    }

    fn path(&self, _now: Time, (host, id): (HostId, Name)) -> Path {
        self.endpoint(host).map_or_else(Path::default, |endpoint| id.path(self.wire.now(), endpoint))
    }

    fn poll_event(&mut self) -> Option<Event<(HostId, Name)>> {
        while self.events.is_empty() {
            let (host, event) = self.wire.poll_event()?;
            self.on_event(host, &event);
        }
        self.events.pop_front()
    }

    fn state(&self, (host, id): (HostId, Name)) -> Option<SenderState> {
        id.state(self.endpoint(host)?)
    }

    fn sent(&self, (host, id): (HostId, Name)) -> Option<Sent> {
        id.sent(self.endpoint(host)?)
    }
}
