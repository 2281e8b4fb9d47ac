//! CUBIC (RFC 9438): the window is a cubic function of the time since the last loss, flat at the window of that loss.
//!
//! ```text
//! W_cubic(t) = C (t - K)^3 + W_max                  eq. (1)    t: since congestion avoidance started, in seconds
//! K = cbrt((W_max - cwnd_epoch) / C)                eq. (2)    time at which the curve is back at W_max
//! target = W_cubic(t + RTT) within [cwnd, 1.5 cwnd] section 4.2
//! an acknowledgement:  W_est += alpha acked / cwnd  eq. (4)    the window of Reno; alpha as in section 4.3
//!    W_cubic(t) < W_est:  cwnd = W_est                         section 4.3, the Reno-friendly region
//!    else                 cwnd += (target - cwnd) / cwnd       sections 4.4 and 4.5
//! a loss:  W_max = cwnd, or cwnd (1 + beta) / 2 if it is less than the last W_max (section 4.7, fast convergence)
//!          cwnd = beta cwnd                                    section 4.6
//! the timer expires:   likewise, and a new curve starts with K = 0 at the end of slow start   section 4.8
//! ```
//!
//! The first slow start ends without a loss when delays start to grow (section 4.10; `hystart.rs`, RFC 9406), or as the
//! setting `slow_start` says.
//!
//! Application-limited time does not count (section 5.8). The reaction to a spurious loss is undone (section 4.9).

use rampmeter_units::settings::check_range;
use rampmeter_units::{Duration, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::Settings;
use crate::parts::check::check_first_window;
use crate::rules::{AckEvent, Amount, Congestion, Rules, SlowStart, Windowed};

/// CUBIC.
pub type Cubic = Windowed<CubicRules>;

/// Settings of CUBIC.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// First window, in packets (RFC 6928).
    #[default(10)]
    pub initial_window: u64,
    /// The share of the window that remains after a loss (section 4.6, `beta_cubic`).
    #[default(0.7)]
    pub beta: f64,
    /// The steepness of the curve, in packets a second cubed (section 5.1, `C`).
    #[default(0.4)]
    pub c: f64,
    /// How the first slow start ends (section 4.10 recommends `HyStart++`).
    #[default(SlowStart::Hystart)]
    pub slow_start: SlowStart,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_first_window(self.initial_window)?;
        check_range("beta", self.beta, 0.1..=0.99, "of the window")?;
        check_range("c", self.c, 0.001..=1000.0, "packets a second cubed")
    }
}

/// The curve from one loss to the next, eq. (1). Windows are in packets.
#[derive(Debug, Clone)]
pub(crate) struct Curve {
    /// The steepness `C`, in packets a second cubed.
    c: f64,
    /// The window at which it is flat.
    origin: f64,
    /// The time at which it is flat, in seconds after its start.
    k: f64,
    start: Time,
}

impl Curve {
    /// A curve from `window` now to its flat part at `origin`. If the window is there already, the curve starts flat.
    pub(crate) fn new(now: Time, c: f64, window: f64, origin: f64) -> Self {
        let below = (origin - window).max(0.0);
        Self { c, origin: window + below, k: libm::cbrt(below / c), start: now } // eq. (2)
    }

    /// The time since its start, in seconds.
    pub(crate) fn elapsed(&self, now: Time) -> f64 {
        now.since(self.start).as_secs_f64()
    }

    /// The window at `seconds` after its start.
    pub(crate) fn at(&self, seconds: f64) -> f64 {
        let from_k = seconds - self.k;
        self.c * from_k * from_k * from_k + self.origin // eq. (1)
    }

    pub(crate) fn pause(&mut self, span: Duration) {
        self.start += span;
    }
}

/// The window rules of CUBIC.
#[derive(Debug, Clone)]
pub struct CubicRules {
    config: Config,
    /// `W_max`: the window at the last loss, or less with fast convergence.
    w_max: f64,
    /// `cwnd_prior`: the window at the last loss.
    cwnd_prior: f64,
    /// The curve of this congestion avoidance; `None` before its first acknowledgement.
    curve: Option<Curve>,
    /// `W_est`: the window that Reno would have.
    w_est: f64,
}

impl CubicRules {
    /// Section 4.3: the growth with which Reno with CUBIC's `beta` gets Reno's share, and 1 from `cwnd_prior` on.
    fn alpha(&self) -> f64 {
        let beta = self.config.beta;
        if self.w_est >= self.cwnd_prior { 1.0 } else { 3.0 * (1.0 - beta) / (1.0 + beta) }
    }
}

impl Rules for CubicRules {
    type Config = Config;

    fn new(config: &Config) -> Self {
        Self { config: config.clone(), w_max: 0.0, cwnd_prior: 0.0, curve: None, w_est: 0.0 }
    }

    fn first_window(config: &Config) -> u64 {
        config.initial_window
    }

    fn first_slow_start(config: &Config) -> SlowStart {
        config.slow_start
    }

    fn increase(&mut self, event: &AckEvent<'_>) -> Amount {
        let window = event.window;
        if self.curve.is_none() {
            self.w_est = window; // section 4.3: W_est starts at cwnd_epoch
        }
        self.w_est += self.alpha() * event.delivered / window; // eq. (4)
        let curve = self.curve.get_or_insert_with(|| Curve::new(event.now, self.config.c, window, self.w_max));
        let elapsed = curve.elapsed(event.now);
        if curve.at(elapsed) < self.w_est {
            return (self.w_est - window).max(0.0).into();
        }
        let target = curve.at(elapsed + event.ack.smoothed_rtt.as_secs_f64()).clamp(window, 1.5 * window);
        ((target - window) / window).into()
    }

    fn decrease(&mut self, &Congestion { window, .. }: &Congestion) -> Amount {
        let beta = self.config.beta;
        let shrinks = window < self.w_max;
        self.w_max = if shrinks { window * (1.0 + beta) / 2.0 } else { window }; // section 4.7
        self.cwnd_prior = window;
        self.curve = None;
        (window * beta).into()
    }

    fn on_timeout(&mut self) {
        self.w_max = 0.0; // section 4.8: K = 0, and W_max is the window at the start of congestion avoidance
    }

    fn pause(&mut self, span: Duration) {
        if let Some(curve) = &mut self.curve {
            curve.pause(span);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::tests::TestFlow;
    use crate::testing::ack;
    use crate::{Controller, LossKind};

    const RTT: Duration = Duration::from_millis(100);

    /// A flow in congestion avoidance after a loss at a window of `window`.
    fn after_loss(window: f64, rtt: Duration) -> TestFlow<CubicRules> {
        let mut flow = TestFlow::in_congestion_avoidance(&Config::default(), window, rtt);
        flow.lose(LossKind::Transient);
        flow
    }

    fn seconds(flow: &mut TestFlow<CubicRules>, seconds: f64) {
        let until = flow.now + Duration::from_secs_f64(seconds);
        while flow.now < until {
            flow.round();
        }
    }

    #[test]
    fn the_window_is_back_and_flat_after_k() {
        // W_max = 1000: 700 after the loss; K = cbrt(300 / 0.4) = 9.09 s. A second before and after K the curve is 0.4
        // packets away from W_max, and at t = K / 2 it has regained 7/8 of the 300 packets.
        let mut flow = after_loss(1000.0, RTT);
        assert_eq!(flow.window(), 700.0);
        seconds(&mut flow, 4.54);
        assert!((flow.window() - 962.5).abs() < 5.0, "{}", flow.window());
        seconds(&mut flow, 4.54);
        assert!((flow.window() - 1000.0).abs() < 1.0, "{}", flow.window());
        // Beyond K it grows faster and faster: 0.4 4^3 = 25.6 packets in the next four seconds.
        seconds(&mut flow, 4.0);
        let beyond = flow.now.as_secs_f64() - 9.0856;
        assert!((flow.window() - (1000.0 + 0.4 * beyond.powi(3))).abs() < 1.0, "{}", flow.window());
    }

    #[test]
    fn k_is_the_cube_root_of_the_reduction_over_c() {
        let curve = Curve::new(Time::ZERO, 0.4, 700.0, 1000.0);
        assert!((curve.k - 9.0856).abs() < 1e-3, "{}", curve.k);
        assert!((curve.at(0.0) - 700.0).abs() < 1e-9);
        assert_eq!(curve.at(curve.k), 1000.0);
        assert_eq!(
            Curve::new(Time::ZERO, 0.4, 1200.0, 1000.0).at(0.0),
            1200.0,
            "the curve never starts below the window"
        );
    }

    #[test]
    fn small_windows_and_round_trips_grow_as_reno() {
        // Section 4.3: alpha = 3 (1 - 0.7) / (1 + 0.7) = 0.529 packets a round trip up to the last loss's window, one
        // from there on. At 20 packets and 10 ms the curve is slower.
        let mut flow = after_loss(20.0, Duration::from_millis(10));
        let gained: f64 = (0..5).map(|_| flow.round()).sum();
        assert!((gained / 5.0 - 0.529).abs() < 0.05, "{gained}");
        while flow.window() < 20.5 {
            flow.round();
        }
        let gained = flow.round();
        assert!((gained - 1.0).abs() < 0.1, "{gained}");
    }

    #[test]
    fn the_window_of_reno_grows_with_the_delivered_packets() {
        let mut flow = after_loss(20.0, Duration::from_millis(10));
        let window = flow.window();
        flow.tcp.on_ack(flow.now, &ack(2));
        let expected = 3.0 * 0.3 / 1.7 * 2.0 / window; // eq. (4)
        assert!((flow.window() - window - expected).abs() < 1e-9, "{}", flow.window() - window);
    }

    #[test]
    fn fast_convergence_reduces_w_max_below_the_last_one() {
        let mut flow = after_loss(1000.0, RTT);
        assert_eq!(flow.rules().w_max, 1000.0);
        flow.set(800.0);
        flow.mark();
        assert_eq!(flow.rules().w_max, 800.0 * 0.85);
        assert_eq!(flow.window(), 560.0);
        flow.set(680.0);
        flow.mark();
        assert_eq!(flow.rules().w_max, 680.0, "the window had recovered");
    }

    #[test]
    fn a_round_trip_never_adds_more_than_half_of_the_window() {
        // 10 s beyond K the curve is 400 packets above; the clamp limits a window of 10 to half a packet each.
        let mut flow = after_loss(10.0, RTT);
        flow.ack();
        flow.now += Duration::from_secs(12);
        let gained = flow.ack();
        assert!((gained - 0.5).abs() < 1e-9, "{gained}");
    }

    #[test]
    fn after_a_timeout_the_curve_starts_where_slow_start_ends() {
        let mut flow = after_loss(100.0, RTT);
        flow.lose(LossKind::Persistent);
        while flow.rules().curve.is_none() {
            flow.ack();
        }
        let curve = flow.rules().curve.clone().unwrap();
        assert_eq!(curve.k, 0.0);
        assert!((curve.origin - 49.0).abs() < 1.0, "0.7 of 70: {}", curve.origin);
    }
}
