//! Many files over one session: directories, uploads, synchronization.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rampmeter_net::files::{
    ClientOptions, FileResult, GetOptions, NetError, PutOptions, Refusal, Report, ServeOptions, SyncOptions, Writers,
    get, put, sync,
};
use rampmeter_units::{Bytes, Rate};

use crate::common::{TestServer, at_fixed_rate, client, noise, options};

/// Writes a tree of `count` files, some in directories, some empty, one large.
fn write_tree(at: &Path, count: usize) {
    for n in 0..count {
        let name = at.join(format!("d{}/e{}/f{n}", n % 3, n % 7));
        fs::create_dir_all(name.parent().unwrap()).unwrap();
        fs::write(name, noise(n % 50 * 100, n as u64)).unwrap();
    }
    fs::write(at.join("large"), noise(3_000_000, 9)).unwrap();
}

/// The visible files below a directory, with their contents.
fn read_tree(at: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut directories = vec![at.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                files.insert(path.strip_prefix(at).unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    files
}

fn listed(options: &mut ServeOptions) {
    options.lists = true;
}

fn writable(options: &mut ServeOptions) {
    listed(options);
    options.writers = Writers::Anyone;
    options.overwrite = true;
}

fn put_to(server: &TestServer, source: &Path, name: &str) -> Result<Report, NetError> {
    let sources = vec![source.to_owned()];
    put(&PutOptions { sources, url: format!("{}/{name}", server.address), client: client(), ..PutOptions::default() })
}

/// A flag that is set when the file at `path` has `len` bytes.
fn stop_at(len: u64, path: PathBuf) -> (Arc<AtomicBool>, JoinHandle<()>) {
    let stop = Arc::new(AtomicBool::new(false));
    let watched = Arc::clone(&stop);
    let watcher = std::thread::spawn(move || {
        while fs::metadata(&path).map_or(0, |found| found.len()) < len {
            std::thread::sleep(Duration::from_millis(2));
        }
        watched.store(true, Ordering::Relaxed);
    });
    (stop, watcher)
}

fn failures(report: &Report) -> Vec<&str> {
    report.files.iter().filter_map(|file| file.error.as_deref()).collect()
}

#[test]
fn a_directory_arrives_complete_and_only_once() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_tree(from.path(), 500);
    fs::write(from.path().join(".hidden"), "h").unwrap();
    let server = TestServer::start(from.path(), listed);
    for jobs in [1, 4] {
        let out = to.path().join(jobs.to_string());
        let options = || GetOptions { client: ClientOptions { jobs, ..client() }, ..options(server.address, "", &out) };
        let report = get(&options()).unwrap();
        assert_eq!((report.complete, report.failed, report.skipped), (501, 0, 0), "{:?}", failures(&report));
        assert!(report.loss < 0.5, "numbers of packets are no losses: {}", report.loss);
        let mut expected = read_tree(from.path());
        expected.remove(".hidden");
        assert!(read_tree(&out) == expected);
        let again = get(&options()).unwrap();
        assert_eq!((again.complete, again.unchanged), (0, 501));
    }
    // One directory in it, whose contents become those of the output.
    let report = get(&options(server.address, "d1/", &to.path().join("part"))).unwrap();
    assert!(report.complete > 100 && read_tree(&to.path().join("part")) == read_tree(&from.path().join("d1")));
}

/// In memory, if there is a file system there: each file is written to the disk before it has its name.
#[test]
fn ten_thousand_files_arrive_by_one_request() {
    let memory = Path::new("/dev/shm");
    let root = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let (from, to) = (tempfile::tempdir_in(&root).unwrap(), tempfile::tempdir_in(&root).unwrap());
    write_tree(from.path(), 10_000);
    let server = TestServer::start(from.path(), listed);
    let out = to.path().join("out");
    let report = get(&options(server.address, "", &out)).unwrap();
    assert_eq!((report.complete, report.failed), (10_001, 0), "{:?}", failures(&report));
    assert!(read_tree(&out) == read_tree(from.path()));
}

#[test]
fn several_names_keep_their_names_below_the_output() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_tree(from.path(), 20);
    let server = TestServer::start(from.path(), listed);
    let address = server.address;
    let urls = ["large", "d0/", "d2/e2/f2", "none"].map(|name| format!("{address}/{name}")).to_vec();
    let out = to.path().join("new");
    let report = get(&GetOptions { urls, out: Some(out.clone()), client: client(), ..GetOptions::default() }).unwrap();
    assert_eq!(report.failed, 1);
    assert!(failures(&report)[0].contains("no such file"), "{:?}", failures(&report));
    let got = read_tree(&out);
    assert_eq!(got["large"], noise(3_000_000, 9));
    assert_eq!(got["f2"], fs::read(from.path().join("d2/e2/f2")).unwrap());
    assert_eq!(got["d0/e3/f3"], fs::read(from.path().join("d0/e3/f3")).unwrap());
}

#[test]
fn a_stopped_directory_is_resumed_in_its_large_file() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("small"), "s").unwrap();
    fs::write(from.path().join("large"), noise(3_000_000, 1)).unwrap();
    let server = TestServer::start(from.path(), |options| {
        listed(options);
        at_fixed_rate("20 Mb/s")(options);
    });
    let (stop, watcher) = stop_at(500_000, to.path().join(".large.part"));
    let stopped =
        get(&GetOptions { client: ClientOptions { stop, ..client() }, ..options(server.address, "", to.path()) });
    watcher.join().unwrap();
    let Err(NetError::Interrupted(received)) = stopped else { panic!("{stopped:?}") };
    assert!(received.got >= 500_000 && received.size == Some(3_000_001), "{received:?}");
    let report = get(&options(server.address, "", to.path())).unwrap();
    assert!(report.resumed_from >= 500_000, "{report:?}");
    assert_eq!(report.complete + report.unchanged, 2);
    assert!(read_tree(to.path()) == read_tree(from.path()));
}

#[test]
fn uploads_are_refused_unless_their_key_is_listed() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("f"), "f").unwrap();
    fs::write(to.path().join("old"), "old").unwrap();
    let own = rampmeter_session::KeyPair::generate(&mut rampmeter_units::Stream::from_seed(7));
    let server = TestServer::start(to.path(), |options| {
        options.writers = Writers::Listed([own.public()].into());
    });
    let refused = |result: Result<Report, NetError>, expected| {
        assert!(matches!(&result, Err(NetError::Refused { reason, .. }) if *reason == expected), "{result:?}");
    };
    refused(put_to(&server, &from.path().join("f"), "f"), Refusal::ReadOnly);
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 1, "nothing is left behind");
    let listed = |name: &str, overwrite| {
        put(&PutOptions {
            sources: vec![from.path().join("f")],
            url: format!("{}/{name}", server.address),
            overwrite,
            client: ClientOptions { identity: Some(own.clone()), ..client() },
            ..PutOptions::default()
        })
    };
    assert_eq!(listed("sub/f", false).unwrap().complete, 1);
    assert_eq!(fs::read(to.path().join("sub/f")).unwrap(), b"f");
    refused(listed("old", false), Refusal::Exists);
    refused(listed("old", true), Refusal::NoOverwrite);
    for name in ["old/f", "old/sub/f"] {
        refused(listed(name, false), Refusal::NotADirectory);
    }
    assert_eq!(fs::read(to.path().join("old")).unwrap(), b"old");
    for name in [".hidden", "a/.ssh/keys", ".f.part"] {
        refused(listed(name, true), Refusal::Hidden);
    }
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 2);
}

#[test]
fn a_directory_is_put_and_put_again_without_sending_it() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_tree(from.path(), 300);
    let server = TestServer::start(to.path(), writable);
    let report = put_to(&server, from.path(), "in/").unwrap();
    assert_eq!((report.complete, report.failed), (301, 0), "{:?}", failures(&report));
    assert!(read_tree(&to.path().join("in")) == read_tree(from.path()));
    let again = put_to(&server, from.path(), "in/").unwrap();
    assert_eq!((again.complete, again.unchanged, again.bytes), (0, 301, 0));
}

#[test]
fn an_upload_is_resumed_where_it_stopped() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = noise(3_000_000, 4);
    fs::write(from.path().join("f"), &bytes).unwrap();
    let server = TestServer::start(to.path(), writable);
    for (part, resumed) in [(&bytes[..1_000_000], 1_000_000), (b"other", 0), (&noise(4_000_000, 5), 0)] {
        fs::write(to.path().join(".f.part"), part).unwrap();
        let put = PutOptions {
            sources: vec![from.path().join("f")],
            url: format!("{}/f", server.address),
            overwrite: true,
            client: client(),
            ..PutOptions::default()
        };
        let report = rampmeter_net::files::put(&put).unwrap();
        assert_eq!(report.resumed_from, resumed);
        assert_eq!(fs::read(to.path().join("f")).unwrap(), bytes);
        assert!(!to.path().join(".f.part").exists());
    }
}

#[test]
fn a_stopped_upload_of_a_directory_is_resumed() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("small"), "s").unwrap();
    fs::write(from.path().join("large"), noise(3_000_000, 1)).unwrap();
    let server = TestServer::start(to.path(), |options| {
        writable(options);
        options.rate = Some(Rate::from_bps(8_000_000));
    });
    let (stop, watcher) = stop_at(500_000, to.path().join(".large.part"));
    let url = format!("{}/", server.address);
    let from_path = from.path().to_str().unwrap().to_owned();
    let client_with = |stop| ClientOptions { stop, ..client() };
    let stopped = sync(&SyncOptions {
        from: from_path.clone(),
        to: url.clone(),
        client: client_with(stop),
        ..SyncOptions::default()
    });
    watcher.join().unwrap();
    let Err(NetError::Interrupted(received)) = stopped else { panic!("{stopped:?}") };
    assert!(received.got >= 500_000 && received.size == Some(3_000_001), "{received:?}");
    let report = sync_with(&from_path, &url, |_| {});
    assert!(report.resumed_from >= 500_000, "{report:?}");
    assert!(read_tree(to.path()) == read_tree(from.path()));
}

#[test]
fn uploads_beyond_the_limits_are_refused_and_leave_nothing() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for n in 0..5 {
        fs::write(from.path().join(n.to_string()), noise(50_000, n)).unwrap();
    }
    fs::write(from.path().join("large"), noise(200_000, 9)).unwrap();
    let server = TestServer::start(to.path(), |options| {
        writable(options);
        (options.max_size, options.quota) = (Some(Bytes::new(150_000)), Some(Bytes::new(160_000)));
    });
    let report = put_to(&server, from.path(), "").unwrap();
    assert_eq!((report.complete, report.failed), (3, 3), "{:?}", failures(&report));
    let errors = failures(&report);
    assert_eq!(errors.iter().filter(|error| error.contains("--max-size")).count(), 1, "{errors:?}");
    assert_eq!(errors.iter().filter(|error| error.contains("quota")).count(), 2, "{errors:?}");
    assert_eq!(read_tree(to.path()).len(), 3, "no part is left");
}

#[test]
fn the_part_of_an_upload_counts_once_in_the_quota() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = noise(120_000, 1);
    fs::write(from.path().join("f"), &bytes).unwrap();
    fs::write(to.path().join(".f.part"), &bytes[..100_000]).unwrap();
    let server = TestServer::start(to.path(), |options| {
        writable(options);
        options.quota = Some(Bytes::new(130_000));
    });
    let report = put_to(&server, &from.path().join("f"), "").unwrap();
    assert_eq!(report.complete, 1, "{:?}", failures(&report));
    fs::write(from.path().join("g"), noise(20_000, 2)).unwrap();
    let error = put_to(&server, &from.path().join("g"), "").unwrap_err();
    assert!(matches!(error, NetError::Refused { reason: Refusal::QuotaExceeded, .. }), "{error}");
}

/// Runs `action` as a user that may not read the files of others; threads that it starts have that user, too.
fn as_nobody<T: Send>(action: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let run = || {
            // SAFETY: it changes the user of this thread only, for files; root loses its permission to read all.
            unsafe { libc::setfsuid(65534) };
            action()
        };
        scope.spawn(run).join().unwrap()
    })
}

#[test]
fn nothing_is_deleted_where_a_directory_could_not_be_read() {
    let open = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let delete = |from: &str, to: &str| {
        let client = client();
        sync(&SyncOptions { from: from.into(), to: to.into(), client, delete: true, ..SyncOptions::default() }).unwrap()
    };
    for push in [true, false] {
        let [there, here] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        for place in [&there, &here] {
            open(place.path(), 0o777);
        }
        let path = here.path().to_str().unwrap().to_owned();
        let (source, target) = if push { (here.path(), there.path()) } else { (there.path(), here.path()) };
        for name in ["closed/f", "gone"] {
            fs::create_dir_all(source.join("closed")).unwrap();
            fs::write(source.join(name), name).unwrap();
        }
        open(&source.join("closed"), 0o777);
        open(&source.join("gone"), 0o777);
        let server = as_nobody(|| TestServer::start(there.path(), writable));
        let url = format!("{}/", server.address);
        let (from, to) = if push { (path.as_str(), url.as_str()) } else { (url.as_str(), path.as_str()) };
        let report = as_nobody(|| delete(from, to));
        assert_eq!(report.failed, 0, "{push}: {:?}", failures(&report));
        fs::remove_file(source.join("gone")).unwrap();
        open(&source.join("closed"), 0o000);
        let report = as_nobody(|| delete(from, to));
        assert_eq!(report.failed, 1, "{push}: {:?}", failures(&report));
        assert!(failures(&report)[0].contains("read") || failures(&report)[0].contains("denied"), "{report:?}");
        assert!(target.join("closed/f").exists() && target.join("gone").exists(), "{push}");
        open(&source.join("closed"), 0o777);
        assert_eq!(count(&as_nobody(|| delete(from, to)), FileResult::Deleted), 1, "{push}");
    }
}

fn sync_with(from: &str, to: &str, change: impl FnOnce(&mut SyncOptions)) -> Report {
    let mut options = SyncOptions { from: from.into(), to: to.into(), client: client(), ..SyncOptions::default() };
    change(&mut options);
    let report = sync(&options).unwrap();
    assert_eq!(report.failed, 0, "{:?}", failures(&report));
    report
}

fn count(report: &Report, result: FileResult) -> usize {
    report.files.iter().filter(|file| file.result == result).count()
}

#[test]
fn a_synchronization_moves_only_what_changed_in_both_directions() {
    let (there, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = TestServer::start(there.path(), writable);
    let url = format!("{}/", server.address);
    let path = here.path().to_str().unwrap().to_owned();
    let trees = || (read_tree(there.path()), read_tree(here.path()));
    write_tree(here.path(), 30);
    for push in [true, false] {
        let (from, to, source, target) = if push {
            (path.as_str(), url.as_str(), here.path(), there.path())
        } else {
            (url.as_str(), path.as_str(), there.path(), here.path())
        };
        fs::write(source.join("changed"), format!("one {push}")).unwrap();
        fs::write(source.join("other time"), "the same").unwrap();
        sync_with(from, to, |_| {});
        assert!(trees().0 == trees().1);
        assert_eq!(count(&sync_with(from, to, |_| {}), FileResult::Unchanged), 33);

        fs::write(source.join("changed"), format!("TWO {push}")).unwrap(); // the same size
        fs::write(source.join("other time"), "the same").unwrap();
        fs::write(source.join("new"), "new").unwrap();
        fs::create_dir_all(target.join("x/y")).unwrap();
        fs::write(target.join("x/y/extra"), "extra").unwrap();
        let before = trees();
        let dry = sync_with(from, to, |options| (options.delete, options.dry_run) = (true, true));
        assert_eq!(count(&dry, FileResult::WouldTransfer), 2);
        assert_eq!((count(&dry, FileResult::WouldDelete), count(&dry, FileResult::Unchanged)), (1, 32));
        assert!(trees() == before, "a dry run changes nothing");

        let kept = sync_with(from, to, |_| {});
        assert_eq!((kept.complete, kept.unchanged), (2, 32));
        assert!(target.join("x/y/extra").exists());
        let times = |at: &Path| fs::metadata(at.join("other time")).unwrap().modified().unwrap();
        assert_eq!(times(source), times(target), "only the time was set");
        let deleted = sync_with(from, to, |options| options.delete = true);
        assert_eq!((count(&deleted, FileResult::Deleted), deleted.complete), (1, 0));
        assert!(trees().0 == trees().1 && !target.join("x").exists());
        fs::remove_file(here.path().join("new")).unwrap();
        fs::remove_file(there.path().join("new")).unwrap();
    }
}

#[test]
fn a_file_that_is_too_large_does_not_stop_the_others() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (name, size) in [("a", 10), ("large", 1001), ("z", 1000)] {
        fs::write(from.path().join(name), vec![7; size]).unwrap();
    }
    let server = TestServer::start(from.path(), listed);
    let max_size = Some(Bytes::new(1000));
    let report = get(&GetOptions { max_size, ..options(server.address, "", to.path()) }).unwrap();
    assert_eq!((report.complete, report.failed), (2, 1), "{report:?}");
    assert!(failures(&report)[0].contains("allow a larger size") && !to.path().join("large").exists());
}

#[test]
fn a_new_directory_takes_the_place_of_a_file_not_the_reverse() {
    for push in [true, false] {
        let (there, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let server = TestServer::start(there.path(), writable);
        let (url, path) = (format!("{}/", server.address), here.path().to_str().unwrap().to_owned());
        let (from, to, source, target) = if push {
            (path.as_str(), url.as_str(), here.path(), there.path())
        } else {
            (url.as_str(), path.as_str(), there.path(), here.path())
        };
        fs::create_dir_all(source.join("new/below")).unwrap();
        fs::write(source.join("new/below/a"), "a").unwrap();
        fs::write(target.join("new"), "b").unwrap();
        let run = |delete| {
            let (from, to, client) = (from.into(), to.into(), client());
            sync(&SyncOptions { from, to, client, delete, ..SyncOptions::default() }).unwrap()
        };
        let refused = run(false);
        assert_eq!(refused.failed, 1, "{refused:?}");
        fs::create_dir(target.join("other")).unwrap();
        fs::write(source.join("other"), "a file").unwrap();
        fs::write(target.join("other/b"), "b").unwrap();
        let failed = run(true);
        assert_eq!((failed.failed, count(&failed, FileResult::Deleted)), (2, 0), "{failed:?}");
        assert!(target.join("new").is_file(), "another file failed");
        fs::remove_dir_all(target.join("other")).unwrap();
        let replaced = run(true);
        assert_eq!((count(&replaced, FileResult::Deleted), replaced.complete), (1, 2), "{replaced:?}");
        assert!(read_tree(source) == read_tree(target));

        fs::remove_dir_all(source.join("new")).unwrap();
        fs::write(source.join("new"), "a file").unwrap();
        let refused = run(true);
        assert_eq!((refused.failed, count(&refused, FileResult::Deleted)), (1, 0), "{refused:?}");
        assert!(target.join("new/below/a").exists());
    }
}

#[test]
fn a_server_serves_known_names_only_unless_it_lists() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("f"), "f").unwrap();
    let server = TestServer::start(from.path(), |_| {});
    let error = get(&options(server.address, "", to.path())).unwrap_err();
    assert!(matches!(error, NetError::Refused { reason: Refusal::NotListed, .. }), "{error}");
    assert!(
        error.to_string().contains("refuses its directory: ") && error.to_string().contains("serve --list"),
        "{error}"
    );
    let new = to.path().join("new");
    get(&options(server.address, "", &new)).unwrap_err();
    assert!(!new.exists(), "a directory for nothing");
    fs::write(to.path().join("file"), "").unwrap();
    let error = get(&options(server.address, "", &to.path().join("file"))).unwrap_err();
    assert!(error.to_string().contains("it is no directory"), "{error}");
    assert_eq!(get(&options(server.address, "f", to.path())).unwrap().complete, 1);
}

/// Without a list the client does not know the sizes, and counts them as larger than they are.
#[test]
fn many_names_without_a_list_all_arrive() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let names: Vec<String> = (0..200).map(|n| n.to_string()).collect();
    for name in &names {
        fs::write(from.path().join(name), name).unwrap();
    }
    let server = TestServer::start(from.path(), |_| {});
    let urls = names.iter().map(|name| format!("{}/{name}", server.address)).collect();
    let client = ClientOptions { jobs: 1, ..client() };
    let report = get(&GetOptions { urls, out: Some(to.path().into()), client, ..GetOptions::default() }).unwrap();
    assert_eq!((report.complete, report.failed), (200, 0), "{:?}", failures(&report));
    assert!(read_tree(to.path()) == read_tree(from.path()));
}

#[test]
fn only_regular_files_are_put() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = TestServer::start(to.path(), |options| options.writers = Writers::Anyone);
    let pipe = from.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    // It would wait for a writer.
    for source in [pipe.as_path(), Path::new("/dev/null")] {
        assert!(matches!(put_to(&server, source, "f"), Err(NetError::Unreadable(..))), "{source:?}");
    }
}
