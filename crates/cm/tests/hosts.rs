//! Tests of the communication between daemons of several hosts, which here are addresses of the loopback interface.
//!
//! ```text
//! program ── cm_send ──► daemon at 127.x.1.1 ──► (relay at 127.x.1.2) ──► daemon at 127.x.1.3 ──► program's UDP socket
//! ```

mod common;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use common::Running;
use common::relay::Relay;
use rampmeter_cm::daemon::{Carriage, Daemon, DaemonError, PeerStatus, Protocol, status};
use rampmeter_cm::{Client, Error, HEADER_BYTES, Id, Options};

const PORT: u16 = 2961;

/// Three addresses that no other test uses.
fn addresses() -> [IpAddr; 3] {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let net = NEXT.fetch_add(1, Ordering::Relaxed);
    // Other processes may run tests too.
    let [a, b, ..] = std::process::id().to_le_bytes();
    [1, 2, 3].map(|host| [127, a | 1, b ^ net, host].into())
}

fn over_udp(at: IpAddr) -> Protocol {
    Protocol { carriage: Carriage::Udp(PORT), address: Some(at), deliver: Vec::new() }
}

/// A program's socket.
fn program(at: IpAddr) -> UdpSocket {
    let socket = UdpSocket::bind((at, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    socket
}

fn port(socket: &UdpSocket) -> u16 {
    socket.local_addr().unwrap().port()
}

fn opened(client: &Client, to: IpAddr, port: u16) -> Id {
    client.open((to, port).into(), &Options::default()).unwrap()
}

/// A thread that sends datagrams with `cm_send` as long as there is room.
struct Flood {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    fn of(client: &Client, flow: Id) -> Self {
        let (client, stop) = (client.clone(), Arc::<AtomicBool>::default());
        let end = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                match client.send(flow, &[7; 1000]) {
                    Ok(()) => {}
                    Err(Error::Full) => drop(client.next(Some(rampmeter_units::Duration::from_millis(20)))),
                    Err(error) => panic!("{error}"),
                }
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_none_or(|ended| ended.is_ok()));
    }
}

/// The number of datagrams that arrive within `span`, and the sender of the last one.
fn arrivals(socket: &UdpSocket, span: Duration) -> (usize, Option<SocketAddr>) {
    let (end, mut count, mut from) = (Instant::now() + span, 0, None);
    let mut bytes = [0; 2000];
    while Instant::now() < end {
        if let Ok((length, sender)) = socket.recv_from(&mut bytes) {
            assert_eq!(length, 1000);
            (count, from) = (count + 1, Some(sender));
        }
    }
    (count, from)
}

/// Reads until `enough` is true.
fn await_condition(socket: &UdpSocket, what: &str, mut enough: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !enough() {
        assert!(Instant::now() < end, "{what} did not happen");
        arrivals(socket, Duration::from_millis(20));
    }
}

fn peer(running: &Running) -> Option<PeerStatus> {
    status(&running.path()).unwrap().peers.pop()
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Two daemons, and a path of 8 Mb/s and 20 ms between them.
struct Hosts {
    near: Running,
    far: Running,
    relay: Relay,
    addresses: [IpAddr; 3],
}

impl Hosts {
    fn new() -> Self {
        let addresses = addresses();
        let [near, middle, far] = addresses.map(|address| SocketAddr::from((address, PORT)));
        let relay = Relay::new(middle, near, far, 8_000_000, ms(10));
        let (near, far) = (Running::communicating(&over_udp(near.ip())), Running::communicating(&over_udp(far.ip())));
        Self { near, far, relay, addresses }
    }

    /// The address of the far host's programs as the near host sees it, and their real one.
    fn far(&self) -> (IpAddr, IpAddr) {
        (self.addresses[1], self.addresses[2])
    }
}

#[test]
fn answers_of_the_receivers_daemon_open_the_window() {
    let hosts = Hosts::new();
    let (there, real) = hosts.far();
    let (sender, receiver, socket) = (hosts.near.client(), hosts.far.client(), program(real));
    receiver.listen(port(&socket)).unwrap();
    let flow = opened(&sender, there, port(&socket));
    assert_eq!(sender.mtu(flow), Ok(1452), "there is room for the header");
    let before = sender.query(flow).unwrap().rate;
    let _flood = Flood::of(&sender, flow);
    let end = Instant::now() + ms(30_000);
    // Without answers fewer than 50 such packets arrive in the first two seconds, then one a second
    // (`without_a_remote_daemon_the_rate_ages`); 8 Mb/s are 940. How soon the window opens depends on the machine's load.
    let (from, after) = loop {
        let (count, from) = arrivals(&socket, ms(1000));
        let (state, peer) = (sender.query(flow).unwrap(), peer(&hosts.near).unwrap());
        println!("{count} packets in a second, {}, {} responses", state.rate, peer.responses);
        if count > 250 && state.rate > before.scale(10.0) && peer.responses > 30 {
            break (from, state);
        }
        assert!(Instant::now() < end, "{count} packets in the last second, {} after {before}: {peer:?}", state.rate);
    };
    assert_eq!(from.unwrap().ip(), real, "forwarded by its own daemon");
    assert!(after.srtt > rampmeter_units::Duration::from_millis(18), "{:?}", after.srtt);
    let peer = peer(&hosts.near).unwrap();
    assert_eq!((peer.present, peer.flows), (Some(true), 1));
    assert!(peer.probes >= peer.responses && peer.rtt_s > Some(0.018), "{peer:?}");
    assert_eq!(status(&hosts.far.path()).unwrap().senders, 1);
}

/// Sends packets of 1000 bytes from `socket` with headers until `is_enough`: as granted, or without requests.
fn send_with_headers(client: &Client, flow: Id, socket: &UdpSocket, is_enough: impl Fn() -> bool, requests: bool) {
    let send = || {
        let header = client.header(flow, 1000).unwrap();
        socket.send_to(&[&header.bytes[..], &[7; 1000]].concat(), header.to).unwrap();
        client.notify(flow, 1000).unwrap();
    };
    if requests {
        (0..4).for_each(|_| client.request(flow).unwrap());
    }
    while !is_enough() {
        let wait = rampmeter_units::Duration::from_millis(10);
        match client.next(Some(wait)).unwrap() {
            Some((_, rampmeter_cm::Event::Send { .. })) => {
                send();
                client.request(flow).unwrap();
            }
            None if !requests => send(),
            _ => {}
        }
    }
}

#[test]
fn the_loss_rate_of_a_programs_packets_is_that_of_the_path() {
    for requests in [true, false] {
        let hosts = Hosts::new();
        let (there, real) = hosts.far();
        let (sender, receiver, socket) = (hosts.near.client(), hosts.far.client(), program(real));
        receiver.listen(port(&socket)).unwrap();
        let (flow, own) = (opened(&sender, there, port(&socket)), program(hosts.addresses[0]));
        let first = sender.header(flow, 1000).unwrap();
        // The handshake takes 20 ms, and the call may take longer.
        assert_eq!(first.to.port(), if first.bytes.is_empty() { port(&socket) } else { PORT });
        assert_eq!(sender.header(flow, 1453), Err(Error::TooLarge));
        await_condition(&socket, "a handshake", || sender.header(flow, 1000).unwrap().bytes.len() == HEADER_BYTES);
        assert_eq!(sender.header(flow, 1000).unwrap().to, (there, PORT).into());
        hosts.relay.loss.store(80, Ordering::Relaxed);
        let counts = || [0, 1].map(|n| hosts.relay.others[n].load(Ordering::Relaxed));
        let end = Instant::now() + ms(60_000);
        let is_enough = || Instant::now() >= end || (counts()[0] >= 500 && counts()[1] >= 30);
        let (arrived, from) = std::thread::scope(|scope| {
            let arrived = scope.spawn(|| {
                let (mut arrived, mut from) = (0, None);
                while !is_enough() {
                    let (count, source) = arrivals(&socket, ms(1000));
                    (arrived, from) = (arrived + count, from.or(source));
                }
                (arrived + arrivals(&socket, ms(500)).0, from)
            });
            send_with_headers(&sender, flow, &own, is_enough, requests);
            arrived.join().unwrap()
        });
        let [delivered, dropped] = counts();
        let peer = peer(&hosts.near).unwrap();
        let lost = dropped as f64 / (delivered + dropped) as f64;
        let derived = peer.lost_bytes as f64 / (peer.delivered_bytes + peer.lost_bytes) as f64;
        println!("{delivered} packets delivered, {dropped} dropped: {lost:.3}, derived {derived:.3}, {peer:?}");
        assert_eq!(from.unwrap().ip(), real, "forwarded by its own daemon");
        assert!(delivered >= 500 && dropped >= 30, "{delivered}, {dropped}");
        // On a busy machine the receiver's socket may overflow.
        assert!(arrived as u64 * 10 >= delivered * 9, "{arrived} of {delivered}");
        // A probe or its response may be lost with the packets that it counts, and the last packets are open.
        assert!(derived > lost / 2.0 && derived < lost * 2.0, "{derived} and {lost}");
        assert!(peer.delivered_bytes > delivered * 1048 / 2 && peer.delivered_bytes <= delivered * 1048);
    }
}

#[test]
fn without_a_remote_daemon_the_rate_ages() {
    let [near, _, far] = addresses();
    let (running, socket) = (Running::communicating(&over_udp(near)), program(far));
    let client = running.client();
    let _flood = Flood::of(&client, opened(&client, far, port(&socket)));
    let (first, from) = arrivals(&socket, ms(2000));
    assert!((1..50).contains(&first), "the initial window, in slow start: {first}");
    assert_ne!(from.unwrap().port(), PORT);
    assert_eq!(peer(&running).unwrap().present, Some(false), "from the error queue");
    arrivals(&socket, ms(4500));
    let (aged, _) = arrivals(&socket, ms(2000));
    println!("{first} packets in the first two seconds, {aged} in the last two");
    assert!((1..=5).contains(&aged), "a packet a second: {aged}");
}

#[test]
fn datagrams_to_unopened_ports_have_no_header() {
    let [near, _, far] = addresses();
    let (near_daemon, far_daemon) = (Running::communicating(&over_udp(near)), Running::communicating(&over_udp(far)));
    let (sender, receiver) = (near_daemon.client(), far_daemon.client());
    let (private, public) = (program(far), program(far));
    let flow = opened(&sender, far, port(&private));
    sender.send(flow, &[7; 1000]).unwrap();
    assert_eq!(arrivals(&private, ms(500)).0, 1, "without a header");
    assert_eq!(status(&far_daemon.path()).unwrap().senders, 0, "a daemon without listening programs does not answer");
    // Now the daemon answers, but for another port.
    receiver.listen(port(&public)).unwrap();
    let _flood = Flood::of(&sender, opened(&sender, far, port(&public)));
    await_condition(&public, "a connection", || peer(&near_daemon).is_some_and(|peer| peer.responses > 5));
    sender.send(flow, &[7; 1000]).unwrap(); // refused
    await_condition(&public, "a refusal", || peer(&near_daemon).is_some_and(|peer| peer.flows == 1));
    sender.send(flow, &[7; 1000]).unwrap();
    let (count, from) = arrivals(&private, ms(2000));
    assert_eq!((count, from.unwrap().ip()), (1, near), "without a header again, and never through the daemon");
    assert!(arrivals(&public, ms(200)).0 > 0);
}

#[test]
fn random_packets_get_no_more_bytes_than_they_sent() {
    let [near, _, far] = addresses();
    let (running, socket) = (Running::communicating(&Protocol { deliver: vec![9], ..over_udp(far) }), program(near));
    let (mut random, mut sent, mut got) = (1_u32, 0, 0);
    let mut next = move || {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 16) as usize
    };
    let mut bytes = [0; 2000];
    for _ in 0..3000 {
        let length = next() % 60;
        bytes[..length].iter_mut().for_each(|byte| *byte = next() as u8);
        if length >= 12 && next() % 2 == 0 {
            // A message with a valid checksum.
            (bytes[0], bytes[1], bytes[2], bytes[3]) = (0x20 | (next() % 7) as u8, 17, 0, 0);
            let end = if bytes[0] == 0x20 { 12 } else { length };
            let words =
                bytes[..end].chunks(2).map(|two| u32::from(two[0]) << 8 | two.get(1).map_or(0, |b| u32::from(*b)));
            let sum: u32 = words.sum();
            let sum = (sum & 0xffff) + (sum >> 16);
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        socket.send_to(&bytes[..length], (far, PORT)).unwrap();
        sent += length;
    }
    while let Ok((length, _)) = socket.recv_from(&mut bytes) {
        got += length;
    }
    println!("{got} bytes for {sent}");
    assert!(got > 0 && got <= sent, "{got} bytes for {sent}");
    let status = status(&running.path()).unwrap();
    assert!(status.garbage > 1000 && status.senders <= 1, "{status:?}");
}

#[test]
fn daemons_communicate_over_raw_ip() {
    let [near, _, far] = addresses();
    let raw = |at| Protocol { carriage: Carriage::Raw, address: Some(at), deliver: Vec::new() };
    let directory = tempfile::tempdir().unwrap();
    let attempt = Daemon::bind(common::communicating(&directory.path().join("cm.sock"), &raw(near), &Arc::default()));
    if let Err(error @ DaemonError::CarrierFailed { .. }) = attempt {
        assert!(error.to_string().contains("CAP_NET_RAW"), "{error}");
        println!("daemons_communicate_over_raw_ip: SKIPPED, needs CAP_NET_RAW");
        return;
    }
    drop(attempt);
    let (near_daemon, mut far_daemon) = (Running::communicating(&raw(near)), Running::communicating(&raw(far)));
    let (sender, receiver, socket) = (near_daemon.client(), far_daemon.client(), program(far));
    receiver.listen(port(&socket)).unwrap();
    let flow = opened(&sender, far, port(&socket));
    assert_eq!(sender.mtu(flow), Ok(1460));
    for _ in 0..50 {
        sender.send(flow, &[7; 1000]).unwrap();
    }
    assert!(arrivals(&socket, ms(1000)).0 >= 45);
    let peer = peer(&near_daemon).unwrap();
    assert_eq!((peer.present, peer.address), (Some(true), (far, 0).into()));
    assert!(peer.responses > 0);
    far_daemon.stop();
    let unused = program(near);
    let own = opened(&sender, near, port(&unused));
    sender.send(own, &[7; 1000]).unwrap();
    assert_eq!(arrivals(&unused, ms(300)).0, 1);
}

#[test]
fn errors_name_the_invalid_address_or_port() {
    let [near, ..] = addresses();
    let running = Running::communicating(&over_udp(near));
    let directory = tempfile::tempdir().unwrap();
    let second = |protocol: &Protocol| {
        let options = common::communicating(&directory.path().join("cm.sock"), protocol, &Arc::default());
        Daemon::bind(options).unwrap_err().to_string()
    };
    assert!(second(&over_udp(near)).contains("--port 0"));
    assert!(second(&over_udp([192, 0, 2, 1].into())).contains("--listen"));
    let client = running.client();
    assert_eq!(client.listen(0), Err(Error::Invalid));
    assert_eq!(client.listen(PORT), Err(Error::Invalid), "messages in messages");
    assert_eq!(client.unlisten(5000), Err(Error::Invalid), "no program listens there");
    assert_eq!(client.hint(near, &[(5000, 1); 181]), Err(Error::Invalid));
}
