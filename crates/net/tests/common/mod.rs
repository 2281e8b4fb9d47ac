//! A server in a thread, and a relay that can drop or alter packets.

#![allow(dead_code, missing_docs, unreachable_pub, reason = "shared by several tests, each of which uses a part")]

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rampmeter_net::Trust;
use rampmeter_net::files::{ClientOptions, GetOptions, NetError, Report, ServeOptions, Server, TransferReport, get};
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

/// The key of all test servers.
pub fn identity() -> KeyPair {
    KeyPair::generate(&mut rampmeter_units::Stream::from_seed(1))
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

/// Bytes without repetition.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2) + 1;
    let mut step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..len).map(|_| (step() >> 32) as u8).collect()
}

/// How a relay treats packets.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum RelayMode {
    Forward = 0,
    /// Drops all packets, both ways.
    Drop = 1,
    /// Alters the last byte of each tenth packet.
    Alter = 2,
    /// Sends a damaged copy of each packet, both ways, before the packet.
    SendDamagedCopy = 3,
    /// Holds each packet back for [`RELAY_DELAY`], both ways.
    Delay = 4,
}

pub const RELAY_DELAY: Duration = Duration::from_millis(30);

/// A relay between one client and a server.
pub struct Relay {
    pub address: SocketAddr,
    server: SocketAddr,
    back: Arc<Mutex<Arc<UdpSocket>>>,
    mode: Arc<AtomicU8>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn towards(server: SocketAddr, from: &str) -> UdpSocket {
    let socket = UdpSocket::bind((from, 0)).unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    socket
}

impl Relay {
    pub fn start(server: SocketAddr, mode: RelayMode) -> Self {
        Self::start_at("127.0.0.1", server, mode)
    }

    /// The server sees the client at the address `from`.
    pub fn start_at(from: &str, server: SocketAddr, mode: RelayMode) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").unwrap();
        front.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let back = Arc::new(Mutex::new(Arc::new(towards(server, from))));
        let back_in = Arc::clone(&back);
        let address = front.local_addr().unwrap();
        let (mode, stop) = (Arc::new(AtomicU8::new(mode as u8)), Arc::new(AtomicBool::new(false)));
        let client = Arc::new(Mutex::new(None));
        let (mode_in, stop_in) = (Arc::clone(&mode), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    pump(
                        &stop_in,
                        &mode_in,
                        || {
                            let mut buffer = [0; 2000];
                            let (len, from) = front.recv_from(&mut buffer).ok()?;
                            *client.lock().unwrap() = Some(from);
                            Some(buffer[..len].to_vec())
                        },
                        |bytes| drop(back_in.lock().unwrap().send(bytes)),
                    );
                });
                pump(
                    &stop_in,
                    &mode_in,
                    || {
                        let mut buffer = [0; 2000];
                        let socket = Arc::clone(&back_in.lock().unwrap());
                        let len = socket.recv(&mut buffer).ok()?;
                        Some(buffer[..len].to_vec())
                    },
                    |bytes| {
                        if let Some(client) = *client.lock().unwrap() {
                            let _ = front.send_to(bytes, client);
                        }
                    },
                );
            });
        });
        Self { address, server, back, mode, stop, thread: Some(thread) }
    }

    /// The server sees another address of the client from now on, and the one before is dead, as after a restart of a
    /// NAT.
    pub fn rebind(&self) {
        self.redirect(self.server);
    }

    /// The client has another IP address from now on.
    pub fn move_to(&self, from: &str) {
        *self.back.lock().unwrap() = Arc::new(towards(self.server, from));
    }

    /// The client's packets go to another server from now on.
    pub fn redirect(&self, server: SocketAddr) {
        *self.back.lock().unwrap() = Arc::new(towards(server, "127.0.0.1"));
    }

    pub fn set(&self, mode: RelayMode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn pump(stop: &AtomicBool, mode: &AtomicU8, receive: impl Fn() -> Option<Vec<u8>>, send: impl Fn(&[u8]) + Sync) {
    std::thread::scope(|scope| {
        let (delayed, queue) = channel::<(Instant, Vec<u8>)>();
        let send = &send;
        scope.spawn(move || {
            for (due, bytes) in queue {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                send(&bytes);
            }
        });
        let mut count = 0usize;
        while !stop.load(Ordering::Relaxed) {
            let Some(mut bytes) = receive() else { continue };
            count += 1;
            match mode.load(Ordering::Relaxed) {
                mode if mode == RelayMode::Drop as u8 => continue,
                mode if mode == RelayMode::Alter as u8 && count % 10 == 0 => *bytes.last_mut().unwrap() ^= 1,
                mode if mode == RelayMode::SendDamagedCopy as u8 => {
                    let mut damaged = bytes.clone();
                    let at = count % damaged.len();
                    damaged[at] ^= 1 << (count / 10 % 8);
                    send(&damaged);
                }
                mode if mode == RelayMode::Delay as u8 => {
                    let _ = delayed.send((Instant::now() + RELAY_DELAY, bytes));
                    continue;
                }
                _ => {}
            }
            send(&bytes);
        }
    });
}
