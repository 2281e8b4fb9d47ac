//! A server with several threads: each client has one of them, and limits hold for all together.

use std::thread::{self, ThreadId};
use std::time::Duration;

use rampmeter_streams::{Client, ClientOptions, Server, ServerOptions, Stream};
use rampmeter_testing::{Relay, RelayMode, noise};
use rampmeter_units::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

fn server(change: impl FnOnce(&mut ServerOptions)) -> Server {
    let address = "127.0.0.1:0".parse().unwrap();
    let mut options = ServerOptions { address, threads: 2, ..ServerOptions::default() };
    change(&mut options);
    Server::bind(options).unwrap()
}

/// A client whose packets come from `address`.
async fn client(server: &Server, address: &str) -> (Client, Relay) {
    let relay = Relay::start_at(address, server.address(), RelayMode::Forward);
    let url = format!("{}?key={}", relay.address, server.key());
    (Client::connect(&url, ClientOptions::default()).await.unwrap(), relay)
}

/// A stream at its client and at the server; `None` if the server has no place for it.
async fn open(client: &Client, server: &mut Server) -> Option<(Stream, Stream)> {
    let mut ours = client.open().await.ok()?;
    ours.write_all(b"!").await.ok()?;
    tokio::select! {
        theirs = server.accept() => Some((ours, theirs.unwrap())),
        _ = ours.read_u8() => None,
        () = tokio::time::sleep(LONG) => panic!("no stream"),
    }
}

const LONG: Duration = Duration::from_secs(20);

/// The thread that sends and receives the stream's packets: controllers are made there.
async fn thread_of(stream: &Stream) -> ThreadId {
    let (sender, made) = tokio::sync::oneshot::channel();
    let mut sender = Some(sender);
    stream.session().set_controller("newreno", move || {
        sender.take().map(|sender| sender.send(thread::current().id()));
        None
    });
    timeout(LONG, made).await.unwrap().unwrap()
}

#[tokio::test]
async fn sessions_of_all_threads_go_on_at_new_addresses() {
    let mut server = server(|options| options.threads = 3);
    let mut open_streams = Vec::new();
    let mut threads = Vec::new();
    for last in 1..=12 {
        let (client, relay) = client(&server, &format!("127.0.0.{last}")).await;
        let (mut ours, mut theirs) = open(&client, &mut server).await.unwrap();
        relay.move_to("127.0.0.99");
        for stream in [&mut ours, &mut theirs] {
            stream.write_all(b"moved").await.unwrap();
        }
        timeout(LONG, ours.read_exact(&mut [0; 5])).await.unwrap().unwrap();
        timeout(LONG, theirs.read_exact(&mut [0; 6])).await.unwrap().unwrap();
        threads.push(thread_of(&theirs).await);
        open_streams.push((client, relay, ours, theirs));
    }
    assert!(threads.iter().any(|own| *own != threads[0]), "all sessions have one thread: {threads:?}");
}

/// Threads without streams end at once, and the sockets of the others keep their numbers.
#[tokio::test]
async fn what_is_finished_is_delivered_by_all_threads_at_the_end() {
    let mut server = server(|options| options.threads = 3);
    let (bytes, mut readers) = (noise(200_000, 5), Vec::new());
    for last in 1..=8 {
        let (client, relay) = client(&server, &format!("127.0.0.{last}")).await;
        let (ours, mut theirs) = open(&client, &mut server).await.unwrap();
        relay.set(RelayMode::Delay);
        theirs.write_all(&bytes).await.unwrap();
        theirs.shutdown().await.unwrap();
        readers.push((client, relay, ours));
    }
    server.close().await;
    for (_, _, mut ours) in readers {
        let mut read = Vec::new();
        timeout(LONG, ours.read_to_end(&mut read)).await.unwrap().unwrap();
        assert!(read == bytes, "{} bytes", read.len());
    }
}

#[tokio::test]
async fn receive_windows_are_those_of_all_threads() {
    // Windows for 32 streams. One client may have 16 parts of 25 of what is there.
    let mut server = server(|options| options.memory = Bytes::new(8 << 20));
    let (mut streams, mut clients, mut threads) = (Vec::new(), Vec::new(), Vec::new());
    for network in 1..=12 {
        let (client, relay) = client(&server, &format!("127.0.{network}.1")).await;
        while let Some((ours, theirs)) = open(&client, &mut server).await {
            threads.push(thread_of(&theirs).await);
            streams.push((ours, theirs));
        }
        clients.push((client, relay));
    }
    assert!((24..=32).contains(&streams.len()), "{}", streams.len());
    assert!(threads.iter().any(|thread| *thread != threads[0]), "{threads:?}");
}
