//! A policer before a drop-tail queue: packets from a size on may come at a rate and no faster, others as they like. One of
//! the ways in which networks treat the flows between two hosts differently (CM section 4.5).
//!
//! ```text
//! a packet of b >= from arrives:   tokens = min(burst, tokens + rate * (time since the last one))
//!                                  tokens >= b ?  tokens -= b, and it queues  :  it is dropped
//! ```

use rampmeter_units::{Bytes, Rate, Stream, Time};
use serde::{Deserialize, Serialize};

use crate::drop_tail::DropTail;
use crate::{Backlog, Discipline, Environment, Parcel, Router, Settings, Verdict, buffer};

/// A policer's settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// What may pass of the packets that it polices.
    pub rate: Rate,
    /// How much of them may pass at once.
    pub burst: Bytes,
    /// The least size of a packet that it polices, headers included.
    pub from: Bytes,
    /// The queue's room: most packets that may wait.
    pub packets: Option<u64>,
    /// Most bytes that may wait.
    pub bytes: Option<Bytes>,
}

impl Default for Config {
    fn default() -> Self {
        Self { rate: Rate::ZERO, burst: Bytes::new(15_000), from: Bytes::ZERO, packets: None, bytes: None }
    }
}

impl Config {
    fn room(&self) -> buffer::Config {
        buffer::Config { packets: self.packets, bytes: self.bytes }
    }
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        if self.rate == Rate::ZERO {
            return Err("a policer needs a rate: rate = \"200 kb/s\"".into());
        }
        if self.burst < Bytes::new(1500) {
            return Err(format!("`burst` of {} lets no full packet pass: 1500 B or more", self.burst));
        }
        self.room().check()
    }
}

/// A policer.
#[derive(Debug)]
pub struct Policer<P> {
    config: Config,
    tokens: Bytes,
    filled_at: Time,
    queue: DropTail<P>,
}

impl<P: Parcel> Policer<P> {
    fn passes(&mut self, now: Time, bytes: Bytes) -> bool {
        if bytes < self.config.from {
            return true;
        }
        let came = self.config.rate.bytes_in(now.since(self.filled_at));
        // Time that has not made a whole byte yet counts on.
        if came > Bytes::ZERO {
            self.tokens = (self.tokens + came).min(self.config.burst);
            self.filled_at += self.config.rate.time_to_send(came).min(now.since(self.filled_at));
        }
        let passes = self.tokens >= bytes;
        if passes {
            self.tokens -= bytes;
        }
        passes
    }
}

impl<P: Parcel + Send> Discipline<P> for Policer<P> {
    type Config = Config;

    fn new(config: &Config, environment: Environment, random: Stream) -> Self {
        Self {
            config: config.clone(),
            tokens: config.burst,
            filled_at: Time::ZERO,
            queue: DropTail::new(&config.room(), environment, random),
        }
    }
}

impl<P: Parcel + Send> Router<P> for Policer<P> {
    fn enqueue(&mut self, now: Time, packet: P) -> Verdict<P> {
        if self.passes(now, packet.bytes()) { self.queue.enqueue(now, packet) } else { Verdict::Dropped(packet) }
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        self.queue.dequeue(now)
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Duration;

    use super::*;
    use crate::router::tests::{ENVIRONMENT, TestParcel};

    #[test]
    fn large_packets_pass_at_its_rate_and_small_ones_as_they_like() {
        let config = Config {
            rate: Rate::from_bps(800_000),
            burst: Bytes::new(3000),
            from: Bytes::new(1000),
            ..Config::default()
        };
        let mut policer: Policer<TestParcel> = Policer::new(&config, ENVIRONMENT, Stream::from_seed(1));
        let (mut large, mut small) = (0, 0);
        for ms in 0..1000 {
            let now = Time::ZERO + Duration::from_millis(ms);
            large += u32::from(policer.enqueue(now, TestParcel::new(1, 1000)) == Verdict::Queued);
            small += u32::from(policer.enqueue(now, TestParcel::new(2, 999)) == Verdict::Queued);
            while policer.dequeue(now).is_some() {}
        }
        assert_eq!(small, 1000);
        assert!((101..=103).contains(&large), "3 at once and 100 a second: {large}");
    }

    #[test]
    fn a_policer_without_a_rate_is_refused() {
        assert!(Config::default().check().unwrap_err().contains("rate"));
    }
}
