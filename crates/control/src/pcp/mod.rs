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
//! history                      first test = a third of the remembered rate              3.4       memory
//! tit for tat                  compensate ten times less while it is in vain            3.5       tit_for_tat, rivals
//! ```
//!
//! A probe goes from *waiting* for its time over *sending* its train to *listening* for receipts, and back. Until the
//! first is accepted there is no base rate, and nothing but probes leaves. Packets lost one by one change nothing but
//! the fate of the train they belong to: the repair takes the next slot (section 3.2 sees the queue long before).
//!
//! Where the paper is silent:
//! - *Nothing comes back* (the retransmission timer runs out on three packets or more): the rate is halved, as TCP would
//!   at least. There are no delays to judge a queue by, and a sender that may not learn of its own damage must not keep
//!   its rate. Where fewer are on their way each is lost alone, and halving for each starves: 200 packets took 19 s in
//!   the mean on Figure 8's 1 Mb/s with it and 5.9 s without (two seeds).
//! - *Damage*: more losses in a round trip than chance explains halve the rate too (`damage`).
//! - *A silence* longer than the retransmission timer: the base rate is no longer ours, because nobody could see it.
//!   The flow starts over, with that rate as its history.
//! - *Lost trains*: one whose receipts do not all come within two round trips (and 200 ms) is rejected; if nothing at
//!   all came back, the next is waited for twice as long.
//! - *The base rate's floor* is a packet every few seconds, so that something always moves.
//!
//! *Deviations*. The paper's text as it stands (`Config::paper`) crawls: trains are judged by chance where others send,
//! cuts leave the link idle, and newcomers that find a link idle together overrun it. What is different here, each with its
//! reason and its measurement where it is made:
//! - Base packets and probe packets are one evenly spaced train, not two interleaved ones: a sender's own base packets
//!   are the worst noise in its probes. In an earlier, more literal model (one run): mean response at load 0.60
//!   1290 ms interleaved, 720 to 880 ms merged. No setting undoes it.
//! - Delay may grow by half a packet time over a train (`noise`), because the packets of others make it jitter by more,
//!   and by what it is seen to jitter by without them (`most_noise`).
//! - Hosts are late, and the way back says by how much (`lateness`). Trains outlast that.
//! - A flow lets a queue be that grows with the logarithm of how little it has (`tolerance`, in `growth`), and clears it
//!   away every few seconds (`clearing`). A train through a longer queue than that is rejected.
//! - Where packets are lost no more of the buffer is let be than a share of it (`of_buffer`). Without that, a buffer of
//!   three packets is overrun for good: on Figure 8's 1 Mb/s 31% are lost without it and 18% with it, on 3 Mb/s 8 and 2%.
//! - One lost packet does not reject a train (`missing_receipts`): Figure 11 at 5%, two seeds: 644 ms with the paper's 0
//!   and 564 ms.
//! - Two packets sent together close each train and tell the path's capacity (`pair`, in `probe`).
//! - What a probe asks for, and what it is granted, is bounded by what others leave (`fill`, in `growth`).
//! - A cut by delay is a fraction of the queue's (`permanent`, in `compensation`).
//! - The estimates of queue, gap and delay stand in `queue` and `compensation`.
//! - Beside flows that don't give way it competes as TCP does (`compete`, in `rivals`).
//! - A macroflow whose destination rested for a short while has that third without a probe (`resume`).
//!
//! *Known weaknesses.* It takes some seconds to tell TCP from its own kind; until then it starves. Some
//! hundredths of a percent of packets are lost when newcomers meet (the paper: none).

mod clearing;
mod compensation;
mod config;
mod damage;
mod growth;
mod judgement;
mod lateness;
mod memory;
mod probe;
mod queue;
mod resume;
mod rivals;
mod search;
mod tit_for_tat;

#[cfg(test)]
mod claims;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use rampmeter_units::{Bytes, Duration, Rate, Stream, Time};
use rampmeter_wire::RouterFeedback;

use self::clearing::Clearing;
use self::compensation::Compensation;
pub use self::config::Config;
use self::damage::Damage;
use self::lateness::Lateness;
use self::memory::Memory;
use self::probe::{PairRate, Probe, Verdict};
use self::queue::{Count, Queue, View};
use self::rivals::{Rivals, Sight};
use self::search::Search;
use crate::spacing::Spacing;
use crate::{Ack, Algorithm, Arrival, Controller, Departure, History, Loss, LossKind, Path, Sent};

/// The least a packet is divided into: headers and something to carry.
const LEAST_CHUNK: Bytes = Bytes::new(100);

/// Packets without an answer from which the retransmission timer says that nothing comes back. Fewer are lost one by one.
const MOST_UNANSWERED: u64 = 3;

/// No path takes longer, and no probe is waited for longer: whatever is measured, something happens within minutes.
const LONGEST: Duration = Duration::from_secs(60);

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
    /// It goes on where another macroflow was not long ago.
    resumes: bool,
    rtt: Duration,
    min_rtt: Duration,
    /// The last round trip measured.
    last_rtt: Duration,
    /// What the path is known to carry; none before the first accepted probe.
    base: Option<Rate>,
    phase: Phase,
    probe: Probe,
    search: Search,
    queue: Queue,
    view: View,
    clearing: Clearing,
    compensation: Compensation,
    rivals: Rivals,
    damage: Damage,
    lateness: Lateness,
    memory: Memory,
    spacing: Spacing,
    /// Trains in a row of which nothing came back.
    unheard: u32,
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
            resumes: false,
            rtt: Duration::ZERO,
            min_rtt: Duration::ZERO,
            last_rtt: Duration::ZERO,
            base: None,
            phase: Phase::Waiting(Time::MAX),
            probe: Probe::new(config.chunks.max(config.train).max(config.longest_train), config.outlier),
            search: Search::new(Rate::ZERO),
            queue: Queue::new(None),
            view: View::default(),
            clearing: Clearing::default(),
            compensation: Compensation::new(),
            rivals: Rivals::default(),
            damage: Damage::default(),
            lateness: Lateness::new(Duration::ZERO, Duration::ZERO),
            memory: Memory::default(),
            spacing: Spacing::default(),
            unheard: 0,
            unanswered: 0,
            stall: None,
        }
    }
}

impl Pcp {
    /// The lowest base rate.
    fn least(&self) -> Rate {
        Rate::of(self.packet, self.config.slowest).max(Rate::from_bps(1)).min(self.config.fastest)
    }

    /// How large a packet may be: before the first success, a fraction of the largest (section 3.1).
    fn chunk(&self) -> Bytes {
        match self.base {
            Some(_) => self.packet,
            None => (self.packet / self.config.chunks as u64).max(LEAST_CHUNK.min(self.packet)),
        }
    }

    /// The rate packets leave at now; none if they don't.
    fn pace(&self) -> Option<Rate> {
        if self.phase == Phase::Sending {
            return Some(self.probe.rate());
        }
        let share = if self.clearing.is_on() { self.config.clear_share } else { 1.0 };
        self.base.map(|base| base.scale(share).max(self.least()))
    }

    /// The least that a probe asks for, however low the base rate; for each of the macroflow's flows, if there is one. Many
    /// newcomers ask for no more than one does: what is too much for the path would never be granted, and nothing ever leave.
    fn least_probe(&self) -> Rate {
        let packet_a_round_trip = Rate::of(self.packet, self.rtt);
        let flows = if self.base.is_some() { self.flows } else { 1 };
        packet_a_round_trip
            .scale(self.config.least_probe * flows as f64)
            .min(self.base.unwrap_or(self.config.fastest).min(self.config.fastest))
            .max(self.least())
    }

    /// Starts a train whose time has come, gives up on one whose time is over.
    fn poll(&mut self, now: Time) {
        self.clearing.poll(now);
        match self.phase {
            Phase::Waiting(until) if now >= until && self.rivals.is_competing() => {
                self.phase = Phase::Waiting(now + self.rtt);
            }
            Phase::Waiting(until) if now >= until => match self.ask(now) {
                Some(test) => {
                    let packets = self.train_length(test);
                    self.probe.start(now, self.base, test, packets, self.config.pair);
                    self.spacing.resume(now, self.probe.rate());
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
        let least = if self.base.is_some() { self.config.train } else { self.config.chunks };
        let rate = self.base.unwrap_or(Rate::ZERO) + test;
        let span = self.lateness.usual().scale(self.config.outlast);
        let packets = rate.bytes_in(span).as_u64() / self.chunk().as_u64().max(1);
        (packets as usize).saturating_add(1).clamp(least, self.config.longest_train)
    }

    /// The rate to ask for now; none if there is nothing to be had.
    fn ask(&mut self, now: Time) -> Option<Rate> {
        let searched = self.search.test(&self.config, self.base, self.least_probe());
        // Before anything came back the search knows as much as anybody.
        let base = self.base.filter(|_| self.met(Count::default()).all > 0);
        let (Some(base), Some(fill), Some(capacity)) = (base, self.config.fill, self.memory.capacity()) else {
            return Some(searched);
        };
        let round_trips = (now.since(self.probe.started()).as_secs_f64() / self.rtt.as_secs_f64()).clamp(1.0, 4.0);
        let room = -self.pressure(base) * round_trips;
        let standing = self.view.level > self.packet_time(base).scale(self.config.standing).max(self.noise());
        let growth = if standing {
            if room <= 0.0 {
                return None;
            }
            room.min(1.0)
        } else {
            let factor = growth::factor(fill, self.met(Count::default()), base, capacity);
            (factor - 1.0).max(room).max(self.config.least_step)
        };
        let test = base.scale(growth).min(self.config.fastest.saturating_sub(base)).max(self.least_probe());
        self.search.go_on_from(test);
        Some(test)
    }

    /// All of the train has left: how long to wait for the rest of its receipts.
    fn listen(&mut self, now: Time) {
        let patience = self.rtt.scale(self.config.patience).max(self.config.least_patience);
        self.phase = Phase::Listening(now + (patience * (1 << self.unheard.min(10))).min(LONGEST));
        if self.probe.is_complete(self.config.missing_receipts) {
            self.conclude(now);
        }
    }

    /// Judges the train, draws the consequences and plans the next.
    fn conclude(&mut self, now: Time) {
        self.unheard = if self.probe.was_heard() { 0 } else { self.unheard + 1 };
        if let Some(pair) = self.probe.pair_rate() {
            self.memory.on_pair(PairRate { rate: pair.rate.min(self.config.fastest), ..pair });
        }
        match self.verdict() {
            Verdict::Accepted(more) => {
                let base = (self.base.unwrap_or(Rate::ZERO) + more).min(self.config.fastest).max(self.least());
                self.base = Some(base); // section 3.1, direct jump
                if more == self.probe.test() {
                    self.search.accepted(more);
                }
                self.memory.on_verdict(true, self.base);
            }
            Verdict::Rejected => {
                let left = self.memory.capacity().filter(|_| self.config.guided);
                let left = left.and_then(|capacity| self.probe.left_of(capacity));
                let left = left.map(|rate| rate.saturating_sub(self.base.unwrap_or(Rate::ZERO)));
                self.search.rejected(&self.config, self.probe.test(), self.base, self.least_probe(), left);
                self.memory.on_verdict(false, self.base);
                if self.resumes && self.base.is_none() && self.probe.test() <= self.least_probe() {
                    self.base = Some(self.least_probe()); // else it would never see who is in its way
                }
            }
            Verdict::Unproved => {}
        }
        let next = self.search.next(now, self.probe.started(), self.rtt, &mut self.random);
        self.phase = Phase::Waiting(next);
        self.poll(now);
    }

    /// Section 3.2: what the queue asks for.
    fn compensate(&mut self, now: Time) {
        let Some(view) = self.queue.view(&self.config, now, self.min_rtt) else { return };
        self.view = View { noise: view.noise.min(self.config.most_noise), ..view };
        self.memory.on_lateness(self.lateness.usual());
        let Some(base) = self.base else { return };
        let near = self.packet_time(base).scale(0.5).max(self.noise());
        if self.config.compete {
            let sight = Sight { least: view.least, near, odd: self.crowded(base).scale(rivals::ODD) };
            self.rivals.observe(now, sight, base, self.rtt, self.packet);
            let had = self.rivals.window(self.packet).map(|window| Rate::of(window, self.rtt));
            self.memory.on_rivals(self.rivals.suspicion(), had);
        }
        let test = self.rivals.wants_test();
        if let Some(until) = self.clearing.begins(&self.config, now, self.rtt, view.least, near, test) {
            let seen_by = self.rtt.max(base.time_to_send(self.packet));
            self.rivals.on_clearing(now, seen_by, view.least);
            self.phase = Phase::Waiting(until);
        }
        if self.rivals.is_competing() {
            self.base = self.competing_rate();
        } else if !self.clearing.is_on() {
            let pressure = self.pressure(base);
            let cut = self.compensation.cut(&self.config, now, self.rtt, view.level, pressure);
            if cut > 0.0 {
                self.base = Some(base.scale(1.0 - cut).max(self.least()));
            }
        }
    }

    /// Halves the rate if too much of what was sent at it was lost; a train that is under way is given up. A flow that
    /// competes has its own answer to losses.
    fn answer_damage(&mut self, now: Time) {
        let damaged = self.damage.turn(now, self.rtt, self.packet, self.config.most_lost);
        let Some(base) = self.base.filter(|_| damaged && !self.rivals.is_competing()) else { return };
        self.base = Some(base.scale(0.5).max(self.least()));
        self.compensation.made(now, 0.5);
        self.phase = Phase::Waiting(now + self.rtt);
    }
}

impl Controller for Pcp {
    fn on_path(&mut self, now: Time, path: &Path) {
        self.packet = path.packet.max(Bytes::new(1));
        self.rtt = path.rtt.clamp(self.config.shortest, LONGEST);
        self.min_rtt = path.rtt.clamp(Duration::from_nanos(1), LONGEST);
        self.last_rtt = self.rtt;
        let first = self.memory.start(&self.config, path);
        self.queue = Queue::new(self.past_rtt().map(|rtt| (self.packet, rtt)));
        self.view = View::default();
        self.clearing = Clearing::new(now);
        self.compensation = Compensation::new();
        let suspicion = if self.config.compete { self.memory.past_rivals() } else { 0.0 };
        self.rivals = Rivals::new(suspicion, self.packet);
        self.damage = Damage::default();
        self.lateness = Lateness::new(self.memory.past_lateness(), self.config.most_late);
        let (base, test) = self.resume(path, first);
        self.restart(now, base, test);
    }

    fn on_flows(&mut self, flows: usize) {
        self.flows = flows.max(1);
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) {
        self.unanswered += 1;
        let pace = self.pace().unwrap_or(self.probe.rate());
        self.spacing.sent(now, sent.bytes, pace);
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
            self.rtt = ack.smoothed_rtt.clamp(self.config.shortest, LONGEST);
        }
        if ack.min_rtt > Duration::ZERO {
            self.min_rtt = ack.min_rtt.min(LONGEST);
            if let Some(past) = self.memory.past_rtt() {
                self.min_rtt = self.min_rtt.min(past);
            }
        }
        self.rivals.on_ack(ack.acked, self.packet);
        self.damage.on_arrival(ack.acked);
        self.answer_damage(now);
        let (arrived_at, stall) = (ack.arrived_at(now), self.stall);
        // In transit while the host stood still, there or back.
        let is_disturbed =
            |arrival: &Arrival| stall.is_some_and(|(since, until)| arrival.sent_at <= until && arrived_at >= since);
        if let Some(last) = ack.arrivals.last().filter(|last| !self.config.round_trip && !is_disturbed(last)) {
            self.lateness.on_arrival(arrived_at, last);
        }
        self.last_rtt = ack.rtt.unwrap_or(self.rtt).min(LONGEST);
        let (mut kept, active) = (false, !matches!(self.phase, Phase::Waiting(_)));
        for arrival in ack.arrivals {
            let arrival =
                &if self.config.round_trip { Arrival { received_at: arrived_at, ..*arrival } } else { *arrival };
            if active && self.probe.holds(arrival.number) {
                self.probe.on_arrival(arrival, self.last_rtt);
                if is_disturbed(arrival) {
                    self.probe.on_disturbed();
                }
            }
            kept |= !is_disturbed(arrival) && self.queue.on_arrival(now, arrival, self.last_rtt, self.rtt);
        }
        if let Some(least) = self.queue.least_rtt(self.packet) {
            self.memory.on_least_rtt(least);
        }
        if kept {
            self.compensate(now);
        }
        if active && self.probe.is_complete(self.config.missing_receipts) {
            self.conclude(now);
        }
        self.poll(now);
    }

    fn on_loss(&mut self, now: Time, loss: &Loss) {
        let persistent = loss.kind == LossKind::Persistent && self.unanswered >= MOST_UNANSWERED;
        if loss.kind != LossKind::Ecn {
            self.queue.on_loss(now);
            self.rivals.on_loss(now, self.rtt);
        }
        if loss.kind == LossKind::Transient {
            self.damage.on_loss(loss.bytes, loss.number, loss.last_sent);
        }
        if persistent {
            self.base = self.base.map(|base| base.scale(0.5).max(self.least()));
        }
        let active = !matches!(self.phase, Phase::Waiting(_));
        if active && loss.kind != LossKind::Ecn && self.probe.holds(loss.number) {
            self.probe.on_loss(loss.number);
        }
        if active && (persistent || self.probe.is_complete(self.config.missing_receipts)) {
            self.conclude(now);
        }
    }

    fn on_idle(&mut self, now: Time, idle: Duration, timeout: Duration) {
        if let Some(base) = self.base.filter(|_| idle > timeout) {
            self.resumes = false;
            self.restart(now, None, base.scale(self.config.first_share));
        }
    }

    fn on_app_limited(&mut self, now: Time) {
        if self.phase == Phase::Sending && self.probe.cut_short() {
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
        self.rivals.window(self.packet).unwrap_or(Bytes::MAX)
    }

    fn departure(&self) -> Departure {
        let paired = self.phase == Phase::Sending && self.probe.wants_second();
        let spaced = self.pace().map_or(Time::MAX, |pace| self.spacing.next(pace));
        let at = if paired { Time::ZERO } else { spaced };
        Departure { at, bytes: self.chunk(), feedback: RouterFeedback::None }
    }

    fn rate(&self) -> Option<Rate> {
        Some(self.pace().unwrap_or(self.probe.rate()))
    }

    fn remember(&self, _now: Time, history: &mut Option<History>) {
        self.memory.remember(&self.config, history);
    }
}
