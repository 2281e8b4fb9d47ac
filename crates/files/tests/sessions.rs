//! Sessions that break, move, or end.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rampmeter_files::{GetOptions, NetError, Received, get};
use rampmeter_net::{Access, Comments, ContactError, Trust};
use rampmeter_session::{Clients, KeyPair};
use rampmeter_streams::ClientOptions;
use rampmeter_testing::{Relay, RelayMode, noise};
use rampmeter_units::Random;

use crate::common::{TestServer, at_fixed_rate, begin, directories, fetch, options};

fn other() -> KeyPair {
    KeyPair::generate(&mut Random::from_seed(2))
}

#[test]
fn a_server_is_known_by_its_key() {
    let (from, to) = directories(10_000);
    let server = TestServer::start(from.path(), |_| {});
    let known = to.path().join("known_servers");
    let with = |trust, url: String| {
        let defaults = options(server.address, "f", to.path());
        get(&GetOptions { urls: vec![url], client: ClientOptions { trust, ..defaults.client }, ..defaults })
    };
    let url = || format!("{}/f", server.address);
    assert!(with(Trust::KnownServers(known.clone()), url()).unwrap().is_new_server);
    assert_eq!(fs::read_to_string(&known).unwrap(), format!("{} {}\n", server.address, server.key));
    assert!(!with(Trust::KnownServers(known.clone()), url()).unwrap().is_new_server);
    let none = Trust::KnownServers(to.path().join("none/known_servers"));
    assert!(
        with(none, format!("rampmeter://{}?key={}", url(), server.key)).is_ok() && !to.path().join("none").exists()
    );

    fs::write(&known, format!("{} {}\n", server.address, other().public())).unwrap();
    for trust in [Trust::KnownServers(known), Trust::Key(other().public())] {
        let error = with(trust, url()).unwrap_err();
        assert!(matches!(&error, NetError::Contact(ContactError::KeyChanged(_))), "{error}");
        let keys = [server.key, other().public()].map(|key| key.to_string());
        assert!(keys.iter().all(|key| error.to_string().contains(key)), "{error}");
    }
}

#[test]
fn a_key_that_is_revoked_ends_its_own_session_only() {
    let (from, to) = directories(4_000_000);
    let kept = KeyPair::generate(&mut Random::from_seed(3));
    let access = Access::from(Clients::Listed(BTreeSet::from([other().public(), kept.public()])));
    let server = TestServer::start(from.path(), |options| {
        at_fixed_rate("10 Mb/s")(options);
        options.server.clients = access.clone();
    });
    let error = fetch(server.address, "f", to.path()).unwrap_err();
    assert!(matches!(error, NetError::Contact(ContactError::NotAuthorized { .. })), "{error}");
    let getting = [("a", other()), ("b", kept.clone())].map(|(name, identity)| {
        let mut options = options(server.address, "f", &to.path().join(name));
        options.client.identity = Some(identity);
        begin(options, 100_000)
    });
    access.set(Clients::Listed(BTreeSet::from([kept.public()])), Comments::new());
    let [revoked, kept] = getting.map(|getting| getting.join().unwrap());
    assert!(matches!(revoked, Err(NetError::Contact(ContactError::NotAuthorized { .. }))), "{revoked:?}");
    assert_eq!(kept.unwrap().complete, 1);
}

#[test]
fn a_server_that_drains_ends_after_what_it_has_begun() {
    let (from, to) = directories(1_500_000);
    let drain = Arc::<AtomicBool>::default();
    let mut server = TestServer::start(from.path(), |options| {
        at_fixed_rate("10 Mb/s")(options);
        options.drain = Arc::clone(&drain);
    });
    let getting = begin(options(server.address, "f", to.path()), 100_000);
    drain.store(true, Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(300));
    assert!(fetch(server.address, "f", &to.path().join("g")).is_err(), "no further session is served");
    assert_eq!(getting.join().unwrap().unwrap().complete, 1);
    let since = Instant::now();
    server.join();
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
}

#[test]
fn a_server_that_stops_ends_its_transfers() {
    let (from, to) = directories(3_000_000);
    let mut server = TestServer::start(from.path(), at_fixed_rate("20 Mb/s"));
    let getting = begin(options(server.address, "f", to.path()), 200_000);
    server.stop();
    let error = getting.join().unwrap().unwrap_err();
    assert!(matches!(error, NetError::Restarted(..)), "{error}");
    assert_eq!(server.next_served().ended, "aborted");
}

/// The relay stands for an address that a restarted server has again. A server has the same tokens of resets at the
/// same port of another address.
#[test]
fn a_retry_resumes_after_a_restart() {
    let (from, to) = directories(3_000_000);
    let first = TestServer::start(from.path(), at_fixed_rate("20 Mb/s"));
    let beside = SocketAddr::new([127, 0, 0, 9].into(), first.address.port());
    let second = TestServer::start(from.path(), |options| options.server.address = beside);
    let relay = Relay::start(first.address, RelayMode::Forward);
    let getting = begin(GetOptions { retry: 2, ..options(relay.address, "f", to.path()) }, 200_000);
    let since = Instant::now();
    relay.redirect(second.address);
    let report = getting.join().unwrap().unwrap();
    assert!(report.resumed_from >= 200_000, "{report:?}");
    assert!(since.elapsed() < Duration::from_secs(8), "a reset, not a timeout, after {:?}", since.elapsed());
    assert_eq!(fs::read(to.path().join("f")).unwrap(), noise(3_000_000, 1));
}

#[test]
fn a_silent_server_ends_the_session_and_another_goes_on() {
    let (from, to) = directories(3_000_000);
    let server = TestServer::start(from.path(), at_fixed_rate("20 Mb/s"));
    let relay = Relay::start(server.address, RelayMode::Forward);
    for (resume, size) in [(0, 200_000), (5, 400_000)] {
        let mut options = GetOptions { resume, ..options(relay.address, "f", to.path()) };
        options.client.timeout = rampmeter_units::Duration::from_secs(1);
        let getting = begin(options, size);
        relay.set(RelayMode::Drop);
        std::thread::sleep(Duration::from_millis(2500));
        relay.set(RelayMode::Forward);
        match getting.join().unwrap() {
            Ok(report) => assert!(resume > 0 && report.resumed_from >= 400_000, "{report:?}"),
            Err(error) => {
                let is_named = matches!(error, NetError::PeerTimeout(_, Received { size: Some(3_000_000), .. }));
                assert!(resume == 0 && is_named, "{error}");
            }
        }
    }
    assert_eq!(fs::read(to.path().join("f")).unwrap(), noise(3_000_000, 1));
}

/// A client whose last acknowledgement left from the old address has nothing to send: it asks the server after half of
/// its timeout, five seconds.
#[test]
fn a_client_keeps_its_controller_at_a_new_address() {
    let (from, to) = directories(3_000_000);
    let server = TestServer::start(from.path(), at_fixed_rate("1 Mb/s"));
    let relay = Relay::start(server.address, RelayMode::Forward);
    let options = GetOptions { controller: Some("cubic".into()), ..options(relay.address, "f", to.path()) };
    let getting = begin(options, 100_000);
    relay.move_to("127.0.0.2");
    let report = getting.join().unwrap().unwrap();
    assert_eq!((report.resumed_from, server.next_served().ended), (0, "finished"));
    assert!(report.goodput_bps > 2e6, "the server's own controller keeps 1 Mb/s: {}", report.goodput_bps);
}
