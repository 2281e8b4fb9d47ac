//! The life of a train (section 3.1): it waits for its time, tests a rate, and its result changes the base rate.

use rampmeter_units::{Rate, Time};

use super::Pcp;
use super::config::{
    MAX_BACKOFF, MAX_LOSS, MAX_TRAIN, MIN_PROBE, MIN_STEP, MISSING_RECEIPTS, STANDING, TRAIN_PER_JITTER,
};
use super::growth::{self, Rise};
use super::probe::{PairRate, Phase, ProbeResult};
use super::queue::WaitCount;
use super::start::GRANTED_SHARE;
use crate::Record;

/// How many trains were judged, and how: for traces.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts {
    accepted: u32,
    rejected: u32,
}

impl Counts {
    pub(super) fn record(&self, out: &mut Record) {
        out.add("accepted_trains", self.accepted.into());
        out.add("rejected_trains", self.rejected.into());
    }
}

impl Pcp {
    /// Starts a train whose time has come, and ends a train whose timeout has expired.
    pub(super) fn poll(&mut self, now: Time) {
        self.drain.poll(now);
        if let Some(packet) = self.larger_packet.take_if(|_| !self.phase.is_probing()) {
            self.use_packet(now, packet);
        }
        match self.phase {
            Phase::Waiting(until) if now >= until && self.competitive.is_on() => {
                self.phase = Phase::Waiting(now + self.rtt);
            }
            Phase::Waiting(until) if now >= until => match self.next_test(now) {
                Some(test) => {
                    self.probe.start(now, self.base, test, self.train_length(test));
                    self.probe.set_bunch(self.bunch_at(self.probe.rate()) as usize);
                    self.probe.add_pair();
                    self.rest_of_bunch = 0;
                    self.pacer.resume(now, self.probe.rate());
                    self.phase = Phase::Sending;
                }
                None => self.phase = Phase::Waiting(now + self.rtt),
            },
            Phase::Listening(until) if now >= until => self.conclude(now),
            _ => {}
        }
    }

    /// A wait was set in round trips: it ends earlier if these turn out to be shorter, as after an outage whose packets
    /// have waited in a queue.
    pub(super) fn shorten_wait(&mut self, now: Time) {
        if let Phase::Waiting(until) = self.phase {
            let longest = now + self.rtt.scale(self.search.interval());
            self.phase = Phase::Waiting(until.min(longest.max(self.drain.until.unwrap_or(now))));
        }
    }

    /// The number of packets of a train that tests `test`. The train takes several times the host jitter, if
    /// `MAX_TRAIN` packets are enough for that.
    pub(super) fn train_length(&self, test: Rate) -> usize {
        let span = self.host_jitter.estimate.scale(TRAIN_PER_JITTER);
        let rate = self.base + test;
        let packets = rate.bytes_in(span).as_u64() / (self.packet.as_u64().max(1) * self.bunch_at(rate));
        (packets as usize).saturating_add(1).clamp(self.config.train, MAX_TRAIN)
    }

    /// The test rate of the next probe. None if no rate is available.
    pub(super) fn next_test(&mut self, now: Time) -> Option<Rate> {
        if self.excess_loss.is_lossy(MAX_LOSS) && now.since(self.probe.started) < self.rtt.scale(MAX_BACKOFF) {
            return None;
        }
        let base = self.base;
        let max = self.config.max_rate.saturating_sub(base).min(self.jump.max_test(base, self.min_probe()));
        let searched = self.search.test(self.min_test(), max);
        let is_recent = now.since(self.probe.started) <= self.rtt * 2;
        let waits = self.count_waits(if is_recent { self.train_waits() } else { WaitCount::default() });
        let Some(capacity) = self.path_history.capacity().filter(|_| waits.all > 0) else {
            return Some(searched); // without any receipt only the search has a rate
        };
        let round_trips = (now.since(self.probe.started).as_secs_f64() / self.rtt.as_secs_f64()).clamp(1.0, 4.0);
        let available = -self.pressure(base) * round_trips;
        let is_standing = self.view.level > self.packet_time(base).scale(STANDING).max(self.noise());
        let growth = if is_standing {
            if available <= 0.0 {
                return None;
            }
            available.min(1.0)
        } else {
            (growth::factor(waits, 1.0, base, capacity) - 1.0).max(available).max(MIN_STEP)
        };
        let test = base.scale(growth).min(max).max(self.min_probe());
        self.search.set_test_rate(test);
        Some(test)
    }

    /// The minimum test rate, however low the base rate is, for all flows of the macroflow together.
    pub(super) fn min_probe(&self) -> Rate {
        let packet_per_rtt = Rate::of(self.packet, self.rtt);
        packet_per_rtt.scale(MIN_PROBE * self.flows as f64).min(self.base).max(self.min_rate())
    }

    /// The minimum test rate of this flow.
    pub(super) fn min_test(&self) -> Rate {
        self.base.scale(MIN_STEP).max(self.min_probe())
    }

    /// The train was sent: sets the timeout for its receipts.
    pub(super) fn listen(&mut self, now: Time) {
        self.phase = Phase::listening(now, self.rtt, self.unanswered_trains);
        if self.probe.is_complete(MISSING_RECEIPTS) {
            self.conclude(now);
        }
    }

    /// Evaluates the train, applies the result, and schedules the next train.
    pub(super) fn conclude(&mut self, now: Time) {
        self.unanswered_trains = if self.probe.has_receipts() { 0 } else { self.unanswered_trains + 1 };
        if let Some(pair) = self.probe.pair_rate() {
            self.path_history.on_pair(PairRate { rate: pair.rate.min(self.config.max_rate), ..pair });
        }
        match self.probe_result() {
            ProbeResult::Accepted(more) => {
                self.trains.accepted += 1;
                self.rise = Rise::new(now, self.base);
                self.jump.on_accepted(now, self.base, more, self.min_probe());
                // Section 3.1: direct jump.
                self.base = (self.base + more).min(self.config.max_rate).max(self.min_rate());
                self.slow_start.take_if(|_| more >= self.base.scale(GRANTED_SHARE));
                if more == self.probe.test {
                    self.search.accepted(more);
                }
                self.path_history.on_probe_result(true, self.base);
            }
            ProbeResult::Rejected => {
                self.trains.rejected += 1;
                self.search.rejected(self.probe.test, self.min_test(), MAX_BACKOFF);
                self.path_history.on_probe_result(false, self.base);
            }
            ProbeResult::Inconclusive => {}
        }
        let next = self.search.next(now, self.probe.started, self.rtt, &mut self.random);
        self.phase = Phase::Waiting(next);
        self.poll(now);
    }
}
