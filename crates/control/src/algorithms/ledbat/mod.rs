//! LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus-06) and LEDBAT (RFC 6817): background transfers, which hold the queueing
//! delay at a target and leave the link to flows that fill the queue.
//!
//! With `W` the window in packets and `q` the queueing delay, the current delay above its minimum (`delays`):
//!
//! ```text
//! LEDBAT, TARGET = 100 ms    W += (TARGET - q) / TARGET  a round trip                 RFC 6817 section 2.4.2, GAIN = 1
//!
//! LEDBAT++, TARGET = 60 ms   GAIN = 1 / min(16, ceil(2 TARGET / base))                                     section 4.2
//!   slow start               W += GAIN delivered;  q > 3/4 TARGET ends the initial one                     section 4.1
//!   q <= TARGET              W += GAIN  a round trip                                                       section 4.2
//!   q > TARGET               W += max(GAIN - W (q / TARGET - 1), -W / 2)  a round trip                     section 4.3
//!   slowdown                 S = W, W = 2 for two round trips, then slow start up to S                     section 4.4
//!     the initial one        two round trips after the initial slow start
//!     the next one           after 9 times the duration of this one
//!
//! both: a loss               W = W / 2, at least 2                                    RFC 6817 section 2.4.2
//!       the timer expires    W = 1
//! ```
//!
//! A LEDBAT flow that starts while another one holds its target takes that queue for the path, aims at 100 ms more, and
//! takes the whole link: the *latecomer advantage*. A LEDBAT flow that starts first cannot prevent it, because the queue
//! never empties again. In LEDBAT++ slowdowns empty it, so all flows measure the same `base`, and the decrease in
//! proportion to `W` makes their windows equal. A slowdown takes a tenth of the time at most, and so does its loss of
//! throughput. The window rests where `GAIN = W (q / TARGET - 1)`, slightly above the target.
//!
//! LEDBAT measures one-way delays, LEDBAT++ round trips (section 4.5), which need no clocks but include the queue of
//! acknowledgements. Without a receiver's arrival times LEDBAT measures round trips too. Without any round trip it
//! grows until packets are lost.
//!
//! Where the texts are open: LEDBAT has no slow start (RFC 6817 permits one), and the slow start after a slowdown grows
//! with `GAIN` as the initial one does. *Deviations*: an acknowledgement counts as one packet at most in slow start, as
//! in all schemes here. A window that the application does not fill does not grow, in place of RFC 6817's bound by the bytes
//! in flight (section 2.4.2). An idle time restarts LEDBAT++ with the first window and slow start up to the window before.

pub(crate) mod delays;

use rampmeter_units::{Duration, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use self::delays::Delays;
use crate::Settings;
use crate::parts::check::{check_first_window, require};
use crate::rules::{AckEvent, Amount, Congestion, Rules, Windowed};

/// LEDBAT++, or LEDBAT.
pub type Ledbat = Windowed<LedbatRules>;

/// `TARGET` of RFC 6817, which is also the maximum that it permits.
const LEDBAT_TARGET: Duration = Duration::from_millis(100);

/// `TARGET` of LEDBAT++ (section 4.5).
const PLUS_PLUS_TARGET: Duration = Duration::from_millis(60);

/// The minimum of GAIN is one divided by this (section 4.2).
const MAX_GAIN_DIVISOR: f64 = 16.0;

/// The fraction of the target at which the initial slow start ends (section 4.1).
const SLOW_START_TARGET: f64 = 0.75;

/// `MIN_CWND` (RFC 6817), and the window of slowdowns (section 4.4), in packets.
const MIN_WINDOW: f64 = 2.0;

/// Round trips from the end of the initial slow start to the initial slowdown, and of the window of two packets.
const SLOWDOWN_ROUNDS: u64 = 2;

/// Durations of a slowdown from its end to the next one (section 4.4).
const SLOWDOWN_INTERVAL: u64 = 9;

/// Which of the two it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Variant {
    /// draft-irtf-iccrg-ledbat-plus-plus-06.
    #[serde(rename = "ledbat++")]
    PlusPlus,
    /// RFC 6817.
    #[serde(rename = "ledbat")]
    Rfc6817,
}

/// Settings of LEDBAT++.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// LEDBAT++, or LEDBAT.
    #[default(Variant::PlusPlus)]
    pub variant: Variant,
    /// The queueing delay that it holds; `None`: 60 ms, and 100 ms for LEDBAT.
    pub target: Option<Duration>,
    /// First window, in packets (section 4.1, and `INIT_CWND` of RFC 6817).
    #[default(2)]
    pub initial_window: u64,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_first_window(self.initial_window)?;
        let target = self.target();
        let min = Duration::from_millis(1);
        require((min..=LEDBAT_TARGET).contains(&target), || {
            format!("target is {target}: write {min} to {LEDBAT_TARGET}, RFC 6817's maximum")
        })
    }
}

impl Config {
    fn target(&self) -> Duration {
        self.target.unwrap_or(match self.variant {
            Variant::PlusPlus => PLUS_PLUS_TARGET,
            Variant::Rfc6817 => LEDBAT_TARGET,
        })
    }
}

/// What LEDBAT++ does.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// Slow start up to the threshold.
    SlowStart {
        /// The slowdown that it belongs to; `None` for the initial slow start.
        slowdown: Option<Time>,
    },
    /// Sections 4.2 and 4.3.
    Avoidance {
        /// When the next slowdown begins.
        until: Time,
    },
    /// Two packets in flight.
    Slowdown { since: Time, until: Time },
}

/// The window rules of LEDBAT++ and LEDBAT.
#[derive(Debug, Clone)]
pub struct LedbatRules {
    config: Config,
    delays: Delays,
    phase: Phase,
    /// `SSTHRESH`, in packets. After slow start it is the window.
    threshold: f64,
    smoothed_rtt: Duration,
}

impl LedbatRules {
    /// `q / TARGET`.
    fn delay(&self) -> f64 {
        self.delays.queueing().as_secs_f64() / self.config.target().as_secs_f64()
    }

    /// `GAIN`.
    fn gain(&self) -> f64 {
        let divisor = (2.0 * self.config.target().as_secs_f64() / self.delays.base().as_secs_f64()).ceil();
        1.0 / divisor.clamp(1.0, MAX_GAIN_DIVISOR) // section 4.2
    }

    /// The change of the window by an acknowledgement, in packets.
    fn change(&mut self, event: &AckEvent<'_>) -> f64 {
        let rounds = (event.delivered / event.window).min(1.0); // the part of a round trip that it covers
        let change = match self.config.variant {
            Variant::Rfc6817 => (1.0 - self.delay()) * rounds, // RFC 6817 section 2.4.2
            Variant::PlusPlus => self.plus_plus(event, rounds),
        };
        change.max(MIN_WINDOW - event.window)
    }

    fn plus_plus(&mut self, event: &AckEvent<'_>, rounds: f64) -> f64 {
        self.advance(event);
        let (window, gain, delay) = (event.window, self.gain(), self.delay());
        match self.phase {
            Phase::SlowStart { .. } => (gain * event.delivered.min(1.0)).min(self.threshold - window),
            Phase::Slowdown { .. } => MIN_WINDOW - window,
            Phase::Avoidance { .. } => {
                let decrease = window * (delay - 1.0).max(0.0);
                let change = (gain - decrease).max(-window / 2.0) * rounds; // section 4.3
                self.threshold = window + change;
                change
            }
        }
    }

    /// Ends the phase if its time has come.
    fn advance(&mut self, event: &AckEvent<'_>) {
        let &AckEvent { now, window, .. } = event;
        match self.phase {
            Phase::SlowStart { slowdown: None } if self.delay() > SLOW_START_TARGET => self.end_slow_start(now),
            Phase::SlowStart { .. } if window >= self.threshold => self.end_slow_start(now),
            Phase::Slowdown { since, until } if now >= until => {
                self.phase = Phase::SlowStart { slowdown: Some(since) };
            }
            // After a timeout or an idle time.
            Phase::Avoidance { .. } if window + 1.0 < self.threshold => {
                self.phase = Phase::SlowStart { slowdown: Some(now) };
            }
            Phase::Avoidance { until } if now >= until => {
                self.threshold = window;
                self.phase = Phase::Slowdown { since: now, until: now + self.smoothed_rtt * SLOWDOWN_ROUNDS };
            }
            _ => {}
        }
    }

    fn end_slow_start(&mut self, now: Time) {
        let wait = match self.phase {
            Phase::SlowStart { slowdown: Some(since) } => now.since(since) * SLOWDOWN_INTERVAL,
            _ => self.smoothed_rtt * SLOWDOWN_ROUNDS,
        };
        self.phase = Phase::Avoidance { until: now + wait };
    }
}

impl Rules for LedbatRules {
    type Config = Config;

    fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            delays: Delays::default(),
            phase: Phase::SlowStart { slowdown: None },
            threshold: f64::INFINITY,
            smoothed_rtt: Duration::ZERO,
        }
    }

    /// The base delay stays: at the end of a jump of Careful Resume all delays have its queue in them.
    fn restart(&mut self, config: &Config) {
        *self = Self { delays: std::mem::take(&mut self.delays), ..Self::new(config) };
    }

    fn first_window(config: &Config) -> u64 {
        config.initial_window
    }

    fn observe(&mut self, event: &AckEvent<'_>) {
        self.smoothed_rtt = event.ack.smoothed_rtt;
        self.delays.observe(event.now, event.ack, self.config.variant == Variant::Rfc6817);
    }

    fn slow_start(&mut self, event: &AckEvent<'_>) -> Option<Amount> {
        Some(self.change(event).into())
    }

    fn increase(&mut self, event: &AckEvent<'_>) -> Amount {
        self.change(event).into()
    }

    /// RFC 6817 has one rule for all windows.
    fn state(&self) -> Option<&'static str> {
        Some(match (self.config.variant, self.phase) {
            (Variant::Rfc6817, _) | (_, Phase::Avoidance { .. }) => "congestion_avoidance",
            (_, Phase::SlowStart { .. }) => "slow_start",
            (_, Phase::Slowdown { .. }) => "slowdown",
        })
    }

    /// A pause in a slowdown, or in the slow start after it, does not postpone the next one.
    fn pause(&mut self, span: Duration) {
        if let Phase::SlowStart { slowdown: Some(since) } | Phase::Slowdown { since, .. } = &mut self.phase {
            *since += span;
        }
    }

    fn decrease(&mut self, &Congestion { now, window, .. }: &Congestion) -> Amount {
        match self.phase {
            Phase::SlowStart { .. } => self.end_slow_start(now),
            Phase::Slowdown { .. } => {
                self.threshold = (self.threshold / 2.0).max(MIN_WINDOW);
                return window.min(MIN_WINDOW).into();
            }
            Phase::Avoidance { .. } => {}
        }
        self.threshold = (window / 2.0).max(MIN_WINDOW); // RFC 6817 section 2.4.2
        self.threshold.into()
    }
}

#[cfg(test)]
mod tests;
