//! Step: first in, first out. A packet that has waited longer than a threshold is marked, as by the switches that DCTCP
//! needs (RFC 8257 section 3.1). Packets of senders that are not ECN-capable leave unchanged.

use std::collections::VecDeque;

use rampmeter_router::units::{Bytes, Duration, Random, Time};
use rampmeter_router::{AnyPacket, Backlog, Discipline, Environment, Parcel, Router, Settings, Tally, Verdict};
use serde::{Deserialize, Serialize};

/// Tunables of Step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// A packet that has waited longer is marked.
    pub threshold: Duration,
    /// The maximum number of waiting packets; a packet that arrives at a full queue is dropped.
    pub packets: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { threshold: Duration::from_millis(5), packets: 1000 }
    }
}

impl Settings for Config {}

/// Step.
#[derive(Debug)]
pub struct Step {
    config: Config,
    /// The waiting packets, with their arrival times.
    queue: VecDeque<(Time, AnyPacket)>,
    bytes: Bytes,
    tally: Tally,
}

impl Discipline for Step {
    type Config = Config;

    fn new(config: &Config, _link: Environment, _random: Random) -> Self {
        Self { config: config.clone(), queue: VecDeque::new(), bytes: Bytes::ZERO, tally: Tally::default() }
    }
}

impl Router for Step {
    fn enqueue(&mut self, now: Time, packet: AnyPacket) -> Verdict<AnyPacket> {
        if self.queue.len() >= self.config.packets {
            return Verdict::Dropped(packet);
        }
        self.bytes += packet.bytes();
        self.queue.push_back((now, packet));
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Time) -> Option<AnyPacket> {
        let (arrived_at, mut packet) = self.queue.pop_front()?;
        self.bytes -= packet.bytes();
        if now.since(arrived_at) > self.config.threshold {
            self.tally.mark(&mut packet);
        }
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.queue.len() as u64, bytes: self.bytes }
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}
