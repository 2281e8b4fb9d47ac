//! TCP Vegas (Brakmo, O'Malley, Peterson, SIGCOMM 1994; Brakmo, Peterson, JSAC 13(8), 1995): the window keeps between
//! `alpha` and `beta` packets of the flow in the queue.
//!
//! With `W` the window, `BaseRTT` the minimum round-trip time and `RTT` that of the round trip that ends:
//!
//! ```text
//! once a round trip:  Expected = W / BaseRTT,  Actual = W / RTT                               section 3.2
//!                     Diff = (Expected - Actual) BaseRTT = W (1 - BaseRTT / RTT)              in packets
//! slow start:         W doubles every other round trip and is constant in between             section 3.3
//!                     Diff > gamma: slow start ends, W = min(W, W BaseRTT / RTT + 1)          Linux, ns-3
//! afterwards:         Diff < alpha: W += 1;  Diff > beta: W -= 1;  else W is constant         section 3.2
//! a loss:             W = W / 2                                                               Linux
//! ```
//!
//! `Diff` is the number of packets of the flow in queues: a queue that delays all packets by `RTT - BaseRTT` has a part
//! `W / RTT` a second of this flow. At a link of rate `C` with a queue of `Q` packets a flow has the rate `C Diff / Q`.
//! Flows that measure the same path have `alpha` to `beta` packets each, so rates differ by a factor of `beta / alpha`
//! at most. Beside a TCP that fills the queue, Vegas gets the share `beta / Q` or less: it has no defence.
//!
//! `alpha`, `beta` and `gamma` count packets, as in Linux and in ns-3; the paper's text has rates, and "buffers in the
//! network" where it gives numbers.
//!
//! *Deviations*: `RTT` is the minimum of the round trip's samples, as in Linux and ns-3, because a delayed
//! acknowledgement is no queue. Slow start uses the last sample, that of the packet that was sent at the start of the
//! round trip (the paper's distinguished segment): the earlier ones were sent while the window was smaller. In a round
//! trip with two packets or less all of them may be delayed, and it works as NewReno. The transport detects losses, and
//! the window is halved once a window of data; the paper has a retransmission timer of its own (section 3.1).

use rampmeter_units::Duration;
use rampmeter_units::settings::check_range;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::Settings;
use crate::parts::check::{check_first_window, check_order};
use crate::rules::{AckEvent, Amount, Congestion, Rounds, Rules, Windowed};

/// TCP Vegas.
pub type Vegas = Windowed<VegasRules>;

/// Settings of Vegas.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// First window, in packets (RFC 6928).
    #[default(10)]
    pub initial_window: u64,
    /// The window grows while the flow has fewer packets than this in the queue.
    #[default(2.0)]
    pub alpha: f64,
    /// The window shrinks while the flow has more packets than this in the queue.
    #[default(4.0)]
    pub beta: f64,
    /// Slow start ends when the flow has more packets than this in the queue; the paper: "one router buffer".
    #[default(1.0)]
    pub gamma: f64,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_first_window(self.initial_window)?;
        for (name, packets) in [("alpha", self.alpha), ("beta", self.beta), ("gamma", self.gamma)] {
            check_range(name, packets, 0.1..=1e5, "packets in the queue")?;
        }
        check_order("alpha", self.alpha, "beta", self.beta)
    }
}

/// The measurements of a round trip.
#[derive(Debug, Clone, Copy, Default)]
struct Measured {
    /// The minimum of its round-trip times.
    min_rtt: Option<Duration>,
    /// The last of them.
    last_rtt: Option<Duration>,
    /// The packets that were delivered in it.
    packets: f64,
}

impl Measured {
    /// Whether one of its acknowledgements was not delayed.
    fn counts(&self) -> bool {
        self.packets > 2.0
    }
}

/// What an acknowledgement may do to the window.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// Slow start, in a round trip in which the window grows.
    Growing,
    /// Slow start, in the round trip after it.
    Constant,
    /// Slow start has ended, and the window is to be reduced by this number of packets.
    Ending(f64),
    /// The rules of section 3.2.
    Linear,
}

/// The window rules of Vegas.
#[derive(Debug, Clone)]
pub struct VegasRules {
    config: Config,
    phase: Phase,
    rounds: Rounds,
    /// The current round trip.
    measured: Measured,
    /// The round trip that the last acknowledgement ended, if it did.
    ended: Option<Measured>,
}

/// `Diff`, in packets.
fn diff(window: f64, base_rtt: Duration, rtt: Duration) -> f64 {
    window * (1.0 - base_rtt.as_secs_f64() / rtt.as_secs_f64()) // section 3.2
}

impl Rules for VegasRules {
    type Config = Config;

    fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            phase: Phase::Growing,
            rounds: Rounds::default(),
            measured: Measured::default(),
            ended: None,
        }
    }

    fn first_window(config: &Config) -> u64 {
        config.initial_window
    }

    fn observe(&mut self, event: &AckEvent<'_>) {
        let measured = &mut self.measured;
        measured.packets += event.delivered;
        if let Some(rtt) = event.ack.rtt.filter(|rtt| *rtt > Duration::ZERO) {
            measured.min_rtt = Some(measured.min_rtt.map_or(rtt, |min_rtt| min_rtt.min(rtt)));
            measured.last_rtt = Some(rtt);
        }
        self.ended = self.rounds.ended(event).map(|_| std::mem::take(measured));
    }

    fn slow_start(&mut self, event: &AckEvent<'_>) -> Option<Amount> {
        if let Some(ended) = self.ended {
            self.phase = match self.phase {
                Phase::Growing => Phase::Constant,
                Phase::Constant => {
                    let rtt = ended.last_rtt.filter(|_| ended.counts());
                    let diff = rtt.map_or(0.0, |rtt| diff(event.window, event.ack.min_rtt, rtt));
                    if diff > self.config.gamma { Phase::Ending(diff - 1.0) } else { Phase::Growing }
                }
                phase => phase,
            };
        }
        match self.phase {
            Phase::Growing => Some(event.delivered.min(1.0).into()),
            Phase::Constant => Some(0.0.into()),
            Phase::Ending(_) | Phase::Linear => None,
        }
    }

    fn increase(&mut self, event: &AckEvent<'_>) -> Amount {
        let phase = std::mem::replace(&mut self.phase, Phase::Linear);
        let change = match (phase, self.ended) {
            (Phase::Ending(excess), _) => -excess.max(0.0),
            (_, None) => 0.0,
            (_, Some(ended)) => match ended.min_rtt.filter(|_| ended.counts()) {
                None => 1.0, // as NewReno
                Some(rtt) => {
                    let diff = diff(event.window, event.ack.min_rtt, rtt);
                    let grow = f64::from(u8::from(diff < self.config.alpha));
                    let shrink = f64::from(u8::from(diff > self.config.beta));
                    grow - shrink
                }
            },
        };
        change.into()
    }

    fn decrease(&mut self, &Congestion { window, .. }: &Congestion) -> Amount {
        self.phase = Phase::Linear;
        (window / 2.0).into()
    }

    fn on_timeout(&mut self) {
        self.phase = Phase::Growing;
    }

    /// After an idle time the window may be the first one. Then it grows by slow start up to the one before.
    fn pause(&mut self, _span: Duration) {
        self.phase = Phase::Growing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::tests::TestFlow;

    const BASE: Duration = Duration::from_millis(100);

    /// A flow in congestion avoidance, at the start of a round trip.
    fn linear(window: f64) -> TestFlow<VegasRules> {
        let mut flow = TestFlow::in_congestion_avoidance(&Config::default(), window, BASE);
        flow.round();
        flow.set(window);
        flow
    }

    /// Simulates a round trip whose last acknowledgement ends it.
    fn whole_round(flow: &mut TestFlow<VegasRules>, rtt: Duration) {
        flow.rtt = rtt;
        flow.now += Duration::from_micros(1); // more than the remainder of the division into acknowledgements
        flow.round();
    }

    #[test]
    fn the_window_follows_the_packets_in_the_queue() {
        for (queued, change) in [(0.0, 1.0), (1.9, 1.0), (2.1, 0.0), (3.9, 0.0), (4.1, -1.0), (50.0, -1.0)] {
            let mut flow = linear(100.0);
            whole_round(&mut flow, BASE.scale(100.0 / (100.0 - queued)));
            assert!((flow.window() - 100.0 - change).abs() < 1e-9, "{queued}: {}", flow.window());
        }
    }

    /// Simulates round trips over a link of `rate` packets a second with an unlimited queue.
    fn run(flow: &mut TestFlow<VegasRules>, rate: f64, rounds: usize) {
        for _ in 0..rounds {
            flow.rtt = BASE.max(Duration::from_secs_f64(flow.window() / rate));
            flow.round();
        }
    }

    #[test]
    fn the_window_settles_with_alpha_to_beta_packets_queued() {
        for (rate, first) in [(100.0, 4.0), (1000.0, 40.0), (1000.0, 200.0)] {
            let mut flow = linear(first);
            run(&mut flow, rate, 200);
            let queued = flow.window() - rate * 0.1;
            assert!((2.0..=4.0).contains(&queued), "{queued} at {rate}");
            let settled = flow.window();
            run(&mut flow, rate, 5);
            assert_eq!(flow.window(), settled);
        }
    }

    #[test]
    fn slow_start_doubles_the_window_every_other_round_trip() {
        let mut flow = TestFlow::<VegasRules>::new(&Config { initial_window: 16, ..Config::default() }, BASE);
        let mut after_round = || {
            whole_round(&mut flow, BASE);
            flow.window()
        };
        let windows: Vec<_> = (0..4).map(|_| after_round()).collect();
        assert_eq!(windows, [31.0, 32.0, 63.0, 64.0]); // a round trip begins with its second acknowledgement
    }

    #[test]
    fn slow_start_ends_with_one_packet_in_the_queue() {
        // A link of 1000 packets a second holds 100 of them. In the constant round trip 59 of 159 are in the queue.
        let mut flow = TestFlow::<VegasRules>::new(&Config { initial_window: 80, ..Config::default() }, BASE);
        flow.round();
        assert_eq!(flow.window(), 159.0);
        whole_round(&mut flow, Duration::from_millis(159));
        assert!((flow.window() - 101.0).abs() < 0.1, "{}", flow.window());
        whole_round(&mut flow, BASE);
        assert!((flow.window() - 102.0).abs() < 0.1, "it stays in congestion avoidance: {}", flow.window());
    }

    #[test]
    fn a_round_trip_of_two_packets_works_as_newreno() {
        let mut flow = linear(2.0);
        whole_round(&mut flow, BASE * 3); // both acknowledgements were delayed
        assert_eq!(flow.window(), 3.0);
        // With smaller bounds the 1.3 packets in the queue would reduce the window.
        let config = Config { alpha: 0.5, beta: 1.0, ..Config::default() };
        let mut flow = TestFlow::<VegasRules>::in_congestion_avoidance(&config, 2.0, BASE);
        flow.round();
        flow.set(2.0);
        whole_round(&mut flow, BASE * 3);
        assert_eq!(flow.window(), 3.0);
    }
}
