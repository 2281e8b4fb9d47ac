//! Even spacing at a rate that may change between two packets.
//!
//! A flow may wait seconds for its next departure and be granted a thousand times its rate meanwhile. So the next
//! departure is not fixed when a packet leaves: it is computed from the last departure and the current rate. A packet
//! that leaves up to one packet time late does not delay the packets behind it; more lateness is not recovered.

use rampmeter_units::{Bytes, Duration, Rate, Time};

/// When the next packet may leave.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spacing {
    /// When the last packet was due to leave, or the latest time that it may count as having left.
    left: Time,
    /// Its size.
    bytes: Bytes,
    /// The longest wait between two packets, at any rate.
    max_wait: Duration,
}

impl Spacing {
    /// Starts at `now`; no packet has left yet.
    pub(crate) fn reset(&mut self, now: Time, max_wait: Duration) {
        *self = Self { left: now, bytes: Bytes::ZERO, max_wait };
    }

    /// When the next packet may leave.
    pub(crate) fn next(&self, rate: Rate) -> Time {
        self.left + rate.time_to_send(self.bytes).min(self.max_wait)
    }

    /// Ends a planned pause: the next packet, due at `now`, does not count as late.
    pub(crate) fn resume(&mut self, now: Time, rate: Rate) {
        self.left = self.left.max(now - rate.time_to_send(self.bytes));
    }

    /// A packet left.
    pub(crate) fn sent(&mut self, now: Time, bytes: Bytes, rate: Rate) {
        self.left = self.next(rate).max(now - rate.time_to_send(bytes)).min(now);
        self.bytes = bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: Bytes = Bytes::new(1000);
    const RATE: Rate = Rate::from_bps(8_000_000); // a packet a millisecond

    fn us(n: u64) -> Time {
        Time::ZERO + Duration::from_micros(n)
    }

    #[test]
    fn a_new_rate_moves_the_next_departure_at_once() {
        let mut spacing = Spacing::default();
        spacing.reset(us(5000), Duration::from_secs(1));
        spacing.sent(us(5000), PACKET, RATE);
        assert_eq!(spacing.next(RATE), us(6000));
        assert_eq!(spacing.next(RATE + RATE), us(5500));
    }

    #[test]
    fn a_little_lateness_is_recovered_and_a_stall_is_not() {
        let mut spacing = Spacing::default();
        spacing.reset(us(5000), Duration::from_secs(1));
        spacing.sent(us(5300), PACKET, RATE);
        assert_eq!(spacing.next(RATE), us(6000));
        spacing.sent(us(60_000), PACKET, RATE);
        spacing.sent(us(60_000), PACKET, RATE);
        assert_eq!(spacing.next(RATE), us(61_000));
    }

    #[test]
    fn after_a_planned_pause_no_second_packet_leaves_at_once() {
        let mut spacing = Spacing::default();
        spacing.reset(us(5000), Duration::from_secs(1));
        spacing.sent(us(5000), PACKET, RATE);
        spacing.resume(us(60_000), RATE);
        assert_eq!(spacing.next(RATE), us(60_000));
        spacing.sent(us(60_000), PACKET, RATE);
        assert_eq!(spacing.next(RATE), us(61_000));
    }
}
