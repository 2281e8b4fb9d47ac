//! Step marking: the switch of DCTCP (Alizadeh and others, "Data Center TCP (DCTCP)", SIGCOMM 2010, section 3.1; RFC
//! 8257, section 3.1).
//!
//! ```text
//! a packet arrives, and the queue is longer than K:     it is marked          K in packets
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
//! A `K` as the time that packets wait is the `ce_threshold` of [`codel`](crate::codel).
//! *Deviations*: none.

use rampmeter_units::{Bytes, Random, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::disciplines::buffer::Room;
use crate::drop_tail::DropTail;
use crate::{Backlog, Discipline, Environment, Parcel, Router, Settings, Tally, Verdict, ensure};

/// The settings of step marking.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The maximum number of packets in the queue.
    pub packets: Option<u64>,
    /// The maximum number of bytes in the queue.
    pub bytes: Option<Bytes>,
    /// `K`: the paper's for 1 Gb/s (section 3.1), in packets. It has 65 for 10 Gb/s.
    #[default(20)]
    pub threshold: u64,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        if let Some(packets) = self.packets {
            ensure(
                packets == 0 || self.threshold.saturating_add(1) < packets,
                format!("`threshold` marks no packet in a buffer of {packets}: write at most half of `packets`"),
            )?;
        }
        Room::check(self.packets, self.bytes)
    }
}

/// A queue with step marking.
#[derive(Debug)]
pub struct StepMarking<P> {
    /// The number of packets that a packet finds at most without being marked.
    threshold: u64,
    queue: DropTail<P>,
    tally: Tally,
}

impl<P: Parcel + Send> Discipline<P> for StepMarking<P> {
    type Config = Config;

    fn new(config: &Config, _environment: Environment, _random: Random) -> Self {
        let queue = DropTail::with_room(config.packets, config.bytes);
        Self { threshold: config.threshold, queue, tally: Tally::default() }
    }
}

impl<P: Parcel> Router<P> for StepMarking<P> {
    fn enqueue(&mut self, now: Time, mut packet: P) -> Verdict<P> {
        if self.queue.backlog().packets > self.threshold && self.queue.has_room(packet.bytes()) {
            self.tally.mark(&mut packet);
        }
        self.queue.enqueue(now, packet)
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        self.queue.dequeue(now)
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

    /// The positions of marked packets among `count` that arrive together.
    fn marked(config: &Config, count: u64, packet: TestParcel) -> Vec<u64> {
        let mut step = step(config);
        (0..count).for_each(|_| assert_eq!(step.enqueue(Time::ZERO, packet), Verdict::Queued));
        let left: Vec<_> = (0..count).filter(|_| step.dequeue(Time::ZERO).unwrap().ecn == Ecn::Ce).collect();
        assert_eq!(step.tally().marked, left.len() as u64);
        left
    }

    #[test]
    fn packets_that_find_more_than_k_waiting_are_marked() {
        for (config, first) in [
            (Config { threshold: 5, ..Config::default() }, 6),
            (Config { threshold: 0, ..Config::default() }, 1),
            (Config::default(), 21),
        ] {
            assert_eq!(marked(&config, 30, PACKET.capable()), (first..30).collect::<Vec<_>>(), "{config:?}");
            assert_eq!(marked(&config, 30, PACKET), Vec::<u64>::new(), "not ECN-capable");
        }
    }
}
