//! Damage: packets lost in numbers that chance does not explain. The rate is halved, once for all that was sent at it.
//!
//! Section 3.2 sees a queue long before it overflows and answers no losses, and where packets are lost at random that is
//! right (Figure 11). But a flow can be mistaken in the path: one that has got used to a queue takes it for the path's own
//! delay, and then nothing but losses says that it sends too much. With an earlier competitive mode single runs of 50
//! flows lost 28 to 52% of their packets as long as they lasted.
//!
//! ```text
//! lost > 4 + max_loss * answered, packets of one round trip:    base /= 2
//! lost > 2 + max_loss * answered:                               no probe until the next round trip that says otherwise
//! ```
//!
//! A round trip of fewer than `FEWEST` packets lasts until there were so many: the share of a thin path has few.
//!
//! Where a buffer is always full, delays do not grow, and the path would accept trains for which it has no room. So a flow
//! does not probe while it loses that much, but once in `MAX_BACKOFF` round trips: 200 packets on Figure 8's 1 Mb/s lost
//! 22% and lose 14 to 17.
//!
//! With a `max_loss` of a tenth the rate is halved by chance in one round trip in six thousand where one packet in twenty
//! is lost at random, and in one in 200 where one in twelve is.

use rampmeter_units::{Bytes, Duration, Time};

/// Packets that chance may lose in a round trip.
const CHANCE: u64 = 4;

/// Packets by which a share that is lost can be known.
const FEWEST: u64 = 16;

#[derive(Debug, Clone, Default)]
pub(super) struct Damage {
    until: Time,
    lost: Bytes,
    answered: Bytes,
    /// What left up to this number was answered for.
    settled: Option<u64>,
    last_sent: u64,
    /// So much was lost in the last round trip that no probe should leave.
    is_lossy: bool,
}

impl Damage {
    /// Time goes on, and packets of up to `packet` leave. True at the end of a round trip in which too many were lost.
    pub(super) fn turn(&mut self, now: Time, rtt: Duration, packet: Bytes, max_loss: f64) -> bool {
        if now < self.until || self.answered < packet * FEWEST {
            return false;
        }
        let exceeds =
            |packets: u64| self.lost.as_f64() > packet.as_f64() * packets as f64 + self.answered.as_f64() * max_loss;
        let (is_lossy, damaged) = (exceeds(CHANCE / 2), exceeds(CHANCE));
        self.is_lossy = is_lossy;
        if damaged {
            self.settled = Some(self.last_sent);
        }
        (self.until, self.lost, self.answered) = (now + rtt, Bytes::ZERO, Bytes::ZERO);
        damaged
    }

    /// Whether so many of the last round trip's packets were lost that no probe should leave.
    pub(super) fn is_lossy(&self) -> bool {
        self.is_lossy
    }

    /// `bytes` arrived.
    pub(super) fn on_arrival(&mut self, bytes: Bytes) {
        self.answered += bytes;
    }

    /// `bytes` were lost, in packets up to `number`; packets up to `last_sent` have left.
    pub(super) fn on_loss(&mut self, bytes: Bytes, number: u64, last_sent: u64) {
        self.last_sent = last_sent;
        if self.settled.is_none_or(|settled| number > settled) {
            self.lost += bytes;
            self.answered += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Stream;

    use super::*;

    const RTT: Duration = Duration::from_millis(20);
    const PACKET: Bytes = Bytes::new(1000);

    /// So many packets a round trip, of which `is_lost` are lost: how often the rate is halved.
    fn run(round_trips: u64, packets: u64, mut is_lost: impl FnMut(u64) -> bool) -> usize {
        let mut damage = Damage::default();
        let sees = |number: u64| {
            let now = Time::ZERO + (RTT * number) / packets;
            if is_lost(number) {
                damage.on_loss(PACKET, number, number + packets);
            } else {
                damage.on_arrival(PACKET);
            }
            damage.turn(now, RTT, PACKET, 0.1)
        };
        (1..=round_trips * packets).map(sees).filter(|halved| *halved).count()
    }

    #[test]
    fn packets_lost_one_by_one_are_chance() {
        assert_eq!(run(1_000, 20, |n| n % 10 == 0), 0);
        let mut random = Stream::from_seed(1);
        let halved = run(10_000, 100, |_| random.chance(0.05));
        assert!(halved <= 4, "{halved} of 10,000 round trips");
    }

    #[test]
    fn losing_a_third_halves_the_rate_every_other_round_trip() {
        let halved = run(100, 20, |n| n % 3 == 0);
        assert!((40..=50).contains(&halved), "{halved} times in 100 round trips");
    }

    #[test]
    fn a_path_is_lossy_if_four_of_sixteen_packets_are_lost() {
        let lossy = |lost: u64, packets: u64| {
            let mut damage = Damage::default();
            (0..packets - lost).for_each(|_| damage.on_arrival(PACKET));
            (0..lost).for_each(|number| damage.on_loss(PACKET, number, number));
            damage.turn(Time::ZERO + RTT, RTT, PACKET, 0.1);
            damage.is_lossy()
        };
        assert!(!lossy(3, 16) && lossy(4, 16));
        assert!(!lossy(15, 15), "too few to judge by");
    }

    #[test]
    fn what_was_sent_before_it_was_halved_is_not_answered_for_again() {
        assert_eq!(run(10, 20, |n| n <= 35), 1);
    }
}
