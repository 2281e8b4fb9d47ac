//! PCP, the Probe Control Protocol (Anderson, Collins, Krishnamurthy, Zahorjan, NSDI 2006). A sender tests a higher
//! rate with a short train of packets, and uses all of it at once if their delays stay flat.
//!
//! ```text
//! mechanism (paper, Table 2)   what happens                                             section   file
//! probes                       k packets at base + test rate                            3.1       probe
//! direct jump                  accepted: base += test                                   3.1       train
//! probabilistic accept         with the probability that the delays do not grow         3.1       probe, line
//! rate compensation            base -= the rate that removes the queue                  3.2       queue, compensation
//! periodic probes              one per round trip while more rate may be available      3.3       search
//! binary search                accepted: test *= 2, rejected: test /= 2                 3.3       search
//! exponential backoff          rejected at 1% of base: probes become rarer              3.3       search
//! history                      first rate = a third of the remembered one               3.4       history, start
//! tit for tat                  CUBIC's window beside flows that do not reduce rates     3.5       competitive
//! ```
//!
//! A probe is first *waiting* for its time, then *sending* its train, then *listening* for the receipts. Single losses
//! change nothing except the result of the train that the packet belongs to. The retransmission takes the next slot
//! (section 3.2 detects the queue long before a loss).
//!
//! The paper leaves these cases open:
//! - *No feedback at all* (the retransmission timer expires with three packets or more unanswered): the rate is halved,
//!   as TCP would do at least, because there are no delays to estimate a queue from. With fewer packets in flight each
//!   loss is a single loss. Halving for each of them starves the flow: 200 packets on Figure 8's 1 Mb/s took 19 s on
//!   average with it and 5.9 s without (two seeds). Until feedback arrives, one packet is sent for each expiry of the
//!   timer, which doubles (RFC 9743, section 5.1.1: full backoff). With halving alone a flow at 20 Mb/s sent 1600
//!   packets into 30 s of an outage.
//! - *Excess loss*, more than chance explains, halves the rate, too (`excess_loss`).
//! - *Idle time* longer than the retransmission timeout: the flow starts over with a third of its rate (`start`).
//! - *Lost trains*: a train is rejected if its receipts do not all arrive within two round trips (and 200 ms), twice as
//!   long with each train in a row without any receipt.
//! - *The minimum base rate* is one packet in some seconds, so that a flow always makes progress.
//!
//! *Deviations*. The controller `pcp-paper` follows the paper's text. It is slower and loses packets: with other traffic
//! chance decides about trains, cuts leave the link idle, and flows that find a link idle at the same time overload it.
//! The named places have the reasons; `docs/pcp.md` has all figures, and the known weaknesses:
//! - A flow starts with more than a probe, and in slow start if nothing is known about the path (`start`).
//! - Base packets and probe packets form one evenly spaced train, not two interleaved ones: a sender's own base packets
//!   are the worst noise in its probes.
//! - Where a host cannot space single packets, bunches of them take their place (`Path::bunch`, `probe`). In the
//!   simulator a bunch is one packet.
//! - Delays may grow over a train by half a packet time (`noise`), because packets of other flows come between those of
//!   the train, by the jitter without a queue (`MAX_NOISE`), and by that of hosts (`host_jitter`).
//! - One lost packet does not reject a train (`MISSING_RECEIPTS`). Two packets sent back to back end it and show the
//!   path's capacity (`probe`).
//! - The test rate and the granted rate are limited by the capacity that others leave (`growth`) and by a third of the
//!   capacity (`MAX_JUMP`). After a jump that the path did not carry, tests are at most a sixteenth of the base rate, and
//!   the search does not double them (`jump`).
//! - A flow has a target queue that grows with the logarithm of `C / r`, and accepts three times that for a few round
//!   trips (`growth`, `compensation`). After losses the target is at most a share of the buffer
//!   (`MAX_TARGET_OF_BUFFER`). A train that meets a longer queue is rejected. Queues that never empty, and queues above
//!   that ceiling, are drained (`drain`).
//! - The queue is what the lowest delays of a round trip show, and its slope counts less its standard error (`queue`).
//! - A cut for delay is a share of what the queue asks for (`delay_gain`).
//! - Beside flows that do not reduce their rates it keeps the window that CUBIC would have (`competitive`).

mod compensation;
mod competitive;
mod config;
mod drain;
mod excess_loss;
mod growth;
mod history;
mod host_jitter;
mod judgement;
mod jump;
pub(crate) mod probe;
mod queue;
pub(crate) mod search;
mod start;
mod train;

#[cfg(test)]
mod claims;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use rampmeter_units::{Bytes, Duration, Random, Rate, Time};
use rampmeter_wire::RouterFeedback;

use self::compensation::Compensation;
use self::competitive::Competitive;
pub use self::config::Config;
use self::config::{
    MAX_BUNCH, MAX_GAP, MAX_JITTER, MAX_NOISE, MAX_TRAIN, MIN_ROUND_TRIP, MISSING_RECEIPTS, OUTLIER, TIMER_SLACK,
};
pub(crate) use self::config::{MAX_RTT, MAX_UNANSWERED};
use self::drain::Drain;
use self::excess_loss::ExcessLoss;
use self::growth::Rise;
use self::history::PathHistory;
use self::host_jitter::HostJitter;
use self::jump::Jump;
use self::probe::{Phase, Probe};
use self::queue::{Queue, View};
use self::search::Search;
use self::start::{Cut, SlowStart};
use crate::parts::pacer::Pacer;
use crate::{Ack, Algorithm, Arrival, Controller, Departure, History, Loss, LossKind, Notice, Path, Record, Sent};

/// PCP.
#[derive(Debug, Clone)]
pub struct Pcp {
    config: Config,
    random: Random,
    packet: Bytes,
    /// The size of packets from the end of the present train on.
    larger_packet: Option<Bytes>,
    /// The number of flows that share the rate.
    flows: usize,
    rtt: Duration,
    min_rtt: Duration,
    /// The last round-trip sample.
    last_rtt: Duration,
    /// The base rate.
    base: Rate,
    /// The highest base rate so far, reduced by every cut since.
    reached: Rate,
    /// When the rate was last cut.
    last_cut: Cut,
    phase: Phase,
    probe: Probe,
    search: Search,
    queue: Queue,
    view: View,
    drain: Drain,
    compensation: Compensation,
    competitive: Competitive,
    slow_start: Option<SlowStart>,
    excess_loss: ExcessLoss,
    jump: Jump,
    rise: Rise,
    host_jitter: HostJitter,
    trains: train::Counts,
    path_history: PathHistory,
    pacer: Pacer,
    /// The time whose packets leave together.
    bunch: Duration,
    /// The number of packets that belong to the current bunch and have not left.
    rest_of_bunch: u64,
    /// Consecutive trains without any receipt.
    unanswered_trains: u32,
    /// Packets sent since the last feedback.
    unanswered: u64,
    /// The base rate before the retransmission timer expired. `None` once something has arrived since.
    base_before_timeout: Option<Rate>,
    /// Start and end of the last stall of this host that counts.
    stall: Option<(Time, Time)>,
}

impl Algorithm for Pcp {
    type Config = Config;

    const NEEDS: Option<&'static str> =
        Some("needs the arrival time of each packet, and sends almost nothing without it");

    fn new(config: &Config, random: Random) -> Self {
        Self {
            config: config.clone(),
            random,
            packet: Bytes::ZERO,
            larger_packet: None,
            flows: 1,
            rtt: Duration::ZERO,
            min_rtt: Duration::ZERO,
            last_rtt: Duration::ZERO,
            base: Rate::ZERO,
            reached: Rate::ZERO,
            last_cut: Cut::Never,
            phase: Phase::Waiting(Time::MAX),
            probe: Probe::new(MAX_TRAIN, OUTLIER),
            search: Search::new(Rate::ZERO),
            queue: Queue::new(None),
            view: View::default(),
            drain: Drain::default(),
            compensation: Compensation::new(),
            competitive: Competitive::default(),
            slow_start: None,
            excess_loss: ExcessLoss::default(),
            jump: Jump::default(),
            rise: Rise::default(),
            host_jitter: HostJitter::new(Duration::ZERO, Duration::ZERO),
            trains: train::Counts::default(),
            path_history: PathHistory::default(),
            pacer: Pacer::with_max_gap(MAX_GAP),
            bunch: Duration::ZERO,
            rest_of_bunch: 0,
            unanswered_trains: 0,
            unanswered: 0,
            base_before_timeout: None,
            stall: None,
        }
    }
}

impl Pcp {
    /// The minimum base rate.
    fn min_rate(&self) -> Rate {
        Rate::of(self.packet, MAX_GAP).max(Rate::from_bps(1)).min(self.config.max_rate)
    }

    /// Gives up a share of the base rate.
    fn cut(&mut self, share: f64) {
        self.last_cut = if share > 0.0 { Cut::SinceStart } else { self.last_cut };
        self.reached = self.reached.max(self.base).scale(1.0 - share);
        self.base = self.base.scale(1.0 - share).max(self.min_rate());
    }

    /// The current sending rate.
    fn pace(&self) -> Rate {
        if self.phase == Phase::Sending {
            return self.probe.rate();
        }
        self.base.scale(self.drain.share()).max(self.min_rate())
    }

    /// The number of packets that leave together at `rate`.
    fn bunch_at(&self, rate: Rate) -> u64 {
        (rate.bytes_in(self.bunch).as_u64() / self.packet.as_u64().max(1)).clamp(1, MAX_BUNCH)
    }

    /// Delays of larger packets are longer: the queue is measured anew.
    fn use_packet(&mut self, now: Time, packet: Bytes) {
        (self.packet, self.rest_of_bunch) = (packet, 0);
        self.queue = Queue::new(self.past_rtt().map(|rtt| (packet, rtt)));
        self.view = View::default();
        self.competitive.on_packet_size(now, packet);
        if let Some(slow_start) = &mut self.slow_start {
            slow_start.on_packet_size(now, packet);
        }
    }

    /// Schedules the packet after one of `bytes`, which leaves now.
    fn space(&mut self, now: Time, bytes: Bytes) {
        let pace = self.pace();
        // A train whose packets leave together shows a queue that is its own.
        let slack = if self.phase == Phase::Sending { 0 } else { TIMER_SLACK };
        self.pacer.set_slack(self.bunch * slack);
        if self.rest_of_bunch > 0 {
            self.rest_of_bunch -= 1;
            return self.pacer.add_to_bunch(bytes, pace);
        }
        self.rest_of_bunch = self.bunch_at(pace) - 1;
        let bunch = if self.rest_of_bunch == 0 { bytes } else { self.packet * (self.rest_of_bunch + 1) };
        self.pacer.bunch_sent_at(now, bytes, bunch, pace);
    }

    /// Section 3.2: rate compensation, and everything else that follows from the last round trip's delays.
    fn compensate(&mut self, now: Time) {
        let competitive = self.competitive.is_on();
        let Some(view) = self.queue.view(&self.config, now, self.rtt, self.min_rtt, competitive) else { return };
        self.view = View { noise: view.noise.min(MAX_NOISE), ..view };
        self.path_history.host_jitter = self.host_jitter.estimate;
        self.end_slow_start(now);
        if self.slow_start.is_some() {
            return;
        }
        if self.config.compete {
            self.update_competitive_mode(now);
        }
        let drain_until = if self.competitive.is_on() {
            self.drain.begin_by_clock(&self.config, now, self.rtt, view.level, self.capacity_share())
        } else {
            let max_empty_wait = self.packet_time(self.base).scale(0.5).max(self.noise());
            self.drain.begin_if_due(&self.config, now, self.rtt, view.level, max_empty_wait)
        };
        if let Some(until) = drain_until {
            self.phase = Phase::Waiting(until);
        }
        if !self.drain.is_on() && !self.competitive.is_on() {
            self.drain.limit_to_ceiling(now, self.rtt, view.level, self.target(self.base), self.ceiling(self.base));
            let pressure = self.pressure(self.base);
            let cut = self.compensation.cut(now, self.rtt, pressure);
            self.cut(cut);
        }
    }

    /// Halves the rate after excess loss, and cancels a train that is being sent. Competitive mode has its own response
    /// to losses.
    fn react_to_excess_loss(&mut self, now: Time) {
        let is_excessive = self.excess_loss.check_round(now, self.rtt, self.packet);
        if is_excessive && !self.competitive.is_on() {
            self.cut(0.5);
            self.jump.on_excess_loss(now, self.rtt, self.base);
            self.compensation.on_cut(now, 0.5);
            self.phase = Phase::Waiting(now + self.rtt);
        }
    }
}

impl Controller for Pcp {
    fn on_path(&mut self, now: Time, path: &Path) {
        (self.packet, self.larger_packet) = (path.packet.max(Bytes::new(1)), None);
        (self.bunch, self.rest_of_bunch) = (path.bunch, 0);
        self.rtt = path.rtt.clamp(MIN_ROUND_TRIP, MAX_RTT);
        self.min_rtt = path.rtt.clamp(Duration::from_nanos(1), MAX_RTT);
        self.last_rtt = self.rtt;
        let first = self.path_history.start(&self.config, path);
        self.queue = Queue::new(self.past_rtt().map(|rtt| (self.packet, rtt)));
        self.view = View::default();
        self.drain = Drain::new(now);
        self.compensation = Compensation::new();
        (self.reached, self.last_cut) = (Rate::ZERO, Cut::Never);
        self.slow_start = None;
        (self.excess_loss, self.jump, self.rise) = (ExcessLoss::default(), Jump::default(), Rise::default());
        let past = self.path_history.past;
        self.host_jitter = HostJitter::new(past.map_or(Duration::ZERO, |past| past.host_jitter), MAX_JITTER);
        self.begin(now, path, first);
    }

    /// A train of packets of both sizes proves nothing: larger ones wait for its end, and smaller ones end it.
    fn on_packet_size(&mut self, now: Time, packet: Bytes) {
        self.larger_packet = Some(packet).filter(|&packet| packet > self.packet && self.phase.is_probing());
        if self.larger_packet.is_none() {
            self.use_packet(now, packet);
            self.phase = if self.phase.is_probing() { Phase::Waiting(now) } else { self.phase };
        }
    }

    fn on_notice(&mut self, now: Time, notice: Notice) {
        match notice {
            Notice::Flows(flows) => self.flows = flows.max(1),
            Notice::FirstWindows(flows) => self.use_first_windows(now, flows),
            Notice::AppLimited => {
                self.rest_of_bunch = 0;
                if self.phase == Phase::Sending && self.probe.end_early() {
                    self.listen(now);
                }
            }
            // Stalls count in every second round trip at most, so that a host that stalls all the time still detects queues.
            Notice::Stall { since } if self.stall.is_none_or(|(_, until)| since.since(until) >= self.rtt * 2) => {
                self.stall = Some((since, now));
            }
            _ => {}
        }
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) {
        self.unanswered += 1;
        self.space(now, sent.bytes);
        if self.phase == Phase::Sending {
            self.probe.on_sent(now, sent.number, sent.bytes);
            if self.probe.is_sent() {
                self.listen(now);
            }
        } else {
            self.poll(now);
        }
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        self.unanswered = 0;
        let base_before_timeout = self.base_before_timeout.take();
        if ack.smoothed_rtt > Duration::ZERO {
            self.rtt = ack.smoothed_rtt.clamp(MIN_ROUND_TRIP, MAX_RTT);
        }
        if ack.min_rtt > Duration::ZERO {
            self.min_rtt = ack.min_rtt.min(MAX_RTT);
            if let Some(past) = self.path_history.past_rtt() {
                self.min_rtt = self.min_rtt.min(past);
            }
        }
        self.competitive.on_ack(now, ack, self.drain.is_on());
        if let Some(slow_start) = &mut self.slow_start {
            let max = self.path_history.capacity().unwrap_or(Rate::MAX).min(self.config.max_rate);
            self.base = self.base.max(slow_start.on_ack(now, ack, self.rtt, max));
        }
        self.excess_loss.on_arrival(ack.delivered);
        self.react_to_excess_loss(now);
        let (arrived_at, stall) = (ack.arrived_at(now), self.stall);
        // In transit, in either direction, during a stall of the host.
        let host_stalled =
            |arrival: &Arrival| stall.is_some_and(|(since, until)| arrival.sent_at <= until && arrived_at >= since);
        if let Some(last) = ack.arrivals.last().filter(|last| !self.config.round_trip && !host_stalled(last)) {
            self.host_jitter.on_arrival(arrived_at, last, self.rtt);
        }
        self.last_rtt = ack.rtt.unwrap_or(self.rtt).min(MAX_RTT);
        let (mut kept, active) = (false, self.phase.is_probing());
        for arrival in ack.arrivals {
            let arrival =
                &if self.config.round_trip { Arrival { received_at: arrived_at, ..*arrival } } else { *arrival };
            if active && self.probe.contains(arrival.number) {
                self.probe.on_arrival(arrival);
                self.probe.host_stalled |= host_stalled(arrival);
            }
            kept |= !host_stalled(arrival) && self.queue.on_arrival(now, arrival, self.last_rtt, self.rtt);
        }
        if let Some(min_rtt) = self.queue.min_rtt(self.packet) {
            self.path_history.on_min_rtt(min_rtt);
        }
        if kept {
            self.compensate(now);
        }
        if active && self.probe.is_complete(MISSING_RECEIPTS) {
            self.conclude(now);
        }
        if let Some(base) = base_before_timeout {
            self.reached = base;
            self.resume(now);
        }
        self.shorten_wait(now);
        self.poll(now);
    }

    fn on_loss(&mut self, now: Time, loss: &Loss) {
        let persistent = loss.kind == LossKind::Persistent && self.unanswered >= MAX_UNANSWERED;
        self.queue.on_loss(now);
        self.competitive.on_loss(now, loss, self.view.level > self.target(self.base));
        if let Some(slow_start) = self.slow_start.take() {
            self.enter_competitive_mode(now, slow_start.on_loss(now, loss));
        }
        if persistent {
            self.base_before_timeout.get_or_insert(self.base);
            self.cut(0.5);
            self.excess_loss.on_timeout(loss.bytes, self.packet, loss.last_sent);
        } else {
            self.excess_loss.on_loss(loss.bytes, loss.number, loss.last_sent);
        }
        let active = self.phase.is_probing();
        if active && self.probe.contains(loss.number) {
            self.probe.on_loss(loss.number);
        }
        if active && (persistent || self.probe.is_complete(MISSING_RECEIPTS)) {
            self.conclude(now);
        }
    }

    fn on_idle(&mut self, now: Time, idle: Duration, timeout: Duration) {
        if idle > timeout {
            if let Some(slow_start) = &mut self.slow_start {
                slow_start.on_idle(now, idle, timeout);
            }
            self.excess_loss = ExcessLoss::default();
            self.competitive.on_idle(now, idle, timeout, self.rtt);
            self.resume(now);
        }
    }

    fn on_deadline(&mut self, now: Time) {
        self.poll(now);
    }

    fn deadline(&self) -> Time {
        self.phase.deadline()
    }

    fn window(&self) -> Bytes {
        if self.base_before_timeout.is_some() {
            return self.packet;
        }
        self.competitive.window().unwrap_or(Bytes::MAX)
    }

    fn departure(&self) -> Departure {
        let is_second = self.phase == Phase::Sending && self.probe.wants_second();
        let at = if self.rest_of_bunch > 0 {
            Time::ZERO
        } else if is_second {
            self.probe.second_at()
        } else {
            self.pacer.next_at(self.pace())
        };
        Departure { at, bytes: self.packet, feedback: RouterFeedback::None }
    }

    fn rate(&self) -> Option<Rate> {
        Some(self.pace())
    }

    /// Slow start, competitive mode and drains go on beside the phases of probes.
    fn record(&self, out: &mut Record) {
        out.add("base_rate_bps", self.base.as_bps_f64());
        out.add_known("test_rate_bps", self.phase.is_probing().then(|| self.probe.test.as_bps_f64()));
        out.add("queueing_delay_s", self.view.level.as_secs_f64());
        self.trains.record(out);
    }

    fn state(&self) -> &'static str {
        if self.base_before_timeout.is_some() {
            "feedback_timeout"
        } else if self.slow_start.is_some() {
            "slow_start"
        } else if self.drain.is_on() {
            "drain"
        } else if self.competitive.is_on() {
            "competitive_mode"
        } else {
            self.phase.name()
        }
    }

    fn keeps_history(&self) -> bool {
        true
    }

    fn remember(&self, _now: Time, history: &mut Option<History>) {
        self.path_history.remember(history, self.slow_start.is_some());
    }
}
