//! ProbeRTT: the path is drained for 200 ms to measure its minimum round-trip time (section "ProbeRTT").

use std::ops::Range;

use rampmeter_units::{Bytes, Duration, Rate, Time};

use super::cycle::Acks;
use super::{Bbr, State};

/// `ProbeRTTInterval`.
pub(super) const INTERVAL: Duration = Duration::from_secs(5);

/// `ProbeRTTDuration`.
const DURATION: Duration = Duration::from_millis(200);

/// `ProbeRTTCwndGain`.
pub(super) const WINDOW_GAIN: f64 = 0.5;

/// The state of a measurement, and of the last one.
#[derive(Debug, Clone, Default)]
pub(super) struct ProbeRtt {
    /// The bandwidth of which a part may be in flight.
    bandwidth: Rate,
    /// The minimum round-trip time when it began, which may expire before it ends.
    rtt: Duration,
    /// Packets that were sent in it and until those have left the path, by the bytes delivered before them.
    sent: Range<Bytes>,
    /// `probe_rtt_done_stamp`: when it may end, once few bytes are in flight.
    done_at: Option<Time>,
    /// `probe_rtt_round_done`: a round trip has passed, too.
    is_round_done: bool,
}

impl ProbeRtt {
    /// Whether few bytes were permitted when, or just before, a packet was sent: after `delivered` bytes.
    pub(super) fn limits(&self, delivered: Bytes) -> bool {
        self.sent.contains(&delivered)
    }
}

impl Bbr {
    /// `CheckProbeRTT`, where the minimum round-trip time was `rtt` before this acknowledgement.
    pub(super) fn check_probe_rtt(&mut self, now: Time, rtt: Duration) {
        if self.state != State::ProbeRtt && self.min_rtt.is_expired && !self.restarts {
            self.end_unfinished_cycle();
            self.save_window();
            self.state = State::ProbeRtt;
            let sent = self.delivery.delivered()..Bytes::MAX;
            self.probe_rtt = ProbeRtt { bandwidth: self.bandwidth(), rtt, sent, ..ProbeRtt::default() };
            self.cycle.acks = Acks::Stopping;
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
        if self.probe_rtt.done_at.is_some() {
            self.probe_rtt.is_round_done |= self.rounds.is_start;
            if self.probe_rtt.is_round_done {
                self.check_probe_rtt_done(now);
            }
            return;
        }
        if let (Some(rate), false) = (self.sample.rate, self.is_limited()) {
            self.probe_rtt.bandwidth = self.probe_rtt.bandwidth.min(rate); // what the path delivers now
        }
        if self.delivery.in_flight() <= self.probe_rtt_window() {
            (self.probe_rtt.done_at, self.probe_rtt.is_round_done) = (Some(now + DURATION), false);
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
        self.probe_rtt.sent.end = self.delivery.delivered() + self.delivery.in_flight() + Bytes::new(1);
        if self.full_pipe.reached {
            self.start_down(now);
            self.state = State::Cruise; // the path is drained
        } else {
            self.state = State::Startup;
        }
    }

    /// `ProbeRTTCwnd`.
    pub(super) fn probe_rtt_window(&self) -> Bytes {
        self.probe_rtt.bandwidth.bytes_in(self.probe_rtt.rtt).scale(WINDOW_GAIN).max(self.min_window())
    }
}
