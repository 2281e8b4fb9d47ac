//! A bottleneck in this process: forwards packets from one host to the other with a delay, at the path's rate, and with
//! losses.
//!
//! ```text
//! 127.0.0.x ──► relay's address, 127.0.0.y ──► 127.0.0.z      all at one port; answers take the same way back
//! ```
//!
//! Packets from other ports of the near host are forwarded from another port, too.

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The maximum number of queued packets.
const QUEUE: usize = 40;

pub(crate) struct Relay {
    /// The number of lost packets per thousand.
    pub(crate) loss: Arc<AtomicU32>,
    /// The number of bytes delivered to the far host.
    pub(crate) delivered: Arc<AtomicU64>,
    /// The number of packets from other ports that were delivered, and of those that were dropped.
    pub(crate) others: Arc<[AtomicU64; 2]>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// A path between `near` and `far`, at `rate` bits per second and with `delay` each way.
    pub(crate) fn new(at: SocketAddr, near: SocketAddr, far: SocketAddr, rate: u64, delay: Duration) -> Self {
        let (socket, other_socket) = (UdpSocket::bind(at).unwrap(), UdpSocket::bind((at.ip(), 0)).unwrap());
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let (loss, delivered, stop) = (Arc::<AtomicU32>::default(), Arc::<AtomicU64>::default(), Arc::default());
        let (loss_rate, count, end) = (Arc::clone(&loss), Arc::clone(&delivered), Arc::<AtomicBool>::clone(&stop));
        let others = Arc::<[AtomicU64; 2]>::default();
        let other_counts = Arc::clone(&others);
        let thread = std::thread::spawn(move || {
            let mut queue = VecDeque::<(Instant, SocketAddr, Vec<u8>, bool)>::new();
            let (mut free, mut random) = (Instant::now(), 1_u32);
            let span = |bytes: usize| Duration::from_nanos(bytes as u64 * 8_000_000_000 / rate);
            let mut bytes = [0; 2000];
            while !end.load(Ordering::Relaxed) {
                if let Ok((length, from)) = socket.recv_from(&mut bytes) {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let is_lost = (random >> 16) % 1000 < loss_rate.load(Ordering::Relaxed);
                    let (now, to) = (Instant::now(), if from == far { near } else { far });
                    let is_other = to == far && from != near;
                    let is_full = to == far && free > now + span(QUEUE * 1000);
                    if is_other {
                        other_counts[usize::from(is_full || is_lost)].fetch_add(1, Ordering::Relaxed);
                    }
                    if !(is_full || is_lost) {
                        let mut leaves = now;
                        if to == far {
                            leaves = free.max(now) + span(length + 28);
                            free = leaves;
                        }
                        let index = queue.partition_point(|(at, ..)| *at <= leaves + delay);
                        queue.insert(index, (leaves + delay, to, bytes[..length].to_vec(), is_other));
                    }
                }
                while queue.front().is_some_and(|(at, ..)| *at <= Instant::now()) {
                    let Some((_, to, packet, is_other)) = queue.pop_front() else { break };
                    if to == far {
                        count.fetch_add(packet.len() as u64, Ordering::Relaxed);
                    }
                    let _ = if is_other { &other_socket } else { &socket }.send_to(&packet, to);
                }
            }
        });
        Self { loss, delivered, others, stop, thread: Some(thread) }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
