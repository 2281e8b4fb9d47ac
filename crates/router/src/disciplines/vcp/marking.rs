//! Probabilistic marking in overload (VCP section VI-C).
//!
//! TCP reads `11` as loss; if every packet of an overloaded interval carried it, all TCP flows would halve at once. So
//! the router replaces "the original deterministic ECN marking with a probabilistic one similar to RED" (Floyd and
//! Jacobson 1993, section IV), with the load factor, which includes the queue, in the place of RED's average queue.
//! Packets that are not selected carry the code of high load.
//!
//! ```text
//! p_b = max_p (rho - 1) / (rho_all - 1)        1 <= rho < rho_all;   all packets are marked beyond
//! p_a = p_b / (1 - n p_b)                      n: packets since the last mark, for evenly spaced marks
//! ```

use rampmeter_units::{LoadRegion, Random};

/// `max_p`: the probability just below `ALL_FROM` (1/50 in Floyd and Jacobson 1993).
const MAX: f64 = 0.02;

/// `rho_all`: the load factor from which every packet is marked (RED's `max_th`).
const ALL_FROM: f64 = 1.2;

#[derive(Debug)]
pub(super) struct Probabilistic {
    /// `n`
    unmarked: u64,
    random: Random,
}

impl Probabilistic {
    pub(super) fn new(random: Random) -> Self {
        Self { unmarked: 0, random }
    }

    /// The region to write into the next packet at a load factor of `factor`, 1 or more.
    pub(super) fn region(&mut self, factor: f64) -> LoadRegion {
        if self.chooses(factor) { LoadRegion::Over } else { LoadRegion::High }
    }

    fn chooses(&mut self, factor: f64) -> bool {
        let chosen = factor >= ALL_FROM || {
            let base = MAX * (factor - 1.0) / (ALL_FROM - 1.0);
            let remaining = 1.0 - self.unmarked as f64 * base;
            remaining <= base || self.random.chance(base / remaining)
        };
        self.unmarked = if chosen { 0 } else { self.unmarked + 1 };
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(factor: f64) -> Vec<u64> {
        let mut marking = Probabilistic::new(Random::from_seed(3));
        let (mut gaps, mut gap) = (Vec::new(), 0);
        for _ in 0..100_000 {
            gap += 1;
            if marking.chooses(factor) {
                gaps.push(gap);
                gap = 0;
            }
        }
        gaps
    }

    // p_b = 0.02 * 0.1 / 0.2 = 1%. RED spaces marks uniformly from 1 to 1 / p_b packets: 50.5 on average.
    #[test]
    fn gaps_between_marks_are_uniform_up_to_one_over_p() {
        let gaps = gaps(1.1);
        assert!(gaps.iter().all(|gap| (1..=100).contains(gap)));
        let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
        assert!((48.0..53.0).contains(&mean), "{mean}");
    }

    #[test]
    fn no_packet_is_marked_at_load_1_and_all_from_rho_all() {
        assert!(gaps(1.0).is_empty());
        assert_eq!(gaps(1.2).len(), 100_000);
        assert_eq!(gaps(f64::INFINITY).len(), 100_000);
    }
}
