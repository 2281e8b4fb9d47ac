//! Even spacing of packets at a rate. (The random intervals of Stable TCP are in `stable/timer.rs`.)

use rampmeter_units::{Bytes, Duration, Rate, Time};

/// A window over a round trip of hours is rounded to a rate of zero, at which nothing would ever leave again.
pub(crate) const MIN_RATE: Rate = Rate::from_bps(1);

/// Says when the next packet may leave so that packets leave evenly at a rate.
///
/// A world's timers are late now and then. A packet that left late does not delay those behind it, as long as it is
/// less than one packet time late; what is later than that is lost, so that a stall is never followed by a burst.
///
/// Where the rate may rise a thousandfold while a packet waits, the wait follows it: [`Pacer::next_at`], [`Pacer::sent_at`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacer {
    /// When the last packet was due to leave, or the latest time that it may count as having left.
    left: Time,
    /// Its size.
    bytes: Bytes,
    /// The wait from then to the next packet.
    gap: Duration,
    /// The longest wait between two packets, at any rate.
    max_gap: Duration,
}

impl Default for Pacer {
    fn default() -> Self {
        Self::with_max_gap(Duration::MAX)
    }
}

impl Pacer {
    /// A pacer that never waits for longer than `max_gap` between two packets.
    pub fn with_max_gap(max_gap: Duration) -> Self {
        Self { left: Time::ZERO, bytes: Bytes::ZERO, gap: Duration::ZERO, max_gap }
    }

    /// When the next packet may leave.
    pub fn next(&self) -> Time {
        self.left + self.gap
    }

    /// When the next packet may leave, if the rate is `rate` since the last one left.
    pub fn next_at(&self, rate: Rate) -> Time {
        self.left + time_to_send(rate, self.bytes).min(self.max_gap)
    }

    /// A packet of `bytes` left at `now` while the rate was `rate`.
    pub fn sent(&mut self, now: Time, bytes: Bytes, rate: Rate) {
        self.left_after(self.next(), now, bytes, rate);
    }

    /// The same where packets leave at [`Pacer::next_at`]. One that left before, as the second of a pair does, does not
    /// delay those behind it.
    pub fn sent_at(&mut self, now: Time, bytes: Bytes, rate: Rate) {
        self.left_after(self.next_at(rate), now, bytes, rate);
        self.left = self.left.min(now);
    }

    fn left_after(&mut self, due: Time, now: Time, bytes: Bytes, rate: Rate) {
        let time = time_to_send(rate, bytes);
        (self.left, self.bytes, self.gap) = (due.max(now - time), bytes, time.min(self.max_gap));
    }

    /// Of what left, `bytes` did not leave after all: their time is the next packet's.
    pub fn give_back(&mut self, bytes: Bytes, rate: Rate) {
        self.reset(self.next() - time_to_send(rate, bytes));
    }

    /// Nobody waits for longer than until `latest`, whatever has left.
    pub fn bound(&mut self, latest: Time) {
        if self.next() > latest {
            self.reset(latest);
        }
    }

    /// Lets the next packet leave at `at`, whatever was planned.
    pub fn reset(&mut self, at: Time) {
        *self = Self { left: at, ..Self::with_max_gap(self.max_gap) };
    }

    /// Ends a planned pause: the next packet, due at `now`, does not count as late.
    pub fn resume(&mut self, now: Time, rate: Rate) {
        self.left = self.left.max(now - time_to_send(rate, self.bytes));
    }
}

fn time_to_send(rate: Rate, bytes: Bytes) -> Duration {
    rate.max(MIN_RATE).time_to_send(bytes)
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_new_rate_moves_the_next_departure_at_once() {
        let mut pacer = Pacer::default();
        pacer.reset(ms(5.0));
        pacer.sent_at(ms(5.0), Bytes::new(1000), RATE);
        assert_eq!(pacer.next_at(RATE), ms(6.0));
        assert_eq!(pacer.next_at(RATE + RATE), ms(5.5));
    }

    #[test]
    fn lateness_is_made_up_for_at_a_moving_rate_and_a_stall_is_not() {
        let mut pacer = Pacer::default();
        pacer.reset(ms(5.0));
        pacer.sent_at(ms(5.3), Bytes::new(1000), RATE);
        assert_eq!(pacer.next_at(RATE), ms(6.0));
        pacer.sent_at(ms(60.0), Bytes::new(1000), RATE);
        pacer.sent_at(ms(60.0), Bytes::new(1000), RATE);
        assert_eq!(pacer.next_at(RATE), ms(61.0));
    }

    #[test]
    fn after_a_planned_pause_no_second_packet_leaves_at_once() {
        let mut pacer = Pacer::default();
        pacer.reset(ms(5.0));
        pacer.sent_at(ms(5.0), Bytes::new(1000), RATE);
        pacer.resume(ms(60.0), RATE);
        assert_eq!(pacer.next_at(RATE), ms(60.0));
        pacer.sent_at(ms(60.0), Bytes::new(1000), RATE);
        assert_eq!(pacer.next_at(RATE), ms(61.0));
    }
}
