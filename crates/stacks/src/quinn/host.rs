//! An endpoint of quinn as a host: each flow has a connection of its own, and on it one stream in both directions.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use bytes::BytesMut;
use quinn_proto::congestion::ControllerFactory;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, ConnectionId, ConnectionIdGenerator, DatagramEvent, Dir, EcnCodepoint,
    Endpoint, EndpointConfig, Event as QuinnEvent, ServerConfig, StreamEvent, StreamId, TimeSource, TransportConfig,
    VarInt,
};
use rampmeter_scenario::SenderState;
use rampmeter_scenario::port::{self, Event, Opening, PacketHost, Sent};
use rampmeter_scenario::stack::{Datagram, Peer, Setup};
use rampmeter_units::{Bytes, Duration, Ecn, Random, Time};
use rampmeter_workload::{Carrier, End};

use super::session::{NoKey, Sessions};

/// What is written at a time.
const CHUNK: [u8; 16 * 1024] = [0; 16 * 1024];

/// The address of the first path, 10.0.0.0, and the port of every host.
const FIRST: u32 = 10 << 24;
const PORT: u16 = 4433;

/// The bytes of IP and UDP headers.
const HEADERS: u64 = 28;

/// A flow's connection.
struct Flow {
    index: u32,
    connection: Connection,
    /// At the opener `Sender`.
    end: End,
    stream: Option<StreamId>,
    /// Bytes that the application has written, and that the stack has not taken.
    unwritten: u64,
    is_finishing: bool,
    /// Bytes of the stream that have been read, and whether that is all.
    read: u64,
    has_ended: bool,
    packets: u64,
}

/// The host.
pub(super) struct Host {
    endpoint: Endpoint,
    client: ClientConfig,
    /// The instant of time zero. The stack only compares instants.
    zero: Instant,
    flows: BTreeMap<ConnectionHandle, Flow>,
    handles: BTreeMap<u32, ConnectionHandle>,
    /// Datagrams of the endpoint itself.
    answers: VecDeque<Datagram>,
    events: VecDeque<Event<u32>>,
    /// Of the connections, when nothing is left to send.
    deadline: Time,
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

/// A clock that stands: only tokens, which nobody uses, have dates.
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
        let mut discovery = quinn_proto::MtuDiscoveryConfig::default();
        discovery.upper_bound(largest);
        transport.mtu_discovery_config(Some(discovery));
        transport.max_idle_timeout(None); // a flow may have nothing to send for minutes
        let transport = Arc::new(transport);

        let mut seed = [0; 32];
        seed.chunks_mut(8).for_each(|part| part.copy_from_slice(&draw(&mut random).to_be_bytes()));
        let mut config = EndpointConfig::new(Arc::new(NoKey));
        config.rng_seed(Some(seed));
        let ids = draw(&mut random);
        config.cid_generator(move || Box::new(Ids(Random::from_seed(ids))));

        let mut server = ServerConfig::new(Arc::new(Sessions), Arc::new(NoKey));
        server.transport_config(transport.clone()).time_source(Arc::new(NoDate));
        let mut client = ClientConfig::new(Arc::new(Sessions));
        let next = AtomicU64::new(draw(&mut random));
        let first_id = move || ConnectionId::new(&next.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        client.transport_config(transport).initial_dst_cid_provider(Arc::new(first_id));
        Self {
            endpoint: Endpoint::new(Arc::new(config), Some(Arc::new(server)), false, None),
            client,
            zero: zero(),
            flows: BTreeMap::new(),
            handles: BTreeMap::new(),
            answers: VecDeque::new(),
            events: VecDeque::new(),
            deadline: Time::MAX,
            buffer: Vec::new(),
        }
    }

    fn instant(&self, now: Time) -> Instant {
        self.zero + std::time::Duration::from_nanos(now.since(Time::ZERO).as_nanos())
    }

    fn flow(&mut self, id: u32) -> Option<&mut Flow> {
        self.flows.get_mut(self.handles.get(&id)?)
    }

    fn add(&mut self, handle: ConnectionHandle, connection: Connection, flow: u32, end: End) {
        let stream = None;
        let (unwritten, is_finishing, read, has_ended, packets) = (0, false, 0, false, 0);
        let new = Flow { index: flow, connection, end, stream, unwritten, is_finishing, read, has_ended, packets };
        self.flows.insert(handle, new);
        self.handles.insert(flow, handle);
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
            match event {
                QuinnEvent::Connected => {
                    let (id, end) = (flow.index, flow.end);
                    if end == End::Sender {
                        flow.stream = flow.connection.streams().open(Dir::Bi);
                    }
                    self.events.push_back(match end {
                        End::Sender => Event::Opened(id),
                        End::Receiver => Event::Accepted(id, id),
                    });
                }
                QuinnEvent::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                    flow.stream = flow.connection.streams().accept(Dir::Bi);
                    self.events.push_back(Event::Readable(flow.index, flow.end));
                }
                QuinnEvent::Stream(StreamEvent::Readable { .. }) => {
                    self.events.push_back(Event::Readable(flow.index, flow.end));
                }
                QuinnEvent::Stream(StreamEvent::Finished { .. } | StreamEvent::Stopped { .. })
                    if flow.end == End::Sender =>
                {
                    let sent = Box::new(flow.sent());
                    self.events.push_back(Event::Closed(flow.index, flow.index, sent));
                    flow.connection.close(at, VarInt::from_u32(0), bytes::Bytes::new());
                }
                QuinnEvent::ConnectionLost { .. } => {
                    let sent = Box::new(flow.sent());
                    self.events.push_back(Event::Closed(flow.index, flow.index, sent));
                }
                _ => {}
            }
        }
        flow.write();
        if flow.connection.is_drained() {
            let flow = flow.index;
            self.flows.remove(&handle);
            self.handles.remove(&flow);
        }
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

impl Flow {
    /// Gives the stack as much as it takes.
    fn write(&mut self) {
        let Some(stream) = self.stream else { return };
        let mut stream = self.connection.send_stream(stream);
        while self.unwritten > 0 {
            let chunk = &CHUNK[..CHUNK.len().min(self.unwritten as usize)];
            let Ok(taken) = stream.write(chunk) else { return };
            self.unwritten -= taken as u64;
        }
        if self.is_finishing {
            self.is_finishing = stream.finish().is_err();
        }
    }

    fn read(&mut self) {
        let Some(stream) = self.stream.filter(|_| !self.has_ended) else { return };
        let mut stream = self.connection.recv_stream(stream);
        let Ok(mut chunks) = stream.read(true) else { return };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => self.read += chunk.bytes.len() as u64,
                Ok(None) => {
                    self.has_ended = true;
                    break;
                }
                Err(_) => break,
            }
        }
        let _ = chunks.finalize(); // what it has to send is asked for afterwards
    }

    fn sent(&self) -> Sent {
        Sent { packets: self.packets, ..Sent::default() }
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
        if let Some(flow) = self.flow(id) {
            flow.unwritten = flow.unwritten.saturating_add(bytes);
            flow.write();
        }
    }

    fn finish(&mut self, _: Time, id: u32) {
        if let Some(flow) = self.flow(id) {
            flow.is_finishing = true;
            flow.write();
        }
    }

    fn stop(&mut self, now: Time, id: u32) {
        if let Some(flow) = self.flow(id) {
            flow.unwritten = 0;
        }
        self.finish(now, id);
    }

    fn read(&mut self, _: Time, id: u32, _: Bytes) -> Option<(Bytes, bool)> {
        let flow = self.flow(id)?;
        flow.read();
        Some((Bytes::new(flow.read), flow.has_ended))
    }

    fn poll_event(&mut self) -> Option<Event<u32>> {
        self.events.pop_front()
    }

    fn state(&self, id: u32) -> Option<SenderState> {
        let flow = self.flows.get(self.handles.get(&id)?)?;
        let stats = flow.connection.stats();
        Some(SenderState {
            window: Some(Bytes::new(stats.path.cwnd)),
            smoothed_rtt: Some(Duration::from_nanos(stats.path.rtt.as_nanos() as u64)),
            lost: stats.path.lost_packets,
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
        let handle = match self.endpoint.handle(at, address(peer), None, code, data, &mut self.buffer) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(known) = self.flows.get_mut(&handle) {
                    known.connection.handle_event(event);
                }
                Some(handle)
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
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
        for flow in self.flows.values_mut() {
            self.buffer.clear();
            let frames = flow.connection.stats().frame_tx.stream;
            let Some(transmit) = flow.connection.poll_transmit(at, 1, &mut self.buffer) else { continue };
            let has_stream = flow.connection.stats().frame_tx.stream > frames;
            flow.packets += u64::from(has_stream);
            return Some(Datagram {
                flow: flow.index,
                peer: peer(transmit.destination),
                contents: self.buffer[..transmit.size].to_vec(),
                // Without the headers of its frames, which the stack does not say.
                payload: if has_stream { transmit.size as u16 } else { 0 },
                ecn: ecn_of(transmit.ecn),
            });
        }
        let next = self.flows.values_mut().filter_map(|flow| flow.connection.poll_timeout()).min();
        self.deadline = next.map_or(Time::MAX, |at| {
            Time::ZERO + Duration::from_nanos(at.saturating_duration_since(self.zero).as_nanos() as u64)
        });
        None
    }

    fn deadline(&self) -> Time {
        self.deadline
    }

    fn on_deadline(&mut self, now: Time) {
        let at = self.instant(now);
        let due = |flow: &mut Flow| flow.connection.poll_timeout().is_some_and(|timeout| timeout <= at);
        let handles: Vec<_> = self.flows.iter_mut().filter_map(|(handle, flow)| due(flow).then_some(*handle)).collect();
        for handle in handles {
            if let Some(flow) = self.flows.get_mut(&handle) {
                flow.connection.handle_timeout(at);
            }
            self.settle(now, handle);
        }
    }
}
