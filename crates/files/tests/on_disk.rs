//! What a command reports as complete is on the disk, and a file is there before it replaces another one.
//!
//! This program has an `fsync` of its own, which the standard library calls in place of libc's. It writes nothing, and
//! notes what was to be written and which names there were.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use common::{TestServer, fetch};
use rampmeter_testing::noise;

/// A file or a directory that was written to the disk, and the names in the directory at that time.
type Synced = (PathBuf, Vec<String>);

static SYNCED: Mutex<Vec<Synced>> = Mutex::new(Vec::new());

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn note(fd: i32) -> i32 {
    let Ok(path) = fs::read_link(format!("/proc/self/fd/{fd}")) else { return -1 };
    let names = names(if path.is_dir() { &path } else { path.parent().unwrap_or(&path) });
    SYNCED.lock().unwrap().push((path, names));
    0
}

#[unsafe(no_mangle)]
extern "C" fn fsync(fd: i32) -> i32 {
    note(fd)
}

/// What was written to the disk in `directory`: names relative to it, and the names that there were.
fn synced(directory: &Path) -> Vec<(String, Vec<String>)> {
    let directory = fs::canonicalize(directory).unwrap();
    let name = |path: &Path| Some(path.strip_prefix(&directory).ok()?.to_string_lossy().into_owned());
    let all = SYNCED.lock().unwrap();
    all.iter().filter_map(|(path, names)| Some((name(path)?, names.clone()))).collect()
}

fn is(name: &str, names: &[&str]) -> (String, Vec<String>) {
    (name.to_owned(), names.iter().map(|&name| name.to_owned()).collect())
}

#[test]
fn a_download_and_its_name_are_on_the_disk_when_it_ends() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("f"), noise(100_000, 1)).unwrap();
    let server = TestServer::start(from.path(), |_| {});
    let out = to.path().join("f");
    fetch(server.address, "f", &out).unwrap();
    assert_eq!(synced(to.path()), [is("f.part", &["f.part"]), is("", &["f"])]);
    fs::write(&out, "before").unwrap();
    fetch(server.address, "f", &out).unwrap();
    assert_eq!(synced(to.path())[2..], [is("f.part", &["f", "f.part"]), is("", &["f"])]);
}
