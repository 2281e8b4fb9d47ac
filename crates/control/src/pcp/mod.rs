//! PCP, the Probe Control Protocol (Anderson, Collins, Krishnamurthy, Zahorjan, NSDI 2006): ask the path for a rate with
//! a short train of packets, and take the whole of it if their delays stay flat.
//!
//! ```text
//! mechanism (paper, Table 2)   what happens                                             section   file
//! probes                       k packets at base + test rate                            3.1       probe
//! direct jump                  accepted: base += test                                   3.1       mod
//! probabilistic accept         with the probability that the delays do not grow         3.1       probe, fit
//! rate compensation            base -= what the queue is worth                          3.2       queue, compensation
//! periodic probes              one a round trip, as long as there is something to ask   3.3       search
//! binary search                accepted: test *= 2, rejected: test /= 2                 3.3       search
//! exponential backoff          rejected at 1% of base: probe ever more rarely           3.3       search
//! history                      first rate = a third of the remembered one               3.4       memory, start
//! tit for tat                  beside flows that do not give way: CUBIC's window        3.5       competitive
//! ```
//!
//! A probe goes from *waiting* for its time over *sending* its train to *listening* for receipts, and back. Packets lost one
//! by one change nothing but the fate of the train they belong to: the repair takes the next slot (section 3.2 sees the
//! queue long before).
//!
//! Where the paper is silent:
//! - *Nothing comes back* (the retransmission timer runs out on three packets or more): the rate is halved, as TCP would
//!   at least. There are no delays to judge a queue by, and a sender that may not learn of the losses it causes must not
//!   keep its rate. Where fewer are in flight each is lost alone, and halving for each starves: 200 packets took 19 s in
//!   the mean on Figure 8's 1 Mb/s with it and 5.9 s without (two seeds).
//! - *Excess loss*: more losses in a round trip than chance explains halve the rate too; while many are lost in the mean, hardly
//!   a probe leaves (`damage`).
//! - *A silence* longer than the retransmission timer: the base rate is no longer the flow's, because nobody could see it.
//!   It starts over with a third of it.
//! - *Lost trains*: one whose receipts do not all come within two round trips (and 200 ms) is rejected; if nothing at
//!   all came back, the next is waited for twice as long.
//! - *The base rate's floor* is a packet every few seconds, so that something always moves.
//!
//! *Deviations*. The paper's text as it stands is the controller `pcp-paper`. It crawls: trains are judged by chance where
//! others send, cuts leave the link idle, and flows that find a link idle together overrun it. What is different here,
//! each with its reason and its measurement where it is made:
//! - A flow begins with more than a probe, and in slow start where nothing is known of the path (`start`).
//! - Base packets and probe packets are one evenly spaced train, not two interleaved ones: a sender's own base packets
//!   are the worst noise in its probes. In an earlier, more literal model (one run): mean response at load 0.60
//!   1290 ms interleaved, 720 to 880 ms merged.
//! - Delay may grow by half a packet time over a train (`noise`), because the packets of others make it jitter by more,
//!   and by what it is seen to jitter by without them (`MAX_NOISE`).
//! - Hosts are late, and the way back says by how much (`lateness`). Trains outlast that.
//! - A flow aims at a queue that grows with the logarithm of how little it has, and lets three times as much stand for some
//!   round trips (`growth`, `compensation`). A train through a longer queue is rejected. Queues that never empty, and those
//!   above that ceiling, are drained (`drain`).
//! - Where packets are lost no target is more than a share of the buffer (`OF_BUFFER`).
//! - One lost packet does not reject a train (`MISSING_RECEIPTS`).
//! - Two packets sent together close each train and tell the path's capacity (`probe`).
//! - What a probe asks for, and what it is granted, is bounded by what others leave (`growth`) and by a third of the
//!   capacity (`JUMP`).
//! - A cut by delay is a fraction of the queue's (`delay_gain`, in `compensation`; the estimates stand there and in `queue`).
//! - Beside flows that do not give way it keeps the window that CUBIC would have (`competitive`).
//!
//! *Known weaknesses*, with their figures: `docs/pcp.md`.

mod compensation;
mod competitive;
mod config;
mod drain;
mod excess_loss;
mod growth;
mod history;
mod host_jitter;
mod judgement;
mod probe;
mod queue;
mod search;
mod start;

#[cfg(test)]
mod claims;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use rampmeter_units::{Bytes, Duration, Rate, Stream, Time};
use rampmeter_wire::RouterFeedback;

use self::compensation::Compensation;
use self::competitive::Competitive;
pub use self::config::Config;
use self::config::{
    MAX_BACKOFF, MAX_GAP, MAX_JITTER, MAX_NOISE, MAX_TRAIN, MIN_PROBE, MIN_RECEIPT_TIMEOUT, MIN_ROUND_TRIP, MIN_STEP,
    MISSING_RECEIPTS, OUTLIER, RECEIPT_TIMEOUT, STANDING, TRAIN_PER_JITTER,
};
use self::drain::Drain;
use self::excess_loss::ExcessLoss;
use self::history::PathHistory;
use self::host_jitter::HostJitter;
use self::probe::{PairRate, Probe, ProbeResult};
use self::queue::{Queue, View, WaitCount};
use self::search::Search;
use self::start::{GRANTED_SHARE, SlowStart};
use crate::pacer::Pacer;
use crate::{Ack, Algorithm, Arrival, Controller, Departure, History, Loss, LossKind, Path, Sent};

/// Packets without an answer from which the retransmission timer says that nothing comes back. Fewer are lost one by one.
const MAX_UNANSWERED: u64 = 3;

/// No path takes longer, and no probe is waited for longer: whatever is measured, something happens within minutes.
const MAX_RTT: Duration = Duration::from_secs(60);

/// Where the current probe is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The next train begins at this time.
    Waiting(Time),
    /// Its packets are leaving.
    Sending,
    /// All have left; those without a receipt at this time count as lost.
    Listening(Time),
}

/// PCP.
#[derive(Debug, Clone)]
pub struct Pcp {
    config: Config,
    random: Stream,
    packet: Bytes,
    /// Flows that share the rate.
    flows: usize,
    rtt: Duration,
    min_rtt: Duration,
    /// The last round trip measured.
    last_rtt: Duration,
    /// The base rate.
    base: Rate,
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
    host_jitter: HostJitter,
    path_history: PathHistory,
    pacer: Pacer,
    /// Trains in a row of which nothing came back.
    unanswered_trains: u32,
    /// Packets sent since anything came back.
    unanswered: u64,
    /// This host stood still from the one time to the other: the last stall that counts.
    stall: Option<(Time, Time)>,
}

impl Algorithm for Pcp {
    type Config = Config;

    const NEEDS: Option<&'static str> =
        Some("needs the time at which each packet arrives, and sends next to nothing without");

    fn new(config: &Config, random: Stream) -> Self {
        Self {
            config: config.clone(),
            random,
            packet: Bytes::ZERO,
            flows: 1,
            rtt: Duration::ZERO,
            min_rtt: Duration::ZERO,
            last_rtt: Duration::ZERO,
            base: Rate::ZERO,
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
            host_jitter: HostJitter::new(Duration::ZERO, Duration::ZERO),
            path_history: PathHistory::default(),
            pacer: Pacer::with_max_gap(MAX_GAP),
            unanswered_trains: 0,
            unanswered: 0,
            stall: None,
        }
    }
}

impl Pcp {
    /// The lowest base rate.
    fn min_rate(&self) -> Rate {
        Rate::of(self.packet, MAX_GAP).max(Rate::from_bps(1)).min(self.config.fastest)
    }

    /// The rate packets leave at now.
    fn pace(&self) -> Rate {
        if self.phase == Phase::Sending {
            return self.probe.rate();
        }
        self.base.scale(self.drain.share()).max(self.min_rate())
    }

    /// The least that a probe asks for, however low the base rate; for each of the macroflow's flows.
    fn min_probe(&self) -> Rate {
        let packet_a_round_trip = Rate::of(self.packet, self.rtt);
        packet_a_round_trip.scale(MIN_PROBE * self.flows as f64).min(self.base).max(self.min_rate())
    }

    /// Starts a train whose time has come, gives up on one whose time is over.
    fn poll(&mut self, now: Time) {
        self.drain.poll(now);
        match self.phase {
            Phase::Waiting(until) if now >= until && self.competitive.is_on() => {
                self.phase = Phase::Waiting(now + self.rtt);
            }
            Phase::Waiting(until) if now >= until => match self.next_test(now) {
                Some(test) => {
                    self.probe.start(now, self.base, test, self.train_length(test));
                    self.pacer.resume(now, self.probe.rate());
                    self.phase = Phase::Sending;
                }
                None => self.phase = Phase::Waiting(now + self.rtt),
            },
            Phase::Listening(until) if now >= until => self.conclude(now),
            _ => {}
        }
    }

    /// Packets of a train that asks for `test`: if they may be so many, it takes several times as long as hosts are late.
    fn train_length(&self, test: Rate) -> usize {
        let span = self.host_jitter.estimate().scale(TRAIN_PER_JITTER);
        let packets = (self.base + test).bytes_in(span).as_u64() / self.packet.as_u64().max(1);
        (packets as usize).saturating_add(1).clamp(self.config.train, MAX_TRAIN)
    }

    /// The rate to ask for now; none if there is nothing to be had.
    fn next_test(&mut self, now: Time) -> Option<Rate> {
        if self.excess_loss.is_lossy(self.config.max_loss)
            && now.since(self.probe.started()) < self.rtt.scale(MAX_BACKOFF)
        {
            return None;
        }
        let base = self.base;
        let searched = self.search.test(&self.config, base, self.min_probe());
        let waits = self.count_waits(WaitCount::default());
        let Some(capacity) = self.path_history.capacity().filter(|_| waits.all > 0) else {
            return Some(searched); // before anything came back the search knows as much as anybody
        };
        let round_trips = (now.since(self.probe.started()).as_secs_f64() / self.rtt.as_secs_f64()).clamp(1.0, 4.0);
        let room = -self.pressure(base) * round_trips;
        let standing = self.view.level > self.packet_time(base).scale(STANDING).max(self.noise());
        let growth = if standing {
            if room <= 0.0 {
                return None;
            }
            room.min(1.0)
        } else {
            (growth::factor(waits, base, capacity) - 1.0).max(room).max(MIN_STEP)
        };
        let test = base.scale(growth).min(self.config.fastest.saturating_sub(base)).max(self.min_probe());
        self.search.set_test_rate(test);
        Some(test)
    }

    /// All of the train has left: how long to wait for the rest of its receipts.
    fn listen(&mut self, now: Time) {
        let timeout = self.rtt.scale(RECEIPT_TIMEOUT).max(MIN_RECEIPT_TIMEOUT);
        self.phase = Phase::Listening(now + (timeout * (1 << self.unanswered_trains.min(10))).min(MAX_RTT));
        if self.probe.is_complete(MISSING_RECEIPTS) {
            self.conclude(now);
        }
    }

    /// Judges the train, draws the consequences and plans the next.
    fn conclude(&mut self, now: Time) {
        self.unanswered_trains = if self.probe.has_receipts() { 0 } else { self.unanswered_trains + 1 };
        if let Some(pair) = self.probe.pair_rate() {
            self.path_history.on_pair(PairRate { rate: pair.rate.min(self.config.fastest), ..pair });
        }
        match self.probe_result() {
            ProbeResult::Accepted(more) => {
                self.base = (self.base + more).min(self.config.fastest).max(self.min_rate()); // section 3.1, direct jump
                self.slow_start.take_if(|_| more >= self.base.scale(GRANTED_SHARE));
                if more == self.probe.test() {
                    self.search.accepted(more);
                }
                self.path_history.on_probe_result(true, self.base);
            }
            ProbeResult::Rejected => {
                self.search.rejected(self.probe.test(), self.base, self.min_probe());
                self.path_history.on_probe_result(false, self.base);
            }
            ProbeResult::Inconclusive => {}
        }
        let next = self.search.next(now, self.probe.started(), self.rtt, &mut self.random);
        self.phase = Phase::Waiting(next);
        self.poll(now);
    }

    /// Section 3.2: what the queue asks for.
    fn compensate(&mut self, now: Time) {
        let competitive = self.competitive.is_on();
        let Some(view) = self.queue.view(&self.config, now, self.rtt, self.min_rtt, competitive) else { return };
        self.view = View { noise: view.noise.min(MAX_NOISE), ..view };
        self.path_history.on_host_jitter(self.host_jitter.estimate());
        self.end_slow_start(now);
        if self.slow_start.is_some() {
            return;
        }
        if self.config.compete {
            self.update_competitive_mode(now);
        }
        let begin_if_due = if self.competitive.is_on() {
            self.drain.begin_by_clock(&self.config, now, self.rtt, view.min_wait, self.capacity_share())
        } else {
            let max_empty_wait = self.packet_time(self.base).scale(0.5).max(self.noise());
            self.drain.begin_if_due(&self.config, now, self.rtt, view.min_wait, max_empty_wait)
        };
        if let Some(until) = begin_if_due {
            self.phase = Phase::Waiting(until);
        }
        if !self.drain.is_on() && !self.competitive.is_on() {
            self.drain.limit_to_ceiling(now, self.rtt, view.min_wait, self.target(self.base), self.ceiling(self.base));
            let pressure = self.pressure(self.base);
            let cut = self.compensation.cut(now, self.rtt, pressure);
            self.base = self.base.scale(1.0 - cut).max(self.min_rate());
        }
    }

    /// Halves the rate if too much of what was sent at it was lost; a train that is under way is given up. Competitive
    /// mode has its own answer to losses.
    fn react_to_excess_loss(&mut self, now: Time) {
        let is_excessive = self.excess_loss.check_round(now, self.rtt, self.packet, self.config.max_loss);
        if is_excessive && !self.competitive.is_on() {
            self.base = self.base.scale(0.5).max(self.min_rate());
            self.compensation.on_cut(now, 0.5);
            self.phase = Phase::Waiting(now + self.rtt);
        }
    }
}

impl Controller for Pcp {
    fn on_path(&mut self, now: Time, path: &Path) {
        self.packet = path.packet.max(Bytes::new(1));
        self.rtt = path.rtt.clamp(MIN_ROUND_TRIP, MAX_RTT);
        self.min_rtt = path.rtt.clamp(Duration::from_nanos(1), MAX_RTT);
        self.last_rtt = self.rtt;
        let first = self.path_history.start(&self.config, path);
        self.queue = Queue::new(self.past_rtt().map(|rtt| (self.packet, rtt)));
        self.view = View::default();
        self.drain = Drain::new(now);
        self.compensation = Compensation::new();
        self.slow_start = None;
        self.excess_loss = ExcessLoss::default();
        self.host_jitter = HostJitter::new(self.path_history.past_host_jitter(), MAX_JITTER);
        self.begin(now, path, first);
    }

    fn on_flows(&mut self, flows: usize) {
        self.flows = flows.max(1);
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) {
        self.unanswered += 1;
        self.pacer.sent_at(now, sent.bytes, self.pace());
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
            let max = self.path_history.capacity().unwrap_or(Rate::MAX).min(self.config.fastest);
            self.base = self.base.max(slow_start.on_ack(now, ack, self.rtt, max));
        }
        self.excess_loss.on_arrival(ack.delivered);
        self.react_to_excess_loss(now);
        let (arrived_at, stall) = (ack.arrived_at(now), self.stall);
        // In transit while the host stood still, there or back.
        let host_stalled =
            |arrival: &Arrival| stall.is_some_and(|(since, until)| arrival.sent_at <= until && arrived_at >= since);
        if let Some(last) = ack.arrivals.last().filter(|last| !self.config.round_trip && !host_stalled(last)) {
            self.host_jitter.on_arrival(arrived_at, last);
        }
        self.last_rtt = ack.rtt.unwrap_or(self.rtt).min(MAX_RTT);
        let (mut kept, active) = (false, !matches!(self.phase, Phase::Waiting(_)));
        for arrival in ack.arrivals {
            let arrival =
                &if self.config.round_trip { Arrival { received_at: arrived_at, ..*arrival } } else { *arrival };
            if active && self.probe.contains(arrival.number) {
                self.probe.on_arrival(arrival);
                if host_stalled(arrival) {
                    self.probe.on_host_stall();
                }
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
            self.base = self.base.scale(0.5).max(self.min_rate());
            self.excess_loss.on_timeout(loss.bytes, self.packet, loss.last_sent);
        } else {
            self.excess_loss.on_loss(loss.bytes, loss.number, loss.last_sent);
        }
        let active = !matches!(self.phase, Phase::Waiting(_));
        if active && self.probe.contains(loss.number) {
            self.probe.on_loss(loss.number);
        }
        if active && (persistent || self.probe.is_complete(MISSING_RECEIPTS)) {
            self.conclude(now);
        }
    }

    fn on_idle(&mut self, now: Time, idle: Duration, timeout: Duration) {
        if idle > timeout {
            self.slow_start = None;
            self.excess_loss = ExcessLoss::default();
            self.competitive.on_idle(now, idle, timeout, self.rtt);
            let share = self.base.scale(self.config.first_share);
            self.restart(now, share, share);
        }
    }

    fn on_app_limited(&mut self, now: Time) {
        if self.phase == Phase::Sending && self.probe.end_early() {
            self.listen(now);
        }
    }

    fn on_stall(&mut self, now: Time, since: Time) {
        // No more than every second round trip is left out: a host that is late all the time must still see queues.
        if self.stall.is_none_or(|(_, until)| since.since(until) >= self.rtt * 2) {
            self.stall = Some((since, now));
        }
    }

    fn on_deadline(&mut self, now: Time) {
        self.poll(now);
    }

    fn deadline(&self) -> Time {
        match self.phase {
            Phase::Waiting(until) | Phase::Listening(until) => until,
            Phase::Sending => Time::MAX,
        }
    }

    fn window(&self) -> Bytes {
        self.competitive.window().unwrap_or(Bytes::MAX)
    }

    fn departure(&self) -> Departure {
        let is_second = self.phase == Phase::Sending && self.probe.wants_second();
        let spaced = self.pacer.next_at(self.pace());
        let at = if is_second { Time::ZERO } else { spaced };
        Departure { at, bytes: self.packet, feedback: RouterFeedback::None }
    }

    fn rate(&self) -> Option<Rate> {
        Some(self.pace())
    }

    fn remember(&self, _now: Time, history: &mut Option<History>) {
        self.path_history.remember(history, self.slow_start.is_some());
    }
}
