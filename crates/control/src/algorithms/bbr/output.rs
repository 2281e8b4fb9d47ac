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

#[cfg(test)]
mod tests {
    use rampmeter_units::{Rate, Time};

    use super::super::tests::flow_in;
    use super::*;
    use crate::testing::{PACKET, ack};

    #[test]
    fn the_window_is_two_bandwidth_delay_products_more_in_a_probe() {
        // A product is 20 packets. A probe has 2.25 of them, and two packets.
        for (state, packets) in [
            (State::Startup, 40),
            (State::Drain, 40),
            (State::Down, 40),
            (State::Cruise, 40),
            (State::Refill, 40),
            (State::Up, 47),
        ] {
            let mut bbr = flow_in(state);
            bbr.set_window(PACKET * 100);
            assert_eq!(bbr.window, PACKET * packets, "{state:?}");
        }
    }

    #[test]
    fn startup_grows_the_window_to_two_products_or_10_packets() {
        // Until the first window has arrived, the delivery rate is not known, so no window is too large.
        for (delivered, window, grown) in [(0, 40, 45), (9, 40, 45), (10, 40, 40), (10, 39, 44)] {
            let mut bbr = flow_in(State::Startup);
            bbr.full_pipe.reached = false;
            bbr.delivery.on_ack(Time::ZERO, &ack(delivered));
            bbr.window = PACKET * window;
            bbr.set_window(PACKET * 5);
            assert_eq!(bbr.window, PACKET * grown, "{delivered} delivered, a window of {window}");
        }
    }

    #[test]
    fn limits_from_losses_bound_the_window() {
        // Where no probe goes on, 15% of the long-term limit is left to others.
        for (state, packets) in
            [(State::Startup, 40), (State::Down, 20), (State::Refill, 20), (State::Up, 20), (State::Cruise, 17)]
        {
            let mut bbr = flow_in(state);
            bbr.long_term.in_flight = PACKET * 20;
            bbr.set_window(PACKET * 100);
            assert_eq!(bbr.window, PACKET * packets, "{state:?}");
            bbr.short_term.in_flight = PACKET * 10;
            bbr.set_window(PACKET * 100);
            assert_eq!(bbr.window, PACKET * 10, "{state:?}");
        }
    }

    #[test]
    fn a_millisecond_and_at_most_64_kib_may_be_in_flight() {
        for (megabits, bytes) in [(1, 4000), (80, 10_000), (10_000, 65_536)] {
            let mut bbr = flow_in(State::Cruise);
            bbr.pacing_rate = Rate::from_bps(megabits * 1_000_000);
            assert_eq!(bbr.in_flight_for(0.0), Bytes::new(bytes), "{megabits} Mb/s");
        }
    }

    #[test]
    fn recovery_and_probe_rtt_keep_the_window_before_them() {
        for (state, is_recovering, kept) in
            [(State::Cruise, false, 10), (State::Cruise, true, 40), (State::ProbeRtt, false, 40)]
        {
            let mut bbr = flow_in(State::Cruise);
            bbr.save_window();
            (bbr.state, bbr.is_recovering, bbr.window) = (state, is_recovering, PACKET * 10);
            bbr.save_window();
            bbr.window = PACKET * 4;
            bbr.restore_window();
            assert_eq!(bbr.window, PACKET * kept, "{state:?} {is_recovering}");
            bbr.window = PACKET * 50;
            bbr.restore_window();
            assert_eq!(bbr.window, PACKET * 50);
        }
    }
}
