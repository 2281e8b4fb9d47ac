//! VCP+'s end host (beyond the paper): the paper's fluid model, whose load arrives in two bits.
//!
//! The fluid model of section V knows the load factor exactly; VCP's codes report only its region, so windows oscillate.
//! With graded codes the shares of the codes report the load, so that packets change the window, on average, as in the
//! model:
//!
//! ```text
//! share of low     (1/rho - 1) / (1/0.8 - 1)      rho < 1        each packet: MI by xi = 6.25%
//! share of over    1 - 1/rho                      rho >= 1       each packet: MD by kappa = 25%
//!
//! in a load interval:   W'/W = kappa (1/rho - 1) + 1 / (x / alpha + 2 / kappa)             eq. (9), (10)
//! ```
//!
//! `x` is the flow's number of packets in a load interval. The last term is AI. The model has `alpha / x`, which for
//! slow flows is more than the strongest decrease, `kappa`, so that no load would stop them; here it is at most half of
//! it. It depends on the rate alone, so flows of all round trips have equal rates.
//!
//! A full window stops a flow until an acknowledgement arrives. So a packet that waits in a queue delays the packet sent
//! a round trip later, and two flows that sent at the same time no longer do. With pacing at `W / rtt` alone these
//! phases remain random, and the queue is twice as long. A window of 6.3 packets is six or seven, at random, for ten
//! load intervals. One below a packet is one packet and then a pause. Pacing at `2 W / rtt` only limits bursts.
//!
//! The smoothed round trip scales growth. A queue does not sustain itself, as in VCP: AI depends on the rate alone.

use rampmeter_units::Random;
use serde::{Deserialize, Serialize};

use crate::vcp::{self, Vcp};
use crate::{Algorithm, Settings};

/// VCP+'s end host: VCP's, but for the reaction to codes, for rounding and pacing, for losses with windows below two
/// packets, which halve them too, and without slow start after a timeout.
pub type VcpPlus = Vcp<true>;

/// Settings of a VCP+ sender: those of [`vcp::Config`] without those that VCP+ fixes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Config(pub vcp::Config);

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        let (usual, ours) = (vcp::Config::default(), &self.0);
        for (name, is_usual) in [
            ("mi", ours.mi == usual.mi),
            ("md", ours.md == usual.md),
            ("ai_limit", ours.ai_limit == usual.ai_limit),
            ("round_trip", ours.round_trip == usual.round_trip),
            ("fairness", ours.fairness == usual.fairness),
            ("pacing", ours.pacing == usual.pacing),
            ("rounding", ours.rounding == usual.rounding),
            ("tcp_friendly", ours.tcp_friendly == usual.tcp_friendly),
        ] {
            if !is_usual {
                return Err(format!("{name} cannot be set in vcp-plus: remove it, or use the controller vcp"));
            }
        }
        ours.check()
    }
}

impl Algorithm for VcpPlus {
    type Config = Config;

    const NEEDS: Option<&'static str> = Some("needs the ECN code of each packet, and VCP+ routers");

    fn new(config: &Config, random: Random) -> Self {
        Self::with_config(&config.0, random)
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::LoadRegion;

    use super::*;
    use crate::vcp::graded::{KAPPA, change};

    const REGIONS: [LoadRegion; 3] = [LoadRegion::Low, LoadRegion::High, LoadRegion::Over];

    /// The relative change in a load interval of `rounds` per round trip, at a load of `rho`.
    fn in_an_interval(window: f64, rounds: f64, rho: f64) -> f64 {
        let config = vcp::Config::default();
        let low = if rho < 1.0 { ((1.0 / rho - 1.0) * 4.0).min(1.0) } else { 0.0 };
        let over = (1.0 - 1.0 / rho).max(0.0);
        let shares = [low, 1.0 - low - over, over];
        let changes = REGIONS.map(|region| change(&config, region, window, rounds));
        shares.iter().zip(changes).map(|(share, change)| share * change).sum::<f64>() / rounds
    }

    #[test]
    fn the_mean_change_is_that_of_the_fluid_model() {
        for rho in [0.8, 0.9, 1.0, 1.1, 2.0] {
            for (window, rounds) in [(200.0, 0.4), (500.0, 1.0), (1000.0, 2.0)] {
                let additive = 1.0 / (window / rounds + 2.0 / KAPPA);
                let expected = KAPPA * (1.0 / rho - 1.0) + additive;
                let actual = in_an_interval(window, rounds, rho);
                // MI compounds within a round trip, and the model does not.
                assert!(
                    (actual - expected).abs() < 0.04 * expected.abs() + 1e-9,
                    "{rho} {window}: {actual} {expected}"
                );
            }
        }
    }

    #[test]
    fn in_overload_equal_rates_change_equally_at_any_round_trip() {
        let usual = in_an_interval(10.0, 0.1, 1.05);
        for rounds in [0.01, 0.4, 1.0, 2.5] {
            let actual = in_an_interval(100.0 * rounds, rounds, 1.05);
            assert!((actual - usual).abs() < 1e-9, "{rounds}: {actual} {usual}");
        }
    }

    // AI is 1 / (x / alpha + 8) of the window: at most an eighth, half of kappa.
    #[test]
    fn additive_growth_is_at_most_half_of_full_overload() {
        for (weight, x, expected) in [(1.0, 0.0, 1.0 / 8.0), (1.0, 8.0, 1.0 / 16.0), (2.0, 8.0, 1.0 / 12.0)] {
            let config = vcp::Config { weight, ..vcp::Config::default() };
            assert_eq!(change(&config, LoadRegion::High, x, 1.0), expected);
        }
    }
}
