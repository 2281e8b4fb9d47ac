//! What a command reports as complete is on the disk, and a file is there before it replaces another one.
//!
//! This program has `fsync` and `syncfs` of its own, which the standard library and `nix` call in place of libc's. They
//! write nothing, and note what was to be written and which names there were.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use common::{TestServer, client, fetch, noise, options};
use rampmeter_net::files::{PutOptions, Writers, get, put};

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

#[unsafe(no_mangle)]
extern "C" fn syncfs(fd: i32) -> i32 {
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

#[test]
fn a_directory_is_on_the_disk_when_its_download_ends() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for name in ["a", "b", "c"] {
        fs::write(from.path().join(name), name).unwrap();
    }
    let server = TestServer::start(from.path(), |options| options.lists = true);
    get(&options(server.address, "", to.path())).unwrap();
    assert_eq!(synced(to.path()).last(), Some(&is("", &["a", "b", "c"])));
}

#[test]
fn an_upload_is_on_the_servers_disk_when_it_ends() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = from.path().join("f");
    fs::write(&source, noise(100_000, 1)).unwrap();
    let server = TestServer::start(to.path(), |options| {
        options.writers = Writers::Anyone;
        options.overwrite = true;
    });
    let options = PutOptions {
        sources: vec![source],
        url: format!("{}/", server.address),
        client: client(),
        overwrite: true,
        ..PutOptions::default()
    };
    put(&options).unwrap();
    assert_eq!(synced(to.path()), [is("", &["f"])]);
    fs::write(to.path().join("f"), "before").unwrap();
    put(&options).unwrap();
    assert_eq!(synced(to.path())[1..], [is(".f.part", &[".f.part", "f"]), is("", &["f"])]);
}
