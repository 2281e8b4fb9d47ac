//! The congestion window of all TCP schemes here, with its slow-start threshold (RFC 5681).
//!
//! Both count bytes of whole IP packets (the RFC counts payload; both sides of every equation scale alike).
//! [`crate::rules`] decides how far the window moves, in fractional packets or in whole bytes. This file has the
//! bounds:
//!
//! ```text
//! after a loss               at least 2 packets           RFC 5681 eq. (4)
//! the timer expires          1 packet                     section 3.1
//! an idle time > timer       at most the first window     section 4.1
//! n flows with first windows at most the threshold        `Notice::FirstWindows`
//! ```

use rampmeter_units::{Bytes, Duration, Time};
use rampmeter_wire::RouterFeedback;

use crate::{Ack, Departure};

/// A change of a window, or its new size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// Fractional packets, as the papers on high-speed schemes count.
    Packets(f64),
    /// Whole bytes, as RFC 5681 counts.
    Bytes(Bytes),
}

impl Amount {
    /// A part of it.
    pub(crate) fn scale(self, factor: f64) -> Self {
        match self {
            Self::Packets(packets) => Self::Packets(packets * factor),
            Self::Bytes(bytes) => Self::Bytes(bytes.scale(factor)),
        }
    }
}

impl From<f64> for Amount {
    fn from(packets: f64) -> Self {
        Self::Packets(packets)
    }
}

impl From<Bytes> for Amount {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Window {
    /// The window in whole bytes; `fraction` is the rest, less than a byte.
    whole: Bytes,
    fraction: f64,
    threshold: Bytes,
    packet: Bytes,
    /// The first window.
    first: Bytes,
}

impl Window {
    /// A window of `packets` packets of `packet` bytes, in slow start.
    pub(crate) fn new(packet: Bytes, packets: u64) -> Self {
        let first = packet * packets;
        Self { whole: first, fraction: 0.0, threshold: Bytes::MAX, packet, first }
    }

    /// Whether `ack` may increase the window: not during loss recovery, and only while the window limits the flow.
    pub(crate) fn counts(ack: &Ack<'_>) -> bool {
        !ack.recovering && !ack.app_limited && ack.delivered > Bytes::ZERO
    }

    pub(crate) fn in_slow_start(&self) -> bool {
        self.whole < self.threshold
    }

    /// The slow-start threshold, once there is one.
    pub(crate) fn threshold(&self) -> Option<Bytes> {
        Some(self.threshold).filter(|&threshold| threshold < Bytes::MAX)
    }

    /// Ends slow start and enters congestion avoidance.
    pub(crate) fn leave_slow_start(&mut self) {
        self.threshold = self.whole;
    }

    /// Enters congestion avoidance with a window of `bytes`, if that is more than the current one.
    pub(crate) fn resume(&mut self, bytes: Bytes) {
        if bytes > self.whole {
            (self.whole, self.threshold) = (bytes, bytes);
        }
    }

    /// Sets the window to `bytes` and keeps the threshold.
    pub(crate) fn set(&mut self, bytes: Bytes) {
        self.whole = bytes;
    }

    /// Packets have up to `packet` bytes from now on. The window keeps its bytes, and is at least one packet.
    pub(crate) fn set_packet(&mut self, packet: Bytes) {
        (self.packet, self.whole) = (packet, self.whole.max(packet));
    }

    /// The window in packets.
    pub(crate) fn packets(&self) -> f64 {
        (self.whole.as_f64() + self.fraction) / self.packet.as_f64()
    }

    /// The window in whole bytes.
    pub(crate) fn bytes(&self) -> Bytes {
        self.whole
    }

    /// The largest packet.
    pub(crate) fn packet(&self) -> Bytes {
        self.packet
    }

    /// Adds `amount`, which may be a small part of a packet or negative. The window remains at least one packet.
    pub(crate) fn step(&mut self, amount: Amount) {
        match amount {
            Amount::Packets(packets) => self.set_packets(self.packets() + packets, 1.0),
            Amount::Bytes(bytes) => self.whole += bytes,
        }
    }

    /// Sets the window and the threshold to `amount`, at least two packets (RFC 5681 eq. (4)).
    pub(crate) fn lower_to(&mut self, amount: Amount) {
        match amount {
            Amount::Packets(packets) => self.set_packets(packets, 2.0),
            Amount::Bytes(bytes) => (self.whole, self.fraction) = (bytes.max(self.packet * 2), 0.0),
        }
        self.threshold = self.whole;
    }

    /// The timer expired: one packet, and slow start up to the threshold.
    pub(crate) fn on_timeout(&mut self) {
        (self.whole, self.fraction) = (self.packet, 0.0);
    }

    /// Sets the window to `packets`, but at least `min`.
    fn set_packets(&mut self, packets: f64, min: f64) {
        let bytes = packets.max(min) * self.packet.as_f64();
        self.whole = Bytes::new(bytes as u64);
        self.fraction = bytes - self.whole.as_f64();
    }

    /// RFC 5681 section 4.1: after an idle time longer than the timer, at most the first window (`RW = min(IW, cwnd)`).
    pub(crate) fn restart(&mut self, idle: Duration, timeout: Duration) {
        if idle > timeout && self.whole > self.first {
            (self.whole, self.fraction) = (self.first, 0.0);
        }
    }

    /// There are `flows` first windows.
    pub(crate) fn raise_to_first(&mut self, flows: usize) {
        let windows = self.first * flows as u64;
        self.whole = self.whole.max(windows.min(self.threshold));
    }

    pub(crate) fn departure(&self) -> Departure {
        Departure { at: Time::ZERO, bytes: self.packet, feedback: RouterFeedback::None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::PACKET;

    #[test]
    fn parts_of_packets_add_up() {
        let mut w = Window::new(PACKET, 10);
        for _ in 0..100_000 {
            w.step(Amount::Packets(1e-5)); // a hundredth of a byte
        }
        assert!((w.packets() - 11.0).abs() < 1e-6, "{}", w.packets());
        w.step(Amount::Packets(-20.0));
        assert_eq!(w.bytes(), PACKET);
    }

    #[test]
    fn first_windows_add_up_to_the_threshold() {
        let mut w = Window::new(PACKET, 10);
        w.raise_to_first(3);
        assert_eq!((w.bytes(), w.in_slow_start()), (PACKET * 30, true));
        w.raise_to_first(2);
        assert_eq!(w.bytes(), PACKET * 30);
        w.lower_to(Amount::Packets(24.0));
        w.raise_to_first(6);
        assert_eq!(w.bytes(), PACKET * 24, "in congestion avoidance");
        w.restart(Duration::from_secs(2), Duration::from_secs(1));
        w.raise_to_first(6);
        assert_eq!(w.bytes(), PACKET * 24, "what it had before the idle time");
    }

    #[test]
    fn after_a_timeout_slow_start_ends_at_the_threshold() {
        for threshold in [Amount::Packets(7.5), Amount::Bytes(Bytes::new(7500))] {
            let mut w = Window::new(PACKET, 10);
            w.lower_to(threshold);
            w.on_timeout();
            w.on_timeout(); // the threshold stays
            for _ in 0..7 {
                assert!(w.in_slow_start());
                w.step(Amount::Bytes(PACKET));
            }
            assert!(!w.in_slow_start());
        }
    }
}
