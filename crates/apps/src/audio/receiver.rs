//! A plain receiver: it acknowledges each datagram and does no congestion control.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::datagram::{Acknowledgement, read};
use crate::AppError;

/// The maximum wait, after which `stop` is checked.
const MAX_WAIT: Duration = Duration::from_millis(100);

/// The maximum number of streams; datagrams of further ones are not acknowledged. A stream without datagrams for
/// [`STREAM_TIMEOUT`] may be removed.
const MAX_STREAMS: usize = 1024;
const STREAM_TIMEOUT: Duration = Duration::from_secs(60);

/// A received stream.
#[derive(Debug, Clone, Copy)]
struct Stream {
    latest: Acknowledgement,
    last_arrival: Instant,
}

impl Stream {
    fn on_datagram(&mut self, number: u32) {
        let latest = &mut self.latest;
        let ahead = number.wrapping_sub(latest.number);
        if (1..1 << 31).contains(&ahead) {
            // The previous latest datagram is now one of those before.
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
    /// Listens at `listen` until `stop` is set.
    pub fn bind(listen: SocketAddr, stop: Arc<AtomicBool>) -> Result<Self, AppError> {
        let refuse = |error| AppError::Listen(listen, error);
        let socket = UdpSocket::bind(listen).map_err(refuse)?;
        socket.set_read_timeout(Some(MAX_WAIT))?;
        Ok(Self { socket, streams: HashMap::new(), stop })
    }

    /// The receiver's address.
    pub fn address(&self) -> Result<SocketAddr, AppError> {
        Ok(self.socket.local_addr()?)
    }

    /// Acknowledges datagrams; `tell` is called for each new stream.
    pub fn run(&mut self, mut tell: impl FnMut(SocketAddr)) -> Result<(), AppError> {
        let mut bytes = vec![0; 65_536];
        while !self.stop.load(Ordering::Relaxed) {
            let (length, from) = match self.socket.recv_from(&mut bytes) {
                Ok(received) => received,
                Err(error) if is_temporary(error.kind()) => continue,
                Err(error) => return Err(error.into()),
            };
            let Some(number) = read(&bytes[..length]) else { continue };
            let Some(acknowledgement) = self.acknowledge(from, number, &mut tell) else { continue };
            // An acknowledgement that the kernel refuses counts as lost on the path.
            let _ = self.socket.send_to(&acknowledgement.write(), from);
        }
        Ok(())
    }

    fn acknowledge(
        &mut self,
        from: SocketAddr,
        number: u32,
        tell: &mut impl FnMut(SocketAddr),
    ) -> Option<Acknowledgement> {
        let now = Instant::now();
        if let Some(stream) = self.streams.get_mut(&from) {
            stream.last_arrival = now;
            stream.on_datagram(number);
            // The acknowledgement names this datagram, so that the sender measures its round-trip time; those before it
            // follow from the latest one.
            let latest = stream.latest;
            let back = latest.number.wrapping_sub(number);
            let before = latest.before.checked_shr(back).unwrap_or(0);
            return Some(Acknowledgement { number, before });
        }
        if self.streams.len() >= MAX_STREAMS {
            self.streams.retain(|_, stream| now.duration_since(stream.last_arrival) < STREAM_TIMEOUT);
        }
        if self.streams.len() >= MAX_STREAMS {
            return None;
        }
        let latest = Acknowledgement { number, before: 0 };
        self.streams.insert(from, Stream { latest, last_arrival: now });
        tell(from);
        Some(latest)
    }
}

/// Whether the error is temporary: nothing to read, or ICMP about an earlier packet.
fn is_temporary(error: ErrorKind) -> bool {
    matches!(error, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted | ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_in_any_order_are_acknowledged() {
        let latest = Acknowledgement { number: u32::MAX, before: 0 };
        let mut stream = Stream { latest, last_arrival: Instant::now() };
        for number in [1, 0, 1, 3] {
            stream.on_datagram(number);
        }
        // 3 is the latest; before it 1, 0 and the one before that arrived, and 2 did not.
        assert_eq!(stream.latest, Acknowledgement { number: 3, before: 0b1110 });
        stream.on_datagram(67);
        assert_eq!(stream.latest, Acknowledgement { number: 67, before: 1 << 63 });
        stream.on_datagram(1000);
        assert_eq!(stream.latest, Acknowledgement { number: 1000, before: 0 });
    }
}
