//! Ends, restarts and silence of either end, and new addresses.

use std::io::ErrorKind;

use rampmeter_testing::{Relay, RelayMode, noise};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::common::{SECONDS, any_server, echo, exchange, forwarding, server};

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
