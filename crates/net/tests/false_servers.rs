//! Servers that break their protocols, or ask a client for what it does not allow: of files, and of tunnels.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rampmeter_net::files::{GetOptions, NetError, Report, get};
use rampmeter_net::tunnel::{TunnelClient, TunnelOptions};
use rampmeter_net::{ClientOptions, Server, ServerOptions, Session, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::common::{client, identity, options};

const SECONDS: Duration = Duration::from_secs(20);

fn server() -> Server {
    let address = "127.0.0.1:0".parse().unwrap();
    Server::bind(ServerOptions { address, identity: identity(), ..ServerOptions::default() }).unwrap()
}

/// The answer to a greeting.
const WELCOME: &[u8] = b"\x01\x03pcp";

/// A file of three bytes, of which these arrive, and its hash.
fn file(bytes: &[u8], hash: &[u8; 32]) -> Vec<u8> {
    let start = [b"\x02\0\0\0\0\0\0\0\x03", &[0; 12][..], &[0; 8]].concat();
    [&start[..], b"\x03\0\0\0", &[bytes.len() as u8], bytes, b"\x04", hash].concat()
}

/// Waits for a request, after heartbeats.
async fn request(stream: &mut Stream) {
    while stream.read_u8().await.unwrap() == 0 {}
    let mut name = vec![0; usize::from(stream.read_u16().await.unwrap())];
    stream.read_exact(&mut name).await.unwrap();
}

/// What a client gets that asks for `names`, from a server that answers its requests with these bytes.
async fn get_from(answers: Vec<Vec<u8>>, names: &[&str], to: &Path) -> Result<Report, NetError> {
    let mut server = server();
    let urls = names.iter().map(|name| format!("{}/{name}", server.address())).collect();
    let options = GetOptions { urls, ..options(server.address(), "", to) };
    let getting = tokio::task::spawn_blocking(move || get(&GetOptions { client: client(), ..options }));
    let mut stream = timeout(SECONDS, server.accept()).await.unwrap().unwrap();
    let mut greeting = [0; 5];
    stream.read_exact(&mut greeting).await.unwrap();
    assert_eq!(&greeting, b"RMF4\0");
    stream.write_all(WELCOME).await.unwrap();
    for answer in answers {
        request(&mut stream).await;
        stream.read_exact(&mut [0; 8]).await.unwrap(); // the offset
        stream.write_all(&answer).await.unwrap();
    }
    let result = timeout(SECONDS, getting).await.unwrap().unwrap();
    server.close().await;
    result
}

#[tokio::test]
async fn a_file_with_other_bytes_than_those_of_its_hash_is_deleted() {
    let to = tempfile::tempdir().unwrap();
    let (right, other) = (*blake3::hash(b"abc").as_bytes(), [7; 32]);
    assert_eq!(get_from(vec![file(b"abc", &right)], &["f"], to.path()).await.unwrap().complete, 1);
    assert_eq!(fs::read(to.path().join("f")).unwrap(), b"abc");
    fs::remove_file(to.path().join("f")).unwrap();

    let cut = *blake3::hash(b"ab").as_bytes();
    for answer in [file(b"abc", &other), file(b"abd", &right), file(b"ab", &cut)] {
        let error = get_from(vec![answer.clone()], &["f"], to.path()).await.unwrap_err();
        assert!(matches!(error, NetError::Corrupt { deleted: true, .. }), "{error}");
        assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0, "nothing is left");
        let report = get_from(vec![answer, file(b"abc", &right)], &["f", "g"], to.path()).await.unwrap();
        assert_eq!((report.failed, report.complete), (1, 1), "one of two");
        assert_eq!(fs::read(to.path().join("g")).unwrap(), b"abc");
        fs::remove_file(to.path().join("g")).unwrap();
    }
    // More bytes than it said: they are not written, and the file never has its name.
    let error = get_from(vec![file(b"abcd", &right)], &["f"], to.path()).await.unwrap_err();
    assert!(matches!(error, NetError::BadAnswer(_)), "{error}");
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
}

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
    let mut server = server();
    let tunnel = TunnelClient::bind(TunnelOptions {
        server: format!("{}?key={}", server.address(), server.key()),
        client: ClientOptions::default(),
        server_controller: None,
        local: Vec::new(),
        remote: vec![format!("0:{}", named.local_addr().unwrap()).parse().unwrap()],
        socks: Vec::new(),
        exit_on_forward_failure: false,
        max_connections: 8,
        on_event: Arc::new(|_| {}),
    });
    let running = tokio::spawn(tunnel.await.unwrap().run(std::future::pending()));
    let mut control = timeout(SECONDS, server.accept()).await.unwrap().unwrap();
    control.write_all(b"\x04\0\x01\0").await.unwrap(); // welcome
    control.write_all(b"\x05\0\x05\0\0\0\x1f\x90").await.unwrap(); // it listens for the first forward
    let session = control.session().clone();

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
    running.abort();
}
