//! FAST TCP (Jin, Wei, Low, INFOCOM 2004): the window keeps `alpha` packets of the flow in the queue.
//!
//! ```text
//! every other round trip:  w = min(2 w, (1 - gamma) w + gamma (baseRTT / RTT w + alpha))        section IV, eq. (4)
//! RTT:                     moving average, weight min(3 / w, 1/4) a sample
//! no queue yet:            alpha is proportional to w: multiplicative increase, here a packet an acknowledgement
//! a loss:                  w = w / 2
//! ```
//!
//! In equilibrium w = baseRTT / RTT w + alpha: a flow of x packets a second has x (RTT - baseRTT) = alpha packets
//! queued at any window. The window changes during one round trip, by a part with every acknowledgement, and is
//! constant in the next. So each update uses a round-trip time that was measured with the current window.
//!
//! `alpha` is the flow's share of the queue; a buffer must hold the shares of all flows. If it is not set, it depends
//! on the flow's rate as in the authors' implementation (`TABLE`). The papers use 200 for paths of 1 Gb/s.
//!
//! *Deviations*: the reaction to losses is that of other TCPs, once a window and with a slow-start threshold. Bursts
//! are not limited and packets not spaced, as in the authors' simulations. A standing queue of other flows counts as
//! part of the path: `baseRTT` is the minimum round trip measured.

use rampmeter_units::Duration;
use rampmeter_units::settings::check_range;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::Settings;
use crate::parts::check::check_first_window;
use crate::rules::{AckEvent, Amount, Congestion, Rounds, Rules, Windowed};

/// FAST TCP.
pub type Fast = Windowed<FastRules>;

/// The queueing delay up to which the window grows as in slow start, in seconds (authors' implementation).
const SLOW_START_DELAY: f64 = 750e-6;

/// Settings of FAST TCP.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// First window, in packets (RFC 6928).
    #[default(10)]
    pub initial_window: u64,
    /// The number of packets that the flow keeps queued; `None`: the table determines it from the flow's rate.
    pub alpha: Option<f64>,
    /// The share of the distance to the target window that an update covers, 0 to 1.
    #[default(0.5)]
    pub gamma: f64,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_first_window(self.initial_window)?;
        if let Some(alpha) = self.alpha {
            check_range("alpha", alpha, 0.1..=1e6, "packets in the queue")?;
        }
        check_range("gamma", self.gamma, 0.001..=1.0, "of the distance")
    }
}

/// A row of the table: `alpha`, and the rates, in packets a second, below and above which another row applies.
struct Row {
    alpha: f64,
    below: f64,
    above: f64,
}

/// `alpha` by the flow's rate.
const TABLE: [Row; 3] = [
    Row { alpha: 8.0, below: 0.0, above: 1_500.0 },
    Row { alpha: 20.0, below: 1_250.0, above: 15_000.0 },
    Row { alpha: 200.0, below: 12_500.0, above: f64::INFINITY },
];

/// The window rules of FAST.
#[derive(Debug, Clone)]
pub struct FastRules {
    config: Config,
    /// Average round-trip time in seconds; zero until the first sample.
    rtt: f64,
    /// Minimum round-trip time, in seconds.
    base_rtt: f64,
    rounds: Rounds,
    /// Whether the window changes in this round trip, and not in the next.
    is_updating: bool,
    /// The increase by an acknowledgement of this round trip.
    step: f64,
    /// The row of the table for the current rate.
    row: usize,
}

impl FastRules {
    /// The target of `window`, eq. (4).
    fn target(&self, window: f64) -> f64 {
        let Config { gamma, alpha, .. } = self.config;
        let alpha = alpha.unwrap_or(TABLE[self.row].alpha);
        let target = (1.0 - gamma) * window + gamma * (self.base_rtt / self.rtt * window + alpha);
        target.min(2.0 * window)
    }

    /// Moves to the next row of the table if `rate`, in packets a second, is outside of this one.
    fn look_up(&mut self, rate: f64) {
        let Row { below, above, .. } = TABLE[self.row];
        if rate < below {
            self.row -= 1;
        } else if rate > above {
            self.row += 1;
        }
    }
}

impl Rules for FastRules {
    type Config = Config;

    fn new(config: &Config) -> Self {
        let rounds = Rounds::default();
        Self { config: config.clone(), rtt: 0.0, base_rtt: 0.0, rounds, is_updating: false, step: 0.0, row: 0 }
    }

    fn first_window(config: &Config) -> u64 {
        config.initial_window
    }

    fn observe(&mut self, event: &AckEvent<'_>) {
        self.base_rtt = event.ack.min_rtt.as_secs_f64();
        if let Some(rtt) = event.ack.rtt.map(Duration::as_secs_f64) {
            let weight = if self.rtt > 0.0 { (3.0 / event.window).min(0.25) } else { 1.0 };
            self.rtt += weight * (rtt - self.rtt);
        }
    }

    fn slow_start(&mut self, event: &AckEvent<'_>) -> Option<Amount> {
        let has_queue = self.rtt - self.base_rtt > SLOW_START_DELAY;
        (!has_queue).then_some(event.delivered.min(1.0).into())
    }

    fn increase(&mut self, event: &AckEvent<'_>) -> Amount {
        if self.rtt > 0.0 && self.rounds.ended(event).is_some() {
            self.is_updating = !self.is_updating;
            self.look_up(event.window / self.rtt);
            self.step = if self.is_updating { self.target(event.window) / event.window - 1.0 } else { 0.0 };
        }
        self.step.into()
    }

    fn decrease(&mut self, &Congestion { window, .. }: &Congestion) -> Amount {
        (self.is_updating, self.step) = (true, 0.0); // the next round trip has no update
        (window / 2.0).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::tests::TestFlow;

    const BASE: Duration = Duration::from_millis(100);

    fn config(alpha: f64) -> Config {
        Config { alpha: Some(alpha), ..Config::default() }
    }

    /// Simulates round trips over a link of `rate` packets a second with an unlimited queue.
    fn run(flow: &mut TestFlow<FastRules>, rate: f64, rounds: usize) {
        for _ in 0..rounds {
            flow.rtt = BASE.max(Duration::from_secs_f64(flow.window() / rate));
            flow.round();
        }
    }

    #[test]
    fn in_equilibrium_alpha_packets_are_in_the_queue() {
        // w = rate baseRTT + alpha, for any first window.
        for (rate, alpha, first) in [(1000.0, 20.0, 40.0), (10_000.0, 200.0, 300.0), (2_000.0, 50.0, 900.0)] {
            let mut flow = TestFlow::in_congestion_avoidance(&config(alpha), first, BASE);
            run(&mut flow, rate, 100);
            let expected = rate * 0.1 + alpha;
            assert!((flow.window() - expected).abs() < 1.0, "{} of {expected}", flow.window());
        }
    }

    #[test]
    fn an_update_covers_half_of_the_distance_every_second_rtt() {
        // At 100 packets and no queue w = 100/2 + (100 + 40)/2 = 120; it is constant in the next round trip.
        let mut flow = TestFlow::<FastRules>::in_congestion_avoidance(&config(40.0), 100.0, BASE);
        flow.round(); // its last acknowledgement starts the first round trip that counts
        flow.set(100.0);
        let gains: Vec<_> = (0..4).map(|_| flow.round().round()).collect();
        assert_eq!(gains, [20.0, 0.0, 20.0, 0.0]);
    }

    #[test]
    fn no_update_more_than_doubles_the_window() {
        let mut flow = TestFlow::<FastRules>::in_congestion_avoidance(&config(200.0), 20.0, BASE);
        flow.round();
        let before = flow.window();
        let gained = flow.round();
        assert!((gained / before - 1.0).abs() < 0.05, "{gained}");
    }

    #[test]
    fn without_a_setting_alpha_follows_the_rate_by_the_table() {
        let mut rules = FastRules::new(&Config::default());
        let mut alpha = |rate: f64| {
            rules.look_up(rate);
            TABLE[rules.row].alpha
        };
        let rates = [1_000.0, 1_500.0, 1_600.0, 1_250.0, 16_000.0, 12_500.0, 12_000.0, 1_000.0];
        assert_eq!(rates.map(&mut alpha), [8.0, 8.0, 20.0, 20.0, 200.0, 200.0, 20.0, 8.0]);
        // 200 packets in 100 ms are 2000 a second.
        let mut flow = TestFlow::<FastRules>::in_congestion_avoidance(&Config::default(), 200.0, BASE);
        flow.round();
        assert_eq!(flow.rules().row, 1);
    }

    #[test]
    fn the_average_round_trip_weighs_a_sample_by_three_windows() {
        // INFOCOM 2004, section IV-B: a weight of min(3 / w, 1/4).
        for (window, weight) in [(100.0, 0.03), (12.0, 0.25), (4.0, 0.25)] {
            let mut flow = TestFlow::<FastRules>::in_congestion_avoidance(&config(20.0), window, BASE);
            flow.ack();
            assert_eq!(flow.rules().rtt, 0.1, "the first sample");
            flow.set(window);
            flow.rtt = BASE * 2;
            flow.ack();
            assert!((flow.rules().rtt - 0.1 - 0.1 * weight).abs() < 1e-9, "{window}");
        }
    }
}
