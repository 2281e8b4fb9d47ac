//! Spaces packets evenly at a rate. (The random intervals of Stable TCP are in `stable/timer.rs`.)

use rampmeter_units::{Bytes, Duration, Rate, Time};

use crate::Notice;

/// The minimum rate. A window over a round trip of hours would be rounded to a rate of zero, which ends all sending.
pub(crate) const MIN_RATE: Rate = Rate::from_bps(1);

/// Determines when the next packet may be sent, so that packets are sent evenly at a rate.
///
/// A world's timers are sometimes late. A packet that was sent less than one packet time late does not delay later
/// packets. Delay beyond one packet time is not made up for, so a burst never follows a stall. Where timers are known to
/// be late by more, they have some slack (`Pacer::set_slack`).
///
/// Where the rate may rise a thousandfold while a packet waits, [`Pacer::next_at`] and [`Pacer::sent_at`] apply the new
/// rate to the wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacer {
    /// The scheduled time of the last packet, or a packet time before it was sent if that is later.
    last: Time,
    /// Its size.
    bytes: Bytes,
    /// The time from then to the next packet.
    gap: Duration,
    /// The maximum time between two packets, at any rate.
    max_gap: Duration,
    /// A packet that was sent less than this late does not delay later ones, at any rate.
    slack: Duration,
}

impl Default for Pacer {
    fn default() -> Self {
        Self::with_max_gap(Duration::MAX)
    }
}

impl Pacer {
    /// A pacer with at most `max_gap` between two packets.
    pub fn with_max_gap(max_gap: Duration) -> Self {
        Self { last: Time::ZERO, bytes: Bytes::ZERO, gap: Duration::ZERO, max_gap, slack: Duration::ZERO }
    }

    /// Makes up for delays of up to `slack`, with as many packets at once.
    pub(crate) fn set_slack(&mut self, slack: Duration) {
        self.slack = slack;
    }

    /// The time at which the next packet may be sent.
    pub fn next(&self) -> Time {
        self.last + self.gap
    }

    /// The time at which the next packet may be sent, if the rate is `rate` since the last one.
    pub fn next_at(&self, rate: Rate) -> Time {
        self.last + time_to_send(rate, self.bytes).min(self.max_gap)
    }

    /// A packet of `bytes` was sent at `now`, while the rate was `rate`.
    pub fn sent(&mut self, now: Time, bytes: Bytes, rate: Rate) {
        self.schedule_after(self.next(), now, bytes, rate);
    }

    /// The same where packets are sent at [`Pacer::next_at`]. A packet that was sent before that time, such as the
    /// second of a packet pair, does not delay later ones.
    pub fn sent_at(&mut self, now: Time, bytes: Bytes, rate: Rate) {
        self.schedule_after(self.next_at(rate), now, bytes, rate);
        self.last = self.last.min(now);
    }

    fn schedule_after(&mut self, due: Time, now: Time, bytes: Bytes, rate: Rate) {
        let time = time_to_send(rate, bytes);
        (self.last, self.bytes, self.gap) = (due.max(now - time.max(self.slack)), bytes, time.min(self.max_gap));
    }

    /// The first packet of a bunch of `bunch` bytes was sent at `now`, as with [`Pacer::sent_at`]. A bunch that was sent
    /// less than its own time late does not delay later ones.
    pub(crate) fn bunch_sent_at(&mut self, now: Time, bytes: Bytes, bunch: Bytes, rate: Rate) {
        let due = self.next_at(rate);
        self.schedule_after(due, now, bytes, rate);
        self.last = due.max(now - time_to_send(rate, bunch).max(self.slack)).min(now);
    }

    /// A packet was sent together with the one before.
    pub(crate) fn add_to_bunch(&mut self, bytes: Bytes, rate: Rate) {
        self.bytes += bytes;
        self.gap = time_to_send(rate, self.bytes).min(self.max_gap);
    }

    /// `bytes` that were reported as sent were not sent: the next packet may use their time.
    pub fn give_back(&mut self, bytes: Bytes, rate: Rate) {
        self.reset(self.next() - time_to_send(rate, bytes));
    }

    /// The next packet may be sent at `latest` or earlier, independently of the packets before.
    pub fn bound(&mut self, latest: Time) {
        if self.next() > latest {
            self.reset(latest);
        }
    }

    /// What sent packets, at `rate` and of up to `packet` bytes, mean for the next one: it may use the time of bytes that
    /// did not leave, and waits for discarded packets no longer than for one.
    pub(crate) fn on_notice(&mut self, now: Time, notice: Notice, rate: Rate, packet: Bytes) {
        match notice {
            Notice::Unsent(bytes) => self.give_back(bytes, rate),
            Notice::Discarded => self.bound(now + rate.time_to_send(packet)),
            Notice::Unpaced => self.bound(now),
            _ => {}
        }
    }

    /// Sets the time of the next packet to `at`.
    pub fn reset(&mut self, at: Time) {
        *self = Self { last: at, slack: self.slack, ..Self::with_max_gap(self.max_gap) };
    }

    /// Ends a planned pause: a packet sent at `now` does not count as late.
    pub fn resume(&mut self, now: Time, rate: Rate) {
        self.last = self.last.max(now - time_to_send(rate, self.bytes));
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
    fn bytes_that_were_not_sent_take_no_time() {
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
    fn slack_makes_up_for_timers_that_are_late() {
        // Packets of a tenth of a millisecond, and timers that are half a millisecond late.
        let mut pacer = Pacer::default();
        pacer.set_slack(ms(0.5).since(Time::ZERO));
        pacer.reset(ms(10.0));
        for late in 0..6 {
            assert_eq!(pacer.next_at(RATE), ms(10.0 + 0.1 * f64::from(late)));
            pacer.sent_at(ms(10.5), Bytes::new(100), RATE);
        }
        assert_eq!(pacer.next_at(RATE), ms(10.6), "what is due by now has left");
        pacer.sent_at(ms(50.0), Bytes::new(100), RATE);
        assert_eq!(pacer.next_at(RATE), ms(49.6), "a stall is made up for by half a millisecond");
    }

    #[test]
    fn a_new_rate_moves_the_next_departure_at_once() {
        let mut pacer = Pacer::default();
        pacer.reset(ms(5.0));
        pacer.sent_at(ms(5.0), Bytes::new(1000), RATE);
        assert_eq!(pacer.next_at(RATE), ms(6.0));
        pacer.bound(ms(6.0));
        assert_eq!(pacer.next_at(RATE + RATE), ms(5.5), "a bound that is not earlier does not fix it");
    }

    #[test]
    fn at_a_changing_rate_a_small_delay_is_made_up_for_a_stall_not() {
        let mut pacer = Pacer::default();
        pacer.reset(ms(5.0));
        pacer.sent_at(ms(5.3), Bytes::new(1000), RATE);
        assert_eq!(pacer.next_at(RATE), ms(6.0));
        pacer.sent_at(ms(60.0), Bytes::new(1000), RATE);
        pacer.sent_at(ms(60.0), Bytes::new(1000), RATE);
        assert_eq!(pacer.next_at(RATE), ms(61.0));
    }

    #[test]
    fn a_bunch_makes_up_for_a_delay_up_to_its_own_time() {
        // Bunches of four packets. The first one is due at 5 ms.
        for (sent, next) in [(5.0, 9.0), (5.3, 9.0), (8.9, 9.0), (60.0, 60.0), (4.0, 8.0)] {
            let mut pacer = Pacer::default();
            pacer.reset(ms(5.0));
            pacer.bunch_sent_at(ms(sent), Bytes::new(1000), Bytes::new(4000), RATE);
            (0..3).for_each(|_| pacer.add_to_bunch(Bytes::new(1000), RATE));
            assert_eq!(pacer.next_at(RATE), ms(next), "sent at {sent} ms");
        }
    }

    #[test]
    fn after_a_planned_pause_no_second_packet_is_sent_at_once() {
        let mut pacer = Pacer::default();
        pacer.reset(ms(5.0));
        pacer.sent_at(ms(5.0), Bytes::new(1000), RATE);
        pacer.resume(ms(60.0), RATE);
        assert_eq!(pacer.next_at(RATE), ms(60.0));
        pacer.sent_at(ms(60.0), Bytes::new(1000), RATE);
        assert_eq!(pacer.next_at(RATE), ms(61.0));
    }
}
