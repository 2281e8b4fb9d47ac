//! A shaper: a token bucket, as subscriptions and virtual machines have. Bursts pass at the peak rate, and what sends on gets
//! the mean rate.
//!
//! ```text
//!   tokens = min(burst, tokens + mean * (time since the last packet))
//!   a packet of b bytes:  leaves at the peak rate once there are b tokens, and takes them
//! ```
//!
//! Packets wait for tokens in the queue of the link, except the first one, which waits in the transmitter. A
//! [policer](crate::policer) drops what finds no tokens instead.

use rampmeter_units::{Bytes, Rate, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::check_mean;
use crate::link::transmitter::Divider;
use crate::{Settings, ensure};

/// A shaper's settings.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The rate of the tokens.
    pub mean: Rate,
    /// The rate of bursts. None: no limit.
    #[default(Rate::MAX)]
    pub peak: Rate,
    /// The depth of the bucket.
    #[default(Bytes::new(15_000))]
    pub burst: Bytes,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_mean(self.mean)?;
        let peak = format!("`peak` is {}: write more than the mean, {}", self.peak, self.mean);
        ensure(self.peak > self.mean, peak)?;
        check_burst(self.burst)
    }
}

/// Refuses a bucket that a packet of full size does not fit into.
pub(crate) fn check_burst(burst: Bytes) -> Result<(), String> {
    let wrong = format!("`burst` of {burst} is too small for a full-size packet: write 1500 B or more");
    ensure(burst >= Bytes::new(1500), wrong)
}

/// Tokens, each for a byte.
#[derive(Debug, Clone)]
pub(crate) struct TokenBucket {
    rate: Rate,
    burst: Bytes,
    tokens: Bytes,
    filled_at: Time,
}

impl TokenBucket {
    /// A full bucket.
    pub(crate) fn new(rate: Rate, burst: Bytes) -> Self {
        Self { rate, burst, tokens: burst, filled_at: Time::ZERO }
    }

    /// Takes tokens for `bytes`, if there are as many `now`.
    pub(crate) fn take(&mut self, now: Time, bytes: Bytes) -> bool {
        self.fill(now);
        let enough = self.tokens >= bytes;
        if enough {
            self.tokens -= bytes;
        }
        enough
    }

    /// Takes tokens for `bytes` as soon as there are as many, from `now` on. Returns when.
    pub(crate) fn wait(&mut self, now: Time, bytes: Bytes) -> Time {
        self.fill(now);
        let missing = bytes.saturating_sub(self.tokens);
        if missing == Bytes::ZERO {
            self.tokens -= bytes;
            return now;
        }
        self.tokens = Bytes::ZERO;
        // A fraction of a byte has accumulated since `filled_at`.
        self.filled_at = now.max(self.filled_at + self.rate.time_to_send(missing));
        self.filled_at
    }

    fn fill(&mut self, now: Time) {
        let earned = self.rate.bytes_in(now.since(self.filled_at));
        self.tokens = (self.tokens + earned).min(self.burst);
        // A fraction of a byte that has accumulated is kept for the next packet.
        self.filled_at += self.rate.time_to_send(earned).min(now.since(self.filled_at));
    }
}

/// The transmitter of a shaped link.
#[derive(Debug)]
pub(crate) struct Shaper {
    bucket: TokenBucket,
    peak: Divider,
}

impl Shaper {
    pub(crate) fn new(config: &Config) -> Self {
        Self { bucket: TokenBucket::new(config.mean, config.burst), peak: Divider::new(config.peak) }
    }

    pub(crate) fn mean(&self) -> Rate {
        self.bucket.rate
    }

    /// When the last bit of a packet of `bytes` leaves that is taken from the queue `now`.
    pub(crate) fn send(&mut self, now: Time, bytes: Bytes) -> Time {
        self.bucket.wait(now, bytes) + self.peak.time_to_send(bytes)
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Duration;

    use super::*;
    use crate::router::tests::ms;

    /// 1 kB/ms of tokens, bursts of 3 kB at 4 kB/ms.
    fn shaper() -> Shaper {
        let (mean, peak) = (Rate::from_bps(8_000_000), Rate::from_bps(32_000_000));
        Shaper::new(&Config { mean, peak, burst: Bytes::new(3000) })
    }

    #[test]
    fn a_burst_leaves_at_the_peak_rate_and_the_rest_at_the_mean() {
        let mut shaper = shaper();
        let mut now = ms(0);
        let mut left = Vec::new();
        for _ in 0..8 {
            now = shaper.send(now, Bytes::new(1000));
            left.push(now.as_nanos() / 1000);
        }
        // Tokens: 3000, 2250, 1500, 750; the next packet waits for 250, and from then on each waits for 750.
        assert_eq!(left, [250, 500, 750, 1250, 2250, 3250, 4250, 5250]);
    }

    #[test]
    fn an_idle_shaper_saves_up_for_one_burst() {
        let mut shaper = shaper();
        for _ in 0..20 {
            shaper.send(ms(0), Bytes::new(1000));
        }
        assert_eq!(shaper.send(ms(100), Bytes::new(3000)), ms(100) + Duration::from_micros(750));
        assert_eq!(shaper.send(ms(101), Bytes::new(1000)), ms(101) + Duration::from_micros(250));
    }

    #[test]
    fn a_packet_larger_than_the_bucket_waits_for_its_tokens() {
        let mut shaper = shaper();
        assert_eq!(shaper.send(ms(0), Bytes::new(9000)), ms(6) + Duration::from_micros(2250));
    }

    #[test]
    fn fractions_of_tokens_are_not_lost() {
        let (mean, burst) = (Rate::from_bps(1_000_001), Bytes::new(1500));
        let mut shaper = Shaper::new(&Config { mean, burst, ..Config::default() });
        let mut now = Time::ZERO;
        for _ in 0..10_001 {
            now = shaper.send(now, Bytes::new(1500));
        }
        // The first packet takes the initial tokens.
        let expected = 10_000.0 * 12_000.0 / 1_000_001.0;
        assert!((now.as_secs_f64() - expected).abs() < 1e-3, "{now:?} {expected}");
    }
}
