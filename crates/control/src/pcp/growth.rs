//! How much more rate is available, and how long a queue a flow accepts.
//!
//! The paper remarks that a sender "can pick the probe rate that maximizes its expected yield" (section 3.3). Two
//! observations show more than the results of probes:
//!
//! *How busy the link is.* Packets that found the link idle did not wait. Of `n` packets, those of the train and of the
//! last round trip, `m` waited: other flows use `(m + 1) / (n + 2)` of the capacity `C` (`utilization_by_others`), and
//! the flow itself uses `r / C`. If all flows grow by the same factor, the link is full but not overloaded at
//!
//! ```text
//! 1 / ((m + 1) / (n + 2) + r / C)          proportionate increase, the mirror of section 3.2's proportionate decrease
//! ```
//!
//! So a lone flow may take the whole link at once, and many flows that find a link half used double their rates.
//! `MAX_JUMP` limits what several flows take of the same free capacity in one round trip.
//!
//! *What the queue shows.* Where a queue stands, all packets wait and the results of trains are chance. Then the test
//! rate is the pressure on the flow, which is negative where more rate is available (see `compensation`).
//!
//! *The target queue* of a flow is `1 + target * ln(C / r)` packet times. The 1 is within the jitter that clocks and
//! the order of packets cause on an idle link. `n` flows agree on a queue that grows with `ln(n)` and on equal rates,
//! because a flow with a higher rate has a lower target and reduces its rate first. Up to `ceiling` times the target
//! may stand for a few round trips: when a flow ends, the queue keeps the link busy until the others detect it. The
//! paper has "the rule also improves efficiency under heavy load by keeping the queue non-empty" (section 3.3). A
//! single target of `1 + 10 ln(C / r)` for both gave a queue of 22 packets with ten long flows; a single target of `1 +
//! 3 ln(C / r)` takes 841 ms at Figure 4's 0.90, where target and ceiling take 757 (two seeds).

use rampmeter_units::{Duration, Rate};

use super::queue::WaitCount;

/// The factor by which all flows on a link of `capacity` may grow, for a flow with the base rate `base`.
pub(super) fn factor(waits: WaitCount, base: Rate, capacity: Rate) -> f64 {
    1.0 / (waits.utilization_by_others() + base.as_bps_f64() / capacity.as_bps_f64())
}

/// The target queue of a flow of `rate`, if a packet takes `packet` at `capacity`.
pub(super) fn target(target: f64, rate: Rate, capacity: Rate, packet: Duration) -> Duration {
    let fraction = capacity.as_bps_f64() / rate.as_bps_f64().max(1.0);
    packet.scale(if target > 0.0 { 1.0 + target * fraction.max(1.0).ln() } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Rate = Rate::from_bps(40_000_000);

    #[test]
    fn a_lone_flow_may_fill_the_link_and_others_share_the_rest() {
        let alone = WaitCount { waited: 0, all: 998 };
        assert!((factor(alone, LINK.scale(0.25), LINK) - 1.0 / 0.251).abs() < 1e-9);
        let half = WaitCount { waited: 24, all: 98 }; // other flows use a quarter, and the flow another
        assert!((factor(half, LINK.scale(0.25), LINK) - 2.0).abs() < 1e-9);
        let full = WaitCount { waited: 74, all: 98 };
        assert!((factor(full, LINK.scale(0.25), LINK) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn equal_flows_have_equal_targets_and_larger_ones_less() {
        let packet = Duration::from_micros(250);
        assert_eq!(target(0.0, LINK.scale(0.5), LINK, packet), Duration::ZERO);
        assert_eq!(target(10.0, LINK, LINK, packet), packet);
        assert_eq!(target(10.0, LINK.scale(0.125), LINK, packet), packet.scale(1.0 + 10.0 * 8_f64.ln()));
        assert!(target(10.0, LINK.scale(0.5), LINK, packet) < target(10.0, LINK.scale(0.3), LINK, packet));
    }
}
