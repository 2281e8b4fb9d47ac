//! Common drains: at the same moments all flows send less for a short time, if a queue stands.
//!
//! ```text
//! moments   multiples of `drain_every` of the clock, a power of two of it where that is less than 10 round trips
//! from      a quarter of a round trip before the moment: it reaches the bottleneck, wherever that is, at most so much
//!           before or after the moment
//! for       0.04 of the interval, or half of the wait if that is longer, but at most a quarter of the interval
//! at        a quarter of the rate
//! ```
//!
//! The queue then falls at the rate that was taken away, which shows what the other flows are: if the share `all` of the
//! link's traffic drains, a packet that leaves `t` seconds later waits `min(before, 0.75 all t)` less. The share whose
//! waits are nearest to the measured ones (least squares) drained. For a flow of window `W`:
//!
//! ```text
//! s      = W / (C (R + before))     its share of the link
//! others = (all - s) / (1 - s)      the share of the others' traffic that drained, from 0 to 1
//! ```
//!
//! Beside CUBIC or BBR `others` is about 0, and among PCP flows 0.6 to 1. A drain also empties the queue, so flows that
//! joined while it stood see the path's own delay. If delays stop falling above the known minimum, the path has become
//! longer by the rest.
//!
//! A flow of few packets sends one late in the drain, at a random time, so that it sees the queue fall.

use rampmeter_units::{Duration, Time};

/// A drain begins so many round trips before its moment. If flows began at the moment itself, those with long round trips
/// would come when others had ended, and take them for competing traffic.
const EARLY: f64 = 0.25;

/// The share of its rate that a flow keeps while it drains.
const DRAIN_SHARE: f64 = 0.25;

/// The length of a drain, as a share of the interval between drains.
const DRAIN_LENGTH: f64 = 0.04;

/// The interval between drains is at least so many round trips.
const DRAIN_ROUNDS: f64 = 10.0;

/// A flow of few packets sends one after this part of a drain or later, by chance: many such flows would build a queue.
const FIRST_LATE: f64 = 0.4;

/// Delays that stop falling before this part of a drain have reached the path's own.
const FLOOR: f64 = 0.7;

/// The others have at least this share of the link, so that the error of a drain is not multiplied without limit.
const MIN_OTHERS: f64 = 0.1;

/// A new lowest wait is lower by this share of the wait before.
const STEP: f64 = 0.05;

/// The shares of the link that may have drained: -0.5, -0.4, ..., 1.5. Those below 0 and above 1 are due to chance.
const SHARES: usize = 21;

/// A drain that goes on, or whose packets have not all arrived. Times and waits are in seconds.
#[derive(Debug, Clone, Copy)]
struct Current {
    from: f64,
    until: f64,
    /// A packet is sent then at the latest.
    late: f64,
    /// When its packets have arrived.
    arrived_by: Time,
    /// The mean wait of packets that left shortly before it, and their number.
    before: f64,
    packets: f64,
    /// The window before it.
    window: f64,
    /// The lowest wait, and when its packet left.
    lowest: (f64, f64),
    /// For each share that may have drained, the sum of the squares of its errors.
    errors: [f64; SHARES],
}

/// What a drain showed. Times are in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Outcome {
    /// The share of the other flows' traffic that drained, from 0 to 1.
    pub(super) others: f64,
    /// This flow's share of the link.
    pub(super) share: f64,
    /// The wait before the drain, and the lowest one in it.
    pub(super) before: f64,
    pub(super) lowest: f64,
    /// The lowest wait was reached before the end.
    pub(super) is_floor: bool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Drain {
    /// The number of the last moment.
    moment: Option<u64>,
    current: Option<Current>,
    /// What the last drain showed that showed anything, for traces.
    pub(super) last: Option<Outcome>,
}

impl Drain {
    /// Whether a drain goes on, or its packets are still to arrive.
    pub(super) fn is_on(&self) -> bool {
        self.current.is_some()
    }

    /// Whether a moment to drain has come since the last call.
    pub(super) fn is_due(&mut self, now: Time, every: Duration, min_rtt: f64) -> bool {
        let interval = interval(every, min_rtt);
        let now = now.as_secs_f64() + EARLY * min_rtt;
        let moment = (now / interval) as u64;
        let is_new = self.moment.replace(moment).is_some_and(|last| last != moment);
        // Without a packet or an acknowledgement at that time, it is missed.
        is_new && now < (moment as f64 + DRAIN_LENGTH) * interval
    }

    /// Begins the drain of the last moment; `chance` is a random number from 0 to 1.
    pub(super) fn begin(&mut self, every: Duration, min_rtt: f64, rtt: f64, before: f64, window: f64, chance: f64) {
        let interval = interval(every, min_rtt);
        let from = self.moment.unwrap_or(0) as f64 * interval - EARLY * min_rtt;
        let until = from + (DRAIN_LENGTH * interval).max(before / 2.0).min(interval / 4.0);
        // Flows begin and end at different times, by up to a round trip. Until all send as before, the path seems idle.
        let arrived_by = Time::ZERO + Duration::from_secs_f64(until + 1.5 * rtt + (until - from));
        let (lowest, errors) = ((before, from), [0.0; SHARES]);
        let late = from + (FIRST_LATE + (1.0 - FIRST_LATE) * chance) * (until - from);
        self.current = Some(Current { from, until, late, arrived_by, before, packets: 0.0, window, lowest, errors });
    }

    /// The share of its rate that a flow may use now.
    pub(super) fn share(&self, now: Time) -> f64 {
        let is_draining = self.current.is_some_and(|current| now.as_secs_f64() < current.until);
        if is_draining { DRAIN_SHARE } else { 1.0 }
    }

    /// When a packet is to leave at the latest, if the last one left at `last`.
    pub(super) fn late_packet_at(&self, now: Time, last: Time) -> Option<Time> {
        let current = self.current.filter(|current| now.as_secs_f64() < current.until)?;
        let at = Time::ZERO + Duration::from_secs_f64(current.late);
        Some(at).filter(|at| last < *at)
    }

    /// A packet that left at `sent_at` waited so long.
    pub(super) fn on_packet(&mut self, sent_at: f64, wait: f64) {
        let Some(current) = &mut self.current else { return };
        let part = (sent_at - current.from) / (current.until - current.from);
        if (-1.0..0.0).contains(&part) {
            current.packets += 1.0;
            current.before += (wait - current.before) / current.packets;
        } else if (0.0..=1.0).contains(&part) {
            for (error, share) in current.errors.iter_mut().zip(shares()) {
                *error += (current.before - fall(share, sent_at - current.from, current.before) - wait).powi(2);
            }
            if wait < current.lowest.0 - STEP * current.before {
                current.lowest = (wait, sent_at);
            }
        }
    }

    /// The path is shorter by so many seconds than the waits so far assumed.
    pub(super) fn rebase(&mut self, by: f64) {
        if let Some(current) = &mut self.current {
            current.before += by;
            current.lowest.0 += by;
        }
    }

    /// Something else delays packets now.
    pub(super) fn cancel(&mut self) {
        self.current = None;
    }

    /// What the drain showed, once its packets have arrived, on a path of `capacity` packets a second. `None` without a
    /// queue or without packets.
    pub(super) fn conclude(&mut self, now: Time, capacity: f64, min_rtt: f64) -> Option<Outcome> {
        let current = self.current.take_if(|current| now >= current.arrived_by)?;
        let (before, length) = (current.before, current.until - current.from);
        let (lowest, at) = current.lowest;
        let share = current.window / (capacity * (min_rtt + before));
        let others = (nearest_share(&current.errors)? - share) / (1.0 - share).max(MIN_OTHERS);
        let is_floor = lowest < before && at - current.from < FLOOR * length;
        let outcome = Outcome { others: others.clamp(0.0, 1.0), share, before, lowest, is_floor };
        let shown = (others.is_finite() && before > 0.0).then_some(outcome);
        self.last = shown.or(self.last);
        shown
    }
}

/// By how much a queue of `before` seconds falls in `time` seconds in which this share of the link's traffic drains.
fn fall(share: f64, time: f64, before: f64) -> f64 {
    (share * (1.0 - DRAIN_SHARE) * time).min(before)
}

fn shares() -> impl Iterator<Item = f64> {
    (0..SHARES).map(|tenth| tenth as f64 / 10.0 - 0.5)
}

/// The share with the least error, the mean of several such, or `None` if all are.
fn nearest_share(errors: &[f64; SHARES]) -> Option<f64> {
    let least = errors.iter().copied().fold(f64::INFINITY, f64::min);
    let nearest = || shares().zip(errors).filter(|(_, error)| **error <= least * (1.0 + 1e-9)).map(|(share, _)| share);
    let number = nearest().count();
    (number < SHARES).then(|| nearest().sum::<f64>() / number as f64)
}

/// The time between two drains, in seconds: a power of two times `every`, so that flows with different round trips have
/// common moments.
fn interval(every: Duration, min_rtt: f64) -> f64 {
    let every = every.as_secs_f64();
    let doublings = libm::ceil(libm::log2((DRAIN_ROUNDS * min_rtt / every).max(1.0)));
    every * libm::exp2(doublings)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_millis(2500);
    const MIN_RTT: f64 = 0.05;
    const CAPACITY: f64 = 4000.0;

    /// When the drain of 2.5 s begins.
    const FROM: f64 = 2.4875;

    fn at(seconds: f64) -> Time {
        Time::ZERO + Duration::from_secs_f64(seconds)
    }

    /// A drain of a queue of 40 ms, of which a flow with this share sees `packets` packets, while `draining` of the
    /// link's traffic drains and the path itself has become longer by `longer`.
    fn outcome(share: f64, draining: f64, packets: u32, longer: f64) -> Option<Outcome> {
        let mut drain = Drain::default();
        assert!(!drain.is_due(at(2.4), EVERY, MIN_RTT) && drain.is_due(at(2.55), EVERY, MIN_RTT));
        drain.begin(EVERY, MIN_RTT, 0.1, 0.04 + longer, share * CAPACITY * (MIN_RTT + 0.04 + longer), 0.5);
        for i in 0..packets {
            let sent_at = FROM + 0.1 * (f64::from(i) + 0.8) / f64::from(packets);
            drain.on_packet(sent_at, (0.04 - 0.75 * draining * (sent_at - FROM)).max(0.0) + longer);
        }
        assert_eq!(drain.conclude(at(2.8), CAPACITY, MIN_RTT), None, "its packets have not all arrived");
        let outcome = drain.conclude(at(2.9), CAPACITY, MIN_RTT);
        assert!(!drain.is_on());
        outcome
    }

    #[test]
    fn a_drain_shows_whether_others_drain() {
        for share in [0.02, 0.3, 0.6] {
            for (draining, others) in [(share, 0.0), (0.5 + share / 2.0, 0.5), (1.0, 1.0)] {
                let outcome = outcome(share, draining, 20, 0.0).unwrap();
                assert!((outcome.others - others).abs() < 0.15, "share {share}: {outcome:?}");
            }
        }
        // A flow of one packet in a drain has a small share.
        for (draining, others) in [(0.02, 0.0), (1.0, 1.0)] {
            let outcome = outcome(0.02, draining, 1, 0.0).unwrap();
            assert!((outcome.others - others).abs() < 0.15, "one packet: {outcome:?}");
        }
    }

    #[test]
    fn chance_in_the_waits_changes_little() {
        let mut drain = Drain::default();
        assert!(!drain.is_due(at(2.4), EVERY, MIN_RTT) && drain.is_due(at(2.5), EVERY, MIN_RTT));
        drain.begin(EVERY, MIN_RTT, 0.1, 0.04, 40.0, 0.5);
        for i in 0..200 {
            let sent_at = FROM - 0.1 + 0.001 * f64::from(i);
            let queue = (0.04 - 0.75 * (sent_at - FROM).max(0.0)).max(0.0);
            drain.on_packet(sent_at, queue + 0.002 * f64::from(i % 7 - 3));
        }
        let outcome = drain.conclude(at(2.9), CAPACITY, MIN_RTT).unwrap();
        assert!((outcome.others - 1.0).abs() < 0.15 && (outcome.before - 0.04).abs() < 0.001, "{outcome:?}");
    }

    #[test]
    fn delays_that_stop_falling_are_those_of_a_longer_path() {
        let longer = outcome(0.7, 1.0, 20, 0.02).unwrap();
        assert!(longer.is_floor && (longer.lowest - 0.02).abs() < 0.003, "{longer:?}");
        assert!(!outcome(0.3, 0.3, 20, 0.0).unwrap().is_floor, "the queue of competing traffic");
    }

    #[test]
    fn a_drain_that_shows_a_shorter_path_counts_from_there() {
        let mut drain = Drain::default();
        assert!(!drain.is_due(at(2.4), EVERY, MIN_RTT) && drain.is_due(at(2.5), EVERY, MIN_RTT));
        // The flow joined while 40 ms of queue stood, and took them for the path.
        drain.begin(EVERY, MIN_RTT, 0.1, 0.0, 10.0, 0.5);
        for i in 1..100 {
            let sent_at = FROM + 0.001 * f64::from(i);
            let fall = if i <= 53 { 0.75e-3 } else { 0.0 };
            drain.rebase(fall);
            drain.on_packet(sent_at, 0.0);
        }
        let outcome = drain.conclude(at(2.9), CAPACITY, MIN_RTT).unwrap();
        assert!((outcome.before - 0.03975).abs() < 1e-9 && outcome.others > 0.9, "{outcome:?}");
    }

    #[test]
    fn a_moment_without_acknowledgements_is_missed() {
        let mut drain = Drain::default();
        assert!(!drain.is_due(at(2.4), EVERY, MIN_RTT) && !drain.is_due(at(4.0), EVERY, MIN_RTT));
        assert!(drain.is_due(at(5.05), EVERY, MIN_RTT) && !drain.is_due(at(5.06), EVERY, MIN_RTT));
    }

    #[test]
    fn without_a_packet_nothing_is_known() {
        assert_eq!(outcome(0.1, 1.0, 0, 0.0), None);
    }

    #[test]
    fn without_a_queue_nothing_is_known() {
        let mut drain = Drain::default();
        assert!(!drain.is_due(at(2.4), EVERY, MIN_RTT) && drain.is_due(at(2.5), EVERY, MIN_RTT));
        drain.begin(EVERY, MIN_RTT, 0.1, 0.0, 10.0, 0.5);
        drain.on_packet(2.55, 0.001);
        assert_eq!(drain.conclude(at(2.9), CAPACITY, MIN_RTT), None);
    }

    #[test]
    fn one_packet_leaves_late_in_a_drain() {
        let mut drain = Drain::default();
        drain.is_due(at(2.4), EVERY, MIN_RTT);
        assert!(drain.is_due(at(2.5), EVERY, MIN_RTT));
        drain.begin(EVERY, MIN_RTT, 0.1, 0.04, 1.0, 0.5);
        assert_eq!((drain.share(at(FROM + 0.05)), drain.share(at(FROM + 0.11))), (DRAIN_SHARE, 1.0));
        assert_eq!(drain.late_packet_at(at(2.53), at(FROM)), Some(at(FROM + 0.07)));
        assert_eq!(drain.late_packet_at(at(2.58), at(2.57)), None, "one is enough");
    }

    #[test]
    fn drains_meet_at_the_bottleneck() {
        // Half a round trip away from their bottleneck, and next to it.
        for forward in [0.5, 0.0] {
            let [short, long] = [0.02, 0.1].map(|min_rtt| {
                let mut drain = Drain::default();
                assert!(!drain.is_due(at(2.4), EVERY, min_rtt) && drain.is_due(at(2.5), EVERY, min_rtt));
                drain.begin(EVERY, min_rtt, min_rtt, 0.01, 10.0, 0.5);
                drain.current.unwrap().from + forward * min_rtt
            });
            assert!((long - short).abs() <= 0.25 * (0.1 - 0.02) + 1e-9, "{short} {long}");
        }
    }

    #[test]
    fn long_round_trips_have_common_moments_with_short_ones() {
        assert_eq!([0.05, 0.25, 0.26, 0.6].map(|rtt| interval(EVERY, rtt)), [2.5, 2.5, 5.0, 10.0]);
    }
}
