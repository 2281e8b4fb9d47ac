//! Step marking: the switch of DCTCP (Alizadeh and others, "Data Center TCP (DCTCP)", SIGCOMM 2010, section 3.1; RFC
//! 8257, section 3.1).
//!
//! ```text
//! a packet arrives, and the queue is longer than K:     it is marked          K in packets
//! a packet leaves after it waited longer than K:        it is marked          K as a time
//! ```
//!
//! The signal is the queue at this instant, not an average: a sender that reads the fraction of its marks (`dctcp`)
//! averages itself. With `N` flows in phase, a round-trip time `T` and a link of `C` packets a second, the queue is
//! between `K - A` and `K + N`, where `A` is the amplitude of the windows' sawtooth together:
//!
//! ```text
//! A = 1/2 sqrt(2 N (C T + K))                  eq. (8)
//! K > C T / 7                                  eq. (13): then the queue is never empty, for any N
//! ```
//!
//! Packets of senders that are not ECN-capable are dropped only if the buffer is full, so they gain from the room
//! above `K`: RFC 8257 (section 5) keeps such traffic in other queues.
//! *Deviations*: none.

use rampmeter_units::{Bytes, Duration, Random, Time};
use serde::{Deserialize, Serialize};

use crate::disciplines::buffer::Room;
use crate::disciplines::timed_queue::TimedQueue;
use crate::{Backlog, Discipline, Environment, Parcel, Router, Settings, Tally, Verdict, ensure};

/// `K` where no threshold is given: the paper's for 1 Gb/s (section 3.1), in packets.
const DEFAULT_THRESHOLD: u64 = 20;

/// The settings of step marking.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The maximum number of packets in the queue.
    pub packets: Option<u64>,
    /// The maximum number of bytes in the queue.
    pub bytes: Option<Bytes>,
    /// `K` in packets: 20 if no threshold is given, the paper's for 1 Gb/s. It has 65 for 10 Gb/s.
    pub threshold: Option<u64>,
    /// `K` as the time that a packet has waited when it leaves, instead of packets.
    pub threshold_delay: Option<Duration>,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        ensure(
            self.threshold.is_none() || self.threshold_delay.is_none(),
            "two thresholds: give one of `threshold` (packets) and `threshold_delay`",
        )?;
        if let Some(packets) = self.packets {
            let too_high = self.in_packets().is_some_and(|threshold| threshold.saturating_add(1) >= packets);
            ensure(
                packets == 0 || !too_high,
                format!("`threshold` marks no packet in a buffer of {packets}: write at most half of `packets`"),
            )?;
        }
        Room::check(self.packets, self.bytes)
    }
}

impl Config {
    /// `K` in packets, unless it is a time.
    fn in_packets(&self) -> Option<u64> {
        self.threshold_delay.is_none().then(|| self.threshold.unwrap_or(DEFAULT_THRESHOLD))
    }
}

/// A queue with step marking.
#[derive(Debug)]
pub struct StepMarking<P> {
    room: Room,
    /// The number of packets that a packet finds at most without being marked.
    max_queue: u64,
    /// The longest time that a packet waits without being marked.
    max_wait: Duration,
    queue: TimedQueue<P>,
    tally: Tally,
}

impl<P: Parcel + Send> Discipline<P> for StepMarking<P> {
    type Config = Config;

    fn new(config: &Config, _environment: Environment, _random: Random) -> Self {
        Self {
            room: Room::new(config.packets, config.bytes),
            max_queue: config.in_packets().unwrap_or(u64::MAX),
            max_wait: config.threshold_delay.unwrap_or(Duration::MAX),
            queue: TimedQueue::default(),
            tally: Tally::default(),
        }
    }
}

impl<P: Parcel> Router<P> for StepMarking<P> {
    fn enqueue(&mut self, now: Time, mut packet: P) -> Verdict<P> {
        let waiting = self.queue.backlog();
        if !self.room.fits(waiting, packet.bytes()) {
            return Verdict::Dropped(packet);
        }
        if waiting.packets > self.max_queue {
            self.tally.mark(&mut packet);
        }
        self.queue.push(now, packet);
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        let (waited, mut packet) = self.queue.pop(now)?;
        if waited > self.max_wait {
            self.tally.mark(&mut packet);
        }
        Some(packet)
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
    use crate::router::tests::{ENVIRONMENT, TestParcel};

    const PACKET: TestParcel = TestParcel::new(1, 1000);

    fn step(config: &Config) -> StepMarking<TestParcel> {
        config.check().unwrap();
        StepMarking::new(config, ENVIRONMENT, Random::from_seed(1))
    }

    /// The positions of marked packets among `count` that arrive together and leave 1 ms apart.
    fn marked(config: &Config, count: u64, packet: TestParcel) -> Vec<u64> {
        let mut step = step(config);
        (0..count).for_each(|_| assert_eq!(step.enqueue(Time::ZERO, packet), Verdict::Queued));
        let leaves = |n: u64| Time::ZERO + Duration::from_millis(n);
        let left: Vec<_> = (0..count).filter(|n| step.dequeue(leaves(*n)).unwrap().ecn == Ecn::Ce).collect();
        assert_eq!(step.tally().marked, left.len() as u64);
        left
    }

    #[test]
    fn packets_that_find_more_than_k_waiting_are_marked() {
        for (config, first) in [
            (Config { threshold: Some(5), ..Config::default() }, 6),
            (Config { threshold: Some(0), ..Config::default() }, 1),
            (Config { threshold_delay: Some(Duration::from_millis(3)), ..Config::default() }, 4),
            (Config::default(), 21),
        ] {
            assert_eq!(marked(&config, 30, PACKET.capable()), (first..30).collect::<Vec<_>>(), "{config:?}");
            assert_eq!(marked(&config, 30, PACKET), Vec::<u64>::new(), "not ECN-capable");
        }
    }
}
