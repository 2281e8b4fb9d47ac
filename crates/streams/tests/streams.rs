//! Streams over loopback.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rampmeter_control::Registry;
use rampmeter_net::{ContactError, Trust};
use rampmeter_session::{Clients, KeyPair};
use rampmeter_streams::{Client, ClientOptions, Server, ServerOptions, Stream, StreamError};
use rampmeter_testing::{Relay, RelayMode, noise};
use rampmeter_units::Random;
use tokio::io::{AsyncReadExt, AsyncWriteExt, split};
use tokio::time::timeout;

const SECONDS: Duration = Duration::from_secs(20);

fn server(change: impl FnOnce(&mut ServerOptions)) -> Server {
    let mut options = ServerOptions { address: "127.0.0.1:0".parse().unwrap(), ..ServerOptions::default() };
    change(&mut options);
    Server::bind(options).unwrap()
}

async fn client(server: &Server) -> Client {
    let url = format!("{}?key={}", server.address(), server.key());
    Client::connect(&url, ClientOptions::default()).await.unwrap()
}

async fn pair() -> (Server, Client) {
    let server = server(|_| {});
    let client = client(&server).await;
    (server, client)
}

/// A stream that the server has accepted with its first byte.
async fn open(client: &Client, server: &mut Server) -> (Stream, Stream) {
    let mut ours = client.open().await.unwrap();
    ours.write_all(b"!").await.unwrap();
    let mut theirs = timeout(SECONDS, server.accept()).await.unwrap().unwrap();
    assert_eq!(theirs.read_u8().await.unwrap(), b'!');
    (ours, theirs)
}

#[tokio::test]
async fn bytes_arrive_in_both_directions_at_once() {
    let (mut server, client) = pair().await;
    let (ours, theirs) = open(&client, &mut server).await;
    let (up, down) = (noise(3_000_000, 1), noise(4_000_000, 2));
    let send = |mut to: tokio::io::WriteHalf<Stream>, bytes: Vec<u8>| async move {
        to.write_all(&bytes).await.unwrap();
        to.shutdown().await.unwrap();
        to
    };
    let receive = |mut from: tokio::io::ReadHalf<Stream>| async move {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).await.unwrap();
        bytes
    };
    let ((our_read, our_write), (their_read, their_write)) = (split(ours), split(theirs));
    let (got_down, got_up, _ours, _theirs) = tokio::join!(
        receive(our_read),
        receive(their_read),
        send(our_write, up.clone()),
        send(their_write, down.clone())
    );
    assert!(got_up == up && got_down == down);
    client.close().await;
    server.close().await;
}

#[tokio::test]
async fn a_server_answers_from_the_address_that_was_asked() {
    let mut server = server(|options| options.address = "0.0.0.0:0".parse().unwrap());
    let url = format!("127.0.0.2:{}?key={}", server.address().port(), server.key());
    let client = timeout(SECONDS, Client::connect(&url, ClientOptions::default())).await.unwrap().unwrap();
    open(&client, &mut server).await;
    client.close().await;
    server.close().await;
}

#[tokio::test]
async fn a_writer_waits_while_nobody_reads() {
    let (mut server, client) = pair().await;
    let (mut ours, mut theirs) = open(&client, &mut server).await;
    let piece = vec![5; 64 * 1024];
    let mut written = 0;
    while let Ok(result) = timeout(Duration::from_millis(700), ours.write(&piece)).await {
        written += result.unwrap();
        assert!(written < 3_000_000, "a window, two pipes and the unsent bytes are all that is taken");
    }
    // Another stream is not delayed.
    let (mut other, mut their_other) = open(&client, &mut server).await;
    their_other.write_all(b"quick").await.unwrap();
    let mut word = [0; 5];
    timeout(SECONDS, other.read_exact(&mut word)).await.unwrap().unwrap();
    // It goes on when the peer reads.
    ours.shutdown().await.unwrap();
    let mut rest = Vec::new();
    timeout(SECONDS, theirs.read_to_end(&mut rest)).await.unwrap().unwrap();
    assert_eq!(rest.len(), written);
}

#[tokio::test]
async fn a_dropped_stream_is_reset_and_a_finished_one_is_delivered() {
    let (mut server, client) = pair().await;
    let (ours, mut theirs) = open(&client, &mut server).await;
    drop(ours);
    let error = timeout(SECONDS, theirs.read_u8()).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(theirs.write_all(b"x").await.unwrap_err().kind(), ErrorKind::ConnectionReset);

    let (mut ours, mut theirs) = open(&client, &mut server).await;
    let bytes = noise(100_000, 3);
    ours.write_all(&bytes).await.unwrap();
    ours.shutdown().await.unwrap();
    assert_eq!(ours.write_all(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    drop(ours);
    let mut got = Vec::new();
    timeout(SECONDS, theirs.read_to_end(&mut got)).await.unwrap().unwrap();
    assert!(got == bytes);
    // Nobody reads what the peer still writes: it is reset.
    let written = async {
        loop {
            if let Err(error) = theirs.write_all(&bytes).await {
                return error.kind();
            }
        }
    };
    assert_eq!(timeout(SECONDS, written).await.unwrap(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_server_opens_streams_too() {
    let (mut server, mut client) = pair().await;
    let (_ours, theirs) = open(&client, &mut server).await;
    let mut pushed = theirs.session().open().await.unwrap();
    pushed.write_all(b"news").await.unwrap();
    pushed.shutdown().await.unwrap();
    let mut accepted = timeout(SECONDS, client.accept()).await.unwrap().unwrap();
    let mut text = String::new();
    accepted.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "news");
    assert_eq!(accepted.session().peer_key(), server.key());
}

/// The server has taken the stream only when it answers.
#[tokio::test]
async fn a_stream_beyond_the_number_waits_for_a_place() {
    let mut server = server(|options| options.max_streams = 3);
    let client = client(&server).await;
    // One connection is always open in advance.
    let first = open(&client, &mut server).await;
    let (mut ours, mut theirs) = open(&client, &mut server).await;
    let mut waiting = Vec::new();
    for number in 0..2 {
        let mut stream = timeout(SECONDS, client.open()).await.unwrap().unwrap();
        stream.write_u8(number).await.unwrap();
        waiting.push(stream);
    }
    let mut held = vec![timeout(SECONDS, server.accept()).await.unwrap().unwrap()];
    assert!(timeout(Duration::from_millis(300), server.accept()).await.is_err(), "there is no place");
    assert!(timeout(Duration::from_millis(100), waiting[1].read_u8()).await.is_err(), "and no reset");
    // The others go on.
    theirs.write_u8(9).await.unwrap();
    assert_eq!(timeout(SECONDS, ours.read_u8()).await.unwrap().unwrap(), 9);
    drop(first);
    held.push(timeout(SECONDS, server.accept()).await.unwrap().unwrap());
    for (number, (mut stream, mut ours)) in held.into_iter().zip(waiting).enumerate() {
        assert_eq!(usize::from(stream.read_u8().await.unwrap()), number);
        stream.write_u8(7).await.unwrap();
        assert_eq!(timeout(SECONDS, ours.read_u8()).await.unwrap().unwrap(), 7);
    }
}

#[tokio::test]
async fn streams_beyond_twice_the_number_are_reset() {
    let mut server = server(|options| options.max_streams = 3);
    let client = client(&server).await;
    let mut held = [open(&client, &mut server).await, open(&client, &mut server).await];
    let mut waiting = Vec::new();
    let refused = async {
        loop {
            let Ok(mut stream) = client.open().await else { return };
            if stream.write_all(b"!").await.is_err() {
                return;
            }
            if let Ok(Err(_)) = timeout(Duration::from_millis(300), stream.read_u8()).await {
                return;
            }
            waiting.push(stream);
        }
    };
    timeout(SECONDS, refused).await.unwrap();
    for (ours, theirs) in &mut held {
        theirs.write_u8(9).await.unwrap();
        assert_eq!(timeout(SECONDS, ours.read_u8()).await.unwrap().unwrap(), 9);
    }
}

#[tokio::test]
async fn hundreds_of_short_streams_follow_each_other() {
    let (mut server, client) = pair().await;
    let echo = tokio::spawn(async move {
        while let Some(mut stream) = server.accept().await {
            tokio::spawn(async move {
                let word = stream.read_u16().await.unwrap();
                stream.write_u16(word).await.unwrap();
                stream.shutdown().await.unwrap();
                assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
            });
        }
    });
    for number in 0..400 {
        let mut stream = timeout(SECONDS, client.open()).await.unwrap().unwrap();
        stream.write_u16(number).await.unwrap();
        stream.shutdown().await.unwrap();
        assert_eq!(timeout(SECONDS, stream.read_u16()).await.unwrap().unwrap(), number);
    }
    client.close().await;
    echo.abort();
}

/// The number of bytes that arrive in a while.
async fn received(stream: &mut Stream) -> f64 {
    let (mut bytes, mut buffer) = (0, vec![0; 100_000]);
    let until = Instant::now() + Duration::from_millis(2500);
    while Instant::now() < until {
        bytes += stream.read(&mut buffer).await.unwrap();
    }
    bytes as f64
}

#[tokio::test]
async fn bytes_are_divided_by_weight() {
    let mut server = server(|options| {
        options.controller = "fixed-rate".into();
        options.settings = "rate = \"20 Mb/s\"".parse().unwrap();
    });
    let client = client(&server).await;
    let (mut heavy, their_heavy) = open(&client, &mut server).await;
    let (mut light, their_light) = open(&client, &mut server).await;
    their_heavy.set_weight(3.0);
    their_light.set_weight(f64::NAN); // ignored
    for mut stream in [their_heavy, their_light] {
        tokio::spawn(async move { while stream.write_all(&[0; 10_000]).await.is_ok() {} });
    }
    let (heavy, light) = tokio::join!(received(&mut heavy), received(&mut light));
    assert!((2.0..4.5).contains(&(heavy / light)), "{heavy} {light}");
}

#[tokio::test]
async fn a_stream_survives_a_change_of_its_clients_address() {
    let mut server = server(|_| {});
    let relay = Relay::start(server.address(), RelayMode::Forward);
    let url = format!("{}?key={}", relay.address, server.key());
    let client = Client::connect(&url, ClientOptions::default()).await.unwrap();
    let (mut ours, mut theirs) = open(&client, &mut server).await;
    relay.rebind();
    ours.write_all(b"from elsewhere").await.unwrap();
    let mut text = [0; 14];
    timeout(SECONDS, theirs.read_exact(&mut text)).await.unwrap().unwrap();
    theirs.write_all(&text).await.unwrap();
    timeout(SECONDS, ours.read_exact(&mut text)).await.unwrap().unwrap();
    assert_eq!(&text, b"from elsewhere");
}

#[tokio::test]
async fn a_session_keeps_its_controller_at_a_new_address() {
    let mut server = server(|_| {});
    let relay = Relay::start(server.address(), RelayMode::Forward);
    let address = format!("{}?key={}", relay.address, server.key());
    let client = Client::connect(&address, ClientOptions::default()).await.unwrap();
    let (mut ours, mut theirs) = open(&client, &mut server).await;
    let (made, factory) = (Arc::new(AtomicU32::new(0)), Registry::default().factory("cubic", &toml::Table::new()));
    let (count, factory) = (Arc::clone(&made), factory.unwrap());
    theirs.session().set_controller("newreno", move || {
        count.fetch_add(1, Ordering::Relaxed);
        Some(factory(Random::from_seed(1)))
    });
    let mut exchange = async |byte| {
        ours.write_u8(byte).await.unwrap();
        assert_eq!(theirs.read_u8().await.unwrap(), byte);
        theirs.write_u8(byte).await.unwrap();
        assert_eq!(ours.read_u8().await.unwrap(), byte);
    };
    exchange(1).await;
    assert_eq!(made.load(Ordering::Relaxed), 1);
    relay.rebind();
    exchange(2).await;
    assert_eq!(made.load(Ordering::Relaxed), 1, "another port is most likely the same path");
    relay.move_to("127.0.0.2");
    for byte in 0..100 {
        exchange(byte).await;
        if made.load(Ordering::Relaxed) == 2 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the session has {} controllers of its own", made.load(Ordering::Relaxed));
}

/// Streams to a client that is gone retransmit, in their own macroflow.
#[tokio::test]
async fn a_client_that_is_gone_delays_no_other_of_its_address() {
    let mut server = server(|_| {});
    let relay = Relay::start(server.address(), RelayMode::Forward);
    let address = format!("{}?key={}", relay.address, server.key());
    let gone = Client::connect(&address, ClientOptions::default()).await.unwrap();
    let mut writers = Vec::new();
    for _ in 0..8 {
        let (ours, mut theirs) = open(&gone, &mut server).await;
        let writer = tokio::spawn(async move { while theirs.write_all(&[7; 10_000]).await.is_ok() {} });
        writers.push((ours, writer));
    }
    relay.set(RelayMode::Drop);
    let other = client(&server).await;
    let (mut ours, mut theirs) = open(&other, &mut server).await;
    for _ in 0..8 {
        let began = Instant::now();
        theirs.write_u8(5).await.unwrap();
        assert_eq!(timeout(SECONDS, ours.read_u8()).await.unwrap().unwrap(), 5);
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed()); // it was a minute
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    for (_, writer) in writers {
        writer.abort();
    }
}

#[tokio::test]
async fn a_server_says_that_it_ends_more_than_once() {
    let mut server = server(|_| {});
    let relay = Relay::start(server.address(), RelayMode::Forward);
    let url = format!("{}?key={}", relay.address, server.key());
    let client = Client::connect(&url, ClientOptions::default()).await.unwrap();
    let _streams = open(&client, &mut server).await;
    relay.set(RelayMode::DropThree);
    server.close().await;
    timeout(SECONDS, client.session().ended()).await.unwrap();
}

#[tokio::test]
async fn the_end_of_a_server_ends_its_sessions() {
    let (mut server, mut client) = pair().await;
    let (mut ours, _theirs) = open(&client, &mut server).await;
    server.close().await;
    assert!(timeout(SECONDS, client.accept()).await.unwrap().is_none());
    assert!(timeout(SECONDS, ours.read_u8()).await.unwrap().is_err());
    timeout(SECONDS, client.session().ended()).await.unwrap();
    let error = timeout(SECONDS, client.open()).await.unwrap().unwrap_err();
    assert!(matches!(error, StreamError::Ended(_)), "{error}");
}

#[tokio::test]
async fn a_client_says_why_it_cannot_connect() {
    let listed = KeyPair::generate(&mut Random::from_seed(5)).public();
    let server = server(|options| options.clients = Clients::Listed(BTreeSet::from([listed])).into());
    let connect = |url: String, options: ClientOptions| async move {
        timeout(SECONDS, Client::connect(&url, options)).await.unwrap().map(|_| ()).unwrap_err()
    };
    let url = format!("{}?key={}", server.address(), server.key());
    let error = connect(url, ClientOptions::default()).await;
    assert!(matches!(error, ContactError::NotAuthorized { .. }) && error.is_permanent(), "{error}");
    let trust = Trust::Key(listed);
    let error = connect(server.address().to_string(), ClientOptions { trust, ..ClientOptions::default() }).await;
    assert!(matches!(error, ContactError::KeyChanged(_)), "{error}");
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = connect(format!("{free}?key={listed}"), ClientOptions::default()).await;
    assert!(matches!(error, ContactError::ConnectionRefused(_)), "{error}");
    let error = connect("nowhere".into(), ClientOptions::default()).await;
    assert!(matches!(error, ContactError::BadAddress { .. }), "{error}");
}

#[tokio::test]
async fn a_client_waits_for_an_answer_for_its_timeout() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let key = KeyPair::generate(&mut Random::from_seed(5)).public();
    let options = ClientOptions { timeout: rampmeter_units::Duration::from_millis(100), ..ClientOptions::default() };
    let began = std::time::Instant::now();
    let url = format!("{}?key={key}", silent.local_addr().unwrap());
    let error = timeout(SECONDS, Client::connect(&url, options)).await.unwrap().unwrap_err();
    assert!(matches!(error, ContactError::NoAnswer(_)), "{error}");
    assert!(began.elapsed() >= std::time::Duration::from_millis(100));
}

#[tokio::test]
async fn a_new_server_is_known_from_then_on() {
    let server = server(|_| {});
    let directory = tempfile::tempdir().unwrap();
    let trust = Trust::KnownServers(directory.path().join("known_servers"));
    for is_new in [true, false] {
        let options = ClientOptions { trust: trust.clone(), ..ClientOptions::default() };
        let client = Client::connect(&server.address().to_string(), options).await.unwrap();
        assert_eq!(client.is_new_server(), is_new);
        client.close().await;
    }
}
