//! The VCP+ router (beyond the paper): VCP's codes, in shares of packets that report the degree of the load.
//!
//! The senders' fluid model (section V) changes windows by `xi(rho) = kappa (1/rho - 1)`, equation (10), but a region
//! says only the sign of that. Here the shares of the codes report the degree:
//!
//! ```text
//! low    with probability  (1/rho - 1) / (1/transition - 1)     rho < 1; all packets below the transition
//! over   with probability  1 - 1/rho                            rho >= 1
//! high   otherwise
//! ```
//!
//! The draw is the fraction of the packet's label times the golden ratio. The labels of a flow's packets are
//! consecutive, so their draws are spread evenly (a Kronecker sequence): among any few packets of a flow the share of a
//! code is nearly its probability, and windows vary less than with independent draws. Different flows have different
//! constants, so they do not get the same code at the same time. All routers of a path use the same draw for a packet,
//! so its code is that of the most loaded of them, and rates are max-min fair, as in the model (Theorem 2). With draws
//! of their own the decreases of all loaded links would add up: on seven links of 10 Mb/s a long flow would have a 53rd
//! of a cross flow's rate.

use rampmeter_units::Random;
use serde::{Deserialize, Serialize};

use crate::vcp::{self, Vcp, target};
use crate::{Discipline, Environment, Parcel, Settings, ensure};

/// A VCP+ router: all but the choice of codes and of the target is VCP's.
pub type VcpPlus<P> = Vcp<P, true>;

/// Settings of a VCP+ router: those of [`vcp::Config`] without steps towards the goal and without probabilistic marking.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Config(pub vcp::Config);

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        let (usual, ours) = (vcp::Config::default(), &self.0);
        for (name, is_usual) in [
            ("transition", ours.transition == usual.transition),
            ("goal_step", ours.goal_step == usual.goal_step),
            ("goal_interval", ours.goal_interval == usual.goal_interval),
            ("probabilistic_marking", ours.probabilistic_marking == usual.probabilistic_marking),
        ] {
            ensure(is_usual, format!("{name} cannot be set in vcp-plus: remove it, or write kind = \"vcp\""))?;
        }
        let (min, max) = (target::MIN, target::MAX);
        ensure(
            (min..=max).contains(&ours.target),
            format!("target = {}: write a number from {min} to {max}; it is the first value in vcp-plus", ours.target),
        )?;
        ours.check()
    }
}

impl<P: Parcel + Send> Discipline<P> for VcpPlus<P> {
    type Config = Config;

    fn new(config: &Config, environment: Environment, random: Random) -> Self {
        Self::with_config(&config.0, environment, random)
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::{LoadRegion, Random};

    use crate::vcp::graded::{draw, region};

    fn shares(load: f64) -> [f64; 3] {
        let mut random = Random::from_seed(5);
        let mut counts = [0.0; 3];
        for _ in 0..100_000 {
            counts[region(load, 0.8, random.uniform()) as usize] += 1e-5;
        }
        counts
    }

    #[test]
    fn the_mean_change_is_that_of_the_fluid_model() {
        for load in [0.5_f64, 0.8, 0.9, 0.99, 1.0, 1.1, 2.0, 10.0] {
            let [low, high, over] = shares(load);
            assert!((low + high + over - 1.0).abs() < 1e-9);
            // xi(rho) / kappa: a low packet counts as xi(0.8) / kappa, one of overload as -1. Below 80% it is constant.
            let expected = (1.0 / load.max(0.8)) - 1.0;
            assert!((0.25 * low - over - expected).abs() < 0.005, "{load}: {low} {high} {over}");
        }
    }

    #[test]
    fn a_link_without_load_or_without_rate_has_one_code() {
        assert_eq!(shares(0.0)[LoadRegion::Low as usize].round(), 1.0);
        assert_eq!(shares(f64::INFINITY)[LoadRegion::Over as usize].round(), 1.0);
    }

    // The labels of simulated flows are 2^41 apart. If their draws were near each other, all would have overload at once.
    #[test]
    fn flows_with_the_same_packet_number_have_different_codes() {
        for number in [0, 1, 7, 1000, 123_456] {
            for share in [0.1, 0.3, 0.5] {
                let coded = (0..30_u64).filter(|flow| draw((flow << 41) + number) < share).count() as f64;
                assert!((coded - 30.0 * share).abs() < 2.5, "{coded} of 30 with {share}");
            }
        }
    }

    proptest::proptest! {
        // Up to 499 packets deviate by at most 3.5. With independent draws a standard deviation is 11 of 499.
        #[test]
        fn any_few_packets_of_a_flow_have_codes_by_their_probability(
            first: u64,
            count in 1..500_u64,
            probability in 0.0..1.0f64,
        ) {
            let coded = (0..count).filter(|n| draw(first.wrapping_add(*n)) < probability).count() as f64;
            proptest::prop_assert!((coded - count as f64 * probability).abs() < 4.0, "{coded} of {count}");
        }

        // So after several routers a packet has the region that the most loaded of them gives it.
        #[test]
        fn a_higher_load_never_gives_a_lower_region(a in 0.0..3.0f64, b in 0.0..3.0f64, draw in 0.0..1.0f64) {
            let (low, high) = (a.min(b), a.max(b));
            proptest::prop_assert!(region(low, 0.8, draw) <= region(high, 0.8, draw));
        }
    }
}
