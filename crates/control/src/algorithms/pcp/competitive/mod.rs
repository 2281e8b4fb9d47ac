//! Competitive mode: beside flows that do not reduce their rates, PCP keeps the window that CUBIC would have (section
//! 3.5).
//!
//! The paper's tit for tat divides rate compensation by ten while compensation does not shorten the queue. Many PCP
//! flows that compensate together look the same to each of them, and then let the queue grow without limit. Two
//! observations distinguish TCP instead: a queue that does not fall although every PCP flow would make it fall, and the
//! length of that queue. A queue is *odd* if it is longer than any crowd of PCP flows keeps it (`ODD_QUEUE_FACTOR`
//! times the ceiling of one of 50 flows, see `judgement`).
//!
//! ```text
//! score   each round trip whose minimum wait is above the flow's target and not shorter than the one before: 1 point,
//!         if the queue is odd: 2; any other round trip: back to 0. A failed drain: ENTRY_SCORE points, if the rate
//!         fell to a half since the queue was last as short as the target, or the queue never was so short. A round
//!         trip in which less arrived than the flow sends does not count: it fills the queue itself
//! enter   at ENTRY_SCORE points, or from slow start (`start`), which ends with a loss, growing delays or an odd queue
//! exit    in a drain: the minimum wait is a third of that before it and of an odd one, or less
//!         else: the minimum wait is the target or less, and nothing was lost to a queue for three round trips
//!         at any time: the flow has most of the link, or the average loss (`excess_loss`) was above half of `MAX_LOSS`
//!         in ENTRY_SCORE round trips in a row
//! ```
//!
//! In competitive mode an instance of CUBIC (RFC 9438) gets every acknowledgement and loss, and its window is the
//! flow's. It starts in slow start, with ten packets or with the flow's window when the score was last 0, and ends slow
//! start when delays begin to grow (HyStart++). Meanwhile PCP sends no probes and makes no cuts.
//!
//! - *A failed drain* shows TCP on a slow link with short transfers, where the queue rises and falls all the time and
//!   never stands for twelve round trips, while the flow's rate falls to a tenth and less. It is not enough alone: 50
//!   PCP flows that start together fail to drain their queue at first, and would compete for good (7% lost). But their
//!   rates do not fall for long.
//! - *Flows that take each other for TCP* exit after a common drain, which shortens their queue to less than a third
//!   (`drain`). Beside TCP it removes three fifths at most. Flows keep `RATE_KEPT_ON_EXIT` of their rates, so that they
//!   do not fill the link again at once.
//! - *Flows whose clocks differ* never drain together. Fifty of them fill the buffer for good and lose 7 to 8% of their
//!   packets (`sender_clocks.toml`). So loss that lasts ends the mode, too: once some flows have left, the others' queue
//!   falls. With `MAX_LOSS` itself as the limit one of four runs stays in competitive mode. Ten PCP flows beside 20 to 80
//!   CUBIC flows, which lose as much, have 3% less goodput with this rule.
//! - *Outside a drain a falling queue* does not show that PCP flows drain it: CUBIC's window falls by three tenths with
//!   every loss, which empties a buffer of 0.4 round trips or less. With a deep buffer a flow that exits then takes
//!   many round trips to enter again: 30 MB on `access_paths.toml`'s DSL path beside one CUBIC did not end within three
//!   minutes.
//!
//! `studies/pcp/NOTES.md` has the designs that were tried, with their figures.

use rampmeter_units::{Bytes, Duration, Random, Rate, Time};

use super::config::MAX_LOSS;
use super::{Pcp, Phase};
use crate::cubic::{self, Cubic};
use crate::{Ack, Algorithm, Controller, Loss, Notice, Path};

/// A queue is odd from this multiple of the ceiling of one of many PCP flows.
pub(super) const ODD_QUEUE_FACTOR: f64 = 1.3;

/// The score at which a flow enters competitive mode: six round trips with an odd queue, or twelve with one above its
/// target. 18 and 20 leave 30 MB on deep buffers unfinished.
const ENTRY_SCORE: u32 = 12;

/// The points for a round trip with an odd queue.
const ODD_QUEUE_POINTS: u32 = 2;

/// A failed drain counts if the rate fell to this share of the rate that the flow had when the queue was short.
const HALVED_RATE: f64 = 0.5;

/// A round trip counts if the path carried this share of the base rate.
const CARRIED: f64 = 0.9;

/// A wait that is at least this share of an earlier one did not fall.
const NOT_FALLING: f64 = 0.97;

/// A flow exits if the minimum wait is at most this share of an odd wait, or of the wait before its drain.
const EXIT_SHARE: f64 = 0.35;

/// The number of round trips after a loss in which a short queue does not count: TCP may have reduced its window.
const ROUNDS_AFTER_LOSS: u64 = 3;

/// A flow that carries this share of the capacity has no competing traffic.
const WHOLE_LINK: f64 = 0.8;

/// The share of its rate that a flow keeps when it exits.
const RATE_KEPT_ON_EXIT: f64 = 0.7;

/// The loss that ends competitive mode if it lasts, as a share of `MAX_LOSS`.
const LASTING_LOSS: f64 = 0.5;

/// The minimum length of a round.
const MIN_ROUND: Duration = Duration::from_millis(20);

/// Packets are paced at this multiple of the window per round trip, so that the window is the limit.
pub(super) const SPACING: f64 = 1.2;

/// What a round trip shows about the queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueueObservation {
    /// The minimum wait.
    pub(super) min_wait: Duration,
    /// The flow's target queue.
    pub(super) target: Duration,
    /// Longer waits show an odd queue.
    pub(super) odd_wait: Duration,
    /// The flow's base rate.
    pub(super) base: Rate,
    /// The path's capacity, if known.
    pub(super) capacity: Option<Rate>,
    /// The smoothed round-trip time.
    pub(super) rtt: Duration,
    /// The minimum wait before a drain in competitive mode, if this round trip shows its effect.
    pub(super) wait_before_drain: Option<Duration>,
    /// A drain outside competitive mode has just left most of the queue.
    pub(super) drain_failed: bool,
    /// The path loses so many of the flow's packets that the mode ends if it goes on.
    pub(super) is_lossy: bool,
}

/// The change of mode after an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Nothing,
    Entered,
    Exited,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Competitive {
    packet: Bytes,
    cubic: Option<Cubic>,
    score: u32,
    /// The time of the last loss to a queue.
    lost_at: Option<Time>,
    round_started: Time,
    round_until: Time,
    /// Bytes delivered in this round.
    delivered: Bytes,
    /// The minimum wait of the last round.
    last_wait: Duration,
    /// The base rate when the score was last 0.
    cooperative_rate: Rate,
    /// The base rate when the queue was last as short as the target. None if it never was.
    rate_at_target: Option<Rate>,
}

impl Competitive {
    /// A flow in cooperative mode that sends packets of `packet` bytes.
    pub(super) fn new(now: Time, packet: Bytes) -> Self {
        Self { packet, round_started: now, round_until: now, ..Self::default() }
    }

    /// Resumes competitive mode with the window that an earlier transfer found by its losses, without slow start.
    pub(super) fn resume(&mut self, now: Time, window: Bytes, rtt: Duration) {
        let mut cubic = new_cubic(now, self.packet, window, rtt);
        cubic.window.leave_slow_start();
        self.take_over(now, cubic, rtt);
    }

    pub(super) fn on_packet_size(&mut self, now: Time, packet: Bytes) {
        self.packet = packet;
        if let Some(cubic) = &mut self.cubic {
            cubic.on_packet_size(now, packet);
        }
    }

    /// Enters competitive mode with `cubic` in its current state.
    pub(super) fn take_over(&mut self, now: Time, cubic: Cubic, rtt: Duration) {
        self.cubic = Some(cubic);
        self.begin_round(now, rtt, Duration::ZERO);
    }

    /// Nothing was sent for `idle`, longer than `timeout`.
    pub(super) fn on_idle(&mut self, now: Time, idle: Duration, timeout: Duration, rtt: Duration) {
        self.score = 0;
        self.begin_round(now, rtt, Duration::ZERO);
        if let Some(cubic) = &mut self.cubic {
            cubic.on_idle(now, idle, timeout);
        }
    }

    pub(super) fn on_first_windows(&mut self, now: Time, flows: usize) {
        if let Some(cubic) = &mut self.cubic {
            cubic.on_notice(now, Notice::FirstWindows(flows));
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.cubic.is_some()
    }

    /// Updates the score and the mode after each acknowledgement, from the last round trip's queue.
    pub(super) fn observe(&mut self, now: Time, observation: &QueueObservation) -> Change {
        let is_over = now >= self.round_until;
        if observation.min_wait <= observation.target {
            self.rate_at_target = Some(observation.base);
        }
        let change = if self.is_on() {
            self.exit(now, observation, is_over)
        } else {
            let rate_halved = self.rate_at_target.is_none_or(|rate| observation.base <= rate.scale(HALVED_RATE));
            self.score += if observation.drain_failed && rate_halved { ENTRY_SCORE } else { 0 };
            let delivered = Rate::of(self.delivered, now.since(self.round_started));
            // A queue of the flow's own, as after a fall of the capacity, shows nothing about other flows.
            if !is_over || delivered >= observation.base.scale(CARRIED) {
                self.update_score(observation, is_over);
            }
            self.enter(now, observation)
        };
        if is_over || change != Change::Nothing {
            self.begin_round(now, observation.rtt, observation.min_wait);
        }
        change
    }

    fn begin_round(&mut self, now: Time, rtt: Duration, last_wait: Duration) {
        (self.round_started, self.round_until) = (now, now + rtt.max(MIN_ROUND));
        (self.last_wait, self.delivered) = (last_wait, Bytes::ZERO);
    }

    /// Updates the score: whether the last round trip shows that other flows do not reduce their rates.
    fn update_score(&mut self, observation: &QueueObservation, is_over: bool) {
        if observation.min_wait <= observation.target
            || (is_over && observation.min_wait < self.last_wait.scale(NOT_FALLING))
        {
            self.score = 0;
        } else if is_over {
            self.score += if observation.min_wait > observation.odd_wait { ODD_QUEUE_POINTS } else { 1 };
        }
        if self.score == 0 {
            self.cooperative_rate = observation.base;
        }
    }

    fn enter(&mut self, now: Time, observation: &QueueObservation) -> Change {
        if self.score < ENTRY_SCORE {
            return Change::Nothing;
        }
        let window = self.cooperative_rate.max(observation.base).bytes_in(observation.rtt);
        (self.cubic, self.score) = (Some(new_cubic(now, self.packet, window, observation.rtt)), 0);
        Change::Entered
    }

    fn exit(&mut self, now: Time, observation: &QueueObservation, is_over: bool) -> Change {
        let delivered = Rate::of(self.delivered, now.since(self.round_started));
        let has_whole_link =
            is_over && observation.capacity.is_some_and(|capacity| delivered >= capacity.scale(WHOLE_LINK));
        let lost_recently = self.lost_at.is_some_and(|at| now.since(at) < observation.rtt * ROUNDS_AFTER_LOSS);
        let others_reduce_rate = match observation.wait_before_drain {
            Some(before) if before > observation.target => {
                observation.min_wait <= before.min(observation.odd_wait).scale(EXIT_SHARE)
            }
            _ => observation.min_wait <= observation.target && !lost_recently,
        };
        if is_over {
            self.score = if observation.is_lossy { self.score + 1 } else { 0 };
        }
        if !has_whole_link && !others_reduce_rate && self.score < ENTRY_SCORE {
            return Change::Nothing;
        }
        (self.cubic, self.score, self.rate_at_target) = (None, 0, Some(observation.base.scale(RATE_KEPT_ON_EXIT)));
        Change::Exited
    }

    /// The window in competitive mode.
    pub(super) fn window(&self) -> Option<Bytes> {
        self.cubic.as_ref().map(Controller::window)
    }

    /// Feedback arrived. The window does not grow while the flow may not fill it because the queue `is_drained`.
    pub(super) fn on_ack(&mut self, now: Time, ack: &Ack<'_>, is_drained: bool) {
        self.delivered += ack.delivered;
        if let Some(cubic) = &mut self.cubic {
            cubic.grow(now, &Ack { app_limited: ack.app_limited || is_drained, ..*ack }); // it ignores marks
        }
    }

    /// A packet was lost: to a queue if `is_queue`, else by chance.
    pub(super) fn on_loss(&mut self, now: Time, loss: &Loss, is_queue: bool) {
        self.lost_at = if is_queue { Some(now) } else { self.lost_at };
        if let Some(cubic) = &mut self.cubic {
            // Recovery goes on while retransmissions are lost, so it does not limit the reactions here: the window
            // falls once for all packets that left before its last fall (RFC 9002, section 7.3.2). With one reaction
            // for each recovery four flows whose link fell to a tenth (`studies/rfc9743/transients.toml`) lost 43 to
            // 65% of their packets for ten seconds, with six of 288 seeds.
            cubic.on_loss(now, &Loss { recovering: false, ..*loss });
        }
    }
}

impl Pcp {
    /// Section 3.5: enters or exits competitive mode, and sets the rate in it.
    pub(super) fn update_competitive_mode(&mut self, now: Time) {
        let observation = QueueObservation {
            min_wait: self.view.level,
            target: self.target(self.base),
            odd_wait: self.ceiling_of_many_flows().scale(ODD_QUEUE_FACTOR),
            base: self.base,
            capacity: self.path_history.capacity(),
            rtt: self.rtt,
            wait_before_drain: self.drain.wait_before_drain(now),
            drain_failed: self.drain.take_failed_drain(now),
            is_lossy: self.excess_loss.is_lossy(MAX_LOSS * LASTING_LOSS),
        };
        match self.competitive.observe(now, &observation) {
            Change::Exited => {
                self.base = self.base.scale(RATE_KEPT_ON_EXIT).max(self.min_rate());
                self.compensation.on_cut(now, 1.0 - RATE_KEPT_ON_EXIT);
                self.drain.restart(now, self.view.level);
                self.phase = Phase::Waiting(self.drain.until.unwrap_or(now).max(now + self.rtt));
            }
            Change::Entered => self.phase = Phase::Waiting(now), // cancels a train
            Change::Nothing => {}
        }
        self.base = self.competitive_base().unwrap_or(self.base);
        self.path_history.on_competitive(self.competitive.window().map(|window| Rate::of(window, self.rtt)));
    }

    /// Enters competitive mode from slow start. A train that is being sent is cancelled.
    pub(super) fn enter_competitive_mode(&mut self, now: Time, cubic: Cubic) {
        self.competitive.take_over(now, cubic, self.rtt);
        self.phase = Phase::Waiting(now + self.rtt);
    }

    /// The share of the capacity that the window uses.
    pub(super) fn capacity_share(&self) -> f64 {
        let rate = Rate::of(self.competitive.window().unwrap_or(Bytes::ZERO), self.rtt).as_bps_f64();
        self.path_history.capacity().map_or(1.0, |capacity| (rate / capacity.as_bps_f64()).clamp(0.01, 1.0))
    }

    /// The base rate of a flow in competitive mode.
    pub(super) fn competitive_base(&self) -> Option<Rate> {
        let rate = Rate::of(self.competitive.window()?, self.rtt).scale(SPACING);
        Some(rate.clamp(self.min_rate(), self.config.max_rate))
    }
}

/// A CUBIC in slow start with this window, but at least its usual first one.
pub(super) fn new_cubic(now: Time, packet: Bytes, window: Bytes, rtt: Duration) -> Cubic {
    let mut config = cubic::Config::default();
    config.initial_window = config.initial_window.max(window.as_u64() / packet.as_u64().max(1));
    let mut cubic = Cubic::new(&config, Random::from_seed(0)); // it uses no random numbers
    cubic.on_path(now, &Path::new(packet, rtt, None));
    cubic
}

#[cfg(test)]
mod tests;
