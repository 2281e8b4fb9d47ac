//! Even spacing of packets at a rate.

use rampmeter_units::{Bytes, Rate, Time};

/// A window over a round trip of hours is rounded to a rate of zero, at which nothing would ever leave again.
pub(crate) const MIN_RATE: Rate = Rate::from_bps(1);

/// Says when the next packet may leave so that packets leave evenly at a rate.
///
/// A world's timers are late now and then. A packet that left late does not delay those behind it, as long as it is
/// less than one packet time late; what is later than that is lost, so that a stall is never followed by a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pacer {
    next: Time,
}

impl Pacer {
    /// When the next packet may leave.
    pub fn next(&self) -> Time {
        self.next
    }

    /// A packet of `bytes` left at `now` while the rate was `rate`.
    pub fn sent(&mut self, now: Time, bytes: Bytes, rate: Rate) {
        let gap = rate.max(MIN_RATE).time_to_send(bytes);
        self.next = self.next.max(now - gap) + gap;
    }

    /// Of what left, `bytes` did not leave after all: their time is the next packet's.
    pub fn give_back(&mut self, bytes: Bytes, rate: Rate) {
        self.next = self.next - rate.max(MIN_RATE).time_to_send(bytes);
    }

    /// Nobody waits for longer than until `latest`, whatever has left.
    pub fn bound(&mut self, latest: Time) {
        self.next = self.next.min(latest);
    }

    /// Lets the next packet leave at `at`, whatever was planned.
    pub fn reset(&mut self, at: Time) {
        self.next = at;
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Duration;

    use super::*;

    const RATE: Rate = Rate::from_bps(8_000_000); // 1000 bytes a millisecond

    fn ms(n: f64) -> Time {
        Time::ZERO + Duration::from_secs_f64(n / 1e3)
    }

    #[test]
    fn a_little_lateness_is_made_up_for() {
        let mut pacer = Pacer::default();
        pacer.reset(ms(10.0));
        pacer.sent(ms(10.3), Bytes::new(1000), RATE);
        assert_eq!(pacer.next(), ms(11.0));
    }

    #[test]
    fn what_did_not_leave_takes_no_time() {
        let mut pacer = Pacer::default();
        pacer.reset(ms(10.0));
        pacer.sent(ms(10.0), Bytes::new(1000), RATE);
        pacer.give_back(Bytes::new(800), RATE);
        assert_eq!(pacer.next(), ms(10.2));
        pacer.sent(ms(10.2), Bytes::new(100_000), RATE);
        pacer.bound(ms(30.0));
        assert_eq!(pacer.next(), ms(30.0));
    }

    #[test]
    fn a_stall_is_not_followed_by_a_burst() {
        let mut pacer = Pacer::default();
        pacer.reset(ms(10.0));
        pacer.sent(ms(50.0), Bytes::new(1000), RATE);
        assert_eq!(pacer.next(), ms(50.0));
        pacer.sent(ms(50.0), Bytes::new(1000), RATE);
        assert_eq!(pacer.next(), ms(51.0));
    }
}
