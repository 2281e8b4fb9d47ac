//! The end host's numbers: the lower part of VCP's Table I, and what the paper leaves to choose.

use rampmeter_units::{Duration, LoadCodes};
use serde::{Deserialize, Serialize};

use crate::Settings;
use crate::check::check_first_window;

/// Tunables of a VCP sender.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Routers' load interval, for which all parameters hold (`t_rho`); the same as theirs.
    pub load_interval: Duration,
    /// By what part the window grows in a load interval of low load (`xi`, MI).
    pub mi: f64,
    /// By how many packets it grows in a load interval of high load (`alpha`, AI).
    pub ai: f64,
    /// What is left of it at overload (`beta`, MD).
    pub md: f64,
    /// The most load intervals that a round trip counts for in MI (`sigma_mi`).
    pub mi_limit: f64,
    /// The most that AI is scaled by (`sigma_ai`).
    pub ai_limit: f64,
    /// Which round trip MI and AI are scaled by.
    pub round_trip: RoundTrip,
    /// The least window that overload leaves, in packets: 1 is the paper's. Half a packet is one every second round trip.
    pub min_window: f64,
    /// What flows of different round trips share equally.
    pub fairness: Fairness,
    /// When packets are spread over the round trip.
    pub pacing: Pacing,
    /// AI times this: flows share a link in the proportion of their weights (section IV-D).
    pub weight: f64,
    /// Takes `3 (1 - md) / (1 + md)` for `ai`, which competes with TCP as TCP does (section VI-C).
    pub tcp_friendly: bool,
    /// Which code stands for which region; the same for all routers and hosts of a network.
    pub codes: LoadCodes,
    /// First window, in packets: RFC 6928's 10. The paper gives none; the TCP of its day began with 1 or 2.
    pub initial_window: u64,
    /// How many packets in a row must arrive without a code for the path to count as clearing codes, and with one for it
    /// to count as mended. 0: never.
    pub cleared_codes_after: u64,
    /// After how many losses and overloads without ever a word of high load the path counts as one without a VCP router.
    /// 0: never.
    pub missing_router_after: u64,
}

/// What flows of different round trips share equally (section III-D).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fairness {
    /// Rates: AI grows with the square of the round trip, equation (8).
    #[default]
    Rate,
    /// Windows: AI grows with the round trip, equation (7); rates go with 1 / rtt.
    Window,
    /// Nothing: `ai` packets a round trip whatever its length, as TCP.
    Tcp,
}

/// Which round trip growth is scaled by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoundTrip {
    /// The least seen: the path without its queues.
    #[default]
    Least,
    /// The paper's: the smoothed one, queues included.
    Smoothed,
}

/// When packets are spread over the round trip, instead of leaving with the acknowledgements that make room for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pacing {
    /// Where it is longer than the load interval: else routers hear now much, now little of one and the same window.
    /// And where the window is less than a packet, as one is sent every so many round trips.
    #[default]
    LongPaths,
    /// The paper's.
    Never,
    /// On all paths.
    Always,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            load_interval: Duration::from_millis(200),
            mi: 0.0625,
            ai: 1.0,
            md: 0.875,
            mi_limit: 2.5,
            ai_limit: 10.0,
            round_trip: RoundTrip::Least,
            min_window: 0.05,
            fairness: Fairness::Rate,
            pacing: Pacing::LongPaths,
            weight: 1.0,
            tcp_friendly: false,
            codes: LoadCodes::Ect1Low,
            initial_window: 10,
            cleared_codes_after: 8,
            missing_router_after: 3,
        }
    }
}

impl Config {
    /// `alpha`, before scaling: weighted, and TCP's where that is asked for.
    pub(super) fn alpha(&self) -> f64 {
        let alpha = if self.tcp_friendly { 3.0 * (1.0 - self.md) / (1.0 + self.md) } else { self.ai };
        alpha * self.weight
    }
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        if self.load_interval == Duration::ZERO {
            return Err("load_interval is 0; routers measure over \"200 ms\"".into());
        }
        if self.md.is_nan() || self.md <= 0.0 || self.md >= 1.0 {
            return Err(format!("md = {} is what a cut leaves: above 0, below 1; VCP's is 0.875", self.md));
        }
        for (name, value, usual) in [
            ("mi", self.mi, "0.0625"),
            ("ai", self.ai, "1"),
            ("mi_limit", self.mi_limit, "2.5"),
            ("ai_limit", self.ai_limit, "10"),
            ("weight", self.weight, "1"),
        ] {
            if !(value > 0.0 && value <= 1000.0) {
                return Err(format!("{name} = {value}: above 0, at most 1000; usual is {usual}"));
            }
        }
        if self.tcp_friendly && self.ai != Self::default().ai {
            return Err("ai does nothing with tcp_friendly, which takes 3 (1 - md) / (1 + md) for it: keep one".into());
        }
        if !(self.min_window > 0.0 && self.min_window <= 1.0) {
            return Err(format!("min_window = {}: above 0, at most 1 packet; usual is 0.05", self.min_window));
        }
        check_first_window(self.initial_window)?;
        Ok(())
    }
}
