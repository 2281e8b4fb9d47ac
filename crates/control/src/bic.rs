//! BIC (Xu, Harfoush, Rhee, INFOCOM 2004): a binary search for the window between one that went well and one that lost.
//!
//! ```text
//! a loss:                fast convergence if w < the window of the loss before:  max = (w + (1 - beta) w) / 2
//!                        else max = w;   w = min = (1 - beta) w
//! every round trip:      target = (max + min) / 2, and min = w as w grows
//!   below max            w += target - w, within [S_min, S_max]     far away additive increase, near it binary search
//!   beyond max           w += 1, 2, 4, ... up to S_max              max probing, slow start for a new maximum;
//!                        w += S_max from then on                    additive increase
//! w < low_window:        Standard TCP
//! ```
//!
//! The window moves by 1/w of that an acknowledgement.
//!
//! Where the paper's text and its pseudocode leave a choice: the window that fast convergence compares with is the one at
//! the last loss also after max probing, where the pseudocode has set its maximum to a large default and would take any
//! loss for a falling trend. After a timeout the search goes on between what it left as threshold and the window that
//! was lost.

use serde::{Deserialize, Serialize};

use crate::Settings;
use crate::check::{check_first_window, check_positive, check_share};
use crate::rules::{Amount, Congestion, Rules, Seen, Windowed};

/// BIC.
pub type Bic = Windowed<BicRules>;

/// Tunables of BIC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// First window, in packets (RFC 6928).
    pub initial_window: u64,
    /// Below this it is Standard TCP; packets (`low_window`).
    pub low_window: f64,
    /// The most that a round trip adds; packets (`S_max`).
    pub max_step: f64,
    /// The least that a round trip adds; packets (`S_min`).
    pub min_step: f64,
    /// The part of what is left to the maximum that a round trip of the search goes. Linux goes 0.25.
    pub search: f64,
    /// The part of the window that a loss takes (`beta`). Linux takes 0.2.
    pub beta: f64,
    /// Give up more of the window to newcomers while it shrinks.
    pub fast_convergence: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            initial_window: 10,
            low_window: 14.0,
            max_step: 32.0,
            min_step: 0.01,
            search: 0.5,
            beta: 0.125,
            fast_convergence: true,
        }
    }
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_first_window(self.initial_window)?;
        check_share("beta", self.beta)?;
        check_share("search", self.search)?;
        check_positive("min_step", self.min_step, "packets a round trip")?;
        check_positive("max_step", self.max_step, "packets a round trip")?;
        if self.min_step > self.max_step {
            return Err(format!("min_step is {} and max_step {}: no less", self.min_step, self.max_step));
        }
        if self.low_window < 0.0 || !self.low_window.is_finite() {
            return Err(format!("low_window is {}: 0 packets or more", self.low_window));
        }
        Ok(())
    }
}

/// What the window does between two losses.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// Looks for the window between one that went well and `max`, one that did not.
    Search { max: f64 },
    /// Beyond the last maximum: so many packets a round trip, twice as many from the window `until` on.
    Probe { step: f64, until: f64 },
    /// No maximum known.
    Additive,
}

/// How BIC's window moves.
#[derive(Debug, Clone)]
pub struct BicRules {
    config: Config,
    phase: Phase,
    /// The window at the last loss.
    lost: f64,
}

impl BicRules {
    /// What a round trip adds to `window`, as the phase is.
    fn step(&self, window: f64) -> f64 {
        let Config { min_step, max_step, search, .. } = self.config;
        match self.phase {
            // min is the window itself, so that target - w is half of what is left.
            Phase::Search { max } => (search * (max - window)).clamp(min_step, max_step),
            Phase::Probe { step, .. } => step,
            Phase::Additive => max_step,
        }
    }

    /// What comes next, now that the window is this large.
    fn advance(&mut self, window: f64) {
        match self.phase {
            Phase::Search { max } if window >= max => self.phase = Phase::Probe { step: 1.0, until: window + 1.0 },
            Phase::Probe { step, until } if window >= until => {
                let step = 2.0 * step;
                let probes = step < self.config.max_step;
                self.phase = if probes { Phase::Probe { step, until: window + step } } else { Phase::Additive };
            }
            _ => {}
        }
    }
}

impl Rules for BicRules {
    type Config = Config;

    fn new(config: &Config) -> Self {
        Self { config: config.clone(), phase: Phase::Additive, lost: 0.0 }
    }

    fn first_window(config: &Config) -> u64 {
        config.initial_window
    }

    fn increase(&mut self, seen: &Seen<'_>) -> Amount {
        if seen.window < self.config.low_window {
            return (1.0 / seen.window).into();
        }
        self.advance(seen.window);
        (self.step(seen.window) / seen.window).into()
    }

    fn decrease(&mut self, &Congestion { window, .. }: &Congestion) -> Amount {
        let shrinks = self.config.fast_convergence && window < self.lost;
        self.lost = window;
        if window < self.config.low_window {
            self.phase = Phase::Search { max: window };
            return (window / 2.0).into();
        }
        let min = (1.0 - self.config.beta) * window;
        self.phase = Phase::Search { max: if shrinks { f64::midpoint(window, min) } else { window } };
        min.into()
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Duration;

    use super::*;
    use crate::LossKind;
    use crate::rules::tests::Flow;

    /// A flow that has lost a packet at a window of `window`.
    fn after_loss(window: f64) -> Flow<BicRules> {
        let mut flow = Flow::avoiding(&Config::default(), window, Duration::from_millis(80));
        flow.lose(LossKind::Transient);
        flow
    }

    #[test]
    fn far_from_the_last_maximum_it_grows_by_32_packets_a_round_trip_and_near_it_by_half_of_what_is_left() {
        // 1000 packets: 875 after the loss. (1000 - 875) / 2 = 62.5 is more than S_max; from 1000 - 64 = 936 on a round
        // trip takes half of the way, as acknowledgements go 1 - exp(-1/2) = 39% of it.
        let mut flow = after_loss(1000.0);
        assert_eq!(flow.window(), 875.0);
        assert!((flow.round() - 32.0).abs() < 1.0, "a little less, as the window grows on the way");
        flow.set(936.0);
        let gained = flow.round();
        assert!((gained / 64.0 - 0.39).abs() < 0.01, "{gained}");
        flow.set(999.99);
        assert!((flow.ack() - 0.01 / 999.99).abs() < 1e-9, "S_min at least");
    }

    #[test]
    fn beyond_the_last_maximum_it_probes_ever_faster() {
        // 1, 2, 4, 8, 16 packets, each over the window's growth by as much: a round trip each; then 32 a round trip.
        let mut flow = after_loss(1000.0);
        flow.set(1000.0);
        for gained in [1.0, 2.0, 4.0, 8.0, 16.0] {
            assert_ne!(flow.rules().phase, Phase::Additive);
            let before = flow.window();
            while flow.window() < before + gained - 1e-6 {
                let step = flow.ack() * flow.window();
                assert!((step / gained - 1.0).abs() < 0.02, "{step} of {gained}");
            }
        }
        assert!((flow.round() - 32.0).abs() < 1.0);
        assert_eq!(flow.rules().phase, Phase::Additive);
    }

    #[test]
    fn a_loss_below_the_last_one_gives_up_more() {
        let mut flow = after_loss(1000.0);
        assert_eq!(flow.rules().phase, Phase::Search { max: 1000.0 });
        flow.set(960.0);
        flow.mark();
        assert_eq!(flow.window(), 840.0);
        assert_eq!(flow.rules().phase, Phase::Search { max: 900.0 }); // (960 + 840) / 2
        flow.set(1100.0);
        flow.lose(LossKind::Transient);
        assert_eq!(flow.rules().phase, Phase::Search { max: 1100.0 });
    }

    #[test]
    fn small_windows_are_standard_tcp() {
        let mut flow = after_loss(13.0);
        assert_eq!(flow.window(), 6.5);
        assert!((flow.ack() - 1.0 / 6.5).abs() < 1e-9);
    }
}
