//! DualPI2: two queues with coupled signals, for senders with small queues (L4S) and for all others (De Schepper,
//! Briscoe, White, RFC 9332, appendix A).
//!
//! ```text
//!            ECT(1), CE   ┌────────────┐   marks with probability max(p'_L, p_CL)
//! packet ──┬────────────► │ L4S queue  ├────────────────────┐
//!          │              └────────────┘                    ├─ scheduler ─► link
//!          │ others       ┌────────────┐                    │
//!          └────────────► │ classic    ├────────────────────┘
//!                         └────────────┘   drops, or marks ECT(0), with probability p_C
//!
//! every t_update:  p' += alpha (q - target) + beta (q - previous q)        q: the longer of the two queues' delays
//! classic          p_C  = p'^2                 a classic sender's rate is proportional to 1 / sqrt(p_C)
//! L4S              p_CL = k p'                 an L4S sender's rate is proportional to 1 / p_CL
//!                  p'_L = 0 up to `l4s_threshold`, 1 from `l4s_threshold + l4s_ramp` on, linear in between
//! ```
//!
//! The square makes one signal `p'` mean the same rate to both kinds of senders: with `k = 2` they share the link as one
//! kind would, while L4S packets go first and do not wait for classic ones. A threshold of their own (`p'_L`) keeps their
//! queue short where there is no classic traffic.
//!
//! *Overload* (section 4.2.3 and appendix A.1): from `p_CL = 1` on marks alone cannot slow senders. Then L4S packets are
//! dropped with `p_C`, as classic ones are. From `p_C = 1 / k^2`, the same point, ECT(0) is dropped, not marked.
//!
//! The *scheduler* serves L4S packets first, but not at the cost of starving classic ones (section 4.2.2): `wrr` leaves
//! classic packets `classic_share` of the link; `time-shifted` sends the packet that arrived first, if L4S packets had
//! arrived `time_shift` earlier than they did.
//!
//! Signals are spread evenly, not at random (`recur`). There is no timer: updates that were due are made up for when the
//! next packet arrives or leaves.
//! *Deviations*: the PI2 settings are those of Linux, for updates every 16 ms; the RFC's formulas give 15 ms, 0.15 and 3.

use rampmeter_units::{Bytes, Duration, Ecn, Random, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::disciplines::buffer::Room;
use crate::disciplines::timed_queue::TimedQueue;
use crate::link::delays::Delays;
use crate::{
    Backlog, ClassDelays, Discipline, Environment, Parcel, Router, Settings, Tally, Verdict, check_range, ensure,
};

/// The buffer where no limit is given (appendix A.1, `limit`).
const BUFFER: Duration = Duration::from_millis(250);

/// Which queue sends next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// Weighted round robin by bytes.
    #[default]
    Wrr,
    /// First in, first out, where L4S packets count as older than they are.
    TimeShifted,
}

/// DualPI2's settings.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The maximum number of packets in both queues together.
    pub packets: Option<u64>,
    /// The maximum number of bytes in both queues together. With neither limit: what the link sends in 250 ms.
    pub bytes: Option<Bytes>,
    /// The target delay of the classic queue.
    #[default(Duration::from_millis(15))]
    pub target: Duration,
    /// The time between updates of `p'`, `t_update`.
    #[default(Duration::from_millis(16))]
    pub update: Duration,
    /// The increase of `p'` for each second of delay above the target, an update.
    #[default(0.16)]
    pub alpha: f64,
    /// The increase of `p'` for each second by which the delay has grown.
    #[default(3.2)]
    pub beta: f64,
    /// The coupling factor `k`: equal windows at equal round trips with 2.
    #[default(2.0)]
    pub coupling: f64,
    /// The delay of an L4S packet from which it may be marked, `minTh`.
    #[default(Duration::from_micros(800))]
    pub l4s_threshold: Duration,
    /// The delay beyond that at which every L4S packet is marked, `range`; 0: a step, as in Linux.
    #[default(Duration::from_micros(400))]
    pub l4s_ramp: Duration,
    /// Which queue sends next.
    pub scheduler: Scheduler,
    /// `wrr`: the share of the link that classic packets get at least.
    #[default(0.1)]
    pub classic_share: f64,
    /// `time-shifted`: how much older than it is an L4S packet counts.
    /// 50 ms if it is not given.
    pub time_shift: Option<Duration>,
}

/// `time_shift` where none is given.
const TIME_SHIFT: Duration = Duration::from_millis(50);

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        let times = self.target > Duration::ZERO && self.update > Duration::ZERO;
        ensure(times, "`target` and `update` must be above 0: \"15 ms\" and \"16 ms\" are recommended")?;
        check_range("alpha", self.alpha, 0.0001..=1000.0, "per second; 0.16 is recommended")?;
        check_range("beta", self.beta, 0.0001..=1000.0, "per second; 3.2 is recommended")?;
        check_range("coupling", self.coupling, 1.0..=100.0, "as a factor; 2 is recommended")?;
        check_range("classic_share", self.classic_share, 0.001..=0.999, "of the link; 0.1 is recommended")?;
        ensure(
            self.time_shift.is_none() || self.scheduler == Scheduler::TimeShifted,
            "`time_shift` does nothing with this `scheduler`: write scheduler = \"time-shifted\", or remove it",
        )?;
        Room::check(self.packets, self.bytes)
    }
}

/// One of the two queues.
#[derive(Debug)]
struct Queue<P> {
    packets: TimedQueue<P>,
    /// The sum of probabilities of which whole numbers have become signals.
    accumulated: f64,
    /// The delays of packets that left, while they are measured.
    delays: Option<Box<Delays>>,
}

impl<P: Parcel> Queue<P> {
    fn new() -> Self {
        Self { packets: TimedQueue::default(), accumulated: 0.0, delays: None }
    }

    /// How long the first packet has waited.
    fn wait(&self, now: Time) -> Option<Duration> {
        self.packets.first_arrival().map(|at| now.since(at))
    }

    /// Whether a signal is due, at evenly spaced packets (appendix A.1, `recur`).
    fn recurs(&mut self, probability: f64) -> bool {
        self.accumulated += probability;
        let is_due = self.accumulated > 1.0;
        self.accumulated -= f64::from(u8::from(is_due));
        is_due
    }
}

/// A DualPI2 router.
#[derive(Debug)]
pub struct DualPi2<P> {
    config: Config,
    room: Room,
    l4s: Queue<P>,
    classic: Queue<P>,
    /// The base probability `p'`.
    base: f64,
    /// The longer delay at the last update.
    previous_delay: Duration,
    update_at: Time,
    /// `wrr`: the bytes that L4S packets were sent beyond their share; classic packets are next while it is above 0.
    credit: f64,
    tally: Tally,
    last_wait: Duration,
}

impl<P: Parcel> DualPi2<P> {
    fn class(&mut self, is_l4s: bool) -> &mut Queue<P> {
        if is_l4s { &mut self.l4s } else { &mut self.classic }
    }

    /// The coupled probability of a mark in the L4S queue, `p_CL`.
    fn coupled(&self) -> f64 {
        (self.config.coupling * self.base).min(1.0)
    }

    /// The probability of a drop or a mark in the classic queue, `p_C`.
    fn squared(&self) -> f64 {
        self.base * self.base
    }

    /// The probability of a mark by the L4S queue's own delay, `p'_L` (appendix A.1, `laqm`).
    fn native(&self, waited: Duration) -> f64 {
        let above = waited.saturating_sub(self.config.l4s_threshold);
        // One packet alone is no queue, however long the link needs for it (`Th_len`).
        if above == Duration::ZERO || self.l4s.packets.backlog().packets == 0 {
            return 0.0;
        }
        if above >= self.config.l4s_ramp { 1.0 } else { above.as_secs_f64() / self.config.l4s_ramp.as_secs_f64() }
    }

    /// Makes the updates of `p'` that were due by `now`. The queues have not changed since.
    fn catch_up(&mut self, now: Time) {
        while self.update_at <= now {
            let waits = [&self.l4s, &self.classic].map(|queue| queue.wait(self.update_at).unwrap_or_default());
            let delay = waits[0].max(waits[1]);
            if self.base == 0.0 && delay == Duration::ZERO && self.previous_delay == Duration::ZERO {
                let updates = now.since(self.update_at).as_nanos() / self.config.update.as_nanos() + 1;
                self.update_at += self.config.update * updates;
                return;
            }
            self.update(delay);
            self.update_at += self.config.update;
        }
    }

    /// Appendix A.1, `dualpi2_update`.
    fn update(&mut self, delay: Duration) {
        let Config { target, alpha, beta, .. } = self.config;
        let (now, before) = (delay.as_secs_f64(), self.previous_delay.as_secs_f64());
        self.base = (self.base + alpha * (now - target.as_secs_f64()) + beta * (now - before)).clamp(0.0, 1.0);
        self.previous_delay = delay;
    }

    /// Whether the next packet is from the L4S queue; `None` if both are empty (section 4.2.2).
    fn next_is_l4s(&mut self, now: Time) -> Option<bool> {
        match (self.l4s.wait(now), self.classic.wait(now)) {
            (None, None) => {
                self.credit = 0.0; // the round robin starts with L4S packets
                None
            }
            (Some(_), None) => Some(true),
            (None, Some(_)) => Some(false),
            (Some(l4s), Some(classic)) => Some(match self.config.scheduler {
                Scheduler::Wrr => self.credit <= 0.0,
                Scheduler::TimeShifted => l4s + self.config.time_shift.unwrap_or(TIME_SHIFT) >= classic,
            }),
        }
    }

    /// Counts a packet that one of two waiting classes has sent.
    fn charge(&mut self, is_l4s: bool, bytes: Bytes) {
        let share = self.config.classic_share;
        self.credit += bytes.as_f64() * if is_l4s { share } else { share - 1.0 };
    }

    /// The signals of an L4S packet. `None`: it is dropped.
    fn signal_l4s(&mut self, waited: Duration, mut packet: P) -> Option<P> {
        let (coupled, squared) = (self.coupled(), self.squared());
        let probability = coupled.max(self.native(waited));
        if coupled >= 1.0 && self.l4s.recurs(squared) {
            return None;
        }
        if probability >= 1.0 || self.l4s.recurs(probability) {
            self.tally.mark(&mut packet);
        }
        Some(packet)
    }

    /// The signals of a classic packet. `None`: it is dropped.
    fn signal_classic(&mut self, mut packet: P) -> Option<P> {
        let squared = self.squared();
        if !self.classic.recurs(squared) {
            return Some(packet);
        }
        let may_mark = squared < 1.0 / (self.config.coupling * self.config.coupling); // p_Cmax
        (may_mark && self.tally.mark(&mut packet)).then_some(packet)
    }
}

impl<P: Parcel + Send> Discipline<P> for DualPi2<P> {
    type Config = Config;

    fn new(config: &Config, environment: Environment, _random: Random) -> Self {
        let has_limit = config.packets.is_some() || config.bytes.is_some();
        let bytes =
            if has_limit { config.bytes } else { Some(environment.rate.bytes_in(BUFFER).max(Bytes::new(65_536))) };
        Self {
            room: Room::new(config.packets, bytes),
            l4s: Queue::new(),
            classic: Queue::new(),
            base: 0.0,
            previous_delay: Duration::ZERO,
            update_at: Time::ZERO + config.update,
            credit: 0.0,
            tally: Tally::default(),
            last_wait: Duration::ZERO,
            config: config.clone(),
        }
    }
}

impl<P: Parcel> Router<P> for DualPi2<P> {
    fn enqueue(&mut self, now: Time, packet: P) -> Verdict<P> {
        self.catch_up(now);
        if !self.room.fits(self.backlog(), packet.bytes()) {
            return Verdict::Dropped(packet);
        }
        let is_l4s = matches!(packet.ecn(), Ecn::Ect1 | Ecn::Ce);
        self.class(is_l4s).packets.push(now, packet);
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Time) -> Option<P> {
        self.catch_up(now);
        loop {
            let both_wait = [&self.l4s, &self.classic].iter().all(|class| class.packets.backlog().packets > 0);
            let is_l4s = self.next_is_l4s(now)?;
            let (waited, packet) = self.class(is_l4s).packets.pop(now)?;
            let bytes = packet.bytes();
            let kept = if is_l4s { self.signal_l4s(waited, packet) } else { self.signal_classic(packet) };
            let Some(packet) = kept else {
                self.tally.dropped_from_queue += 1;
                continue;
            };
            if both_wait {
                self.charge(is_l4s, bytes);
            }
            self.last_wait = waited;
            if let Some(delays) = &mut self.class(is_l4s).delays {
                delays.add(waited);
            }
            return Some(packet);
        }
    }

    fn backlog(&self) -> Backlog {
        let (l4s, classic) = (self.l4s.packets.backlog(), self.classic.packets.backlog());
        Backlog { packets: l4s.packets + classic.packets, bytes: l4s.bytes + classic.bytes }
    }

    fn tally(&self) -> Tally {
        self.tally
    }

    fn last_wait(&self) -> Option<Duration> {
        Some(self.last_wait)
    }

    fn measure_delays(&mut self) {
        for class in [&mut self.l4s, &mut self.classic] {
            class.delays = Some(Box::default());
        }
    }

    fn delays(&self) -> Option<ClassDelays> {
        let (l4s, classic) = (self.l4s.delays.as_ref()?, self.classic.delays.as_ref()?);
        Some(ClassDelays { l4s: l4s.summary(), classic: classic.summary() })
    }
}

#[cfg(test)]
mod tests;
