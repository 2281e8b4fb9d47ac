//! The numbers in PCP's paper, each with its section: settings first, then constants.

use rampmeter_units::Rate;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::Settings;
use crate::parts::check::require;

/// Settings of PCP as its paper describes it.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Packets in a probe. Below `k` packets per round trip a probe divides one full packet into as many (section 3.1).
    #[default(5)]
    pub k: usize,
    /// Use round-trip times instead of one-way delays, as with a TCP receiver (section 3.5).
    pub round_trip: bool,
    /// The base rate that every flow finds in its history, instead of the real one (section 4.2.3, Figure 7).
    pub rigged: Option<Rate>,
}

/// The maximum share of the base rate that rate compensation removes in one round trip (section 3.2).
pub(super) const MAX_CUT: f64 = 0.5;

/// The share of a round trip's delays that is discarded at each end, the lowest and the highest (section 3.2).
pub(super) const OUTLIERS: f64 = 0.1;

/// The minimum test rate, as a share of the base rate (section 3.3).
pub(super) const MIN_TEST: f64 = 0.01;

/// The maximum interval between two probes, in round trips (section 3.3).
pub(super) const MAX_INTERVAL: f64 = 100.0;

/// The share of the remembered rate that the first probe asks for (section 3.4).
pub(super) const FIRST_TEST: f64 = 1.0 / 3.0;

/// The divisor of rate compensation while it has no effect (section 3.5).
pub(super) const TIT_FOR_TAT: f64 = 10.0;

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        require((3..=64).contains(&self.k), || format!("k is {} packets; use 3 to 64; the paper has 5", self.k))?;
        require(self.rigged != Some(Rate::ZERO), || "rigged is zero; use for example \"40 Mb/s\"".into())
    }
}
