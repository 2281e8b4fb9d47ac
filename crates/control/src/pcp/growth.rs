//! How much there is to ask for: a probe's rate where the path has told more than yes and no.
//!
//! The paper doubles after a success and halves after a failure, and remarks that a sender "can pick the probe rate that
//! maximizes its expected yield" (section 3.3). Two things are known that the search does not use:
//!
//! *How busy the link is.* Packets that found it idle did not wait. Of `n` packets, the train's and those of the last
//! round trip, `m` waited: others use `(m + 1) / (n + 2)` of the capacity `C`, and the flow itself `r / C` (`busy`). If all
//! flows grow by the same factor, nothing is left idle and nothing overrun at
//!
//! ```text
//! 1 / ((m + 1) / (n + 2) + r / C)          proportionate increase, the mirror of section 3.2's proportionate decrease
//! ```
//!
//! A lone flow may have all at once; many flows that find a link half used each double, where doubling their *requests*
//! would overrun it. What several flows may take of the same free capacity in one round trip is bounded besides (`JUMP`).
//!
//! *What the queue says.* Where a queue stands, all packets wait and trains see only chance. Then the pressure on the
//! flow, which is negative where there is room, is what to ask for (see `compensation`).
//!
//! And *the queue that a flow aims at*: `1 + target * ln(C / r)` packet times. The 1 is within what clocks and the order of
//! packets make of an empty link; a lone flow aims at no more. `n` flows agree on a queue that grows with `ln(n)` and on
//! equal rates, as only then all aim at the same; a flow with more gives way first. Up to `ceiling` times as much may stand
//! for some round trips: when a flow ends, what it sent is missed only after the others had time to notice, and the
//! queue keeps the link busy meanwhile. The paper has "the rule also improves efficiency under heavy load by keeping the
//! queue non-empty" (section 3.3). One target of `1 + 10 ln(C / r)` for both had 22 packets wait behind ten long flows;
//! one of `1 + 3 ln(C / r)` takes 841 ms at Figure 4's 0.90, where both together take 757 (two seeds).

use rampmeter_units::{Duration, Rate};

use super::queue::WaitCount;

/// What is left of a link of `capacity` for a flow that has `base`, as the factor by which all on it may grow.
pub(super) fn factor(waits: WaitCount, base: Rate, capacity: Rate) -> f64 {
    1.0 / (waits.utilization_by_others() + base.as_bps_f64() / capacity.as_bps_f64())
}

/// The queue that a flow of `rate` aims at, given what a packet takes at `capacity`.
pub(super) fn target(target: f64, rate: Rate, capacity: Rate, packet: Duration) -> Duration {
    let fraction = capacity.as_bps_f64() / rate.as_bps_f64().max(1.0);
    packet.scale(if target > 0.0 { 1.0 + target * fraction.max(1.0).ln() } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Rate = Rate::from_bps(40_000_000);

    #[test]
    fn a_lone_flow_may_have_all_and_others_together_what_is_left() {
        let alone = WaitCount { waited: 0, all: 998 };
        assert!((factor(alone, LINK.scale(0.25), LINK) - 1.0 / 0.251).abs() < 1e-9);
        let half = WaitCount { waited: 24, all: 98 }; // others use a quarter, the flow another
        assert!((factor(half, LINK.scale(0.25), LINK) - 2.0).abs() < 1e-9);
        let full = WaitCount { waited: 74, all: 98 };
        assert!((factor(full, LINK.scale(0.25), LINK) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn equal_flows_aim_at_the_same_queue_and_a_larger_one_at_less() {
        let packet = Duration::from_micros(250);
        assert_eq!(target(0.0, LINK.scale(0.5), LINK, packet), Duration::ZERO);
        assert_eq!(target(10.0, LINK, LINK, packet), packet);
        assert_eq!(target(10.0, LINK.scale(0.125), LINK, packet), packet.scale(1.0 + 10.0 * 8_f64.ln()));
        assert!(target(10.0, LINK.scale(0.5), LINK, packet) < target(10.0, LINK.scale(0.3), LINK, packet));
    }
}
