//! The settings of the end host: the lower part of VCP's Table I, and values that the paper leaves open.

use rampmeter_units::settings::check_range;
use rampmeter_units::{Duration, LoadCodes};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::Settings;
use crate::parts::check::check_first_window;

/// The bounds of the load interval.
const MIN_INTERVAL: Duration = Duration::from_millis(1);
const MAX_INTERVAL: Duration = Duration::from_secs(10);

/// Settings of a VCP sender.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The load interval (`t_rho`), in which all parameters are defined; it must be that of the routers.
    #[default(Duration::from_millis(200))]
    pub load_interval: Duration,
    /// The relative increase of the window in a load interval of low load (`xi`, MI).
    #[default(0.0625)]
    pub mi: f64,
    /// The increase in a load interval of high load, in packets (`alpha`, AI).
    #[default(1.0)]
    pub ai: f64,
    /// The share of the window that remains after overload (`beta`, MD).
    #[default(0.875)]
    pub md: f64,
    /// The maximum scale factor of AI (`sigma_ai`).
    #[default(10.0)]
    pub ai_limit: f64,
    /// The round-trip time that scales MI and AI.
    #[default(RoundTrip::Min)]
    pub round_trip: RoundTrip,
    /// The minimum window after overload, in packets; 1 is the paper's. At 0.5 one packet is sent every second round
    /// trip.
    #[default(0.05)]
    pub min_window: f64,
    /// The quantity in which flows of different round trips are equal.
    #[default(Fairness::Rate)]
    pub fairness: Fairness,
    /// When packets are spread over the round trip.
    #[default(Pacing::LongPaths)]
    pub pacing: Pacing,
    /// How a window becomes a number of packets.
    #[default(Rounding::Random)]
    pub rounding: Rounding,
    /// The factor of AI: flows share a link in proportion to their weights (section IV-D).
    #[default(1.0)]
    pub weight: f64,
    /// Uses `3 (1 - md) / (1 + md)` as `ai`, with which a flow competes with TCP as a TCP flow does (section VI-C).
    pub tcp_friendly: bool,
    /// The codes of the regions; the same for all routers and hosts of a network.
    #[default(LoadCodes::Ect1Low)]
    pub codes: LoadCodes,
    /// First window, in packets: RFC 6928's 10. The paper has none; the TCP of its time started with 1 or 2.
    #[default(10)]
    pub initial_window: u64,
    /// The number of packets in a row without a code after which the path counts as clearing codes, and of packets with
    /// a code after which it does not any more. 0: never.
    #[default(8)]
    pub cleared_codes_after: u64,
    /// The number of losses and overloads, without any high load before, after which the path counts as one without a
    /// VCP router. 0: never.
    #[default(3)]
    pub missing_router_after: u64,
}

/// The quantity in which flows of different round trips are equal (section III-D).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fairness {
    /// Rates: AI grows with the square of the round trip, equation (8).
    #[default]
    Rate,
    /// Windows: AI grows with the round trip, equation (7); rates are proportional to 1 / rtt.
    Window,
    /// Neither: `ai` packets a round trip of any length, as in TCP.
    Tcp,
}

/// The round-trip time that scales growth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoundTrip {
    /// The minimum: the path without its queues.
    #[default]
    Min,
    /// The paper's: the smoothed round-trip time, queues included.
    Smoothed,
}

/// When packets are spread over the round trip, instead of being sent on acknowledgements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pacing {
    /// If the round trip is longer than the load interval, where routers would otherwise measure different loads of the
    /// same window. Also if the window is less than a packet, because one is then sent every several round trips.
    #[default]
    LongPaths,
    /// Never, as in the paper.
    Never,
    /// On all paths.
    Always,
}

/// How a window becomes a number of packets in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rounding {
    /// Up with the probability of its fraction, drawn at every cut.
    #[default]
    Random,
    /// Down, as in ns-2.
    Down,
}

impl Config {
    /// `alpha` before scaling: with the weight, and that of TCP with `tcp_friendly`.
    pub(crate) fn alpha(&self) -> f64 {
        let alpha = if self.tcp_friendly { 3.0 * (1.0 - self.md) / (1.0 + self.md) } else { self.ai };
        alpha * self.weight
    }
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        if !(MIN_INTERVAL..=MAX_INTERVAL).contains(&self.load_interval) {
            let interval = self.load_interval;
            return Err(format!(
                "load_interval is {interval}: write that of the routers, {MIN_INTERVAL} to {MAX_INTERVAL}; 200 ms is usual"
            ));
        }
        check_range("md", self.md, 0.1..=0.999, "of the window; VCP's is 0.875")?;
        check_range("mi", self.mi, 0.0001..=1000.0, "of the window; 0.0625 is usual")?;
        check_range("ai", self.ai, 0.001..=1000.0, "packets; 1 is usual")?;
        check_range("ai_limit", self.ai_limit, 0.001..=1000.0, "as a factor; 10 is usual")?;
        check_range("weight", self.weight, 0.001..=1000.0, "as a factor; 1 is usual")?;
        check_range("min_window", self.min_window, 0.001..=1.0, "packets; 0.05 is usual")?;
        if self.tcp_friendly && self.ai != Self::default().ai {
            return Err(
                "ai does nothing with tcp_friendly, which replaces it with 3 (1 - md) / (1 + md): remove one of them"
                    .into(),
            );
        }
        check_first_window(self.initial_window)
    }
}
