//! Settings of PCP.

use rampmeter_units::settings::check_range;
use rampmeter_units::{Duration, Rate, Settings};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::parts::check::require;

/// Settings of PCP.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Packets in the first round trip, unless the path is known to be idle; TCP's initial window (RFC 6928).
    #[default(10.0)]
    pub first_window: f64,
    /// The clock interval at which all flows drain a queue that stands. A path with a long round trip has a multiple of
    /// it.
    #[default(Duration::from_millis(2500))]
    pub drain_every: Duration,
    /// Use round-trip times instead of one-way delays, as with a receiver that does not report arrival times (section
    /// 3.5).
    pub round_trip: bool,
    /// The capacity that every flow finds in its history instead of the real one, on a path that it takes for idle, to
    /// measure the effect of a wrong history (section 4.2.3).
    pub rigged: Option<Rate>,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_range("first_window", self.first_window, 1.0..=1e3, "packets")?;
        let error = || format!("drain_every is {}; use \"100 ms\" to \"1 h\"", self.drain_every);
        require((Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&self.drain_every), error)?;
        require(self.rigged != Some(Rate::ZERO), || "rigged is zero; use for example \"40 Mb/s\"".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_refused_by_name() {
        assert_eq!(Config::default().check(), Ok(()));
        for (text, word) in [
            ("first_window = 0.5", "first_window"),
            ("drain_every = '1 ms'", "drain_every"),
            ("rigged = '0 Mb/s'", "rigged"),
        ] {
            let config: Config = toml::from_str(text).unwrap();
            let error = config.check().unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
