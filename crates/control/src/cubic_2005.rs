//! CUBIC as it was proposed (Rhee, Xu, PFLDnet 2005), the one that its contemporaries are compared with.
//!
//! ```text
//! W(t) = C (t - K)^3 + W_max,  K = cbrt(beta W_max / C)            eq. (1): C = 0.4, beta = 0.2
//! an acknowledgement:  w += (W(t + RTT) - w) / w                   so that w is there a round trip later
//!                      at most S_max packets a second              linear where it is far from W_max
//! W_tcp(t) = (1 - beta) W_max + 3 beta / (2 - beta) t / RTT        what TCP would have
//!    w < W_tcp:  w = W_tcp                                         TCP mode
//! a loss:  W_max = w, or w (2 - beta) / 2 if it is less than the last W_max (fast convergence);  w = (1 - beta) w
//! ```
//!
//! RFC 9438 ([`crate::cubic`]) differs in a loss taking 0.3 of the window, in how it reckons what TCP would have, and in
//! the bound on growth, half of the window a round trip.
//!
//! Where the paper is silent: K is reckoned from the window that the loss left, which is the same without fast
//! convergence and with it makes the curve begin where the window is; `t` counts from the first acknowledgement after
//! repair; the timer makes the flow forget `W_max`. All three are as in the Linux of that time.

use rampmeter_units::Duration;
use serde::{Deserialize, Serialize};

use crate::Settings;
use crate::check::{check_first_window, check_positive, check_share};
use crate::cubic::Curve;
use crate::rules::{Amount, Congestion, Rules, Seen, Windowed};

/// CUBIC of 2005.
pub type Cubic2005 = Windowed<Cubic2005Rules>;

/// Tunables of the CUBIC of 2005.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// First window, in packets (RFC 6928).
    pub initial_window: u64,
    /// The part of the window that a loss takes (`beta`).
    pub beta: f64,
    /// How steep the curve is; packets a second cubed (`C`).
    pub c: f64,
    /// The most that the window grows by, in packets a second (`S_max`).
    pub max_growth: f64,
    /// Give up more of the window to newcomers while it shrinks.
    pub fast_convergence: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { initial_window: 10, beta: 0.2, c: 0.4, max_growth: 160.0, fast_convergence: true }
    }
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_first_window(self.initial_window)?;
        check_share("beta", self.beta)?;
        check_positive("c", self.c, "packets a second cubed")?;
        check_positive("max_growth", self.max_growth, "packets a second")
    }
}

/// How the window of the CUBIC of 2005 moves.
#[derive(Debug, Clone)]
pub struct Cubic2005Rules {
    config: Config,
    /// The window at the last loss, or less with fast convergence; `W_max`.
    most: f64,
    /// Since when congestion avoidance goes on, and with which window; `None` until then.
    epoch: Option<(Curve, f64)>,
}

impl Rules for Cubic2005Rules {
    type Config = Config;

    fn new(config: &Config) -> Self {
        Self { config: config.clone(), most: 0.0, epoch: None }
    }

    fn first_window(config: &Config) -> u64 {
        config.initial_window
    }

    fn increase(&mut self, seen: &Seen<'_>) -> Amount {
        let Config { beta, c, max_growth, .. } = self.config;
        let (window, rtt) = (seen.window, seen.ack.smoothed_rtt.as_secs_f64());
        let (curve, began_with) =
            self.epoch.get_or_insert_with(|| (Curve::new(seen.now, c, window, self.most), window));
        let passed = curve.passed(seen.now);
        let tcp = *began_with + 3.0 * beta / (2.0 - beta) * passed / rtt.max(1e-9); // W_tcp
        if window < tcp {
            return (tcp - window).into();
        }
        ((curve.at(passed + rtt) - window).clamp(0.0, max_growth * rtt) / window).into()
    }

    fn decrease(&mut self, &Congestion { window, .. }: &Congestion) -> Amount {
        let beta = self.config.beta;
        let shrinks = self.config.fast_convergence && window < self.most;
        self.most = if shrinks { window * (2.0 - beta) / 2.0 } else { window };
        self.epoch = None;
        (window * (1.0 - beta)).into()
    }

    fn on_timeout(&mut self) {
        self.most = 0.0;
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
    use crate::rules::tests::Flow;

    fn after_loss(window: f64, rtt: Duration) -> Flow<Cubic2005Rules> {
        let mut flow = Flow::avoiding(&Config::default(), window, rtt);
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
        // At 100,000 packets K = 36.8 s, and the curve would begin with 3 C K^2 = 1630 packets a second.
        let mut flow = after_loss(100_000.0, Duration::from_millis(100));
        let gained: f64 = (0..10).map(|_| flow.round()).sum();
        assert!((gained - 160.0).abs() < 1.0, "{gained}");
    }

    #[test]
    fn it_is_never_slower_than_tcp() {
        // 3 0.2 / 1.8 = 1/3 packet a round trip, at 20 packets and 10 ms more than the curve.
        let mut flow = after_loss(20.0, Duration::from_millis(10));
        let gained: f64 = (0..30).map(|_| flow.round()).sum();
        assert!((gained - 10.0).abs() < 0.5, "{gained}");
    }

    #[test]
    fn a_loss_below_the_last_one_gives_up_more() {
        let mut flow = after_loss(1000.0, Duration::from_millis(100));
        flow.set(900.0);
        flow.mark();
        assert_eq!(flow.rules().most, 810.0);
        assert_eq!(flow.window(), 720.0);
    }
}
