//! A server in a thread, and a relay that can drop or alter packets.

#![allow(dead_code, missing_docs, unreachable_pub, reason = "shared by several tests, each of which uses a part")]

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rampmeter_net::files::{GetOptions, GetReport, NetError, ServeOptions, Server, TransferReport, get};

/// A server that runs until it is dropped.
pub struct TestServer {
    pub address: SocketAddr,
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
            on_transfer: Some(Box::new(move |report| drop(sender.send(report.clone())))),
            ..ServeOptions::default()
        };
        change(&mut options);
        let stop = Arc::clone(&options.stop);
        let server = Server::bind(options).unwrap();
        let address = server.address();
        Self { address, served, stop, thread: Some(std::thread::spawn(move || server.run())) }
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

pub fn options(address: SocketAddr, name: &str, out: &Path) -> GetOptions {
    GetOptions { url: format!("{address}/{name}"), out: Some(out.to_owned()), progress: false, ..GetOptions::default() }
}

pub fn fetch(address: SocketAddr, name: &str, out: &Path) -> Result<GetReport, NetError> {
    get(&options(address, name, out))
}

/// Downloads `f` with the controller called `name`.
pub fn fetch_with(name: &str, server: &TestServer, to: &Path) -> Result<GetReport, NetError> {
    get(&GetOptions { controller: Some(name.into()), ..options(server.address, "f", to) })
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
    /// Alters the last byte of large packets.
    Alter = 2,
    /// Sends a damaged copy of each packet, both ways, before the packet.
    SendDamagedCopy = 3,
}

/// A relay between one client and a server.
pub struct Relay {
    pub address: SocketAddr,
    mode: Arc<AtomicU8>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    pub fn start(server: SocketAddr, mode: RelayMode) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").unwrap();
        let back = UdpSocket::bind("127.0.0.1:0").unwrap();
        back.connect(server).unwrap();
        for socket in [&front, &back] {
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        }
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
                        |bytes| drop(back.send(bytes)),
                    );
                });
                pump(
                    &stop_in,
                    &mode_in,
                    || {
                        let mut buffer = [0; 2000];
                        let len = back.recv(&mut buffer).ok()?;
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
        Self { address, mode, stop, thread: Some(thread) }
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

fn pump(stop: &AtomicBool, mode: &AtomicU8, receive: impl Fn() -> Option<Vec<u8>>, send: impl Fn(&[u8])) {
    let mut count = 0usize;
    while !stop.load(Ordering::Relaxed) {
        let Some(mut bytes) = receive() else { continue };
        count += 1;
        match mode.load(Ordering::Relaxed) {
            mode if mode == RelayMode::Drop as u8 => continue,
            mode if mode == RelayMode::Alter as u8 && bytes.len() > 1000 => *bytes.last_mut().unwrap() ^= 1,
            mode if mode == RelayMode::SendDamagedCopy as u8 => {
                let mut damaged = bytes.clone();
                // Any byte of the header except the stream offsets: those would alter the stream, which only the hash
                // can detect.
                let at = [0, 1, 2, 3, 4, 5, 6, 7, 24, 25][count % 10];
                damaged[at] ^= 1 << (count / 10 % 8);
                // The `fin` flag would end the stream early, and `number` is used to count losses.
                if !(at == 1 && damaged[1] & 1 != bytes[1] & 1) {
                    send(&damaged);
                }
            }
            _ => {}
        }
        send(&bytes);
    }
}
