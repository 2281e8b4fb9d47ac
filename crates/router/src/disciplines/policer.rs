//! A policer before a drop-tail queue: a token bucket limits the rate of packets of a minimum size. So networks treat
//! flows between the same two hosts differently (CM section 4.5). With `delay` the excess waits in a queue of its own
//! instead. A [shaper](crate::capacity::token_bucket) delays the packets of all flows.
//!
//! ```text
//! a packet of b >= min_size arrives:   tokens = min(burst, tokens + rate * (time since the last one))
//!                                      tokens >= b ?  tokens -= b, and it is queued  :  it is dropped
//! with `delay`, instead of the drop:   it waits until there are b tokens and no earlier packet waits
//! ```
//!
//! The meter of RFC 2697 without an excess burst: what is not green is dropped. *Deviation*: `min_size`.

use rampmeter_units::{Bytes, Random, Rate, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::capacity::token_bucket::{TokenBucket, check_burst};
use crate::disciplines::buffer::Room;
use crate::drop_tail::DropTail;
use crate::{Backlog, Discipline, Environment, Parcel, Router, Settings, Verdict, ensure};

/// A policer's settings.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The rate at which policed packets may pass, on average.
    pub rate: Rate,
    /// The depth of the token bucket.
    #[default(Bytes::new(15_000))]
    pub burst: Bytes,
    /// The minimum size of a packet that is policed, headers included.
    pub min_size: Bytes,
    /// Packets without tokens wait for them, at most `packets` and `bytes` of them; otherwise they are dropped.
    pub delay: bool,
    /// The buffer: the maximum number of packets in the queue.
    pub packets: Option<u64>,
    /// The maximum number of bytes in the queue.
    pub bytes: Option<Bytes>,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        ensure(self.rate > Rate::ZERO, "a policer needs a rate: write rate = \"200 kb/s\"")?;
        check_burst(self.burst)?;
        Room::check(self.packets, self.bytes)
    }
}

/// A policer.
#[derive(Debug)]
pub struct Policer<P> {
    config: Config,
    bucket: TokenBucket,
    queue: DropTail<P>,
    /// Packets that wait for tokens; the first one has them at `released_at`.
    waiting: DropTail<P>,
    released_at: Time,
}

impl<P: Parcel> Policer<P> {
    fn passes(&mut self, now: Time, bytes: Bytes) -> bool {
        bytes < self.config.min_size || self.bucket.take(now, bytes)
    }

    /// Puts a packet behind those that wait for tokens.
    fn delay(&mut self, now: Time, packet: P) -> Verdict<P> {
        let (is_first, bytes) = (self.waiting.backlog().packets == 0, packet.bytes());
        let verdict = self.waiting.enqueue(now, packet);
        if is_first && matches!(verdict, Verdict::Queued) {
            self.released_at = self.bucket.wait(now, bytes);
        }
        verdict
    }

    /// Moves the packets whose tokens have come to the queue.
    fn release(&mut self, now: Time) {
        while self.released_at <= now {
            let at = std::mem::replace(&mut self.released_at, Time::MAX);
            if let Some(packet) = self.waiting.dequeue(at) {
                self.queue.push(packet);
            }
            if let Some(next) = self.waiting.first() {
                self.released_at = self.bucket.wait(at, next.bytes());
            }
        }
    }
}

impl<P: Parcel + Send> Discipline<P> for Policer<P> {
    type Config = Config;

    fn new(config: &Config, _environment: Environment, _random: Random) -> Self {
        Self {
            config: config.clone(),
            bucket: TokenBucket::new(config.rate, config.burst),
            queue: DropTail::with_room(config.packets, config.bytes),
            waiting: DropTail::with_room(config.packets, config.bytes),
            released_at: Time::MAX,
        }
    }
}

impl<P: Parcel + Send> Router<P> for Policer<P> {
    fn enqueue(&mut self, now: Time, packet: P) -> Verdict<P> {
        self.release(now);
        let is_behind = self.waiting.backlog().packets > 0 && packet.bytes() >= self.config.min_size;
        if !is_behind && self.passes(now, packet.bytes()) {
            self.queue.enqueue(now, packet)
        } else if self.config.delay {
            self.delay(now, packet)
        } else {
            Verdict::Dropped(packet)
        }
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        self.release(now);
        self.queue.dequeue(now)
    }

    fn tick(&mut self, now: Time) {
        self.release(now);
    }

    fn next_tick(&self) -> Time {
        self.released_at
    }

    fn backlog(&self) -> Backlog {
        let (queue, waiting) = (self.queue.backlog(), self.waiting.backlog());
        Backlog { packets: queue.packets + waiting.packets, bytes: queue.bytes + waiting.bytes }
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Duration;

    use super::*;
    use crate::router::tests::{ENVIRONMENT, TestParcel};

    #[test]
    fn large_packets_pass_at_the_rate_and_small_ones_freely() {
        let config = Config {
            rate: Rate::from_bps(800_000),
            burst: Bytes::new(3000),
            min_size: Bytes::new(1000),
            ..Config::default()
        };
        let mut policer: Policer<TestParcel> = Policer::new(&config, ENVIRONMENT, Random::from_seed(1));
        let (mut large, mut small, mut left) = (0, 0, 0);
        for ms in 0..1000 {
            let now = Time::ZERO + Duration::from_millis(ms);
            large += u32::from(policer.enqueue(now, TestParcel::new(1, 1000)) == Verdict::Queued);
            small += u32::from(policer.enqueue(now, TestParcel::new(2, 999)) == Verdict::Queued);
            while policer.backlog().packets > 0 {
                left += u32::from(policer.dequeue(now).is_some());
            }
        }
        assert_eq!((small, left), (1000, large + small));
        assert!((101..=103).contains(&large), "3 in the burst and 100 a second: {large}");
    }

    #[test]
    fn with_delay_the_excess_leaves_at_the_rate() {
        let config = Config {
            rate: Rate::from_bps(800_000),
            burst: Bytes::new(3000),
            min_size: Bytes::new(1000),
            delay: true,
            packets: Some(5),
            ..Config::default()
        };
        let mut policer: Policer<TestParcel> = Policer::new(&config, ENVIRONMENT, Random::from_seed(1));
        let now = Time::ZERO + Duration::from_millis(1);
        let verdicts: Vec<bool> =
            (0..10).map(|_| policer.enqueue(now, TestParcel::new(1, 1000)) == Verdict::Queued).collect();
        assert_eq!(verdicts.iter().filter(|queued| **queued).count(), 8, "the burst, and a queue of five");
        assert_eq!(policer.enqueue(now, TestParcel::new(2, 999)), Verdict::Queued);
        let mut left = |ms: u64| {
            let now = now + Duration::from_millis(ms);
            let mut flows = Vec::new();
            while policer.next_tick() <= now {
                policer.tick(policer.next_tick());
            }
            while let Some(packet) = policer.dequeue(now) {
                flows.push(packet.flow());
            }
            flows
        };
        assert_eq!((left(0), left(9)), (vec![1, 1, 1, 2], vec![]));
        assert_eq!((left(10), left(29), left(30), left(100)), (vec![1], vec![1], vec![1], vec![1, 1]));
        assert_eq!((policer.backlog().packets, policer.next_tick()), (0, Time::MAX));
    }
}
