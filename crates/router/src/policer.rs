//! A policer before a drop-tail queue: a token bucket limits the rate of packets of a minimum size. So networks treat
//! flows between the same two hosts differently (CM section 4.5). A [shaper](crate::capacity::token_bucket) delays the
//! excess instead.
//!
//! ```text
//! a packet of b >= min_size arrives:   tokens = min(burst, tokens + rate * (time since the last one))
//!                                      tokens >= b ?  tokens -= b, and it is queued  :  it is dropped
//! ```
//!
//! The meter of RFC 2697 without an excess burst: what is not green is dropped. *Deviation*: `min_size`.

use rampmeter_units::{Bytes, Rate, Stream, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::buffer::Room;
use crate::capacity::token_bucket::{TokenBucket, check_burst};
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
}

impl<P: Parcel> Policer<P> {
    fn passes(&mut self, now: Time, bytes: Bytes) -> bool {
        bytes < self.config.min_size || self.bucket.take(now, bytes)
    }
}

impl<P: Parcel + Send> Discipline<P> for Policer<P> {
    type Config = Config;

    fn new(config: &Config, _environment: Environment, _random: Stream) -> Self {
        Self {
            config: config.clone(),
            bucket: TokenBucket::new(config.rate, config.burst),
            queue: DropTail::with_room(config.packets, config.bytes),
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
    fn large_packets_pass_at_the_rate_and_small_ones_freely() {
        let config = Config {
            rate: Rate::from_bps(800_000),
            burst: Bytes::new(3000),
            min_size: Bytes::new(1000),
            ..Config::default()
        };
        let mut policer: Policer<TestParcel> = Policer::new(&config, ENVIRONMENT, Stream::from_seed(1));
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
    fn a_policer_without_a_rate_or_a_full_packet_is_refused() {
        assert!(Config::default().check().unwrap_err().contains("rate"));
        let config = |bytes| Config { rate: Rate::from_bps(1), burst: Bytes::new(bytes), ..Config::default() };
        assert!(config(1499).check().unwrap_err().contains("1500 B"));
        config(1500).check().unwrap();
    }
}
