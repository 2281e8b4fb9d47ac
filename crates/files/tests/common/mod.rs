//! A server in a thread, and its clients.

#![allow(dead_code, missing_docs, unreachable_pub, reason = "shared by several tests, each of which uses a part")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rampmeter_files::{ClientOptions, GetOptions, NetError, Report, ServeOptions, Server, TransferReport, get};
use rampmeter_net::Trust;
use rampmeter_session::{KeyPair, PublicKey};

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
            address: "127.0.0.1:0".parse().unwrap(),
            identity: identity(),
            on_transfer: Some(Box::new(move |report| drop(sender.send(report.clone())))),
            ..ServeOptions::default()
        };
        change(&mut options);
        let stop = Arc::clone(&options.stop);
        let server = Server::bind(options).unwrap();
        let (address, key) = (server.address(), server.key());
        Self { address, key, served, stop, thread: Some(std::thread::spawn(move || server.run())) }
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

/// Options for a fixed `rate`, so that a test can act in the middle of a transfer.
pub fn at_fixed_rate(rate: &str) -> impl FnOnce(&mut ServeOptions) + use<> {
    let settings = format!("rate = {rate:?}").parse().unwrap();
    move |options| {
        options.controller = "fixed-rate".into();
        options.settings = settings;
    }
}

/// The same port of another address of this machine, where a server has the same tokens of resets.
pub fn beside(address: SocketAddr) -> SocketAddr {
    SocketAddr::new([127, 0, 0, 9].into(), address.port())
}

/// The key of all test servers.
pub fn identity() -> KeyPair {
    KeyPair::generate(&mut rampmeter_units::Random::from_seed(1))
}

pub fn options(address: SocketAddr, name: &str, out: &Path) -> GetOptions {
    GetOptions {
        urls: vec![format!("{address}/{name}")],
        out: Some(out.to_owned()),
        client: client(),
        ..GetOptions::default()
    }
}

/// The options of a client of a test server.
pub fn client() -> ClientOptions {
    ClientOptions { trust: Trust::Key(identity().public()), ..ClientOptions::default() }
}

pub fn fetch(address: SocketAddr, name: &str, out: &Path) -> Result<Report, NetError> {
    get(&options(address, name, out))
}

/// Downloads `f` with the controller called `name`.
pub fn fetch_with(name: &str, server: &TestServer, to: &Path) -> Result<Report, NetError> {
    let client = ClientOptions { controller: Some(name.into()), ..client() };
    get(&GetOptions { client, ..options(server.address, "f", to) })
}
