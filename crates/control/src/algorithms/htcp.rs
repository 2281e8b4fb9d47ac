//! H-TCP (Leith, Shorten, PFLDnet 2004; draft-leith-tcp-htcp): additive increase that grows with the time since the
//! last loss, and a decrease just large enough to empty the queue.
//!
//! ```text
//! D: time since the last loss, in seconds; D_L = 1 s
//! A(D) = 1                                                D <= D_L: as Standard TCP
//!        1 + 10 (D - D_L) + ((D - D_L) / 2)^2             else
//! an acknowledgement:  w += 2 (1 - beta) A(D) / w
//! a loss:  beta = 0.5                                     |B - B_before| > 0.2 B_before: throughput changed
//!                 RTT_min / RTT_max within [0.5, 0.8]     else: adaptive backoff
//!          w = beta w
//! ```
//!
//! `B` is the throughput just before the loss, here that of the last whole round trip. `RTT_max` is the longest round
//! trip since the previous loss. The factor 2 (1 - beta) makes flows with different `beta` fair to each other. With
//! `rtt_scaling`, A(D) is multiplied by `RTT_min` / 100 ms, limited to [0.1, 2], and is at least 1. Flows with
//! different round trips then grow equally over time.
//!
//! D does not include idle or application-limited time; the draft leaves this open.

use rampmeter_units::{Bytes, Duration, Rate, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::Settings;
use crate::parts::check::check_first_window;
use crate::rules::{AckEvent, Amount, Congestion, Rounds, Rules, SlowStart, Windowed};

/// H-TCP.
pub type HTcp = Windowed<HTcpRules>;

/// `D_L`: the time after a loss in which H-TCP is Standard TCP.
const STANDARD_TCP_FOR: Duration = Duration::from_secs(1);

/// The share of the window after a loss: the minimum, also where the throughput changed, and the maximum.
const MIN_BETA: f64 = 0.5;
const MAX_BETA: f64 = 0.8;

/// The relative change from which on the throughput counts as changed.
const CHANGE: f64 = 0.2;

/// Settings of H-TCP.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// First window, in packets (RFC 6928).
    #[default(10)]
    pub initial_window: u64,
    /// How the first slow start ends.
    pub slow_start: SlowStart,
    /// Scale growth with the round-trip time.
    pub rtt_scaling: bool,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_first_window(self.initial_window)
    }
}

/// The window rules of H-TCP.
#[derive(Debug, Clone)]
pub struct HTcpRules {
    config: Config,
    /// The time of the last loss.
    lost_at: Time,
    /// The share of the window that remained after it.
    beta: f64,
    min_rtt: Duration,
    /// The longest round trip since the last loss.
    max_rtt: Duration,
    rounds: Rounds,
    /// Bytes delivered in this round trip.
    delivered: Bytes,
    /// The application paused in it, so it measures no throughput.
    has_paused: bool,
    /// Throughput in the last whole round trip.
    throughput: Option<Rate>,
    /// Throughput in the last round trip before the last loss.
    throughput_before: Option<Rate>,
}

impl HTcpRules {
    /// `2 (1 - beta) A(D)`: packets a round trip.
    fn increase_per_round(&self, now: Time) -> f64 {
        let beyond = now.since(self.lost_at).saturating_sub(STANDARD_TCP_FOR).as_secs_f64();
        let mut increase = 1.0 + 10.0 * beyond + 0.25 * beyond * beyond;
        if self.config.rtt_scaling {
            increase = (increase * (self.min_rtt.as_secs_f64() / 0.1).clamp(0.1, 2.0)).max(1.0);
        }
        2.0 * (1.0 - self.beta) * increase
    }

    fn throughput_changed(&self) -> bool {
        let (Some(before), Some(now)) = (self.throughput_before, self.throughput) else { return true };
        (now.as_bps_f64() - before.as_bps_f64()).abs() > CHANGE * before.as_bps_f64()
    }
}

impl Rules for HTcpRules {
    type Config = Config;

    fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            lost_at: Time::ZERO,
            beta: MIN_BETA,
            min_rtt: Duration::ZERO,
            max_rtt: Duration::ZERO,
            rounds: Rounds::default(),
            delivered: Bytes::ZERO,
            has_paused: false,
            throughput: None,
            throughput_before: None,
        }
    }

    fn first_window(config: &Config) -> u64 {
        config.initial_window
    }

    fn first_slow_start(config: &Config) -> SlowStart {
        config.slow_start
    }

    fn observe(&mut self, event: &AckEvent<'_>) {
        self.min_rtt = event.ack.min_rtt;
        self.max_rtt = self.max_rtt.max(event.ack.rtt.unwrap_or_default());
        self.delivered += event.ack.delivered;
        if let Some(duration) = self.rounds.ended(event) {
            if !std::mem::take(&mut self.has_paused) {
                self.throughput = Some(Rate::of(self.delivered, duration));
            }
            self.delivered = Bytes::ZERO;
        }
    }

    fn increase(&mut self, event: &AckEvent<'_>) -> Amount {
        (self.increase_per_round(event.now) / event.window).into()
    }

    fn decrease(&mut self, congestion: &Congestion) -> Amount {
        self.beta = if self.throughput_changed() || self.max_rtt == Duration::ZERO {
            MIN_BETA
        } else {
            (self.min_rtt.as_secs_f64() / self.max_rtt.as_secs_f64()).clamp(MIN_BETA, MAX_BETA)
        };
        (self.lost_at, self.max_rtt, self.throughput_before) = (congestion.now, Duration::ZERO, self.throughput);
        (congestion.window * self.beta).into()
    }

    fn pause(&mut self, span: Duration) {
        self.lost_at += span;
        self.has_paused = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LossKind;
    use crate::rules::tests::TestFlow;

    const RTT: Duration = Duration::from_millis(100);

    /// A flow after two losses, whose throughput was the same at both. Its queue increased the round trip from 100 ms
    /// to `full`.
    fn settled(full: Duration, config: &Config) -> TestFlow<HTcpRules> {
        let mut flow = TestFlow::in_congestion_avoidance(config, 100.0, RTT);
        flow.min_rtt = RTT;
        for _ in 0..2 {
            flow.set(100.0);
            flow.rtt = full;
            flow.round();
            flow.set(100.0);
            flow.round();
            flow.set(100.0);
            flow.lose(LossKind::Transient);
        }
        flow
    }

    #[test]
    fn a_second_after_a_loss_growth_speeds_up() {
        // A(1) = 1, A(3) = 1 + 20 + 1 = 22, A(11) = 1 + 100 + 25 = 126. After a first loss beta is 0.5, so
        // 2 (1 - beta) = 1.
        let mut flow = TestFlow::<HTcpRules>::in_congestion_avoidance(&Config::default(), 1000.0, RTT);
        flow.lose(LossKind::Transient);
        for (seconds, alpha) in [(0.5, 1.0), (1.0, 1.0), (3.0, 22.0), (11.0, 126.0)] {
            let after = Time::ZERO + Duration::from_secs_f64(seconds);
            assert!((flow.rules().increase_per_round(after) - alpha).abs() < 1e-9);
        }
        flow.now = Time::ZERO + Duration::from_secs(3);
        assert!((flow.ack() - 22.0 / 500.0).abs() < 1e-6);
    }

    #[test]
    fn a_loss_reduces_the_window_to_the_share_of_the_empty_path() {
        for (full, beta) in [(110, 0.8), (160, 0.625), (250, 0.5)] {
            let flow = settled(Duration::from_millis(full), &Config::default());
            assert!((flow.window() - 100.0 * beta).abs() < 0.1, "{full} ms: {}", flow.window());
        }
    }

    #[test]
    fn a_change_of_throughput_by_a_fifth_halves_the_window() {
        // 30% and 10% more in a round trip of 125 ms, whose empty path has 100 ms.
        for (window, beta) in [(130.0, 0.5), (110.0, 0.8)] {
            let mut flow = settled(Duration::from_millis(125), &Config::default());
            for _ in 0..2 {
                flow.set(window);
                flow.round();
            }
            flow.set(window);
            flow.lose(LossKind::Transient);
            assert!((flow.window() / window - beta).abs() < 1e-6, "{window}: {}", flow.window());
        }
    }

    #[test]
    fn with_scaling_growth_is_proportional_to_the_round_trip() {
        let config = Config { rtt_scaling: true, ..Config::default() };
        for (rtt, factor) in [(50, 0.5), (100, 1.0), (400, 2.0)] {
            let mut flow = TestFlow::<HTcpRules>::in_congestion_avoidance(&config, 1000.0, Duration::from_millis(rtt));
            flow.lose(LossKind::Transient);
            flow.ack();
            let after = flow.now + Duration::from_secs(3);
            assert!((flow.rules().increase_per_round(after) - 22.0 * factor).abs() < 1e-9);
        }
    }
}
