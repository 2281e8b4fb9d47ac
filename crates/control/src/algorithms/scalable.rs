//! Scalable TCP (Kelly, ACM CCR 33(2), 2003): the window grows and shrinks in proportion to itself.
//!
//! ```text
//! an acknowledgement:   w += a            a = 0.01: 1% a round trip at any window            section 3
//! a loss:               w -= b w          b = 0.125
//! w <= lwnd:            Standard TCP: += 1 / w, and w / 2 at a loss                  section 3.1, the legacy window
//! ```
//!
//! From one loss to the next it takes -log(1 - b) / log(1 + a) = 13.4 round trips at any rate. The paper does not
//! define the threshold after a timeout; here it is the window after a loss.

use rampmeter_units::settings::check_range;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::Settings;
use crate::parts::check::check_first_window;
use crate::rules::{AckEvent, Amount, Congestion, Rules, SlowStart, Windowed};

/// Scalable TCP.
pub type Scalable = Windowed<ScalableRules>;

/// `b`: the share of the window by which a loss reduces it.
const DECREASE: f64 = 0.125;

/// `lwnd`: the window up to which it is Standard TCP, in packets.
const LEGACY_WINDOW: f64 = 16.0;

/// Settings of Scalable TCP.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// First window, in packets (RFC 6928).
    #[default(10)]
    pub initial_window: u64,
    /// How the first slow start ends.
    pub slow_start: SlowStart,
    /// The increase by an acknowledgement, in packets (`a`).
    #[default(0.01)]
    pub increase: f64,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_first_window(self.initial_window)?;
        check_range("increase", self.increase, 0.0001..=1.0, "packets an acknowledgement")
    }
}

/// The window rules of Scalable TCP.
#[derive(Debug, Clone)]
pub struct ScalableRules {
    config: Config,
}

impl Rules for ScalableRules {
    type Config = Config;

    fn new(config: &Config) -> Self {
        Self { config: config.clone() }
    }

    fn first_window(config: &Config) -> u64 {
        config.initial_window
    }

    fn first_slow_start(config: &Config) -> SlowStart {
        config.slow_start
    }

    fn increase(&mut self, event: &AckEvent<'_>) -> Amount {
        let step = if event.window <= LEGACY_WINDOW { 1.0 / event.window } else { self.config.increase };
        step.into()
    }

    fn decrease(&mut self, &Congestion { window, .. }: &Congestion) -> Amount {
        let share = if window <= LEGACY_WINDOW { 0.5 } else { DECREASE };
        (window * (1.0 - share)).into()
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Duration;

    use super::*;
    use crate::LossKind;
    use crate::rules::tests::TestFlow;

    const RTT: Duration = Duration::from_millis(80);

    #[test]
    fn a_round_trip_adds_a_hundredth_and_a_loss_takes_an_eighth() {
        for window in [100.0, 10_000.0] {
            let mut flow = TestFlow::<ScalableRules>::in_congestion_avoidance(&Config::default(), window, RTT);
            let gained = flow.round();
            assert!((gained - window / 100.0).abs() < 1e-6, "{gained}");
            flow.set(window);
            flow.lose(LossKind::Transient);
            assert_eq!(flow.window(), 0.875 * window);
        }
    }

    #[test]
    fn recovery_from_a_loss_takes_thirteen_round_trips_at_any_rate() {
        // -log(1 - b) / log(1 + a) = 0.1335 / 0.00995 = 13.4: the window is back in the 14th.
        for window in [200.0, 20_000.0] {
            let mut flow = TestFlow::<ScalableRules>::in_congestion_avoidance(&Config::default(), 0.875 * window, RTT);
            let rounds = (1..100).find(|_| {
                flow.round();
                flow.window() >= window
            });
            assert_eq!(rounds, Some(14));
        }
    }

    #[test]
    fn up_to_the_legacy_window_it_is_standard_tcp() {
        let mut flow = TestFlow::<ScalableRules>::in_congestion_avoidance(&Config::default(), 16.0, RTT);
        assert!((flow.ack() - 1.0 / 16.0).abs() < 1e-9);
        flow.set(16.0);
        flow.mark();
        assert_eq!(flow.window(), 8.0);
    }
}
