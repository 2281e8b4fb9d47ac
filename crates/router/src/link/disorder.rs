//! What paths do to the order and the number of packets: delays that vary, packets that overtake others, duplicates.
//!
//! ```text
//! arrival = end of transmission + propagation delay + jitter + (for some packets) the delay of reordering
//! ```
//!
//! The jitter of a packet is uniform between zero and its maximum and independent of other packets, so packets overtake
//! each other, as on parallel paths, unless `in_order` holds a packet back until those before it have arrived, as link
//! layers do that repeat lost frames. A duplicate has a jitter of its own.

use rampmeter_units::{Duration, Random, Time};
use serde::{Deserialize, Serialize};

/// Additional delays that vary from packet to packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Jitter {
    /// The maximum additional delay.
    pub max: Duration,
    /// Whether packets keep their order.
    pub in_order: bool,
}

/// Some packets are later than others.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Reordering {
    /// The share of these packets.
    pub share: f64,
    /// How much later they arrive.
    pub delay: Duration,
}

/// What a link does to the order and the number of packets.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Disorder {
    /// Variable delays.
    pub jitter: Jitter,
    /// Late packets.
    pub reordering: Reordering,
    /// The share of packets that arrive twice.
    pub duplication: f64,
}

/// A [`Disorder`] with its random streams, one for each purpose.
#[derive(Debug)]
pub(crate) struct Disordering {
    disorder: Disorder,
    jitter: Random,
    reordering: Random,
    duplication: Random,
    /// The arrival of the last packet that keeps its place.
    last: Time,
}

impl Disordering {
    pub(crate) fn new(disorder: Disorder, mut stream: impl FnMut(&str) -> Random) -> Self {
        let [jitter, reordering, duplication] = ["jitter", "reordering", "duplication"].map(&mut stream);
        Self { disorder, jitter, reordering, duplication, last: Time::ZERO }
    }

    /// When a packet arrives that would arrive `at` without disorder.
    pub(crate) fn arrival(&mut self, at: Time) -> Time {
        let Disorder { jitter, reordering, .. } = self.disorder;
        let mut at = at + jitter.max.scale(self.jitter.uniform());
        if jitter.in_order {
            at = at.max(self.last);
            self.last = at;
        }
        if self.reordering.chance(reordering.share) { at + reordering.delay } else { at }
    }

    /// Whether the next packet arrives twice.
    pub(crate) fn duplicates(&mut self) -> bool {
        self.duplication.chance(self.disorder.duplication)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(disorder: Disorder) -> Vec<u64> {
        let mut disordering = Disordering::new(disorder, |purpose| Random::from_seed(purpose.len() as u64));
        let ms = |n: u64| Time::ZERO + Duration::from_millis(n);
        (0..10_000).map(|n| disordering.arrival(ms(n)).since(ms(n)).as_nanos()).collect()
    }

    #[test]
    fn jitter_is_uniform_up_to_its_maximum() {
        let max = Duration::from_millis(5);
        let delays = arrivals(Disorder { jitter: Jitter { max, in_order: false }, ..Disorder::default() });
        assert!(delays.iter().all(|delay| *delay < max.as_nanos()));
        let mean = delays.iter().sum::<u64>() / 10_000;
        assert!((2_450_000..2_550_000).contains(&mean), "{mean}");
    }

    #[test]
    fn packets_with_jitter_in_order_do_not_overtake() {
        let jitter = Jitter { max: Duration::from_millis(5), in_order: true };
        let delays = arrivals(Disorder { jitter, ..Disorder::default() });
        let overtakes = |pair: &[u64]| pair[1] + 1_000_000 < pair[0];
        assert!(!delays.windows(2).any(overtakes));
        assert!(delays.iter().all(|delay| *delay < 5_000_000));
    }

    #[test]
    fn the_given_share_is_late_by_the_given_delay() {
        let reordering = Reordering { share: 0.1, delay: Duration::from_millis(3) };
        let delays = arrivals(Disorder { reordering, ..Disorder::default() });
        let late = delays.iter().filter(|delay| **delay == 3_000_000).count();
        assert!((900..1100).contains(&late), "{late}");
        assert_eq!(delays.iter().filter(|delay| **delay == 0).count() + late, 10_000);
    }
}
