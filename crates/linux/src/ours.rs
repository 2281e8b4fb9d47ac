//! Rampmeter's own senders: the endpoints and controllers of the simulator, on UDP sockets of the two hosts, one thread
//! for all of them.
//!
//! As in the simulator there is one endpoint for every node and scheme that meet, each with a socket at its node's
//! address and its scheme's port, and random streams that are numbered alike.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::net::{SocketAddr, UdpSocket};

use rampmeter_control::AnyController;
use rampmeter_manager::FlowId;
use rampmeter_net::{Event, EventLoop, Host, HostId, Limits, Socket};
use rampmeter_scenario::{DatagramPlan, Degraded, FlowSample, NodeId, Scheme, Sources};
use rampmeter_transport::{Config, ConnectionId};
use rampmeter_units::{Duration, Time};

use crate::clock::NAP;
use crate::datagram::OUR_PORTS;
use crate::priority::{self, Priority};
use crate::stage::{Account, Act, Stage, Told, acts};

/// A connection's name among all hosts.
type Name = (HostId, ConnectionId);

/// What sends a flow.
#[derive(Clone, Copy, PartialEq)]
enum Sender {
    Connection(Name),
    Datagrams(HostId, FlowId),
}

/// A flow under way.
struct Conversation {
    account: Account,
    sender: Sender,
    receiver: Option<Name>,
    /// Bytes the sender has yet to write.
    unsent: u64,
}

/// All flows of ours.
pub(crate) struct Ours<'a> {
    stage: Stage<'a>,
    acts: VecDeque<(Time, Act)>,
    wire: EventLoop<AnyController>,
    /// What the wire's clock shows when the run's shows zero.
    zero: Time,
    hosts: BTreeMap<(NodeId, usize), (HostId, SocketAddr)>,
    flows: Vec<Option<Conversation>>,
    /// Flows by their senders' addresses and names for the connection, until they are accepted.
    by_sender: HashMap<(SocketAddr, ConnectionId), usize>,
    by_name: HashMap<Name, usize>,
    /// What sends datagrams from each host.
    sources: BTreeMap<HostId, Sources>,
    /// Flows of datagrams by their senders' addresses and names for them.
    by_datagram: HashMap<(SocketAddr, u32), usize>,
    told: Told,
    zeros: Vec<u8>,
    scratch: Vec<u8>,
}

impl<'a> Ours<'a> {
    /// Ready to run, on the thread that made it.
    pub(crate) fn new(stage: Stage<'a>, mtu: usize) -> io::Result<Self> {
        let plan = stage.plan;
        let wire = EventLoop::new(mtu)?;
        let zero = wire.now() - stage.clock.now().since(Time::ZERO);
        let mut ours = Self {
            stage,
            acts: acts(plan, |flow| plan.schemes[plan.flows[flow].scheme].ours().is_some()).into(),
            wire,
            zero,
            hosts: BTreeMap::new(),
            flows: plan.flows.iter().map(|_| None).collect(),
            by_sender: HashMap::new(),
            by_name: HashMap::new(),
            sources: BTreeMap::new(),
            by_datagram: HashMap::new(),
            told: Told::default(),
            zeros: vec![0; 1 << 16],
            scratch: Vec::new(),
        };
        for flow in &plan.flows {
            ours.add(flow.from, flow.scheme)?;
            ours.add(flow.to, flow.scheme)?;
        }
        Ok(ours)
    }

    fn add(&mut self, node: NodeId, scheme: usize) -> io::Result<()> {
        let Some(sending) = self.stage.plan.schemes[scheme].ours() else { return Ok(()) };
        if self.hosts.contains_key(&(node, scheme)) {
            return Ok(());
        }
        let Stage { sides, plan, .. } = self.stage;
        let address = SocketAddr::from((sides.address(node), OUR_PORTS + scheme as u16));
        let socket = self.stage.host(sides.side(node)).namespace.inside(|| UdpSocket::bind(address))?;
        let endpoint = sending.endpoint(plan.seed, self.hosts.len() as u32, &plan.nodes[node.0]);
        let limits = Limits { peer_timeout: Duration::MAX, ..Limits::default() };
        let id = self.wire.add(Host::new(endpoint, Socket::new(socket)?, limits))?;
        self.hosts.insert((node, scheme), (id, address));
        Ok(())
    }

    /// Runs until the run is over.
    pub(crate) fn run(mut self) -> io::Result<Told> {
        let _ = priority::raise(Priority::Hosts);
        while !self.stage.is_over() {
            self.act();
            let next = self.acts.front().map_or(Time::MAX, |(at, _)| self.zero + at.since(Time::ZERO));
            let source = self.sources.values().map(Sources::deadline).min().unwrap_or(Time::MAX);
            self.wire.run_once(next.min(source).min(self.wire.now() + NAP))?;
            self.serve_sources();
            while let Some((host, event)) = self.wire.poll_event() {
                self.attend(host, &event);
            }
        }
        for flow in 0..self.flows.len() {
            self.end(flow);
        }
        Ok(self.told)
    }

    fn act(&mut self) {
        while let Some(&(at, act)) = self.acts.front() {
            if at > self.stage.clock.now() {
                break;
            }
            self.acts.pop_front();
            match act {
                Act::Start(flow) => self.start(flow),
                Act::Stop(flow) => self.stop(flow),
                Act::Sample => self.sample(at),
            }
        }
    }

    fn start(&mut self, flow: usize) {
        let planned = &self.stage.plan.flows[flow];
        let Some(Scheme { config, .. }) = self.stage.plan.schemes[planned.scheme].ours() else { return };
        let (host, address) = self.hosts[&(planned.from, planned.scheme)];
        let (_, peer) = self.hosts[&(planned.to, planned.scheme)];
        let mut account = Account::new(self.stage.plan, flow, self.stage.clock.now());
        if let Some(datagrams) = &self.stage.plan.traffic[planned.traffic].datagrams {
            return self.start_datagrams(flow, account, datagrams, config, (host, address), peer);
        }
        let now = self.wire.now();
        let share = self.stage.plan.share(planned);
        let opening = |host: &mut rampmeter_net::Host<_>| {
            let id = host.open(now, peer, config)?;
            host.share(id, share);
            Some(id)
        };
        let Some(id) = self.wire.host_mut(host).and_then(opening) else {
            account.settle(&self.stage);
            return self.told.flows.push(account.outcome);
        };
        self.by_sender.insert((address, id), flow);
        self.by_name.insert((host, id), flow);
        let chooses = self.stage.plan.traffic[planned.traffic].representations.is_some();
        let unsent = if chooses { 0 } else { planned.to_write() };
        let sender = Sender::Connection((host, id));
        self.flows[flow] = Some(Conversation { account, sender, receiver: None, unsent });
        self.write(flow);
    }

    fn start_datagrams(
        &mut self,
        flow: usize,
        account: Account,
        datagrams: &DatagramPlan,
        config: &Config,
        (host, address): (HostId, SocketAddr),
        peer: SocketAddr,
    ) {
        let (now, share) = (self.wire.now(), self.stage.plan.share(&self.stage.plan.flows[flow]));
        let Some(endpoint) = self.wire.host_mut(host).map(Host::endpoint_mut) else { return };
        let sources = self.sources.entry(host).or_default();
        let id = sources.start(now, flow, datagrams, share, peer, config, endpoint);
        self.by_datagram.extend(endpoint.datagram_name(id).map(|name| ((address, name), flow)));
        let sender = Sender::Datagrams(host, id);
        self.flows[flow] = Some(Conversation { account, sender, receiver: None, unsent: 0 });
    }

    /// Has the applications that send datagrams do what is due.
    fn serve_sources(&mut self) {
        let now = self.wire.now();
        for (&host, sources) in &mut self.sources {
            if let Some(host) = self.wire.host_mut(host) {
                sources.serve(now, host.endpoint_mut());
            }
        }
    }

    /// The sender of an object in several qualities chooses one.
    fn choose(&mut self, name: Name) {
        let now = self.wire.now();
        let Some(&flow) = self.by_name.get(&name) else { return };
        let Some(representations) = &self.stage.plan.traffic[self.stage.plan.flows[flow].traffic].representations
        else {
            return;
        };
        let Some(host) = self.wire.host(name.0) else { return };
        let size = representations.choose(now, host.endpoint(), name.1);
        if let Some(conversation) = self.flows[flow].as_mut().filter(|c| c.sender == Sender::Connection(name)) {
            conversation.unsent = size.as_u64();
            conversation.account.want(size);
        }
        self.write(flow);
    }

    fn stop(&mut self, flow: usize) {
        let now = self.wire.now();
        let Some(conversation) = &mut self.flows[flow] else { return };
        conversation.account.settle(&self.stage);
        conversation.unsent = 0;
        match conversation.sender {
            Sender::Connection((host, id)) => {
                if let Some(host) = self.wire.host_mut(host) {
                    host.finish_early(now, id);
                }
            }
            Sender::Datagrams(host, id) => {
                let endpoint = self.wire.host_mut(host).map(Host::endpoint_mut);
                let Some((endpoint, sources)) = endpoint.zip(self.sources.get_mut(&host)) else { return };
                let source = sources.stop(now, id, endpoint);
                conversation.account.take(source);
            }
        }
    }

    /// Writes as much as there is room for; ends the stream when all is written.
    fn write(&mut self, flow: usize) {
        let now = self.wire.now();
        let Some(Conversation { sender, unsent, .. }) = &mut self.flows[flow] else { return };
        let Sender::Connection((host, id)) = sender else { return };
        let Some(host) = self.wire.host_mut(*host) else { return };
        if *unsent == 0 {
            return;
        }
        while *unsent > 0 {
            let chunk = (*unsent).min(self.zeros.len() as u64) as usize;
            let written = host.write(now, *id, &self.zeros[..chunk]);
            *unsent -= written as u64;
            if written < chunk {
                return;
            }
        }
        host.finish(now, *id);
    }

    fn attend(&mut self, host: HostId, event: &Event) {
        match *event {
            // The path has its own opinion on packets that the kernel could not send: they are lost.
            Event::SocketError(_) => {}
            Event::Opened(id, _) => self.choose((host, id)),
            Event::Datagram(from, delivery, bytes) => {
                let flow = self.by_datagram.get(&(from, delivery.flow)).and_then(|flow| self.flows[*flow].as_mut());
                if let Some(conversation) = flow {
                    conversation.account.deliver(&self.stage, bytes as u64);
                }
            }
            Event::Accepted(id, _) => self.accept((host, id)),
            Event::Readable(id) => self.read((host, id)),
            Event::Writable(id) => {
                if let Some(&flow) = self.by_name.get(&(host, id)) {
                    self.write(flow);
                }
            }
            Event::Degraded(id, why) => {
                if let Some(&flow) = self.by_name.get(&(host, id)) {
                    self.told.degraded.push(Degraded { flow, reason: why.into() });
                }
            }
            Event::Closed(id, _, ref statistics) => {
                self.read((host, id));
                let Some(flow) = self.by_name.remove(&(host, id)) else { return };
                let sender = Sender::Connection((host, id));
                let Some(conversation) = self.flows[flow].as_mut().filter(|c| c.sender == sender) else { return };
                conversation.account.settle(&self.stage);
                let outcome = &mut conversation.account.outcome;
                outcome.sent_packets = statistics.data_packets;
                outcome.retransmitted_packets = statistics.retransmitted;
            }
        }
    }

    fn accept(&mut self, name: Name) {
        let Some(host) = self.wire.host(name.0) else { return };
        let Some(connection) = host.endpoint().connection(name.1) else { return };
        let Some(peer) = host.peer(name.1) else { return };
        let Some(flow) = self.by_sender.remove(&(peer, connection.peer())) else { return };
        self.by_name.insert(name, flow);
        if let Some(conversation) = &mut self.flows[flow] {
            conversation.receiver = Some(name);
        }
    }

    fn read(&mut self, name: Name) {
        let now = self.wire.now();
        let Some(&flow) = self.by_name.get(&name) else { return };
        let Some(conversation) = self.flows[flow].as_mut().filter(|c| c.receiver == Some(name)) else { return };
        let Some(host) = self.wire.host_mut(name.0) else { return };
        self.scratch.clear();
        let bytes = host.read(now, name.1, &mut self.scratch);
        conversation.account.deliver(&self.stage, bytes as u64);
        if host.is_read_to_end(name.1) {
            host.finish(now, name.1);
        }
    }

    /// Closes a flow's account.
    fn end(&mut self, flow: usize) {
        let Some(mut conversation) = self.flows[flow].take() else { return };
        conversation.account.settle(&self.stage);
        let (host, id) = match conversation.sender {
            Sender::Connection(name) => name,
            Sender::Datagrams(host, id) => {
                let (now, endpoint) = (self.wire.now(), self.wire.host(host).map(Host::endpoint));
                // One that has ended has told by then.
                if let Some((endpoint, sources)) = endpoint.zip(self.sources.get_mut(&host)) {
                    if sources.flow(id) == Some(flow) {
                        conversation.account.take(sources.outcome(now, id, endpoint));
                    }
                }
                return self.told.flows.push(conversation.account.outcome);
            }
        };
        let outcome = &mut conversation.account.outcome;
        if let Some(living) = self.wire.host(host).and_then(|host| host.endpoint().connection(id)) {
            let statistics = living.statistics();
            outcome.sent_packets = statistics.data_packets;
            outcome.retransmitted_packets = statistics.retransmitted;
        }
        self.told.flows.push(conversation.account.outcome);
    }

    fn sample(&mut self, at: Time) {
        let plan = self.stage.plan;
        for conversation in self.flows.iter().flatten() {
            let outcome = &conversation.account.outcome;
            if !plan.traffic[outcome.traffic].measured {
                continue;
            }
            let (Sender::Connection((host, _)) | Sender::Datagrams(host, _)) = conversation.sender;
            let Some(endpoint) = self.wire.host(host).map(Host::endpoint) else { continue };
            let name = match conversation.sender {
                Sender::Connection((_, id)) => endpoint.flow(id),
                Sender::Datagrams(_, id) => Some(id),
            };
            let controller = name.and_then(|name| endpoint.manager().controller(name));
            let Some(controller) = controller else { continue };
            self.told.samples.push(FlowSample::of(at, outcome.flow, controller, outcome.delivered));
        }
    }
}
