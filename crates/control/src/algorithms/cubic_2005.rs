//! CUBIC as first proposed (Rhee, Xu, PFLDnet 2005), the version with which papers of that time compare.
//!
//! ```text
//! W(t) = C (t - K)^3 + W_max,  K = cbrt(beta W_max / C)            eq. (1): C = 0.4, beta = 0.2
//! an acknowledgement:  w += (W(t + RTT) - w) / w                   w reaches the curve a round trip later
//!                      at most S_max packets a second             linear growth far from W_max
//! W_tcp(t) = (1 - beta) W_max + 3 beta / (2 - beta) t / RTT        the window of TCP
//!    w < W_tcp:  w = W_tcp                                         TCP mode
//! a loss:  W_max = w, or w (2 - beta) / 2 if it is less than the last W_max (fast convergence);  w = (1 - beta) w
//! ```
//!
//! The paper leaves three points open: K is computed from the window after the loss, which is the same without fast
//! convergence, and with it starts the curve at the current window; `t` counts from the first acknowledgement after
//! recovery; a timeout resets `W_max`. All three are as in the Linux of that time.

use rampmeter_units::Duration;
use rampmeter_units::settings::check_range;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::Settings;
use crate::cubic::Curve;
use crate::parts::check::check_first_window;
use crate::rules::{AckEvent, Amount, Congestion, Rules, SlowStart, Windowed};

/// The CUBIC of 2005.
pub type Cubic2005 = Windowed<Cubic2005Rules>;

/// `S_max`: the maximum growth of the window, in packets a second.
const MAX_GROWTH: f64 = 160.0;

/// Settings of the CUBIC of 2005.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// First window, in packets (RFC 6928).
    #[default(10)]
    pub initial_window: u64,
    /// How the first slow start ends.
    pub slow_start: SlowStart,
    /// The share of the window by which a loss reduces it (`beta`).
    #[default(0.2)]
    pub beta: f64,
    /// The steepness of the curve, in packets a second cubed (`C`).
    #[default(0.4)]
    pub c: f64,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_first_window(self.initial_window)?;
        check_range("beta", self.beta, 0.01..=0.9, "of the window")?;
        check_range("c", self.c, 0.001..=1000.0, "packets a second cubed")
    }
}

/// The window rules of the CUBIC of 2005.
#[derive(Debug, Clone)]
pub struct Cubic2005Rules {
    config: Config,
    /// `W_max`: the window at the last loss, or less with fast convergence.
    w_max: f64,
    /// The curve of this congestion avoidance and its first window; `None` before its first acknowledgement.
    epoch: Option<(Curve, f64)>,
}

impl Rules for Cubic2005Rules {
    type Config = Config;

    fn new(config: &Config) -> Self {
        Self { config: config.clone(), w_max: 0.0, epoch: None }
    }

    fn first_window(config: &Config) -> u64 {
        config.initial_window
    }

    fn first_slow_start(config: &Config) -> SlowStart {
        config.slow_start
    }

    fn increase(&mut self, event: &AckEvent<'_>) -> Amount {
        let Config { beta, c, .. } = self.config;
        let (window, rtt) = (event.window, event.ack.smoothed_rtt.as_secs_f64());
        let (curve, first_window) =
            self.epoch.get_or_insert_with(|| (Curve::new(event.now, c, window, self.w_max), window));
        let elapsed = curve.elapsed(event.now);
        let tcp = *first_window + 3.0 * beta / (2.0 - beta) * elapsed / rtt.max(1e-9); // W_tcp
        if window < tcp {
            return (tcp - window).into();
        }
        ((curve.at(elapsed + rtt) - window).clamp(0.0, MAX_GROWTH * rtt) / window).into()
    }

    fn decrease(&mut self, &Congestion { window, .. }: &Congestion) -> Amount {
        let beta = self.config.beta;
        let shrinks = window < self.w_max;
        self.w_max = if shrinks { window * (2.0 - beta) / 2.0 } else { window };
        self.epoch = None;
        (window * (1.0 - beta)).into()
    }

    fn on_timeout(&mut self) {
        self.w_max = 0.0;
    }

    fn pause(&mut self, span: Duration) {
        if let Some((curve, _)) = &mut self.epoch {
            curve.pause(span);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LossKind;
    use crate::rules::tests::TestFlow;

    fn after_loss(window: f64, rtt: Duration) -> TestFlow<Cubic2005Rules> {
        let mut flow = TestFlow::in_congestion_avoidance(&Config::default(), window, rtt);
        flow.lose(LossKind::Transient);
        flow
    }

    #[test]
    fn the_window_is_back_after_k() {
        // K = cbrt(0.2 1000 / 0.4) = 7.94 s.
        let mut flow = after_loss(1000.0, Duration::from_millis(100));
        assert_eq!(flow.window(), 800.0);
        while flow.now.as_secs_f64() < 7.94 {
            flow.round();
        }
        assert!((flow.window() - 1000.0).abs() < 1.0, "{}", flow.window());
    }

    #[test]
    fn far_from_the_last_loss_growth_is_linear() {
        // At 100,000 packets K = 36.8 s, and the curve would start with 3 C K^2 = 1630 packets a second.
        let mut flow = after_loss(100_000.0, Duration::from_millis(100));
        let gained: f64 = (0..10).map(|_| flow.round()).sum();
        assert!((gained - 160.0).abs() < 1.0, "{gained}");
    }

    #[test]
    fn it_is_never_slower_than_tcp() {
        // 3 0.2 / 1.8 = 1/3 packet a round trip, which at 20 packets and 10 ms is more than the curve grows.
        let mut flow = after_loss(20.0, Duration::from_millis(10));
        let gained: f64 = (0..30).map(|_| flow.round()).sum();
        assert!((gained - 10.0).abs() < 0.5, "{gained}");
        // W_tcp is a function of time: half a round trip adds a sixth of a packet.
        let mut flow = after_loss(20.0, Duration::from_millis(10));
        flow.ack();
        flow.now += Duration::from_millis(5);
        flow.ack();
        assert!((flow.window() - 16.0 - 1.0 / 6.0).abs() < 1e-9, "{}", flow.window());
    }

    #[test]
    fn fast_convergence_reduces_w_max_below_the_last_one() {
        let mut flow = after_loss(1000.0, Duration::from_millis(100));
        flow.set(900.0);
        flow.mark();
        assert_eq!(flow.rules().w_max, 810.0);
        assert_eq!(flow.window(), 720.0);
        flow.set(810.0);
        flow.mark();
        assert_eq!(flow.rules().w_max, 810.0, "the window had recovered");
        flow.lose(LossKind::Persistent);
        assert_eq!(flow.rules().w_max, 0.0, "nothing is known after a timeout");
    }
}
