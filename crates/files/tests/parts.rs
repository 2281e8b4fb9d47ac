//! The outputs of a download: a part file that the next download resumes from, a pipe; and what is neither followed nor
//! written to.

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::stat::Mode;
use rampmeter_files::{GetOptions, NetError, Received, get};
use rampmeter_testing::noise;

use crate::common::{TestServer, at_fixed_rate, begin, directories, fetch, options};

/// Nobody else can read the part of a file that is its owner's only, and a second download does not write to it.
#[test]
fn a_stopped_download_is_resumed_where_it_stopped() {
    let (from, to) = directories(3_000_000);
    let server = TestServer::start(from.path(), at_fixed_rate("40 Mb/s"));
    fs::write(to.path().join("f"), "old").unwrap();
    fs::set_permissions(to.path().join("f"), Permissions::from_mode(0o640)).unwrap();
    let stop = Arc::<AtomicBool>::default();
    let stopped = GetOptions { stop: Arc::clone(&stop), ..options(server.address, "f", to.path()) };
    let stopped = begin(stopped, 500_000);
    assert!(matches!(fetch(server.address, "f", to.path()), Err(NetError::PartInUse(_))));
    stop.store(true, Ordering::Relaxed);
    let stopped = stopped.join().unwrap();
    let Err(NetError::Interrupted(Received { got, size: Some(3_000_000), resumable: true })) = stopped else {
        panic!("{stopped:?}")
    };
    let part = fs::metadata(to.path().join("f.part")).unwrap();
    assert!(part.len() >= got && part.mode() & 0o777 == 0o600);
    let served = server.next_served();
    assert_eq!(served.ended, "reset");

    let again = GetOptions { controller: Some("newreno".into()), ..options(server.address, "f", to.path()) };
    let report = get(&again).unwrap();
    assert_eq!((report.resumed_from, report.controller.as_str()), (part.len(), "newreno"));
    assert!(fs::read(to.path().join("f")).unwrap() == noise(3_000_000, 1));
    assert_eq!(server.next_served().bytes, 3_000_000 - part.len());
}

#[test]
fn a_changed_file_restarts_and_a_grown_one_resumes() {
    let (from, to) = directories(0);
    let mut bytes = noise(2_000_000, 2);
    let server = TestServer::start(from.path(), |_| {});
    let resumed_from = |part: &[u8], file: &[u8], fresh| {
        fs::write(to.path().join("f.part"), part).unwrap();
        fs::write(from.path().join("f"), file).unwrap();
        let report = get(&GetOptions { fresh, ..options(server.address, "f", to.path()) }).unwrap();
        assert!(fs::read(to.path().join("f")).unwrap() == file);
        report.resumed_from
    };
    let part = bytes[..900_000].to_vec();
    assert_eq!(resumed_from(&part, &bytes, false), 900_000);
    assert_eq!(resumed_from(&part, &bytes, true), 0, "it was not wanted");
    assert_eq!(resumed_from(&bytes, &bytes, false), 2_000_000, "all of it was here");
    bytes[5] ^= 1;
    assert_eq!(resumed_from(&part, &bytes, false), 0);
    assert_eq!(resumed_from(&part, b"short", false), 0);
    assert_eq!(resumed_from(&part, b"", false), 0);
}

#[test]
fn a_pipe_receives_the_bytes_and_stays() {
    let (from, to) = directories(300_000);
    let server = TestServer::start(from.path(), |_| {});
    let pipe = to.path().join("pipe");
    nix::unistd::mkfifo(&pipe, Mode::from_bits_truncate(0o600)).unwrap();
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).unwrap()
    });
    assert_eq!(fetch(server.address, "f", &pipe).unwrap().bytes, 300_000);
    assert!(reader.join().unwrap() == noise(300_000, 1) && !to.path().join("pipe.part").exists());
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
}

#[test]
fn a_file_that_is_replaced_keeps_its_permissions() {
    let (from, to) = directories(10_000);
    let server = TestServer::start(from.path(), |_| {});
    let (target, part) = (to.path().join("f"), to.path().join("f.part"));
    for (before, after) in [(0o600, 0o600), (0o751, 0o751), (0o4755, 0o755)] {
        fs::write(&target, "old").unwrap();
        fs::set_permissions(&target, Permissions::from_mode(before)).unwrap();
        fs::write(&part, &noise(10_000, 1)[..5000]).unwrap();
        assert_eq!(fetch(server.address, "f", &target).unwrap().resumed_from, 5000);
        assert_eq!(fs::metadata(&target).unwrap().mode() & 0o7777, after, "{before:o}");
    }
}

/// Each is what another user with access to the directory could put there.
#[test]
fn nothing_but_an_own_part_file_is_written_to() {
    let (from, to) = directories(10_000);
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
    for target in ["none/", "none/f"] {
        let error = fetch(server.address, "f", &at(target)).unwrap_err().to_string();
        assert!(error.contains("none") && error.contains("make its directory") && !error.contains(".part"), "{error}");
    }
}
