//! Tit for tat: a queue that does not shrink although we make room is TCP's; compensate ten times less (section 3.5).
//!
//! Once a round trip the queue is compared with the one before. Compensation that was made and left the queue no
//! shorter was ineffective; after several such round trips in a row, and until the queue shrinks again, cuts are
//! divided by ten.

use rampmeter_units::{Duration, Time};

use super::Config;

#[derive(Debug, Clone, Default)]
pub(super) struct TitForTat {
    /// End of the round trip that is being watched.
    until: Time,
    queue: Duration,
    ineffective: u32,
}

impl TitForTat {
    /// What to divide compensation by, given the queue of the last round trip and how much was cut in it.
    pub(super) fn ease(&mut self, config: &Config, now: Time, rtt: Duration, queue: Duration, cut: f64) -> f64 {
        if now >= self.until {
            let in_vain = cut > 0.0 && queue > Duration::ZERO && queue >= self.queue;
            self.ineffective = if in_vain { self.ineffective.saturating_add(1) } else { 0 };
            (self.queue, self.until) = (queue, now + rtt);
        }
        if self.ineffective >= config.tit_for_tat_after { config.tit_for_tat_divisor } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compensation_without_effect_is_divided_by_ten_until_the_queue_shrinks() {
        let (config, rtt) = (Config::default(), Duration::from_millis(20));
        let mut tit = TitForTat::default();
        let mut ease = |n: u64, queue| tit.ease(&config, Time::ZERO + rtt * n, rtt, Duration::from_millis(queue), 0.1);
        let eased: Vec<f64> = (1..=6).map(|n| ease(n, 5 + n)).collect();
        assert_eq!(eased, [1.0, 1.0, 1.0, 10.0, 10.0, 10.0]);
        assert_eq!(ease(7, 9), 1.0);
    }

    #[test]
    fn a_queue_that_nobody_cut_for_is_not_held_against_anyone() {
        let (config, rtt) = (Config::default(), Duration::from_millis(20));
        let mut tit = TitForTat::default();
        for n in 1..20 {
            assert_eq!(tit.ease(&config, Time::ZERO + rtt * n, rtt, rtt, 0.0), 1.0);
        }
    }
}
