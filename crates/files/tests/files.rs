//! File transfer from end to end, over loopback.

use std::fs::{self, File};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant, SystemTime};

use rampmeter_files::{
    ClientOptions, GetOptions, NetError, Progress, ProgressHandler, Received, Refusal, ServeOptions, Server, get,
};
use rampmeter_net::{ContactError, DEFAULT_CONTROLLER, HistoryFile, Limits};
use rampmeter_testing::{Relay, RelayMode, noise};

use crate::common::{TestServer, at_fixed_rate, client, fetch, fetch_with, options};

#[test]
fn progress_ends_with_all_bytes_of_a_size_that_becomes_known() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("a"), noise(700_000, 1)).unwrap();
    fs::write(from.path().join("b"), noise(500_000, 2)).unwrap();
    let server = TestServer::start(from.path(), |_| {});
    for (names, size) in [(&["a"][..], 700_000), (&["a", "b"], 1_200_000)] {
        let (sender, reports) = channel();
        let options = options(server.address, names[0], to.path());
        let client = ClientOptions {
            on_progress: Some(ProgressHandler::new(move |progress| sender.send(progress.clone()).unwrap())),
            ..options.client
        };
        let urls = names.iter().map(|name| format!("{}/{name}", server.address)).collect();
        get(&GetOptions { urls, fresh: true, client, ..options }).unwrap();
        let mut last = (0, None);
        for report in reports.try_iter() {
            let Progress::Moved { bytes, total, .. } = report else { panic!("{report:?}") };
            assert!(bytes >= last.0 && total.is_none_or(|total| bytes <= total && total <= size), "{report:?}");
            last = (bytes, total);
        }
        assert_eq!(last, (size, Some(size)));
    }
}

#[test]
fn files_of_any_size_arrive_complete() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = TestServer::start(from.path(), |_| {});
    for (name, len) in [("none", 0), ("one", 1), ("some", 1196), ("more", 70_000), ("many", 5_000_000)] {
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
        // Both ends saw the same transfer: the connection's last second is not part of it.
        assert!(served.seconds < report.seconds + 0.2, "{} s here, {} s there", served.seconds, report.seconds);
    }
}

/// The relay sends packets without an ECN code, as behind a middlebox that clears the codes.
#[test]
fn a_server_is_warned_once_of_a_path_that_clears_ecn_codes() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("some"), noise(300_000, 3)).unwrap();
    let (sender, reports) = channel();
    let server = TestServer::start(from.path(), |options| {
        options.controller = "vcp".into();
        options.on_degraded = Some(Box::new(move |peer, controller, reason| {
            drop(sender.send((peer, controller.to_owned(), reason.to_owned())));
        }));
    });
    fetch(server.address, "some", &to.path().join("plain")).unwrap();
    server.next_served();
    assert_eq!(reports.try_recv().ok(), None, "loopback keeps codes");

    let relay = Relay::start(server.address, RelayMode::Forward);
    // Four files in one session.
    let name = |number| format!("{}/some-{number}", relay.address);
    let urls: Vec<_> = (0..4).map(name).collect();
    (0..4).for_each(|number| drop(fs::copy(from.path().join("some"), from.path().join(format!("some-{number}")))));
    get(&GetOptions { urls, ..options(relay.address, "", &to.path().join("relayed")) }).unwrap();
    let served = server.next_served();
    let (peer, controller, reason) = reports.try_recv().unwrap();
    assert_eq!((peer, controller.as_str()), (served.peer, "vcp"));
    assert!(reason.contains("clears ECN codes"), "{reason}");
    drop(server);
    assert_eq!(reports.try_recv().ok(), None);
}

#[test]
fn every_controller_that_needs_no_router_moves_a_file() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = noise(400_000, 12);
    fs::write(from.path().join("f"), &bytes).unwrap();
    for controller in ["reno", "newreno", "pcp"] {
        let server = TestServer::start(from.path(), |options| options.controller = controller.into());
        let report = fetch(server.address, "f", to.path()).unwrap();
        assert_eq!(report.controller, controller);
        assert_eq!(fs::read(to.path().join("f")).unwrap(), bytes);
    }
}

#[test]
fn a_paths_history_is_stored_for_the_next_server() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("f"), noise(1_000_000, 12)).unwrap();
    let path = to.path().join("histories");
    for _ in 0..2 {
        let server = TestServer::start(from.path(), |options| {
            (options.controller, options.history) = ("pcp".into(), Some(path.clone()));
            // A busy machine sends at this rate, so that trains prove something.
            options.settings = "max_rate = '30 Mb/s'".parse().unwrap();
        });
        fetch(server.address, "f", to.path()).unwrap();
        server.next_served();
        drop(server);
        let (_, histories) = HistoryFile::open(&path).unwrap();
        let [(destination, history)] = histories[..] else { panic!("{histories:?}") };
        assert_eq!(destination.0, Ipv4Addr::LOCALHOST.to_ipv6_mapped().to_bits());
        assert!(history.base_rate.as_bps() > 0 && history.min_rtt > rampmeter_units::Duration::ZERO, "{history:?}");
    }
}

#[test]
fn a_client_selects_the_controller_of_its_file() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = noise(600_000, 12);
    fs::write(from.path().join("f"), &bytes).unwrap();
    let server = TestServer::start(from.path(), at_fixed_rate("4 Mb/s"));
    for controller in [None, Some("fixed-rate"), Some("newreno"), Some("reno"), Some("pcp")] {
        let report = match controller {
            None => fetch(server.address, "f", to.path()).unwrap(),
            Some(name) => fetch_with(name, &server, to.path()).unwrap(),
        };
        assert_eq!(report.controller, controller.unwrap_or("fixed-rate"));
        assert_eq!(server.next_served().controller, report.controller);
        assert_eq!(fs::read(to.path().join("f")).unwrap(), bytes);
        // The server's own controller keeps its 4 Mb/s; over loopback a window-based one is much faster. PCP's
        // measurement on a busy machine is not predictable.
        let rate = report.goodput_bps / 1e6;
        match report.controller.as_str() {
            "fixed-rate" => assert!(rate < 4.2, "{rate} Mb/s"),
            "pcp" => {}
            _ => assert!(rate > 5.0, "{controller:?}: {rate} Mb/s"),
        }
    }
}

#[test]
fn unknown_and_unresponsive_controllers_are_refused() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("f"), noise(1000, 1)).unwrap();
    let server = TestServer::start(from.path(), |_| {});
    for (name, refusal) in [
        ("compound", Refusal::NoSuchController),
        ("NewReno", Refusal::NoSuchController),
        ("fixed-rate", Refusal::ControllerNotAllowed),
        ("fair-share", Refusal::ControllerNotAllowed),
    ] {
        let error = fetch_with(name, &server, to.path()).unwrap_err();
        assert!(matches!(error, NetError::Refused { reason, .. } if reason == refusal), "{name}: {error}");
        assert!(error.to_string().contains(name) && !error.to_string().contains('\n'), "{error}");
        assert!(error.is_usage(), "a wrong option");
        assert_eq!(server.next_served().ended, "refused");
    }
    for name in ["", "a b", "x\ny", &"x".repeat(65)] {
        let error = fetch_with(name, &server, to.path()).unwrap_err();
        assert!(error.is_usage() && !error.to_string().contains('\n'), "{error}");
    }
    assert!(fs::read_dir(to.path()).unwrap().next().is_none(), "nothing is left behind");
    assert!(fetch(server.address, "f", to.path()).is_ok(), "the server lives");
}

#[test]
fn many_files_arrive_in_one_session() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(from.path().join("below")).unwrap();
    let names: Vec<String> = (0..700).map(|n| format!("{}{n}", ["", "below/"][n % 2])).collect();
    for (n, name) in names.iter().enumerate() {
        fs::write(from.path().join(name), noise(n * 20, n as u64)).unwrap();
    }
    let server = TestServer::start(from.path(), |_| {});
    let urls = names.iter().map(|name| format!("{}/{name}", server.address)).collect();
    let out = to.path().join("new");
    let report = get(&GetOptions { urls, ..options(server.address, "", &out) }).unwrap();
    assert_eq!((report.complete, report.failed, report.files.len()), (700, 0, 700));
    for (n, name) in names.iter().enumerate() {
        let last = name.rsplit('/').next().unwrap();
        assert!(fs::read(out.join(last)).unwrap() == noise(n * 20, n as u64), "{name}");
    }
}

#[test]
fn a_file_that_fails_does_not_stop_the_others() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
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
fn one_server_serves_many_clients_at_once() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = TestServer::start(from.path(), |_| {});
    let files: Vec<_> = (0..12).map(|n| noise(300_000 + n * 1000, n as u64)).collect();
    for (n, bytes) in files.iter().enumerate() {
        fs::write(from.path().join(n.to_string()), bytes).unwrap();
    }
    std::thread::scope(|scope| {
        for (n, bytes) in files.iter().enumerate() {
            let (address, to) = (server.address, to.path());
            scope.spawn(move || {
                fetch(address, &n.to_string(), to).unwrap();
                assert_eq!(&fs::read(to.join(n.to_string())).unwrap(), bytes);
            });
        }
    });
}

#[test]
fn small_files_one_after_the_other_are_all_served() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("f"), noise(1000, 5)).unwrap();
    let server = TestServer::start(from.path(), |options| options.max_clients = 4);
    for n in 0..400 {
        fetch(server.address, "f", &to.path().join("f")).unwrap_or_else(|error| panic!("download {n}: {error}"));
    }
}

#[test]
fn clients_beyond_the_maximum_wait_for_a_place() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("f"), noise(2_000_000, 4)).unwrap();
    let server = TestServer::start(from.path(), |options| {
        at_fixed_rate("40 Mb/s")(options);
        options.max_clients = 1;
    });
    let first = std::thread::spawn({
        let (address, to) = (server.address, to.path().join("first"));
        move || fetch(address, "f", &to)
    });
    while fs::metadata(to.path().join("first.part")).map_or(0, |m| m.len()) == 0 {
        std::thread::sleep(Duration::from_millis(2));
    }
    fetch(server.address, "f", &to.path().join("second")).unwrap();
    assert!(to.path().join("first").exists(), "the first one was served before");
    first.join().unwrap().unwrap();
}

#[test]
fn only_regular_files_below_the_directory_are_served() {
    let (around, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let from = around.path().join("served");
    fs::create_dir_all(from.join("sub")).unwrap();
    fs::write(around.path().join("secret"), "s").unwrap();
    symlink("../secret", from.join("out")).unwrap();
    let server = TestServer::start(&from, |_| {});
    for (name, refusal) in [
        ("out", Refusal::BadName),
        ("none", Refusal::NoSuchFile),
        ("sub", Refusal::NotAFile),
        ("sub/none", Refusal::NoSuchFile),
    ] {
        let error = fetch(server.address, name, &to.path().join("x")).unwrap_err();
        assert!(matches!(error, NetError::Refused { reason, .. } if reason == refusal), "{name}: {error}");
        assert!(error.to_string().contains(name) && !error.to_string().contains('\n'));
        let served = server.next_served();
        assert_eq!((served.name.as_str(), served.ended, served.refusal), (name, "refused", Some(refusal.to_string())));
    }
    assert!(fs::read_dir(to.path()).unwrap().next().is_none(), "nothing is left behind");
    for name in ["../secret", "sub/../../secret", "sub/.."] {
        assert!(matches!(
            fetch(server.address, name, to.path()),
            Err(NetError::Contact(ContactError::BadAddress { .. }))
        ));
    }
}

#[test]
fn random_datagrams_are_ignored() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = noise(1_000_000, 5);
    fs::write(from.path().join("f"), &bytes).unwrap();
    let server = TestServer::start(from.path(), at_fixed_rate("40 Mb/s"));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let mut seed = 0;
            while !done.load(Ordering::Relaxed) {
                seed += 1;
                let mut garbage = noise((seed % 1400) as usize, seed);
                if let Some(first) = garbage.first_mut().filter(|_| seed % 2 == 0) {
                    *first = 0x11 + (seed / 2 % 4) as u8; // a version and a kind that exist
                }
                let _ = socket.send_to(&garbage, server.address);
                if seed % 64 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        let result = fetch(server.address, "f", to.path());
        done.store(true, Ordering::Relaxed);
        result.unwrap();
    });
    assert_eq!(fs::read(to.path().join("f")).unwrap(), bytes);
}

#[test]
fn damaged_copies_of_real_packets_do_no_harm() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = noise(500_000, 6);
    fs::write(from.path().join("f"), &bytes).unwrap();
    let server = TestServer::start(from.path(), at_fixed_rate("20 Mb/s"));
    let relay = Relay::start(server.address, RelayMode::SendDamagedCopy);
    fetch(relay.address, "f", to.path()).unwrap();
    assert_eq!(fs::read(to.path().join("f")).unwrap(), bytes);
    assert!(fetch(server.address, "f", to.path()).is_ok(), "the server lives");
}

#[test]
fn altered_packets_count_as_lost() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = noise(100_000, 7);
    fs::write(from.path().join("f"), &bytes).unwrap();
    let server = TestServer::start(from.path(), |_| {});
    let relay = Relay::start(server.address, RelayMode::Alter);
    let report = fetch(relay.address, "f", to.path()).unwrap();
    assert_eq!(fs::read(to.path().join("f")).unwrap(), bytes);
    assert!(report.loss > 0.02, "{}", report.loss);
}

#[test]
fn both_ends_detect_that_the_other_does_not_respond() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("f"), noise(3_000_000, 8)).unwrap();
    let server = TestServer::start(from.path(), |options| {
        at_fixed_rate("20 Mb/s")(options);
        options.limits = Limits { peer_timeout: rampmeter_units::Duration::from_secs(1), ..Limits::default() };
    });
    let relay = Relay::start(server.address, RelayMode::Forward);
    let client = std::thread::spawn({
        let client = ClientOptions { peer_timeout: rampmeter_units::Duration::from_secs(1), ..client() };
        let options = GetOptions { client, ..options(relay.address, "f", &to.path().join("f")) };
        move || get(&options)
    });
    while fs::metadata(to.path().join("f.part")).map_or(0, |m| m.len()) < 200_000 {
        std::thread::sleep(Duration::from_millis(2));
    }
    relay.set(RelayMode::Drop);
    let since = Instant::now();
    let error = client.join().unwrap().unwrap_err();
    assert!(matches!(error, NetError::PeerTimeout(_, Received { size: Some(3_000_000), .. })), "{error}");
    assert!(since.elapsed() < Duration::from_secs(10));
    assert_eq!(server.next_served().ended, "timed_out");

    relay.set(RelayMode::Forward);
    assert!(fetch(relay.address, "f", to.path()).unwrap().resumed_from >= 200_000);
}

#[test]
fn a_server_that_stops_aborts_its_transfers() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("f"), noise(3_000_000, 9)).unwrap();
    let mut server = TestServer::start(from.path(), at_fixed_rate("20 Mb/s"));
    let client = std::thread::spawn({
        let (address, to) = (server.address, to.path().join("f"));
        move || fetch(address, "f", &to)
    });
    while fs::metadata(to.path().join("f.part")).map_or(0, |m| m.len()) < 200_000 {
        std::thread::sleep(Duration::from_millis(2));
    }
    server.stop();
    let error = client.join().unwrap().unwrap_err();
    assert!(matches!(error, NetError::Restarted(..)), "{error}");
    assert_eq!(server.next_served().ended, "aborted");
}

#[test]
fn an_error_names_the_peer_that_does_not_answer() {
    let to = tempfile::tempdir().unwrap();
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let peer_timeout = rampmeter_units::Duration::from_millis(500);
    let client = ClientOptions { peer_timeout, ..client() };
    let error = get(&GetOptions { client, ..options(address, "f", to.path()) }).unwrap_err();
    assert!(matches!(error, NetError::Contact(ContactError::NoAnswer(_))), "{error}");

    let busy = Server::bind(ServeOptions { directory: to.path().into(), address, ..ServeOptions::default() });
    assert!(matches!(busy.unwrap_err(), NetError::Contact(ContactError::PortInUse(_))));

    drop(taken);
    let error = fetch(address, "f", to.path()).unwrap_err();
    assert!(matches!(error, NetError::Contact(ContactError::ConnectionRefused(_))), "{error}");
    assert!(fs::read_dir(to.path()).unwrap().next().is_none());
}

#[test]
fn invalid_options_are_refused() {
    let here = tempfile::tempdir().unwrap();
    let address = "127.0.0.1:0".parse().unwrap();
    let missing = ServeOptions { directory: here.path().join("none"), address, ..ServeOptions::default() };
    assert!(matches!(Server::bind(missing).unwrap_err(), NetError::BadDirectory(..)));
    let unknown = ServeOptions { controller: "none".into(), directory: here.path().into(), ..ServeOptions::default() };
    let error = Server::bind(unknown).unwrap_err();
    assert!(error.is_usage() && error.to_string().contains("newreno"), "{error}");
    let nowhere = GetOptions {
        out: Some(here.path().join("no/such/x")),
        ..options("127.0.0.1:9".parse().unwrap(), "f", here.path())
    };
    assert!(matches!(get(&nowhere).unwrap_err(), NetError::File(..)));
}
