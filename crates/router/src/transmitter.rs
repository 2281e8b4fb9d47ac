//! Transmission times at a rate that seldom changes: every packet needs a division by it.

use rampmeter_units::{Bytes, Duration, Rate};

/// `Rate::time_to_send`, exact to the nanosecond, with a multiplication instead of a division.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transmitter {
    rate: Rate,
    /// 2^64 / rate, rounded down.
    reciprocal: u64,
}

impl Transmitter {
    pub(crate) fn new(rate: Rate) -> Self {
        Self { rate, reciprocal: u64::MAX / rate.as_bps().max(1) }
    }

    pub(crate) fn rate(self) -> Rate {
        self.rate
    }

    /// The transmission time of `bytes`.
    pub(crate) fn time_to_send(self, bytes: Bytes) -> Duration {
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
    use rampmeter_units::Stream;

    use super::*;

    #[test]
    fn the_transmitter_divides_exactly() {
        let mut random = Stream::from_seed(5);
        for _ in 0..100_000 {
            let (rate_bits, byte_bits) = (random.below(64), random.below(64));
            let (rate, bytes) =
                (Rate::from_bps(random.below(2 << rate_bits)), Bytes::new(random.below(2 << byte_bits)));
            assert_eq!(Transmitter::new(rate).time_to_send(bytes), rate.time_to_send(bytes), "{rate} {bytes}");
        }
    }
}
