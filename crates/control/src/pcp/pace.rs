//! Even spacing at a rate that may change between two packets.
//!
//! A flow may wait seconds for its next slot and be granted a thousandfold rate meanwhile. So the next departure is not
//! planned when a packet leaves; it follows from the last departure and the rate of the moment. A packet that left up
//! to one packet time late does not delay those behind it; a longer stall is not made up for.

use rampmeter_units::{Bytes, Duration, Rate, Time};

#[derive(Debug, Clone, Default)]
pub(super) struct Spacing {
    left: Time,
    bytes: Bytes,
    /// The longest wait, whatever the rate and the packet.
    longest: Duration,
}

impl Spacing {
    /// Nothing has left yet.
    pub(super) fn reset(&mut self, now: Time, longest: Duration) {
        *self = Self { left: now, bytes: Bytes::ZERO, longest };
    }

    /// When the next packet may leave.
    pub(super) fn next(&self, rate: Rate) -> Time {
        self.left + rate.time_to_send(self.bytes).min(self.longest)
    }

    /// Nothing was meant to leave until `now`: what comes next isn't late.
    pub(super) fn resume(&mut self, now: Time, rate: Rate) {
        self.left = self.left.max(now - rate.time_to_send(self.bytes));
    }

    /// A packet left.
    pub(super) fn sent(&mut self, now: Time, bytes: Bytes, rate: Rate) {
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
    fn a_little_lateness_is_made_up_for_and_a_stall_is_not() {
        let mut spacing = Spacing::default();
        spacing.reset(us(5000), Duration::from_secs(1));
        spacing.sent(us(5300), PACKET, RATE);
        assert_eq!(spacing.next(RATE), us(6000));
        spacing.sent(us(60_000), PACKET, RATE);
        spacing.sent(us(60_000), PACKET, RATE);
        assert_eq!(spacing.next(RATE), us(61_000));
    }

    #[test]
    fn a_pause_that_was_meant_earns_no_second_packet() {
        let mut spacing = Spacing::default();
        spacing.reset(us(5000), Duration::from_secs(1));
        spacing.sent(us(5000), PACKET, RATE);
        spacing.resume(us(60_000), RATE);
        assert_eq!(spacing.next(RATE), us(60_000));
        spacing.sent(us(60_000), PACKET, RATE);
        assert_eq!(spacing.next(RATE), us(61_000));
    }
}
