//! Tunnels over loopback: TCP connections of programs through a client and a server.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rampmeter_net::tunnel::{
    Allow, Event, Forward, OnEvent, Target, TunnelClient, TunnelError, TunnelOptions, TunnelServer, TunnelServerOptions,
};
use rampmeter_net::{ClientOptions, ServerOptions};
use rampmeter_session::{Clients, KeyPair, PublicKey};
use rampmeter_units::Stream as Random;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::common::{Relay, RelayMode, noise};

const SECONDS: Duration = Duration::from_secs(20);

fn key(seed: u64) -> KeyPair {
    KeyPair::generate(&mut Random::from_seed(seed))
}

const SERVER: u64 = 1;
const CLIENT: u64 = 2;

fn server_key() -> PublicKey {
    key(SERVER).public()
}

/// Something that runs until it is dropped, and what it has reported.
struct Running {
    addresses: Vec<SocketAddr>,
    events: Arc<Mutex<Vec<String>>>,
    stop: Arc<Notify>,
    task: Option<tokio::task::JoinHandle<()>>,
}

impl Running {
    fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    async fn stop(mut self) {
        self.stop.notify_one();
        if let Some(task) = self.task.take() {
            timeout(SECONDS, task).await.unwrap().unwrap();
        }
    }

    /// Waits for an event with this text.
    async fn reports(&self, text: &str) -> String {
        let found = async {
            loop {
                let events = self.events.lock().unwrap().clone();
                if let Some(event) = events.into_iter().find(|event| event.contains(text)) {
                    return event;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(SECONDS, found).await.unwrap_or_else(|_| panic!("no event has {text:?}: {:?}", self.events))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}

fn recorder() -> (Arc<Mutex<Vec<String>>>, OnEvent) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&events);
    (events, Arc::new(move |event: &Event| kept.lock().unwrap().push(event.to_string())))
}

fn server(at: SocketAddr, allow: &[&str], change: impl FnOnce(&mut TunnelServerOptions)) -> Running {
    let (events, on_event) = recorder();
    let mut options = TunnelServerOptions {
        server: ServerOptions {
            address: at,
            identity: key(SERVER),
            clients: Clients::Listed(BTreeSet::from([key(CLIENT).public()])),
            ..ServerOptions::default()
        },
        allow: Allow::read(allow.iter().copied()).unwrap(),
        allow_listen: Allow::default(),
        on_event,
    };
    change(&mut options);
    let server = TunnelServer::bind(options).unwrap();
    let (addresses, stop) = (vec![server.address()], Arc::new(Notify::new()));
    let stopped = Arc::clone(&stop);
    let task = tokio::spawn(async move { server.run(stopped.notified()).await });
    Running { addresses, events, stop, task: Some(task) }
}

fn any_server(allow: &[&str]) -> Running {
    server("127.0.0.1:0".parse().unwrap(), allow, |_| {})
}

async fn client(server: SocketAddr, change: impl FnOnce(&mut TunnelOptions)) -> Running {
    let (events, on_event) = recorder();
    let mut options = TunnelOptions {
        server: format!("{server}?key={}", server_key()),
        client: ClientOptions { identity: Some(key(CLIENT)), ..ClientOptions::default() },
        server_controller: None,
        local: Vec::new(),
        remote: Vec::new(),
        socks: Vec::new(),
        exit_on_forward_failure: false,
        max_connections: 64,
        on_event,
    };
    change(&mut options);
    let client = TunnelClient::bind(options).await.unwrap();
    let (addresses, stop) = (client.addresses(), Arc::new(Notify::new()));
    let stopped = Arc::clone(&stop);
    let task = tokio::spawn(async move {
        let _ = client.run(stopped.notified()).await;
    });
    Running { addresses, events, stop, task: Some(task) }
}

/// A client that forwards one port to `to`.
async fn forwarding(server: SocketAddr, to: SocketAddr) -> Running {
    let forward: Forward = format!("0:127.0.0.1:{}", to.port()).parse().unwrap();
    client(server, |options| options.local = vec![forward]).await
}

/// A destination that sends back all that it gets, then its end.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = tcp.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
                let _ = to.shutdown().await;
            });
        }
    });
    address
}

async fn exchange(tcp: &mut TcpStream, bytes: &[u8]) {
    let mut back = vec![0; bytes.len()];
    let (mut from, mut to) = tcp.split();
    let both = async { tokio::try_join!(to.write_all(bytes), from.read_exact(&mut back)) };
    timeout(SECONDS, both).await.unwrap().unwrap();
    assert!(back == bytes);
}

#[tokio::test]
async fn connections_carry_bytes_and_half_closes() {
    let echo = echo().await;
    let server = any_server(&["127.0.0.1:*"]);
    let tunnel = forwarding(server.address(), echo).await;
    let mut first = TcpStream::connect(tunnel.address()).await.unwrap();
    exchange(&mut first, &noise(2_000_000, 1)).await;
    let mut others = Vec::new();
    for number in 0..20 {
        let at = tunnel.address();
        others.push(tokio::spawn(async move {
            let mut tcp = TcpStream::connect(at).await.unwrap();
            exchange(&mut tcp, &noise(20_000, number)).await;
        }));
    }
    for other in others {
        other.await.unwrap();
    }
    // The echo gets the end, and its last bytes still arrive.
    first.write_all(b"last").await.unwrap();
    first.shutdown().await.unwrap();
    let mut rest = Vec::new();
    timeout(SECONDS, first.read_to_end(&mut rest)).await.unwrap().unwrap();
    assert_eq!(rest, b"last");
    tunnel.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn resets_are_carried_in_both_directions() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = any_server(&["127.0.0.1:*"]);
    let tunnel = forwarding(server.address(), listener.local_addr().unwrap()).await;
    for resets_here in [true, false] {
        let mut ours = TcpStream::connect(tunnel.address()).await.unwrap();
        ours.write_all(b"x").await.unwrap();
        let (mut theirs, _) = timeout(SECONDS, listener.accept()).await.unwrap().unwrap();
        assert_eq!(theirs.read_u8().await.unwrap(), b'x');
        let (gone, mut left) = if resets_here { (ours, theirs) } else { (theirs, ours) };
        gone.set_zero_linger().unwrap();
        drop(gone);
        let error = timeout(SECONDS, left.read_u8()).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{resets_here}");
    }
}

#[tokio::test]
async fn a_connection_that_nobody_reads_does_not_delay_others() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stuck = listener.local_addr().unwrap();
    let echo = echo().await;
    let server = any_server(&["127.0.0.1:*"]);
    let forwards = [stuck, echo].map(|to| format!("0:127.0.0.1:{}", to.port()).parse().unwrap());
    let tunnel = client(server.address(), |options| options.local = forwards.to_vec()).await;
    let mut bulk = TcpStream::connect(tunnel.addresses[0]).await.unwrap();
    let mut sent = 0;
    while let Ok(count) = timeout(Duration::from_secs(1), bulk.write(&[0; 16 * 1024])).await {
        sent += count.unwrap();
        assert!(sent < 40_000_000, "what is in memory has a bound");
    }
    let mut quick = TcpStream::connect(tunnel.addresses[1]).await.unwrap();
    exchange(&mut quick, b"quick").await;
}

async fn socks(at: SocketAddr, request: &[u8]) -> (TcpStream, [u8; 10]) {
    let mut tcp = TcpStream::connect(at).await.unwrap();
    tcp.write_all(&[5, 1, 0]).await.unwrap();
    let mut method = [0; 2];
    tcp.read_exact(&mut method).await.unwrap();
    assert_eq!(method, [5, 0]);
    tcp.write_all(request).await.unwrap();
    let mut answer = [0; 10];
    timeout(SECONDS, tcp.read_exact(&mut answer)).await.unwrap().unwrap();
    (tcp, answer)
}

fn to_ip(ip: [u8; 4], port: u16) -> Vec<u8> {
    [&[5, 1, 0, 1], &ip[..], &port.to_be_bytes()].concat()
}

#[tokio::test]
async fn socks_connects_by_address_and_by_name() {
    let echo = echo().await;
    let server = any_server(&["127.0.0.1:*", "localhost:*"]);
    let tunnel =
        client(server.address(), |options| options.socks = vec![Target { host: "127.0.0.1".into(), port: 0 }]).await;
    let named = [&b"\x05\x01\x00\x03\x09localhost"[..], &echo.port().to_be_bytes()].concat();
    for request in [to_ip([127, 0, 0, 1], echo.port()), named] {
        let (mut tcp, answer) = socks(tunnel.address(), &request).await;
        assert_eq!(answer[1], 0);
        exchange(&mut tcp, b"through").await;
    }
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    assert_eq!(socks(tunnel.address(), &to_ip([127, 0, 0, 1], unused.port())).await.1[1], 5);
    assert_eq!(socks(tunnel.address(), &to_ip([127, 0, 0, 2], echo.port())).await.1[1], 2);
    tunnel.reports("no connection to 127.0.0.2").await;
    let udp = socks(tunnel.address(), &[5, 3, 0, 1, 127, 0, 0, 1, 0, 1]).await.1;
    assert_eq!(udp[1], 7, "UDP is not carried");
}

/// What a program gets that sends `request` to the port, without what follows.
async fn http(at: SocketAddr, request: &str) -> (TcpStream, String) {
    let mut tcp = TcpStream::connect(at).await.unwrap();
    tcp.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(timeout(SECONDS, tcp.read_u8()).await.unwrap().unwrap());
    }
    (tcp, String::from_utf8(answer).unwrap())
}

#[tokio::test]
async fn the_port_of_socks_understands_http_connect() {
    let echo = echo().await;
    let server = any_server(&["127.0.0.1:*", "localhost:*"]);
    let tunnel =
        client(server.address(), |options| options.socks = vec![Target { host: "127.0.0.1".into(), port: 0 }]).await;
    let connect = |to: &str| format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n");
    for host in ["127.0.0.1", "localhost"] {
        let early = format!("{}early", connect(&format!("{host}:{}", echo.port())));
        let (mut tcp, answer) = http(tunnel.address(), &early).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let mut back = [0; 5];
        timeout(SECONDS, tcp.read_exact(&mut back)).await.unwrap().unwrap();
        assert_eq!(&back, b"early", "what follows the request at once is carried");
        exchange(&mut tcp, &noise(100_000, 5)).await;
    }
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for (request, status, reason) in [
        (connect(&unused.to_string()), "502 Bad Gateway", "refuses"),
        (connect(&format!("127.0.0.2:{}", echo.port())), "403 Forbidden", "--allow"),
        (connect("nowhere"), "400 Bad Request", "HOST:PORT"),
        ("GET / HTTP/1.1\r\n\r\n".into(), "400 Bad Request", "only CONNECT"),
    ] {
        let (mut tcp, answer) = http(tunnel.address(), &request).await;
        let mut body = String::new();
        timeout(SECONDS, tcp.read_to_string(&mut body)).await.unwrap().unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}: {answer}");
        assert!(body.contains(reason) && body.lines().count() == 1, "{request}: {body}");
    }
}

/// A client that carries one connection to `to`: what the program writes and reads, and how it ends.
async fn carrying(
    server: SocketAddr,
    to: SocketAddr,
) -> (tokio::io::DuplexStream, tokio::task::JoinHandle<Result<(), TunnelError>>) {
    let (_, on_event) = recorder();
    let options = TunnelOptions {
        server: format!("{server}?key={}", server_key()),
        client: ClientOptions { identity: Some(key(CLIENT)), ..ClientOptions::default() },
        server_controller: None,
        local: Vec::new(),
        remote: Vec::new(),
        socks: Vec::new(),
        exit_on_forward_failure: false,
        max_connections: 1,
        on_event,
    };
    let client = TunnelClient::bind(options).await.unwrap();
    let (program, tunnel) = tokio::io::duplex(1 << 16);
    let (input, output) = tokio::io::split(tunnel);
    let to = to.to_string().parse().unwrap();
    (program, tokio::spawn(client.carry(to, input, output, std::future::pending())))
}

#[tokio::test]
async fn one_connection_is_carried_and_its_end_ends_the_client() {
    let echo = echo().await;
    let server = any_server(&["127.0.0.1:*"]);
    let (program, ended) = carrying(server.address(), echo).await;
    let (mut from, mut to) = tokio::io::split(program);
    let (sent, mut back) = (noise(300_000, 6), Vec::new());
    let writing = async {
        to.write_all(&sent).await?;
        to.shutdown().await // the destination still sends
    };
    timeout(SECONDS, async { tokio::try_join!(writing, from.read_to_end(&mut back)) }).await.unwrap().unwrap();
    assert!(back == sent);
    timeout(SECONDS, ended).await.unwrap().unwrap().unwrap();

    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for (to, reason) in [(unused, "refuses"), (SocketAddr::from(([127, 0, 0, 2], echo.port())), "--allow")] {
        let (_program, ended) = carrying(server.address(), to).await;
        let error = timeout(SECONDS, ended).await.unwrap().unwrap().unwrap_err();
        assert!(matches!(error, TunnelError::NoConnection(..)) && error.to_string().contains(reason), "{error}");
    }
    // A destination that resets its connection.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (mut program, ended) = carrying(server.address(), listener.local_addr().unwrap()).await;
    program.write_all(b"hello").await.unwrap();
    let (mut tcp, _) = timeout(SECONDS, listener.accept()).await.unwrap().unwrap();
    tcp.read_exact(&mut [0; 5]).await.unwrap();
    tcp.set_zero_linger().unwrap();
    drop(tcp);
    let error = timeout(SECONDS, ended).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(error, TunnelError::NoConnection(..)), "what has arrived must not look complete: {error}");
}

#[tokio::test]
async fn a_client_may_end_if_the_server_does_not_listen() {
    let at = "127.0.0.1:0".parse().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let _taken = TcpListener::bind(taken).await.unwrap();
    let allowed = Allow::read(["127.0.0.1:*"]).unwrap();
    let server = server(at, &["public:443"], |options| options.allow_listen = allowed);
    for listen in [taken.to_string(), "127.0.0.2:0".to_owned()] {
        for exits in [true, false] {
            let forward: Forward = format!("{listen}:127.0.0.1:9").parse().unwrap();
            let tunnel = client(server.address(), |options| {
                options.remote = vec![forward];
                options.exit_on_forward_failure = exits;
            });
            let mut tunnel = tunnel.await;
            if exits {
                timeout(SECONDS, tunnel.task.take().unwrap()).await.unwrap().unwrap();
            } else {
                tunnel.reports(&format!("-R {listen}: ")).await;
                assert!(!tunnel.task.as_ref().unwrap().is_finished());
            }
        }
    }
}

#[tokio::test]
async fn destinations_that_are_not_allowed_are_refused() {
    let echo = echo().await;
    let server = any_server(&["public:*", "example.org:443"]);
    let tunnel = forwarding(server.address(), echo).await;
    let mut tcp = TcpStream::connect(tunnel.address()).await.unwrap();
    assert!(timeout(SECONDS, tcp.read_u8()).await.unwrap().is_err());
    assert!(server.reports("no connection to 127.0.0.1").await.contains(&key(CLIENT).public().to_string()));
    assert!(tunnel.reports("--allow").await.contains("127.0.0.1"));
}

#[tokio::test]
async fn the_server_listens_where_that_is_allowed() {
    let echo = echo().await;
    let at = "127.0.0.1:0".parse().unwrap();
    let allowed = Allow::read(["127.0.0.1:*"]).unwrap();
    let server = server(at, &["public:443"], |options| options.allow_listen = allowed);
    let forwards = [format!("0:127.0.0.1:{}", echo.port()), format!("127.0.0.2:0:127.0.0.1:{}", echo.port())];
    let remote: Vec<Forward> = forwards.iter().map(|forward| forward.parse().unwrap()).collect();
    let tunnel = client(server.address(), |options| options.remote = remote).await;
    let line = tunnel.reports("the server listens on").await;
    let port = line.split(" for ").next().unwrap().rsplit(':').next().unwrap().parse::<u16>().unwrap();
    tunnel.reports("-R 127.0.0.2:0: the server allows no listening there").await;
    let mut tcp = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    exchange(&mut tcp, &noise(100_000, 4)).await;
    // Its listeners end with the client.
    tunnel.stop().await;
    let closed = async { while TcpStream::connect(("127.0.0.1", port)).await.is_ok() {} };
    timeout(SECONDS, closed).await.unwrap();
}

/// The error with which reading ends.
async fn read_to_error(tcp: &mut TcpStream) -> ErrorKind {
    let mut bytes = vec![0; 1 << 16];
    let read = async {
        loop {
            match tcp.read(&mut bytes).await {
                Ok(0) => panic!("what has arrived looks complete"),
                Ok(_) => {}
                Err(error) => return error.kind(),
            }
        }
    };
    timeout(SECONDS, read).await.unwrap()
}

#[tokio::test]
async fn the_end_of_a_tunnel_resets_its_connections() {
    for ends_at_client in [true, false] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = any_server(&["127.0.0.1:*"]);
        let tunnel = forwarding(server.address(), listener.local_addr().unwrap()).await;
        let mut program = TcpStream::connect(tunnel.address()).await.unwrap();
        let (mut destination, _) = listener.accept().await.unwrap();
        for tcp in [&mut program, &mut destination] {
            tcp.write_all(&noise(50_000, 7)).await.unwrap();
        }
        for tcp in [&mut program, &mut destination] {
            tcp.read_exact(&mut vec![0; 50_000]).await.unwrap();
        }
        if ends_at_client {
            tunnel.stop().await;
        } else {
            server.stop().await;
        }
        for tcp in [&mut program, &mut destination] {
            assert_eq!(read_to_error(tcp).await, ErrorKind::ConnectionReset, "the client ends: {ends_at_client}");
        }
    }
}

/// As after a restart of a client that was killed, whose session at the server goes on for a minute.
#[tokio::test]
async fn a_listener_at_the_server_is_asked_for_until_its_port_is_free() {
    let (echo, at) = (echo().await, "127.0.0.1:0".parse().unwrap());
    let taken = TcpListener::bind(at).await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let allowed = Allow::read(["127.0.0.1:*"]).unwrap();
    let server = server(at, &["public:443"], |options| options.allow_listen = allowed);
    let forward: Forward = format!("{port}:127.0.0.1:{}", echo.port()).parse().unwrap();
    let tunnel = client(server.address(), |options| options.remote = vec![forward]).await;
    tunnel.reports("the port is in use").await;
    drop(taken);
    tunnel.reports("the server listens on").await;
    let mut tcp = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    exchange(&mut tcp, &noise(100_000, 4)).await;
}

#[tokio::test]
async fn the_port_of_a_killed_client_is_soon_free_for_the_same_key() {
    let (echo, at) = (echo().await, "127.0.0.1:0".parse().unwrap());
    // No other test has ports of this address.
    let forward: Forward = format!("127.83.0.1:8080:127.0.0.1:{}", echo.port()).parse().unwrap();
    let allowed = Allow::read(["127.83.0.1:*"]).unwrap();
    let server = server(at, &["public:443"], |options| options.allow_listen = allowed);
    let relay = Relay::start(server.address(), RelayMode::Forward);
    let killed = client(relay.address, |options| options.remote = vec![forward.clone()]).await;
    killed.reports("the server listens on").await;
    relay.set(RelayMode::Drop);
    let next = client(server.address(), |options| options.remote = vec![forward]).await;
    next.reports("the port is in use").await;
    // Connections of programs, which the client does not answer, are no packets of it.
    let knock = async {
        loop {
            drop(TcpStream::connect("127.83.0.1:8080").await);
            sleep(Duration::from_millis(500)).await;
        }
    };
    // Within 20 of the 60 seconds after which a server ends a silent session.
    let listens = next.reports("the server listens on");
    tokio::select! {
        _ = listens => {}
        () = knock => {}
    }
}

/// The relay sends packets without an ECN code, as behind a middlebox that clears the codes.
#[tokio::test]
async fn both_ends_report_a_degraded_controller_once() {
    let echo = echo().await;
    let at = "127.0.0.1:0".parse().unwrap();
    let server = server(at, &["127.0.0.1:*"], |options| options.server.controller = "vcp".into());
    let relay = Relay::start(server.address(), RelayMode::Forward);
    let forward = format!("0:127.0.0.1:{}", echo.port()).parse().unwrap();
    let tunnel = client(relay.address, |options| {
        (options.client.controller, options.local) = ("vcp".into(), vec![forward]);
    });
    let tunnel = tunnel.await;
    let of = key(CLIENT).public();
    for _ in 0..2 {
        let mut tcp = TcpStream::connect(tunnel.address()).await.unwrap();
        exchange(&mut tcp, &noise(100_000, 1)).await;
        server.reports(&format!("vcp for {of} is degraded: the path clears ECN codes")).await;
        tunnel.reports("vcp is degraded: the path clears ECN codes").await;
    }
    for end in [&server, &tunnel] {
        let events = end.events.lock().unwrap();
        assert_eq!(events.iter().filter(|event| event.contains("degraded")).count(), 1, "{events:?}");
    }
}

#[tokio::test]
async fn only_listed_keys_are_served() {
    let server = any_server(&["*:*"]);
    let (events, on_event) = recorder();
    let options = TunnelOptions {
        server: format!("{}?key={}", server.address(), server_key()),
        client: ClientOptions { identity: Some(key(9)), ..ClientOptions::default() },
        server_controller: None,
        local: vec!["0:127.0.0.1:1".parse().unwrap()],
        remote: Vec::new(),
        socks: Vec::new(),
        exit_on_forward_failure: false,
        max_connections: 4,
        on_event,
    };
    let client = TunnelClient::bind(options).await.unwrap();
    let error = timeout(SECONDS, client.run(std::future::pending())).await.unwrap().unwrap_err();
    assert!(error.is_permanent() && error.to_string().contains(&key(9).public().to_string()), "{error}");
    assert!(events.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_controller_that_is_not_lent_is_refused() {
    let server = any_server(&["*:*"]);
    for (controller, reason) in [("fixed-rate", "does not lend"), ("none-such", "no such controller")] {
        let (_, on_event) = recorder();
        let client = TunnelClient::bind(TunnelOptions {
            server: format!("{}?key={}", server.address(), server_key()),
            client: ClientOptions { identity: Some(key(CLIENT)), ..ClientOptions::default() },
            server_controller: Some(controller.into()),
            local: Vec::new(),
            remote: Vec::new(),
            socks: Vec::new(),
            exit_on_forward_failure: false,
            max_connections: 4,
            on_event,
        });
        let run = client.await.unwrap().run(std::future::pending());
        let error = timeout(SECONDS, run).await.unwrap().unwrap_err();
        assert!(error.is_usage() && error.to_string().contains(reason), "{error}");
    }
}

#[tokio::test]
async fn a_client_returns_to_a_restarted_server() {
    let echo = echo().await;
    let first = any_server(&["127.0.0.1:*"]);
    let at = first.address();
    let tunnel = forwarding(at, echo).await;
    let mut tcp = TcpStream::connect(tunnel.address()).await.unwrap();
    exchange(&mut tcp, b"before").await;
    first.stop().await;
    assert!(timeout(SECONDS, tcp.read_u8()).await.unwrap().is_err(), "its connection has ended");
    tunnel.reports("next attempt in").await;
    let _second = server(at, &["127.0.0.1:*"], |_| {});
    // A program that connects meanwhile waits.
    let mut tcp = TcpStream::connect(tunnel.address()).await.unwrap();
    exchange(&mut tcp, b"after").await;
}

#[tokio::test]
async fn connections_survive_a_change_of_address() {
    let echo = echo().await;
    let server = any_server(&["127.0.0.1:*"]);
    let relay = Relay::start(server.address(), RelayMode::Forward);
    let tunnel = forwarding(relay.address, echo).await;
    let mut tcp = TcpStream::connect(tunnel.address()).await.unwrap();
    exchange(&mut tcp, &noise(200_000, 5)).await;
    relay.rebind();
    exchange(&mut tcp, &noise(200_000, 6)).await;
}

#[tokio::test]
async fn a_silent_server_is_reported_and_awaited() {
    let echo = echo().await;
    let server = any_server(&["127.0.0.1:*"]);
    let relay = Relay::start(server.address(), RelayMode::Forward);
    let tunnel = forwarding(relay.address, echo).await;
    let mut tcp = TcpStream::connect(tunnel.address()).await.unwrap();
    exchange(&mut tcp, b"before").await;
    relay.set(RelayMode::Drop);
    tcp.write_all(b"during").await.unwrap();
    tunnel.reports("does not answer").await;
    let mut waiting = TcpStream::connect(tunnel.address()).await.unwrap();
    relay.set(RelayMode::Forward);
    tunnel.reports("answers again").await;
    let mut bytes = [0; 6];
    tcp.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"during");
    exchange(&mut waiting, b"after").await;
}

#[tokio::test]
async fn connections_without_a_server_are_refused_with_the_reason() {
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = "127.0.0.1:9".parse().unwrap();
    let tunnel = forwarding(nobody.local_addr().unwrap(), to).await;
    let mut tcp = TcpStream::connect(tunnel.address()).await.unwrap();
    assert!(timeout(SECONDS, tcp.read_u8()).await.unwrap().is_err());
    tunnel.reports("no connection to 127.0.0.1:9: the tunnel's server has not answered").await;
}

#[tokio::test]
async fn weight_two_gets_twice_as_much_as_weight_one() {
    let source = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = source.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = source.accept().await {
            tokio::spawn(async move { while tcp.write_all(&[0; 10_000]).await.is_ok() {} });
        }
    });
    let server = server("127.0.0.1:0".parse().unwrap(), &["127.0.0.1:*"], |options| {
        options.server.controller = "fixed-rate".into();
        options.server.settings = "rate = '20 Mb/s'".parse().unwrap();
    });
    let forward = |weight| format!("0:127.0.0.1:{},weight={weight}", to.port()).parse().unwrap();
    let tunnel = client(server.address(), |options| options.local = vec![forward(2), forward(1)]).await;
    let mut heavy = TcpStream::connect(tunnel.addresses[0]).await.unwrap();
    let mut light = TcpStream::connect(tunnel.addresses[1]).await.unwrap();
    // What was buffered before both of them ran does not count.
    let _ = tokio::join!(read_for(&mut heavy, 1), read_for(&mut light, 1));
    let (heavy, light) = tokio::join!(read_for(&mut heavy, 2), read_for(&mut light, 2));
    assert!((1.6..2.5).contains(&(heavy / light)), "{heavy} {light}");
}

/// The number of bytes that arrive in some seconds.
async fn read_for(tcp: &mut TcpStream, seconds: u64) -> f64 {
    let end = tokio::time::Instant::now() + Duration::from_secs(seconds);
    let (mut total, mut bytes) = (0, vec![0; 100_000]);
    while let Ok(read) = tokio::time::timeout_at(end, tcp.read(&mut bytes)).await {
        total += read.unwrap();
    }
    total as f64
}

#[tokio::test]
async fn more_connections_than_allowed_are_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let at = "127.0.0.1:0".parse().unwrap();
    // The control stream and those in advance are streams, too.
    let server = server(at, &["127.0.0.1:*"], |options| options.server.max_streams = 16);
    let tunnel = forwarding(server.address(), to).await;
    let mut held = Vec::new();
    let mut refused = 0;
    for _ in 0..24 {
        let mut tcp = TcpStream::connect(tunnel.address()).await.unwrap();
        tcp.write_all(b"x").await.unwrap();
        match timeout(Duration::from_millis(300), tcp.read_u8()).await {
            Ok(Err(_)) => refused += 1,
            _ => held.push(tcp),
        }
    }
    assert!(refused >= 8 && held.len() >= 4, "{refused} {}", held.len());
}
