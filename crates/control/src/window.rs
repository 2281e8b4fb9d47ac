//! The congestion window that all TCPs here share, with its slow-start threshold (RFC 5681).
//!
//! Both count bytes of whole IP packets (the RFC counts payload; both sides of every equation scale alike). How far the
//! window moves is for [`crate::rules`] to say, in packets and parts of packets or in whole bytes. The bounds are here:
//!
//! ```text
//! what a loss leaves        2 packets at least           RFC 5681 eq. (4)
//! the timer runs out        1 packet                     section 3.1
//! an idle time > timer      the first window at most     section 4.1
//! ```

use rampmeter_units::{Bytes, Duration, Time};
use rampmeter_wire::RouterFeedback;

use crate::{Ack, Departure};

/// How far a window moves, or how large it becomes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// Packets and parts of packets, as the papers of high-speed schemes count.
    Packets(f64),
    /// Whole bytes, as RFC 5681 counts.
    Bytes(Bytes),
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
    /// Bytes; `fraction` is the part of a byte beyond it.
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

    /// Whether `ack` lets the window grow: not while losses are repaired, nor while it is not the window that bounds the
    /// flow.
    pub(crate) fn counts(ack: &Ack<'_>) -> bool {
        !ack.recovering && !ack.app_limited && ack.delivered > Bytes::ZERO
    }

    pub(crate) fn in_slow_start(&self) -> bool {
        self.whole < self.threshold
    }

    pub(crate) fn leave_slow_start(&mut self) {
        self.threshold = self.whole;
    }

    /// Goes on with `bytes`, if that is more than the window, as if congestion avoidance had found them.
    pub(crate) fn resume(&mut self, bytes: Bytes) {
        if bytes > self.whole {
            (self.whole, self.threshold) = (bytes, bytes);
        }
    }

    /// Makes `bytes` the window and leaves the threshold as it is.
    pub(crate) fn replace(&mut self, bytes: Bytes) {
        self.whole = bytes;
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

    /// Adds `amount`, which may be a small part of a packet or negative; one packet remains at least.
    pub(crate) fn step(&mut self, amount: Amount) {
        match amount {
            Amount::Packets(packets) => self.put(self.packets() + packets, 1.0),
            Amount::Bytes(bytes) => self.whole += bytes,
        }
    }

    /// Makes `amount` the window and the threshold, or two packets if that is less: RFC 5681 eq. (4)'s bound.
    pub(crate) fn lower_to(&mut self, amount: Amount) {
        match amount {
            Amount::Packets(packets) => self.put(packets, 2.0),
            Amount::Bytes(bytes) => (self.whole, self.fraction) = (bytes.max(self.packet * 2), 0.0),
        }
        self.threshold = self.whole;
    }

    /// The timer ran out: one packet, and slow start up to `threshold`, or two packets if that is less.
    pub(crate) fn collapse_to(&mut self, threshold: Amount) {
        self.lower_to(threshold);
        self.collapse();
    }

    /// The timer ran out again: one packet, and slow start up to the same threshold.
    pub(crate) fn collapse(&mut self) {
        (self.whole, self.fraction) = (self.packet, 0.0);
    }

    /// Makes `packets` the window, or `min` if that is less.
    fn put(&mut self, packets: f64, min: f64) {
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
    fn a_loss_leaves_two_packets_at_least_and_a_timeout_one() {
        for little in [Amount::Packets(0.5), Amount::Bytes(Bytes::new(500))] {
            let mut w = Window::new(PACKET, 10);
            w.lower_to(little);
            assert_eq!(w.bytes(), PACKET * 2);
            w.collapse_to(little);
            assert_eq!(w.bytes(), PACKET);
        }
    }

    #[test]
    fn after_a_timeout_slow_start_ends_at_the_threshold() {
        for threshold in [Amount::Packets(7.5), Amount::Bytes(Bytes::new(7500))] {
            let mut w = Window::new(PACKET, 10);
            w.collapse_to(threshold);
            w.collapse(); // the threshold stays
            for _ in 0..7 {
                assert!(w.in_slow_start());
                w.step(Amount::Bytes(PACKET));
            }
            assert!(!w.in_slow_start());
        }
    }
}
