//! The settings. The surviving text of the report has no values, so all defaults are chosen here; none is the report's.

use rampmeter_units::settings::check_range;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::Settings;

/// Settings of a Stable TCP sender.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The increase of the window by an unmarked packet, in packets (`a0`), unless the cap on the decrease reduces it.
    /// It must satisfy the stability bound of the routers' marking: `a < p / (y p')`, section 2.
    #[default(0.02)]
    pub gain: f64,
    /// The sharing constant `S = a / (b T)`, in packets a second, the same for all flows of a network: a flow with a
    /// share `p` of its packets marked sends at `S (1 - p) / p`. Chosen so that 1% to 50% of packets are marked with 10
    /// to 100 flows on 10 Mb/s, or 10 to 1000 on 100 Mb/s.
    #[default(10.0)]
    pub sharing: f64,
    /// Whether `S` adapts to the queueing delay; `sharing` is then its maximum. Not in the report.
    pub adapt_sharing: bool,
    /// The maximum share of the window by which a mark reduces it (`b_max`).
    #[default(0.125)]
    pub max_decrease: f64,
    /// The minimum window, in packets (`w_min`).
    #[default(0.25)]
    pub min_window: f64,
    /// The first window, in packets: that of RFC 2581, the TCP of the report's time.
    #[default(2.0)]
    pub initial_window: f64,
    /// The number of marks that end soft start (`N`); 0: no soft start.
    #[default(8)]
    pub soft_start_marks: u32,
    /// The bytes in flight permitted beyond the window, in square roots of the window: `ceil(w + allowance sqrt(w))`. 0
    /// is the report's rule: see the deviations in [`crate::stable`].
    #[default(2.0)]
    pub allowance: f64,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_range("gain", self.gain, 1e-9..=0.999, "packets")?;
        check_range("max_decrease", self.max_decrease, 0.001..=0.99, "of the window")?;
        check_range("sharing", self.sharing, 0.001..=1e9, "packets a second; 10 is usual")?;
        check_range("min_window", self.min_window, 1e-3..=1.0, "packets")?;
        check_range("initial_window", self.initial_window, self.min_window..=1e6, "packets")?;
        check_range("allowance", self.allowance, 0.0..=100.0, "square roots of the window")
    }
}
