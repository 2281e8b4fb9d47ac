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
use rampmeter_net::{Event as HostEvent, EventLoop, Host, HostId, Limits, Socket};
use rampmeter_scenario::{Degraded, FlowSample, NodeId, Scheme, WorldError, path_of};
use rampmeter_transport::ConnectionId;
use rampmeter_units::{Duration, Time};
use rampmeter_workload::{Alarms, Carrier, End, Event, Path, Reply};

use crate::clock::STOP_CHECK_INTERVAL;
use crate::datagram::OUR_PORTS;
use crate::priority::{self, Priority};
use crate::run_state::{FlowAction, FlowRecord, FlowResults, RunState, actions};

/// The identifier of a connection among all hosts.
type Name = (HostId, ConnectionId);

struct ActiveFlow {
    record: FlowRecord,
    /// The connection's identifier at each end.
    ends: [Option<Name>; 2],
    /// The flow's identifier in its sender's manager, if it sends datagrams.
    datagrams: Option<(HostId, FlowId)>,
}

/// The key of a flow's deadline at one end.
fn alarm(flow: usize, end: End) -> u32 {
    (flow as u32) << 1 | end as u32
}

pub(crate) struct Endpoints<'a> {
    run: RunState<'a>,
    actions: VecDeque<(Time, FlowAction)>,
    wire: EventLoop<AnyController>,
    /// The time of the event loop's clock at time zero of the run.
    zero: Time,
    hosts: BTreeMap<(NodeId, usize), (HostId, SocketAddr)>,
    flows: Vec<Option<ActiveFlow>>,
    /// Flows by the addresses and connection identifiers of their senders, until they are accepted.
    by_sender: HashMap<(SocketAddr, ConnectionId), usize>,
    by_name: HashMap<Name, usize>,
    alarms: Alarms,
    /// Flows that use their shares, by their identifiers in the managers of their senders.
    by_share: BTreeMap<(HostId, FlowId), usize>,
    /// Flows of datagrams by the addresses and flow numbers of their senders.
    by_datagram: HashMap<(SocketAddr, u32), usize>,
    results: FlowResults,
    zeros: Vec<u8>,
    scratch: Vec<u8>,
}

impl<'a> Endpoints<'a> {
    /// Opens the sockets. [`Endpoints::run`] must be called on the same thread.
    pub(crate) fn new(run: RunState<'a>, mtu: usize) -> io::Result<Self> {
        let plan = run.plan;
        let wire = EventLoop::new(mtu)?;
        let zero = wire.now() - run.clock.now().since(Time::ZERO);
        let mut endpoints = Self {
            run,
            actions: actions(plan, |flow| plan.schemes[plan.flows[flow].scheme].ours().is_some()).into(),
            wire,
            zero,
            hosts: BTreeMap::new(),
            flows: plan.flows.iter().map(|_| None).collect(),
            by_sender: HashMap::new(),
            by_name: HashMap::new(),
            alarms: Alarms::default(),
            by_share: BTreeMap::new(),
            by_datagram: HashMap::new(),
            results: FlowResults::default(),
            zeros: vec![0; 1 << 16],
            scratch: Vec::new(),
        };
        for flow in &plan.flows {
            endpoints.add(flow.from, flow.scheme)?;
            endpoints.add(flow.to, flow.scheme)?;
        }
        Ok(endpoints)
    }

    fn add(&mut self, node: NodeId, scheme: usize) -> io::Result<()> {
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
        let limits = Limits { unsent: usize::MAX, peer_timeout: Duration::MAX, send_buffer };
        let id = self.wire.add(Host::in_clear(endpoint, Socket::new(socket)?, limits))?;
        self.hosts.insert((node, scheme), (id, address));
        Ok(())
    }

    pub(crate) fn run(mut self) -> io::Result<FlowResults> {
        let _ = priority::raise(Priority::Hosts);
        while !self.run.is_over() {
            self.act();
            let next = self.actions.front().map_or(Time::MAX, |(at, _)| *at).min(self.alarms.next());
            self.wire.run_once((self.zero + next.since(Time::ZERO)).min(self.wire.now() + STOP_CHECK_INTERVAL))?;
            self.notify_applications();
            while let Some((host, event)) = self.wire.poll_event() {
                self.on_event(host, &event);
            }
        }
        for flow in 0..self.flows.len() {
            self.end(flow);
        }
        Ok(self.results)
    }

    fn act(&mut self) {
        while let Some(&(at, act)) = self.actions.front() {
            if at > self.run.clock.now() {
                break;
            }
            self.actions.pop_front();
            match act {
                FlowAction::Start(flow) => self.start(flow),
                FlowAction::Stop(flow) => self.stop(flow),
                FlowAction::Sample => self.sample(at),
                FlowAction::Report => {
                    for conversation in self.flows.iter_mut().flatten() {
                        conversation.record.report(&self.run);
                    }
                }
            }
        }
    }

    fn start(&mut self, flow: usize) {
        let plan = self.run.plan;
        let planned = &plan.flows[flow];
        let Some(Scheme { config, .. }) = plan.schemes[planned.scheme].ours() else { return };
        let (host, address) = self.hosts[&(planned.from, planned.scheme)];
        let (_, peer) = self.hosts[&(planned.to, planned.scheme)];
        let mut record = FlowRecord::new(plan, flow, self.run.clock.now());
        let (now, share) = (self.wire.now(), plan.share(planned));
        let workload = &plan.traffic[planned.traffic].workload;
        let Some(sending) = self.wire.host_mut(host) else { return };
        let (mut ends, mut datagrams) = ([None; 2], None);
        let name = match workload.carrier() {
            Carrier::Stream => {
                let Some(id) = sending.open_in_clear(now, peer, config) else {
                    record.finish(&self.run);
                    return self.results.flows.push(record.outcome);
                };
                sending.share(id, share);
                ends[End::Sender as usize] = Some((host, id));
                self.by_sender.insert((address, id), flow);
                self.by_name.insert((host, id), flow);
                sending.endpoint().flow(id)
            }
            Carrier::Datagrams(size) => {
                let endpoint = sending.endpoint_mut();
                let name = endpoint.open_datagrams(now, peer.into(), size.as_u64() as u16, config);
                endpoint.share_datagrams(name, share);
                datagrams = Some((host, name));
                self.by_datagram.extend(endpoint.datagram_name(name).map(|name| ((address, name), flow)));
                Some(name)
            }
        };
        let mut path = Path::default();
        if let Some(name) = name.filter(|_| workload.uses_share()) {
            sending.endpoint_mut().watch(now, name, Thresholds::default());
            path = path_of(now, name, sending.endpoint());
            self.by_share.insert((host, name), flow);
        }
        let reply = record.start(&self.run, path);
        self.flows[flow] = Some(ActiveFlow { record, ends, datagrams });
        self.carry_out(flow, End::Sender, reply);
    }

    fn notify(&mut self, flow: usize, end: End, event: &Event) {
        let Some(conversation) = &mut self.flows[flow] else { return };
        let reply = conversation.record.notify(&self.run, end, event);
        self.carry_out(flow, end, reply);
    }

    /// Carries out the reply of a flow's application at one end.
    fn carry_out(&mut self, flow: usize, end: End, reply: Reply) {
        let now = self.wire.now();
        let Some(ActiveFlow { record, datagrams, .. }) = &self.flows[flow] else { return };
        self.alarms.set(alarm(flow, end), record.deadline(end));
        let Some((host, name)) = *datagrams else { return self.write(flow, end) };
        let Some(endpoint) = self.wire.host_mut(host).map(Host::endpoint_mut) else { return };
        if reply.queue_datagrams > 0 {
            endpoint.queue_datagrams(now, name, reply.queue_datagrams);
        }
        if reply.send_datagram {
            endpoint.send_datagram_now(now, name);
        }
    }

    /// Reports changed shares and expired deadlines to applications.
    fn notify_applications(&mut self) {
        let mut changes = Vec::new();
        let mut last = None;
        for &(host, _) in self.by_share.keys() {
            if last.replace(host) == Some(host) {
                continue;
            }
            let Some(endpoint) = self.wire.host_mut(host).map(Host::endpoint_mut) else { continue };
            while let Some(change) = endpoint.poll_change() {
                let flow = self.by_share.get(&(host, change.flow));
                changes.extend(flow.map(|&flow| (flow, change)));
            }
        }
        for (flow, change) in changes {
            let path = Path { share: change.share, smoothed_rtt: change.smoothed_rtt };
            self.notify(flow, End::Sender, &Event::ShareChanged(path));
        }
        while let Some(key) = self.alarms.due(self.run.clock.now()) {
            let (flow, end) = ((key >> 1) as usize, End::ALL[(key & 1) as usize]);
            let Some(conversation) = &mut self.flows[flow] else {
                self.alarms.set(key, Time::MAX);
                continue;
            };
            let reply = conversation.record.on_deadline(&self.run, end);
            self.carry_out(flow, end, reply);
        }
    }

    fn stop(&mut self, flow: usize) {
        let now = self.wire.now();
        let Some(ActiveFlow { record, ends, datagrams }) = &mut self.flows[flow] else { return };
        record.stop(&self.run);
        for end in End::ALL {
            self.alarms.set(alarm(flow, end), record.deadline(end));
        }
        if let Some((host, id)) = ends[End::Sender as usize] {
            if let Some(host) = self.wire.host_mut(host) {
                host.finish_early(now, id);
            }
        }
        if let Some((host, name)) = datagrams.take() {
            self.by_share.remove(&(host, name));
            let endpoint = self.wire.host_mut(host).map(Host::endpoint_mut);
            record.outcome.sent_packets = endpoint.map_or(0, |endpoint| endpoint.close_datagrams(now, name));
        }
    }

    /// Writes as much as there is room for; ends the stream when all is written that should be.
    fn write(&mut self, flow: usize, end: End) {
        let now = self.wire.now();
        let Some(ActiveFlow { record, ends, .. }) = &mut self.flows[flow] else { return };
        let Some((host, id)) = ends[end as usize] else { return };
        let Some(host) = self.wire.host_mut(host) else { return };
        let outgoing = &mut record.outgoing[end as usize];
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

    /// The flow of a connection, and which end of it that is.
    fn find(&self, name: Name) -> Option<(usize, End)> {
        let &flow = self.by_name.get(&name)?;
        let ends = &self.flows[flow].as_ref()?.ends;
        End::ALL.into_iter().find(|end| ends[*end as usize] == Some(name)).map(|end| (flow, end))
    }

    fn on_event(&mut self, host: HostId, event: &HostEvent) {
        match *event {
            // Packets that the kernel could not send count as lost. There are no sessions: packets are in clear.
            HostEvent::SocketError(_) | HostEvent::Key(..) | HostEvent::Moved(_) | HostEvent::SessionEnded(..) => {}
            HostEvent::Opened(id, _) => self.open((host, id)),
            HostEvent::Datagram(from, delivery, bytes) => {
                let flow = self.by_datagram.get(&(from, delivery.flow)).and_then(|flow| self.flows[*flow].as_mut());
                if let Some(conversation) = flow {
                    conversation.record.deliver(&self.run, bytes as u64);
                }
            }
            HostEvent::Accepted(id, _) => self.accept((host, id)),
            HostEvent::Readable(id) => self.read((host, id)),
            HostEvent::Writable(id) => {
                if let Some((flow, end)) = self.find((host, id)) {
                    self.write(flow, end);
                }
            }
            HostEvent::Degraded(id, why) => {
                if let Some(&flow) = self.by_name.get(&(host, id)) {
                    self.results.degraded.push(Degraded { flow, reason: why.into() });
                    let endpoint = self.wire.host(host).map(Host::endpoint);
                    let controller = endpoint.and_then(|it| it.manager().controller(it.flow(id)?));
                    let (plan, now) = (self.run.plan, self.run.clock.now());
                    let failure = controller.and_then(|it| WorldError::of_controller(plan, flow, it, now));
                    if failure.is_some() {
                        self.results.failure = failure;
                        self.run.end();
                    }
                }
            }
            HostEvent::Closed(id, _, ref statistics) => {
                self.read((host, id));
                let found = self.find((host, id));
                self.by_name.remove(&(host, id));
                let Some((flow, End::Sender)) = found else { return };
                let Some(ActiveFlow { record, .. }) = &mut self.flows[flow] else { return };
                record.finish(&self.run);
                record.outcome.sent_packets = statistics.data_packets;
                record.outcome.retransmitted_packets = statistics.retransmitted;
                record.outcome.limits = statistics.limits;
            }
        }
    }

    /// A connection that a sender opened is established.
    fn open(&mut self, name: Name) {
        let Some((flow, end)) = self.find(name) else { return };
        let plan = self.run.plan;
        let uses_share = plan.traffic[plan.flows[flow].traffic].workload.uses_share();
        let endpoint = self.wire.host(name.0).map(Host::endpoint).filter(|_| uses_share);
        let path = endpoint.and_then(|endpoint| Some(path_of(self.wire.now(), endpoint.flow(name.1)?, endpoint)));
        self.notify(flow, end, &Event::Opened(path.unwrap_or_default()));
    }

    fn accept(&mut self, name: Name) {
        let Some(host) = self.wire.host(name.0) else { return };
        let Some(connection) = host.endpoint().connection(name.1) else { return };
        let Some(peer) = host.peer(name.1) else { return };
        let Some(flow) = self.by_sender.remove(&(peer, connection.peer())) else { return };
        self.by_name.insert(name, flow);
        if let Some(conversation) = &mut self.flows[flow] {
            conversation.ends[End::Receiver as usize] = Some(name);
        }
        self.notify(flow, End::Receiver, &Event::Opened(Path::default()));
    }

    fn read(&mut self, name: Name) {
        let now = self.wire.now();
        let Some((flow, end)) = self.find(name) else { return };
        let (Some(host), Some(conversation)) = (self.wire.host_mut(name.0), self.flows[flow].as_mut()) else { return };
        self.scratch.clear();
        let bytes = host.read(now, name.1, &mut self.scratch) as u64;
        let reply = conversation.record.read(&self.run, end, bytes, host.is_read_to_end(name.1));
        self.carry_out(flow, end, reply);
    }

    fn end(&mut self, flow: usize) {
        let Some(ActiveFlow { mut record, ends, datagrams }) = self.flows[flow].take() else { return };
        record.finish(&self.run);
        record.report(&self.run);
        let endpoint = |host| self.wire.host(host).map(Host::endpoint);
        if let Some(sent) = datagrams.and_then(|(host, name)| Some(endpoint(host)?.datagrams_sent(name))) {
            record.outcome.sent_packets = sent;
        }
        let sender = ends[End::Sender as usize];
        if let Some(living) = sender.and_then(|(host, id)| endpoint(host)?.connection(id)) {
            let statistics = living.statistics();
            record.outcome.sent_packets = statistics.data_packets;
            record.outcome.retransmitted_packets = statistics.retransmitted;
            record.outcome.limits = statistics.limits;
        }
        self.results.flows.push(record.outcome);
    }

    fn sample(&mut self, at: Time) {
        let plan = self.run.plan;
        for conversation in self.flows.iter().flatten() {
            let outcome = &conversation.record.outcome;
            if !plan.traffic[outcome.traffic].measured {
                continue;
            }
            let sender = conversation.ends[End::Sender as usize];
            let of_connection = |(host, id)| Some((host, self.wire.host(host)?.endpoint().flow(id)?));
            let Some((host, name)) = conversation.datagrams.or_else(|| of_connection(sender?)) else { continue };
            let Some(endpoint) = self.wire.host(host).map(Host::endpoint) else { continue };
            let controller = endpoint.manager().controller(name);
            let Some(controller) = controller else { continue };
            self.results.samples.push(FlowSample::of(at, outcome.flow, controller, outcome.delivered));
        }
    }
}
