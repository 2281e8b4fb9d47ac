//! Tit for tat: a queue that does not shrink although the flow cuts its rate is TCP's; cuts are divided by ten (section
//! 3.5).
//!
//! Once per round trip the queue is compared with the queue one round trip before. A round trip is ineffective if the
//! rate was cut in it and the queue is no shorter. After several ineffective round trips in a row, and until the queue
//! shrinks, cuts are divided by ten.

use rampmeter_units::{Duration, Time};

use super::config::TIT_FOR_TAT;

/// The number of consecutive ineffective round trips from which the queue counts as TCP's: the paper's "several".
const SEVERAL: u32 = 4;

#[derive(Debug, Clone, Default)]
pub(super) struct TitForTat {
    /// The end of the current round trip.
    until: Time,
    /// The queue at the end of the last round trip, in nanoseconds.
    queue: f64,
    /// Consecutive ineffective round trips.
    ineffective: u32,
}

impl TitForTat {
    /// The divisor of a cut, given the queue and the share of the rate that was cut in the last round trip.
    pub(super) fn divisor(&mut self, now: Time, rtt: Duration, queue: f64, cut: f64) -> f64 {
        if now >= self.until {
            let ineffective = cut > 0.0 && queue > 0.0 && queue >= self.queue;
            self.ineffective = if ineffective { self.ineffective.saturating_add(1) } else { 0 };
            (self.queue, self.until) = (queue, now + rtt);
        }
        if self.ineffective >= SEVERAL { TIT_FOR_TAT } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    /// The divisors of round trips with these queues, in each of which `cut` was cut.
    fn divisors(queues: &[f64], cut: f64) -> Vec<f64> {
        let mut tit_for_tat = TitForTat::default();
        let rounds = (1..).zip(queues);
        rounds.map(|(n, queue)| tit_for_tat.divisor(Time::ZERO + RTT * n, RTT, *queue, cut)).collect()
    }

    #[test]
    fn cuts_without_effect_are_divided_until_the_queue_shrinks() {
        assert_eq!(divisors(&[5.0, 6.0, 7.0, 8.0, 9.0, 8.0], 0.1), [1.0, 1.0, 1.0, 10.0, 10.0, 1.0]);
    }

    #[test]
    fn a_round_trip_counts_once() {
        let mut tit_for_tat = TitForTat::default();
        let divided = (1..200).find(|n| {
            let now = Time::ZERO + Duration::from_millis(*n);
            tit_for_tat.divisor(now, RTT, 5.0, 0.1) > 1.0
        });
        assert_eq!(divided, Some(61), "the fourth round trip of 20 ms");
    }
}
