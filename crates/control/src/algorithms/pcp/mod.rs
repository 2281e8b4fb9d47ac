//! PCP after Anderson, Collins, Krishnamurthy and Zahorjan (NSDI 2006), in three ideas.
//!
//! 1. *A paced window that a queue sets* (`estimate`). The window is also the maximum in flight, so overshoot cannot add
//!    up. At every acknowledgement it becomes the window that the path should carry with its target queue, judged by the
//!    window *when the measured packets left*: later changes do not count twice. A path that is not busy is filled
//!    within a round trip (section 3.1: direct jump), and a queue is removed as fast (section 3.2).
//! 2. *The queue shows each flow's share* (`estimate`, `start`, `competitive`). Its length shows a newcomer how many flows
//!    share the path, so with a history (section 3.4) it starts with its share instead of searching for it.
//! 3. *Common drains* (`drain`, `competitive`). Every 2.5 s of the clock all flows that see a queue send less for 0.1 s.
//!    How fast it falls shows whether the others are PCP flows, whose queue then shows each its share, or competing
//!    traffic, beside which a flow takes CUBIC's window (section 3.5: tit for tat).
//!
//! For the waits `q` of the last half round trip's packets, `b` of which waited, and their mean window `Ws`:
//!
//! ```text
//! load = min(1, b + Ws / (C R))
//! W    = Ws (1 + k (target - q) / R) / load      k = 1.5 below the target, 0.5 above it; from Ws / 2 to 8 Ws
//! W   <= C (R + target) (1 + trust)            and, where many packets are lost, what arrives (`losses`)
//! ```
//!
//! *Deviations* from the paper:
//! - No trains test a rate (section 3.1): packets are spaced evenly, so each half round trip is one, and chance decides
//!   nothing. There is no search and no backoff (section 3.3). Short trains show the capacity only.
//! - Flows keep a queue, and drain it together; the paper's flows keep none (section 3.2).
//! - The history also has the path's own variation, and its trust in the remembered rate is not used (section 3.4).
//! - Beside TCP a flow takes CUBIC's window instead of smaller cuts (section 3.5).
//! - Single losses change nothing, as in the paper. If a tenth of the packets is lost, the window is at most what arrives
//!   (`losses`).
//!
//! `studies/pcp/NOTES.md` has the designs that were tried on the way, with their figures.

mod competitive;
mod config;
mod delays;
mod drain;
mod estimate;
mod feedback;
mod losses;
mod pace;
mod start;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use rampmeter_units::{Bytes, Duration, Random, Rate, Time};
use rampmeter_wire::RouterFeedback;

pub use self::config::Config;
use self::delays::{Delays, View};
use self::drain::Drain;
use self::estimate::{Capacity, Estimate};
use self::losses::Losses;
use crate::cubic::Cubic;
use crate::parts::pacer::Pacer;
use crate::{Ack, Algorithm, Arrival, Controller, Departure, History, Loss, LossKind, Notice, Path, Record, Sent};

/// The gain with which a window approaches its target queue from below and from above.
const GAIN_UP: f64 = 1.5;
const GAIN_DOWN: f64 = 0.5;

/// What a flow keeps of its window in a round trip, however long the queue, and how much it grows at most, whatever the
/// capacity seems to be: pairs and receivers may be wrong.
const MIN_FACTOR: f64 = 0.5;
const MAX_FACTOR: f64 = 8.0;

/// The minimum window: a packet every five round trips.
const MIN_WINDOW: f64 = 0.2;

/// The maximum window, in packets.
const MAX_WINDOW: f64 = 1e7;

/// The maximum round-trip time, in seconds: whatever is measured, a flow acts within minutes.
const MAX_RTT: f64 = 60.0;

/// The time between two packets is at most this, so that a flow always makes progress.
const MAX_GAP: Duration = Duration::from_secs(10);

/// Unanswered packets from which an expiry of the retransmission timer means that no feedback arrives.
const MAX_UNANSWERED: u64 = 3;

/// A wait of this part of a round trip ends slow start.
const SLOW_START_WAIT: f64 = 0.25;

/// Windows that differ by less than this share count as one, and so many are kept.
const SAME_WINDOW: f64 = 0.01;
const MAX_WINDOWS: usize = 4096;

/// A stall of more than this share of the minimum round trip may have delayed every packet that the level is taken from,
/// which are those of the later half of half a round trip.
const LONG_STALL: f64 = 0.25;

/// The share of the window that is left after a retransmission timeout, and after many losses in the first round trips.
const AFTER_TIMEOUT: f64 = 0.5;

/// PCP, in three ideas.
#[derive(Debug, Clone)]
pub struct Pcp {
    config: Config,
    random: Random,
    packet: Bytes,
    past: Option<History>,
    /// The window, in packets.
    window: f64,
    /// The highest window that the path can carry without a queue.
    best: f64,
    /// The last and the minimum round-trip time, in seconds.
    rtt: f64,
    min_rtt: f64,
    capacity: Capacity,
    delays: Delays,
    drain: Drain,
    /// Since when at least half of this flow's packets waited.
    busy_since: Time,
    /// CUBIC, in competitive mode.
    cubic: Option<Cubic>,
    /// What drains showed about the other flows: below zero that they compete, above it that they drain.
    evidence: f64,
    /// Nothing is known about the path.
    in_slow_start: bool,
    /// From which packet on the window was which.
    sent_with: VecDeque<(u64, f64)>,
    last_sent: u64,
    /// Packets before this one show nothing.
    counts_from: u64,
    /// The first packet of the next round trip; when this one began, and what arrived in it.
    next_round: u64,
    round_began: Time,
    delivered: f64,
    /// The application limited the flow in this round trip.
    app_limited: bool,
    /// The minimum round-trip time of this transfer, in seconds.
    measured_rtt: f64,
    losses: Losses,
    /// The first packet after the last reduction for losses, and what was before it.
    reduced_at: u64,
    before_loss: Option<(f64, Losses)>,
    unanswered: u64,
    /// The retransmission timer has expired, and nothing has arrived since.
    is_silent: bool,
    pacer: Pacer,
    /// The time whose packets leave together.
    bunch: Duration,
    /// The number of packets that belong to the current bunch and have not left.
    rest_of_bunch: u64,
    /// A train is to leave, and the first and the last packet of the one that is under way.
    train_due: bool,
    train: Option<(u64, u64)>,
    last_arrival: Option<Arrival>,
    now: Time,
    last_sent_at: Time,
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64().clamp(1e-6, MAX_RTT)
}

impl Algorithm for Pcp {
    type Config = Config;

    const NEEDS: Option<&'static str> =
        Some("needs the arrival time of each packet, and keeps its first window without it");

    fn new(config: &Config, random: Random) -> Self {
        Self {
            config: config.clone(),
            random,
            packet: Bytes::new(1),
            past: None,
            window: 1.0,
            best: 0.0,
            rtt: 1.0,
            min_rtt: 1.0,
            capacity: Capacity::default(),
            delays: Delays::new(Time::ZERO, 0.0),
            drain: Drain::default(),
            busy_since: Time::ZERO,
            cubic: None,
            evidence: 0.0,
            in_slow_start: true,
            sent_with: VecDeque::new(),
            last_sent: 0,
            counts_from: 0,
            measured_rtt: f64::INFINITY,
            app_limited: false,
            next_round: 0,
            round_began: Time::ZERO,
            delivered: 0.0,
            losses: Losses::default(),
            reduced_at: 0,
            before_loss: None,
            unanswered: 0,
            is_silent: false,
            pacer: Pacer::with_max_gap(MAX_GAP),
            bunch: Duration::ZERO,
            rest_of_bunch: 0,
            train_due: true,
            train: None,
            last_arrival: None,
            now: Time::ZERO,
            last_sent_at: Time::ZERO,
        }
    }
}

impl Pcp {
    fn packet_bits(&self) -> f64 {
        self.packet.as_f64() * 8.0
    }

    fn set_window(&mut self, packets: f64) {
        self.window = if packets.is_nan() { MIN_WINDOW } else { packets.clamp(MIN_WINDOW, MAX_WINDOW) };
    }

    fn estimate(&self) -> Option<Estimate> {
        let own_wait = self.bunch.as_secs_f64();
        Estimate::new(&self.capacity, self.delays.variation, self.min_rtt, self.window, own_wait)
    }

    /// The window becomes the one that the path carries with its target queue.
    fn follow_queue(&mut self, estimate: &Estimate, view: &View, may_grow: bool) {
        let target = estimate.target(self.window);
        let gain = if view.level > target { GAIN_DOWN } else { GAIN_UP };
        let load = (view.busy + view.window / estimate.bdp()).min(1.0);
        let mut factor = ((1.0 + gain * (target - view.level) / self.min_rtt) / load).clamp(MIN_FACTOR, MAX_FACTOR);
        if self.in_slow_start {
            factor = factor.max(2.0);
        }
        if factor < 1.0 || may_grow {
            let most = (1.0 + estimate.trust) * estimate.capacity * (self.min_rtt + target);
            let limit = self.losses.limit(self.now, self.config.drain_every) * self.min_rtt;
            self.set_window((view.window * factor).min(most).min(limit));
            // The flow fills an idle path, and does not have to find out who else is there.
            if let Some(rate) = self.capacity.by_pairs().filter(|_| self.in_slow_start && view.busy <= 0.5)
                && self.window >= rate * self.min_rtt
            {
                self.in_slow_start = false;
                self.set_window(self.window.min(rate * (self.min_rtt + target)));
            }
        }
        self.best = self.best.max(self.window.min(estimate.bdp()));
    }

    /// In competitive mode the window is CUBIC's.
    fn follow_cubic(&mut self) {
        if let Some(cubic) = &self.cubic {
            let window = cubic.window().as_f64() / self.packet.as_f64();
            self.set_window(window);
        }
    }

    /// What has been sent so far shows nothing.
    fn ignore_sent(&mut self) {
        self.counts_from = self.last_sent.saturating_add(1);
        self.delays.forget();
    }
}

impl Controller for Pcp {
    fn on_path(&mut self, now: Time, path: &Path) {
        *self = Self::new(&self.config, self.random.clone());
        self.packet = path.packet.max(Bytes::new(1));
        self.bunch = path.bunch;
        (self.now, self.busy_since, self.round_began, self.last_sent_at) = (now, now, now, now);
        self.pacer.reset(now);
        self.start(now, path);
    }

    /// What is known is converted to packets of the new size. A packet in transit counts as a fraction or a multiple of one.
    fn on_packet_size(&mut self, now: Time, packet: Bytes) {
        let packet = packet.max(Bytes::new(1));
        let scale = self.packet.as_f64() / packet.as_f64();
        match self.capacity.by_pairs() {
            Some(rate) => {
                let longer = (1.0 / scale - 1.0) / rate;
                self.delays.rescale(scale, longer);
                self.min_rtt = (self.min_rtt + longer).clamp(1e-6, MAX_RTT);
                self.measured_rtt += longer;
            }
            None => self.delays = Delays::new(now, self.delays.variation),
        }
        self.set_window(self.window * scale);
        self.sent_with.iter_mut().for_each(|(_, window)| *window *= scale);
        self.capacity.rescale(scale);
        self.losses = Losses::default();
        (self.packet, self.rest_of_bunch, self.train) = (packet, 0, None);
        (self.best, self.delivered, self.before_loss) = (self.best * scale, self.delivered * scale, None);
        self.drain.cancel();
        if let Some(cubic) = &mut self.cubic {
            cubic.on_packet_size(now, packet);
        }
        self.follow_cubic();
    }

    fn on_notice(&mut self, now: Time, notice: Notice) {
        if let Some(cubic) = &mut self.cubic {
            cubic.on_notice(now, notice);
        }
        self.follow_cubic();
        match notice {
            Notice::FirstWindows(flows) if self.cubic.is_none() => {
                let most = self.estimate().map_or(MAX_WINDOW, |estimate| estimate.bdp());
                self.set_window(self.window.max((self.config.first_window * flows as f64).min(most)));
            }
            Notice::AppLimited => {
                self.rest_of_bunch = 0;
                self.train = self.train.filter(|(_, last)| *last <= self.last_sent);
            }
            Notice::SpuriousLoss if self.cubic.is_none() => {
                if let Some((window, losses)) = self.before_loss.take() {
                    self.losses = losses;
                    self.set_window(self.window.max(window));
                }
            }
            Notice::Stall { since } if now.since(since).as_secs_f64() > LONG_STALL * self.min_rtt => {
                self.drain.cancel();
                self.ignore_sent();
            }
            Notice::Unsent(_) | Notice::Discarded | Notice::Unpaced => {
                self.pacer.on_notice(now, notice, self.pace(), self.packet);
            }
            Notice::FirstWindows(_) | Notice::SpuriousLoss | Notice::Validated(_) | Notice::Stall { .. } => {}
        }
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) {
        (self.now, self.last_sent, self.last_sent_at) = (now, sent.number, now);
        self.unanswered += 1;
        let is_same = |window: f64| (window / self.window - 1.0).abs() < SAME_WINDOW;
        if self.sent_with.back().is_none_or(|(_, window)| !is_same(*window)) {
            self.sent_with.push_back((sent.number, self.window));
            if self.sent_with.len() > MAX_WINDOWS {
                self.sent_with.pop_front();
            }
        }
        if let Some(cubic) = &mut self.cubic {
            cubic.on_sent(now, sent);
        }
        self.drain(now); // a flow of few packets has few acknowledgements
        self.space(now, sent);
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        (self.now, self.unanswered, self.is_silent) = (now, 0, false);
        if let Some(rtt) = ack.rtt {
            self.rtt = seconds(rtt);
        }
        if !self.delays.is_known() && ack.arrivals.last().is_some_and(|last| last.bytes == self.packet) {
            // The handshake's packets were shorter.
            self.min_rtt = self.past.map_or(self.rtt, |past| seconds(past.min_rtt).min(self.rtt));
        }
        self.min_rtt = self.min_rtt.min(self.rtt);
        self.measured_rtt = self.measured_rtt.min(self.rtt);
        self.app_limited |= ack.app_limited;
        self.delivered += ack.delivered.as_f64() / self.packet.as_f64();
        if let Some(cubic) = &mut self.cubic {
            let app_limited = ack.app_limited || self.drain.share(now) < 1.0;
            let arrivals = if self.config.round_trip { &[] } else { ack.arrivals };
            cubic.grow(now, &Ack { arrivals, app_limited, ..*ack }); // it ignores marks
            self.follow_cubic();
            self.best = self.estimate().map_or(self.best, |estimate| self.best.max(self.window.min(estimate.bdp())));
        }
        let (arrived_at, estimate) = (ack.arrived_at(now), self.estimate());
        for arrival in ack.arrivals {
            let arrival =
                if self.config.round_trip { Arrival { received_at: arrived_at, ..*arrival } } else { *arrival };
            self.on_arrival(&arrival, estimate.as_ref());
        }
        if ack.rtt.is_some() {
            self.delays.correct_drift(now, self.rtt - self.min_rtt);
        }
        if self.cubic.is_none() {
            let longer = self.delays.expire(now, Duration::from_secs_f64(self.rtt));
            self.min_rtt = (self.min_rtt + longer).min(self.rtt);
        }
        let Some(estimate) = self.estimate() else { return };
        self.drain(now);
        if let Some(outcome) = self.drain.conclude(now, estimate.capacity, self.min_rtt) {
            self.learn(now, &outcome, &estimate);
        }
        if self.drain.is_on() {
            return;
        }
        let span = self.span(&estimate);
        let Some(view) = self.delays.view(span, self.min_rtt.max(span)) else { return };
        if view.busy <= 0.5 {
            self.busy_since = now;
        }
        let is_long = view.level > estimate.target(self.window).max(SLOW_START_WAIT * self.min_rtt);
        if self.in_slow_start && is_long {
            self.compete(now, self.window);
        }
        if self.cubic.is_none() {
            self.follow_queue(&estimate, &view, !ack.app_limited);
        }
    }

    fn on_loss(&mut self, now: Time, loss: &Loss) {
        let timeout = loss.kind == LossKind::Persistent;
        if !timeout {
            self.losses.on_loss(loss.bytes.as_f64() / self.packet.as_f64());
        }
        self.is_silent |= timeout && self.unanswered >= MAX_UNANSWERED;
        if let Some(cubic) = &mut self.cubic {
            // Recovery goes on while retransmissions are lost, so it does not limit the reactions here.
            cubic.on_loss(now, &Loss { recovering: false, ..*loss });
            return self.follow_cubic();
        }
        if loss.number >= self.reduced_at && (self.losses.are_many() || timeout) {
            self.in_slow_start = false;
            self.reduced_at = loss.last_sent.saturating_add(1);
            if !loss.repeated_timeout {
                self.before_loss = Some((self.window, self.losses));
            }
            if !timeout {
                let delivered = self.capacity.delivered();
                if delivered.is_finite() {
                    self.losses.set_limit(now, delivered);
                    self.set_window(self.window.min(delivered * self.min_rtt));
                } else {
                    self.set_window(self.window * AFTER_TIMEOUT);
                }
            } else if !loss.repeated_timeout {
                self.set_window(self.window * AFTER_TIMEOUT);
            }
            self.ignore_sent();
        }
    }

    fn on_idle(&mut self, now: Time, idle: Duration, timeout: Duration) {
        self.now = now;
        (self.round_began, self.delivered) = (now, 0.0);
        if let Some(cubic) = &mut self.cubic {
            cubic.on_idle(now, idle, timeout);
            self.follow_cubic();
        } else if let Some(estimate) = self.estimate().filter(|_| idle > timeout) {
            let share = start::FIRST_SHARE * estimate.bdp();
            self.set_window(self.window.min(share.max(self.config.first_window)));
            self.drain.cancel();
            self.ignore_sent();
        }
    }

    /// Until feedback arrives again, one packet is sent for each expiry of the retransmission timer, which doubles (RFC
    /// 9743, section 5.1.1).
    fn window(&self) -> Bytes {
        let least = if self.drain.share(self.now) < 1.0 { 2.0 } else { 1.0 };
        let packets = if self.is_silent { 1.0 } else { self.window.max(least) };
        Bytes::new((packets * self.packet.as_f64()) as u64)
    }

    fn departure(&self) -> Departure {
        let due = self.pacer.next_at(self.pace());
        let at = match self.drain.late_packet_at(self.now, self.last_sent_at) {
            _ if self.rest_of_bunch > 0 => Time::ZERO,
            Some(late) => due.min(late),
            None => due,
        };
        Departure { at, bytes: self.packet, feedback: RouterFeedback::None }
    }

    fn rate(&self) -> Option<Rate> {
        Some(self.pace())
    }

    fn record(&self, out: &mut Record) {
        out.add("queueing_delay_s", self.delays.last_wait);
        out.add("variation_s", self.delays.variation);
        if let Some(estimate) = self.estimate() {
            out.add("capacity_bps", estimate.capacity * self.packet_bits());
            out.add("target_queue_s", estimate.target(self.window));
        }
        out.add("evidence", self.evidence);
        if let Some(outcome) = &self.drain.last {
            out.add("own_share", outcome.share);
            out.add("others_drained", outcome.others);
        }
    }

    fn state(&self) -> &'static str {
        if self.is_silent {
            "feedback_timeout"
        } else if self.drain.share(self.now) < 1.0 {
            "drain"
        } else if self.cubic.is_some() {
            "competitive_mode"
        } else if self.in_slow_start {
            "slow_start"
        } else {
            "running"
        }
    }

    fn keeps_history(&self) -> bool {
        true
    }

    fn remember(&self, _now: Time, history: &mut Option<History>) {
        *history = self.history().or(*history);
    }
}
