//! Our endpoint as a host in virtual time.

use std::collections::BTreeMap;

use rampmeter_control::AnyController;
use rampmeter_manager::{FlowId, Thresholds};
use rampmeter_router::Parcel;
use rampmeter_run::{Event, Host, Name, Opening, PacketHost, Sent};
use rampmeter_scenario::{NodeId, Plan, SenderState};
use rampmeter_trace::{self as trace, Cause, Moment, Tap};
use rampmeter_transport::{Clock, Config, ConnectionId, Endpoint, Event as TransportEvent};
use rampmeter_units::{Bytes, Time};
use rampmeter_wire::Kind;
use rampmeter_workload::{Carrier, End, Path};

use crate::clock::HostClock;
use crate::packet::{Content, InTransit, Pool};
use crate::paths::{PathId, is_forward, reverse};

/// No flow.
const NONE: u32 = u32::MAX;

/// What a packet brings to an application.
#[derive(Debug, Clone, Copy)]
enum Brought {
    Stream(End),
    Datagram(u16),
}

/// A host for one scheme: an endpoint with that scheme's settings, and the flow of each of its connections.
///
/// Its tap sees the packets of its connections.
#[derive(Debug)]
pub(crate) struct OurHost<T = ()> {
    tap: T,
    endpoint: Endpoint<AnyController, PathId>,
    /// Settings of the connections that the host opens.
    config: Config,
    /// The clock whose readings are the endpoint's time.
    clock: HostClock,
    /// The host's flows that send datagrams or use their shares, by their identifiers in the manager.
    by_name: BTreeMap<FlowId, u32>,
    /// A flow of datagrams to or from this host, to which the messages of its Congestion Manager count.
    datagram_flow: u32,
    /// The flow of each connection, by the connection's index.
    flow_of: Vec<u32>,
    /// The flow of the packet that arrived last, until the host has answered.
    answering: u32,
    /// What that packet brought to an application of its flow.
    brought: Option<Brought>,
    /// Whether packets may have left since the last message: messages go first, and again at the end.
    has_sent: bool,
}

impl<T: Tap<AnyController, PathId>> OurHost<T> {
    /// The host of a scheme of `plan` at `node`, which is ours. `number` distinguishes it from the run's other hosts.
    pub(crate) fn new(plan: &Plan, node: NodeId, scheme: usize, number: u32, tap: T) -> Self {
        let sending = plan.schemes[scheme].ours().expect("the world refuses kernel TCP");
        let clock = plan.nodes[node.0].clock;
        // The endpoint's time is its clock's: only the jitter of timestamps is left.
        let timestamps = Clock { jitter: clock.jitter, ..Clock::default() };
        Self {
            tap,
            endpoint: sending.endpoint(plan.seed, number, timestamps),
            config: sending.config.clone(),
            clock: HostClock::new(clock),
            by_name: BTreeMap::new(),
            datagram_flow: NONE,
            flow_of: Vec::new(),
            answering: NONE,
            brought: None,
            has_sent: false,
        }
    }

    /// Whether the host has sent or received datagrams.
    fn has_datagrams(&self) -> bool {
        self.datagram_flow != NONE
    }

    /// Whether the manager may have share changes or messages for applications of this host.
    fn has_watchers(&self) -> bool {
        self.has_datagrams() || !self.by_name.is_empty()
    }

    fn flow(&self, connection: ConnectionId) -> u32 {
        self.flow_of[connection.index()]
    }

    fn set_flow(&mut self, connection: ConnectionId, flow: u32) {
        if self.flow_of.len() <= connection.index() {
            self.flow_of.resize(connection.index() + 1, NONE);
        }
        self.flow_of[connection.index()] = flow;
    }

    fn event(&self, event: TransportEvent) -> Event<Name> {
        match event {
            TransportEvent::Opened(connection, _) => Event::Opened(self.flow(connection)),
            TransportEvent::Accepted(connection, _) => Event::Accepted(self.answering, Name::Connection(connection)),
            TransportEvent::Degraded(connection, why) => {
                let fault = Name::Connection(connection).fault(&self.endpoint, self.config.packet);
                Event::Degraded(self.flow(connection), why, fault)
            }
            TransportEvent::Closed(connection, _, statistics) => {
                Event::Closed(self.flow(connection), Name::Connection(connection), Box::new(statistics.into()))
            }
        }
    }

    /// The next message of the Congestion Manager, or datagram.
    fn message(&mut self, pool: &mut Pool) -> Option<InTransit> {
        let message = self.endpoint.poll_message()?;
        let known = message.flow.and_then(|name| self.by_name.get(&name));
        let flow = known.copied().unwrap_or(self.datagram_flow);
        Some(pool.message(message, flow))
    }
}

impl<T: Tap<AnyController, PathId>> Host for OurHost<T> {
    type Id = Name;
    type Address = PathId;

    fn open(&mut self, now: Time, opening: &Opening<PathId>) -> Option<Name> {
        let local = self.clock.reading(now);
        let (id, name) = match opening.carrier {
            Carrier::Stream => {
                let connection = self.endpoint.open(local, opening.to, &self.config)?;
                self.set_flow(connection, opening.flow);
                self.endpoint.share(connection, opening.share);
                (Name::Connection(connection), self.endpoint.flow(connection))
            }
            Carrier::Datagrams(size) => {
                let name = self.endpoint.open_datagrams(local, opening.to, size.as_u64() as u16, &self.config);
                self.endpoint.share_datagrams(name, opening.share);
                self.datagram_flow = opening.flow;
                self.by_name.insert(name, opening.flow);
                (Name::Datagrams(name), Some(name))
            }
        };
        if let Some(name) = name.filter(|_| opening.uses_share) {
            self.by_name.insert(name, opening.flow);
            self.endpoint.watch(local, name, Thresholds::default());
        }
        Some(id)
    }

    fn expect(&mut self, opening: &Opening<PathId>) {
        if let Carrier::Datagrams(_) = opening.carrier {
            self.datagram_flow = opening.flow;
        }
    }

    fn write(&mut self, now: Time, id: Name, bytes: u64) {
        self.tap.on_cause(Cause::Application);
        if let Name::Connection(connection) = id {
            self.endpoint.write(self.clock.reading(now), connection, bytes);
        }
    }

    fn finish(&mut self, now: Time, id: Name) {
        if let Name::Connection(connection) = id {
            self.endpoint.finish(self.clock.reading(now), connection);
        }
    }

    fn stop(&mut self, now: Time, id: Name) {
        let local = self.clock.reading(now);
        match id {
            Name::Connection(connection) => self.endpoint.finish_early(local, connection),
            Name::Datagrams(name) => {
                self.endpoint.close_datagrams(local, name);
                self.by_name.remove(&name);
            }
        }
    }

    #[inline]
    fn read(&mut self, now: Time, id: Name, read: Bytes) -> Option<(Bytes, bool)> {
        let Name::Connection(id) = id else { return None };
        let connection = self.endpoint.connection(id)?;
        let (total, ended) = (Bytes::new(connection.arrived()), connection.is_received());
        if total > read {
            self.endpoint.consume(self.clock.reading(now), id, (total - read).as_u64());
        }
        Some((total, ended))
    }

    fn queue_datagrams(&mut self, now: Time, id: Name, count: u64) {
        if let Name::Datagrams(name) = id {
            self.endpoint.queue_datagrams(self.clock.reading(now), name, count);
        }
    }

    fn send_datagram(&mut self, now: Time, id: Name) {
        if let Name::Datagrams(name) = id {
            self.endpoint.send_datagram_now(self.clock.reading(now), name);
        }
    }

    fn path(&self, now: Time, id: Name) -> Path {
        id.path(self.clock.reading(now), &self.endpoint)
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event<Name>> {
        if let Some(event) = self.endpoint.poll_event() {
            return Some(self.event(event));
        }
        if let Some(brought) = self.brought.take() {
            return Some(match brought {
                Brought::Stream(end) => Event::Readable(self.answering, end),
                Brought::Datagram(bytes) => Event::Datagram(self.answering, Bytes::new(bytes.into())),
            });
        }
        while let Some(change) = self.has_watchers().then(|| self.endpoint.poll_change()).flatten() {
            if let Some(&flow) = self.by_name.get(&change.flow) {
                let path = Path { share: change.share, smoothed_rtt: change.smoothed_rtt };
                return Some(Event::ShareChanged(flow, path));
            }
        }
        None
    }

    fn state(&self, id: Name) -> Option<SenderState> {
        id.state(&self.endpoint)
    }

    fn sent(&self, id: Name) -> Option<Sent> {
        id.sent(&self.endpoint)
    }
}

impl<T: Tap<AnyController, PathId>> PacketHost for OurHost<T> {
    type Packet = InTransit;
    type Shared = Pool;

    #[inline]
    fn receive(&mut self, now: Time, mut packet: InTransit, pool: &mut Pool) {
        let (from, payload) = (reverse(packet.path), packet.payload());
        self.answering = packet.flow;
        let local = self.clock.reading(now);
        if packet.write_header(&mut pool.header) {
            self.endpoint.receive(local, from, &pool.header, packet.ecn(), local);
            // The packet comes from the other end.
            let end = if is_forward(packet.path) { trace::End::Server } else { trace::End::Client };
            self.tap.on_received(
                Moment { at: now, local },
                (packet.flow, end),
                (&pool.header, packet.bytes(), packet.ecn()),
                &self.endpoint,
            );
            if packet.has_stream() {
                let end = if is_forward(packet.path) { End::Receiver } else { End::Sender };
                self.brought = Some(Brought::Stream(end));
            }
        } else {
            let delivered = match &packet.take_content() {
                Content::Message(message) => {
                    self.endpoint.receive_message(local, from, message, payload, packet.ecn()).is_some()
                }
                Content::Bare => true,
            };
            self.brought = delivered.then_some(Brought::Datagram(payload as u16));
        }
        pool.recycle(packet);
    }

    #[inline]
    fn transmit(&mut self, now: Time, pool: &mut Pool) -> Option<InTransit> {
        if !self.has_sent
            && self.has_watchers()
            && let Some(message) = self.message(pool)
        {
            return Some(message);
        }
        self.has_sent = true;
        let local = self.clock.reading(now);
        if let Some(envelope) = &self.endpoint.write_next(local, &mut pool.header) {
            // The first packet of an accepted connection answers the Syn that created it.
            if pool.header.kind == Kind::SynAck && self.answering != NONE {
                self.set_flow(envelope.connection, self.answering);
            }
            let flow = self.flow(envelope.connection);
            let packet = pool.packet(envelope, flow);
            let end = if is_forward(packet.path) { trace::End::Client } else { trace::End::Server };
            self.tap.on_sent(
                Moment { at: now, local },
                (flow, end),
                (&pool.header, envelope, packet.bytes()),
                &self.endpoint,
            );
            return Some(packet);
        }
        if let Some(message) = self.has_datagrams().then(|| self.message(pool)).flatten() {
            return Some(message);
        }
        (self.has_sent, self.answering) = (false, NONE);
        None
    }

    #[inline]
    fn deadline(&self) -> Time {
        self.clock.reached(self.endpoint.deadline())
    }

    fn on_deadline(&mut self, now: Time) {
        let local = self.clock.reading(now);
        self.endpoint.on_deadline(local);
        self.tap.on_deadline(Moment { at: now, local }, &self.endpoint);
    }
}
