//! Keys of servers and clients, restarts and changes of address, over loopback.

use std::collections::BTreeSet;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rampmeter_files::{ClientOptions, GetOptions, NetError, get};
use rampmeter_net::monitor::Monitor;
use rampmeter_net::{Access, Comments, ContactError, Trust};
use rampmeter_session::{Clients, KeyPair};
use rampmeter_testing::{Relay, RelayMode, noise};
use rampmeter_units::Random;

use crate::common::{TestServer, at_fixed_rate, beside, client, fetch, identity, options};

fn other() -> KeyPair {
    KeyPair::generate(&mut Random::from_seed(2))
}

fn trusting(trust: Trust, options: GetOptions) -> GetOptions {
    GetOptions { client: ClientOptions { trust, ..options.client }, ..options }
}

fn directories(len: usize) -> (tempfile::TempDir, tempfile::TempDir) {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("f"), noise(len, 1)).unwrap();
    (from, to)
}

#[test]
fn a_new_server_is_known_from_then_on() {
    let (from, to) = directories(10_000);
    let server = TestServer::start(from.path(), |_| {});
    let known = to.path().join("known_servers");
    let options = || trusting(Trust::KnownServers(known.clone()), options(server.address, "f", to.path()));
    let first = get(&options()).unwrap();
    assert!(first.is_new_server);
    assert_eq!(first.server_key, server.key.to_string());
    assert_eq!(fs::read_to_string(&known).unwrap(), format!("{} {}\n", server.address, server.key));
    assert!(!get(&options()).unwrap().is_new_server);
    assert_eq!(fs::read_to_string(&known).unwrap().lines().count(), 1);
}

#[test]
fn a_silent_address_without_a_known_key_ends_the_command() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = tempfile::tempdir().unwrap();
    let options = options(silent.local_addr().unwrap(), "f", to.path());
    let peer_timeout = rampmeter_units::Duration::from_secs(1);
    let trust = Trust::KnownServers(to.path().join("known_servers"));
    let client = ClientOptions { trust, peer_timeout, retry: 1, ..options.client };
    let began = Instant::now();
    let error = get(&GetOptions { client, ..options }).unwrap_err();
    assert!(matches!(error, NetError::Contact(ContactError::NoAnswer(_))), "{error}");
    // Two attempts of a second each, and a second between them.
    assert!((3.0..10.0).contains(&began.elapsed().as_secs_f64()), "{:?}", began.elapsed());
}

#[test]
fn a_server_with_another_key_is_refused_with_both_keys() {
    let (from, to) = directories(10_000);
    let server = TestServer::start(from.path(), |_| {});
    let known = to.path().join("known_servers");
    fs::write(&known, format!("{} {}\n", server.address, other().public())).unwrap();
    for trust in [Trust::KnownServers(known.clone()), Trust::Key(other().public())] {
        let error = get(&trusting(trust, options(server.address, "f", to.path()))).unwrap_err();
        let (got, expected) = (server.key.to_string(), other().public().to_string());
        assert!(matches!(&error, NetError::Contact(ContactError::KeyChanged(_))), "{error}");
        assert!(error.to_string().contains(&got) && error.to_string().contains(&expected), "{error}");
    }
    let url = format!("{}/f?key={}", server.address, other().public());
    let options = trusting(Trust::KnownServers(known), options(server.address, "f", to.path()));
    let error = get(&GetOptions { urls: vec![url], ..options }).unwrap_err();
    assert!(
        matches!(&error, NetError::Contact(ContactError::KeyChanged(_)))
            && error.to_string().contains("in the address"),
        "{error}"
    );
    assert!(!to.path().join("f").exists());
}

#[test]
fn a_key_in_the_url_is_enough() {
    let (from, to) = directories(10_000);
    let server = TestServer::start(from.path(), |_| {});
    let trust = Trust::KnownServers(to.path().join("none/known_servers"));
    let url = format!("rampmeter://{}/f?key={}", server.address, server.key);
    let report =
        get(&GetOptions { urls: vec![url], ..trusting(trust, options(server.address, "f", to.path())) }).unwrap();
    assert!(!report.is_new_server);
    assert!(!to.path().join("none").exists(), "nothing is stored");
}

#[test]
fn a_server_serves_only_listed_keys_if_there_is_a_list() {
    let (from, to) = directories(10_000);
    let server = TestServer::start(from.path(), |options| {
        options.clients = Clients::Listed(BTreeSet::from([other().public()])).into();
    });
    let error = fetch(server.address, "f", to.path()).unwrap_err();
    assert!(matches!(error, NetError::Contact(ContactError::NotAuthorized { .. })), "{error}");
    let client = ClientOptions { identity: Some(other()), ..client() };
    let listed = GetOptions { client, ..options(server.address, "f", to.path()) };
    get(&listed).unwrap();
    assert_eq!(server.next_served().key, other().public().to_string());
}

#[test]
fn other_content_than_the_given_hash_is_deleted() {
    let (from, to) = directories(10_000);
    let server = TestServer::start(from.path(), |_| {});
    let right = *blake3::hash(&noise(10_000, 1)).as_bytes();
    let with = |blake3| get(&GetOptions { blake3: Some(blake3), ..options(server.address, "f", to.path()) });
    let error = with([7; 32]).unwrap_err();
    assert!(matches!(error, NetError::OtherContent { deleted: true, .. }), "{error}");
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
    with(right).unwrap();
}

fn wait_for(part: &Path, bytes: u64) {
    let since = Instant::now();
    while fs::metadata(part).map_or(0, |metadata| metadata.len()) < bytes {
        assert!(since.elapsed() < Duration::from_secs(30), "the transfer does not begin");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_transfer_survives_a_change_of_its_clients_address() {
    let (from, to) = directories(2_000_000);
    let server = TestServer::start(from.path(), at_fixed_rate("20 Mb/s"));
    let relay = Relay::start(server.address, RelayMode::Forward);
    let client = std::thread::spawn({
        let options = options(relay.address, "f", &to.path().join("f"));
        move || get(&options)
    });
    wait_for(&to.path().join("f.part"), 200_000);
    relay.rebind();
    client.join().unwrap().unwrap();
    assert_eq!(fs::read(to.path().join("f")).unwrap(), noise(2_000_000, 1));
    assert_eq!(server.next_served().ended, "finished");
}

#[test]
fn a_client_keeps_its_controller_at_a_new_address() {
    let (from, to) = directories(200_000_000);
    let monitor = Monitor::new("serve");
    let server = TestServer::start(from.path(), |options| {
        options.monitor = Some(monitor.clone());
    });
    let relay = Relay::start(server.address, RelayMode::Delay); // so that the transfer takes a while
    let (part, stop) = (to.path().join("f.part"), Arc::new(AtomicBool::new(false)));
    let getting = std::thread::spawn({
        let client = ClientOptions { controller: Some("cubic".into()), stop: Arc::clone(&stop), ..client() };
        let options = GetOptions { client, ..options(relay.address, "f", &to.path().join("f")) };
        move || get(&options)
    });
    // The state that the server publishes next, once the client has more bytes.
    let controller_after = |bytes| {
        wait_for(&part, bytes);
        let published = monitor.snapshot().uptime_s;
        while monitor.snapshot().uptime_s == published {
            std::thread::sleep(Duration::from_millis(2));
        }
        monitor.snapshot().status.paths.first().map(|path| path.controller.clone())
    };
    assert_eq!(controller_after(100_000).as_deref(), Some("cubic"));
    relay.move_to("127.0.0.2");
    let now = fs::metadata(&part).unwrap().len();
    assert_eq!(controller_after(now + 500_000).as_deref(), Some("cubic"), "at its new address");
    stop.store(true, Ordering::Relaxed);
    assert!(getting.join().unwrap().is_err(), "it was stopped");
}

/// The relay stands for an address that a restarted server has again.
#[test]
fn a_client_notices_at_once_that_its_server_was_restarted() {
    let (from, to) = directories(3_000_000);
    let first = TestServer::start(from.path(), at_fixed_rate("20 Mb/s"));
    let second = TestServer::start(from.path(), |options| options.address = beside(first.address));
    assert_eq!(first.key, identity().public());
    let relay = Relay::start(first.address, RelayMode::Forward);
    let client = std::thread::spawn({
        let options = options(relay.address, "f", &to.path().join("f"));
        move || get(&options)
    });
    wait_for(&to.path().join("f.part"), 200_000);
    let since = Instant::now();
    relay.redirect(second.address);
    let error = client.join().unwrap().unwrap_err();
    assert!(matches!(error, NetError::Restarted(..)), "{error}");
    assert!(since.elapsed() < Duration::from_secs(3), "after {:?}", since.elapsed());
}

#[test]
fn a_key_that_is_revoked_ends_its_own_session_only() {
    let (from, to) = directories(4_000_000);
    let kept = KeyPair::generate(&mut Random::from_seed(3));
    let access = Access::from(Clients::Listed(BTreeSet::from([other().public(), kept.public()])));
    let server = TestServer::start(from.path(), |options| {
        at_fixed_rate("10 Mb/s")(options);
        options.clients = access.clone();
    });
    let getting = [other(), kept.clone()].map(|identity| {
        let name = identity.public().to_string();
        let client = ClientOptions { identity: Some(identity), ..client() };
        let options = GetOptions { client, ..options(server.address, "f", &to.path().join(&name)) };
        wait_until_gets(std::thread::spawn(move || get(&options)), &to.path().join(format!("{name}.part")))
    });
    access.set(Clients::Listed(BTreeSet::from([kept.public()])), Comments::new());
    let [revoked, kept] = getting.map(|getting| getting.join().unwrap());
    assert!(matches!(revoked, Err(NetError::Contact(ContactError::NotAuthorized { .. }))), "{revoked:?}");
    assert_eq!(kept.unwrap().complete, 1);
}

type Getting = std::thread::JoinHandle<Result<rampmeter_files::Report, NetError>>;

fn wait_until_gets(getting: Getting, part: &Path) -> Getting {
    wait_for(part, 100_000);
    getting
}

#[test]
fn a_server_that_drains_ends_after_what_it_has_begun() {
    let (from, to) = directories(1_500_000);
    let drain = Arc::new(AtomicBool::new(false));
    let mut server = TestServer::start(from.path(), |options| {
        at_fixed_rate("10 Mb/s")(options);
        options.drain = Arc::clone(&drain);
    });
    let options = options(server.address, "f", &to.path().join("f"));
    let getting = wait_until_gets(std::thread::spawn(move || get(&options)), &to.path().join("f.part"));
    drain.store(true, Ordering::Relaxed);
    let refused = fetch(server.address, "f", &to.path().join("g"));
    assert!(refused.is_err(), "no further connection is served");
    assert_eq!(getting.join().unwrap().unwrap().complete, 1);
    let since = Instant::now();
    server.join();
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
}

#[test]
fn a_transfer_that_was_interrupted_goes_on() {
    let (from, to) = directories(3_000_000);
    let server = TestServer::start(from.path(), at_fixed_rate("20 Mb/s"));
    let relay = Relay::start(server.address, RelayMode::Forward);
    let peer_timeout = rampmeter_units::Duration::from_secs(1);
    let client = ClientOptions { resume: 5, peer_timeout, ..client() };
    let options = GetOptions { client, ..options(relay.address, "f", &to.path().join("f")) };
    let getting = wait_until_gets(std::thread::spawn(move || get(&options)), &to.path().join("f.part"));
    relay.set(RelayMode::Drop);
    std::thread::sleep(Duration::from_millis(2500));
    relay.set(RelayMode::Forward);
    let report = getting.join().unwrap().unwrap();
    assert!(report.resumed_from >= 100_000, "{report:?}");
    assert_eq!(fs::read(to.path().join("f")).unwrap(), noise(3_000_000, 1));
}
