//! An endpoint as a host: it passes datagrams, deadlines and events on between a world and the connections of its flows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use bytes::BytesMut;
use rampmeter_scenario::SenderState;
use rampmeter_scenario::port::{self, Event, Opening, PacketHost, Sent};
use rampmeter_scenario::stack::{Datagram, Peer, Setup};
use rampmeter_units::{Bytes, Duration, Ecn, Random, Time};
use rampmeter_workload::{Carrier, End};

use super::api;
use super::flow::{Flow, Progress};
use super::proto::congestion::ControllerFactory;
use super::proto::{
    ClientConfig, Connection, ConnectionHandle, ConnectionId, ConnectionIdGenerator, DatagramEvent, Dir, EcnCodepoint,
    Endpoint, EndpointConfig, Event as ConnectionEvent, MtuDiscoveryConfig, ServerConfig, StreamEvent, TimeSource,
    TransportConfig,
};
use super::session::{NoKey, Sessions};

/// The address of the first path, 10.0.0.0, and the port of every host.
const FIRST: u32 = 10 << 24;
const PORT: u16 = 4433;

/// The bytes of IP and UDP headers.
const HEADERS: u64 = 28;

/// The smallest IP packet: QUIC needs a payload of 1200 bytes (RFC 9000, section 14).
pub(super) const MIN_PACKET: u64 = 1200 + HEADERS;

/// A flow may have nothing to send for longer than the idle timeout of 30 s.
const KEEP_ALIVE: std::time::Duration = std::time::Duration::from_secs(10);

/// The host.
pub(super) struct Host {
    endpoint: Endpoint,
    client: ClientConfig,
    /// The instant of time zero. The stack only compares instants.
    zero: Instant,
    flows: BTreeMap<ConnectionHandle, Flow>,
    handles: BTreeMap<u32, ConnectionHandle>,
    /// The flows that were accepted here.
    known: BTreeSet<u32>,
    /// Connections that may have something to send, in turn.
    ready: VecDeque<ConnectionHandle>,
    deadlines: BTreeSet<(Instant, ConnectionHandle)>,
    /// Datagrams of the endpoint itself.
    answers: VecDeque<Datagram>,
    events: VecDeque<Event<u32>>,
    buffer: Vec<u8>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("flows", &self.handles).finish_non_exhaustive()
    }
}

/// Connection ids from the run's random numbers.
struct Ids(Random);

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&draw(&mut self.0).to_be_bytes())
    }

    fn cid_len(&self) -> usize {
        8
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}

/// A constant clock. Only address-validation tokens, which are not used, contain dates.
struct NoDate;

impl TimeSource for NoDate {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
}

impl Host {
    /// A host whose connections have this controller.
    pub(super) fn new(controller: Arc<dyn ControllerFactory + Send + Sync>, setup: Setup) -> Self {
        let Setup { packet, mut random } = setup;
        let mut transport = TransportConfig::default();
        transport.congestion_controller_factory(controller).enable_segmentation_offload(false);
        let largest = (packet.as_u64().saturating_sub(HEADERS)).clamp(1200, 1452) as u16;
        let mut discovery = MtuDiscoveryConfig::default();
        discovery.upper_bound(largest);
        transport.mtu_discovery_config(Some(discovery));
        transport.keep_alive_interval(Some(KEEP_ALIVE));
        let transport = Arc::new(transport);

        let mut seed = [0; 32];
        seed.chunks_mut(8).for_each(|part| part.copy_from_slice(&draw(&mut random).to_be_bytes()));
        let mut config = EndpointConfig::new(Arc::new(NoKey));
        config.rng_seed(Some(seed));
        let ids = draw(&mut random);
        api::set_ids(&mut config, move || Box::new(Ids(Random::from_seed(ids))));

        let mut server = ServerConfig::new(Arc::new(Sessions), Arc::new(NoKey));
        server.transport_config(transport.clone()).time_source(Arc::new(NoDate));
        let mut client = ClientConfig::new(Arc::new(Sessions));
        let next = AtomicU64::new(draw(&mut random));
        let first_id = move || ConnectionId::new(&next.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        client.transport_config(transport).initial_dst_cid_provider(Arc::new(first_id));
        Self {
            endpoint: api::endpoint(config, server),
            client,
            zero: zero(),
            flows: BTreeMap::new(),
            handles: BTreeMap::new(),
            known: BTreeSet::new(),
            ready: VecDeque::new(),
            deadlines: BTreeSet::new(),
            answers: VecDeque::new(),
            events: VecDeque::new(),
            buffer: Vec::new(),
        }
    }

    fn instant(&self, now: Time) -> Instant {
        self.zero + std::time::Duration::from_nanos(now.since(Time::ZERO).as_nanos())
    }

    fn add(&mut self, handle: ConnectionHandle, connection: Connection, index: u32, end: End) {
        self.flows.insert(handle, Flow::new(connection, index, end));
        self.handles.insert(index, handle);
        self.wake(handle);
    }

    /// The connection may have something to send, or another deadline.
    fn wake(&mut self, handle: ConnectionHandle) {
        if let Some(flow) = self.flows.get_mut(&handle).filter(|flow| !flow.is_ready) {
            flow.is_ready = true;
            self.ready.push_back(handle);
        }
    }

    /// The connection has nothing to send until its deadline.
    fn rest(&mut self, handle: ConnectionHandle) {
        let Some(flow) = self.flows.get_mut(&handle) else { return };
        flow.is_ready = false;
        flow.progress = api::progress(&mut flow.connection);
        let deadline = flow.connection.poll_timeout();
        if let Some(old) = std::mem::replace(&mut flow.deadline, deadline) {
            self.deadlines.remove(&(old, handle));
        }
        self.deadlines.extend(deadline.map(|at| (at, handle)));
        if flow.connection.is_drained() {
            self.remove(handle);
        }
    }

    fn remove(&mut self, handle: ConnectionHandle) {
        let Some(flow) = self.flows.remove(&handle) else { return };
        if let Some(deadline) = flow.deadline {
            self.deadlines.remove(&(deadline, handle));
        }
        if self.handles.get(&flow.index) == Some(&handle) {
            self.handles.remove(&flow.index);
        }
    }

    /// Passes events on between the endpoint, a connection and its application.
    fn settle(&mut self, now: Time, handle: ConnectionHandle) {
        let at = self.instant(now);
        let Some(flow) = self.flows.get_mut(&handle) else { return };
        loop {
            while let Some(event) = flow.connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(handle, event) {
                    flow.connection.handle_event(event);
                }
            }
            let Some(event) = flow.connection.poll() else { break };
            let (index, end) = (flow.index, flow.end);
            match event {
                ConnectionEvent::Connected => {
                    flow.stream = flow.connection.streams().open(Dir::Uni);
                    self.events.push_back(match end {
                        End::Sender => Event::Opened(index),
                        End::Receiver => Event::Accepted(index, index),
                    });
                }
                ConnectionEvent::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                    flow.connection.streams().accept(Dir::Uni);
                    self.events.push_back(Event::Readable(index, end));
                }
                ConnectionEvent::Stream(StreamEvent::Readable { .. }) => {
                    self.events.push_back(Event::Readable(index, end));
                }
                ConnectionEvent::Stream(StreamEvent::Finished { .. }) if end == End::Sender => {
                    self.events.extend(flow.close(at));
                }
                ConnectionEvent::ConnectionLost { .. } => self.events.extend(flow.closed()),
                _ => {}
            }
        }
        flow.write();
        self.wake(handle);
    }
}

/// The instant from which virtual time counts: any, because the stack only compares instants.
#[allow(clippy::disallowed_methods, reason = "there is no other way to make an `Instant`")]
fn zero() -> Instant {
    Instant::now()
}

fn draw(random: &mut Random) -> u64 {
    random.below(u64::MAX)
}

/// Random numbers that `random` gives a seed.
pub(super) fn seed(random: &mut Random) -> Random {
    Random::from_seed(draw(random))
}

fn address(peer: Peer) -> SocketAddr {
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::from(FIRST | peer), PORT))
}

fn peer(address: SocketAddr) -> Peer {
    match address {
        SocketAddr::V4(address) => u32::from(*address.ip()) & !FIRST,
        SocketAddr::V6(_) => unreachable!("hosts have the addresses of `address`"),
    }
}

fn ecn_of(code: Option<EcnCodepoint>) -> Ecn {
    match code {
        None => Ecn::NotEct,
        Some(EcnCodepoint::Ect0) => Ecn::Ect0,
        Some(EcnCodepoint::Ect1) => Ecn::Ect1,
        Some(EcnCodepoint::Ce) => Ecn::Ce,
    }
}

impl port::Host for Host {
    type Id = u32;
    type Address = Peer;

    fn open(&mut self, now: Time, opening: &Opening<Peer>) -> Option<u32> {
        if opening.carrier != Carrier::Stream {
            return None;
        }
        let at = self.instant(now);
        let (handle, connection) = self.endpoint.connect(at, self.client.clone(), address(opening.to), "host").ok()?;
        self.add(handle, connection, opening.flow, End::Sender);
        Some(opening.flow)
    }

    fn write(&mut self, _: Time, id: u32, bytes: u64) {
        let Some(&handle) = self.handles.get(&id) else { return };
        if let Some(flow) = self.flows.get_mut(&handle) {
            flow.unwritten = flow.unwritten.saturating_add(bytes);
            flow.write();
        }
        self.wake(handle);
    }

    fn finish(&mut self, _: Time, id: u32) {
        let Some(&handle) = self.handles.get(&id) else { return };
        if let Some(flow) = self.flows.get_mut(&handle) {
            flow.is_finishing = true;
            flow.write();
        }
        self.wake(handle);
    }

    /// Closes the connection: the stack cannot withdraw only what it has not sent.
    fn stop(&mut self, now: Time, id: u32) {
        let at = self.instant(now);
        let Some(&handle) = self.handles.get(&id) else { return };
        if let Some(flow) = self.flows.get_mut(&handle) {
            self.events.extend(flow.close(at));
        }
        self.settle(now, handle);
    }

    fn read(&mut self, _: Time, id: u32, _: Bytes) -> Option<(Bytes, bool)> {
        let &handle = self.handles.get(&id)?;
        let flow = self.flows.get_mut(&handle)?;
        flow.read();
        let read = (Bytes::new(flow.read), flow.has_ended);
        self.wake(handle); // it may grant the peer more
        Some(read)
    }

    fn poll_event(&mut self) -> Option<Event<u32>> {
        self.events.pop_front()
    }

    fn state(&self, id: u32) -> Option<SenderState> {
        let Progress { window, rtt, lost, .. } = self.flows.get(self.handles.get(&id)?)?.progress;
        Some(SenderState {
            window: Some(Bytes::new(window)),
            smoothed_rtt: Some(Duration::from_nanos(rtt.as_nanos() as u64)),
            lost,
            ..SenderState::default()
        })
    }

    fn sent(&self, id: u32) -> Option<Sent> {
        Some(self.flows.get(self.handles.get(&id)?)?.sent())
    }
}

impl PacketHost for Host {
    type Packet = Datagram;
    type Shared = ();

    fn receive(&mut self, now: Time, datagram: Datagram, (): &mut ()) {
        let (at, Datagram { flow, peer, contents, ecn, .. }) = (self.instant(now), datagram);
        let (code, data) = (EcnCodepoint::from_bits(ecn.bits()), BytesMut::from(&contents[..]));
        self.buffer.clear();
        let mut answer = None;
        let handle = match api::handle(&mut self.endpoint, at, address(peer), code, data, &mut self.buffer) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(known) = self.flows.get_mut(&handle) {
                    known.connection.handle_event(event);
                }
                Some(handle)
            }
            Some(DatagramEvent::NewConnection(incoming)) if self.known.contains(&flow) => {
                self.endpoint.ignore(incoming); // late: its connection has ended
                None
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                self.known.insert(flow);
                match self.endpoint.accept(incoming, at, &mut self.buffer, None) {
                    Ok((handle, connection)) => {
                        self.add(handle, connection, flow, End::Receiver);
                        Some(handle)
                    }
                    Err(error) => {
                        answer = error.response;
                        None
                    }
                }
            }
            Some(DatagramEvent::Response(response)) => {
                answer = Some(response);
                None
            }
            None => None,
        };
        if let Some(answer) = answer {
            let contents = self.buffer[..answer.size].to_vec();
            self.answers.push_back(Datagram { flow, peer, contents, payload: 0, ecn: ecn_of(answer.ecn) });
        }
        if let Some(handle) = handle {
            self.settle(now, handle);
        }
    }

    fn transmit(&mut self, now: Time, (): &mut ()) -> Option<Datagram> {
        if let Some(answer) = self.answers.pop_front() {
            return Some(answer);
        }
        let at = self.instant(now);
        while let Some(&handle) = self.ready.front() {
            self.buffer.clear();
            let flow = self.flows.get_mut(&handle);
            let transmit =
                flow.and_then(|flow| Some((api::poll_transmit(&mut flow.connection, at, &mut self.buffer)?, flow)));
            let Some((transmit, flow)) = transmit else {
                self.ready.pop_front();
                self.rest(handle);
                continue;
            };
            let frames = flow.progress.stream_frames;
            flow.progress = api::progress(&mut flow.connection);
            let has_stream = frames < flow.progress.stream_frames;
            flow.packets += u64::from(has_stream);
            let datagram = Datagram {
                flow: flow.index,
                peer: peer(transmit.destination),
                contents: self.buffer[..transmit.size].to_vec(),
                // With the headers of its frames, whose length the stack does not report.
                payload: if has_stream { transmit.size as u16 } else { 0 },
                ecn: ecn_of(transmit.ecn),
            };
            self.ready.rotate_left(1);
            return Some(datagram);
        }
        None
    }

    fn deadline(&self) -> Time {
        self.deadlines.first().map_or(Time::MAX, |(at, _)| {
            Time::ZERO + Duration::from_nanos(at.saturating_duration_since(self.zero).as_nanos() as u64)
        })
    }

    fn on_deadline(&mut self, now: Time) {
        let at = self.instant(now);
        while let Some(&(due, handle)) = self.deadlines.first().filter(|(due, _)| *due <= at) {
            self.deadlines.remove(&(due, handle));
            if let Some(flow) = self.flows.get_mut(&handle) {
                flow.deadline = None;
                flow.connection.handle_timeout(at);
            }
            self.settle(now, handle);
        }
    }
}
