//! Controlled Delay: a router that drops or marks packets as they leave, when the sojourn time has been above a target
//! for an interval (Nichols, Jacobson and others, RFC 8289).
//!
//! A queue that never becomes short is a standing queue and only adds delay: its *minimum* sojourn time over an
//! `interval`, about a round trip, is above the `target`. Then packets are dropped, at a frequency that grows so that
//! TCP's rate, which is proportional to 1/sqrt(loss rate), falls linearly:
//!
//! ```text
//! next drop = last drop + interval / sqrt(count)
//! ```
//!
//! When the queue exceeds the target again soon after, `count` resumes near its last value. A queue of less than one
//! packet is never above the target: the link must not run idle.
//!
//! The RFC leaves marking open; it is as in Linux: an ECN-capable packet is marked and leaves instead of being dropped.
//! So is `ce_threshold`, which is off by default: an ECN-capable packet that leaves after a longer wait is marked at once,
//! for senders that read the fraction of their marks (DCTCP, L4S).
//! *Deviations*: none.

use rampmeter_units::{Bytes, Duration, Random, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::disciplines::buffer::Room;
use crate::disciplines::timed_queue::TimedQueue;
use crate::{Backlog, Discipline, Environment, Parcel, Router, Settings, Tally, Verdict, ensure};

/// CoDel's settings; the defaults are RFC 8289's (section 5.3).
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The maximum number of packets in the queue.
    pub packets: Option<u64>,
    /// The maximum number of bytes in the queue.
    pub bytes: Option<Bytes>,
    /// The acceptable standing delay: 5 to 10% of the interval (RFC 8289, section 4.3).
    #[default(Duration::from_millis(5))]
    pub target: Duration,
    /// The time within which the sojourn time must once be below the target: the longest usual round trip (4.2).
    #[default(Duration::from_millis(100))]
    pub interval: Duration,
    /// Mark ECN-capable packets instead of dropping them.
    #[default(true)]
    pub ecn: bool,
    /// Mark every ECN-capable packet that waited longer than this, from the first one on; none: do not.
    pub ce_threshold: Option<Duration>,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        let in_order = self.target > Duration::ZERO && self.target < self.interval;
        ensure(in_order, "`target` must be above 0 and below `interval`: \"5 ms\" of \"100 ms\" is recommended")?;
        Room::check(self.packets, self.bytes)
    }
}

impl Config {
    /// The time of the drop after one at `last` (section 5.6, `control_law`).
    fn next(&self, last: Time, count: u32) -> Time {
        last + self.interval.scale(1.0 / f64::from(count).sqrt())
    }

    /// Marks a packet that leaves after it `waited` longer than `ce_threshold`.
    fn mark_above_threshold(&self, waited: Duration, packet: &mut impl Parcel, tally: &mut Tally) {
        if self.ce_threshold.is_some_and(|threshold| waited > threshold) {
            tally.mark(packet);
        }
    }

    /// Marks the packet, if marking is on and it is ECN-capable.
    fn marks(&self, packet: &mut impl Parcel, tally: &mut Tally) -> bool {
        self.ecn && tally.mark(packet)
    }
}

/// CoDel's state of one queue (section 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct State {
    /// When the sojourn time will have been above the target for an interval (`first_above_time_`).
    first_above: Option<Time>,
    dropping: bool,
    next_drop: Time,
    /// Drops since dropping began (`count_`).
    count: u32,
    /// The value of `count` when dropping began (`lastcount_`).
    last_count: u32,
    /// The sojourn time of the last packet that was taken from the queue.
    pub(crate) waited: Duration,
}

impl State {
    /// The next packet to leave, after those due for a drop. `largest` is the largest packet's size.
    pub(crate) fn dequeue<P: Parcel>(
        &mut self,
        now: Time,
        law: &Config,
        queue: &mut TimedQueue<P>,
        largest: Bytes,
        tally: &mut Tally,
    ) -> Option<P> {
        let mut packet = self.control(now, law, queue, largest, tally)?;
        law.mark_above_threshold(self.waited, &mut packet, tally);
        Some(packet)
    }

    /// Drops or marks what is due (section 5.5).
    fn control<P: Parcel>(
        &mut self,
        now: Time,
        law: &Config,
        queue: &mut TimedQueue<P>,
        largest: Bytes,
        tally: &mut Tally,
    ) -> Option<P> {
        let Some((mut packet, mut above_target)) = self.take(now, law, queue, largest) else {
            self.dropping = false;
            return None;
        };
        if !self.dropping {
            if above_target {
                if !law.marks(&mut packet, tally) {
                    tally.dropped_from_queue += 1;
                    // The queue is above the target, so there is another packet.
                    (packet, _) = self.take(now, law, queue, largest)?;
                }
                self.start_dropping(now, law);
            }
            return Some(packet);
        }
        self.dropping = above_target;
        while self.dropping && now >= self.next_drop {
            self.count += 1;
            if law.marks(&mut packet, tally) {
                self.next_drop = law.next(self.next_drop, self.count);
                break;
            }
            tally.dropped_from_queue += 1;
            (packet, above_target) = self.take(now, law, queue, largest)?;
            if above_target {
                self.next_drop = law.next(self.next_drop, self.count);
            }
            self.dropping = above_target;
        }
        Some(packet)
    }

    /// Enters the dropping state. `count` resumes from the last one's drops, if that was within 16 intervals.
    fn start_dropping(&mut self, now: Time, law: &Config) {
        let drops = self.count.saturating_sub(self.last_count);
        let recently = now.since(self.next_drop) < law.interval * 16;
        self.count = if recently { drops.max(1) } else { 1 };
        self.last_count = self.count;
        self.next_drop = law.next(now, self.count);
        self.dropping = true;
    }

    /// The first packet, and whether the sojourn time has been above the target for an interval (`dodequeue`).
    fn take<P: Parcel>(
        &mut self,
        now: Time,
        law: &Config,
        queue: &mut TimedQueue<P>,
        largest: Bytes,
    ) -> Option<(P, bool)> {
        let Some((waited, packet)) = queue.pop(now) else {
            self.first_above = None;
            return None;
        };
        self.waited = waited;
        if waited < law.target || queue.backlog().bytes <= largest {
            self.first_above = None;
            return Some((packet, false));
        }
        let first_above = *self.first_above.get_or_insert(now + law.interval);
        Some((packet, now >= first_above))
    }
}

/// A CoDel queue.
#[derive(Debug)]
pub struct Codel<P> {
    config: Config,
    room: Room,
    state: State,
    queue: TimedQueue<P>,
    /// The size of the largest packet seen.
    largest: Bytes,
    tally: Tally,
}

impl<P: Parcel + Send> Discipline<P> for Codel<P> {
    type Config = Config;

    fn new(config: &Config, _environment: Environment, _random: Random) -> Self {
        Self {
            config: config.clone(),
            room: Room::new(config.packets, config.bytes),
            state: State::default(),
            queue: TimedQueue::default(),
            largest: Bytes::ZERO,
            tally: Tally::default(),
        }
    }
}

impl<P: Parcel> Router<P> for Codel<P> {
    fn enqueue(&mut self, now: Time, packet: P) -> Verdict<P> {
        if !self.room.fits(self.queue.backlog(), packet.bytes()) {
            return Verdict::Dropped(packet);
        }
        self.largest = self.largest.max(packet.bytes());
        self.queue.push(now, packet);
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        self.state.dequeue(now, &self.config, &mut self.queue, self.largest, &mut self.tally)
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Ecn;

    use super::*;
    use crate::router::tests::{ENVIRONMENT, TestParcel, ms};

    /// At 8 Mb/s: a packet a millisecond.
    const PACKET: TestParcel = TestParcel::new(1, 1000);

    fn codel() -> Codel<TestParcel> {
        Codel::new(&Config::default(), ENVIRONMENT, Random::from_seed(1))
    }

    /// Offers a packet at each of `times` and dequeues one `delay` later. Returns the times of drops and marks.
    fn signals(codel: &mut Codel<TestParcel>, packet: TestParcel, times: std::ops::Range<u64>, delay: u64) -> Vec<u64> {
        let mut signals = Vec::new();
        for n in times {
            let _ = codel.enqueue(ms(n), packet);
            if codel.queue.backlog().packets <= delay {
                continue;
            }
            let before = codel.tally;
            assert!(codel.dequeue(ms(n)).is_some());
            if codel.tally != before {
                signals.push(n);
            }
        }
        signals
    }

    #[test]
    fn a_queue_that_is_short_once_an_interval_loses_no_packet() {
        // A burst of 45 ms every 90 ms; the last packets of each wait nine times the target.
        let mut codel = codel();
        for burst in 0..10 {
            (0..45).for_each(|_| assert_eq!(codel.enqueue(ms(90 * burst), PACKET), Verdict::Queued));
            (0..45).for_each(|n| assert!(codel.dequeue(ms(90 * burst + n)).is_some()));
        }
        assert_eq!(codel.tally, Tally::default());
    }

    #[test]
    fn marks_and_drops_follow_the_control_law() {
        // A standing queue of 20 ms is above the target from 20 ms on. The first signal is at 120 ms, each next one
        // 100 ms / sqrt(n) later.
        let mut expected = vec![120.0];
        for count in 1..8 {
            expected.push(expected[count - 1] + 100.0 / (count as f64).sqrt());
        }
        let expected: Vec<_> = expected.into_iter().map(|at: f64| at.ceil() as u64).collect();
        for (packet, marked, dropped_from_queue) in [(PACKET.capable(), 8, 0), (PACKET, 0, 8)] {
            let mut codel = codel();
            assert_eq!(signals(&mut codel, packet, 0..expected[7] + 1, 20), expected);
            assert_eq!(codel.tally(), Tally { dropped_from_queue, marked });
        }
    }

    #[test]
    fn count_resumes_for_less_than_sixteen_intervals() {
        for (since_next_drop, count) in [(1599, 4), (1600, 1)] {
            let mut state = State { next_drop: ms(400), count: 5, last_count: 1, ..State::default() };
            state.start_dropping(ms(400 + since_next_drop), &Config::default());
            assert_eq!(state.count, count, "{since_next_drop} ms");
        }
    }

    #[test]
    fn less_than_a_packet_is_never_above_the_target() {
        // A packet that leaves is 50 ms old and leaves one packet behind.
        let mut codel = codel();
        for n in 0..100 {
            let _ = codel.enqueue(ms(50 * n), PACKET);
            if n > 0 {
                assert!(codel.dequeue(ms(50 * n)).is_some());
            }
        }
        assert_eq!(codel.tally, Tally::default());
    }

    #[test]
    fn a_wait_above_the_ce_threshold_is_marked_at_once() {
        // Packets wait 3 ms, below the target of 5 ms.
        for (threshold, code, marked) in [(2, Ecn::Ect0, true), (3, Ecn::Ect0, false), (2, Ecn::NotEct, false)] {
            let config = Config { ce_threshold: Some(Duration::from_millis(threshold)), ..Config::default() };
            let mut codel = Codel::new(&config, ENVIRONMENT, Random::from_seed(1));
            let packet = TestParcel { ecn: code, ..PACKET };
            let expected: Vec<_> = if marked { (3..20).collect() } else { Vec::new() };
            assert_eq!(signals(&mut codel, packet, 0..20, 3), expected, "{threshold} {code:?}");
        }
    }
}
