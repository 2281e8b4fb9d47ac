//! What a destination is remembered for.

use rampmeter_units::{Duration, Rate};

/// What earlier macroflows learnt of the path to one destination (PCP section 3.4).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct History {
    /// Base rate that earlier transfers reached: a running mean.
    pub base_rate: Rate,
    /// What the path carries when nobody else is there: a running mean; zero if unknown.
    pub capacity: Rate,
    /// Mean deviation of that rate.
    pub deviation: Rate,
    /// Share of a third of `base_rate` to try first, in (0, 1]: halved after an inaccurate prediction, doubled after an
    /// accurate one.
    pub trust: f64,
    /// 1 if the last transfer ended beside flows that do not give way to PCP, else 0. One that ended before it knew leaves
    /// it as it was, and 1 if nothing was known.
    pub rivals: f64,
    /// Rate of the last transfer when it ended, if it competed with them then: no more than half of what the path carries,
    /// because somebody else is there. Zero if it did not. Of use for seconds, so that no file keeps it.
    pub competed: Rate,
    /// How late packets come although no queue holds them up, most of them: hosts' doing.
    pub lateness: Duration,
    /// Least round-trip time of a full packet.
    pub min_rtt: Duration,
}

impl History {
    /// A path that takes `min_rtt` and on which `base_rate` was reached; nothing else is known of it.
    pub fn new(base_rate: Rate, min_rtt: Duration) -> Self {
        Self {
            base_rate,
            capacity: Rate::ZERO,
            deviation: Rate::ZERO,
            trust: 1.0,
            rivals: 0.0,
            competed: Rate::ZERO,
            lateness: Duration::ZERO,
            min_rtt,
        }
    }
}
