//! Controlled Delay: a router that drops or marks packets as they leave, when packets have waited too long for too long
//! (Nichols, Jacobson and others, RFC 8289).
//!
//! A queue that empties now and then absorbs bursts; one that does not is only delay. The *least* waiting time of an
//! `interval`, about a round trip, tells them apart. Is it above the `target`, one packet is dropped, and as long as that
//! does not help more of them, so that TCP's rate, which goes with 1/sqrt(losses), falls evenly:
//!
//! ```text
//! next drop = last drop + interval / sqrt(count)
//! ```
//!
//! Where the queue is bad again soon after, `count` goes on from what it took to mend it. A queue of less than one packet
//! is never bad: the link must not run dry.
//!
//! Marks, which the RFC leaves to the reader, are as in Linux: a packet whose sender understands is marked and leaves
//! instead of being dropped. *Deviations*: none.

use rampmeter_units::{Bytes, Duration, Stream, Time};
use serde::{Deserialize, Serialize};

use crate::timed_queue::TimedQueue;
use crate::{Backlog, Discipline, Environment, Parcel, Router, Settings, Tally, Verdict, buffer};

/// CoDel's settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Most packets that may wait.
    pub packets: Option<u64>,
    /// Most bytes that may wait.
    pub bytes: Option<Bytes>,
    /// How long packets may go on waiting: 5 to 10% of the interval (RFC 8289, section 4.3).
    pub target: Duration,
    /// In which the queue must once be below the target: the longest usual round trip (section 4.2).
    pub interval: Duration,
    /// Mark packets whose senders understand.
    pub ecn: bool,
}

impl Default for Config {
    fn default() -> Self {
        let Law { target, interval, ecn } = Law::default();
        Self { packets: None, bytes: None, target, interval, ecn }
    }
}

impl Config {
    fn room(&self) -> buffer::Config {
        buffer::Config { packets: self.packets, bytes: self.bytes }
    }

    fn law(&self) -> Law {
        Law { target: self.target, interval: self.interval, ecn: self.ecn }
    }
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        self.law().check()?;
        self.room().check()
    }
}

/// What CoDel goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Law {
    pub(crate) target: Duration,
    pub(crate) interval: Duration,
    pub(crate) ecn: bool,
}

impl Default for Law {
    /// RFC 8289, section 5.3.
    fn default() -> Self {
        Self { target: Duration::from_millis(5), interval: Duration::from_millis(100), ecn: true }
    }
}

impl Law {
    pub(crate) fn check(self) -> Result<(), String> {
        if self.target == Duration::ZERO || self.target >= self.interval {
            return Err("`target` is above 0 and below `interval`: \"5 ms\" of \"100 ms\" is recommended".into());
        }
        Ok(())
    }

    /// When to drop after a drop at `last` (section 5.6, `control_law`).
    fn next(self, last: Time, count: u32) -> Time {
        last + self.interval.scale(1.0 / f64::from(count).sqrt())
    }

    /// Marks the packet, if it may be marked.
    fn marks(self, packet: &mut impl Parcel, tally: &mut Tally) -> bool {
        self.ecn && tally.mark(packet)
    }
}

/// What CoDel knows of one queue (section 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct State {
    /// When it will have been bad for an interval, if it stays so.
    bad_from: Option<Time>,
    dropping: bool,
    drop_next: Time,
    /// Drops since dropping began.
    count: u32,
    /// `count` as dropping began.
    count_before: u32,
}

impl State {
    /// The next packet to leave, after those before it that are to be dropped (section 5.5). `largest` is the most that a
    /// packet has.
    pub(crate) fn dequeue<P: Parcel>(
        &mut self,
        now: Time,
        law: Law,
        queue: &mut TimedQueue<P>,
        largest: Bytes,
        tally: &mut Tally,
    ) -> Option<P> {
        let Some((mut packet, mut bad)) = self.take(now, law, queue, largest) else {
            self.dropping = false;
            return None;
        };
        if !self.dropping {
            if bad {
                if !law.marks(&mut packet, tally) {
                    tally.dropped_later += 1;
                    (packet, _) = self.take(now, law, queue, largest)?; // there is one: it took more to be bad
                }
                self.begin(now, law);
            }
            return Some(packet);
        }
        self.dropping = bad;
        while self.dropping && now >= self.drop_next {
            self.count += 1;
            if law.marks(&mut packet, tally) {
                self.drop_next = law.next(self.drop_next, self.count);
                break;
            }
            tally.dropped_later += 1;
            (packet, bad) = self.take(now, law, queue, largest)?;
            if bad {
                self.drop_next = law.next(self.drop_next, self.count);
            }
            self.dropping = bad;
        }
        Some(packet)
    }

    /// A first drop. What it took the last time is about what it takes now, if that was within 16 intervals.
    fn begin(&mut self, now: Time, law: Law) {
        let took = self.count.saturating_sub(self.count_before);
        let recently = now.since(self.drop_next) < law.interval * 16;
        self.count = if took > 1 && recently { took } else { 1 };
        self.count_before = self.count;
        self.drop_next = law.next(now, self.count);
        self.dropping = true;
    }

    /// The first packet, and whether the queue has been bad for an interval (section 5.6, `dodequeue`).
    fn take<P: Parcel>(&mut self, now: Time, law: Law, queue: &mut TimedQueue<P>, largest: Bytes) -> Option<(P, bool)> {
        let Some((waited, packet)) = queue.pop(now) else {
            self.bad_from = None;
            return None;
        };
        if waited < law.target || queue.backlog().bytes <= largest {
            self.bad_from = None;
            return Some((packet, false));
        }
        let bad_from = *self.bad_from.get_or_insert(now + law.interval);
        Some((packet, now >= bad_from))
    }
}

/// A CoDel queue.
#[derive(Debug)]
pub struct Codel<P> {
    law: Law,
    room: buffer::Config,
    state: State,
    queue: TimedQueue<P>,
    /// The largest packet seen.
    largest: Bytes,
    tally: Tally,
}

impl<P: Parcel + Send> Discipline<P> for Codel<P> {
    type Config = Config;

    fn new(config: &Config, _environment: Environment, _random: Stream) -> Self {
        Self {
            law: config.law(),
            room: config.room(),
            state: State::default(),
            queue: TimedQueue::default(),
            largest: Bytes::ZERO,
            tally: Tally::default(),
        }
    }
}

impl<P: Parcel> Router<P> for Codel<P> {
    fn enqueue(&mut self, now: Time, packet: P) -> Verdict<P> {
        if !self.room.has_room(self.queue.backlog(), packet.bytes()) {
            return Verdict::Dropped(packet);
        }
        self.largest = self.largest.max(packet.bytes());
        self.queue.push(now, packet);
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        self.state.dequeue(now, self.law, &mut self.queue, self.largest, &mut self.tally)
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
    use super::*;
    use crate::router::tests::{ENVIRONMENT, TestParcel};

    /// At 8 Mb/s: a packet a millisecond.
    const PACKET: TestParcel = TestParcel::new(1, 1000);

    fn codel() -> Codel<TestParcel> {
        Codel::new(&Config::default(), ENVIRONMENT, Stream::from_seed(1))
    }

    fn ms(n: u64) -> Time {
        Time::ZERO + Duration::from_millis(n)
    }

    /// Offers a packet at each of `times` and takes one `delay` later: when one was dropped or marked.
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
    fn a_queue_that_is_short_once_in_an_interval_is_left_alone() {
        // A burst of 45 ms every 90 ms; the last packets of each wait nine times the target.
        let mut codel = codel();
        for burst in 0..10 {
            (0..45).for_each(|_| assert_eq!(codel.enqueue(ms(90 * burst), PACKET), Verdict::Queued));
            (0..45).for_each(|n| assert!(codel.dequeue(ms(90 * burst + n)).is_some()));
        }
        assert_eq!(codel.tally, Tally::default());
    }

    #[test]
    fn marks_come_as_the_control_law_says() {
        // A standing queue of 20 ms: bad from 20 ms on, so 120 ms is the first, then 100 ms / sqrt(n) later each.
        let mut expected = vec![120.0];
        for count in 1..8 {
            expected.push(expected[count - 1] + 100.0 / (count as f64).sqrt());
        }
        let expected: Vec<_> = expected.into_iter().map(|at: f64| at.ceil() as u64).collect();
        let mut codel = codel();
        let marks = signals(&mut codel, PACKET.capable(), 0..expected[7] + 1, 20);
        assert_eq!(marks, expected);
        assert_eq!(codel.tally, Tally { marked: 8, dropped_later: 0 });
    }

    #[test]
    fn others_packets_are_dropped_and_the_next_leaves() {
        let mut codel = codel();
        let dropped = signals(&mut codel, PACKET, 0..121, 20);
        assert_eq!((dropped, codel.tally), (vec![120], Tally { marked: 0, dropped_later: 1 }));
        assert_eq!(codel.backlog().packets, 19);
    }

    #[test]
    fn a_queue_that_is_bad_again_soon_goes_on_from_what_it_took() {
        for (pause, count) in [(200, 4), (1700, 1)] {
            // Marks at 120, 220, 291, 349 and 399: the first begins with 1, four more were needed.
            let mut codel = codel();
            assert_eq!(signals(&mut codel, PACKET.capable(), 0..400, 20).len(), 5);
            while codel.dequeue(ms(400)).is_some() {}
            let start = 400 + pause;
            assert_eq!(signals(&mut codel, PACKET.capable(), start..start + 121, 20), [start + 120]);
            assert_eq!(codel.state.count, count, "{pause} ms");
        }
    }

    #[test]
    fn less_than_a_packet_is_never_bad() {
        // One packet is left behind each that leaves, 50 ms old.
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
    fn a_target_as_long_as_the_interval_is_refused() {
        let config = Config { target: Duration::from_millis(100), ..Config::default() };
        assert!(config.check().unwrap_err().contains("\"5 ms\" of \"100 ms\""));
        Config::default().check().unwrap();
    }
}
