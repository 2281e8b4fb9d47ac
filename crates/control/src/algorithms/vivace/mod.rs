//! PCC Vivace (Dong and others, NSDI 2018): the rate follows the gradient of a utility that the sender measures.
//!
//! ```text
//! u(x) = x^0.9 - 900 x d(RTT)/dT - 11.35 x L             x: rate in Mb/s, L: share lost           section 3, eq. (1)
//!
//! start    twice the rate with each result, while u grows                                         section 4
//! probe    a round trip at (1 + e) r, one at (1 - e) r, e = 0.05, in random order                 section 4.2
//!          gradient g = (u(r + e r) - u(r - e r)) / (2 e r)
//! change   r += m(k) g, at most w r                                                               section 4.2
//!          m(k) = k up to 3, then 2 k - 3, with k changes in the same direction in a row
//!          w = 0.05 + 0.1 j, with j changes in the same direction in a row that reached the bound;
//!          after one that did not, the smallest j whose bound is not below it
//! ```
//!
//! A round trip at one rate is a *monitor interval* (`interval.rs`). Its utility is known when its packets are delivered
//! or lost, about a round trip later; in the meantime the flow sends at `r`.
//!
//! The rate has equilibrium where one more packet gains as much as its delay and loss cost: with several flows of the
//! same utility, at equal rates (section 3.1).
//!
//! *Deviations*: the paper leaves the first rate open; it is that of the first window. Gradients of the round-trip time
//! below 0.01 count as zero (the paper: "a low-pass filter"), so a falling one is no gain, as in the authors' code. The
//! rate is at least two packets a round trip. Packets in flight are bounded by twice the rate and the round-trip time,
//! so that a path that delivers nothing stops the flow. Packets are not ECN-capable. A timeout halves the rate. Losses
//! that are detected together count in the interval of the last one. A probe whose higher rate has fewer losses or shorter
//! delays is not repeated (section 4.3, "double checking").

mod interval;

use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Time};
use rampmeter_wire::RouterFeedback;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use self::interval::{Interval, Intervals};
use crate::parts::check::check_first_window;
use crate::{Ack, Algorithm, Controller, Departure, Loss, LossKind, Notice, Pacer, Path, Sent, Settings};

/// `e`: how far a probe is from the rate.
const STEP: f64 = 0.05;

/// `w`: the first bound of a change, and its growth.
const BOUND: f64 = 0.05;
const BOUND_STEP: f64 = 0.1;

/// The minimum number of packets in a monitor interval.
const MIN_PACKETS: u64 = 5;

/// `b`: the weight of the growth of the round-trip time.
const LATENCY: f64 = 900.0;

/// `c`: the weight of losses. A flow uses a link up to losses of 5%.
const LOSS: f64 = 11.35;

/// Settings of Vivace.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The first window, in packets (RFC 6928); the first rate is that of this window in a round trip.
    #[default(10)]
    pub initial_window: u64,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_first_window(self.initial_window)
    }
}

/// What the current monitor interval, or the one whose result is awaited, is for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// The rate doubles; the utility of the last interval, and its rate.
    Start { last: Option<(f64, f64)> },
    /// Two probes, in this order; the utility of the higher and of the lower rate, where known.
    Probe { order: [f64; 2], sent: usize, higher: Option<f64>, lower: Option<f64> },
}

/// PCC Vivace.
#[derive(Debug, Clone)]
pub struct Vivace {
    config: Config,
    random: Random,
    packet: Bytes,
    rtt: Duration,
    /// `r`, in bits a second.
    rate: f64,
    phase: Phase,
    intervals: Intervals,
    /// The number of changes in the same direction in a row, negative if they reduce the rate.
    streak: i32,
    /// `j`: the number of changes in the same direction in a row that reached the bound.
    bounded: u32,
    pacer: Pacer,
}

impl Vivace {
    /// Equation (1) of section 3.
    fn utility(interval: &Interval) -> f64 {
        let x = interval.rate / 1e6;
        libm::pow(x, 0.9) - x * (LATENCY * interval.rtt_gradient() + LOSS * interval.loss())
    }

    fn min_rate(&self) -> f64 {
        let rtt = self.rtt.max(Duration::from_millis(1));
        Rate::of(self.packet * 2, rtt).as_bps_f64()
    }

    fn probe(&mut self) -> Phase {
        let first = if self.random.chance(0.5) { 1.0 + STEP } else { 1.0 - STEP };
        Phase::Probe { order: [first, 2.0 - first], sent: 0, higher: None, lower: None }
    }

    /// The rate of the next monitor interval, if the phase has one; else the flow waits for results, at `r`.
    fn next_interval(&mut self) -> Option<f64> {
        match &mut self.phase {
            Phase::Start { .. } => self.intervals.is_empty().then_some(self.rate),
            Phase::Probe { order, sent, .. } => {
                let factor = *order.get(*sent)?;
                *sent += 1;
                Some(self.rate * factor)
            }
        }
    }

    /// The result of a monitor interval is known. One in which the application sent less than it could have says nothing
    /// about its rate.
    fn on_result(&mut self, interval: &Interval) {
        let utility = Self::utility(interval);
        match self.phase {
            Phase::Start { .. } if !interval.is_used() => {}
            Phase::Start { last: Some((before, rate)) } if utility <= before => {
                self.rate = rate.max(self.min_rate());
                self.phase = self.probe();
            }
            Phase::Start { .. } => {
                self.phase = Phase::Start { last: Some((utility, interval.rate)) };
                self.rate = interval.rate * 2.0;
            }
            Phase::Probe { .. } if !interval.is_used() => {
                // The other result of this probe must not count in the next one.
                self.intervals = Intervals::default();
                self.phase = self.probe();
            }
            Phase::Probe { order, sent, mut higher, mut lower } => {
                let result = if interval.rate > self.rate { &mut higher } else { &mut lower };
                *result = Some(utility);
                self.phase = Phase::Probe { order, sent, higher, lower };
                if let (Some(higher), Some(lower)) = (higher, lower) {
                    self.change((higher - lower) / (2.0 * STEP * self.rate / 1e6));
                    self.phase = self.probe();
                }
            }
        }
    }

    /// Section 4.2: the change of the rate by the gradient of the utility, for each Mb/s.
    fn change(&mut self, gradient: f64) {
        let direction = if gradient > 0.0 { 1 } else { -1 };
        if self.streak.signum() == direction {
            self.streak = self.streak.saturating_add(direction);
        } else {
            (self.streak, self.bounded) = (direction, 0);
        }
        let count = f64::from(self.streak.abs());
        let amplifier = if count <= 3.0 { count } else { 2.0 * count - 3.0 };
        let change = 1e6 * amplifier * gradient.abs();
        let bound = (BOUND + BOUND_STEP * f64::from(self.bounded)) * self.rate;
        let smallest = ((change / self.rate - BOUND) / BOUND_STEP).ceil().max(0.0) as u32;
        self.bounded = (self.bounded + 1).min(smallest).min(9);
        self.rate = (self.rate + f64::from(direction) * change.min(bound)).max(self.min_rate());
    }

    fn current_rate(&self) -> Rate {
        Rate::from_bps_f64(self.intervals.current_rate().unwrap_or(self.rate).min(1e15))
    }
}

impl Algorithm for Vivace {
    type Config = Config;

    const NEEDS: Option<&'static str> =
        Some("needs the arrival of each packet; without it only losses reduce its rate");

    fn new(config: &Config, random: Random) -> Self {
        Self {
            config: config.clone(),
            random,
            packet: Bytes::ZERO,
            rtt: Duration::ZERO,
            rate: 0.0,
            phase: Phase::Start { last: None },
            intervals: Intervals::default(),
            streak: 0,
            bounded: 0,
            pacer: Pacer::default(),
        }
    }
}

impl Controller for Vivace {
    fn on_path(&mut self, now: Time, path: &Path) {
        *self = Self::new(&self.config, self.random.clone());
        (self.packet, self.rtt) = (path.packet, path.rtt);
        let span = path.rtt.max(Duration::from_millis(1));
        self.rate = Rate::of(path.packet * self.config.initial_window, span).as_bps_f64();
        self.pacer.reset(now);
    }

    fn on_packet_size(&mut self, _now: Time, packet: Bytes) {
        self.packet = packet;
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) {
        if self.intervals.ends(now, MIN_PACKETS) {
            self.intervals.close(now, sent.number);
            if let Some(rate) = self.next_interval() {
                self.intervals.begin(now, sent.number, rate, self.rtt);
            }
        }
        self.intervals.on_sent(sent.number, sent.bytes);
        self.pacer.sent(now, sent.bytes, self.current_rate());
    }

    fn on_notice(&mut self, _now: Time, notice: Notice) {
        match notice {
            Notice::Unsent(bytes) => self.pacer.give_back(bytes, self.current_rate()),
            Notice::AppLimited => self.intervals.on_app_limited(),
            _ => {}
        }
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        self.rtt = ack.smoothed_rtt;
        if ack.nothing_to_send {
            self.intervals.on_app_limited();
        }
        let at = ack.arrived_at(now);
        for arrival in ack.arrivals {
            self.intervals.on_delivered(arrival.number, arrival.bytes, arrival.sent_at, at.since(arrival.sent_at));
        }
        if ack.arrivals.is_empty() {
            self.intervals.on_delivered_bytes(ack.delivered);
        }
        while let Some(interval) = self.intervals.take_result(now, self.rtt) {
            self.on_result(&interval);
        }
    }

    fn on_loss(&mut self, _now: Time, loss: &Loss) {
        self.intervals.on_lost(loss.number, loss.bytes);
        if loss.kind == LossKind::Persistent {
            self.rate = (self.rate / 2.0).max(self.min_rate());
            self.intervals = Intervals::default();
            (self.phase, self.streak, self.bounded) = (self.probe(), 0, 0);
        }
    }

    fn window(&self) -> Bytes {
        let rate = self.current_rate();
        rate.bytes_in(self.rtt).scale(2.0).max(self.packet * 4)
    }

    fn departure(&self) -> Departure {
        Departure { at: self.pacer.next(), bytes: self.packet, feedback: RouterFeedback::None }
    }

    fn rate(&self) -> Option<Rate> {
        Some(self.current_rate())
    }

    fn ecn(&self) -> Option<Ecn> {
        Some(Ecn::NotEct)
    }

    fn state(&self) -> &'static str {
        match self.phase {
            Phase::Start { .. } => "starting",
            Phase::Probe { .. } => "probing",
        }
    }
}

#[cfg(test)]
mod tests;
