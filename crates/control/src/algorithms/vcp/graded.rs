//! The numbers with which a sender follows graded codes: [`vcp_plus`](crate::vcp_plus) has the model.

use rampmeter_units::{Duration, LoadRegion};

use super::{Config, MAX_MI_ROUNDS};

/// `kappa` of equation (5), at which `mi` is the paper's 0.0625.
pub(crate) const KAPPA: f64 = 0.25;

/// Packets leave at up to this many times the window over the round trip: twice, but at most one load interval of a
/// round trip is without packets. Routers would measure a longer burst as overload, and what follows as low load.
pub(crate) fn pacing_gain(rounds: f64) -> f64 {
    if rounds > 2.0 { rounds / (rounds - 1.0) } else { 2.0 }
}

/// The number of load intervals for which a window is rounded with the same random number. More often changes the order
/// of packets, which lengthens queues; less often leaves flows of a packet or two with unequal rates for longer.
pub(crate) const INTERVALS_PER_ROUNDING: u64 = 10;

/// The time from the acknowledgement of a packet to the departure of the next, with a window below one packet.
pub(crate) fn pause(window: f64, rtt: Duration) -> Duration {
    rtt.scale(1.0 / window - 1.0)
}

/// The number of packets over which AI spreads one packet, where a flow has `in_interval` packets in a load interval
/// (`x`). The paper's is `x / alpha`; this one bounds AI by half of the strongest decrease.
pub(crate) fn packets_per_increment(in_interval: f64, alpha: f64) -> f64 {
    in_interval / alpha + 2.0 / KAPPA
}

/// The change of the window, in packets, by an acknowledged packet with the code of `region`. `rounds` is `rtt / t_rho`.
pub(crate) fn change(config: &Config, region: LoadRegion, window: f64, rounds: f64) -> f64 {
    let intervals = rounds.min(MAX_MI_ROUNDS);
    let in_interval = window / rounds; // x
    let additive = intervals / packets_per_increment(in_interval, config.alpha());
    additive
        + match region {
            LoadRegion::Low => libm::expm1(intervals * libm::log1p(config.mi)), // eq. (6)
            LoadRegion::High => 0.0,
            // Not compounded as MI: the load at which flows settle would depend on the round trip, and so their rates.
            LoadRegion::Over => -KAPPA * intervals,
        }
}
