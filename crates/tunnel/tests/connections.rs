//! Connections of programs through a client and a server.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use rampmeter_testing::noise;
use rampmeter_tunnel::{Target, TunnelClient, TunnelError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::common::{SECONDS, any_server, client, client_options, echo, exchange, forwarding, recorder, server};

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
    let options = client_options(server, recorder().1);
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
async fn connections_beyond_the_number_wait_for_a_place() {
    let echo = echo().await;
    let at = "127.0.0.1:0".parse().unwrap();
    // The control stream and those in advance are streams, too.
    let server = server(at, &["127.0.0.1:*"], |options| options.server.max_streams = 16);
    let tunnel = forwarding(server.address(), echo).await;
    let (mut served, mut waiting) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        let mut tcp = TcpStream::connect(tunnel.address()).await.unwrap();
        tcp.write_all(b"x").await.unwrap();
        match timeout(Duration::from_millis(500), tcp.read_u8()).await {
            Ok(answer) => served.push((answer.unwrap(), tcp)),
            Err(_) => waiting.push(tcp),
        }
    }
    assert!(served.len() >= 4 && waiting.len() >= 4, "{} {}", served.len(), waiting.len());
    drop(served);
    for mut tcp in waiting {
        assert_eq!(timeout(SECONDS, tcp.read_u8()).await.unwrap().unwrap(), b'x');
    }
}
