//! Damage: packets lost in numbers that chance does not explain. The rate is halved, once for all that was sent at it.
//!
//! Section 3.2 sees a queue long before it overflows and answers no losses, and where packets are lost at random that is
//! right (Figure 11). But a flow can be mistaken in the path: one that has got used to a queue takes it for the path's own
//! delay, and then nothing but losses says that it sends too much.
//!
//! ```text
//! lost > 4 + answered / 10, packets of one round trip:    base /= 2
//! ```
//!
//! Where one packet in twenty is lost at random, one round trip in six thousand looks like that at most.

use rampmeter_units::{Bytes, Duration, Time};

/// Packets that chance may lose in a round trip, and the share of more that it may.
const CHANCE: u64 = 4;
const SHARE: u64 = 10;

#[derive(Debug, Clone, Default)]
pub(super) struct Damage {
    until: Time,
    lost: Bytes,
    answered: Bytes,
    /// What left up to this number was answered for.
    settled: u64,
}

impl Damage {
    /// `bytes` arrived.
    pub(super) fn on_arrival(&mut self, now: Time, rtt: Duration, bytes: Bytes) {
        self.turn(now, rtt);
        self.answered += bytes;
    }

    /// `bytes` were lost, in packets up to `number`; packets up to `last_sent` have left. True if that is too much to be
    /// chance.
    pub(super) fn on_loss(
        &mut self,
        now: Time,
        rtt: Duration,
        bytes: Bytes,
        packet: Bytes,
        number: u64,
        last_sent: u64,
    ) -> bool {
        if number <= self.settled {
            return false;
        }
        self.turn(now, rtt);
        self.lost += bytes;
        self.answered += bytes;
        let damaged = self.lost > packet * CHANCE + self.answered / SHARE;
        if damaged {
            *self = Self { settled: last_sent, ..Self::default() };
        }
        damaged
    }

    fn turn(&mut self, now: Time, rtt: Duration) {
        if now >= self.until {
            *self = Self { until: now + rtt, settled: self.settled, ..Self::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(20);
    const PACKET: Bytes = Bytes::new(1000);

    /// A packet a millisecond, of which `is_lost` are lost: how often the rate is halved.
    fn run(packets: u64, is_lost: impl Fn(u64) -> bool) -> usize {
        let mut damage = Damage::default();
        let sees = |number| {
            let now = Time::ZERO + Duration::from_millis(number);
            if is_lost(number) {
                return damage.on_loss(now, RTT, PACKET, PACKET, number, number + 20);
            }
            damage.on_arrival(now, RTT, PACKET);
            false
        };
        (1..=packets).map(sees).filter(|halved| *halved).count()
    }

    #[test]
    fn packets_lost_one_by_one_are_chance() {
        assert_eq!(run(10_000, |n| n % 10 == 0), 0);
        assert_eq!(run(10_000, |n| n % 100 < 3), 0);
    }

    #[test]
    fn every_round_trip_with_a_third_lost_halves_the_rate_once() {
        let halved = run(1_000, |n| n % 3 == 0);
        assert!((15..=30).contains(&halved), "{halved} times in 50 round trips");
    }

    #[test]
    fn what_was_sent_before_it_was_halved_is_not_answered_for_again() {
        assert_eq!(run(24, |_| true), 1);
    }
}
