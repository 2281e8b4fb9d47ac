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
//! would overrun it. A newcomer may have a share (`newcomer`) of what is free.
//!
//! *What the queue says.* Where a queue stands, all packets wait and trains see only chance. Then the pressure on the
//! flow, which is negative where there is room, is what to ask for (see `compensation`).
//!
//! And *how large a queue a flow tolerates*: `1 + tolerance * ln(C / r)` packet times. The 1 is within what clocks and
//! the order of packets make of an empty link. A lone flow tolerates no more. `n` flows agree on a queue that grows with
//! `ln(n)` and on equal rates, as only then all tolerate the same; who has more gives way first. The
//! queue is there when a flow leaves: what it sent is missed only after others have had time to notice. The paper has
//! "the rule also improves efficiency under heavy load by keeping the queue non-empty" (section 3.3).

use rampmeter_units::{Duration, Rate};

use super::queue::Count;

/// What is left of a link of `capacity` for a flow that has `base`, as the factor by which all on it may grow.
pub(super) fn factor(fill: f64, met: Count, base: Rate, capacity: Rate) -> f64 {
    fill / (met.busy() + base.as_bps_f64() / capacity.as_bps_f64())
}

/// What a newcomer may take of it.
pub(super) fn welcome(share: f64, met: Count, capacity: Rate) -> Rate {
    capacity.scale(share * (1.0 - met.busy()))
}

/// The queue that a flow of `rate` lets be, given what a packet takes at `capacity`.
pub(super) fn tolerated(tolerance: f64, rate: Rate, capacity: Rate, packet: Duration) -> Duration {
    let fraction = capacity.as_bps_f64() / rate.as_bps_f64().max(1.0);
    packet.scale(if tolerance > 0.0 { 1.0 + tolerance * fraction.max(1.0).ln() } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Rate = Rate::from_bps(40_000_000);

    #[test]
    fn a_lone_flow_may_have_all_and_others_together_what_is_left() {
        let alone = Count { waited: 0, all: 998 };
        assert!((factor(1.0, alone, LINK.scale(0.25), LINK) - 1.0 / 0.251).abs() < 1e-9);
        let half = Count { waited: 24, all: 98 }; // others use a quarter, the flow another
        assert!((factor(1.0, half, LINK.scale(0.25), LINK) - 2.0).abs() < 1e-9);
        let full = Count { waited: 74, all: 98 };
        assert!((factor(1.0, full, LINK.scale(0.25), LINK) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn five_packets_that_met_nobody_do_not_prove_an_idle_link() {
        assert_eq!(welcome(0.7, Count { waited: 0, all: 5 }, LINK), LINK.scale(0.6));
    }

    #[test]
    fn equal_flows_tolerate_the_same_queue_and_the_larger_of_two_less() {
        let packet = Duration::from_micros(250);
        assert_eq!(tolerated(0.0, LINK.scale(0.5), LINK, packet), Duration::ZERO);
        assert_eq!(tolerated(10.0, LINK, LINK, packet), packet);
        assert_eq!(tolerated(10.0, LINK.scale(0.125), LINK, packet), packet.scale(1.0 + 10.0 * 8_f64.ln()));
        assert!(tolerated(10.0, LINK.scale(0.5), LINK, packet) < tolerated(10.0, LINK.scale(0.3), LINK, packet));
    }
}
