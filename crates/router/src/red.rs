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

use rampmeter_units::{Bytes, Duration, Rate, Stream, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::buffer::Room;
use crate::drop_tail::DropTail;
use crate::{Backlog, Discipline, Environment, Parcel, Router, Settings, Tally, Verdict, ensure};

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
    /// The increment of `max_p`, limited to a quarter of its value (2001 paper, `alpha`).
    #[default(0.01)]
    pub increment: f64,
    /// The factor that lowers `max_p` (2001 paper, `beta`).
    #[default(0.9)]
    pub decrease: f64,
    /// The maximum of `max_p` (2001 paper).
    #[default(0.5)]
    pub max_p_max: f64,
    /// The minimum of `max_p`. None: 0.01 (2001 paper), or one packet in 100 ms if that is lower (ns-2), above 8 Mb/s.
    pub max_p_min: Option<f64>,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        let share = |p: f64| p > 0.0 && p <= 1.0;
        let shares = share(self.max_p) && share(self.weight.unwrap_or(1.0));
        ensure(shares, "`max_p` and `weight` must be above 0, at most 1: omit them for the recommended values")?;
        let (min, max) = (self.max_p_min.unwrap_or(f64::MIN_POSITIVE), self.max_p_max);
        let range = share(min) && share(max) && min <= max && share(self.increment) && share(self.decrease);
        ensure(range, "`max_p_min` to `max_p_max`, `increment` and `decrease` must be above 0, at most 1")?;
        let fraction = (0.0..=1.0).contains(&self.mark_up_to.unwrap_or(1.0));
        ensure(fraction, "`mark_up_to` must be from 0 to 1: omit it to mark below `max_th`")?;
        let positive = self.mean_packet > Bytes::ZERO && self.interval > Duration::ZERO;
        ensure(positive, "`mean_packet` and `interval` must be above 0, for example \"1000 B\" and \"500 ms\"")?;
        let both = self.min_th.is_some() || self.max_th.is_none();
        ensure(both, "`max_th` needs a `min_th`: write both, or neither for automatic thresholds")?;
        let above_min = |max_th| self.min_th.is_none_or(|min_th| min_th < max_th);
        let in_order = self.min_th.is_none_or(|min_th| min_th > 0.0) && self.max_th.is_none_or(above_min);
        ensure(in_order, "`min_th` must be above 0, and `max_th` above `min_th`: three times `min_th` is recommended")?;
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
            weight: config.weight.unwrap_or(-(-1.0 / capacity).exp_m1()), // 1 - exp(-1/C)
            max_p_min: config.max_p_min.unwrap_or((80_000.0 / rate.as_bps_f64()).min(0.01)),
        }
    }
}

/// A RED queue.
#[derive(Debug)]
pub struct Red<P> {
    config: Config,
    parameters: Parameters,
    queue: DropTail<P>,
    random: Stream,
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
            self.average *= (1.0 - weight).powi(i32::try_from(m).unwrap_or(i32::MAX));
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
        if self.average > max_th - part && self.max_p < self.config.max_p_max {
            self.max_p += self.config.increment.min(self.max_p / 4.0);
            self.adapted_at = now;
        } else if self.average < min_th + part && self.max_p > max_p_min {
            self.max_p *= self.config.decrease;
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
    match count * chance {
        expected if expected < from => 0.0,
        expected if expected < to => (chance / (to - expected)).min(1.0),
        _ => 1.0,
    }
}

impl<P: Parcel + Send> Discipline<P> for Red<P> {
    type Config = Config;

    fn new(config: &Config, environment: Environment, random: Stream) -> Self {
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
mod tests {
    use super::*;
    use crate::router::tests::{ENVIRONMENT, TestParcel};

    /// The average equals the queue, thresholds are 2 and 4 packets; `p_b` is `max_p` at 4 and 1 at 8.
    fn quick() -> Config {
        Config { min_th: Some(2.0), max_th: Some(4.0), weight: Some(1.0), wait: false, ..Config::default() }
    }

    fn red(config: &Config) -> Red<TestParcel> {
        config.check().unwrap();
        Red::new(config, ENVIRONMENT, Stream::from_seed(1)) // 8 Mb/s: a packet a millisecond
    }

    fn ms(n: u64) -> Time {
        Time::ZERO + Duration::from_millis(n)
    }

    /// Packets of 1000 bytes that find a queue of `waiting` packets: the numbers of `offered` packets dropped and
    /// marked.
    fn dropped_and_marked(config: &Config, waiting: u64, packet: TestParcel, offered: u32) -> (u32, u64) {
        let mut red = red(config);
        while red.backlog().packets < waiting {
            let _ = red.queue.enqueue(ms(0), TestParcel::new(0, 1000));
        }
        let mut dropped = 0;
        for _ in 0..offered {
            dropped += u32::from(red.enqueue(ms(0), packet) != Verdict::Queued);
            while red.backlog().packets > waiting && red.queue.dequeue(ms(0)).is_some() {}
        }
        (dropped, red.tally().marked)
    }

    #[test]
    fn the_average_follows_arrivals_and_decays_while_idle() {
        let mut red = red(&Config { weight: Some(0.25), ..Config::default() });
        for expected in [0.0, 250.0, 0.75 * 250.0 + 0.25 * 2000.0] {
            let _ = red.enqueue(ms(0), TestParcel::new(1, 1000));
            assert_eq!(red.average, expected);
        }
        let before = red.average;
        (0..3).for_each(|n| assert!(red.dequeue(ms(n)).is_some()));
        // The last packet is sent by 3 ms; the link is then idle for four packet times, and an arrival finds an empty
        // queue.
        let _ = red.enqueue(ms(7), TestParcel::new(1, 1000));
        assert!((red.average - before * 0.75_f64.powi(5)).abs() < 1e-9, "{}", red.average);
    }

    #[test]
    fn gaps_between_marks_are_uniform() {
        for (wait, from, to) in [(true, 10, 19), (false, 1, 9)] {
            let (mut random, mut gaps) = (Stream::from_seed(3), [0; 20]);
            let rounds = 20_000;
            for _ in 0..rounds {
                // Slightly more than 0.1, so that rounding does not decide whether 10 p is 1.
                let gap = (1..30).find(|count| random.chance(spread(0.1 + 1e-12, f64::from(*count), wait))).unwrap();
                gaps[usize::try_from(gap).unwrap()] += 1;
            }
            let each = rounds / (to - from + 1);
            for (gap, times) in gaps.into_iter().enumerate() {
                let expected = if (from..=to).contains(&(gap as i32)) { each } else { 0 };
                assert!((times - expected).abs() <= expected / 8, "{times} gaps of {gap}, wait {wait}");
            }
        }
    }

    #[test]
    fn thresholds_and_weight_follow_from_the_rate() {
        // Half of 5 ms, in packets of 1000 bytes, at least 5.
        for (bps, packets) in [(500_000, 5.0), (50_000_000, 15.625), (5_000_000_000, 1562.5)] {
            let parameters = Parameters::new(&Config::default(), Rate::from_bps(bps));
            assert_eq!((parameters.min_th, parameters.max_th), (packets * 1e3, packets * 3e3));
            let capacity = bps as f64 / 8000.0;
            assert!((parameters.weight - (1.0 - (-1.0 / capacity).exp())).abs() < 1e-9);
        }
        let mut red = red(&Config::default());
        red.on_rate(ms(0), Rate::from_bps(50_000_000));
        assert_eq!(red.parameters.min_th, 15_625.0);
    }

    #[test]
    fn between_the_thresholds_only_capable_packets_are_marked() {
        let packet = TestParcel::new(1, 1000);
        assert_eq!(dropped_and_marked(&quick(), 1, packet.capable(), 1000), (0, 0));
        // p_b = max_p / 2: gaps of 1 to 19 packets, 10 on average, or of 1 to 3.
        for (max_p, expected) in [(0.1, 950..1050), (0.5, 4850..5150)] {
            let (dropped, marked) = dropped_and_marked(&Config { max_p, ..quick() }, 3, packet.capable(), 10_000);
            assert!(dropped == 0 && expected.contains(&marked), "{marked}");
        }
        for (config, packet) in [(quick(), packet), (Config { ecn: false, ..quick() }, packet.capable())] {
            let (dropped, marked) = dropped_and_marked(&config, 3, packet, 10_000);
            assert!(marked == 0 && (950..1050).contains(&dropped), "{dropped}");
        }
    }

    #[test]
    fn above_max_th_all_packets_are_dropped_at_once_or_gently() {
        let capable = TestParcel::new(1, 1000).capable();
        // All but the first, at which the average exceeds `min_th`.
        assert_eq!(dropped_and_marked(&Config { gentle: false, ..quick() }, 4, capable, 100), (99, 0));
        assert_eq!(dropped_and_marked(&quick(), 8, capable, 100), (99, 0));
        assert_eq!(dropped_and_marked(&Config { mark_up_to: Some(1.0), ..quick() }, 8, capable, 100), (0, 99));
        // p_b = 0.1 + 0.9 (5 - 4) / 4 = 0.325: gaps of 1 (0.481), 2 (0.481) or 3 (0.037), 1.556 on average.
        let (dropped, marked) = dropped_and_marked(&quick(), 5, capable, 10_000);
        assert!(marked == 0 && (6300..6560).contains(&dropped), "{dropped}");
    }

    #[test]
    fn max_p_rises_by_increments_and_falls_by_tenths() {
        let mut red = red(&Config { adaptive: true, max_p: 0.02, ..quick() });
        for (average, seconds, expected) in [
            (3700.0, 1, 0.025), // a quarter more
            (3000.0, 2, 0.025), // within the middle fifth
            (2500.0, 3, 0.0225),
        ] {
            red.average = average;
            red.adapt(ms(1000 * seconds));
            assert!((red.max_p - expected).abs() < 1e-12, "{} at {seconds} s", red.max_p);
        }
        for (average, bound) in [(9000.0, 0.5..0.52), (0.0, 0.008..0.01)] {
            red.average = average;
            (0..1000).for_each(|n| red.adapt(ms(n)));
            assert!(bound.contains(&red.max_p), "{}", red.max_p);
        }
    }

    #[test]
    fn invalid_settings_are_refused() {
        let read = |text: &str| text.parse::<toml::Table>().unwrap().try_into::<Config>().unwrap().check();
        read("min_th = 5\nmax_th = 15").unwrap();
        for (text, advice) in [
            ("max_th = 15", "needs a `min_th`"),
            ("min_th = 15\nmax_th = 5", "three times"),
            ("weight = 2", "omit them"),
            ("interval = \"0 s\"", "500 ms"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(advice), "{error}");
        }
    }
}
