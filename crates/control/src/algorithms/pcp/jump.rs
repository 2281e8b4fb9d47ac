//! Failed jumps: a train was accepted, and the path did not carry its rate.
//!
//! A few packets may pass where a steady stream of that rate does not: a token bucket forwards as many bytes at once as
//! it holds, at the rate of the link in front of it. Neither probes nor packet pairs show the rate at which it fills.
//! A flow that grows in small steps sees it: the steps exceed it a little for a round trip, which empties the bucket,
//! and then delays grow as on any link.
//!
//! ```text
//! small step  SMALL_STEP of the base rate, or the minimum test rate
//! jump        an accepted train raises the rate by more than a small step
//! failed      excess loss (`excess_loss`) within FAILS_WITHIN round trips: the grant was wrong
//! from then   a test raises the rate by a small step at most, or up to the carried rate
//! carried     the highest base rate at which a train was accepted since the last excess loss, or the one that this
//!             loss left
//! ```
//!
//! Up to the carried rate a flow may jump, so that it has its share again after cuts for other reasons. Until a jump has
//! failed, excess loss without a jump changes no test: other flows sent more. If it did, Jain's index of three flows in
//! both directions would be 0.73 instead of 0.98 (`rampmeter claims pcp two-way.fair --quick`). Idle time keeps the
//! limit: it is a property of the path. `studies/pcp/NOTES.md` has the designs that were tried.
//!
//! A flow with fewer than five packets per round trip finds excess loss too late for this rule, because `excess_loss`
//! counts 16 packets at least.

use rampmeter_units::{Duration, Rate, Time};

/// The maximum test rate after a failed jump, as a share of the base rate. With an eighth flows behind token buckets lose
/// up to 1.3 times as much.
const SMALL_STEP: f64 = 1.0 / 16.0;

/// The number of round trips after a jump in which excess loss shows that it failed: one to send at the new rate, one
/// until its feedback arrives, and one to count the losses.
const FAILS_WITHIN: u64 = 3;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Jump {
    /// When the last jump was made.
    made: Option<Time>,
    /// Once a jump has failed: the highest rate that the flow had for a round trip since the last excess loss.
    carried: Option<Rate>,
}

impl Jump {
    /// A train was accepted: the rate rises from `base` by `more`. `min_test` is the minimum test rate.
    pub(super) fn on_accepted(&mut self, now: Time, base: Rate, more: Rate, min_test: Rate) {
        self.carried = self.carried.map(|carried| carried.max(base));
        self.made = if more > small_step(base, min_test) { Some(now) } else { self.made };
    }

    /// Too many packets were lost in a round trip; `base` is the base rate after its reduction.
    pub(super) fn on_excess_loss(&mut self, now: Time, rtt: Duration, base: Rate) {
        if self.carried.is_some() || self.made.is_some_and(|made| now.since(made) < rtt * FAILS_WITHIN) {
            self.carried = Some(base);
        }
    }

    /// The maximum test rate of a flow with the base rate `base` and the minimum test rate `min_test`.
    pub(super) fn max_test(self, base: Rate, min_test: Rate) -> Rate {
        self.carried.map_or(Rate::MAX, |carried| carried.saturating_sub(base).max(small_step(base, min_test)))
    }
}

fn small_step(base: Rate, min_test: Rate) -> Rate {
    base.scale(SMALL_STEP).max(min_test)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    fn mbps(rate: u64) -> Rate {
        Rate::from_bps(rate * 1_000_000)
    }

    fn at(round_trips: u64) -> Time {
        Time::ZERO + RTT * round_trips
    }

    /// A flow of 64 Mb/s that was granted `more` and had excess loss `round_trips` later, which halved its rate.
    fn after(more: u64, round_trips: u64) -> Jump {
        let mut jump = Jump::default();
        jump.on_accepted(at(1), mbps(64), mbps(more), Rate::ZERO);
        jump.on_excess_loss(at(1 + round_trips), RTT, mbps(32));
        jump
    }

    #[test]
    fn excess_loss_soon_after_a_jump_limits_later_tests() {
        assert_eq!(after(5, 2).max_test(mbps(32), Rate::ZERO), mbps(2));
        assert_eq!(after(5, 3).max_test(mbps(32), Rate::ZERO), Rate::MAX, "too late");
        assert_eq!(after(4, 2).max_test(mbps(32), Rate::ZERO), Rate::MAX, "a small step is no jump");
        assert_eq!(Jump::default().max_test(mbps(32), Rate::ZERO), Rate::MAX);
    }

    #[test]
    fn the_minimum_test_is_a_small_step() {
        assert_eq!(after(5, 2).max_test(mbps(32), mbps(3)), mbps(3));
        let mut jump = Jump::default();
        jump.on_accepted(at(0), mbps(64), mbps(8), mbps(8));
        jump.on_excess_loss(at(1), RTT, mbps(32));
        assert_eq!(jump.max_test(mbps(32), Rate::ZERO), Rate::MAX);
    }

    #[test]
    fn small_steps_do_not_hide_an_earlier_jump() {
        let mut jump = Jump::default();
        jump.on_accepted(at(0), mbps(64), mbps(64), Rate::ZERO);
        jump.on_accepted(at(1), mbps(128), mbps(1), Rate::ZERO);
        jump.on_excess_loss(at(2), RTT, mbps(64));
        assert_eq!(jump.max_test(mbps(64), Rate::ZERO), mbps(4));
    }

    #[test]
    fn a_flow_may_jump_to_the_rate_that_the_path_carried() {
        let mut jump = after(64, 1);
        jump.on_accepted(at(10), mbps(32), mbps(2), Rate::ZERO);
        jump.on_accepted(at(11), mbps(34), mbps(2), Rate::ZERO);
        assert_eq!(jump.max_test(mbps(10), Rate::ZERO), mbps(24));
        jump.on_excess_loss(at(30), RTT, mbps(17));
        assert_eq!(jump.max_test(mbps(10), Rate::ZERO), mbps(7), "excess loss, without a jump");
    }
}
