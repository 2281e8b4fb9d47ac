//! How much more rate is available, and how long a queue a flow accepts.
//!
//! The paper remarks that a sender "can pick the probe rate that maximizes its expected yield" (section 3.3). Two
//! observations show more than the results of probes:
//!
//! *How busy the link is.* The flow's own packets are spaced, so one that waits finds other flows' packets. If these
//! keep the link busy for the share `rho` of the time, and arrive at random, it waits no longer than `BUSY_WAIT` packet
//! times with the probability `(1 - rho) exp(BUSY_WAIT rho)` (M/D/1, Erlang 1909): it may meet the end of a packet. Of
//! `n` packets, those of the last train and the last round trip, `m` wait longer, and
//!
//! ```text
//! 1 - m / n = (1 - rho) exp(BUSY_WAIT rho)
//! others    = (n rho grew + 1) / (n + 2)             of the capacity C, by Laplace's rule: few packets prove little
//! join      = others / (others + r / C)              the part of the other traffic that grows, too
//! factor    = (1 - others (1 - join)) / (r / C + others join)
//! ```
//!
//! If that part grows by the same factor, the link is full but not overloaded. The factor is 1 / rho for many flows,
//! the mirror of section 3.2's proportionate decrease. A flow beside one other of the same rate takes two thirds of what
//! is left: many flows find the link idle together, of two often one. `MAX_JUMP` limits what several flows take of the
//! same free capacity in one round trip. *Grew*: a train that starts at once after a rise returns with waits from before
//! it, so the other flows are assumed to have grown since as this one has (`Rise`).
//!
//! Thirty flows on 200 Mb/s and 80 ms grew too far every eight round trips when `rho` was `m / n` and the others were
//! not assumed to have grown: after two minutes their Jain's index was 0.36 to 0.62, and is 0.94 (`rampmeter claims pcp
//! many`; `studies/pcp/NOTES.md` has the designs).
//!
//! *Deviation*: with noise above `BUSY_WAIT` packet times only longer waits count (`min_busy_wait`), and the
//! utilization is too low: 0.87 instead of 0.95 from waits of two packet times. On real hosts this is so from some 300
//! Mb/s on, as they delay packets by 20 us themselves (`HOST_DELAY`).
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

use rampmeter_units::{Duration, Rate, Time};

use super::config::BUSY_WAIT;
use super::queue::WaitCount;

/// The last rise of the base rate by a train.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rise {
    at: Time,
    /// The base rate before it.
    from: Rate,
}

impl Rise {
    /// The base rate rises now from `from`.
    pub(super) fn new(now: Time, from: Rate) -> Self {
        Self { at: now, from }
    }

    /// The factor by which the rate has grown, to `base`, since packets left in the round trip before a train that
    /// started at `started`: their waits are known when it is judged.
    pub(super) fn since(self, started: Time, rtt: Duration, base: Rate) -> f64 {
        let is_counted = self.at + rtt > started && self.from > Rate::ZERO;
        if is_counted { (base.as_bps_f64() / self.from.as_bps_f64()).max(1.0) } else { 1.0 }
    }
}

/// The factor by which a flow with the base rate `base` may grow on a link of `capacity`. Since the packets left that
/// `waits` counts, the other flows `grew` by that factor.
pub(super) fn factor(waits: WaitCount, grew: f64, base: Rate, capacity: Rate) -> f64 {
    let own = base.as_bps_f64() / capacity.as_bps_f64();
    let others = (waits.all as f64 * utilization(waits.share()) * grew + 1.0) / (waits.all as f64 + 2.0);
    let join = others / (others + own);
    (1.0 - others * (1.0 - join)) / (own + others * join)
}

/// The utilization at which this share of packets waits longer than `BUSY_WAIT`: the root of `share - 1 + (1 - rho)
/// exp(BUSY_WAIT rho)`, which is concave and falls, by Newton's method.
fn utilization(share: f64) -> f64 {
    (0..NEWTON_STEPS).fold(share, |rho, _| {
        let exp = libm::exp(BUSY_WAIT * rho);
        let excess = share - 1.0 + (1.0 - rho) * exp;
        rho + excess / (exp * (1.0 - BUSY_WAIT * (1.0 - rho)))
    })
}

/// More steps change nothing.
const NEWTON_STEPS: usize = 4;

/// The target queue of a flow of `rate`, if a packet takes `packet` at `capacity`.
pub(super) fn target(target: f64, rate: Rate, capacity: Rate, packet: Duration) -> Duration {
    let fraction = capacity.as_bps_f64() / rate.as_bps_f64().max(1.0);
    packet.scale(if target > 0.0 { 1.0 + target * libm::log(fraction.max(1.0)) } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Rate = Rate::from_bps(40_000_000);

    #[test]
    fn a_lone_flow_may_fill_the_link_and_many_share_the_rest() {
        let alone = WaitCount { waited: 0, all: 998 };
        assert!((factor(alone, 1.0, LINK.scale(0.25), LINK) * 0.25 - 1.0).abs() < 0.01);
        // At a utilization of 0.5 a share of 1 - 0.5 exp(0.3) = 0.325 waits longer than 0.6 packets.
        let half = WaitCount { waited: 325, all: 1000 };
        assert!((factor(half, 1.0, LINK.scale(0.01), LINK) - 1.0 / 0.51).abs() < 0.02, "one of fifty");
        // Two thirds of the others join: 0.25 of the link grows, and 1/3 of 0.5 does not.
        let factor_of_one = factor(half, 1.0, LINK.scale(0.25), LINK);
        assert!((factor_of_one * (0.25 + 0.5 * 2.0 / 3.0) + 0.5 / 3.0 - 1.0).abs() < 1e-3, "{factor_of_one}");
        let full = WaitCount { waited: 998, all: 998 };
        assert!(factor(full, 1.0, LINK.scale(0.25), LINK) < 1.0);
    }

    #[test]
    fn the_utilization_has_the_share_of_waits_of_an_m_d_1_queue() {
        for n in 0..=1000 {
            let rho = f64::from(n) / 1000.0;
            let share = 1.0 - (1.0 - rho) * (BUSY_WAIT * rho).exp();
            assert!((utilization(share) - rho).abs() < 1e-3, "{rho}: {}", utilization(share));
        }
    }

    #[test]
    fn others_are_assumed_to_grow_with_the_flow() {
        let (before, after) = (WaitCount { waited: 325, all: 1000 }, WaitCount { waited: 608, all: 1000 });
        let (base, grown) = (LINK.scale(0.2), 1.5); // 1 - 0.25 exp(0.45) = 0.608 wait at a utilization of 0.75
        assert!((factor(before, grown, base, LINK) - factor(after, 1.0, base, LINK)).abs() < 2e-3);
    }

    #[test]
    fn a_rise_counts_for_a_train_within_a_round_trip() {
        let (rise, rtt) = (Rise::new(Time::from_nanos(1_000_000_000), LINK.scale(0.25)), Duration::from_millis(80));
        for (started, grew) in [(1000, 2.0), (1079, 2.0), (1080, 1.0)] {
            let started = Time::from_nanos(started * 1_000_000);
            assert_eq!(rise.since(started, rtt, LINK.scale(0.5)), grew, "{started}");
            assert_eq!(rise.since(started, rtt, LINK.scale(0.2)), 1.0, "a cut since");
        }
        assert_eq!(Rise::default().since(Time::ZERO, rtt, LINK), 1.0, "there was none");
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
