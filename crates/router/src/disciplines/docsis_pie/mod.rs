//! DOCSIS-PIE: PIE as it runs in cable modems, for the queue of their upstream (White, Pan, RFC 8034).
//!
//! ```text
//! every 16 ms:   delay = bytes in the queue / rate                                                    appendix A.2
//!                p += scale(p) (A (delay - target) + B (delay - previous delay))
//!
//!            a third of the buffer is used         a packet is dropped
//!   inactive ─────────────────────────────► quiescent ───────────────► active                         appendix A.3
//!            ◄─────────────────────────────           ◄───────────────   starts with 142 ms without drops
//!            so for a second                       p = 0, delay < target / 2
//! ```
//!
//! Section 4 lists the differences from [`pie`](crate::pie): the modem knows its rate, so it does not measure delays
//! (4.2); no packet is dropped before the queue has a third of the buffer (4.3); `p` is scaled beyond 1 (4.4), because a
//! packet is dropped with a probability of `p` times its size relative to 1024 bytes (4.6), so that a modem drops few
//! acknowledgements; `p` decays below a delay of 5 ms (4.5); packets are never marked (4.7). Drops are never close
//! together, nor far apart.
//!
//! The rate is that of the link, the mean one if its capacity varies: the modem's subscribed rate, without a peak rate
//! above it. Only the target and the buffer have settings, as in a modem (appendix A.1.1).
//!
//! There is no timer: updates that were due are made up for when the next packet arrives or leaves.
//!
//! *Judgement*: the default buffer is 100 ms at the rate, and two packets at least. RFC 8034 leaves it to the operator
//! (Buffer Control); 100 ms is the default of the DOCSIS module for ns-3 (`cablelabs/docsis-ns3`).

use rampmeter_units::{Bytes, Duration, Random, Rate, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::disciplines::buffer::Room;
use crate::disciplines::timed_queue::TimedQueue;
use crate::{Backlog, Discipline, Environment, Parcel, Router, Settings, Verdict, ensure};

// Appendix A.1.2.

/// `A`: the increase of the probability for each second of delay above the target, an update.
const A: f64 = 0.25;

/// `B`: the increase for each second by which the delay has grown.
const B: f64 = 2.5;

/// `INTERVAL`: the time between updates of the probability.
const INTERVAL: Duration = Duration::from_millis(16);

/// `BURST_RESET_TIMEOUT`: the time without congestion after which the next burst may fill a third of the buffer.
const BURST_RESET_TIMEOUT: Duration = Duration::from_secs(1);

/// `MAX_BURST`: the time without drops after the first drop.
const MAX_BURST: Duration = Duration::from_millis(142);

/// `MEAN_PKTSIZE`: the bytes of a packet that is dropped with the probability itself.
const MEAN_PACKET: f64 = 1024.0;

/// `MIN_PKTSIZE`.
const MIN_PACKET: f64 = 64.0;

/// `PROB_LOW`: the sum of probabilities since the last drop below which no packet is dropped; and the maximum probability
/// of a packet.
const PROB_LOW: f64 = 0.85;

/// `PROB_HIGH`: the sum of probabilities at which the next packet is dropped.
const PROB_HIGH: f64 = 8.5;

/// `LATENCY_LOW`: the delay below which the probability decays.
const LATENCY_LOW: Duration = Duration::from_millis(5);

/// `LATENCY_HIGH`: the delay above which the probability increases further.
const LATENCY_HIGH: Duration = Duration::from_millis(200);

/// The default buffer, as a time at the link's rate.
const DEFAULT_BUFFER: Duration = Duration::from_millis(100);

/// The minimum of the default buffer.
const MIN_BUFFER: Bytes = Bytes::new(3000);

/// DOCSIS-PIE's settings.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The maximum number of packets in the queue.
    pub packets: Option<u64>,
    /// The maximum number of bytes in the queue: `BUFFER_SIZE`. Without it, what the link sends in 100 ms.
    pub bytes: Option<Bytes>,
    /// The target queueing delay: `LATENCY_TARGET` (section 4.1).
    #[default(Duration::from_millis(10))]
    pub target: Duration,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        ensure(self.target > Duration::ZERO, "`target` must be above 0: \"10 ms\" is recommended")?;
        Room::check(self.packets, self.bytes)
    }
}

/// The state of the protection of bursts (section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No packet is dropped before a third of the buffer is used.
    Inactive,
    /// Packets may be dropped. There was no congestion for so long.
    Quiescent(Duration),
    /// A packet was dropped.
    Active,
}

/// A cable modem's queue.
#[derive(Debug)]
pub struct DocsisPie<P> {
    config: Config,
    rate: Rate,
    queue: TimedQueue<P>,
    random: Random,
    state: State,
    /// The drop probability of a packet of 1024 bytes; above 1 for smaller ones.
    probability: f64,
    /// The sum of the probabilities since the last drop.
    accumulated: f64,
    /// The delay at the last update.
    previous_delay: Duration,
    /// The remaining time without drops.
    burst: Duration,
    update_at: Time,
}

impl<P: Parcel> DocsisPie<P> {
    /// The maximum number of bytes in the queue.
    fn buffer(&self) -> Bytes {
        self.config.bytes.unwrap_or_else(|| self.rate.bytes_in(DEFAULT_BUFFER).max(MIN_BUFFER))
    }

    /// Makes the updates that were due by `now`.
    fn catch_up(&mut self, now: Time) {
        while self.update_at <= now {
            if self.is_at_rest() {
                let updates = now.since(self.update_at).as_nanos() / INTERVAL.as_nanos() + 1;
                self.update_at += INTERVAL * updates;
                return;
            }
            self.update();
            self.update_at += INTERVAL;
        }
    }

    /// Whether updates have no effect.
    fn is_at_rest(&self) -> bool {
        let is_unused = self.state == State::Inactive && self.queue.backlog().packets == 0;
        is_unused && self.probability == 0.0 && self.previous_delay == Duration::ZERO
    }

    /// Appendix A.2.
    fn update(&mut self) {
        let delay = self.rate.time_to_send(self.queue.backlog().bytes);
        let before = self.previous_delay;
        if self.burst > Duration::ZERO {
            self.probability = 0.0;
            self.burst = self.burst.saturating_sub(INTERVAL);
        } else {
            let [now, previous, target] = [delay, before, self.config.target].map(Duration::as_secs_f64);
            let mut step = scale(self.probability) * (A * (now - target) + B * (now - previous));
            if self.probability >= 0.1 {
                step = step.min(0.02);
            }
            self.probability += step;
            if delay < LATENCY_LOW && before < LATENCY_LOW {
                self.probability *= 0.98;
            } else if delay > LATENCY_HIGH {
                self.probability += 0.02;
            }
            self.probability = self.probability.clamp(0.0, PROB_LOW * MEAN_PACKET / MIN_PACKET);
        }
        let half = self.config.target / 2;
        let is_quiet = delay < half && before < half && self.probability == 0.0 && self.burst == Duration::ZERO;
        self.state = match self.state {
            State::Active if is_quiet => State::Quiescent(Duration::ZERO),
            State::Quiescent(_) if !is_quiet => State::Quiescent(Duration::ZERO),
            State::Quiescent(quiet) if quiet + INTERVAL > BURST_RESET_TIMEOUT => State::Inactive,
            State::Quiescent(quiet) => State::Quiescent(quiet + INTERVAL),
            state => state,
        };
        self.previous_delay = delay;
    }

    /// Whether the packet of `bytes` that arrives is to be dropped: appendix A.3.
    fn chooses(&mut self, bytes: Bytes) -> bool {
        if self.burst > Duration::ZERO {
            return false;
        }
        if self.probability == 0.0 {
            self.accumulated = 0.0;
        }
        let backlog = self.queue.backlog().bytes;
        if self.state == State::Inactive {
            if backlog < self.buffer() / 3 {
                return false;
            }
            self.state = State::Quiescent(Duration::ZERO);
        }
        let chance = (self.probability * bytes.as_f64() / MEAN_PACKET).min(PROB_LOW); // section 4.6
        self.accumulated += chance;
        let is_short = self.previous_delay < self.config.target / 2 && self.probability < 0.2;
        if is_short || backlog.as_f64() <= 2.0 * MEAN_PACKET || self.accumulated < PROB_LOW {
            return false;
        }
        if self.accumulated < PROB_HIGH && !self.random.chance(chance) {
            return false;
        }
        self.accumulated = 0.0;
        if let State::Quiescent(_) = self.state {
            (self.state, self.burst) = (State::Active, MAX_BURST);
        }
        true
    }
}

/// Section 4.4: PIE's scale of steps, and larger steps for probabilities from 0.1 on.
fn scale(p: f64) -> f64 {
    match p {
        _ if p < 0.1 => crate::pie::scale(p),
        _ if p < 1.0 => 2.0,
        _ if p < 10.0 => 8.0,
        _ => 32.0,
    }
}

/// The rate after the last change. An outage changes nothing: the modem computes with its subscribed rate.
fn subscribed(rate: Rate, before: Rate) -> Rate {
    if rate == Rate::ZERO { before } else { rate }
}

impl<P: Parcel + Send> Discipline<P> for DocsisPie<P> {
    type Config = Config;

    fn new(config: &Config, environment: Environment, random: Random) -> Self {
        Self {
            config: config.clone(),
            rate: subscribed(environment.rate, Rate::MAX),
            queue: TimedQueue::default(),
            random,
            state: State::Inactive,
            probability: 0.0,
            accumulated: 0.0,
            previous_delay: Duration::ZERO,
            burst: Duration::ZERO,
            update_at: Time::ZERO + INTERVAL,
        }
    }
}

impl<P: Parcel> Router<P> for DocsisPie<P> {
    fn enqueue(&mut self, now: Time, packet: P) -> Verdict<P> {
        self.catch_up(now);
        let room = Room::new(self.config.packets, Some(self.buffer()));
        if !room.fits(self.queue.backlog(), packet.bytes()) {
            self.accumulated = 0.0;
            return Verdict::Dropped(packet);
        }
        if self.chooses(packet.bytes()) {
            return Verdict::Dropped(packet);
        }
        self.queue.push(now, packet);
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        self.catch_up(now);
        self.queue.pop(now).map(|(_, packet)| packet)
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    fn on_rate(&mut self, now: Time, rate: Rate) {
        self.catch_up(now);
        self.rate = subscribed(rate, self.rate);
    }
}

#[cfg(test)]
mod tests;
