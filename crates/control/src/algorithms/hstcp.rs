//! HSTCP, HighSpeed TCP (RFC 3649): with a larger window, the additive increase is larger and the decrease smaller.
//!
//! The response function is a straight line on a log-log scale between Standard TCP at `Low_Window` and a drop rate of
//! `High_P` at `High_Window` (section 5). With `w` the window in packets:
//!
//! ```text
//! an acknowledgement:   w += a(w) / w
//! a loss:               w -= b(w) w
//!
//! w <= Low_Window:      a = 1, b = 0.5: Standard TCP
//! else                  b(w) = (High_Decrease - 0.5) (log w - log Low_Window) / (log High_Window - log Low_Window) + 0.5
//!                       p(w): log p is linear in log w, from Low_P to High_P; about 0.078 / w^1.2
//!                       a(w) = w^2 p(w) 2 b(w) / (2 - b(w))
//! ```
//!
//! Slow start is that of Standard TCP, or with `max_ssthresh` Limited Slow-Start (RFC 3742), which adds at most half of
//! `max_ssthresh` packets a round trip. The RFC does not define the threshold after a timeout; here it is the window
//! after a loss.

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::Settings;
use crate::parts::check::{check_first_window, require};
use crate::rules::{AckEvent, Amount, Congestion, Rules, SlowStart, Windowed};

/// `Low_Window`: the window up to which HSTCP is Standard TCP, in packets (section 5).
const LOW_WINDOW: f64 = 38.0;

/// `Low_P`: the drop rate there.
const LOW_P: f64 = 1e-3;

/// `High_Window`: the window at the upper end of the line, in packets.
const HIGH_WINDOW: f64 = 83_000.0;

/// `High_P`: the drop rate there.
const HIGH_P: f64 = 1e-7;

/// `High_Decrease`: the share of the window by which a loss reduces it there.
const HIGH_DECREASE: f64 = 0.1;

/// HSTCP.
pub type HighSpeed = Windowed<HighSpeedRules>;

/// Settings of HSTCP.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// First window, in packets (RFC 6928).
    #[default(10)]
    pub initial_window: u64,
    /// How the first slow start ends.
    pub slow_start: SlowStart,
    /// The window above which slow start is limited, in packets; RFC 3742 section 2 recommends 100. `None`: no limit.
    pub max_ssthresh: Option<u64>,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_first_window(self.initial_window)?;
        let error = || "max_ssthresh is below 2 packets: write 2 or more; RFC 3742 recommends 100".into();
        require(self.max_ssthresh.is_none_or(|max| max >= 2), error)
    }
}

/// The window rules of HSTCP.
#[derive(Debug, Clone)]
pub struct HighSpeedRules {
    config: Config,
    /// `log Low_Window` and `log Low_P`.
    low: (f64, f64),
    /// `log High_Window` and `log High_P`.
    high: (f64, f64),
}

impl HighSpeedRules {
    /// The position of `window` between `Low_Window` (0) and `High_Window` (1), on a logarithmic scale.
    fn position(&self, window: f64) -> f64 {
        (libm::log(window) - self.low.0) / (self.high.0 - self.low.0)
    }

    /// `b(w)`, section 5, which defines it up to `High_Window`. Beyond, where the line would fall to 0, it is constant.
    fn decrease_share(&self, window: f64) -> f64 {
        if window <= LOW_WINDOW {
            return 0.5;
        }
        ((HIGH_DECREASE - 0.5) * self.position(window) + 0.5).max(HIGH_DECREASE)
    }

    /// `a(w)`, section 5.
    fn increase_per_round(&self, window: f64) -> f64 {
        if window <= LOW_WINDOW {
            return 1.0;
        }
        let b = self.decrease_share(window);
        let p = libm::exp(self.low.1 + self.position(window) * (self.high.1 - self.low.1));
        window * window * p * 2.0 * b / (2.0 - b)
    }
}

impl Rules for HighSpeedRules {
    type Config = Config;

    fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            low: (libm::log(LOW_WINDOW), libm::log(LOW_P)),
            high: (libm::log(HIGH_WINDOW), libm::log(HIGH_P)),
        }
    }

    fn first_window(config: &Config) -> u64 {
        config.initial_window
    }

    fn first_slow_start(config: &Config) -> SlowStart {
        config.slow_start
    }

    fn slow_start(&mut self, event: &AckEvent<'_>) -> Option<Amount> {
        let step = event.delivered.min(1.0);
        let step = match self.config.max_ssthresh.map(|max| max as f64) {
            Some(max) if event.window > max => step / (event.window / (0.5 * max)).floor(), // RFC 3742 section 2: 1/K
            _ => step,
        };
        Some(step.into())
    }

    fn increase(&mut self, event: &AckEvent<'_>) -> Amount {
        (self.increase_per_round(event.window) / event.window).into()
    }

    fn decrease(&mut self, &Congestion { window, .. }: &Congestion) -> Amount {
        (window * (1.0 - self.decrease_share(window))).into()
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
    fn increase_and_decrease_are_those_of_appendix_b() {
        // RFC 3649 appendix B: windows, a(w) in packets, and b(w) with two decimals. Its table was computed with
        // p(w) = 0.078 / w^1.2, the line with two digits. So the formula is within 3% of it, except for the last row,
        // which is beyond High_Window: 3.2%.
        let rules = HighSpeedRules::new(&Config::default());
        for (window, a, b) in [
            (38.0, 1.0, 0.50),
            (118.0, 2.0, 0.44),
            (221.0, 3.0, 0.41),
            (1058.0, 8.0, 0.33),
            (10_661.0, 30.0, 0.21),
            (53_677.0, 62.0, 0.12),
            (84_035.0, 71.0, 0.10),
        ] {
            let share = rules.decrease_share(window);
            assert!((share - b).abs() <= 0.005, "b({window}) = {share}");
            let step = rules.increase_per_round(window);
            assert!((step / a - 1.0).abs() < 0.033, "a({window}) = {step}");
        }
        assert!((rules.decrease_share(83_000.0) - 0.1).abs() < 1e-12);
        assert_eq!(rules.decrease_share(1e6), 0.1);
        assert_eq!(rules.increase_per_round(83_000.0).floor(), 72.0);
    }

    #[test]
    fn the_line_passes_through_its_two_ends() {
        // At High_Window: a = w^2 p 2 b / (2 - b) = 83000^2 1e-7 0.2 / 1.9 = 72.5.
        let rules = HighSpeedRules::new(&Config::default());
        assert!((rules.increase_per_round(83_000.0) - 83_000.0_f64.powi(2) * 1e-7 * 0.2 / 1.9).abs() < 1e-6);
        // Just above Low_Window: 38^2 1e-3 / 1.5 = 0.96, that of Standard TCP except for the rounding of Low_P.
        assert!((rules.increase_per_round(38.000_001) - 0.9627).abs() < 1e-4);
    }

    #[test]
    fn below_38_packets_it_is_standard_tcp() {
        let mut flow = TestFlow::<HighSpeedRules>::in_congestion_avoidance(&Config::default(), 20.0, RTT);
        assert!((flow.ack() - 1.0 / 20.0).abs() < 1e-9);
        flow.set(20.0);
        flow.lose(LossKind::Transient);
        assert_eq!(flow.window(), 10.0);
    }

    #[test]
    fn limited_slow_start_adds_half_of_its_threshold_a_round_trip() {
        // RFC 3742 section 2: K = int(cwnd / (0.5 max_ssthresh)); at 150 packets K = 3, so 1/3 of a packet each.
        let config = Config { initial_window: 150, max_ssthresh: Some(100), ..Config::default() };
        let mut flow = TestFlow::<HighSpeedRules>::new(&config, RTT);
        assert!((flow.ack() - 1.0 / 3.0).abs() < 1e-9);
        let mut flow = TestFlow::<HighSpeedRules>::new(&Config { initial_window: 100, ..config }, RTT);
        assert_eq!(flow.ack(), 1.0);
    }
}
