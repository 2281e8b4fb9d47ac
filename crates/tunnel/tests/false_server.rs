//! A server that asks its client for what it does not allow.

use std::time::Duration;

use rampmeter_streams::{Server, ServerOptions, Session, Stream};
use rampmeter_tunnel::SERVICE;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::common::{SECONDS, SERVER, client, key};

/// A stream from the server that begins with these bytes.
async fn stream_with(session: &Session, bytes: &[u8]) -> Stream {
    let mut stream = session.open().await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

#[tokio::test]
async fn a_tunnels_server_reaches_only_what_its_client_names() {
    let (named, other) =
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = "127.0.0.1:0".parse().unwrap();
    let mut server =
        Server::bind(ServerOptions { address, identity: key(SERVER), service: SERVICE, ..ServerOptions::default() })
            .unwrap();
    let remote = vec![format!("0:{}", named.local_addr().unwrap()).parse().unwrap()];
    let tunnel = client(server.address(), |options| options.remote = remote).await;
    let mut control = timeout(SECONDS, server.accept()).await.unwrap().unwrap();
    control.write_all(b"\x04\0\x01\0").await.unwrap(); // welcome
    let session = control.session().clone();
    // It listens for the first forward, which it says in two parts, with something else to do between them.
    control.write_all(b"\x05\0\x05\0").await.unwrap();
    let mut stream = stream_with(&session, b"\x06\0\x02\xff\xff").await;
    assert!(timeout(SECONDS, stream.read_u8()).await.unwrap().is_err());
    control.write_all(b"\0\0\x1f\x90").await.unwrap();
    tunnel.reports("the server listens on 127.0.0.1:8080").await;

    let port = other.local_addr().unwrap().port().to_be_bytes();
    let target = [&b"\0\x64\x09127.0.0.1"[..], &port].concat();
    let connect = [&[3, 0, target.len() as u8][..], &target].concat();
    let listen = [&[2, 0, target.len() as u8 + 2, 0, 0][..], &target].concat();
    let others: [&[u8]; 5] =
        [b"\x06\0\x02\0\x01", b"\x06\0\x02\xff\xff", &connect, &listen, b"\x05\0\x05\0\0\0\x1f\x90"];
    for bytes in others {
        let mut stream = stream_with(&session, bytes).await;
        let answer = timeout(SECONDS, stream.read_u8()).await.unwrap();
        assert_eq!(answer.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset, "{bytes:?}");
    }
    // The session goes on, and the destination that the client names is reached.
    let mut stream = stream_with(&session, b"\x06\0\x02\0\0hello").await;
    assert_eq!(timeout(SECONDS, stream.read_u8()).await.unwrap().unwrap(), 0);
    let (mut tcp, _): (TcpStream, _) = timeout(SECONDS, named.accept()).await.unwrap().unwrap();
    let mut text = [0; 5];
    timeout(SECONDS, tcp.read_exact(&mut text)).await.unwrap().unwrap();
    assert_eq!(&text, b"hello");
    for listener in [&named, &other] {
        let more = timeout(Duration::from_millis(50), listener.accept()).await;
        assert!(more.is_err(), "no other connection was made: {more:?}");
    }
}
