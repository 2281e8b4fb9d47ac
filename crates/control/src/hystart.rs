//! `HyStart++` (RFC 9406): slow start that ends where delays begin to grow, before the queue is full.
//!
//! ```text
//! every round trip:  the least round-trip time of its samples, and that of the round trip before
//! slow start:        after 8 samples, least >= last + clamp(last / 8, 4 ms, 16 ms):  conservative slow start
//! conservative:      a quarter as fast; least below what it was when it began:       back to slow start
//!                    after 5 round trips, that in which it began included:           congestion avoidance
//! ```
//!
//! It is for the first slow start only, as section 4.3 advises: later ones end at the threshold that a loss has set.
//!
//! *Deviation*: an acknowledgement counts for one packet at most (`L` = 1), as in the slow start of all schemes here; the
//! RFC allows 8.

use rampmeter_units::Duration;

use crate::rules::{Rounds, Seen};

// Section 4.3, the recommended values.
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u64 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: f64 = 4.0;
const CSS_ROUNDS: u32 = 5;

/// Conservative slow start.
#[derive(Debug, Clone, Copy)]
struct Conservative {
    /// The least round-trip time when it began; `cssBaselineMinRtt`.
    baseline: Duration,
    /// Round trips in it so far.
    rounds: u32,
}

/// The state of the first slow start.
#[derive(Debug, Clone, Default)]
pub(crate) struct HyStart {
    rounds: Rounds,
    /// Least of the round trip before; `lastRoundMinRTT`.
    last: Option<Duration>,
    /// Least of this round trip so far; `currentRoundMinRTT`.
    least: Option<Duration>,
    samples: u32,
    conservative: Option<Conservative>,
}

impl HyStart {
    /// How much of `step` packets an acknowledgement adds, or `None` if slow start ends with it.
    pub(crate) fn slow_start(&mut self, seen: &Seen<'_>, step: f64) -> Option<f64> {
        if self.rounds.ended(seen).is_some() {
            (self.last, self.least, self.samples) = (self.least, None, 0);
            if let Some(conservative) = &mut self.conservative {
                conservative.rounds += 1;
                if conservative.rounds >= CSS_ROUNDS {
                    return None;
                }
            }
        }
        if let Some(rtt) = seen.ack.rtt {
            self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
            self.samples += 1;
        }
        self.judge();
        Some(if self.conservative.is_some() { step / CSS_GROWTH_DIVISOR } else { step })
    }

    fn judge(&mut self) {
        let (Some(least), Some(last)) = (self.least, self.last) else { return };
        if self.samples < N_RTT_SAMPLE {
            return;
        }
        match self.conservative {
            None => {
                let threshold = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if least >= last + threshold {
                    self.conservative = Some(Conservative { baseline: least, rounds: 0 });
                }
            }
            Some(conservative) if least < conservative.baseline => self.conservative = None,
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cubic::{Config, CubicRules};
    use crate::rules::tests::Flow;

    fn flow() -> Flow<CubicRules> {
        let config = Config { hystart: true, initial_window: 20, ..Config::default() };
        let mut flow = Flow::new(&config, Duration::from_millis(80));
        flow.round(); // the first acknowledgement ends a round trip without samples
        flow.round();
        flow
    }

    fn growth(flow: &mut Flow<CubicRules>) -> f64 {
        flow.round(); // the samples of this one
        let before = flow.window();
        flow.round() / before
    }

    #[test]
    fn slow_start_doubles_while_delays_are_flat() {
        let mut flow = flow();
        flow.rtt = Duration::from_millis(89); // 80 / 8 = 10 ms would be too much
        assert!((growth(&mut flow) - 1.0).abs() < 0.05);
    }

    #[test]
    fn delays_that_grow_by_an_eighth_make_it_four_times_slower() {
        let mut flow = flow();
        flow.rtt = Duration::from_millis(91);
        let grown = growth(&mut flow);
        assert!((grown - 0.25).abs() < 0.05, "{grown}");
    }

    #[test]
    fn five_round_trips_later_slow_start_is_over() {
        let mut flow = flow();
        flow.rtt = Duration::from_millis(91);
        let rounds = (1..20).find(|_| {
            flow.round();
            !flow.in_slow_start()
        });
        // One for samples of the longer delay, and five, of which the first and the last may be a part.
        assert!(matches!(rounds, Some(5..=7)), "{rounds:?}");
    }

    #[test]
    fn a_delay_that_was_chance_resumes_slow_start() {
        let mut flow = flow();
        flow.rtt = Duration::from_millis(91);
        flow.round();
        flow.rtt = Duration::from_millis(80);
        let grown = growth(&mut flow);
        assert!((grown - 1.0).abs() < 0.05, "{grown}");
    }
}
