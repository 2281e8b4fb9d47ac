//! The rate and the window that follow from the model (section "Updating Control Parameters").

use rampmeter_units::{Bytes, Duration};

use super::{Bbr, State};

/// `StartupPacingGain`, 4 ln 2: the minimum at which the rate doubles in a round trip.
pub(super) const STARTUP_GAIN: f64 = 2.77;

/// `PacingMarginPercent`: the rate is 1% below the path's.
const MARGIN: f64 = 0.99;

/// `BBR.pacing_gain`.
pub(super) fn pacing_gain(state: State) -> f64 {
    match state {
        State::Startup => STARTUP_GAIN,
        State::Drain => 0.5,
        State::Down => 0.9,
        State::Cruise | State::Refill | State::ProbeRtt => 1.0,
        State::Up => 1.25,
    }
}

/// `BBR.cwnd_gain`.
fn window_gain(state: State) -> f64 {
    match state {
        State::Up => 2.25,
        State::ProbeRtt => super::probe_rtt::WINDOW_GAIN,
        _ => 2.0, // DefaultCwndGain
    }
}

impl Bbr {
    /// `SetPacingRateWithGain`. Before the path was full, the rate only grows.
    pub(super) fn set_pacing_rate(&mut self, gain: f64) {
        let rate = self.bandwidth().scale(gain * MARGIN);
        if self.full_pipe.reached || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// `SetCwnd`.
    pub(super) fn set_window(&mut self, delivered: Bytes) {
        let max = self.with_budget(self.bdp(window_gain(self.state)) + self.aggregation.extra()); // UpdateMaxInflight
        let first = self.packet * self.config.initial_window;
        if self.full_pipe.reached {
            self.window = (self.window + delivered).min(max);
        } else if self.window < max || self.delivery.delivered() < first {
            self.window += delivered;
        }
        self.window = self.window.max(self.min_window());
        if self.state == State::ProbeRtt {
            self.window = self.window.min(self.probe_rtt_window()); // BoundCwndForProbeRTT
        }
        self.bound_window();
    }

    /// `BoundCwndForModel`.
    fn bound_window(&mut self) {
        let long_term = match self.state {
            State::Down | State::Refill | State::Up => self.long_term.in_flight,
            State::ProbeRtt | State::Cruise => self.in_flight_with_headroom(),
            State::Startup | State::Drain => Bytes::MAX,
        };
        let bound = long_term.min(self.short_term.in_flight).max(self.min_window());
        self.window = self.window.min(bound);
    }

    /// `Inflight`: a multiple of the path's bandwidth-delay product.
    pub(super) fn in_flight_for(&self, gain: f64) -> Bytes {
        self.with_budget(self.bdp(gain))
    }

    /// `QuantizationBudget`: at least what a host sends at once (`C.send_quantum`).
    fn with_budget(&self, in_flight: Bytes) -> Bytes {
        let in_a_millisecond = self.pacing_rate.bytes_in(Duration::from_millis(1));
        let quantum = in_a_millisecond.min(Bytes::new(64 << 10)).max(self.packet * 2);
        let budget = in_flight.max(quantum).max(self.min_window());
        if self.state == State::Up { budget + self.packet * 2 } else { budget }
    }

    /// `SaveCwnd`: the last window that neither recovery nor ProbeRTT reduced.
    pub(super) fn save_window(&mut self) {
        let is_reduced = self.is_recovering || self.state == State::ProbeRtt;
        self.prior_window = if is_reduced { self.prior_window.max(self.window) } else { self.window };
    }

    /// `RestoreCwnd`.
    pub(super) fn restore_window(&mut self) {
        self.window = self.window.max(self.prior_window);
    }
}
