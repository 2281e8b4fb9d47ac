//! The timers of a connection: of its handshake, of its end, of keep-alive probes; and those of its two halves.

use rampmeter_units::Time;

use super::{CloseReason, Connection, MAX_ATTEMPTS, State};
use crate::config::Config;
use crate::sender::PacketFeedback;
use crate::size_probe::SizeProbe;

impl Connection {
    /// The time at which [`Connection::on_deadline`] must be called.
    pub(crate) fn deadline(&self) -> Time {
        let timer = match self.state {
            State::Open => {
                let probe = self.size_probe.as_ref().map_or(Time::MAX, SizeProbe::deadline);
                self.sender.deadline().min(self.keep_alive_timer).min(probe)
            }
            _ => Time::MAX,
        };
        timer.min(self.receiver.deadline()).min(self.handshake_timer)
    }

    pub(crate) fn on_deadline(&mut self, now: Time) -> Option<PacketFeedback> {
        if self.handshake_timer <= now {
            self.on_handshake_timer(now);
        }
        if self.state == State::Open && self.keep_alive_timer <= now {
            self.on_keep_alive_timer(now);
        }
        if self.receiver.deadline() <= now {
            self.receiver.acknowledge_now();
        }
        if self.state != State::Open {
            return None;
        }
        let feedback = self.sender.on_late_timers(now);
        if self.sender.timer > now {
            return feedback;
        }
        self.statistics.timeouts += 1;
        let (feedback, lost) = self.sender.on_timer(now);
        if self.sender.timeouts > self.config.max_timeouts {
            self.state = State::Closed(CloseReason::TimedOut);
            return None;
        }
        if lost {
            self.limits.on_timeout(now);
        }
        self.ping_due = !lost && self.sender.timer < Time::MAX;
        lost.then_some(feedback)
    }

    fn on_handshake_timer(&mut self, now: Time) {
        self.handshake_timer = Time::MAX;
        if self.state == State::Lingering {
            self.state = State::Closed(CloseReason::Finished);
            return;
        }
        self.handshake_timeouts += 1;
        if self.handshake_timeouts > self.config.max_timeouts.min(MAX_ATTEMPTS as u32 - 1) {
            self.state = State::Closed(CloseReason::TimedOut);
            return;
        }
        let wait = self.config.syn_timeout * (1 << self.handshake_timeouts.min(16));
        self.handshake_timer = now + wait.min(Config::MAX_RTO);
        // An accepter only waits: it sends nothing unsolicited.
        self.handshake_due |= self.state == State::Opening;
        self.ping_due |= self.state == State::Open;
    }

    fn on_keep_alive_timer(&mut self, now: Time) {
        if self.sender.timer < Time::MAX {
            self.on_any_packet(now); // the retransmission timer probes already, and ends the connection
            return;
        }
        self.keep_alive_probes += 1;
        if self.keep_alive_probes > self.config.max_timeouts {
            self.state = State::Closed(CloseReason::TimedOut);
            return;
        }
        self.ping_due = true;
        let wait = self.sender.rtt.timeout(self.config.syn_timeout, self.config.min_rto);
        self.keep_alive_timer = now + (wait * (1 << (self.keep_alive_probes - 1).min(16))).min(Config::MAX_RTO);
    }
}
