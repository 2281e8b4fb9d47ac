//! Judgement: what a flow makes of delays, of a train's and of the last round trip's.
//!
//! ```text
//! verdict    the train's slope (section 3.1), unless the queue that it met is longer than the flow lets be
//! limit      the most it is granted, by how busy others keep the link                                        (`growth`)
//! pressure   the share of its rate to give up (section 3.2); negative where there is room                       (`compensation`)
//! ```
//!
//! Each comes down to a few measures: how long the bottleneck takes for a packet, what delays differ by without a queue,
//! and how long a queue is let be. The deviations from the paper stand in the parent's header and in the files named.

use rampmeter_units::{Duration, Rate};

use super::queue::Count;
use super::{Compensation, Pcp, Verdict, growth, rivals};

impl Pcp {
    /// What the train says, as far as the queue it met and the packets of others allow.
    pub(super) fn verdict(&mut self) -> Verdict {
        let (flat, wait) = (self.flat(), self.train_wait());
        let (mut grows, mut allowed) = (flat, true);
        if self.config.tolerance > 0.0 && self.probe.was_heard() {
            let most = self.tolerated(self.probe.rate()) + flat;
            allowed = wait <= most;
            // What the queue may still grow by in a round trip, the train may show its part of.
            let part = self.probe.span().as_secs_f64() / self.rtt.as_secs_f64();
            grows += most.saturating_sub(wait).scale(part);
        }
        match self.probe.judge(grows, self.config.missing_receipts, &mut self.random) {
            Verdict::Accepted(_) if !allowed && self.probe.is_disturbed() => Verdict::Unproved,
            Verdict::Accepted(_) if !allowed => Verdict::Rejected,
            Verdict::Accepted(more) => Verdict::Accepted(more.min(self.limit(wait))),
            verdict => verdict,
        }
    }

    /// The longest that an empty path may take for a full packet, to judge by earlier transfers: a few packets seldom meet
    /// the least round trip of hundreds.
    pub(super) fn past_rtt(&self) -> Option<Duration> {
        let least = self.memory.past_rtt()?;
        Some(least + self.packet_time(Rate::ZERO).max(least / 128))
    }

    /// How long the train's packets waited, in the mean.
    fn train_wait(&self) -> Duration {
        if self.base.is_none() {
            // Chunks have nothing to be compared with but their round trip and a full packet's in earlier transfers.
            let Some(least) = self.past_rtt() else { return Duration::ZERO };
            let less = self.packet_time(Rate::ZERO).scale(1.0 - self.chunk().as_f64() / self.packet.as_f64());
            return self.probe.least_rtt().saturating_sub(least.saturating_sub(less));
        }
        self.queue.wait(self.probe.median_delay())
    }

    /// The most that a train may be granted, whatever it asked for, if its packets waited for `wait` in the mean.
    fn limit(&self, wait: Duration) -> Rate {
        let (Some(fill), Some(capacity)) = (self.config.fill, self.memory.capacity()) else { return Rate::MAX };
        let most = match self.base {
            None => {
                let least = self.probe.median_delay().wrapping_sub(wait.as_nanos() as i64);
                let met = self.probe.met(|delay| delay.wrapping_sub(least) > self.met_wait().as_nanos() as i64);
                growth::welcome(self.config.newcomer, met, capacity)
            }
            Some(base) => {
                let met = self.met(self.probe.met(|delay| self.queue.wait(delay) > self.met_wait()));
                let growth = growth::factor(fill, met, base, capacity) - 1.0;
                base.scale(growth.max(-self.pressure(base)).max(self.config.least_step))
            }
        };
        most.max(self.least_probe())
    }

    /// The growth of delay over a train that passes as none.
    fn flat(&self) -> Duration {
        let assumed = self.packet_time(self.probe.rate()).scale(self.config.noise);
        // A train that lateness outlasts would pass whatever its queue does.
        let late = self.lateness.usual().min(self.probe.span().scale(1.0 / self.config.outlast));
        assumed.max(self.view.noise).max(late).max(self.config.resolution)
    }

    /// How long the bottleneck takes for a packet, as far as is known: no longer than at `rate`.
    pub(super) fn packet_time(&self, rate: Rate) -> Duration {
        match self.memory.best() {
            Some(best) => best.max(rate).time_to_send(self.packet),
            None => rate.time_to_send(self.chunk()),
        }
    }

    /// Of the packets of the last round trip and `others`, how many met someone else's.
    pub(super) fn met(&self, others: Count) -> Count {
        self.queue.waited(self.met_wait()).and(others)
    }

    fn met_wait(&self) -> Duration {
        self.packet_time(Rate::ZERO).scale(self.config.met).max(self.noise())
    }

    /// The share of its rate that a flow of `base` should give up; negative where there is room.
    pub(super) fn pressure(&self, base: Rate) -> f64 {
        Compensation::pressure(&self.config, &self.view, self.tolerated(base), self.min_rtt.max(self.config.shortest))
    }

    /// What delays differ by without a queue.
    pub(super) fn noise(&self) -> Duration {
        self.view.noise.max(self.lateness.usual())
    }

    /// The queue that a flow of `rate` lets be in a crowd of such flows.
    pub(super) fn crowded(&self, rate: Rate) -> Duration {
        self.tolerated(rate.max(self.memory.best().unwrap_or(rate).scale(1.0 / rivals::CROWD)))
    }

    /// The queue that a flow of `rate` lets be.
    pub(super) fn tolerated(&self, rate: Rate) -> Duration {
        let capacity = self.memory.best().unwrap_or(rate).max(rate);
        let packet = self.packet_time(rate);
        let most = self
            .view
            .buffer
            .map_or(f64::INFINITY, |buffer| self.config.of_buffer * buffer.as_secs_f64() / packet.as_secs_f64());
        growth::tolerated(self.config.tolerance.min(most), rate, capacity, packet) + self.noise()
    }
}
