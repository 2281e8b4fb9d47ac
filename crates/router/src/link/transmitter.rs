//! When packets leave a link: at a constant rate, not at all, with the tokens of a shaper, or at the opportunities of a
//! schedule.

use rampmeter_units::{Bytes, Duration, Rate, Time};

use crate::capacity::token_bucket::Shaper;
use crate::link::schedule::{Schedule, Sent};

#[derive(Debug)]
pub(crate) enum Transmitter {
    /// A rate above zero.
    Constant(Divider),
    /// A rate of zero: an outage. The last packet that was sent before leaves until `busy_until`.
    Off { busy_until: Time },
    /// A token bucket.
    Shaped(Box<Shaper>),
    /// Opportunities.
    Scheduled(Box<Schedule>),
}

impl Transmitter {
    /// A transmitter that sends the last packet of its predecessor until `busy_until`.
    pub(crate) fn new(rate: Rate, busy_until: Time) -> Self {
        if rate == Rate::ZERO { Self::Off { busy_until } } else { Self::Constant(Divider::new(rate)) }
    }

    /// The rate; the mean one if it varies.
    pub(crate) fn rate(&self) -> Rate {
        match self {
            Self::Constant(divider) => divider.rate,
            Self::Off { .. } => Rate::ZERO,
            Self::Shaped(shaper) => shaper.mean(),
            Self::Scheduled(schedule) => schedule.mean(),
        }
    }

    /// The transmission of a packet of `bytes` that is taken from the queue `now`.
    #[inline]
    pub(crate) fn send(&mut self, now: Time, bytes: Bytes) -> Sent {
        let end = match self {
            Self::Constant(divider) => now + divider.time_to_send(bytes),
            Self::Off { .. } => Time::MAX,
            Self::Shaped(shaper) => shaper.send(now, bytes),
            Self::Scheduled(schedule) => return schedule.send(bytes),
        };
        Sent { end, next: end, delay: Duration::ZERO }
    }

    /// The bytes of the opportunities up to `now`; zero without a schedule.
    pub(crate) fn granted(&self, now: Time) -> Bytes {
        match self {
            Self::Scheduled(schedule) => schedule.granted(now),
            Self::Constant(_) | Self::Off { .. } | Self::Shaped(_) => Bytes::ZERO,
        }
    }
}

/// Transmission times at a rate that seldom changes: `Rate::time_to_send`, exact to the nanosecond, with a
/// multiplication instead of a division, and without either for a packet as large as the last one.
#[derive(Debug, Clone)]
pub(crate) struct Divider {
    rate: Rate,
    /// 2^64 / rate, rounded down.
    reciprocal: u64,
    last: (Bytes, Duration),
}

impl Divider {
    pub(crate) fn new(rate: Rate) -> Self {
        Self { rate, reciprocal: u64::MAX / rate.as_bps().max(1), last: (Bytes::ZERO, rate.time_to_send(Bytes::ZERO)) }
    }

    /// The transmission time of `bytes`.
    #[inline]
    pub(crate) fn time_to_send(&mut self, bytes: Bytes) -> Duration {
        if self.last.0 != bytes {
            self.last = (bytes, self.divide(bytes));
        }
        self.last.1
    }

    fn divide(&self, bytes: Bytes) -> Duration {
        let bps = self.rate.as_bps();
        let Some(bit_nanos) = bytes.as_u64().checked_mul(8_000_000_000).filter(|_| (2..1 << 62).contains(&bps)) else {
            return self.rate.time_to_send(bytes);
        };
        // The estimate is the quotient or one less, so the remainder is below twice the rate.
        let estimate = ((u128::from(bit_nanos) * u128::from(self.reciprocal)) >> 64) as u64;
        let rest = bit_nanos - estimate * bps;
        Duration::from_nanos(estimate + u64::from(rest > 0) + u64::from(rest > bps))
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Random;

    use super::*;

    #[test]
    fn the_transmitter_divides_exactly() {
        let mut random = Random::from_seed(5);
        for _ in 0..100_000 {
            let (rate_bits, byte_bits) = (random.below(64), random.below(64));
            let (rate, bytes) =
                (Rate::from_bps(random.below(2 << rate_bits)), Bytes::new(random.below(2 << byte_bits)));
            assert_eq!(Divider::new(rate).time_to_send(bytes), rate.time_to_send(bytes), "{rate} {bytes}");
        }
    }

    #[test]
    fn a_transmission_time_is_that_of_its_own_size() {
        let rate = Rate::from_bps(8_000_000);
        let mut divider = Divider::new(rate);
        for bytes in [0, 1000, 1000, 40, 1000, 0].map(Bytes::new) {
            assert_eq!(divider.time_to_send(bytes), rate.time_to_send(bytes), "{bytes}");
        }
    }
}
