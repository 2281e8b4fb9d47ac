//! A server in a thread, and a relay that can be told to misbehave.

#![allow(dead_code, missing_docs, unreachable_pub, reason = "shared by several tests, each of which uses a part")]

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rampmeter_net::files::{GetOptions, GetReport, NetError, ServeOptions, Served, Server, get};

/// A server that runs until it is dropped.
pub struct Running {
    pub address: SocketAddr,
    pub served: Receiver<Served>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), NetError>>>,
}

impl Running {
    pub fn start(directory: &Path, change: impl FnOnce(&mut ServeOptions)) -> Self {
        let (tell, served) = channel();
        let mut options = ServeOptions {
            directory: directory.to_owned(),
            address: "127.0.0.1:0".parse().unwrap(),
            observe: Some(Box::new(move |over| drop(tell.send(over.clone())))),
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

    pub fn next_served(&self) -> Served {
        self.served.recv_timeout(Duration::from_secs(30)).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sends at `rate`, so that a test can act in the middle of a transfer.
pub fn slowly(rate: &str) -> impl FnOnce(&mut ServeOptions) + use<> {
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

/// Gets `f` under the controller called `name`.
pub fn fetch_under(name: &str, server: &Running, to: &Path) -> Result<GetReport, NetError> {
    get(&GetOptions { controller: Some(name.into()), ..options(server.address, "f", to) })
}

/// Bytes that do not repeat.
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

/// How a relay treats what the server sends.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mood {
    Forward = 0,
    /// Loses everything, both ways.
    Swallow = 1,
    /// Alters the last byte of large packets.
    Alter = 2,
    /// Sends a damaged copy of each packet, both ways, before the packet.
    Stutter = 3,
}

/// Sits between one client and a server.
pub struct Relay {
    pub address: SocketAddr,
    mood: Arc<AtomicU8>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    pub fn start(server: SocketAddr, mood: Mood) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").unwrap();
        let back = UdpSocket::bind("127.0.0.1:0").unwrap();
        back.connect(server).unwrap();
        for socket in [&front, &back] {
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        }
        let address = front.local_addr().unwrap();
        let (mood, stop) = (Arc::new(AtomicU8::new(mood as u8)), Arc::new(AtomicBool::new(false)));
        let client = Arc::new(Mutex::new(None));
        let (mood_in, stop_in) = (Arc::clone(&mood), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    pump(
                        &stop_in,
                        &mood_in,
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
                    &mood_in,
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
        Self { address, mood, stop, thread: Some(thread) }
    }

    pub fn set(&self, mood: Mood) {
        self.mood.store(mood as u8, Ordering::Relaxed);
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

fn pump(stop: &AtomicBool, mood: &AtomicU8, receive: impl Fn() -> Option<Vec<u8>>, send: impl Fn(&[u8])) {
    let mut count = 0usize;
    while !stop.load(Ordering::Relaxed) {
        let Some(mut bytes) = receive() else { continue };
        count += 1;
        match mood.load(Ordering::Relaxed) {
            mood if mood == Mood::Swallow as u8 => continue,
            mood if mood == Mood::Alter as u8 && bytes.len() > 1000 => *bytes.last_mut().unwrap() ^= 1,
            mood if mood == Mood::Stutter as u8 => {
                let mut damaged = bytes.clone();
                // Any byte of the header but the numbers that say which bytes of the stream these are: those would
                // alter the stream, which nothing but the hash can find.
                let at = [0, 1, 2, 3, 4, 5, 6, 7, 24, 25][count % 10];
                damaged[at] ^= 1 << (count / 10 % 8);
                // The `fin` flag would end the stream early, `number` is what loss is counted by.
                if !(at == 1 && damaged[1] & 1 != bytes[1] & 1) {
                    send(&damaged);
                }
            }
            _ => {}
        }
        send(&bytes);
    }
}
