//! Random loss, independent of queues: of single packets, of bits, and in bursts.
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
//! that pauses during a burst finds it unchanged; the second one models fading, which passes by itself. The state of the
//! next packet follows from the state of the last one, with all changes in between:
//!
//! ```text
//!   P(bad) = share + (1 or 0 - share) decay     decay = 1 - p - r, or exp(-(p + r) t)     p + r = 1 / (length (1 - share))
//! ```

use rampmeter_units::{Bytes, Duration, Stream, Time};
use serde::{Deserialize, Serialize};

/// Random losses, independent of queues.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Loss {
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
    /// The probability that a packet of `bytes` is lost, except in bursts.
    pub fn of_packet(self, bytes: Bytes) -> f64 {
        if self.per_bit == 0.0 {
            return self.per_packet;
        }
        // P(lost) = 1 - (1 - p) (1 - b)^bits
        1.0 - (1.0 - self.per_packet) * (bytes.as_f64() * 8.0 * (-self.per_bit).ln_1p()).exp()
    }
}

impl Burst {
    /// The mean loss.
    pub fn mean(self) -> f64 {
        (1.0 - self.share) * self.good + self.share * self.bad
    }

    fn decay(self, passed: Duration) -> f64 {
        match self.length {
            BurstLength::Packets(packets) => 1.0 - 1.0 / (packets * (1.0 - self.share)),
            BurstLength::Time(length) => libm::exp(-passed.as_secs_f64() / (length.as_secs_f64() * (1.0 - self.share))),
        }
    }
}

/// A [`Loss`] with its random stream.
#[derive(Debug)]
pub(crate) struct Losses {
    loss: Loss,
    random: Stream,
    /// The state that the last packet found and its time; none before the first packet.
    last: Option<(bool, Time)>,
}

impl Losses {
    pub(crate) fn new(loss: Loss, random: Stream) -> Self {
        Self { loss, random, last: None }
    }

    /// Whether the packet of `bytes` that arrives `at` is lost.
    pub(crate) fn loses(&mut self, at: Time, bytes: Bytes) -> bool {
        let in_burst = self.loss.burst.is_some_and(|burst| self.meets(burst, at));
        self.random.chance(self.loss.of_packet(bytes)) || in_burst
    }

    fn meets(&mut self, burst: Burst, at: Time) -> bool {
        let share = burst.share;
        let chance = self
            .last
            .map_or(share, |(was_bad, last)| share + (f64::from(was_bad) - share) * burst.decay(at.since(last)));
        let is_bad = self.random.chance(chance);
        self.last = Some((is_bad, at));
        self.random.chance(if is_bad { burst.bad } else { burst.good })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKETS: u64 = 1_000_000;

    /// Which of packets with this distance are lost.
    fn losses(burst: Burst, gap: Duration) -> Vec<bool> {
        let mut losses = Losses::new(Loss { burst: Some(burst), ..Loss::default() }, Stream::from_seed(3));
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

    #[test]
    fn losses_by_packet_and_by_bit_are_independent() {
        // Each alone loses a tenth of packets of 1000 bytes.
        let loss = Loss { per_packet: 0.1, per_bit: 1.317e-5, burst: None };
        assert!((loss.of_packet(Bytes::new(1000)) - 0.19).abs() < 1e-4);
        let burst = Burst { share: 0.2, length: BurstLength::Packets(10.0), bad: 0.5, good: 0.01 };
        assert!((burst.mean() - (0.8 * 0.01 + 0.2 * 0.5)).abs() < 1e-12);
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
}
