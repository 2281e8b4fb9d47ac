//! Settings, and the constants that several parts use, with their reasons.

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

/// The queue that a flow keeps: so many packets, and so many more for each e-fold of its window below the path's
/// bandwidth-delay product. All flows see the same queue, so their windows become equal, and a newcomer reads its share
/// from that queue (`start`). Smaller steps cost time at high load, larger ones delay.
pub(super) const TARGET: f64 = 1.0;
pub(super) const TARGET_STEP: f64 = 7.0;

/// The number of flows whose queue does not count as variation of the path.
pub(super) const MAX_FLOWS: f64 = 50.0;

/// The queue that a flow keeps besides, as a multiple of the path's own variation, so that something waits when the
/// path carries more: with 1.3 a flow has 0.95 of CUBIC's or BBR's goodput over LTE, 5G, Wi-Fi and Starlink.
pub(super) const VARIATION_TARGET: f64 = 1.3;

/// The maximum variation, as a share of the minimum round-trip time: one round trip more is never kept.
pub(super) const MAX_VARIATION: f64 = 0.67;

/// Where the path varies, the capacity is not known well enough to show a flow's share. There each flow keeps so many
/// packets of its own, for at most a multiple of the variation.
pub(super) const OWN_PACKETS: f64 = 10.0;
pub(super) const MAX_OWN: f64 = 3.0;

/// The gain with which a window approaches its target queue from below and from above.
pub(super) const GAIN_UP: f64 = 1.5;
pub(super) const GAIN_DOWN: f64 = 0.5;

/// What a flow keeps of its window in a round trip, however long the queue, and how much it grows at most, whatever the
/// capacity seems to be: pairs and receivers may be wrong.
pub(super) const MAX_FALL: f64 = 0.5;
pub(super) const MAX_GROWTH: f64 = 8.0;

/// A packet waited if its delay is longer than the minimum by so many packet times.
pub(super) const BUSY_WAIT: f64 = 0.15;

/// The delivery rate of a busy link, times this, is its capacity where the path varies: what it carries may grow by so
/// much in a round trip.
pub(super) const HEADROOM: f64 = 1.25;

/// The share of the capacity with which a flow starts on an idle path (section 3.4).
pub(super) const FIRST_SHARE: f64 = 1.0 / 3.0;

/// The minimum window: a packet every five round trips.
pub(super) const MIN_WINDOW: f64 = 0.2;

/// The share of its rate that a flow keeps while it drains.
pub(super) const DRAIN_SHARE: f64 = 0.25;

/// The length of a drain, as a share of the interval between drains.
pub(super) const DRAIN_LENGTH: f64 = 0.04;

/// The interval between drains is at least so many round trips.
pub(super) const DRAIN_ROUNDS: f64 = 10.0;

/// Unanswered packets from which an expiry of the retransmission timer means that no feedback arrives.
pub(super) const MAX_UNANSWERED: u64 = 3;

/// The delay of this host's timers that packets make up for, as a multiple of the time of a bunch.
pub(super) const TIMER_SLACK: u64 = 2;

/// The maximum number of packets in a bunch: at 1500 bytes, what two buffers carry to the kernel.
pub(super) const MAX_BUNCH: u64 = 88;

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
