//! The numbers in PCP's paper, each with its section. The paper's values are the defaults.

use rampmeter_units::Rate;
use rampmeter_units::settings::check_range;
use serde::{Deserialize, Serialize};

use crate::Settings;
use crate::parts::check::require;

/// Settings of PCP as its paper describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Packets in a probe. Below `k` packets per round trip a probe divides one full packet into as many (section 3.1).
    pub k: usize,
    /// The maximum share of the base rate that rate compensation removes in one round trip (section 3.2).
    pub max_cut: f64,
    /// The share of a round trip's delays that is discarded at each end, the lowest and the highest (section 3.2).
    pub outliers: f64,
    /// The minimum test rate, as a share of the base rate (section 3.3).
    pub min_test: f64,
    /// The maximum interval between two probes, in round trips (section 3.3).
    pub max_interval: f64,
    /// The share of the remembered rate that the first probe asks for (section 3.4).
    pub first_test: f64,
    /// The divisor of rate compensation while it has no effect (section 3.5).
    pub tit_for_tat: f64,
    /// Use round-trip times instead of one-way delays, as with a TCP receiver (section 3.5).
    pub round_trip: bool,
    /// The base rate that every flow finds in its history, instead of the real one (section 4.2.3, Figure 7).
    pub rigged: Option<Rate>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            k: 5,
            max_cut: 0.5,
            outliers: 0.1,
            min_test: 0.01,
            max_interval: 100.0,
            first_test: 1.0 / 3.0,
            tit_for_tat: 10.0,
            round_trip: false,
            rigged: None,
        }
    }
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        require((3..=64).contains(&self.k), || format!("k is {} packets; use 3 to 64; the paper has 5", self.k))?;
        check_range("max_cut", self.max_cut, 0.0..=0.9, "of the base rate")?;
        check_range("outliers", self.outliers, 0.0..=0.45, "of the delays")?;
        check_range("min_test", self.min_test, 1e-6..=1.0, "of the base rate")?;
        check_range("max_interval", self.max_interval, 1.0..=1e6, "round trips")?;
        check_range("first_test", self.first_test, 1e-6..=1.0, "of the remembered rate")?;
        check_range("tit_for_tat", self.tit_for_tat, 1.0..=1e6, "as a divisor")?;
        require(self.rigged != Some(Rate::ZERO), || "rigged is zero; use for example \"40 Mb/s\"".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_refused_by_name() {
        assert_eq!(Config::default().check(), Ok(()));
        for (text, name) in [
            ("k = 2", "k"),
            ("max_cut = 1.0", "max_cut"),
            ("outliers = 0.5", "outliers"),
            ("min_test = 0.0", "min_test"),
            ("max_interval = nan", "max_interval"),
            ("first_test = 2.0", "first_test"),
            ("tit_for_tat = 0.1", "tit_for_tat"),
            ("rigged = '0 Mb/s'", "rigged"),
        ] {
            let config: Config = toml::from_str(text).unwrap();
            let error = config.check().unwrap_err();
            assert!(error.starts_with(&format!("{name} is ")), "{error}");
        }
    }
}
