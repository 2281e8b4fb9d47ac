//! The history of a destination: measurements that later macroflows start with.

use rampmeter_units::{Duration, Rate};

/// Measurements of earlier macroflows on the path to one destination (PCP section 3.4).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct History {
    /// The rate that earlier transfers reached: with `pcp-paper` a running mean, with `pcp` that of the last one.
    pub base_rate: Rate,
    /// The capacity of the path; zero if unknown.
    pub capacity: Rate,
    /// The first rate that `pcp-paper` tries, as a share of a third of `base_rate`, in (0, 1]. It is halved after an
    /// inaccurate prediction and doubled after an accurate one.
    pub trust: f64,
    /// Up to 1 if earlier transfers ended beside competing traffic, else 0. A transfer that ended before it could decide
    /// leaves the value unchanged, and two transfers make it certain.
    pub competing_traffic: f64,
    /// The rate at which the last transfer ended, if it was in competitive mode then, else zero. It is at most half of
    /// the capacity, because the competing traffic uses the rest. It is valid for seconds only, so no file stores it.
    pub competitive_rate: Rate,
    /// How much the path itself varies: the spread of a round trip's delays where no queue rises.
    pub variation: Duration,
    /// The minimum round-trip time of a full packet.
    pub min_rtt: Duration,
}

impl History {
    /// The history of a path on which `min_rtt` and `base_rate` were measured and nothing else.
    pub fn new(base_rate: Rate, min_rtt: Duration) -> Self {
        Self {
            base_rate,
            capacity: Rate::ZERO,
            trust: 1.0,
            competing_traffic: 0.0,
            competitive_rate: Rate::ZERO,
            variation: Duration::ZERO,
            min_rtt,
        }
    }
}
