//! A server with several threads: each client has one of them, and limits hold for all together.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use rampmeter_net::files::{ClientOptions, GetOptions, ServeOptions, TransferReport, get};
#[cfg(feature = "async")]
use rampmeter_units::Bytes;

use crate::common::{Relay, RelayMode, TestServer, at_fixed_rate, client, fetch, noise, options};

/// A server with two threads, and what it reports of transfers: the thread, and the report.
fn start(
    directory: &Path,
    change: impl FnOnce(&mut ServeOptions),
) -> (TestServer, Receiver<(ThreadId, TransferReport)>) {
    let (sender, served) = channel();
    let server = TestServer::start(directory, |options| {
        options.threads = 2;
        options.on_transfer = Some(Box::new(move |report| {
            drop(sender.send((thread::current().id(), report.clone())));
        }));
        change(options);
    });
    (server, served)
}

fn next(served: &Receiver<(ThreadId, TransferReport)>) -> (ThreadId, TransferReport) {
    served.recv_timeout(Duration::from_secs(30)).unwrap()
}

/// Two addresses whose clients have different threads, by clients that fetch `small`.
fn addresses(server: SocketAddr, served: &Receiver<(ThreadId, TransferReport)>, to: &Path) -> [(String, ThreadId); 2] {
    let mut threads: Vec<(String, ThreadId)> = Vec::new();
    for last in 1..=32 {
        let address = format!("127.0.0.{last}");
        let relay = Relay::start_at(&address, server, RelayMode::Forward);
        fetch(relay.address, "small", to).unwrap();
        threads.push((address, next(served).0));
        if let Some(other) = threads.iter().find(|other| other.1 != threads[0].1) {
            return [threads[0].clone(), other.clone()];
        }
    }
    panic!("all addresses have one thread: {threads:?}");
}

#[test]
fn clients_are_spread_over_threads_by_their_addresses() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = noise(300_000, 1);
    fs::write(from.path().join("f"), &bytes).unwrap();
    let (server, served) = start(from.path(), |_| {});
    for round in 0..2 {
        thread::scope(|scope| {
            for last in 1..=6 {
                let (server, bytes, to) = (server.address, &bytes, to.path().join(format!("{round} {last}")));
                scope.spawn(move || {
                    let relay = Relay::start_at(&format!("127.0.0.{last}"), server, RelayMode::Forward);
                    fetch(relay.address, "f", &to).unwrap();
                    assert!(fs::read(&to).unwrap() == *bytes);
                });
            }
        });
    }
    let mut threads: BTreeMap<IpAddr, Vec<ThreadId>> = BTreeMap::new();
    for _ in 0..12 {
        let (thread, report) = next(&served);
        threads.entry(report.peer.ip()).or_default().push(thread);
    }
    assert!(threads.len() == 6 && threads.values().all(|own| own.len() == 2 && own[0] == own[1]), "{threads:?}");
    let first = threads.values().next().unwrap();
    assert!(threads.values().any(|own| own != first), "{threads:?}");
}

#[test]
fn a_client_with_a_new_port_and_a_new_address_keeps_its_thread() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = noise(2_500_000, 2);
    fs::write(from.path().join("f"), &bytes).unwrap();
    fs::write(from.path().join("small"), "s").unwrap();
    let (server, served) = start(from.path(), at_fixed_rate("10 Mb/s"));
    let places = addresses(server.address, &served, to.path());
    for [(address, thread), (other, _)] in [[&places[0], &places[1]], [&places[1], &places[0]]] {
        let relay = Relay::start_at(address, server.address, RelayMode::Forward);
        let out = to.path().join(address);
        let running = thread::spawn({
            let options = options(relay.address, "f", &out);
            move || get(&options)
        });
        let part = to.path().join(format!("{address}.part"));
        for (size, to) in [(300_000, address), (900_000, other)] {
            let until = Instant::now() + Duration::from_secs(20);
            while fs::metadata(&part).map_or(0, |m| m.len()) < size {
                assert!(Instant::now() < until && !running.is_finished());
                thread::sleep(Duration::from_millis(2));
            }
            relay.move_to(to);
        }
        let report = running.join().unwrap().unwrap();
        assert_eq!((report.complete, report.resumed_from), (1, 0));
        assert!(fs::read(&out).unwrap() == bytes);
        let (served_by, report) = next(&served);
        assert_eq!((served_by, report.ended, report.bytes), (*thread, "finished", 2_500_000));
    }
}

#[test]
fn places_and_the_queue_are_those_of_all_threads() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("f"), noise(1_000_000, 4)).unwrap();
    fs::write(from.path().join("small"), "s").unwrap();
    let (server, served) = start(from.path(), |options| {
        at_fixed_rate("20 Mb/s")(options);
        options.max_clients = 1;
    });
    let places = addresses(server.address, &served, to.path());
    for [(busy, _), (waiting, _)] in [[&places[0], &places[1]], [&places[1], &places[0]]] {
        let relays = [busy, waiting].map(|address| Relay::start_at(address, server.address, RelayMode::Forward));
        let first = thread::spawn({
            let options = options(relays[0].address, "f", &to.path().join(busy));
            move || get(&options)
        });
        while fs::metadata(to.path().join(format!("{busy}.part"))).map_or(0, |m| m.len()) == 0 {
            assert!(!first.is_finished());
            thread::sleep(Duration::from_millis(2));
        }
        fetch(relays[1].address, "small", to.path()).unwrap();
        // All of it has arrived; the client may still write it to the disk.
        let has_all = fs::metadata(to.path().join(format!("{busy}.part"))).is_ok_and(|part| part.len() == 1_000_000);
        assert!(has_all || to.path().join(busy).exists(), "the first one was served before");
        first.join().unwrap().unwrap();
    }
}

#[test]
fn all_of_many_clients_of_all_threads_end_with_two_places() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("f"), noise(100_000, 1)).unwrap();
    let (server, _) = start(from.path(), |options| options.max_clients = 2);
    thread::scope(|scope| {
        for n in 0..16 {
            let (server, to) = (server.address, to.path().join(n.to_string()));
            scope.spawn(move || {
                let relay = Relay::start_at(&format!("127.0.0.{}", 1 + n % 4), server, RelayMode::Forward);
                fetch(relay.address, "f", &to).unwrap()
            });
        }
    });
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 16);
}

/// The relay stands for an address that a restarted server has again.
#[test]
fn a_restart_with_another_number_of_threads_is_noticed() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = noise(1_500_000, 1);
    fs::write(from.path().join("f"), &bytes).unwrap();
    fs::write(from.path().join("small"), "s").unwrap();
    let (first, served) = start(from.path(), at_fixed_rate("10 Mb/s"));
    let (second, _) = start(from.path(), |options| options.threads = 3);
    for (address, _) in addresses(first.address, &served, to.path()) {
        let relay = Relay::start_at(&address, first.address, RelayMode::Forward);
        let running = thread::spawn({
            let client = ClientOptions { retry: 2, ..client() };
            let options = GetOptions { client, ..options(relay.address, "f", &to.path().join(&address)) };
            move || get(&options)
        });
        while fs::metadata(to.path().join(format!("{address}.part"))).map_or(0, |m| m.len()) < 200_000 {
            assert!(!running.is_finished());
            thread::sleep(Duration::from_millis(2));
        }
        let began = Instant::now();
        relay.redirect(second.address);
        let report = running.join().unwrap().unwrap();
        assert!(report.resumed_from >= 200_000, "{report:?}");
        assert!(began.elapsed() < Duration::from_secs(8), "a reset, not a timeout, after {:?}", began.elapsed());
        assert!(fs::read(to.path().join(&address)).unwrap() == bytes);
    }
}

/// Clients of a server of streams with two threads.
#[cfg(feature = "async")]
mod streams {
    use rampmeter_net::{Client, ClientOptions, Server, ServerOptions, Stream};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::timeout;

    use super::*;

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
        stream.session().set_controller(move || {
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
}
