//! What a flow concludes from the delays of a train and of the last round trip: whether the train is accepted, how much
//! it is granted, and which share of its rate the flow should give up.

use rampmeter_units::{Duration, Rate};

use super::config::{
    BUSY_WAIT, MAX_JUMP, MAX_TARGET_OF_BUFFER, MIN_ROUND_TRIP, MIN_STEP, MISSING_RECEIPTS, TRAIN_PER_JITTER,
};
use super::probe::RESOLUTION;
use super::queue::WaitCount;
use super::{Compensation, Pcp, ProbeResult, growth};

/// The maximum number of PCP flows whose queue counts as PCP's own.
const MAX_PCP_FLOWS: f64 = 50.0;

impl Pcp {
    /// The result of the train, given the queue that it met and the capacity that other flows leave.
    pub(super) fn probe_result(&mut self) -> ProbeResult {
        let (flat_tolerance, wait) = (self.flat_tolerance(), self.queue.wait(self.probe.median_delay()));
        let (mut tolerance, mut is_allowed) = (flat_tolerance, true);
        if self.config.target > 0.0 && self.probe.has_receipts() {
            let max_wait = self.ceiling(self.probe.rate()) + flat_tolerance;
            is_allowed = wait <= max_wait;
            // The train may show its part of the growth that is still permitted in a round trip.
            let part = self.probe.span().as_secs_f64() / self.rtt.as_secs_f64();
            tolerance += max_wait.saturating_sub(wait).scale(part);
        }
        match self.probe.judge(tolerance, MISSING_RECEIPTS, &mut self.random) {
            ProbeResult::Accepted(_) if !is_allowed && self.probe.host_stalled => ProbeResult::Inconclusive,
            ProbeResult::Accepted(_) if !is_allowed => ProbeResult::Rejected,
            ProbeResult::Accepted(more) => ProbeResult::Accepted(more.min(self.max_grant())),
            result => result,
        }
    }

    /// The maximum round-trip time of a full packet on an idle path, from earlier transfers. It is above their minimum,
    /// because a few packets seldom reach the minimum of hundreds.
    pub(super) fn past_rtt(&self) -> Option<Duration> {
        let min_rtt = self.path_history.past_rtt()?;
        Some(min_rtt + self.packet_time(Rate::ZERO).max(min_rtt / 128))
    }

    /// The maximum that a train may be granted, whatever its test rate was.
    fn max_grant(&self) -> Rate {
        let Some(capacity) = self.path_history.capacity() else { return Rate::MAX };
        let waits = self.count_waits(self.probe.count_waits(|delay| self.queue.wait(delay) > self.min_busy_wait()));
        let growth = growth::factor(waits, self.base, capacity) - 1.0;
        let max = self.base.scale(growth.max(-self.pressure(self.base)).max(MIN_STEP));
        max.min(capacity.scale(MAX_JUMP)).max(self.min_probe())
    }

    /// The growth of delay over the train that counts as flat.
    fn flat_tolerance(&self) -> Duration {
        let assumed = self.packet_time(self.probe.rate()).scale(self.config.noise);
        // With a larger tolerance a train shorter than the host jitter would be accepted whatever its queue does.
        let jitter = self.host_jitter.estimate.min(self.probe.span().scale(1.0 / TRAIN_PER_JITTER));
        assumed.max(self.view.noise).max(jitter).max(RESOLUTION)
    }

    /// The packet time at the bottleneck, or that of a bunch, at the best known rate, but at most the packet time at `rate`.
    pub(super) fn packet_time(&self, rate: Rate) -> Duration {
        let packet = self.packet * self.bunch_at(self.base);
        match self.path_history.best_rate() {
            Some(best) => best.max(rate).time_to_send(packet),
            None => rate.time_to_send(packet),
        }
    }

    /// The packets that waited behind other flows' packets, of the last round trip and `others`.
    pub(super) fn count_waits(&self, others: WaitCount) -> WaitCount {
        self.queue.count_waits(self.min_busy_wait()).and(others)
    }

    fn min_busy_wait(&self) -> Duration {
        self.packet_time(Rate::ZERO).scale(BUSY_WAIT).max(self.noise())
    }

    /// The share of its rate that a flow of `base` should give up; negative where more rate is available.
    pub(super) fn pressure(&self, base: Rate) -> f64 {
        // A full packet's minimum round-trip time: on a slow link it is much longer than the handshake's.
        let min_rtt = self.queue.min_rtt(self.packet).unwrap_or(self.min_rtt).max(MIN_ROUND_TRIP);
        Compensation::pressure(&self.config, &self.view, self.target(base), self.ceiling(base), min_rtt)
    }

    /// The jitter without a queue.
    pub(super) fn noise(&self) -> Duration {
        self.view.noise.max(self.host_jitter.estimate)
    }

    /// The target queue of a flow of `rate`.
    pub(super) fn target(&self, rate: Rate) -> Duration {
        let capacity = self.path_history.best_rate().unwrap_or(rate).max(rate);
        let packet = self.packet_time(rate);
        let buffer = self.view.buffer.map_or(f64::INFINITY, Duration::as_secs_f64);
        let max_target = MAX_TARGET_OF_BUFFER * buffer / packet.as_secs_f64();
        growth::target(self.config.target.min(max_target), rate, capacity, packet) + self.noise()
    }

    /// The queue above which a flow of `rate` drains it at once: longer than a single train can cause.
    pub(super) fn ceiling(&self, rate: Rate) -> Duration {
        self.target(rate).scale(self.config.ceiling) + self.packet_time(rate) * self.config.train as u64 / 2
    }

    /// The ceiling of one of `MAX_PCP_FLOWS` flows: PCP flows never keep a longer queue for long.
    pub(super) fn ceiling_of_many_flows(&self) -> Duration {
        self.ceiling(self.path_history.best_rate().unwrap_or(self.base).scale(1.0 / MAX_PCP_FLOWS))
    }
}
