//! A plain receiver: it acknowledges each datagram, and knows nothing of congestion.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::datagram::{Acknowledgement, read};
use crate::AppError;

/// How soon it notices that it is to stop.
const NAP: Duration = Duration::from_millis(100);

/// Streams at a time; more are not acknowledged. One that is silent for [`FORGOTTEN`] makes room.
const MAX_STREAMS: usize = 1024;
const FORGOTTEN: Duration = Duration::from_secs(60);

/// A stream that comes in.
#[derive(Debug, Clone, Copy)]
struct Stream {
    latest: Acknowledgement,
    heard: Instant,
}

impl Stream {
    /// Datagram `number` has come.
    fn take(&mut self, number: u32) {
        let latest = &mut self.latest;
        let ahead = number.wrapping_sub(latest.number);
        if (1..1 << 31).contains(&ahead) {
            // What came last is now one of those before.
            let before = if ahead < 64 { latest.before << ahead } else { 0 };
            let last = if ahead <= 64 { 1 << (ahead - 1) } else { 0 };
            *latest = Acknowledgement { number, before: before | last };
        } else if let Some(bit) = 0_u32.wrapping_sub(ahead).checked_sub(1).filter(|bit| *bit < 64) {
            latest.before |= 1 << bit;
        }
    }
}

/// A receiver.
#[derive(Debug)]
pub struct Receiver {
    socket: UdpSocket,
    streams: HashMap<SocketAddr, Stream>,
    stop: Arc<AtomicBool>,
}

impl Receiver {
    /// Listens at `listen` until `stop` is raised.
    pub fn bind(listen: SocketAddr, stop: Arc<AtomicBool>) -> Result<Self, AppError> {
        let refuse = |error| AppError::Listen { address: listen, error };
        let socket = UdpSocket::bind(listen).map_err(refuse)?;
        socket.set_read_timeout(Some(NAP))?;
        Ok(Self { socket, streams: HashMap::new(), stop })
    }

    /// Where it listens.
    pub fn address(&self) -> Result<SocketAddr, AppError> {
        Ok(self.socket.local_addr()?)
    }

    /// Acknowledges what comes; `tell` hears of each new stream.
    pub fn run(&mut self, mut tell: impl FnMut(SocketAddr)) -> Result<(), AppError> {
        let mut bytes = vec![0; 65_536];
        while !self.stop.load(Ordering::Relaxed) {
            let (length, from) = match self.socket.recv_from(&mut bytes) {
                Ok(received) => received,
                Err(error) if is_passing(error.kind()) => continue,
                Err(error) => return Err(error.into()),
            };
            let Some(number) = read(&bytes[..length]) else { continue };
            let Some(acknowledgement) = self.take(from, number, &mut tell) else { continue };
            // One that does not leave is lost, as it could be on the way.
            let _ = self.socket.send_to(&acknowledgement.write(), from);
        }
        Ok(())
    }

    fn take(&mut self, from: SocketAddr, number: u32, tell: &mut impl FnMut(SocketAddr)) -> Option<Acknowledgement> {
        let now = Instant::now();
        if let Some(stream) = self.streams.get_mut(&from) {
            stream.heard = now;
            stream.take(number);
            // Acknowledges this one by name, so that its round trip is known; those before it are told from the latest.
            let latest = stream.latest;
            let back = latest.number.wrapping_sub(number);
            let before = latest.before.checked_shr(back).unwrap_or(0);
            return Some(Acknowledgement { number, before });
        }
        if self.streams.len() >= MAX_STREAMS {
            self.streams.retain(|_, stream| now.duration_since(stream.heard) < FORGOTTEN);
        }
        if self.streams.len() >= MAX_STREAMS {
            return None;
        }
        let latest = Acknowledgement { number, before: 0 };
        self.streams.insert(from, Stream { latest, heard: now });
        tell(from);
        Some(latest)
    }
}

/// Whether there is just nothing to read, or somebody who was sent something is gone.
fn is_passing(error: ErrorKind) -> bool {
    matches!(error, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted | ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_remembers_what_came_before_in_any_order() {
        let latest = Acknowledgement { number: u32::MAX, before: 0 };
        let mut stream = Stream { latest, heard: Instant::now() };
        for number in [1, 0, 1, 3] {
            stream.take(number);
        }
        // 3 is the latest; before it 1, 0 and the one before that came, and 2 did not.
        assert_eq!(stream.latest, Acknowledgement { number: 3, before: 0b1110 });
        stream.take(67);
        assert_eq!(stream.latest, Acknowledgement { number: 67, before: 1 << 63 });
        stream.take(1000);
        assert_eq!(stream.latest, Acknowledgement { number: 1000, before: 0 });
    }
}
