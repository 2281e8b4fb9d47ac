//! Loss independent of queues: at random, of single packets, of bits and in bursts; and of each n-th packet.
//!
//! Bursts follow the model of Gilbert and Elliott (E. N. Gilbert, "Capacity of a burst-noise channel", Bell System
//! Technical Journal 39, 1960; E. O. Elliott, "Estimates of error rates for codes on burst-noise channels", Bell System
//! Technical Journal 42, 1963): the link has a good and a bad state, each with its probability of loss.
//!
//! ```text
//!            p                  share  = p / (p + r)   the part of the packets, or of the time, in the bad state
//!   good ─────────► bad         length = 1 / r         the mean length of the bad state
//!        ◄─────────             mean loss = (1 - share) good + share bad
//!            r
//! ```
//!
//! `p` and `r` are probabilities a packet, or rates in time. Without packets the first chain stands still, so a sender
//! that pauses during a burst finds it unchanged, and each direction of a link has its own. The second one models
//! fading, which passes by itself, at times that no packet changes: all senders and both worlds meet the same bursts with
//! the same seed, and both directions of a link are in the bad state together, where their bursts have the same share and
//! length. For the first one, the state of the next packet follows from that of the last one:
//!
//! ```text
//!   P(bad) = share + (1 or 0 - share) decay     decay = 1 - p - r     p + r = 1 / (length (1 - share))
//! ```

use std::num::NonZeroU64;

use rampmeter_units::{Bytes, Duration, Random, Time};
use serde::{Deserialize, Serialize};

/// Losses independent of queues.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Loss {
    /// One of so many packets is lost, at regular distances, as the response functions of specifications assume.
    pub every: Option<NonZeroU64>,
    /// Probability that a packet is lost.
    pub per_packet: f64,
    /// Probability that a bit is damaged; one damaged bit loses the packet.
    pub per_bit: f64,
    /// Losses in bursts.
    pub burst: Option<Burst>,
}

/// Losses in bursts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Burst {
    /// The part of the packets, or of the time, in the bad state; below 1.
    pub share: f64,
    /// The mean length of the bad state.
    pub length: BurstLength,
    /// The probability that a packet is lost in the bad state.
    pub bad: f64,
    /// The probability that a packet is lost in the good state.
    pub good: f64,
}

/// The mean length of the bad state.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum BurstLength {
    /// In packets; 1 or more.
    Packets(f64),
    /// In time; more than zero.
    Time(Duration),
}

impl Loss {
    /// The probability that a packet of `bytes` is lost, except in bursts and at regular distances.
    pub fn of_packet(self, bytes: Bytes) -> f64 {
        if self.per_bit == 0.0 {
            return self.per_packet;
        }
        // P(lost) = 1 - (1 - p) (1 - b)^bits
        1.0 - (1.0 - self.per_packet) * libm::exp(bytes.as_f64() * 8.0 * libm::log1p(-self.per_bit))
    }
}

impl Burst {
    /// The mean loss.
    pub fn mean(self) -> f64 {
        (1.0 - self.share) * self.good + self.share * self.bad
    }
}

/// A [`Loss`] with its random stream.
#[derive(Debug)]
pub(crate) struct Losses {
    loss: Loss,
    random: Random,
    bursts: Option<(Burst, Chain)>,
    /// Packets since the last one that was lost because of `every`.
    since_last: u64,
}

/// What decides between the good and the bad state.
#[derive(Debug)]
enum Chain {
    /// Packets: the state that the last one found; none before the first packet.
    Packets {
        decay: f64,
        was_bad: Option<bool>,
    },
    Time(Periods),
}

impl Losses {
    pub(crate) fn new(loss: Loss, mut random: Random) -> Self {
        let bursts = loss.burst.map(|burst| {
            let chain = match burst.length {
                BurstLength::Packets(packets) => {
                    Chain::Packets { decay: 1.0 - 1.0 / (packets * (1.0 - burst.share)), was_bad: None }
                }
                BurstLength::Time(length) => Chain::Time(Periods::new(burst.share, length, &mut random)),
            };
            (burst, chain)
        });
        Self { loss, random, bursts, since_last: 0 }
    }

    /// Takes the bursts in time from other losses, those that `random` decides.
    pub(crate) fn share_bursts(&mut self, mut random: Random) {
        let Some((Burst { share, length: BurstLength::Time(length), .. }, chain)) = &mut self.bursts else { return };
        *chain = Chain::Time(Periods::new(*share, *length, &mut random));
    }

    /// Whether the packet of `bytes` that arrives `at` is lost.
    pub(crate) fn loses(&mut self, at: Time, bytes: Bytes) -> bool {
        let in_burst = self.meets_burst(at);
        self.random.chance(self.loss.of_packet(bytes)) || in_burst || self.is_next()
    }

    /// Whether the packet is the next one at a regular distance.
    fn is_next(&mut self) -> bool {
        let Some(every) = self.loss.every else { return false };
        self.since_last += 1;
        let is_next = self.since_last >= every.get();
        if is_next {
            self.since_last = 0;
        }
        is_next
    }

    fn meets_burst(&mut self, at: Time) -> bool {
        let Some((burst, chain)) = &mut self.bursts else { return false };
        let is_bad = match chain {
            Chain::Packets { decay, was_bad } => {
                let share = burst.share;
                let chance = was_bad.map_or(share, |was_bad| share + (f64::from(was_bad) - share) * *decay);
                let is_bad = self.random.chance(chance);
                *was_bad = Some(is_bad);
                is_bad
            }
            Chain::Time(periods) => periods.is_bad(at),
        };
        self.random.chance(if is_bad { burst.bad } else { burst.good })
    }
}

/// The good and bad states of bursts in time. Their lengths are exponential.
#[derive(Debug)]
struct Periods {
    share: f64,
    /// The mean lengths of the good and the bad state.
    means: [Duration; 2],
    seed: u64,
    /// The number of the current block. Each block of 1000 mean periods has a stream of its own, so that a packet after a
    /// long pause finds the state that it would find after many packets, without the draws in between.
    block: u64,
    random: Random,
    is_bad: bool,
    until: Time,
}

impl Periods {
    /// With streams of its own, from the first number of `random`.
    fn new(share: f64, length: Duration, random: &mut Random) -> Self {
        let seed = random.below(u64::MAX);
        let good = length.scale((1.0 - share) / share.max(1e-9));
        let (random, until) = (Random::from_seed(seed), Time::ZERO);
        let mut periods = Self { share, means: [good, length], seed, block: 0, random, is_bad: false, until };
        periods.start(0);
        periods
    }

    /// The length of a block.
    fn span(&self) -> Duration {
        (self.means[0] + self.means[1]).max(Duration::from_nanos(1)) * 1000
    }

    /// Draws the first state of `block`.
    fn start(&mut self, block: u64) {
        self.block = block;
        self.random = Random::from_seed(self.seed.wrapping_add(block));
        self.is_bad = self.random.chance(self.share);
        self.until = Time::ZERO + self.span() * block + self.draw();
    }

    fn draw(&mut self) -> Duration {
        self.means[usize::from(self.is_bad)].scale(self.random.exponential(1.0))
    }

    fn is_bad(&mut self, at: Time) -> bool {
        let block = at.since(Time::ZERO).as_nanos() / self.span().as_nanos();
        if block != self.block {
            self.start(block);
        }
        while self.until <= at {
            self.is_bad = !self.is_bad;
            let length = self.draw().max(Duration::from_nanos(1));
            self.until += length;
        }
        self.is_bad
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKETS: u64 = 1_000_000;

    /// Which of packets with this distance are lost.
    fn losses(burst: Burst, gap: Duration) -> Vec<bool> {
        let mut losses = Losses::new(Loss { burst: Some(burst), ..Loss::default() }, Random::from_seed(3));
        (0..PACKETS).map(|n| losses.loses(Time::ZERO + gap * n, Bytes::new(1000))).collect()
    }

    fn mean(lost: &[bool]) -> f64 {
        lost.iter().filter(|lost| **lost).count() as f64 / lost.len() as f64
    }

    /// The mean number of losses in a row.
    fn mean_run(lost: &[bool]) -> f64 {
        let runs = lost.chunk_by(|a, b| a == b).filter(|run| run[0]);
        let (losses, count) = runs.fold((0, 0), |(losses, count), run| (losses + run.len(), count + 1));
        losses as f64 / f64::from(count)
    }

    /// There are 4000 bursts or more, so the standard deviation of both is 2.3% at most.
    #[test]
    fn losses_have_the_share_and_length_of_gilberts_model() {
        for (share, packets) in [(0.02, 5.0), (0.3, 1.0), (0.1, 20.0)] {
            let burst = Burst { share, length: BurstLength::Packets(packets), bad: 1.0, good: 0.0 };
            let lost = losses(burst, Duration::ZERO);
            assert!((mean(&lost) / share - 1.0).abs() < 0.08, "{share}: {}", mean(&lost));
            assert!((mean_run(&lost) / packets - 1.0).abs() < 0.08, "{packets}: {}", mean_run(&lost));
        }
    }

    /// P(two losses in a row) = sum over both states and their successors.
    #[test]
    fn losses_have_the_correlation_of_elliotts_model() {
        let burst = Burst { share: 0.2, length: BurstLength::Packets(10.0), bad: 0.5, good: 0.01 };
        let lost = losses(burst, Duration::ZERO);
        assert!((mean(&lost) - burst.mean()).abs() < 0.004, "{}", mean(&lost));
        let (r, p) = (0.1, 0.1 * 0.2 / 0.8);
        let pairs = 0.2 * 0.5 * ((1.0 - r) * 0.5 + r * 0.01) + 0.8 * 0.01 * ((1.0 - p) * 0.01 + p * 0.5);
        let found = lost.windows(2).filter(|pair| pair[0] && pair[1]).count() as f64 / PACKETS as f64;
        assert!((found - pairs).abs() < 0.003, "{found} {pairs}");
    }

    /// 20 ms are 20 packets at a packet each millisecond. At one each second every packet finds another state.
    #[test]
    fn bursts_in_time_pass_without_packets() {
        let burst = Burst { share: 0.1, length: BurstLength::Time(Duration::from_millis(20)), bad: 1.0, good: 0.0 };
        let lost = losses(burst, Duration::from_millis(1));
        assert!((mean(&lost) - 0.1).abs() < 0.006, "{}", mean(&lost));
        assert!((mean_run(&lost) / 20.5 - 1.0).abs() < 0.06, "{}", mean_run(&lost));
        let lost = losses(burst, Duration::from_secs(1));
        assert!((mean(&lost) - 0.1).abs() < 0.002, "{}", mean(&lost));
        assert!((mean_run(&lost) - 1.0 / 0.9).abs() < 0.02, "{}", mean_run(&lost));
    }

    #[test]
    fn a_packet_after_a_pause_finds_the_state_that_many_would() {
        let burst = Burst { share: 0.1, length: BurstLength::Time(Duration::from_millis(1)), bad: 1.0, good: 0.0 };
        let every = losses(burst, Duration::from_millis(1));
        let mut sparse = Losses::new(Loss { burst: Some(burst), ..Loss::default() }, Random::from_seed(3));
        let pause = 20_011; // ms: two blocks
        let found = (0..PACKETS).step_by(pause).map(|n| {
            let at = Time::ZERO + Duration::from_millis(1) * n;
            (sparse.loses(at, Bytes::new(1000)), every[n as usize])
        });
        assert!(found.filter(|(alone, of_many)| alone != of_many).count() == 0);
    }

    /// The share of the losses of one direction at whose times the other one loses a packet, too.
    #[test]
    fn both_directions_share_bursts_in_time_alone() {
        let together = |length, is_shared: bool| {
            let loss = Loss { burst: Some(Burst { share: 0.1, length, bad: 1.0, good: 0.0 }), ..Loss::default() };
            let [mut forward, mut reverse] = [1, 2].map(|seed| Losses::new(loss, Random::from_seed(seed)));
            if is_shared {
                reverse.share_bursts(Random::from_seed(1));
            }
            let mut loses = |n| {
                let at = Time::ZERO + Duration::from_millis(1) * n;
                [&mut forward, &mut reverse].map(|direction| direction.loses(at, Bytes::new(1000)))
            };
            let lost: Vec<_> = (0..200_000).map(&mut loses).filter(|lost| lost[0]).collect();
            lost.iter().filter(|lost| lost[1]).count() as f64 / lost.len() as f64
        };
        let time = BurstLength::Time(Duration::from_millis(20));
        assert_eq!(together(time, true), 1.0);
        for (length, is_shared) in [(time, false), (BurstLength::Packets(20.0), true)] {
            let share = together(length, is_shared);
            assert!((share - 0.1).abs() < 0.03, "{length:?}: {share}");
        }
    }

    #[test]
    fn bursts_in_time_are_the_same_for_all_packets() {
        let burst = Burst { share: 0.2, length: BurstLength::Time(Duration::from_millis(20)), bad: 1.0, good: 0.0 };
        let (often, seldom) = (losses(burst, Duration::from_millis(1)), losses(burst, Duration::from_millis(7)));
        assert!(often.iter().step_by(7).zip(&seldom).all(|(one, other)| one == other));
    }
}
