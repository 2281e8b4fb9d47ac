//! `HyStart++` (RFC 9406): slow start ends when delays start to grow, before the queue is full. It also ends when a
//! single window builds a queue, which is an addition here.
//!
//! ```text
//! every round trip:  min: minimum round-trip time of its samples; last: that of the previous round trip
//! slow start:        after 8 samples, min >= last + clamp(last / 8, 4 ms, 16 ms):  conservative slow start
//! conservative:      a quarter of the growth; min below its first value:           back to slow start
//!                    after 5 round trips, including the one of its start:          congestion avoidance
//! both:              8 packets in a row were delayed by max(min_rtt / 4, 4 ms)
//!                    longer than the first 8 of their round trip:                  congestion avoidance
//! ```
//!
//! *The queue of one window.* Slow start sends twice as fast as the bottleneck delivers, so that half of a window waits
//! there when its last packet arrives. A wait of a quarter of a round trip is a window of half of the bandwidth-delay
//! product, and until that is known another half has been added: the window is between 0.5 and 1.5 times the product,
//! and a buffer of half a round trip has room for it. The rules of the RFC compare the first packets of each round trip,
//! which find a queue only if the window before exceeded the path. `HyStart` (Ha and Rhee, 2011) and Linux measure the
//! same by a train of acknowledgements that lasts half of a round trip; but jitter lengthens trains, and a sender that
//! spaces its packets has them always.
//!
//! It applies to the first slow start only, as section 4.3 recommends. Later ones end at the threshold after a loss.
//!
//! *Deviations*: the queue of one window. An acknowledgement counts as at most one packet (`L` = 1), as in the slow start
//! of all schemes here without `byte_counting` but `prague`; the RFC allows 8.

use rampmeter_units::Duration;

use crate::parts::events::{AckEvent, Rounds};
use crate::parts::window::Amount;

// Section 4.3, the recommended values.
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u64 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: f64 = 4.0;
const CSS_ROUNDS: u32 = 5;

// The wait that shows that a window fills half of the path. Short paths have the RFC's minimum, as hosts delay packets
// by milliseconds too.
const MAX_WAIT_DIVISOR: u64 = 4;

/// Conservative slow start.
#[derive(Debug, Clone, Copy)]
struct Conservative {
    /// `cssBaselineMinRtt`: the minimum round-trip time at its start.
    baseline: Duration,
    /// The number of round trips in it so far.
    rounds: u32,
}

/// One-way delays of the packets of a round trip, in groups of eight. Each group counts with its minimum, so that a few
/// late packets are no queue.
#[derive(Debug, Clone, Default)]
struct Groups {
    /// The minimum of the first group, in nanoseconds with the offset between the two clocks.
    first: Option<i64>,
    /// The minimum of the current group.
    current: Option<i64>,
    packets: u32,
}

impl Groups {
    /// Adds a packet. How much longer its group was delayed than the first one, if the group is complete.
    fn add(&mut self, delay: i64) -> Option<Duration> {
        let minimum = self.current.map_or(delay, |current| current.min(delay));
        self.current = Some(minimum);
        self.packets += 1;
        if self.packets < N_RTT_SAMPLE {
            return None;
        }
        (self.current, self.packets) = (None, 0);
        let first = *self.first.get_or_insert(minimum);
        Some(Duration::from_nanos(u64::try_from(minimum.wrapping_sub(first)).unwrap_or(0)))
    }
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
    groups: Groups,
}

impl HyStart {
    pub(crate) fn is_conservative(&self) -> bool {
        self.conservative.is_some()
    }

    /// The increase by an acknowledgement, out of `step`, or `None` if slow start ends with it.
    pub(crate) fn slow_start(&mut self, event: &AckEvent<'_>, step: Amount) -> Option<Amount> {
        if self.rounds.ended(event).is_some() {
            (self.last_min_rtt, self.min_rtt, self.samples) = (self.min_rtt, None, 0);
            self.groups = Groups::default();
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
        let max_wait = (event.ack.min_rtt / MAX_WAIT_DIVISOR).max(MIN_RTT_THRESH);
        let mut waits = event.ack.arrivals.iter().filter_map(|arrival| self.groups.add(arrival.one_way_delay()));
        if waits.any(|wait| wait >= max_wait) {
            return None;
        }
        Some(if self.conservative.is_some() { step.scale(1.0 / CSS_GROWTH_DIVISOR) } else { step })
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
    use crate::cubic::{Config, CubicRules};
    use crate::rules::tests::TestFlow;
    use crate::testing::{PACKET, ack};
    use crate::{Ack, Arrival};

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
                let event = AckEvent { now, ack: &ack, window: 20.0, delivered: 1.0, window_bytes, packet };
                hystart.slow_start(&event, 1.0.into())
            });
            increases.map(|increase| match increase {
                Some(Amount::Packets(packets)) => packets,
                other => panic!("{other:?}"),
            })
        };
        assert_eq!(round(80), [1.0; 9]);
        assert_eq!(round(80), [1.0; 9]);
        assert_eq!(round(91), [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.25, 0.25]);
        assert_eq!(round(91), [0.25; 9], "not shorter than at its start");
        assert_eq!(round(90), [0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 1.0, 1.0]);
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

    /// How many packets of a window that is sent at once have arrived when slow start ends.
    fn end_of_window(rtt_millis: u64, delay_micros: impl Fn(u64) -> u64) -> Option<u64> {
        let mut hystart = HyStart::default();
        let rtt = Duration::from_millis(rtt_millis);
        (1..=64).find(|&number| {
            let sent_at = Time::ZERO + Duration::from_secs(1);
            let received_at = sent_at + rtt / 2 + Duration::from_micros(delay_micros(number - 1));
            let arrivals = [Arrival { number, bytes: PACKET, sent_at, received_at, ..Arrival::default() }];
            let ack = Ack { rtt: Some(rtt), min_rtt: rtt, arrivals: &arrivals, ..ack(1) };
            let (now, window_bytes, packet) = (received_at + rtt / 2, PACKET * 20, PACKET);
            let event = AckEvent { now, ack: &ack, window: 20.0, delivered: 1.0, window_bytes, packet };
            hystart.slow_start(&event, 1.0.into()).is_none()
        })
    }

    #[test]
    fn the_queue_of_one_window_ends_slow_start() {
        // The fourth group of eight packets has waited 12 ms to 15.5 ms.
        assert_eq!(end_of_window(40, |packet| packet * 500), Some(32));
        assert_eq!(end_of_window(48, |packet| packet * 500), Some(32), "12 ms are a quarter");
        assert_eq!(end_of_window(49, |packet| packet * 500), Some(40));
        assert_eq!(end_of_window(8, |packet| packet * 500), Some(16), "4 ms, not a quarter of 8 ms");
    }

    #[test]
    fn late_packets_among_others_are_no_queue() {
        assert_eq!(end_of_window(40, |packet| if packet % 8 == 7 { 0 } else { 30_000 }), None);
        assert_eq!(end_of_window(40, |packet| (64 - packet) * 500), None, "a queue that becomes shorter");
        assert_eq!(end_of_window(40, |_| 30_000), None, "other traffic's queue, which the first packets find too");
    }
}
