//! A server in a thread, and its clients.

#![allow(dead_code, missing_docs, unreachable_pub, reason = "shared by several tests, each of which uses a part")]

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rampmeter_files::{GetOptions, NetError, Report, ServeOptions, Server, TransferReport, get};
use rampmeter_net::Trust;
use rampmeter_session::{KeyPair, PublicKey};
use rampmeter_streams::ClientOptions;
use rampmeter_testing::noise;
use tempfile::TempDir;

/// A server that runs until it is dropped.
pub struct TestServer {
    pub address: SocketAddr,
    pub key: PublicKey,
    pub served: Receiver<TransferReport>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), NetError>>>,
}

impl TestServer {
    pub fn start(directory: &Path, change: impl FnOnce(&mut ServeOptions)) -> Self {
        let (sender, served) = channel();
        let mut options = ServeOptions {
            directory: directory.to_owned(),
            on_transfer: Some(Box::new(move |report| drop(sender.send(report.clone())))),
            ..ServeOptions::default()
        };
        options.server.address = "127.0.0.1:0".parse().unwrap();
        options.server.identity = identity();
        change(&mut options);
        let stop = Arc::clone(&options.stop);
        let server = Server::bind(options).unwrap();
        let (address, key) = (server.address(), server.key());
        Self { address, key, served, stop, thread: Some(thread::spawn(move || server.run())) }
    }

    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.join();
    }

    /// Waits until it has ended by itself.
    pub fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }

    pub fn next_served(&self) -> TransferReport {
        self.served.recv_timeout(Duration::from_secs(30)).unwrap()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A directory with `f`, which has so many bytes of `noise`, and an empty one.
pub fn directories(len: usize) -> (TempDir, TempDir) {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("f"), noise(len, 1)).unwrap();
    (from, to)
}

/// Options for a fixed `rate`, so that a test can act in the middle of a transfer.
pub fn at_fixed_rate(rate: &str) -> impl FnOnce(&mut ServeOptions) + use<> {
    let settings = format!("rate = {rate:?}").parse().unwrap();
    move |options| {
        options.server.controller = "fixed-rate".into();
        options.server.settings = settings;
    }
}

/// The key of all test servers.
pub fn identity() -> KeyPair {
    KeyPair::generate(&mut rampmeter_units::Random::from_seed(1))
}

pub fn options(address: SocketAddr, name: &str, out: &Path) -> GetOptions {
    GetOptions {
        urls: vec![format!("{address}/{name}")],
        out: Some(out.to_owned()),
        client: ClientOptions { trust: Trust::Key(identity().public()), ..ClientOptions::default() },
        ..GetOptions::default()
    }
}

pub fn fetch(address: SocketAddr, name: &str, out: &Path) -> Result<Report, NetError> {
    get(&options(address, name, out))
}

/// A download in a thread, whose part has `len` bytes already.
pub fn begin(options: GetOptions, len: u64) -> JoinHandle<Result<Report, NetError>> {
    let out = options.out.clone().unwrap();
    let out = if out.is_dir() { out.join("f") } else { out };
    let part = out.with_extension("part");
    let getting = thread::spawn(move || get(&options));
    let until = Instant::now() + Duration::from_secs(30);
    while fs::metadata(&part).map_or(0, |part| part.len()) < len {
        assert!(Instant::now() < until && !getting.is_finished(), "the transfer does not go on");
        thread::sleep(Duration::from_millis(2));
    }
    getting
}
