//! Judgement: what a flow makes of delays, of a train's and of the last round trip's.
//!
//! ```text
//! verdict    the train's slope (section 3.1), unless the queue that it met is above the flow's ceiling
//! limit      the most it is granted, by how busy others keep the link                                        (`growth`)
//! pressure   the share of its rate to give up (section 3.2); negative where there is room                       (`compensation`)
//! ```
//!
//! Each comes down to a few measures: how long the bottleneck takes for a packet, what delays differ by without a queue,
//! and the queue that a flow aims at. The deviations from the paper stand in the parent's header and in the files named.

use rampmeter_units::{Duration, Rate};

use super::config::{
    BUSY_WAIT, MAX_JUMP, MAX_TARGET_OF_BUFFER, MIN_ROUND_TRIP, MIN_STEP, MISSING_RECEIPTS, RESOLUTION, TRAIN_PER_JITTER,
};
use super::queue::WaitCount;
use super::{Compensation, Pcp, ProbeResult, growth};

/// Flows in the largest crowd whose queue is taken for PCP's own.
const MAX_PCP_FLOWS: f64 = 50.0;

impl Pcp {
    /// What the train says, as far as the queue it met and the packets of others allow.
    pub(super) fn probe_result(&mut self) -> ProbeResult {
        let (flat_tolerance, wait) = (self.flat_tolerance(), self.train_wait());
        let (mut grows, mut allowed) = (flat_tolerance, true);
        if self.config.target > 0.0 && self.probe.has_receipts() {
            let max_wait = self.ceiling(self.probe.rate()) + flat_tolerance;
            allowed = wait <= max_wait;
            // What the queue may still grow by in a round trip, the train may show its part of.
            let part = self.probe.span().as_secs_f64() / self.rtt.as_secs_f64();
            grows += max_wait.saturating_sub(wait).scale(part);
        }
        match self.probe.judge(grows, MISSING_RECEIPTS, &mut self.random) {
            ProbeResult::Accepted(_) if !allowed && self.probe.host_stalled() => ProbeResult::Inconclusive,
            ProbeResult::Accepted(_) if !allowed => ProbeResult::Rejected,
            ProbeResult::Accepted(more) => ProbeResult::Accepted(more.min(self.max_grant())),
            probe_result => probe_result,
        }
    }

    /// The longest that an empty path may take for a full packet, to judge by earlier transfers: a few packets seldom meet
    /// the least round trip of hundreds.
    pub(super) fn past_rtt(&self) -> Option<Duration> {
        let min_rtt = self.path_history.past_rtt()?;
        Some(min_rtt + self.packet_time(Rate::ZERO).max(min_rtt / 128))
    }

    /// How long the train's packets waited, in the mean.
    fn train_wait(&self) -> Duration {
        self.queue.wait(self.probe.median_delay())
    }

    /// The most that a train may be granted, whatever it asked for.
    fn max_grant(&self) -> Rate {
        let Some(capacity) = self.path_history.capacity() else { return Rate::MAX };
        let count_waits =
            self.count_waits(self.probe.count_waits(|delay| self.queue.wait(delay) > self.min_busy_wait()));
        let growth = growth::factor(count_waits, self.base, capacity) - 1.0;
        let max_wait = self.base.scale(growth.max(-self.pressure(self.base)).max(MIN_STEP));
        max_wait.min(capacity.scale(MAX_JUMP)).max(self.min_probe())
    }

    /// The growth of delay over a train that passes as none.
    fn flat_tolerance(&self) -> Duration {
        let assumed = self.packet_time(self.probe.rate()).scale(self.config.noise);
        // A train that lateness outlasts would pass whatever its queue does.
        let jitter = self.host_jitter.estimate().min(self.probe.span().scale(1.0 / TRAIN_PER_JITTER));
        assumed.max(self.view.noise).max(jitter).max(RESOLUTION)
    }

    /// How long the bottleneck takes for a packet, as far as is known: no longer than at `rate`.
    pub(super) fn packet_time(&self, rate: Rate) -> Duration {
        match self.path_history.best_rate() {
            Some(best_rate) => best_rate.max(rate).time_to_send(self.packet),
            None => rate.time_to_send(self.packet),
        }
    }

    /// Of the packets of the last round trip and `others`, how many met someone else's.
    pub(super) fn count_waits(&self, others: WaitCount) -> WaitCount {
        self.queue.count_waits(self.min_busy_wait()).and(others)
    }

    fn min_busy_wait(&self) -> Duration {
        self.packet_time(Rate::ZERO).scale(BUSY_WAIT).max(self.noise())
    }

    /// The share of its rate that a flow of `base` should give up; negative where there is room.
    pub(super) fn pressure(&self, base: Rate) -> f64 {
        // A full packet's, which on a slow link takes much longer than the handshake's.
        let min_rtt = self.queue.min_rtt(self.packet).unwrap_or(self.min_rtt).max(MIN_ROUND_TRIP);
        Compensation::pressure(&self.config, &self.view, self.target(base), self.ceiling(base), min_rtt)
    }

    /// What delays differ by without a queue.
    pub(super) fn noise(&self) -> Duration {
        self.view.noise.max(self.host_jitter.estimate())
    }

    /// The queue that a flow of `rate` aims at.
    pub(super) fn target(&self, rate: Rate) -> Duration {
        let capacity = self.path_history.best_rate().unwrap_or(rate).max(rate);
        let packet = self.packet_time(rate);
        let max_wait = self
            .view
            .buffer
            .map_or(f64::INFINITY, |buffer| MAX_TARGET_OF_BUFFER * buffer.as_secs_f64() / packet.as_secs_f64());
        growth::target(self.config.target.min(max_wait), rate, capacity, packet) + self.noise()
    }

    /// The queue above which a flow of `rate` drains it at once: more than a train alone can make.
    pub(super) fn ceiling(&self, rate: Rate) -> Duration {
        self.target(rate).scale(self.config.ceiling) + self.packet_time(rate) * self.config.train as u64 / 2
    }

    /// The ceiling of a crowd's flows: no PCP flows keep a longer queue for long.
    pub(super) fn ceiling_of_many_flows(&self) -> Duration {
        self.ceiling(self.path_history.best_rate().unwrap_or(self.base).scale(1.0 / MAX_PCP_FLOWS))
    }
}
