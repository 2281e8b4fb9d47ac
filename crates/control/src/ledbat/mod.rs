//! LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus) and LEDBAT (RFC 6817): background transfers, which hold the queueing
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
//! in all schemes here. An idle time restarts LEDBAT++ with the first window and slow start up to the window before.

pub(crate) mod delays;

use rampmeter_units::{Duration, Time};
use serde::{Deserialize, Serialize};

use self::delays::Delays;
use crate::Settings;
use crate::check::{check_first_window, require};
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
    /// draft-irtf-iccrg-ledbat-plus-plus.
    #[serde(rename = "ledbat++")]
    PlusPlus,
    /// RFC 6817.
    #[serde(rename = "ledbat")]
    Rfc6817,
}

/// Settings of LEDBAT++.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// LEDBAT++, or LEDBAT.
    pub variant: Variant,
    /// The queueing delay that it holds; `None`: 60 ms, and 100 ms for LEDBAT.
    pub target: Option<Duration>,
    /// First window, in packets (section 4.1, and `INIT_CWND` of RFC 6817).
    pub initial_window: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { variant: Variant::PlusPlus, target: None, initial_window: 2 }
    }
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_first_window(self.initial_window)?;
        let target = self.target();
        require(target > Duration::ZERO && target <= LEDBAT_TARGET, || {
            format!("target is {target}: write more than 0 ms and at most {LEDBAT_TARGET}, RFC 6817's maximum")
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
mod tests {
    use super::*;
    use crate::rules::tests::TestFlow;
    use crate::testing::{PACKET, ack, arrived};
    use crate::{Ack, Arrival, Controller, LossKind};

    const BASE: Duration = Duration::from_millis(100);

    fn config(variant: Variant) -> Config {
        Config { variant, ..Config::default() }
    }

    /// A flow that has measured its base delay, with a window of `window` packets.
    fn flow(variant: Variant, window: f64) -> TestFlow<LedbatRules> {
        let mut flow = TestFlow::<LedbatRules>::new(&config(variant), BASE);
        flow.ack();
        flow.rules_mut().phase = Phase::Avoidance { until: Time::MAX };
        flow.rules_mut().threshold = window;
        flow.set(window);
        flow
    }

    /// The change of the window in a round trip with a queueing delay of `millis`.
    fn change(variant: Variant, window: f64, millis: u64) -> f64 {
        let mut flow = flow(variant, window);
        flow.now += BASE * 20; // the earlier delay is older than a round trip
        flow.rtt = BASE + Duration::from_millis(millis);
        // One acknowledgement of the round trip: the window changes little, so the sum is as large.
        flow.ack() * window
    }

    #[test]
    fn ledbat_grows_by_the_distance_from_its_target() {
        for (millis, expected) in [(0, 1.0), (50, 0.5), (100, 0.0), (150, -0.5), (300, -2.0)] {
            let change = change(Variant::Rfc6817, 100.0, millis);
            assert!((change - expected).abs() < 1e-9, "{millis} ms: {change}");
        }
    }

    #[test]
    fn ledbat_plus_plus_grows_by_its_gain_up_to_the_target() {
        // A base of 100 ms: GAIN is 1 / ceil(120 / 100). Above the target: 1/2 - 100 (q / 60 ms - 1), at least -50.
        for (millis, expected) in [(0, 0.5), (60, 0.5), (66, 0.5 - 10.0), (120, -50.0), (600, -50.0)] {
            let change = change(Variant::PlusPlus, 100.0, millis);
            assert!((change - expected).abs() < 1e-6, "{millis} ms: {change}");
        }
    }

    #[test]
    fn the_gain_is_between_a_sixteenth_and_one() {
        for (millis, expected) in [(1, 16.0), (8, 15.0), (20, 6.0), (60, 2.0), (61, 2.0), (120, 1.0), (500, 1.0)] {
            let mut flow = TestFlow::<LedbatRules>::new(&Config::default(), Duration::from_millis(millis));
            flow.ack();
            assert_eq!(flow.rules().gain(), 1.0 / expected, "{millis} ms");
        }
    }

    /// Simulates round trips until `is_over`, and returns the time that passes.
    fn until(flow: &mut TestFlow<LedbatRules>, is_over: impl Fn(&TestFlow<LedbatRules>) -> bool) -> Duration {
        let since = flow.now;
        while !is_over(flow) {
            assert!(flow.now.since(since) < Duration::from_secs(600), "{:?}", flow.rules());
            flow.now += flow.rtt / flow.window().max(1.0) as u64;
            flow.ack();
        }
        flow.now.since(since)
    }

    #[test]
    fn slow_start_ends_at_three_quarters_of_the_target() {
        let mut flow = TestFlow::<LedbatRules>::new(&config(Variant::PlusPlus), BASE);
        until(&mut flow, |flow| flow.window() > 100.0);
        flow.rtt = BASE + Duration::from_millis(45);
        (0..3).for_each(|_| _ = flow.round());
        assert!(matches!(flow.rules().phase, Phase::SlowStart { .. }));
        flow.rtt = BASE + Duration::from_millis(46);
        (0..2).for_each(|_| _ = flow.round());
        assert!(matches!(flow.rules().phase, Phase::Avoidance { .. }));
    }

    #[test]
    fn first_windows_add_up_in_slow_start() {
        let mut flow = TestFlow::<LedbatRules>::new(&config(Variant::PlusPlus), BASE);
        flow.ack();
        flow.tcp.on_first_windows(flow.now, 3);
        assert_eq!((flow.window(), flow.in_slow_start()), (6.0, true));
    }

    #[test]
    fn a_slowdown_takes_two_round_trips_and_a_tenth_of_the_time() {
        let mut flow = TestFlow::<LedbatRules>::new(&config(Variant::PlusPlus), BASE);
        until(&mut flow, |flow| flow.window() > 100.0);
        flow.lose(LossKind::Transient); // ends the initial slow start
        let window = flow.window();
        let wait = until(&mut flow, |flow| flow.window() == 2.0).as_secs_f64();
        assert!((wait - 0.2).abs() < 0.01, "the initial slowdown: {wait}");
        let frozen = until(&mut flow, |flow| flow.window() > 2.0).as_secs_f64();
        assert!((0.19..0.26).contains(&frozen), "an acknowledgement arrives every 50 ms: {frozen}");
        // With GAIN 1/2 an acknowledgement adds half a packet: from 2 to 50 in 2 ln 25 = 6.4 round trips.
        let ramp = until(&mut flow, |flow| flow.window() >= window).as_secs_f64();
        assert!((0.55..0.75).contains(&ramp), "{ramp}");
        let interval = until(&mut flow, |flow| flow.window() == 2.0).as_secs_f64();
        assert!((interval / (frozen + ramp) - 9.0).abs() < 0.3, "{interval}");
    }

    #[test]
    fn after_an_idle_time_slow_start_returns_to_the_earlier_window() {
        let mut flow = flow(Variant::PlusPlus, 64.0);
        flow.ack();
        flow.now += Duration::from_secs(10);
        flow.tcp.on_idle(flow.now, Duration::from_secs(10), Duration::from_secs(1));
        assert_eq!(flow.window(), 2.0);
        let back = until(&mut flow, |flow| flow.window() >= 63.0);
        assert!(back < BASE * 8, "{back}"); // 2 ln 32 = 6.9 round trips
    }

    #[test]
    fn slow_start_begins_more_than_a_packet_below_the_threshold() {
        for (threshold, in_slow_start) in [(11.0, false), (11.1, true)] {
            let mut flow = flow(Variant::PlusPlus, 10.0);
            flow.ack();
            flow.set(10.0);
            flow.rules_mut().threshold = threshold;
            flow.ack();
            assert_eq!(matches!(flow.rules().phase, Phase::SlowStart { .. }), in_slow_start, "{threshold}");
        }
    }

    #[test]
    fn slow_start_stops_at_its_threshold() {
        let mut flow = flow(Variant::PlusPlus, 10.0);
        flow.rules_mut().phase = Phase::SlowStart { slowdown: Some(Time::ZERO) };
        for (threshold, grown) in [(10.75, 0.5), (10.75, 0.25)] {
            flow.rules_mut().threshold = threshold;
            assert!((flow.ack() - grown).abs() < 1e-9); // GAIN is 1/2
        }
    }

    #[test]
    fn decreases_above_the_target_do_not_cause_a_slow_start() {
        let mut flow = flow(Variant::PlusPlus, 100.0);
        flow.now += BASE * 20;
        let rtt = BASE + Duration::from_millis(600);
        for _ in 0..10 {
            flow.tcp.on_ack(flow.now, &Ack { rtt: Some(rtt), smoothed_rtt: rtt, min_rtt: BASE, ..ack(10) });
        }
        assert!((50.0..70.0).contains(&flow.window()), "half a packet for each: {}", flow.window());
        assert!(matches!(flow.rules().phase, Phase::Avoidance { .. }));
    }

    #[test]
    fn ledbat_measures_one_way_delays_and_its_successor_round_trips() {
        for (variant, queue) in [(Variant::Rfc6817, 50), (Variant::PlusPlus, 30)] {
            let mut flow = TestFlow::<LedbatRules>::new(&config(variant), BASE);
            for (second, one_way, rtt) in [(0, 10, 100), (1, 60, 130)] {
                let sent_at = Time::ZERO + Duration::from_secs(second);
                let received_at = sent_at + Duration::from_millis(one_way);
                let arrivals = [Arrival { bytes: PACKET, sent_at, received_at, ..Arrival::default() }];
                let rtt = Duration::from_millis(rtt);
                flow.tcp.on_ack(sent_at + rtt, &arrived(&arrivals, rtt));
            }
            assert_eq!(flow.rules().delays.queueing(), Duration::from_millis(queue), "{variant:?}");
        }
    }

    #[test]
    fn a_loss_in_a_slowdown_halves_the_window_after_it() {
        for (before, after) in [(64.0, 32.0), (3.0, 2.0)] {
            let mut flow = flow(Variant::PlusPlus, before);
            flow.rules_mut().phase = Phase::Slowdown { since: Time::ZERO, until: Time::MAX };
            flow.set(2.0);
            flow.lose(LossKind::Transient);
            assert_eq!((flow.window(), flow.rules().threshold), (2.0, after));
        }
    }

    #[test]
    fn a_loss_halves_the_window() {
        for variant in [Variant::PlusPlus, Variant::Rfc6817] {
            let mut flow = flow(variant, 64.0);
            flow.lose(LossKind::Transient);
            assert_eq!(flow.window(), 32.0);
            flow.set(3.0);
            flow.lose(LossKind::Transient);
            assert_eq!(flow.window(), 2.0);
        }
    }

    #[test]
    fn a_target_above_100_ms_is_refused() {
        let config = Config { target: Some(Duration::from_millis(101)), ..Config::default() };
        assert!(config.check().unwrap_err().contains("at most 100 ms"));
        assert_eq!(Config::default().check(), Ok(()));
    }
}
