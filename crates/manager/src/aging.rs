//! Exponential aging: how a macroflow sends while nothing comes back (`congestion-manager.md`, section 4.4).
//!
//! When a probe has gone unanswered for a round trip, the window stops counting and the rate of that moment is halved;
//! it is halved again with every half-life that passes until there is feedback. Where the paper is silent: feedback that
//! was late itself tells of the past, so that a later probe which is overdue by then begins it anew at once. When flows without probes say that
//! nothing comes back, the rate is first lowered to a packet a timeout, and the timeout is the half-life.
//!
//! ```text
//! rate(t) = rate / 2^(1 + floor((t - since) / half_life)), but at least a packet a second
//! ```
//!
//! Else the half-life is the *least* round trip. The mean one, which the paper found to be wrong, grows with the queue
//! that should be drained (its Figure 12).

use rampmeter_units::{Bytes, Duration, Rate, Time};

/// Which round trip is the half-life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HalfLife {
    /// The least.
    #[default]
    MinRtt,
    /// The smoothed mean.
    MeanRtt,
}

/// The longest time between packets.
const MAX_GAP: Duration = Duration::from_secs(1);

/// Time passes much faster than paths change: nothing is halved more often than this.
const MIN_HALF_LIFE: Duration = Duration::from_millis(1);

/// After that many not a bit a second is left of any rate.
const MAX_HALVINGS: u32 = 62;

/// Sending without feedback.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Aging {
    pub(crate) since: Time,
    rate: Rate,
    half_life: Duration,
    /// The silence has been told to the controller as persistent congestion.
    pub(crate) told: bool,
}

impl Aging {
    pub(crate) fn new(now: Time, rate: Rate, half_life: Duration) -> Self {
        Self { since: now, rate, half_life: half_life.max(MIN_HALF_LIFE), told: false }
    }

    fn halvings(&self, now: Time) -> u32 {
        1 + (now.since(self.since).as_nanos() / self.half_life.as_nanos()).min(MAX_HALVINGS.into()) as u32
    }

    /// The rate at `now`, for packets of that size.
    pub(crate) fn rate(&self, now: Time, packet: Bytes) -> Rate {
        Rate::from_bps(self.rate.as_bps() >> self.halvings(now)).max(Rate::of(packet, MAX_GAP))
    }

    /// The time from one packet's departure to the next one's.
    pub(crate) fn gap(&self, now: Time, packet: Bytes) -> Duration {
        self.rate(now, packet).time_to_send(packet)
    }

    /// When it is halved next; [`Time::MAX`] once there is nothing left to halve.
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
        assert_eq!(rate(100_000), 8000, "a packet a second");
        assert_eq!(aging.next_halving(at(100_000)), Time::MAX);
    }
}
