//! The outputs of a download: a part file that the next download resumes from, a pipe; and what is neither followed nor
//! written to.

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::stat::Mode;
use rampmeter_files::{ClientOptions, GetOptions, NetError, Received, get};
use rampmeter_testing::noise;

use crate::common::{TestServer, at_fixed_rate, client, fetch, fetch_with, options};

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
fn a_pipe_receives_the_bytes_and_stays() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = noise(300_000, 12);
    fs::write(from.path().join("f"), &bytes).unwrap();
    let server = TestServer::start(from.path(), |_| {});
    let pipe = to.path().join("pipe");
    nix::unistd::mkfifo(&pipe, Mode::from_bits_truncate(0o600)).unwrap();
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).unwrap()
    });
    assert_eq!(fetch(server.address, "f", &pipe).unwrap().bytes, bytes.len() as u64);
    assert!(reader.join().unwrap() == bytes && !to.path().join("pipe.part").exists());
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
}

#[test]
fn a_file_that_is_replaced_keeps_its_permissions() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("f"), noise(10_000, 1)).unwrap();
    let server = TestServer::start(from.path(), |_| {});
    let (target, part) = (to.path().join("f"), to.path().join("f.part"));
    for (before, after) in [(0o600, 0o600), (0o751, 0o751), (0o4755, 0o755)] {
        fs::write(&target, "old").unwrap();
        fs::set_permissions(&target, Permissions::from_mode(before)).unwrap();
        fs::write(&part, &noise(10_000, 1)[..5000]).unwrap();
        assert_eq!(fetch(server.address, "f", &target).unwrap().resumed_from, 5000);
        assert_eq!(fs::metadata(&target).unwrap().mode() & 0o7777, after, "{before:o}");
        assert!(fs::read(&target).unwrap() == noise(10_000, 1));
    }
}

/// Nobody else can read the part of a file that is its owner's only.
#[test]
fn the_part_of_a_private_file_is_private() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("f"), noise(3_000_000, 1)).unwrap();
    let server = TestServer::start(from.path(), at_fixed_rate("40 Mb/s"));
    fs::write(to.path().join("f"), "old").unwrap();
    fs::set_permissions(to.path().join("f"), Permissions::from_mode(0o640)).unwrap();
    stop_midway(&server, to.path(), 100_000);
    assert_eq!(fs::metadata(to.path().join("f.part")).unwrap().mode() & 0o777, 0o600);
}

/// Each is what another user with access to the directory could put there.
#[test]
fn nothing_but_an_own_part_file_is_written_to() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("f"), noise(10_000, 12)).unwrap();
    let server = TestServer::start(from.path(), |_| {});
    let at = |name: &str| to.path().join(name);
    fs::write(at("mine"), "dear").unwrap();
    symlink("mine", at("link")).unwrap();
    symlink("none", at("dangling")).unwrap();
    symlink("mine", at("a.part")).unwrap();
    symlink("none", at("b.part")).unwrap();
    nix::unistd::mkfifo(&at("c.part"), Mode::from_bits_truncate(0o600)).unwrap();
    fs::hard_link(at("mine"), at("d.part")).unwrap();
    fs::write(at("e.part"), "").unwrap();
    let mut expected = vec![
        ("link", "link is a symbolic link"),
        ("dangling", "dangling is a symbolic link"),
        ("a", "a.part is a symbolic link"),
        ("b", "b.part is a symbolic link"),
        ("c", "c.part is not a regular file"),
        ("d", "d.part has another name"),
    ];
    match chown(at("e.part"), Some(65_534), None) {
        Ok(()) => expected.push(("e", "e.part belongs to another user")),
        Err(error) => eprintln!("skipped: a file of another user needs root ({error})"),
    }
    for (name, problem) in expected {
        for fresh in [false, true] {
            let error = get(&GetOptions { fresh, ..options(server.address, "f", &at(name)) }).unwrap_err();
            assert!(matches!(error, NetError::NotOwnFile(..)), "{name}: {error}");
            assert!(error.to_string().contains(problem), "{name}: {error}");
        }
    }
    assert_eq!(fs::read(at("mine")).unwrap(), b"dear");
    assert!(at("link").is_symlink() && !at("none").exists());
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
