//! Excess loss: more losses in a round trip than chance explains. The rate is halved, once for everything that was sent
//! at that rate.
//!
//! Section 3.2 detects a queue long before it overflows, and does not respond to losses. Where packets are lost at
//! random this is right (Figure 11). But a flow's estimate of the path can be wrong: a flow that started while a queue
//! stood takes its delay for the path's own, and then only losses show that it sends too much. With an earlier
//! competitive mode single runs of 50 flows lost 28 to 52% of their packets as long as they lasted.
//!
//! ```text
//! lost > 4 + max_loss * resolved, packets of one round trip:    base /= 2
//! loss_rate > max_loss:                                         almost no probe is sent
//! loss_rate: the share of packets that is lost, an average over about AVERAGED_PACKETS packets
//! ```
//!
//! A round with fewer than `MIN_PACKETS` packets lasts until there are so many: on a thin path a flow has few packets
//! per round trip. There the retransmission timer finds most losses, because too few packets follow to show them. These
//! count, too, unless the timer has halved the rate already.
//!
//! If a buffer is always full, delays do not grow, and trains would be accepted although the path has no capacity for
//! them. So a flow with such losses sends a probe only once in `MAX_BACKOFF` round trips.
//!
//! Simulated, one or two seeds: loss of 500 and of 100 flows on 1 Mb/s after 100 s, and in Figure 8 at 1 Mb/s:
//!
//! ```text
//! design                                                   500 flows  100 flows  Figure 8
//! no probe after a round trip that lost 2 and a tenth        52%        26%        17%
//! the average; the rate falls by the share that is lost      44%        23%        not run
//! the same, timeouts count, 50 packets                       27%         1%        12%
//! the same, 30 packets, a packet in 10 s at least, not 5     19%         1%        11%
//! the same, the rate does not fall by that share             28%         0.3%      not run
//! the same, a timeout that halves the rate counts once       27%         3 to 5%     14%      this design
//! ```
//!
//! The last step is for slow paths beside TCP: 250 kB on 7.5 Mb/s beside three CUBIC flows (`paths.toml`, p18) took 25
//! s without it and take 17 s with it.
//!
//! At a random loss of one packet in twenty, the rate is halved in one of six thousand round trips of 100 packets each.

use rampmeter_units::{Bytes, Duration, Time};

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
    pub(super) fn check_round(&mut self, now: Time, rtt: Duration, packet: Bytes, max_loss: f64) -> bool {
        if now < self.until || self.resolved < packet * MIN_PACKETS {
            return false;
        }
        let (lost, resolved) = (self.lost.as_f64() / packet.as_f64(), self.resolved.as_f64() / packet.as_f64());
        self.average(lost, resolved);
        (self.until, self.lost, self.resolved) = (now + rtt, Bytes::ZERO, Bytes::ZERO);
        let is_excessive = lost > RANDOM_LOSSES + max_loss * resolved;
        if is_excessive {
            self.reduced_up_to = Some(self.last_sent);
        }
        is_excessive
    }

    /// Whether so many packets are lost that no probe should be sent.
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
    use rampmeter_units::Stream;

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
            excess_loss.check_round(now, RTT, PACKET, 0.1)
        };
        (1..=round_trips * packets).map(observe).filter(|halved| *halved).count()
    }

    #[test]
    fn single_losses_are_chance() {
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
    fn a_path_is_lossy_while_it_loses_over_a_tenth() {
        let mut excess_loss = ExcessLoss::default();
        let mut lossy = |lost: u64| {
            (0..16 - lost).for_each(|_| excess_loss.on_arrival(PACKET));
            (0..lost).for_each(|number| excess_loss.on_loss(PACKET, number, number));
            excess_loss.check_round(Time::ZERO + RTT * 10, RTT, PACKET, 0.1);
            excess_loss.until = Time::ZERO;
            excess_loss.is_lossy(0.1)
        };
        assert_eq!([4, 4, 0, 0].map(&mut lossy), [false, true, false, false]);
    }

    #[test]
    fn few_packets_give_no_loss_rate() {
        let mut excess_loss = ExcessLoss::default();
        excess_loss.on_loss(PACKET * 15, 15, 15);
        assert!(!excess_loss.check_round(Time::ZERO + RTT, RTT, PACKET, 0.1) && !excess_loss.is_lossy(0.1));
        excess_loss.on_loss(PACKET, 16, 16);
        assert!(excess_loss.check_round(Time::ZERO + RTT, RTT, PACKET, 0.1) && excess_loss.is_lossy(0.1));
    }

    #[test]
    fn packets_sent_before_a_reduction_do_not_count_again() {
        assert_eq!(run(10, 20, |n| n <= 35), 1);
        let mut excess_loss = ExcessLoss::default();
        excess_loss.on_timeout(PACKET * 3, PACKET, 40);
        excess_loss.on_loss(PACKET * 40, 40, 40);
        excess_loss.on_arrival(PACKET * 20);
        assert!(!excess_loss.check_round(Time::ZERO + RTT, RTT, PACKET, 0.1) && !excess_loss.is_lossy(0.1));
    }
}
