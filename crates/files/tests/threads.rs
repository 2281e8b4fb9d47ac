//! A server with several threads: each client has one of them, and limits hold for all together.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use rampmeter_files::{ClientOptions, GetOptions, ServeOptions, TransferReport, get};
use rampmeter_testing::{Relay, RelayMode, noise};

use crate::common::{TestServer, at_fixed_rate, beside, client, fetch, options};

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
    let (second, _) = start(from.path(), |options| {
        (options.threads, options.address) = (3, beside(first.address));
    });
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
