//! A relay between one client and a server, which can drop, delay or alter packets.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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
    /// Drops the next three packets, both ways.
    DropThree = 5,
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
        let (mut count, mut dropped) = (0usize, 0);
        while !stop.load(Ordering::Relaxed) {
            let Some(mut bytes) = receive() else { continue };
            count += 1;
            match mode.load(Ordering::Relaxed) {
                mode if mode == RelayMode::Drop as u8 => continue,
                mode if mode == RelayMode::DropThree as u8 && dropped < 3 => {
                    dropped += 1;
                    continue;
                }
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
