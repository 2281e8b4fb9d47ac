//! Files that arrive, and files that do not.

use std::fs::{self, File};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime};

use rampmeter_files::{GetOptions, NetError, Progress, ProgressHandler, Refusal, ServeOptions, Server, get};
use rampmeter_net::{ContactError, DEFAULT_CONTROLLER, HistoryFile};
use rampmeter_testing::{Relay, RelayMode, noise};
use rampmeter_units::Bytes;

use crate::common::{TestServer, at_fixed_rate, begin, directories, fetch, options};

#[test]
fn files_of_any_size_arrive_complete() {
    let (from, to) = directories(0);
    let server = TestServer::start(from.path(), |_| {});
    for (name, len) in [("none", 0), ("one", 1), ("some", 1196), ("piece", 256 * 1024), ("many", 5_000_000)] {
        let bytes = noise(len, len as u64);
        fs::write(from.path().join(name), &bytes).unwrap();
        let then = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 7);
        File::open(from.path().join(name)).unwrap().set_modified(then).unwrap();
        let report = fetch(server.address, name, to.path()).unwrap();
        assert_eq!(fs::read(to.path().join(name)).unwrap(), bytes, "{name}");
        assert_eq!(fs::metadata(to.path().join(name)).unwrap().modified().unwrap(), then, "{name}");
        assert_eq!((report.bytes, report.resumed_from), (len as u64, 0));
        assert_eq!(report.files[0].blake3, blake3::hash(&bytes).to_hex().to_string());
        assert_eq!(report.controller, DEFAULT_CONTROLLER);
        assert!(report.seconds > 0.0 && report.rtt_s > 0.0 && report.handshake_s > 0.0);
        assert!(!to.path().join(format!("{name}.part")).exists());
        let served = server.next_served();
        assert_eq!((served.name.as_str(), served.bytes, served.ended), (name, len as u64, "finished"));
        assert!(served.seconds < report.seconds + 0.2, "{} s here, {} s there", served.seconds, report.seconds);
    }
}

#[test]
fn many_files_arrive_in_one_session() {
    let (from, to) = directories(0);
    fs::create_dir(from.path().join("below")).unwrap();
    let names: Vec<String> = (0..300).map(|n| format!("{}{n}", ["", "below/"][n % 2])).collect();
    for (n, name) in names.iter().enumerate() {
        fs::write(from.path().join(name), noise(n * 50, n as u64)).unwrap();
    }
    let server = TestServer::start(from.path(), |options| options.max_clients = 2);
    let (sender, reports) = channel();
    let report = get(&GetOptions {
        urls: names.iter().map(|name| format!("{}/{name}", server.address)).collect(),
        on_progress: Some(ProgressHandler::new(move |progress| sender.send(progress.clone()).unwrap())),
        ..options(server.address, "", &to.path().join("new"))
    });
    let report = report.unwrap();
    assert_eq!((report.complete, report.failed, report.files.len()), (300, 0, 300));
    for (n, name) in names.iter().enumerate() {
        let last = name.rsplit('/').next().unwrap();
        assert!(fs::read(to.path().join("new").join(last)).unwrap() == noise(n * 50, n as u64), "{name}");
    }
    assert_eq!(server.next_served().files, 300);
    let last = reports.try_iter().last();
    let all = (0..300).map(|n| n * 50).sum();
    assert!(matches!(last, Some(Progress::Moved { bytes, total: Some(total), .. }) if (bytes, total) == (all, all)));
}

#[test]
fn a_file_that_fails_does_not_stop_the_others() {
    let (from, to) = directories(0);
    for name in ["a", "c", "d"] {
        fs::write(from.path().join(name), noise(50_000, 1)).unwrap();
    }
    fs::create_dir(to.path().join("c")).unwrap();
    fs::write(to.path().join("d.part"), noise(20_000, 1)).unwrap();
    let server = TestServer::start(from.path(), |_| {});
    let of = |names: &[&str]| GetOptions {
        urls: names.iter().map(|name| format!("{}/{name}", server.address)).collect(),
        ..options(server.address, "", to.path())
    };
    let report = get(&of(&["a", "b", "c", "d"])).unwrap();
    assert_eq!((report.complete, report.failed, report.resumed_from), (2, 2, 20_000));
    let errors: Vec<_> = report.files.iter().map(|file| file.error.as_deref().unwrap_or_default()).collect();
    assert!(errors[0].is_empty() && errors[1].contains("no such file") && errors[3].is_empty(), "{errors:?}");
    assert!(errors[2].contains("delete this directory"), "{errors:?}");
    for (options, words) in [
        (of(&["a", "below/a"]), "several files would be"),
        (GetOptions { out: Some("-".into()), ..of(&["a", "d"]) }, "standard output"),
        (GetOptions { blake3: Some([7; 32]), ..of(&["a", "d"]) }, "for one file"),
        (of(&[]), "there is no address"),
    ] {
        let error = get(&options).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains(words), "{error}");
    }
}

#[test]
fn a_client_selects_the_controller_of_its_file() {
    let (from, to) = directories(600_000);
    let server = TestServer::start(from.path(), at_fixed_rate("4 Mb/s"));
    let with = |controller: Option<&str>| {
        get(&GetOptions { controller: controller.map(Into::into), ..options(server.address, "f", to.path()) })
    };
    for controller in [None, Some("fixed-rate"), Some("newreno"), Some("pcp")] {
        let report = with(controller).unwrap();
        assert_eq!(report.controller, controller.unwrap_or("fixed-rate"));
        assert_eq!(server.next_served().controller, report.controller);
        // The server's own controller keeps its 4 Mb/s. PCP's measurement on a busy machine is not predictable.
        let rate = report.goodput_bps / 1e6;
        assert!(if report.controller == "fixed-rate" { rate < 4.2 } else { rate > 4.5 || controller == Some("pcp") });
    }
    for (name, refusal) in [("compound", Refusal::NoSuchController), ("bbr1", Refusal::ControllerNotAllowed)] {
        let error = with(Some(name)).unwrap_err();
        assert!(matches!(error, NetError::Refused { reason, .. } if reason == refusal), "{name}: {error}");
        assert!(error.to_string().contains(name) && error.is_usage(), "{error}");
        assert_eq!(server.next_served().ended, "refused");
    }
    assert!(with(Some("x\ny")).unwrap_err().is_usage());
}

/// The relay sends packets without an ECN code, as behind a middlebox that clears the codes.
#[test]
fn a_server_is_warned_once_of_a_path_that_clears_ecn_codes() {
    let (from, to) = directories(300_000);
    fs::copy(from.path().join("f"), from.path().join("g")).unwrap();
    let (sender, reports) = channel();
    let server = TestServer::start(from.path(), |options| {
        options.server.controller = "vcp".into();
        options.on_degraded = Some(Box::new(move |peer, controller, reason| {
            drop(sender.send((peer, controller.to_owned(), reason.to_owned())));
        }));
    });
    let relay = Relay::start(server.address, RelayMode::Forward);
    let urls = ["f", "g"].map(|name| format!("{}/{name}", relay.address)).to_vec();
    get(&GetOptions { urls, ..options(relay.address, "", to.path()) }).unwrap();
    let served = server.next_served();
    let (peer, controller, reason) = reports.recv_timeout(Duration::from_secs(9)).unwrap();
    assert_eq!((peer, controller.as_str()), (served.peer, "vcp"));
    assert!(reason.contains("clears ECN codes"), "{reason}");
    drop(server);
    assert_eq!(reports.try_recv().ok(), None);
}

#[test]
fn a_paths_history_is_stored_for_the_next_server() {
    let (from, to) = directories(1_000_000);
    let path = to.path().join("histories");
    for _ in 0..2 {
        let server = TestServer::start(from.path(), |options| options.history = Some(path.clone()));
        fetch(server.address, "f", to.path()).unwrap();
        drop(server);
        let (_, histories) = HistoryFile::open(&path).unwrap();
        let [(destination, history)] = histories[..] else { panic!("{histories:?}") };
        assert_eq!(destination.0, Ipv4Addr::LOCALHOST.to_ipv6_mapped().to_bits());
        assert!(history.base_rate.as_bps() > 0, "{history:?}");
    }
}

#[test]
fn clients_beyond_the_maximum_wait_for_a_place() {
    let (from, to) = directories(2_000_000);
    let server = TestServer::start(from.path(), |options| {
        at_fixed_rate("40 Mb/s")(options);
        options.max_clients = 1;
    });
    let first = begin(options(server.address, "f", &to.path().join("first")), 1);
    fetch(server.address, "f", &to.path().join("second")).unwrap();
    assert!(first.join().unwrap().unwrap().seconds > 0.2 && to.path().join("first").exists());
}

#[test]
fn a_file_is_accepted_by_its_size_and_its_hash() {
    let (from, to) = directories(10_000);
    let server = TestServer::start(from.path(), |_| {});
    let of = || options(server.address, "f", to.path());
    let large = get(&GetOptions { max_size: Some(Bytes::new(9999)), ..of() }).unwrap_err();
    assert!(matches!(large, NetError::TooLarge { size: 10_000, .. }), "{large}");
    let other = get(&GetOptions { blake3: Some([7; 32]), ..of() }).unwrap_err();
    assert!(matches!(other, NetError::OtherContent { deleted: true, .. }), "{other}");
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
    let blake3 = Some(*blake3::hash(&noise(10_000, 1)).as_bytes());
    get(&GetOptions { max_size: Some(Bytes::new(10_000)), blake3, ..of() }).unwrap();
}

#[test]
fn invalid_options_and_silent_addresses_are_named() {
    let here = tempfile::tempdir().unwrap();
    let missing = ServeOptions { directory: here.path().join("none"), ..ServeOptions::default() };
    assert!(matches!(Server::bind(missing).unwrap_err(), NetError::BadDirectory(..)));
    let mut unknown = ServeOptions { directory: here.path().into(), ..ServeOptions::default() };
    unknown.server.controller = "none".into();
    let error = Server::bind(unknown).unwrap_err();
    assert!(error.is_usage() && error.to_string().contains("newreno"), "{error}");

    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let mut silent = options(address, "f", here.path());
    silent.client.timeout = rampmeter_units::Duration::from_millis(500);
    assert!(matches!(get(&silent).unwrap_err(), NetError::Contact(ContactError::NoAnswer(_))));
    drop(taken);
    let error = fetch(address, "f", here.path()).unwrap_err();
    assert!(matches!(error, NetError::Contact(ContactError::ConnectionRefused(_))), "{error}");
    assert!(fs::read_dir(here.path()).unwrap().next().is_none());
}
