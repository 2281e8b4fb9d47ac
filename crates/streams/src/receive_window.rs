//! A connection's receive window, which grows as far as its path needs it.
//!
//! It grows while the application reads more than half of it in a round trip, as Linux's TCP's does, but four times as
//! large each time: senders that know the rate of the path reach it in fewer round trips than slow start. Connections
//! that nobody reads, or with short paths, hold little memory.

use rampmeter_net::MAX_WINDOW;
use rampmeter_units::{Bytes, Duration, Time};

/// By how much it grows at once, or else, if there is too little memory.
const GROWTH: [u64; 2] = [4, 2];

/// The shortest time over which reading is measured.
const MIN_ELAPSED: Duration = Duration::from_micros(100);

#[derive(Debug)]
pub(crate) struct ReceiveWindow {
    size: Bytes,
    /// Bytes read since this time.
    read: u64,
    since: Time,
}

impl ReceiveWindow {
    pub(crate) fn new(now: Time, size: Bytes) -> Self {
        Self { size, read: 0, since: now }
    }

    pub(crate) fn size(&self) -> Bytes {
        self.size
    }

    /// So many `bytes` were read, of a path with this round-trip time. True if the window is too small for it: it should
    /// have one of the [larger](Self::larger) sizes, if there is memory.
    pub(crate) fn on_read(&mut self, now: Time, bytes: u64, rtt: Duration) -> bool {
        self.read += bytes;
        let elapsed = now.since(self.since);
        if bytes == 0 || elapsed < rtt.max(MIN_ELAPSED) {
            return false;
        }
        let in_a_round_trip = self.read as f64 * (rtt.as_secs_f64() / elapsed.as_secs_f64());
        (self.read, self.since) = (0, now);
        in_a_round_trip * 2.0 > self.size.as_u64() as f64 && self.size < MAX_WINDOW
    }

    /// The sizes that a window which is too small should have, the best first.
    pub(crate) fn larger(&self) -> [Bytes; 2] {
        GROWTH.map(|factor| (self.size * factor).min(MAX_WINDOW))
    }

    /// Raises the window to `size`. It never shrinks.
    pub(crate) fn raise(&mut self, size: Bytes) {
        self.size = self.size.max(size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(10);

    #[test]
    fn a_window_grows_while_half_of_it_is_read_in_a_round_trip() {
        let mut now = Time::ZERO;
        let mut window = ReceiveWindow::new(now, Bytes::new(1000));
        let mut grows = |window: &mut ReceiveWindow, bytes, elapsed| {
            now += elapsed;
            window.on_read(now, bytes, RTT)
        };
        assert!(!grows(&mut window, 900, RTT / 2), "not yet a round trip");
        assert!(grows(&mut window, 100, RTT / 2));
        window.raise(Bytes::new(2000));
        assert!(!grows(&mut window, 1000, RTT));
        assert!(!grows(&mut window, 1500, RTT * 2), "750 bytes in a round trip");
        assert!(grows(&mut window, 1001, RTT));
        assert_eq!(window.size(), Bytes::new(2000), "there was no memory");
        assert_eq!(window.larger(), [8000, 4000].map(Bytes::new));
        window.raise(Bytes::new(MAX_WINDOW.as_u64() / 3));
        assert_eq!(window.larger()[0], MAX_WINDOW);
        window.raise(MAX_WINDOW);
        assert!(!grows(&mut window, 1 << 30, RTT));
    }
}
