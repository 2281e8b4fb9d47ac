//! The outputs of a download: a part file that the next download resumes from, a pipe, a link.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rampmeter_net::files::{ClientOptions, GetOptions, NetError, Received, get};

use crate::common::{TestServer, at_fixed_rate, client, fetch, fetch_with, noise, options};

#[test]
fn a_resumed_download_uses_the_selected_controller() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = noise(3_000_000, 13);
    fs::write(from.path().join("f"), &bytes).unwrap();
    let server = TestServer::start(from.path(), at_fixed_rate("40 Mb/s"));
    let got = stop_midway(&server, to.path(), 500_000);
    let report = fetch_with("newreno", &server, to.path()).unwrap();
    assert_eq!((report.resumed_from, report.controller.as_str()), (got, "newreno"));
    assert_eq!(fs::read(to.path().join("f")).unwrap(), bytes);
}

#[test]
fn a_stopped_download_is_resumed_where_it_stopped() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = noise(3_000_000, 1);
    fs::write(from.path().join("f"), &bytes).unwrap();
    let server = TestServer::start(from.path(), at_fixed_rate("40 Mb/s"));
    let got = stop_midway(&server, to.path(), 500_000);

    let report = fetch(server.address, "f", to.path()).unwrap();
    assert_eq!(report.resumed_from, got);
    assert_eq!(fs::read(to.path().join("f")).unwrap(), bytes);
    assert_eq!(server.next_served().ended, "reset");
    let served = server.next_served();
    assert_eq!(served.bytes, bytes.len() as u64 - got);
}

/// Downloads `f` and stops after `enough` bytes. Returns the number of bytes received.
fn stop_midway(server: &TestServer, to: &std::path::Path, enough: u64) -> u64 {
    let stop = Arc::new(AtomicBool::new(false));
    let part = to.join("f.part");
    let watcher = std::thread::spawn({
        let (stop, part) = (Arc::clone(&stop), part.clone());
        move || {
            while fs::metadata(&part).map_or(0, |m| m.len()) < enough {
                std::thread::sleep(Duration::from_millis(2));
            }
            stop.store(true, Ordering::Relaxed);
        }
    });
    let stopped = get(&GetOptions { client: ClientOptions { stop, ..client() }, ..options(server.address, "f", to) });
    watcher.join().unwrap();
    let Err(NetError::Interrupted(Received { got, size, resumable: true })) = stopped else { panic!("{stopped:?}") };
    assert!(size.is_some_and(|size| got < size));
    assert_eq!(fs::metadata(&part).unwrap().len(), got);
    got
}

#[test]
fn a_changed_file_restarts_and_a_grown_one_resumes() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut bytes = noise(2_000_000, 2);
    let server = TestServer::start(from.path(), |_| {});
    let part = to.path().join("f.part");

    fs::write(&part, &bytes[..900_000]).unwrap();
    bytes.extend(noise(1000, 3));
    fs::write(from.path().join("f"), &bytes).unwrap();
    assert_eq!(fetch(server.address, "f", to.path()).unwrap().resumed_from, 900_000);
    assert_eq!(fs::read(to.path().join("f")).unwrap(), bytes);

    fs::write(&part, &bytes[..900_000]).unwrap();
    bytes[5] ^= 1;
    fs::write(from.path().join("f"), &bytes).unwrap();
    assert_eq!(fetch(server.address, "f", to.path()).unwrap().resumed_from, 0);
    assert_eq!(fs::read(to.path().join("f")).unwrap(), bytes);

    fs::write(&part, &bytes[..900_000]).unwrap();
    fs::write(from.path().join("f"), "short").unwrap();
    assert_eq!(fetch(server.address, "f", to.path()).unwrap().resumed_from, 0);
    assert_eq!(fs::read(to.path().join("f")).unwrap(), b"short");

    fs::write(&part, "sh").unwrap();
    let restarted = GetOptions { fresh: true, ..options(server.address, "f", to.path()) };
    assert_eq!(get(&restarted).unwrap().resumed_from, 0);

    fs::write(&part, "short").unwrap();
    assert_eq!(fetch(server.address, "f", to.path()).unwrap().resumed_from, 5, "all of it was here");

    fs::write(&part, "short").unwrap();
    fs::write(from.path().join("f"), "").unwrap();
    assert_eq!(fetch(server.address, "f", to.path()).unwrap().resumed_from, 0);
    assert_eq!(fs::read(to.path().join("f")).unwrap(), b"", "it is empty now");
}

#[test]
fn only_one_download_at_a_time_writes_a_part() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("f"), noise(1_000_000, 10)).unwrap();
    let server = TestServer::start(from.path(), at_fixed_rate("40 Mb/s"));
    let target = to.path().join("f");
    let first = std::thread::spawn({
        let (address, target) = (server.address, target.clone());
        move || fetch(address, "f", &target)
    });
    while fs::metadata(to.path().join("f.part")).map_or(0, |m| m.len()) == 0 {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(matches!(fetch(server.address, "f", &target), Err(NetError::PartInUse(_))));
    first.join().unwrap().unwrap();
}

#[test]
fn pipes_and_links_are_not_replaced() {
    use nix::sys::stat::Mode;
    use std::os::unix::fs::{FileTypeExt, symlink};
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = noise(300_000, 12);
    fs::write(from.path().join("f"), &bytes).unwrap();
    let server = TestServer::start(from.path(), |_| {});
    let at = |name: &str| to.path().join(name);

    nix::unistd::mkfifo(&at("pipe"), Mode::from_bits_truncate(0o600)).unwrap();
    let reader = std::thread::spawn({
        let pipe = at("pipe");
        move || fs::read(pipe).unwrap()
    });
    assert_eq!(fetch(server.address, "f", &at("pipe")).unwrap().bytes, bytes.len() as u64);
    assert!(reader.join().unwrap() == bytes && !at("pipe.part").exists());
    assert!(fs::metadata(at("pipe")).unwrap().file_type().is_fifo());

    fs::write(at("real"), "old").unwrap();
    symlink("real", at("link")).unwrap();
    fetch(server.address, "f", &at("link")).unwrap();
    assert!(fs::read(at("real")).unwrap() == bytes && at("link").is_symlink());

    // A link that another user put at the path of a part file.
    fs::write(at("mine"), "dear").unwrap();
    symlink("mine", at("new.part")).unwrap();
    assert!(matches!(fetch(server.address, "f", &at("new")), Err(NetError::File(..))));
    assert_eq!(fs::read(at("mine")).unwrap(), b"dear");
    nix::unistd::mkfifo(&at("odd.part"), Mode::from_bits_truncate(0o600)).unwrap();
    let error = fetch(server.address, "f", &at("odd")).unwrap_err().to_string();
    assert!(error.contains("odd.part: is not a regular file"), "{error}");
}

#[test]
fn a_missing_directory_is_named_without_a_part() {
    let place = tempfile::tempdir().unwrap();
    let server = TestServer::start(place.path(), |_| {});
    for target in ["none/", "none/f"] {
        let error = fetch(server.address, "f", &place.path().join(target)).unwrap_err().to_string();
        assert!(error.contains("none") && error.contains("make its directory") && !error.contains(".part"), "{error}");
    }
}
