//! A virtual queue: a counter of the bytes that would be queued if the link drained at a different rate.
//!
//! ```text
//! q(t) = max(q(s) - C~ (t - s), 0)        between arrivals
//! q    = min(q + b, bound)                when b bits arrive
//! ```
//!
//! It is drained whenever it is read, and counts in billionths of bits, of which a rate in bits per second times
//! nanoseconds is an integer number: nothing is lost to rounding.

use rampmeter_units::{Bytes, Rate, Time};

use crate::ensure;

/// Billionths of bits in a byte.
const PARTS: u64 = 8_000_000_000;

/// The maximum length, well within the range of the counter.
const MAX_BOUND: Bytes = Bytes::new(1_000_000_000);

/// A virtual queue.
#[derive(Debug)]
pub(crate) struct VirtualBacklog {
    /// Billionths of bits in the queue, as of `at`.
    parts: u64,
    bound: u64,
    /// The drain rate, `C~`.
    rate: Rate,
    at: Time,
}

impl VirtualBacklog {
    /// An empty virtual queue that drains at `rate` and holds `bound` bytes at most, itself at most [`MAX_BOUND`].
    pub(crate) fn new(rate: Rate, bound: Bytes) -> Self {
        Self { parts: 0, bound: bound.as_u64() * PARTS, rate, at: Time::ZERO }
    }

    /// Refuses an invalid bound, in packets of `packet` bytes.
    pub(crate) fn check(bound: f64, packet: Bytes) -> Result<(), String> {
        ensure(
            (1.0..=MAX_BOUND.as_f64()).contains(&(bound * packet.as_f64())),
            "`packet` and `bound` must be above 0, and their product at most 1 GB: write for example \"1000 B\" and 50 packets",
        )
    }

    /// Changes the drain rate from `now` on.
    pub(crate) fn set_rate(&mut self, now: Time, rate: Rate) {
        self.drain(now);
        self.rate = rate;
    }

    /// The length in bytes, with fractions.
    pub(crate) fn bytes(&mut self, now: Time) -> f64 {
        self.drain(now);
        self.parts as f64 / PARTS as f64
    }

    /// Whether `bytes` more would exceed the bound.
    pub(crate) fn overflows(&mut self, now: Time, bytes: Bytes) -> bool {
        self.drain(now);
        self.sum(bytes) > self.bound
    }

    /// Adds `bytes`; the part beyond the bound is discarded.
    pub(crate) fn add(&mut self, now: Time, bytes: Bytes) {
        self.drain(now);
        self.parts = self.sum(bytes).min(self.bound);
    }

    fn sum(&self, bytes: Bytes) -> u64 {
        self.parts.saturating_add(bytes.as_u64().saturating_mul(PARTS))
    }

    fn drain(&mut self, now: Time) {
        let drained = self.rate.as_bps().saturating_mul(now.since(self.at).as_nanos());
        // A link of infinite rate has no queue, not even for packets that arrive at once.
        self.parts = if self.rate == Rate::MAX { 0 } else { self.parts.saturating_sub(drained) };
        self.at = now;
    }
}

/// The drain rate of a virtual queue beside a link of `rate`: a share of it. The share of an infinite rate is infinite.
pub(crate) fn share_of(rate: Rate, share: f64) -> Rate {
    if rate == Rate::MAX { rate } else { rate.scale(share) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    #[test]
    fn the_queue_drains_at_its_rate_until_it_is_empty() {
        let mut queue = VirtualBacklog::new(Rate::from_bps(8_000_000), Bytes::new(5000)); // a byte a microsecond
        queue.add(at(0), Bytes::new(1000));
        assert_eq!(queue.bytes(at(500)), 999.5);
        queue.set_rate(at(400_000), Rate::from_bps(16_000_000));
        assert_eq!(queue.bytes(at(500_000)), 400.0);
        assert_eq!(queue.bytes(at(900_000)), 0.0);
        assert_eq!(queue.bytes(at(u64::MAX)), 0.0);
    }

    #[test]
    fn length_is_capped_and_zero_at_an_infinite_rate() {
        let mut queue = VirtualBacklog::new(Rate::ZERO, Bytes::new(1500));
        queue.add(at(0), Bytes::new(1000));
        assert!(!queue.overflows(at(0), Bytes::new(500)) && queue.overflows(at(0), Bytes::new(501)));
        queue.add(at(1), Bytes::new(1000));
        assert_eq!(queue.bytes(at(2)), 1500.0);
        queue.set_rate(at(2), Rate::MAX);
        assert_eq!(queue.bytes(at(2)), 0.0);
    }

    proptest! {
        #[test]
        fn reading_the_length_does_not_change_it(
            bps in 1u64..100_000_000_000,
            steps in prop::collection::vec((0u64..3_000_000, 0u64..3000, any::<bool>()), 1..200),
            bound in 0u64..100_000,
        ) {
            let new = || VirtualBacklog::new(Rate::from_bps(bps), Bytes::new(bound));
            let (mut read_often, mut only_added_to) = (new(), new());
            let (mut now, mut expected, mut since) = (0, 0_u128, 0);
            for (nanos, bytes, joins) in steps {
                now += nanos;
                prop_assert!(read_often.bytes(at(now)) <= bound as f64);
                if joins {
                    let drained = u128::from(bps) * u128::from(now - since);
                    expected = expected.saturating_sub(drained) + u128::from(bytes * PARTS);
                    expected = expected.min(u128::from(bound * PARTS));
                    since = now;
                    read_often.add(at(now), Bytes::new(bytes));
                    only_added_to.add(at(now), Bytes::new(bytes));
                    prop_assert_eq!(u128::from(read_often.parts), expected);
                    prop_assert_eq!(only_added_to.parts, read_often.parts);
                }
            }
        }
    }
}
