//! The limits of a server, against clients that do what no honest one does.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rampmeter_control::Algorithm;
use rampmeter_control::newreno::{Config as NewRenoConfig, NewReno};
use rampmeter_files::{ClientOptions, GetOptions, NetError, SERVICE, get};
use rampmeter_net::{Event, EventLoop, Host, HostId, Limits, Socket, default_transport};
use rampmeter_session::{Config as SessionConfig, KeyPair, Name, Purpose, SessionId, Sessions};
use rampmeter_testing::{Relay, RelayMode, noise};
use rampmeter_transport::{ConnectionId, Endpoint, EndpointConfig};
use rampmeter_units::{Bytes, Random, Time};

use crate::common::{TestServer, at_fixed_rate, client, fetch, identity, options};

fn purpose() -> Purpose {
    Purpose { service: SERVICE, name: Name::new("") }
}

/// A client that sends any bytes, and reads only if asked to.
struct RawClient {
    net: EventLoop<NewReno>,
    host: HostId,
    session: SessionId,
}

impl RawClient {
    fn new(server: SocketAddr) -> Self {
        let make = || NewReno::new(&NewRenoConfig::default(), Random::from_seed(1));
        let endpoint = Endpoint::new(EndpointConfig::default(), make, Random::from_seed(2));
        let own = KeyPair::generate(&mut Random::from_seed(3));
        let sessions = Sessions::new(SessionConfig::client(own, purpose()), Random::from_seed(4));
        let mut net = EventLoop::new(1500).unwrap();
        let mut host = Host::new(endpoint, sessions, Socket::connect(server).unwrap(), Limits::default());
        let session = host.connect(net.now(), server, Some(identity().public())).unwrap();
        let host = net.add(host).unwrap();
        Self { net, host, session }
    }

    /// Opens a connection and sends `bytes` on it.
    fn open(&mut self, bytes: &[u8]) -> ConnectionId {
        let now = self.net.now();
        let host = self.net.host_mut(self.host).unwrap();
        let id = host.open(now, self.session, &default_transport()).unwrap();
        host.write(now, id, bytes);
        id
    }

    /// Requests the file `f`, and runs until its first bytes are here.
    fn begin_get(&mut self) -> ConnectionId {
        let id = self.open(b"RMF4\0\x01\0\x01f\0\0\0\0\0\0\0\0");
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.read(id).is_empty() {
            assert!(Instant::now() < deadline, "nothing has arrived");
            self.run(Duration::from_millis(1));
        }
        id
    }

    /// Sends `count` openers of connections and does not answer the answers.
    fn send_openers(&mut self, count: usize) {
        let now = self.net.now();
        let host = self.net.host_mut(self.host).unwrap();
        let ids: Vec<_> = (0..count).map(|_| host.open(now, self.session, &default_transport()).unwrap()).collect();
        self.net.run_once(now).unwrap();
        let host = self.net.host_mut(self.host).unwrap();
        for id in ids {
            host.abort(now, id);
        }
        while self.net.poll_event().is_some() {}
    }

    /// Runs for `time`. Returns the connections that have ended.
    fn run(&mut self, time: Duration) -> usize {
        let until = Instant::now() + time;
        let mut closed = 0;
        while Instant::now() < until {
            let now = self.net.now();
            self.net.run_once(now + rampmeter_units::Duration::from_millis(20)).unwrap();
            while let Some((_, event)) = self.net.poll_event() {
                closed += usize::from(matches!(event, Event::Closed(..)));
            }
        }
        closed
    }

    fn read(&mut self, id: ConnectionId) -> Vec<u8> {
        let (now, mut bytes) = (self.net.now(), Vec::new());
        self.net.host_mut(self.host).unwrap().read(now, id, &mut bytes);
        bytes
    }
}

/// A greeting and a request for the file `f`.
const GET: &[u8] = b"RMF4\0\x01\0\x01f\0\0\0\0\0\0\0\0";

#[test]
fn a_client_that_takes_no_bytes_is_disconnected() {
    let from = tempfile::tempdir().unwrap();
    fs::write(from.path().join("f"), noise(20_000_000, 1)).unwrap();
    let server = TestServer::start(from.path(), |options| {
        options.max_idle = rampmeter_units::Duration::from_secs(1);
    });
    let mut raw = RawClient::new(server.address);
    raw.open(GET);
    raw.run(Duration::from_secs(4)); // it acknowledges until its window is full
    assert_eq!(server.next_served().ended, "aborted");
}

#[test]
fn one_address_leaves_places_for_others() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("f"), noise(3_000_000, 1)).unwrap();
    fs::write(from.path().join("small"), "s").unwrap();
    let server = TestServer::start(from.path(), |options| {
        at_fixed_rate("1 Mb/s")(options);
        options.max_clients = 4;
    });
    let mut greedy = RawClient::new(server.address);
    greedy.open(GET);
    greedy.run(Duration::from_millis(200));
    // Of 32 connections, 20 may be of one address. Few at a time: its openers beyond twenty replace each other.
    let (mut opened, mut refused) = (1, 0);
    let deadline = Instant::now() + Duration::from_secs(20);
    while opened < 60 || refused < opened - 20 {
        assert!(Instant::now() < deadline, "only {refused} of {opened} are refused");
        for _ in 0..if opened < 60 { 4 } else { 0 } {
            greedy.open(GET);
            opened += 1;
        }
        refused += greedy.run(Duration::from_millis(50));
    }
    let relay = Relay::start_at("127.0.0.2", server.address, RelayMode::Forward);
    let report = fetch(relay.address, "small", to.path()).unwrap();
    assert_eq!(report.complete, 1);
    // The greedy client takes its files for a minute or more, and counts as gone after ten seconds.
    assert!(report.seconds < 8.0, "it had a place at once, not after {} s", report.seconds);
}

#[test]
fn a_session_that_floods_with_openers_locks_nobody_out() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("f"), noise(1000, 1)).unwrap();
    let server = TestServer::start(from.path(), |_| {});
    let relay = Relay::start(server.address, RelayMode::Delay);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let flooding = scope.spawn(|| {
            let mut flood = RawClient::new(server.address);
            flood.open(b"");
            flood.run(Duration::from_millis(100)); // the session is established
            let (began, mut sent) = (Instant::now(), 0);
            while !stop.load(Ordering::Relaxed) {
                let due = began.elapsed().as_millis() as usize * 10; // 10 000 a second
                while sent < due {
                    flood.send_openers(50);
                    sent += 50;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            sent
        });
        std::thread::sleep(Duration::from_millis(500));
        let fetched = fetch(relay.address, "f", &to.path().join("f"));
        stop.store(true, Ordering::Relaxed);
        assert!(flooding.join().unwrap() >= 5000);
        assert_eq!(fetched.unwrap().complete, 1);
    });
}

/// Each of the large checks takes half a minute or more. They wait for each other, and not for another network's.
#[test]
fn hashing_for_one_network_leaves_a_place_for_others() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::File::create(from.path().join("f")).unwrap().set_len(64 << 30).unwrap();
    fs::write(from.path().join("small"), noise(1_000_000, 1)).unwrap();
    fs::write(to.path().join("small.part"), noise(900_000, 1)).unwrap();
    let server = TestServer::start(from.path(), |_| {});
    let mut greedy = RawClient::new(server.address);
    let check = [&b"RMF4\0\x01\0\x01f"[..], &(64u64 << 30).to_be_bytes(), &[7; 32]].concat();
    let large = [(); 8].map(|()| greedy.open(&check));
    greedy.run(Duration::from_millis(500));
    let relay = Relay::start_at("127.0.1.1", server.address, RelayMode::Forward);
    let report = fetch(relay.address, "small", to.path()).unwrap();
    assert_eq!(report.resumed_from, 900_000);
    assert!(report.seconds < 8.0, "{} s", report.seconds);
    // A welcome and the note that the server is busy.
    assert!(large.into_iter().all(|id| greedy.read(id).len() < 20), "these are not checked yet");
}

#[test]
fn a_megabyte_at_most_is_read_in_advance_of_a_client() {
    let from = tempfile::tempdir().unwrap();
    fs::File::create(from.path().join("f")).unwrap().set_len(20_000_000).unwrap();
    let server = TestServer::start(from.path(), at_fixed_rate("1 Mb/s"));
    let mut raw = RawClient::new(server.address);
    let id = raw.begin_get();
    raw.run(Duration::from_millis(500));
    let now = raw.net.now();
    raw.net.host_mut(raw.host).unwrap().abort(now, id);
    raw.run(Duration::from_millis(50)); // sends the reset
    let report = server.next_served();
    assert!((900_000..1_400_000).contains(&report.bytes), "{}", report.bytes);
}

/// A client that disappears: what was sent until then is as much as the send buffer holds.
#[test]
fn send_buffers_grow_with_the_path_while_there_is_memory() {
    let from = tempfile::tempdir().unwrap();
    fs::File::create(from.path().join("f")).unwrap().set_len(20_000_000).unwrap();
    let sent = |memory| {
        let server = TestServer::start(from.path(), |options| {
            at_fixed_rate("40 Mb/s")(options);
            options.memory = Bytes::new(memory);
            let peer_timeout = rampmeter_units::Duration::from_secs(1);
            options.limits = Limits { send_buffer: 64 * 1024, unsent: 64 * 1024, peer_timeout };
        });
        let mut raw = RawClient::new(server.address);
        raw.begin_get();
        drop(raw);
        server.next_served().bytes
    };
    let (least, most) = (sent(0), sent(1 << 20));
    assert!(least < 400_000, "64 kB, and two pieces of 128 kB: {least}");
    assert!((least * 3 / 2..1_500_000).contains(&most), "{most}");
}

/// All acknowledgements are late: a writer goes on as packets leave.
#[test]
fn writers_go_on_when_packets_leave() {
    let from = tempfile::tempdir().unwrap();
    fs::File::create(from.path().join("f")).unwrap().set_len(20_000_000).unwrap();
    let server = TestServer::start(from.path(), |options| {
        at_fixed_rate("40 Mb/s")(options);
        options.limits = Limits { unsent: 64 * 1024, ..options.limits };
    });
    let mut raw = RawClient::new(server.address);
    let id = raw.begin_get();
    std::thread::sleep(Duration::from_millis(400));
    let now = raw.net.now();
    raw.net.host_mut(raw.host).unwrap().abort(now, id);
    raw.run(Duration::from_millis(50)); // sends the reset
    let report = server.next_served();
    assert!(report.bytes > 600_000, "{}", report.bytes);
}

#[test]
fn a_file_larger_than_allowed_is_not_received() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("f"), noise(100_000, 1)).unwrap();
    let server = TestServer::start(from.path(), |_| {});
    let with = |max| GetOptions { max_size: Some(Bytes::new(max)), ..options(server.address, "f", to.path()) };
    let error = get(&with(99_999)).unwrap_err();
    assert!(matches!(error, NetError::TooLarge { size: 100_000, .. }), "{error}");
    assert!(error.to_string().contains("a larger size"), "{error}");
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
    assert_eq!(get(&with(100_000)).unwrap().complete, 1);
}

#[test]
fn all_of_many_clients_end_with_few_places() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("f"), noise(100_000, 1)).unwrap();
    let server = TestServer::start(from.path(), |options| options.max_clients = 8);
    std::thread::scope(|scope| {
        for n in 0..30 {
            let (address, to) = (server.address, to.path().join(n.to_string()));
            scope.spawn(move || fetch(address, "f", &to).unwrap());
        }
    });
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 30);
}

/// The relay stands for an address that a restarted server has again.
#[test]
fn a_retry_resumes_after_a_restart() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("f"), noise(3_000_000, 1)).unwrap();
    let first = TestServer::start(from.path(), at_fixed_rate("20 Mb/s"));
    let second = TestServer::start(from.path(), |_| {});
    let relay = Relay::start(first.address, RelayMode::Forward);
    let running = std::thread::spawn({
        let client = ClientOptions { retry: 2, ..client() };
        let options = GetOptions { client, ..options(relay.address, "f", &to.path().join("f")) };
        move || get(&options)
    });
    while fs::metadata(to.path().join("f.part")).map_or(0, |m| m.len()) < 200_000 {
        std::thread::sleep(Duration::from_millis(2));
    }
    relay.redirect(second.address);
    let report = running.join().unwrap().unwrap();
    assert!(report.resumed_from >= 200_000, "{report:?}");
    assert_eq!(fs::read(to.path().join("f")).unwrap(), noise(3_000_000, 1));
}

/// Sends 1200 handshakes a second from one address, with the cookies that the server asks for. Returns their number.
fn flood(server: SocketAddr, stop: &AtomicBool) -> usize {
    let socket = UdpSocket::bind("127.9.9.9:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let own = KeyPair::generate(&mut Random::from_seed(5));
    let mut sessions = Sessions::new(SessionConfig::client(own, purpose()), Random::from_seed(6));
    let (began, mut opened, mut sent) = (Instant::now(), Vec::new(), 0);
    while !stop.load(Ordering::Relaxed) {
        let now = Time::from_nanos(began.elapsed().as_nanos() as u64);
        while sent < now.as_nanos() / 833_333 {
            sent += 1;
            let id = sessions.open(now, server, Some(identity().public())).unwrap();
            sessions.seal(now, id, &mut Vec::new(), |bytes| {
                bytes.extend(b"\x11 no Syn");
                true
            });
            opened.push(id);
            if opened.len() > 500 {
                sessions.discard(opened.remove(0));
            }
        }
        let mut bytes = [0; 1500];
        while let Ok((len, from)) = socket.recv_from(&mut bytes) {
            sessions.receive(now, from, &mut bytes[..len]);
        }
        while let Some((to, datagram)) = sessions.poll_transmit() {
            let _ = socket.send_to(&datagram, to);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    opened.len()
}

#[test]
fn a_flood_of_handshakes_does_not_lock_out_another_network() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("f"), noise(1000, 1)).unwrap();
    let server = TestServer::start(directory.path(), |_| {});
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let flooding = scope.spawn(|| flood(server.address, &stop));
        std::thread::sleep(Duration::from_secs(2));
        for attempt in 0..3 {
            let (out, began) = (directory.path().join(format!("out {attempt}")), Instant::now());
            fetch(server.address, "f", &out).unwrap();
            let took = began.elapsed();
            assert!(took < Duration::from_secs(3), "attempt {attempt} took {took:?}");
        }
        stop.store(true, Ordering::Relaxed);
        assert!(flooding.join().unwrap() >= 500);
    });
}
