//! PCP, the Probe Control Protocol (Anderson, Collins, Krishnamurthy, Zahorjan, NSDI 2006): ask the path for a rate with
//! a short train of packets, and take the whole of it if their delays stay flat.
//!
//! ```text
//! mechanism (paper, Table 2)   what happens                                             section   file
//! probes                       k packets at base + test rate                            3.1       probe
//! direct jump                  accepted: base += test                                   3.1       mod
//! probabilistic accept         with the probability that the delays do not grow         3.1       probe, fit
//! rate compensation            base -= what the queue is worth                          3.2       compensation
//! periodic probes              one a round trip, as long as there is something to ask   3.3       search
//! binary search                accepted: test *= 2, rejected: test /= 2                 3.3       search
//! exponential backoff          rejected at 1% of base: probe ever more rarely           3.3       search
//! history                      first test = a third of the remembered rate              3.4       memory
//! tit for tat                  compensate ten times less while it is in vain            3.5       tit_for_tat
//! ```
//!
//! A probe goes from *waiting* for its time over *sending* its train to *listening* for receipts, and back. Until the
//! first is accepted there is no base rate, and nothing but probes leaves. Packets lost one by one change nothing but
//! the fate of the train they belong to: the repair takes the next slot (section 3.2 sees the queue long before).
//!
//! Where the paper is silent:
//! - *Nothing comes back* (the retransmission timer runs out): the rate is halved, as TCP would at least. There are no
//!   delays to judge a queue by, and a sender that may not learn of its own damage must not keep its rate.
//! - *A silence* longer than the retransmission timer: the base rate is no longer ours, because nobody could see it.
//!   The flow starts over, with that rate as its history.
//! - *Lost trains*: one whose receipts do not all come within two round trips (and 200 ms) is rejected; if nothing at
//!   all came back, the next is waited for twice as long.
//! - *The base rate's floor* is a packet every few seconds, so that something always moves.
//!
//! *Deviations*, measured on the model in `model.rs` with the network of the paper's Figure 4 (40 Mb/s, 25 ms, 250 kB
//! transfers with history, 60 s); means of five seeds with their standard errors, as `claims.rs` prints them:
//! - Base packets and probe packets are one evenly spaced train, not two interleaved ones: a sender's own base packets
//!   are the worst noise in its probes. In an earlier, more literal model (one run): mean response at load 0.60
//!   1290 ms interleaved, 720 to 880 ms merged. No setting undoes it.
//! - Delay may grow by a quarter of a packet time over a train (`noise`; the paper: 0), because the packets of others
//!   make it jitter by more and good rates are refused. Mean response at load 0.15, 0.60, 0.90: 240 (4), 1139 (28),
//!   3373 (142) ms with 0; 212 (3), 410 (27), 1581 (83) ms with 0.25. The price is loss, 0.1 and 3.5 (0.5)% at 0.90.
//! - A cut by delay drains the queue as a loan: the flow sends that much less for a round trip, and only a fifth of
//!   the cut stays (`permanent`; the paper: 1). Ten long flows use 0.916 (4) of the link with 1, 0.968 (1) with 0.2;
//!   response at load 0.90 2476 (145) and 1581 (83) ms. The price again is loss there, 0.4 (0.1) and 3.5 (0.5)%.
//! - The estimates of gap and delay stand in `compensation`.
//!
//! *Known weaknesses.* The paper reports no loss at any load; here newcomers that jump together overrun the buffer. Ten
//! long flows are uneven: Jain's index over 40 s is 0.28 (4), with trains of ten packets 0.53 (3). Tit for tat takes
//! fellow PCP flows for TCP: with it ten long flows lose 0.19 (5)%, without it nothing, and their queue is half as long.

mod compensation;
mod config;
mod fit;
mod memory;
mod pace;
mod probe;
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

use self::compensation::Compensation;
pub use self::config::Config;
use self::memory::Memory;
use self::pace::Spacing;
use self::probe::{Probe, Verdict};
use self::search::Search;
use crate::{Ack, Algorithm, Controller, Departure, History, Loss, LossKind, Path, Sent};

/// The least a packet is divided into: headers and something to carry.
const LEAST_CHUNK: Bytes = Bytes::new(100);

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
    rtt: Duration,
    min_rtt: Duration,
    /// What the path is known to carry; none before the first accepted probe.
    base: Option<Rate>,
    phase: Phase,
    probe: Probe,
    search: Search,
    compensation: Compensation,
    memory: Memory,
    spacing: Spacing,
    /// Trains in a row of which nothing came back.
    unheard: u32,
}

impl Algorithm for Pcp {
    type Config = Config;

    fn new(config: &Config, random: Stream) -> Self {
        Self {
            config: config.clone(),
            random,
            packet: Bytes::ZERO,
            rtt: Duration::ZERO,
            min_rtt: Duration::ZERO,
            base: None,
            phase: Phase::Waiting(Time::MAX),
            probe: Probe::new(config.chunks.max(config.train)),
            search: Search::new(Rate::ZERO),
            compensation: Compensation::new(),
            memory: Memory::default(),
            spacing: Spacing::default(),
            unheard: 0,
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
        self.base.map(|base| base.scale(1.0 - self.compensation.debt()).max(self.least()))
    }

    /// The least that a probe asks for, however low the base rate.
    fn least_probe(&self) -> Rate {
        let packet_a_round_trip = Rate::of(self.packet, self.rtt);
        packet_a_round_trip
            .scale(self.config.least_probe)
            .min(self.base.unwrap_or(self.config.fastest).min(self.config.fastest))
            .max(self.least())
    }

    /// Starts a train whose time has come, gives up on one whose time is over.
    fn poll(&mut self, now: Time) {
        match self.phase {
            Phase::Waiting(until) if now >= until => {
                let test = self.search.test(&self.config, self.base, self.least_probe());
                let packets = if self.base.is_some() { self.config.train } else { self.config.chunks };
                self.probe.start(now, self.base, test, packets);
                self.spacing.resume(now, self.probe.rate());
                self.phase = Phase::Sending;
            }
            Phase::Listening(until) if now >= until => self.conclude(now),
            _ => {}
        }
    }

    /// All of the train has left: how long to wait for the rest of its receipts.
    fn listen(&mut self, now: Time) {
        let patience = self.rtt.scale(self.config.patience).max(self.config.least_patience);
        self.phase = Phase::Listening(now + (patience * (1 << self.unheard.min(10))).min(LONGEST));
        if self.probe.is_complete() {
            self.conclude(now);
        }
    }

    /// Judges the train, draws the consequences and plans the next.
    fn conclude(&mut self, now: Time) {
        self.unheard = if self.probe.was_heard() { 0 } else { self.unheard + 1 };
        let verdict = self.probe.judge(self.flat(), self.config.missing_receipts, &mut self.random);
        match verdict {
            Verdict::Accepted(more) => {
                let base = (self.base.unwrap_or(Rate::ZERO) + more).min(self.config.fastest).max(self.least());
                self.base = Some(base); // section 3.1, direct jump
                if more == self.probe.test() {
                    self.search.accepted(more);
                }
                self.memory.on_verdict(true, self.base);
            }
            Verdict::Rejected => {
                self.search.rejected(&self.config, self.probe.test(), self.base, self.least_probe());
                self.memory.on_verdict(false, self.base);
            }
            Verdict::Unproved => {}
        }
        let next = self.search.next(now, self.probe.started(), self.rtt, &mut self.random);
        self.phase = Phase::Waiting(next);
        self.poll(now);
    }

    /// The growth of delay over a train that passes as none.
    fn flat(&self) -> Duration {
        self.packet_time(self.probe.rate()).scale(self.config.noise).max(self.config.resolution)
    }

    /// How long the bottleneck takes for a packet, as far as is known: no longer than at `rate`.
    fn packet_time(&self, rate: Rate) -> Duration {
        match self.memory.best() {
            Some(best) => best.max(rate).time_to_send(self.packet),
            None => rate.time_to_send(self.chunk()),
        }
    }

    /// Section 3.2: what the queue asks for.
    fn compensate(&mut self, now: Time) {
        let Some(base) = self.base else { return };
        let tolerated = match self.config.tolerated_queue {
            0.0 => Duration::ZERO,
            packets => self.packet_time(base).scale(packets),
        };
        let cut = self.compensation.cut(&self.config, now, self.rtt, self.min_rtt, tolerated);
        if cut > 0.0 {
            self.base = Some(base.scale(1.0 - cut).max(self.least()));
        }
    }

    /// Begins to search for a base rate, with `first` to try.
    fn restart(&mut self, now: Time, first: Rate) {
        self.base = None;
        self.search = Search::new(first);
        self.spacing.reset(now, self.config.slowest);
        self.unheard = 0;
        self.phase = Phase::Waiting(now);
        self.poll(now);
    }
}

impl Controller for Pcp {
    fn on_path(&mut self, now: Time, path: &Path) {
        self.packet = path.packet.max(Bytes::new(1));
        self.rtt = path.rtt.clamp(Duration::from_nanos(1), LONGEST);
        self.min_rtt = self.rtt;
        self.compensation = Compensation::new();
        let first = self.memory.start(&self.config, path);
        self.restart(now, first);
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) {
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
        if ack.smoothed_rtt > Duration::ZERO {
            self.rtt = ack.smoothed_rtt.min(LONGEST);
        }
        if ack.min_rtt > Duration::ZERO {
            self.min_rtt = ack.min_rtt.min(LONGEST);
            self.memory.on_rtt(self.min_rtt);
        }
        let (mut kept, active) = (false, !matches!(self.phase, Phase::Waiting(_)));
        for arrival in ack.arrivals {
            let probing = active && self.probe.holds(arrival.number);
            if probing {
                self.probe.on_arrival(arrival);
            }
            let rtt = ack.rtt.unwrap_or(self.rtt);
            kept |= self.compensation.on_arrival(now, arrival, rtt, self.rtt, !probing);
        }
        if kept {
            self.compensate(now);
        }
        if active && self.probe.is_complete() {
            self.conclude(now);
        }
        self.poll(now);
    }

    fn on_loss(&mut self, now: Time, loss: &Loss) {
        let persistent = loss.kind == LossKind::Persistent;
        if persistent {
            self.base = self.base.map(|base| base.scale(0.5).max(self.least()));
        }
        let active = !matches!(self.phase, Phase::Waiting(_));
        if active && loss.kind != LossKind::Ecn && (persistent || self.probe.holds(loss.number)) {
            self.probe.on_loss();
            self.conclude(now);
        }
    }

    fn on_idle(&mut self, now: Time, idle: Duration, timeout: Duration) {
        if let Some(base) = self.base.filter(|_| idle > timeout) {
            self.restart(now, base.scale(self.config.first_share));
        }
    }

    fn on_app_limited(&mut self, now: Time) {
        if self.phase == Phase::Sending && self.probe.cut_short() {
            self.listen(now);
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
        Bytes::MAX
    }

    fn departure(&self) -> Departure {
        let at = self.pace().map_or(Time::MAX, |pace| self.spacing.next(pace));
        Departure { at, bytes: self.chunk(), feedback: RouterFeedback::None }
    }

    fn rate(&self) -> Option<Rate> {
        Some(self.pace().unwrap_or(self.probe.rate()))
    }

    fn remember(&self, _now: Time, history: &mut Option<History>) {
        self.memory.remember(&self.config, history);
    }
}
