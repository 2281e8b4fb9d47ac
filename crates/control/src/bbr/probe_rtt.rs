//! ProbeRTT: the path is drained for 200 ms to measure its minimum round-trip time (section "ProbeRTT").

use rampmeter_units::{Bytes, Duration, Time};

use super::{Bbr, State};

/// `ProbeRTTInterval`.
pub(super) const INTERVAL: Duration = Duration::from_secs(5);

/// `ProbeRTTDuration`.
const DURATION: Duration = Duration::from_millis(200);

/// The state of a measurement.
#[derive(Debug, Clone, Default)]
pub(super) struct ProbeRtt {
    /// `probe_rtt_done_stamp`: when it may end, once few bytes are in flight.
    done_at: Option<Time>,
    /// `probe_rtt_round_done`: a round trip has passed, too.
    is_round_done: bool,
}

impl Bbr {
    /// `CheckProbeRTT`.
    pub(super) fn check_probe_rtt(&mut self, now: Time) {
        if self.state != State::ProbeRtt && self.min_rtt.is_expired && !self.restarts {
            self.save_window();
            self.state = State::ProbeRtt;
            self.probe_rtt.done_at = None;
            self.cycle.acks = super::cycle::Acks::Stopping;
            self.start_round();
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(now);
        }
        if self.sample.delivered > Bytes::ZERO {
            self.restarts = false;
        }
    }

    /// `HandleProbeRTT`.
    fn handle_probe_rtt(&mut self, now: Time) {
        self.delivery.on_app_limited(); // low samples of the rate do not count
        if self.probe_rtt.done_at.is_some() {
            self.probe_rtt.is_round_done |= self.rounds.is_start;
            if self.probe_rtt.is_round_done {
                self.check_probe_rtt_done(now);
            }
        } else if self.delivery.in_flight() <= self.probe_rtt_window() {
            self.probe_rtt = ProbeRtt { done_at: Some(now + DURATION), is_round_done: false };
            self.start_round();
        }
    }

    /// `CheckProbeRTTDone` and `ExitProbeRTT`.
    pub(super) fn check_probe_rtt_done(&mut self, now: Time) {
        if self.probe_rtt.done_at.is_none_or(|done_at| now <= done_at) {
            return;
        }
        self.min_rtt.recent_at = now; // schedules the next one
        self.restore_window();
        self.short_term.reset_limits();
        if self.full_pipe.reached {
            self.start_down(now);
            self.state = State::Cruise; // the path is drained
        } else {
            self.state = State::Startup;
        }
    }

    /// `ProbeRTTCwnd`.
    pub(super) fn probe_rtt_window(&self) -> Bytes {
        self.bdp(0.5).max(self.min_window())
    }
}
