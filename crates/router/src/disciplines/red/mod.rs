//! Random Early Detection: a router that marks or drops arriving packets at random, with a probability that grows with
//! the average queue (Floyd and Jacobson, "Random early detection gateways for congestion avoidance", IEEE/ACM
//! Transactions on Networking 1(4), 1993).
//!
//! ```text
//!   probability
//!   1  ┤                        ╭───      avg = (1 - w) avg + w q         at each arrival
//!      │                     ╱            avg = (1 - w)^m avg             after m packet times of idle link
//!      │      gentle →    ╱
//! max_p┤               ╭                  p_b = max_p (avg - min_th) / (max_th - min_th)
//!   0  ┼────────────╱──┴────────┴──       p_a spreads the marks evenly instead of geometrically
//!              min_th max_th  2 max_th
//! ```
//!
//! `gentle` is Floyd's "Recommendation on using the gentle variant of RED", 2000; `adaptive` Floyd, Gummadi and
//! Shenker's "Adaptive RED: an algorithm for increasing the robustness of RED's active queue management", 2001; `ecn`
//! RFC 3168.
//!
//! What the papers leave open is as in ns-2.35 (`queue/red.cc`, by RED's authors) with `thresh_ 0` and `q_weight_ 0`;
//! `max_p` and `max_th` are Floyd's later recommendation ("Discussions of setting parameters", 1997). So RED needs no
//! settings from 500 kb/s to 5 Gb/s: the thresholds are 2.5 and 7.5 ms of the link's rate, at least 5 and 15 packets.
//! As in ns-2, queue and thresholds are in bytes, a packet's probability is proportional to its size, and a packet that
//! finds an empty queue is always accepted. Above `max_th` marks have no effect on the queue, and all selected packets
//! are dropped (RFC 3168, section 7).
//!
//! *Deviations* from ns-2: mean packets are of 1000 bytes, not 500; the arrivals since the last mark count in fractions
//! of packets; `on_rate` recomputes automatic parameters; ns-2 drops from `p_b` = 0.1 on, even where `max_p` has been
//! adapted to a higher value. A buffer below `max_th` is full before RED acts, in ns-2 and here.

use rampmeter_units::{Bytes, Duration, Random, Rate, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::disciplines::buffer::Room;
use crate::drop_tail::DropTail;
use crate::{Backlog, Discipline, Environment, Parcel, Router, Settings, Tally, Verdict, check_range, ensure};

/// The increment of `max_p`, limited to a quarter of its value (2001 paper, `alpha`).
const INCREMENT: f64 = 0.01;

/// The factor that lowers `max_p` (2001 paper, `beta`).
const DECREASE: f64 = 0.9;

/// The maximum of `max_p` (2001 paper).
const MAX_P_MAX: f64 = 0.5;

/// RED's settings. "Packets" are of `mean_packet` bytes each.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The maximum number of packets in the queue.
    pub packets: Option<u64>,
    /// The maximum number of bytes in the queue.
    pub bytes: Option<Bytes>,
    /// The average queue from which packets are marked, in packets. None: half the target delay, at least 5 (ns-2).
    pub min_th: Option<f64>,
    /// The average queue at which the probability reaches `max_p`, in packets. None: three times `min_th` (Floyd 1997).
    pub max_th: Option<f64>,
    /// The probability at `max_th`; with `adaptive`, its initial value (Floyd 1997).
    #[default(0.1)]
    pub max_p: f64,
    /// The weight `w` of one arrival in the average. None: `1 - exp(-1/C)` for a link of `C` packets a second (Floyd,
    /// Gummadi, Shenker 2001: the average is over the last second).
    pub weight: Option<f64>,
    /// The delay from which automatic thresholds are computed (ns-2).
    #[default(Duration::from_millis(5))]
    pub target_delay: Duration,
    /// The probability grows from `max_p` to 1 between `max_th` and twice that; false: it jumps at `max_th`.
    #[default(true)]
    pub gentle: bool,
    /// Marks are `1/p` to `2/p` packets apart; false: 0 to `1/p`, as in the paper (ns-2's `wait_`).
    #[default(true)]
    pub wait: bool,
    /// Mark ECN-capable packets instead of dropping them.
    #[default(true)]
    pub ecn: bool,
    /// The probability `p_b` above which ECN-capable packets are dropped, too. None: `max_p`, so at `max_th`; 1: never.
    pub mark_up_to: Option<f64>,
    /// The mean packet size.
    #[default(Bytes::new(1000))]
    pub mean_packet: Bytes,
    /// Adapts `max_p`, so that the average stays halfway between the thresholds.
    pub adaptive: bool,
    /// The interval of the adaptation (2001 paper, `interval`).
    #[default(Duration::from_millis(500))]
    pub interval: Duration,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        check_range("max_p", self.max_p, 0.0001..=1.0, "as a probability; omit it for the recommended value")?;
        check_range(
            "weight",
            self.weight.unwrap_or(1.0),
            1e-9..=1.0,
            "of the average; omit it for the recommended value",
        )?;
        let fraction = (0.0..=1.0).contains(&self.mark_up_to.unwrap_or(1.0));
        ensure(fraction, "`mark_up_to` must be from 0 to 1: omit it to mark below `max_th`")?;
        let positive = self.mean_packet > Bytes::ZERO && self.interval > Duration::ZERO;
        ensure(positive, "`mean_packet` and `interval` must be above 0, for example \"1000 B\" and \"500 ms\"")?;
        let both = self.min_th.is_some() || self.max_th.is_none();
        ensure(both, "`max_th` needs a `min_th`: write both, or neither for automatic thresholds")?;
        let above_min = |max_th| self.min_th.is_none_or(|min_th| min_th < max_th);
        let in_order = self.min_th.is_none_or(|min_th| min_th > 0.0) && self.max_th.is_none_or(above_min);
        ensure(in_order, "`min_th` must be above 0, and `max_th` above `min_th`: three times `min_th` is recommended")?;
        let reached = self.packets.is_none_or(|packets| self.min_th.is_none_or(|min_th| min_th < packets as f64));
        ensure(
            reached,
            "`min_th` is not below the buffer of `packets`, so nothing is marked: write less than a third",
        )?;
        Room::check(self.packets, self.bytes)
    }
}

/// The parameters that follow from the settings and the link's rate.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Parameters {
    rate: Rate,
    min_th: f64,
    max_th: f64,
    weight: f64,
    /// The minimum of `max_p`: 0.01 (2001 paper), or one packet in 100 ms if that is lower (ns-2), above 8 Mb/s.
    max_p_min: f64,
}

impl Parameters {
    fn new(config: &Config, rate: Rate) -> Self {
        let mean_packet = config.mean_packet.as_f64();
        let capacity = rate.as_bps_f64() / 8.0 / mean_packet; // C, packets a second
        let min_th = config.min_th.unwrap_or((config.target_delay.as_secs_f64() * capacity / 2.0).max(5.0));
        let max_th = config.max_th.unwrap_or(3.0 * min_th);
        Self {
            rate,
            min_th: min_th * mean_packet,
            max_th: max_th * mean_packet,
            weight: config.weight.unwrap_or(-libm::expm1(-1.0 / capacity)), // 1 - exp(-1/C)
            max_p_min: (80_000.0 / rate.as_bps_f64()).min(0.01),
        }
    }
}

/// A RED queue.
#[derive(Debug)]
pub struct Red<P> {
    config: Config,
    parameters: Parameters,
    queue: DropTail<P>,
    random: Random,
    /// The average queue in bytes.
    average: f64,
    max_p: f64,
    adapted_at: Time,
    /// The time at which the link became idle, if no packet has arrived since.
    idle_since: Option<Time>,
    /// Bytes that arrived since the last mark or since the average exceeded `min_th`; none while it is below.
    since_mark: Option<f64>,
    tally: Tally,
}

impl<P: Parcel> Red<P> {
    /// 1993 paper, figure 2, "calculate the new average queue size": before the packet is queued.
    fn average(&mut self, now: Time) {
        let Parameters { rate, weight, .. } = self.parameters;
        if let Some(since) = self.idle_since.take() {
            // As if m packets had found an empty queue: avg = (1 - w)^m avg.
            let m = rate.bytes_in(now.since(since)).as_u64() / self.config.mean_packet.as_u64();
            self.average *= libm::pow(1.0 - weight, m as f64);
        }
        self.average += weight * (self.queue.backlog().bytes.as_f64() - self.average);
        if self.config.adaptive && now.since(self.adapted_at) > self.config.interval {
            self.adapt(now);
        }
    }

    /// 2001 paper, section 4: keeps the average in the middle fifth between the thresholds.
    fn adapt(&mut self, now: Time) {
        let Parameters { min_th, max_th, max_p_min, .. } = self.parameters;
        let part = 0.4 * (max_th - min_th);
        if self.average > max_th - part && self.max_p < MAX_P_MAX {
            self.max_p += INCREMENT.min(self.max_p / 4.0);
            self.adapted_at = now;
        } else if self.average < min_th + part && self.max_p > max_p_min {
            self.max_p *= DECREASE;
            self.adapted_at = now;
        }
    }

    /// The probability `p_b` that depends on the average alone (1993 paper, section 4; above `max_th` Floyd 2000).
    fn base_probability(&self) -> f64 {
        let (Parameters { min_th, max_th, .. }, max_p) = (self.parameters, self.max_p);
        let chance = if self.average < max_th {
            max_p * (self.average - min_th) / (max_th - min_th)
        } else if self.config.gentle {
            max_p + (1.0 - max_p) * (self.average - max_th) / max_th
        } else {
            1.0
        };
        chance.min(1.0)
    }

    /// Whether this packet is to be marked or dropped. Returns `p_b` if so.
    fn chooses(&mut self, bytes: Bytes) -> Option<f64> {
        if self.average < self.parameters.min_th || self.queue.backlog().bytes == Bytes::ZERO {
            self.since_mark = None;
            return None;
        }
        let Some(since_mark) = &mut self.since_mark else {
            self.since_mark = Some(bytes.as_f64());
            return None;
        };
        *since_mark += bytes.as_f64();
        let count = *since_mark / self.config.mean_packet.as_f64();
        let base_probability = self.base_probability();
        let chance = spread(base_probability, count, self.config.wait);
        let chance = if chance < 1.0 { chance * bytes.as_f64() / self.config.mean_packet.as_f64() } else { 1.0 };
        if !self.random.chance(chance) {
            return None;
        }
        self.since_mark = Some(0.0);
        Some(base_probability)
    }
}

/// The probability `p_a` that makes the gaps between marks uniform, `count` packets after the last (1993 paper, section
/// 7): 1 to `1/p_b` packets, or `1/p_b` to `2/p_b` with `wait`.
fn spread(chance: f64, count: f64, wait: bool) -> f64 {
    let (from, to) = if wait { (1.0, 2.0) } else { (0.0, 1.0) };
    let expected = count * chance;
    if expected < from { 0.0 } else { (chance / (to - expected).max(0.0)).min(1.0) }
}

impl<P: Parcel + Send> Discipline<P> for Red<P> {
    type Config = Config;

    fn new(config: &Config, environment: Environment, random: Random) -> Self {
        Self {
            config: config.clone(),
            parameters: Parameters::new(config, environment.rate),
            queue: DropTail::with_room(config.packets, config.bytes),
            random,
            average: 0.0,
            max_p: config.max_p,
            adapted_at: Time::ZERO,
            idle_since: Some(Time::ZERO),
            since_mark: None,
            tally: Tally::default(),
        }
    }
}

impl<P: Parcel + Send> Router<P> for Red<P> {
    fn enqueue(&mut self, now: Time, mut packet: P) -> Verdict<P> {
        self.average(now);
        let chosen = self.chooses(packet.bytes());
        if !self.queue.has_room(packet.bytes()) {
            self.since_mark = self.since_mark.map(|_| 0.0); // a drop is a signal, too
            return Verdict::Dropped(packet);
        }
        if let Some(chance) = chosen {
            let limit = self.config.mark_up_to.unwrap_or(self.max_p);
            let marked = self.config.ecn && chance <= limit && self.tally.mark(&mut packet);
            if !marked {
                return Verdict::Dropped(packet);
            }
        }
        self.queue.enqueue(now, packet)
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        let packet = self.queue.dequeue(now)?;
        if self.queue.backlog().packets == 0 {
            self.idle_since = Some(now + self.parameters.rate.time_to_send(packet.bytes()));
        }
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    fn tally(&self) -> Tally {
        self.tally
    }

    fn on_rate(&mut self, _now: Time, rate: Rate) {
        self.parameters = Parameters::new(&self.config, rate);
    }
}

#[cfg(test)]
mod tests;
