//! Hosts and their event loop, over loopback: what controllers observe, and many hosts in one thread.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rampmeter_control::fixed_rate::{Config as FixedConfig, FixedRate};
use rampmeter_control::stable::{Config as StableConfig, Stable};
use rampmeter_control::testing::Recorder;
use rampmeter_control::{Algorithm, AnyController, Arrival, Controller, Registry};
use rampmeter_net::{EndReason, Event, EventLoop, Host, HostId, Limits, Socket};
use rampmeter_session::{Clients, Config as SessionConfig, KeyPair, Name, Purpose, Service, Sessions};
use rampmeter_transport::{Config, ConnectionId, Endpoint, EndpointConfig};
use rampmeter_units::{Bytes, Duration, Ecn, Random};
use rampmeter_wire::{CmHeader, CmKind, CmMessage, Kind, Packet, Receipt, cm_encode, decode, encode};

/// The round-trip time that [`Recorder`] controllers assume.
const ROUND_TRIP: Duration = Duration::from_millis(100);

fn newreno() -> impl FnMut() -> AnyController + Send {
    let factory = Registry::default().factory("newreno", &toml::Table::new()).unwrap();
    move || factory(Random::from_seed(1))
}

fn listen(net: &mut EventLoop<AnyController>, config: &Config) -> (HostId, std::net::SocketAddr) {
    let accept = EndpointConfig { accept: Some(config.clone()), ..EndpointConfig::default() };
    let socket = Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_address().unwrap();
    let endpoint = Endpoint::new(accept, newreno(), Random::from_seed(2));
    (net.add(Host::in_clear(endpoint, socket, Limits::default())).unwrap(), address)
}

/// Handles the events of one of `listener`'s connections: discards the bytes and ends its own stream after the peer's.
fn sink(net: &mut EventLoop<AnyController>, host: HostId, id: ConnectionId, bytes: &mut Vec<u8>) {
    let now = net.now();
    let Some(host) = net.host_mut(host) else { return };
    host.read(now, id, bytes);
    if host.is_read_to_end(id) {
        host.finish(now, id);
    }
}

/// The arrivals reported to a fixed-rate controller for `bytes` bytes sent with `code`.
fn arrivals(bytes: usize, rate: &str, code: Ecn) -> Vec<Arrival> {
    let rate = rate.parse().unwrap();
    arrivals_with(move || FixedRate::new(&FixedConfig { rate }, Random::from_seed(3)), bytes, code)
}

/// The arrivals reported to the controller that `make` makes.
fn arrivals_with<C>(make: impl Fn() -> C + Send + 'static, bytes: usize, code: Ecn) -> Vec<Arrival>
where
    C: Controller + Send + 'static,
{
    let config = Config { ecn: code, ..Config::default() };
    let mut net = EventLoop::new(1250).unwrap();
    let (listener, address) = listen(&mut net, &config);
    let log = Arc::new(Mutex::new(Vec::new()));
    let logged = Arc::clone(&log);
    let make = move || {
        AnyController::External(Box::new(Recorder {
            controller: make(),
            arrivals: Arc::clone(&logged),
            rtt: Some(ROUND_TRIP),
        }))
    };
    let endpoint = Endpoint::new(EndpointConfig::default(), make, Random::from_seed(4));
    let mut host = Host::in_clear(endpoint, Socket::connect(address).unwrap(), Limits::default());
    let id = host.open_in_clear(net.now(), address, &config).unwrap();
    assert_eq!(host.write(net.now(), id, &vec![7; bytes]), bytes);
    host.finish(net.now(), id);
    let sender = net.add(host).unwrap();

    let mut received_bytes = Vec::new();
    let limit = net.now() + Duration::from_secs(20);
    let mut open = true;
    while open {
        assert!(net.now() < limit, "it never ended");
        net.run_once(limit).unwrap();
        while let Some((host, event)) = net.poll_event() {
            match event {
                Event::Readable(id) if host == listener => sink(&mut net, listener, id, &mut received_bytes),
                Event::Closed(_, ended, _) if host == sender => {
                    assert_eq!(ended, EndReason::Finished);
                    open = false;
                }
                _ => {}
            }
        }
    }
    assert_eq!(received_bytes, vec![7; bytes]);
    drop(net);
    Arc::into_inner(log).unwrap().into_inner().unwrap()
}

#[test]
fn a_controller_sees_codes_and_stamps_of_each_packet() {
    for code in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1] {
        let arrivals = arrivals(60_000, "40 Mb/s", code);
        assert!(arrivals.len() >= 40, "{}", arrivals.len());
        for arrival in &arrivals {
            assert_eq!(arrival.ecn, code);
            // Both ends read the same clock, so a packet arrives shortly after it left.
            let delay = arrival.one_way_delay();
            assert!((0..5_000_000_000).contains(&delay), "{delay} ns");
        }
        // The timestamps are the kernel's, not those of the reads: only packets that left together share one.
        let left_together = |pair: &[Arrival]| pair[0].sent_at == pair[1].sent_at;
        let is_later = |pair: &[Arrival]| pair[0].received_at < pair[1].received_at;
        assert!(arrivals.windows(2).all(|pair| is_later(pair) || left_together(pair)));
        assert!(arrivals.windows(2).filter(|pair| is_later(pair)).count() >= 10);
    }
}

#[test]
fn stable_tcp_sends_by_its_clamped_exponential_timer() {
    // Ten packets a round trip: in units of the mean gap, 10 ms, gaps are clamp(X, 0.25, 3) with X exponential with
    // mean k = 1.0273. 22% of them are 0.25, half at most k ln 2, 90% at most k ln 10, and their coefficient of
    // variation is 0.82. Even pacing would have 1 instead of each, and one burst a window 0. A busy machine delays some
    // packets and sends them together with the next ones: a long gap counts as 3, and the number of zero gaps is not
    // tested.
    let config = StableConfig { gain: 1e-6, initial_window: 10.0, soft_start_marks: 0, ..StableConfig::default() };
    let make = move || Stable::new(&config, Random::from_seed(3));
    let arrivals = arrivals_with(make, 480_000, Ecn::Ect0);
    let gap = |pair: &[Arrival]| pair[1].received_at.since(pair[0].received_at).as_secs_f64() / 0.010;
    let mut gaps: Vec<f64> = arrivals.windows(2).map(|pair| gap(pair).min(3.0)).collect();
    gaps.sort_by(f64::total_cmp);
    let n = gaps.len();
    let mean = gaps.iter().sum::<f64>() / n as f64;
    let variation = (gaps.iter().map(|gap| gap * gap).sum::<f64>() / n as f64 / (mean * mean) - 1.0).sqrt();
    let [low, median, high] = [n / 5, n / 2, 9 * n / 10].map(|place| gaps[place]);
    let shortest = gaps.iter().filter(|gap| (0.15..0.35).contains(*gap)).count() as f64 / n as f64;
    let summary =
        format!("{n} gaps: mean {mean}, variation {variation}, quantiles {low}, {median}, {high}, short {shortest}");
    assert!(n >= 400, "{summary}");
    assert!((0.85..1.25).contains(&mean), "{summary}");
    assert!((0.6..1.2).contains(&variation), "{summary}");
    assert!(shortest >= 0.08, "{summary}"); // 0.30
    assert!(low / median < 0.6, "{summary}"); // 0.36
    assert!((2.0..5.5).contains(&(high / median)), "{summary}"); // 3.32
}

#[test]
fn packets_that_arrive_together_are_reported_one_by_one() {
    const SENT: usize = 150_000; // more packets than the kernel returns at once
    let arrivals = arrivals(SENT, "10 Gb/s", Ecn::NotEct);
    let bytes: u64 = arrivals.iter().map(|arrival| arrival.bytes.as_u64()).sum();
    assert!(bytes >= SENT as u64, "{bytes} bytes in {} packets", arrivals.len());
}

#[test]
fn one_loop_drives_many_hosts() {
    let config = Config::default();
    let mut net = EventLoop::new(1250).unwrap();
    let (listener, address) = listen(&mut net, &config);
    let mut open = BTreeMap::new();
    for n in 0..100u8 {
        let endpoint = Endpoint::new(EndpointConfig::default(), newreno(), Random::from_seed(n.into()));
        let mut host = Host::in_clear(endpoint, Socket::connect(address).unwrap(), Limits::default());
        let id = host.open_in_clear(net.now(), address, &config).unwrap();
        host.write(net.now(), id, &vec![n; 20_000]);
        host.finish(net.now(), id);
        open.insert(net.add(host).unwrap(), n);
    }
    let mut received: BTreeMap<ConnectionId, Vec<u8>> = BTreeMap::new();
    let limit = net.now() + Duration::from_secs(60);
    while !open.is_empty() {
        assert!(net.now() < limit, "{} never ended", open.len());
        net.run_once(limit).unwrap();
        while let Some((host, event)) = net.poll_event() {
            match event {
                Event::Readable(id) if host == listener => {
                    sink(&mut net, listener, id, received.entry(id).or_default());
                }
                Event::Closed(_, ended, _) if host != listener => {
                    assert_eq!(ended, EndReason::Finished);
                    open.remove(&host);
                    assert!(net.remove(host).is_some());
                }
                _ => {}
            }
        }
    }
    assert_eq!(received.len(), 100);
    let mut values: Vec<_> = received.values().map(|bytes| (bytes.len(), bytes[0])).collect();
    values.sort_unstable();
    assert!(received.values().all(|bytes| bytes.iter().all(|&b| b == bytes[0])));
    assert_eq!(values, (0..100).map(|n| (20_000, n)).collect::<Vec<_>>());
}

#[test]
fn a_connection_survives_a_receiver_that_reads_slowly() {
    // A peer that does not respond would be given up after four timeouts of 20, 40, 80 and 160 ms.
    let config = Config {
        min_rto: Duration::from_millis(20),
        max_timeouts: 3,
        receive_window: Bytes::new(10_000),
        ..Config::default()
    };
    let mut net = EventLoop::new(1250).unwrap();
    let (listener, address) = listen(&mut net, &config);
    let endpoint = Endpoint::new(EndpointConfig::default(), newreno(), Random::from_seed(5));
    let mut host = Host::in_clear(endpoint, Socket::connect(address).unwrap(), Limits::default());
    let id = host.open_in_clear(net.now(), address, &config).unwrap();
    host.write(net.now(), id, &vec![1; 50_000]);
    host.finish(net.now(), id);
    let sender = net.add(host).unwrap();

    let (limit, reads_from) = (net.now() + Duration::from_secs(20), net.now() + Duration::from_millis(1500));
    let (mut received_bytes, mut readable) = (Vec::new(), None);
    loop {
        assert!(net.now() < limit, "it never ended");
        net.run_once(net.now() + Duration::from_millis(50)).unwrap();
        while let Some((host, event)) = net.poll_event() {
            match event {
                Event::Readable(id) if host == listener => readable = Some(id),
                Event::Closed(_, ended, _) if host == sender => {
                    assert_eq!(ended, EndReason::Finished);
                    assert_eq!(received_bytes.len(), 50_000);
                    return;
                }
                _ => {}
            }
        }
        if let Some(id) = readable.filter(|_| net.now() >= reads_from) {
            sink(&mut net, listener, id, &mut received_bytes);
        }
    }
}

#[test]
fn a_client_that_names_packets_it_has_not_received_is_reset() {
    let config = Config::default();
    let mut net = EventLoop::new(1250).unwrap();
    let (_, address) = listen(&mut net, &config);
    let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(address).unwrap();
    client.set_nonblocking(true).unwrap();
    let send = |packet: Packet| {
        let mut bytes = Vec::new();
        encode(&packet, &mut bytes);
        client.send(&bytes).unwrap();
    };
    send(Packet { kind: Kind::Syn, number: 1, window: 1 << 20, ..Packet::default() });
    let (limit, mut buffer) = (net.now() + Duration::from_secs(20), [0; 2000]);
    let (mut connection, mut ended, mut reset) = (0, None, false);
    while ended.is_none() || !reset {
        assert!(net.now() < limit, "{ended:?}, reset {reset}");
        net.run_once(net.now() + Duration::from_millis(10)).unwrap();
        while let Ok(len) = client.recv(&mut buffer) {
            let (packet, _) = decode(&buffer[..len]).unwrap();
            let header = Packet { connection: packet.number, acknowledgement: packet.sequence, ..Packet::default() };
            match packet.kind {
                Kind::SynAck => {
                    connection = packet.number;
                    send(Packet { window: 1 << 20, ..header });
                }
                Kind::Reset => reset = true,
                _ if packet.payload == 0 => {}
                _ => {
                    // The secret of the packet that arrived, for the one that was sent after it.
                    let mut lie = Packet { connection, window: 1 << 20, ..header };
                    lie.receipts.push(Receipt { number: packet.number + (1 << 8), ..Receipt::default() });
                    send(lie);
                }
            }
        }
        while let Some((host, event)) = net.poll_event() {
            let now = net.now();
            match event {
                Event::Accepted(id, _) => {
                    net.host_mut(host).unwrap().write(now, id, &vec![5; 1_000_000]);
                }
                Event::Closed(_, reason, _) => ended = Some(reason),
                _ => {}
            }
        }
    }
    assert_eq!(ended, Some(EndReason::FalseFeedback));
}

/// A host in clear, as of a scenario, is a Congestion Manager for others; a server on a real network is none.
#[test]
fn a_server_answers_no_messages_of_a_congestion_manager() {
    let mut syn = Vec::new();
    cm_encode(&CmMessage::Header(CmHeader::control(CmKind::Syn, 7)), &mut syn);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_millis(300))).unwrap();

    let mut net = EventLoop::new(1250).unwrap();
    let (_, in_clear) = listen(&mut net, &Config::default());
    socket.send_to(&syn, in_clear).unwrap();
    let until = net.now() + Duration::from_millis(200);
    while net.now() < until {
        net.run_once(until).unwrap();
    }
    assert!(socket.recv_from(&mut [0; 100]).is_ok(), "the message is valid");

    let own = KeyPair::generate(&mut Random::from_seed(3));
    let config = SessionConfig {
        clients: Clients::Anyone,
        ..SessionConfig::client(own, Purpose { service: Service(1), name: Name::new("") })
    };
    let sessions = Sessions::new(config, Random::from_seed(4));
    let endpoint = Endpoint::new(EndpointConfig::default(), newreno(), Random::from_seed(2));
    let sealed = Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    socket.send_to(&syn, sealed.local_address().unwrap()).unwrap();
    net.add(Host::new(endpoint, sessions, sealed, Limits::default())).unwrap();
    let until = net.now() + Duration::from_millis(200);
    while net.now() < until {
        net.run_once(until).unwrap();
    }
    let answer = socket.recv_from(&mut [0; 100]);
    assert!(answer.is_err(), "{answer:?}");
}
