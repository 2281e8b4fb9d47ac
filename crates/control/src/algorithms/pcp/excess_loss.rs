//! Excess loss: more losses in a round trip than chance explains. The rate is halved, once for everything that was sent
//! at that rate.
//!
//! Section 3.2 detects a queue long before it overflows, and does not respond to losses. Where packets are lost at
//! random this is right (Figure 11). But a flow that started while a queue stood takes its delay for the path's own,
//! and then only losses show that it sends too much. With an earlier competitive mode single runs of 50 flows lost 28
//! to 52% of their packets as long as they lasted.
//!
//! ```text
//! lost > 4 + MAX_LOSS * resolved, packets of one round trip:    base /= 2
//! loss_rate > MAX_LOSS:                                         a probe once in MAX_BACKOFF round trips
//! loss_rate: the share of packets that is lost, an average over about AVERAGED_PACKETS packets
//! ```
//!
//! The second rule is for buffers that are always full: delays do not grow there, and trains would be accepted although
//! the path has no capacity for them. At a random loss of one packet in twenty, the rate is halved in one of six
//! thousand round trips of 100 packets each.
//!
//! A round with fewer than `MIN_PACKETS` packets lasts until there are so many, because on a thin path a flow has few
//! packets per round trip. There the retransmission timer finds most losses. These count, too, unless the timer has
//! halved the rate already: without that exception 250 kB on 7.5 Mb/s beside three CUBIC flows (`paths.toml`, p18) took
//! 25 s, and take 17 s with it. `studies/pcp/NOTES.md` has the designs that were tried.

use rampmeter_units::{Bytes, Duration, Time};

use super::config::MAX_LOSS;

/// The number of losses in a round trip that may be chance.
const RANDOM_LOSSES: f64 = 4.0;

/// The minimum number of packets for an estimate of the loss rate.
const MIN_PACKETS: u64 = 16;

/// The number of packets over which the loss rate is averaged.
const AVERAGED_PACKETS: f64 = 30.0;

#[derive(Debug, Clone, Default)]
pub(super) struct ExcessLoss {
    until: Time,
    lost: Bytes,
    resolved: Bytes,
    /// The rate was already reduced for packets up to this number.
    reduced_up_to: Option<u64>,
    last_sent: u64,
    /// The recent share of packets that were lost.
    loss_rate: f64,
}

impl ExcessLoss {
    /// Ends a round if it is over by `now`, for packets of up to `packet` bytes. True if too many packets were lost in
    /// it.
    pub(super) fn check_round(&mut self, now: Time, rtt: Duration, packet: Bytes) -> bool {
        if now < self.until || self.resolved < packet * MIN_PACKETS {
            return false;
        }
        let (lost, resolved) = (self.lost.as_f64() / packet.as_f64(), self.resolved.as_f64() / packet.as_f64());
        self.average(lost, resolved);
        (self.until, self.lost, self.resolved) = (now + rtt, Bytes::ZERO, Bytes::ZERO);
        let is_excessive = lost > RANDOM_LOSSES + MAX_LOSS * resolved;
        if is_excessive {
            self.reduced_up_to = Some(self.last_sent);
        }
        is_excessive
    }

    /// Whether more than this share is lost: with `MAX_LOSS`, no probe should be sent.
    pub(super) fn is_lossy(&self, max_loss: f64) -> bool {
        self.loss_rate > max_loss
    }

    fn average(&mut self, lost: f64, resolved: f64) {
        self.loss_rate += (lost / resolved.max(1.0) - self.loss_rate) * resolved / (resolved + AVERAGED_PACKETS);
    }

    /// `bytes` were lost by a timeout that halved the rate. Nothing sent up to `last_sent` halves it again.
    pub(super) fn on_timeout(&mut self, bytes: Bytes, packet: Bytes, last_sent: u64) {
        let lost = bytes.as_f64() / packet.as_f64();
        self.average(lost, lost);
        self.reduced_up_to = Some(last_sent);
    }

    /// `bytes` arrived.
    pub(super) fn on_arrival(&mut self, bytes: Bytes) {
        self.resolved += bytes;
    }

    /// `bytes` were lost, in packets up to `number`. Packets up to `last_sent` were sent.
    pub(super) fn on_loss(&mut self, bytes: Bytes, number: u64, last_sent: u64) {
        self.last_sent = last_sent;
        if self.reduced_up_to.is_none_or(|reduced_up_to| number > reduced_up_to) {
            self.lost += bytes;
            self.resolved += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Random;

    use super::*;

    const RTT: Duration = Duration::from_millis(20);
    const PACKET: Bytes = Bytes::new(1000);

    /// The number of times that the rate is halved, with `packets` packets per round trip, of which `is_lost` are lost.
    fn run(round_trips: u64, packets: u64, mut is_lost: impl FnMut(u64) -> bool) -> usize {
        let mut excess_loss = ExcessLoss::default();
        let observe = |number: u64| {
            let now = Time::ZERO + (RTT * number) / packets;
            if is_lost(number) {
                excess_loss.on_loss(PACKET, number, number + packets);
            } else {
                excess_loss.on_arrival(PACKET);
            }
            excess_loss.check_round(now, RTT, PACKET)
        };
        (1..=round_trips * packets).map(observe).filter(|halved| *halved).count()
    }

    #[test]
    fn single_losses_are_chance() {
        assert_eq!(run(1_000, 20, |n| n % 10 == 0), 0);
        let mut random = Random::from_seed(1);
        let halved = run(10_000, 100, |_| random.chance(0.05));
        assert!(halved <= 4, "{halved} of 10,000 round trips");
    }

    #[test]
    fn losing_a_third_halves_the_rate_every_other_round_trip() {
        let halved = run(100, 20, |n| n % 3 == 0);
        assert!((40..=50).contains(&halved), "{halved} times in 100 round trips");
    }

    #[test]
    fn a_path_is_lossy_while_it_loses_over_a_tenth() {
        let mut excess_loss = ExcessLoss::default();
        let mut lossy = |lost: u64| {
            (0..16 - lost).for_each(|_| excess_loss.on_arrival(PACKET));
            (0..lost).for_each(|number| excess_loss.on_loss(PACKET, number, number));
            excess_loss.check_round(Time::ZERO + RTT * 10, RTT, PACKET);
            excess_loss.until = Time::ZERO;
            excess_loss.is_lossy(0.1)
        };
        assert_eq!([4, 4, 0, 0].map(&mut lossy), [false, true, false, false]);
    }

    #[test]
    fn few_packets_give_no_loss_rate() {
        let mut excess_loss = ExcessLoss::default();
        excess_loss.on_loss(PACKET * 15, 15, 15);
        assert!(!excess_loss.check_round(Time::ZERO + RTT, RTT, PACKET) && !excess_loss.is_lossy(0.1));
        excess_loss.on_loss(PACKET, 16, 16);
        assert!(excess_loss.check_round(Time::ZERO + RTT, RTT, PACKET) && excess_loss.is_lossy(0.1));
        excess_loss.on_loss(PACKET * 20, 90, 90);
        assert!(!excess_loss.check_round(Time::ZERO + RTT * 2 - Duration::from_nanos(1), RTT, PACKET));
        assert!(excess_loss.check_round(Time::ZERO + RTT * 2, RTT, PACKET), "a round trip later");
        assert!(!ExcessLoss::default().is_lossy(0.0), "a path without losses");
    }

    #[test]
    fn packets_sent_before_a_reduction_do_not_count_again() {
        assert_eq!(run(10, 20, |n| n <= 35), 1);
        let mut excess_loss = ExcessLoss::default();
        excess_loss.on_timeout(PACKET * 3, PACKET, 40);
        excess_loss.on_loss(PACKET * 40, 40, 40);
        excess_loss.on_arrival(PACKET * 20);
        assert!(!excess_loss.check_round(Time::ZERO + RTT, RTT, PACKET) && !excess_loss.is_lossy(0.1));
    }
}
