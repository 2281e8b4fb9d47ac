//! Exponential aging: the sending rate of a macroflow while no feedback arrives (`congestion-manager.md`, section 4.4).
//!
//! When a probe has not been answered for a round trip, the window no longer applies, and the current rate is halved.
//! It is halved again after every half-life until feedback arrives. The paper does not say what late feedback does:
//! here it ends aging, but it describes the past, so that a later probe that is overdue by then restarts aging at once.
//! When flows without probes report that no feedback arrives, the rate is first reduced to one packet per timeout, and
//! the half-life is the timeout.
//!
//! ```text
//! rate(t) = rate / 2^(1 + floor((t - since) / half_life)), but at least a packet a second
//! ```
//!
//! Otherwise the half-life is the *minimum* round trip. The mean, which the paper found to be wrong, grows with the
//! queue that aging has to drain (its Figure 12).

use rampmeter_units::{Bytes, Duration, Rate, Time};

/// The round trip that is the half-life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HalfLife {
    /// The minimum.
    #[default]
    MinRtt,
    /// The smoothed mean.
    MeanRtt,
}

/// The longest time between packets.
pub(crate) const MAX_GAP: Duration = Duration::from_secs(1);

/// The minimum half-life: paths change on much longer time scales.
const MIN_HALF_LIFE: Duration = Duration::from_millis(1);

/// The number of halvings after which no rate has a bit per second left.
const MAX_HALVINGS: u32 = 62;

/// The state of aging.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Aging {
    pub(crate) since: Time,
    rate: Rate,
    half_life: Duration,
    /// Persistent congestion has been reported to the controller.
    pub(crate) was_reported: bool,
}

impl Aging {
    pub(crate) fn new(now: Time, rate: Rate, half_life: Duration) -> Self {
        Self { since: now, rate, half_life: half_life.max(MIN_HALF_LIFE), was_reported: false }
    }

    fn halvings(&self, now: Time) -> u32 {
        1 + (now.since(self.since).as_nanos() / self.half_life.as_nanos()).min(MAX_HALVINGS.into()) as u32
    }

    /// The rate at `now`, for packets of `packet` bytes.
    pub(crate) fn rate(&self, now: Time, packet: Bytes) -> Rate {
        Rate::from_bps(self.rate.as_bps() >> self.halvings(now)).max(Rate::of(packet, MAX_GAP))
    }

    /// The time between the departures of two packets.
    pub(crate) fn gap(&self, now: Time, packet: Bytes) -> Duration {
        self.rate(now, packet).time_to_send(packet)
    }

    /// The time of the next halving; [`Time::MAX`] if nothing is left to halve.
    pub(crate) fn next_halving(&self, now: Time) -> Time {
        let halvings = self.halvings(now);
        if halvings > MAX_HALVINGS { Time::MAX } else { self.since + self.half_life * u64::from(halvings) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_halves_at_once_and_with_every_half_life() {
        let packet = Bytes::new(1000);
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let aging = Aging::new(at(100), Rate::from_bps(8_000_000), Duration::from_millis(50));
        let rate = |ms| aging.rate(at(ms), packet).as_bps();
        assert_eq!((rate(100), rate(149), rate(150), rate(200)), (4_000_000, 4_000_000, 2_000_000, 1_000_000));
        assert_eq!(aging.gap(at(100), packet), Duration::from_millis(2));
        assert_eq!((aging.next_halving(at(100)), aging.next_halving(at(150))), (at(150), at(200)));
        let halvings = |n: u64| at(100 + 50 * n);
        assert_eq!(aging.next_halving(halvings(61)), halvings(62));
        assert_eq!(aging.next_halving(halvings(62)), Time::MAX, "nothing is left of any rate");
        assert_eq!(rate(100_000), 8000, "a packet a second");
        assert_eq!(aging.next_halving(at(100_000)), Time::MAX);
    }
}
