//! FAST TCP (Jin, Wei, Low, INFOCOM 2004): the window that keeps `alpha` packets of the flow's own in the queue.
//!
//! ```text
//! every other round trip:  w = min(2 w, (1 - gamma) w + gamma (baseRTT / RTT w + alpha))        section IV, eq. (4)
//! RTT:                     moving average, weight min(3 / w, 1/4) a sample
//! no queue yet:            alpha is proportional to w: multiplicative increase, here a packet an acknowledgement
//! a loss:                  w = w / 2
//! ```
//!
//! Where it rests, w = baseRTT / RTT w + alpha: a flow of x packets a second has x (RTT - baseRTT) = alpha of them queued,
//! whatever the window. The window moves during one round trip, a part with every acknowledgement, and stays for the
//! next, so that the round-trip time it is reckoned from is that of the window it is applied to.
//!
//! `alpha` is the flow's part of the queue; a buffer must hold those of all. Without one it follows the flow's rate by the
//! table of the authors' implementation: 8 packets below 1,500 packets a second (about 10 Mb/s), 20 below 15,000, 200
//! from there on; on the way down from 12,500 and 1,250. Their papers' figure for paths of 1 Gb/s is 200.
//!
//! *Deviations*: losses are answered as by other TCPs, once a window and with a slow-start threshold. Bursts are not
//! limited and packets not spaced, as in the authors' simulations. A queue that others keep for good is taken for the
//! path: `baseRTT` is the least round trip seen.

use rampmeter_units::Duration;
use serde::{Deserialize, Serialize};

use crate::Settings;
use crate::check::{check_first_window, check_positive};
use crate::rules::{Amount, Congestion, Rounds, Rules, Seen, Windowed};

/// FAST TCP.
pub type Fast = Windowed<FastRules>;

/// Tunables of FAST TCP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// First window, in packets (RFC 6928).
    pub initial_window: u64,
    /// Packets that the flow keeps queued; `None` goes by the flow's rate.
    pub alpha: Option<f64>,
    /// How much of the way to where the window should be an update goes; 0 to 1.
    pub gamma: f64,
    /// Queueing delay up to which the window grows as in slow start (authors' implementation).
    pub no_queue: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self { initial_window: 10, alpha: None, gamma: 0.5, no_queue: Duration::from_micros(750) }
    }
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_first_window(self.initial_window)?;
        if let Some(alpha) = self.alpha {
            check_positive("alpha", alpha, "packets in the queue")?;
        }
        if !(self.gamma > 0.0 && self.gamma <= 1.0) {
            return Err(format!("gamma is {}: more than 0, 1 at most", self.gamma));
        }
        Ok(())
    }
}

/// A row of the table: `alpha`, and the rates in packets a second that lead to the row below and to that above.
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

/// How FAST's window moves.
#[derive(Debug, Clone)]
pub struct FastRules {
    config: Config,
    /// Average round-trip time in seconds; zero until the first sample.
    rtt: f64,
    /// Least round-trip time, in seconds.
    base_rtt: f64,
    rounds: Rounds,
    /// The window moves in this round trip, not in the next.
    moves: bool,
    /// What an acknowledgement of this round trip adds.
    step: f64,
    /// The row of the table that the rate is in.
    row: usize,
}

impl FastRules {
    /// Where `window` should be, eq. (4).
    fn target(&self, window: f64) -> f64 {
        let Config { gamma, alpha, .. } = self.config;
        let alpha = alpha.unwrap_or(TABLE[self.row].alpha);
        let wanted = (1.0 - gamma) * window + gamma * (self.base_rtt / self.rtt * window + alpha);
        wanted.min(2.0 * window)
    }

    /// Goes to the next row of the table if `rate`, in packets a second, has left this one.
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
        Self { config: config.clone(), rtt: 0.0, base_rtt: 0.0, rounds, moves: false, step: 0.0, row: 0 }
    }

    fn first_window(config: &Config) -> u64 {
        config.initial_window
    }

    fn observe(&mut self, seen: &Seen<'_>) {
        self.base_rtt = seen.ack.min_rtt.as_secs_f64();
        if let Some(rtt) = seen.ack.rtt.map(Duration::as_secs_f64) {
            let weight = if self.rtt > 0.0 { (3.0 / seen.window).min(0.25) } else { 1.0 };
            self.rtt += weight * (rtt - self.rtt);
        }
    }

    fn slow_start(&mut self, seen: &Seen<'_>) -> Option<Amount> {
        let queued = self.rtt - self.base_rtt > self.config.no_queue.as_secs_f64();
        (!queued).then_some(seen.delivered.min(1.0).into())
    }

    fn increase(&mut self, seen: &Seen<'_>) -> Amount {
        if self.rtt > 0.0 && self.rounds.ended(seen).is_some() {
            self.moves = !self.moves;
            self.look_up(seen.window / self.rtt);
            self.step = if self.moves { self.target(seen.window) / seen.window - 1.0 } else { 0.0 };
        }
        self.step.into()
    }

    fn decrease(&mut self, &Congestion { window, .. }: &Congestion) -> Amount {
        (self.moves, self.step) = (true, 0.0); // a round trip of rest
        (window / 2.0).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::tests::Flow;

    const BASE: Duration = Duration::from_millis(100);

    fn config(alpha: f64) -> Config {
        Config { alpha: Some(alpha), ..Config::default() }
    }

    /// Round trips over a link of `rate` packets a second with an endless queue.
    fn run(flow: &mut Flow<FastRules>, rate: f64, rounds: usize) {
        for _ in 0..rounds {
            flow.rtt = BASE.max(Duration::from_secs_f64(flow.window() / rate));
            flow.round();
        }
    }

    #[test]
    fn it_comes_to_rest_with_alpha_packets_in_the_queue() {
        // w = rate baseRTT + alpha, whatever it began with.
        for (rate, alpha, begins) in [(1000.0, 20.0, 40.0), (10_000.0, 200.0, 300.0), (2_000.0, 50.0, 900.0)] {
            let mut flow = Flow::avoiding(&config(alpha), begins, BASE);
            run(&mut flow, rate, 100);
            let rest = rate * 0.1 + alpha;
            assert!((flow.window() - rest).abs() < 1.0, "{} of {rest}", flow.window());
        }
    }

    #[test]
    fn an_update_goes_half_of_the_way_and_then_rests_a_round_trip() {
        // At 100 packets and no queue w = 100/2 + (100 + 40)/2 = 120; the next round trip stays there.
        let mut flow = Flow::<FastRules>::avoiding(&config(40.0), 100.0, BASE);
        flow.round(); // its last acknowledgement begins the first one that counts
        flow.set(100.0);
        let gains: Vec<_> = (0..4).map(|_| flow.round().round()).collect();
        assert_eq!(gains, [20.0, 0.0, 20.0, 0.0]);
    }

    #[test]
    fn no_update_more_than_doubles_the_window() {
        let mut flow = Flow::<FastRules>::avoiding(&config(200.0), 20.0, BASE);
        flow.round();
        let before = flow.window();
        let gained = flow.round();
        assert!((gained / before - 1.0).abs() < 0.05, "{gained}");
    }

    #[test]
    fn the_first_queue_ends_slow_start() {
        let mut flow = Flow::<FastRules>::new(&config(20.0), BASE);
        assert!((flow.round() - 10.0).abs() < 1e-9);
        flow.rtt = BASE + Duration::from_millis(10);
        flow.ack();
        assert!(!flow.in_slow_start());
    }

    #[test]
    fn without_alpha_it_follows_the_rate_by_the_table() {
        let mut rules = FastRules::new(&Config::default());
        let mut alpha = |rate: f64| {
            rules.look_up(rate);
            TABLE[rules.row].alpha
        };
        let rates = [1_000.0, 1_400.0, 1_600.0, 1_400.0, 16_000.0, 13_000.0, 12_000.0, 1_000.0];
        assert_eq!(rates.map(&mut alpha), [8.0, 8.0, 20.0, 20.0, 200.0, 200.0, 20.0, 8.0]);
    }

    #[test]
    fn a_loss_halves_the_window() {
        let mut flow = Flow::<FastRules>::avoiding(&config(20.0), 100.0, BASE);
        flow.mark();
        assert_eq!(flow.window(), 50.0);
    }
}
