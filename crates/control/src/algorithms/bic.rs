//! BIC (Xu, Harfoush, Rhee, INFOCOM 2004): a binary search between a window without losses and one at which a loss
//! occurred.
//!
//! ```text
//! a loss:                fast convergence if w < the window of the loss before:  max = (w + (1 - beta) w) / 2
//!                        else max = w;   w = min = (1 - beta) w
//! every round trip:      target = (max + min) / 2, and min = w as w grows
//!   below max            w += target - w, within [S_min, S_max]     additive increase, and binary search near max
//!   beyond max           w += 1, 2, 4, ... up to S_max              max probing, slow start for a new maximum;
//!                        w += S_max from then on                    additive increase
//! w < low_window:        Standard TCP
//! ```
//!
//! An acknowledgement moves the window by 1/w of that.
//!
//! Two points are open in the paper. Fast convergence compares with the window at the last loss, also after max
//! probing. The pseudocode sets its maximum to a large default there, so it would treat any loss as a falling trend.
//! After a timeout the search continues between the slow-start threshold and the window at the timeout.

use rampmeter_units::settings::check_range;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::Settings;
use crate::parts::check::{check_first_window, check_order};
use crate::rules::{AckEvent, Amount, Congestion, Rules, SlowStart, Windowed};

/// BIC.
pub type Bic = Windowed<BicRules>;

/// `low_window`: the window below which BIC is Standard TCP, in packets.
const LOW_WINDOW: f64 = 14.0;

/// Settings of BIC.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// First window, in packets (RFC 6928).
    #[default(10)]
    pub initial_window: u64,
    /// How the first slow start ends.
    pub slow_start: SlowStart,
    /// The maximum increase a round trip, in packets (`S_max`).
    #[default(32.0)]
    pub max_step: f64,
    /// The minimum increase a round trip, in packets (`S_min`).
    #[default(0.01)]
    pub min_step: f64,
    /// The share of the distance to the maximum that the search covers in a round trip. Linux has 0.25.
    #[default(0.5)]
    pub search: f64,
    /// The share of the window by which a loss reduces it (`beta`). Linux has 0.2.
    #[default(0.125)]
    pub beta: f64,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_first_window(self.initial_window)?;
        check_range("beta", self.beta, 0.01..=0.9, "of the window")?;
        check_range("search", self.search, 0.01..=0.99, "of the distance")?;
        check_range("min_step", self.min_step, 0.0001..=1e6, "packets a round trip")?;
        check_range("max_step", self.max_step, 0.0001..=1e6, "packets a round trip")?;
        check_order("min_step", self.min_step, "max_step", self.max_step)
    }
}

/// The phase of growth between two losses.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// Binary search between the current window and `max`, the window at the last loss.
    Search { max: f64 },
    /// Max probing beyond the last maximum: `step` packets a round trip, and twice as many from the window `until` on.
    Probe { step: f64, until: f64 },
    /// Additive increase: no maximum is known.
    Additive,
}

/// The window rules of BIC.
#[derive(Debug, Clone)]
pub struct BicRules {
    config: Config,
    phase: Phase,
    /// The window at the last loss.
    last_max: f64,
}

impl BicRules {
    /// The increase of `window` in a round trip of this phase.
    fn step(&self, window: f64) -> f64 {
        let Config { min_step, max_step, search, .. } = self.config;
        match self.phase {
            // min is the window itself, so target - w is half of the distance to max.
            Phase::Search { max } => (search * (max - window)).clamp(min_step, max_step),
            Phase::Probe { step, .. } => step,
            Phase::Additive => max_step,
        }
    }

    /// Enters the next phase if `window` has reached the end of this one.
    fn advance(&mut self, window: f64) {
        match self.phase {
            Phase::Search { max } if window >= max => self.phase = Phase::Probe { step: 1.0, until: window + 1.0 },
            Phase::Probe { step, until } if window >= until => {
                let step = 2.0 * step;
                let is_probing = step < self.config.max_step;
                self.phase = if is_probing { Phase::Probe { step, until: window + step } } else { Phase::Additive };
            }
            _ => {}
        }
    }
}

impl Rules for BicRules {
    type Config = Config;

    fn new(config: &Config) -> Self {
        Self { config: config.clone(), phase: Phase::Additive, last_max: 0.0 }
    }

    fn first_window(config: &Config) -> u64 {
        config.initial_window
    }

    fn first_slow_start(config: &Config) -> SlowStart {
        config.slow_start
    }

    fn increase(&mut self, event: &AckEvent<'_>) -> Amount {
        if event.window < LOW_WINDOW {
            return (1.0 / event.window).into();
        }
        self.advance(event.window);
        (self.step(event.window) / event.window).into()
    }

    fn decrease(&mut self, &Congestion { window, .. }: &Congestion) -> Amount {
        let shrinks = window < self.last_max;
        self.last_max = window;
        if window < LOW_WINDOW {
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
    use crate::rules::tests::TestFlow;

    /// A flow that has lost a packet at a window of `window`.
    fn after_loss(window: f64) -> TestFlow<BicRules> {
        let mut flow = TestFlow::in_congestion_avoidance(&Config::default(), window, Duration::from_millis(80));
        flow.lose(LossKind::Transient);
        flow
    }

    #[test]
    fn growth_is_additive_far_from_the_maximum_then_binary_search() {
        // 1000 packets: 875 after the loss. (1000 - 875) / 2 = 62.5 is more than S_max. From 1000 - 64 = 936 on a round
        // trip covers half of the distance, which applied by acknowledgements is 1 - exp(-1/2) = 39% of it.
        let mut flow = after_loss(1000.0);
        assert_eq!(flow.window(), 875.0);
        assert!((flow.round() - 32.0).abs() < 1.0, "a little less, because the window grows during the round trip");
        flow.set(936.0);
        let gained = flow.round();
        assert!((gained / 64.0 - 0.39).abs() < 0.01, "{gained}");
        flow.set(999.99);
        assert!((flow.ack() - 0.01 / 999.99).abs() < 1e-9, "at least S_min");
    }

    #[test]
    fn max_probing_doubles_its_step_up_to_s_max() {
        // Steps of 1, 2, 4, 8 and 16 packets a round trip, each until the window has grown by one step; then 32.
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
    fn fast_convergence_lowers_the_maximum() {
        let mut flow = after_loss(1000.0);
        assert_eq!(flow.rules().phase, Phase::Search { max: 1000.0 });
        flow.set(960.0);
        flow.mark();
        assert_eq!(flow.window(), 840.0);
        assert_eq!(flow.rules().phase, Phase::Search { max: 900.0 }); // (960 + 840) / 2
        flow.set(1100.0);
        flow.lose(LossKind::Transient);
        assert_eq!(flow.rules().phase, Phase::Search { max: 1100.0 });
        flow.set(1100.0);
        flow.lose(LossKind::Transient);
        assert_eq!(flow.rules().phase, Phase::Search { max: 1100.0 }, "the window had recovered");
    }

    #[test]
    fn small_windows_are_standard_tcp() {
        let mut flow = after_loss(13.0);
        assert_eq!(flow.window(), 6.5);
        assert!((flow.ack() - 1.0 / 6.5).abs() < 1e-9);
        let mut flow =
            TestFlow::<BicRules>::in_congestion_avoidance(&Config::default(), 14.0, Duration::from_millis(80));
        assert_eq!(flow.ack(), 1.0, "from low_window on it is BIC");
        assert_eq!(after_loss(14.0).window(), 14.0 * 0.875);
    }
}
