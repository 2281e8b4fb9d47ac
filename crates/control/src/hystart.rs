//! `HyStart++` (RFC 9406): slow start ends when delays start to grow, before the queue is full.
//!
//! ```text
//! every round trip:  min: minimum round-trip time of its samples; last: that of the previous round trip
//! slow start:        after 8 samples, min >= last + clamp(last / 8, 4 ms, 16 ms):  conservative slow start
//! conservative:      a quarter of the growth; min below its first value:           back to slow start
//!                    after 5 round trips, including the one of its start:          congestion avoidance
//! ```
//!
//! It applies to the first slow start only, as section 4.3 recommends. Later ones end at the threshold after a loss.
//!
//! *Deviation*: an acknowledgement counts as at most one packet (`L` = 1), as in the slow start of all schemes here;
//! the RFC allows 8.

use rampmeter_units::Duration;

use crate::rules::{AckEvent, Rounds};

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
    /// `cssBaselineMinRtt`: the minimum round-trip time at its start.
    baseline: Duration,
    /// The number of round trips in it so far.
    rounds: u32,
}

/// The state of the first slow start.
#[derive(Debug, Clone, Default)]
pub(crate) struct HyStart {
    rounds: Rounds,
    /// `lastRoundMinRTT`: the minimum of the previous round trip.
    last_min_rtt: Option<Duration>,
    /// `currentRoundMinRTT`: the minimum of this round trip so far.
    min_rtt: Option<Duration>,
    samples: u32,
    conservative: Option<Conservative>,
}

impl HyStart {
    /// The increase by an acknowledgement, out of `step` packets, or `None` if slow start ends with it.
    pub(crate) fn slow_start(&mut self, event: &AckEvent<'_>, step: f64) -> Option<f64> {
        if self.rounds.ended(event).is_some() {
            (self.last_min_rtt, self.min_rtt, self.samples) = (self.min_rtt, None, 0);
            if let Some(conservative) = &mut self.conservative {
                conservative.rounds += 1;
                if conservative.rounds >= CSS_ROUNDS {
                    return None;
                }
            }
        }
        if let Some(rtt) = event.ack.rtt {
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |min_rtt| min_rtt.min(rtt)));
            self.samples += 1;
        }
        self.update_phase();
        Some(if self.conservative.is_some() { step / CSS_GROWTH_DIVISOR } else { step })
    }

    fn update_phase(&mut self) {
        let (Some(min_rtt), Some(last_min_rtt)) = (self.min_rtt, self.last_min_rtt) else { return };
        if self.samples < N_RTT_SAMPLE {
            return;
        }
        match self.conservative {
            None => {
                let threshold = (last_min_rtt / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if min_rtt >= last_min_rtt + threshold {
                    self.conservative = Some(Conservative { baseline: min_rtt, rounds: 0 });
                }
            }
            Some(conservative) if min_rtt < conservative.baseline => self.conservative = None,
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Time;

    use super::*;
    use crate::Ack;
    use crate::cubic::{Config, CubicRules};
    use crate::rules::tests::TestFlow;
    use crate::testing::{PACKET, ack};

    fn flow() -> TestFlow<CubicRules> {
        let config = Config { initial_window: 20, ..Config::default() };
        let mut flow = TestFlow::new(&config, Duration::from_millis(80));
        flow.round(); // the first acknowledgement ends a round trip without samples
        flow.round();
        flow
    }

    #[test]
    fn eight_samples_end_slow_start_and_eight_shorter_resume_it() {
        let mut hystart = HyStart::default();
        let mut now = Time::ZERO + Duration::from_millis(80);
        // The increases of the acknowledgements of a round trip, one a millisecond.
        let mut round = |millis: u64| {
            now += Duration::from_millis(100);
            let rtt = Some(Duration::from_millis(millis));
            let increases = [(); 9].map(|()| {
                now += Duration::from_millis(1);
                let ack = Ack { rtt, ..ack(1) };
                let (window_bytes, packet) = (PACKET * 20, PACKET);
                hystart
                    .slow_start(&AckEvent { now, ack: &ack, window: 20.0, delivered: 1.0, window_bytes, packet }, 1.0)
            });
            increases.map(Option::unwrap)
        };
        assert_eq!(round(80), [1.0; 9]);
        assert_eq!(round(80), [1.0; 9]);
        assert_eq!(round(91), [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.25, 0.25]);
        assert_eq!(round(91), [0.25; 9], "not shorter than at its start");
        assert_eq!(round(90), [0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 1.0, 1.0]);
    }

    fn growth(flow: &mut TestFlow<CubicRules>) -> f64 {
        flow.round(); // this round trip provides the samples
        let before = flow.window();
        flow.round() / before
    }

    #[test]
    fn slow_start_doubles_while_delays_are_flat() {
        let mut flow = flow();
        flow.rtt = Duration::from_millis(89); // an increase of 80 / 8 = 10 ms would end it
        assert!((growth(&mut flow) - 1.0).abs() < 0.05);
    }

    #[test]
    fn delays_that_grow_by_an_eighth_reduce_growth_to_a_quarter() {
        let mut flow = flow();
        flow.rtt = Duration::from_millis(91);
        let grown = growth(&mut flow);
        assert!((grown - 0.25).abs() < 0.05, "{grown}");
    }

    #[test]
    fn slow_start_ends_five_round_trips_after_delays_grow() {
        let mut flow = flow();
        flow.rtt = Duration::from_millis(91);
        let rounds = (1..20).find(|_| {
            flow.round();
            !flow.in_slow_start()
        });
        // One round trip for samples of the longer delay, and five more, of which the first and last may be partial.
        assert!(matches!(rounds, Some(5..=7)), "{rounds:?}");
    }

    #[test]
    fn a_temporary_delay_resumes_slow_start() {
        let mut flow = flow();
        flow.rtt = Duration::from_millis(91);
        flow.round();
        flow.rtt = Duration::from_millis(80);
        let grown = growth(&mut flow);
        assert!((grown - 1.0).abs() < 0.05, "{grown}");
    }
}
