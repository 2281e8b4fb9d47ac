//! Damage: packets lost in numbers that chance does not explain. The rate is halved, once for all that was sent at it.
//!
//! Section 3.2 sees a queue long before it overflows and answers no losses, and where packets are lost at random that is
//! right (Figure 11). But a flow can be mistaken in the path: one that has got used to a queue takes it for the path's own
//! delay, and then nothing but losses says that it sends too much. With an earlier competitive mode single runs of 50
//! flows lost 28 to 52% of their packets as long as they lasted.
//!
//! ```text
//! share    of packets that are lost: an average over about MEMORY packets
//! lost > 4 + max_loss * answered, packets of one round trip:    base /= 2
//! else share > max_loss:                                        base *= 1 - share, and hardly a probe leaves
//! ```
//!
//! A round trip of fewer than `FEWEST` packets lasts until there were so many: the share of a thin path has few. There most
//! losses are found by the retransmission timer, because nothing follows that could tell of them: they count, too.
//!
//! Where a buffer is always full, delays do not grow, and the path would accept trains for which it has no room. So a flow
//! does not probe while it loses that much, but once in `MAX_BACKOFF` round trips.
//!
//! *What the numbers weigh* (simulated, one or two seeds; 500 and 100 flows on 1 Mb/s, lost after 100 s, and Figure 8 at
//! 1 Mb/s; from the third row on timeouts count):
//!
//! ```text
//! design                                                   500 flows  100 flows  Figure 8   its time
//! no probe after a round trip that lost 2 and a tenth        52%        26%        17%       1.74
//! the average                                                44%        23%        not run
//! the average, 50 packets                                    27%         1%        12%       1.83
//! the same, lowest rate a packet in 20 s instead of 5        17%         1%        12%       2.09
//! the average, 30 packets, a packet in 10 s (this design)    19%         1%        11%       1.75
//! the same without halving                                   26%         0%        13%       1.75
//! ```
//!
//! Where one packet in twenty is lost at random, the rate is lowered by a tenth in one round trip in 160, and halved in one
//! in six thousand. 250 kB take as long as without this rule there (Figure 11), 1.05 times as long where one in twelve is
//! lost, and 1.2 times as long where one in ten is.

use rampmeter_units::{Bytes, Duration, Time};

/// Packets that chance may lose in a round trip.
const CHANCE: f64 = 4.0;

/// Packets by which a share that is lost can be known.
const FEWEST: u64 = 16;

/// Packets over which the share that is lost is averaged.
const MEMORY: f64 = 30.0;

#[derive(Debug, Clone, Default)]
pub(super) struct Damage {
    until: Time,
    lost: Bytes,
    answered: Bytes,
    /// What left up to this number was answered for.
    settled: Option<u64>,
    last_sent: u64,
    /// The share of packets that is lost, lately.
    share: f64,
    /// It is so high that no probe should leave.
    is_lossy: bool,
}

impl Damage {
    /// Time goes on, and packets of up to `packet` leave. What to keep of the rate, at the end of a round trip that says that
    /// too many are lost.
    pub(super) fn turn(&mut self, now: Time, rtt: Duration, packet: Bytes, max_loss: f64) -> Option<f64> {
        if now < self.until || self.answered < packet * FEWEST {
            return None;
        }
        let (lost, answered) = (self.lost.as_f64() / packet.as_f64(), self.answered.as_f64() / packet.as_f64());
        self.share += (lost / answered - self.share) * answered / (answered + MEMORY);
        self.is_lossy = self.share > max_loss;
        (self.until, self.lost, self.answered) = (now + rtt, Bytes::ZERO, Bytes::ZERO);
        if lost > CHANCE + max_loss * answered {
            self.settled = Some(self.last_sent);
            return Some(0.5);
        }
        self.is_lossy.then_some(1.0 - self.share)
    }

    /// Whether so many packets are lost that no probe should leave.
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

    /// So many packets a round trip, of which `is_lost` are lost: what was kept of the rate, each time.
    fn run(round_trips: u64, packets: u64, mut is_lost: impl FnMut(u64) -> bool) -> Vec<f64> {
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
        (1..=round_trips * packets).filter_map(sees).collect()
    }

    #[test]
    fn packets_lost_one_by_one_are_chance() {
        assert_eq!(run(1_000, 20, |n| n % 10 == 0), []);
        let mut random = Stream::from_seed(1);
        let kept = run(10_000, 100, |_| random.chance(0.05));
        assert!(
            kept.len() <= 100 && kept.iter().all(|kept| *kept == 0.5 || *kept > 0.85),
            "{} of 10,000 round trips",
            kept.len()
        );
        assert!(kept.iter().filter(|kept| **kept == 0.5).count() <= 4);
    }

    #[test]
    fn losing_a_third_halves_the_rate_every_other_round_trip() {
        let kept = run(100, 20, |n| n % 3 == 0);
        let halved = kept.iter().filter(|kept| **kept == 0.5).count();
        assert!((40..=50).contains(&halved), "{halved} times in 100 round trips");
    }

    #[test]
    fn losing_a_quarter_of_few_packets_lowers_the_rate_by_what_is_lost() {
        let kept = run(100, 2, |n| n % 4 == 0);
        assert_eq!(kept.len(), 11, "after each 16 of 200 packets but the first");
        assert!(kept.iter().skip(5).all(|kept| (0.74..0.78).contains(kept)), "{kept:?}");
    }

    #[test]
    fn a_path_is_lossy_while_it_loses_over_a_tenth() {
        let mut damage = Damage::default();
        let mut lossy = |lost: u64| {
            (0..16 - lost).for_each(|_| damage.on_arrival(PACKET));
            (0..lost).for_each(|number| damage.on_loss(PACKET, number, number));
            damage.turn(Time::ZERO + RTT * 10, RTT, PACKET, 0.1);
            damage.until = Time::ZERO;
            damage.is_lossy()
        };
        assert_eq!([4, 4, 0, 0].map(&mut lossy), [false, true, false, false]);
    }

    #[test]
    fn few_packets_are_not_judged() {
        let mut damage = Damage::default();
        damage.on_loss(PACKET * 15, 15, 15);
        assert_eq!(damage.turn(Time::ZERO + RTT, RTT, PACKET, 0.1), None);
        assert!(!damage.is_lossy());
    }

    #[test]
    fn what_was_sent_before_it_was_halved_is_not_answered_for_again() {
        assert_eq!(run(4, 20, |n| n <= 35).first(), Some(&0.5));
        assert!(run(4, 20, |n| n <= 35).iter().skip(1).all(|kept| *kept > 0.5));
    }
}
