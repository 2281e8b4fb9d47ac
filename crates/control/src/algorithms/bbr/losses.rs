//! What losses say about the path (section "Updating the Model Upon Packet Loss").
//!
//! Losses while BBR probes for bandwidth set a limit of the bytes in flight for many cycles, `LongTerm`. Other losses mean
//! that the path delivers less than before, because of others, and set a limit until the next probe, `ShortTerm`.

use rampmeter_units::{Bytes, Rate, Time};

use super::{Bbr, State};
use crate::delivery_rate::LostPacket;

/// `LossThresh`: the maximum share of the bytes in flight that may be lost in a round trip.
const THRESHOLD: f64 = 0.02;

/// `Beta`: the maximum reduction in a round trip, that of CUBIC.
const BETA: f64 = 0.7;

/// `Headroom`: the share of the long-term limit that is left to others.
const HEADROOM: f64 = 0.15;

/// `BBRStartupFullLossCnt`: as many losses in a round trip, and not fewer, end Startup.
const STARTUP_LOSSES: u32 = 6;

/// The model of the path until the next probe, and what the current round trip says.
#[derive(Debug, Clone)]
pub(super) struct ShortTerm {
    /// `bw_shortterm`.
    pub(super) bandwidth: Rate,
    /// `inflight_shortterm`.
    pub(super) in_flight: Bytes,
    /// `bw_latest`: the maximum delivery rate of this round trip.
    latest_bandwidth: Rate,
    /// `inflight_latest`: the maximum number of bytes that a sample of this round trip delivered.
    latest_in_flight: Bytes,
    /// `loss_round_delivered`: packets sent after this many delivered bytes end the round trip.
    round_ends_at: Bytes,
    /// `loss_round_start`: the last acknowledgement ended a round trip.
    ended_round: bool,
    /// `is_loss_in_round`.
    has_losses: bool,
    /// The number of losses in this round trip, and whether the flow was in recovery at its start.
    losses: u32,
    began_in_recovery: bool,
}

impl Default for ShortTerm {
    fn default() -> Self {
        Self {
            bandwidth: Rate::MAX,
            in_flight: Bytes::MAX,
            latest_bandwidth: Rate::ZERO,
            latest_in_flight: Bytes::ZERO,
            round_ends_at: Bytes::ZERO,
            ended_round: false,
            has_losses: false,
            losses: 0,
            began_in_recovery: false,
        }
    }
}

impl ShortTerm {
    /// `ResetShortTermModel`.
    pub(super) fn reset_limits(&mut self) {
        (self.bandwidth, self.in_flight) = (Rate::MAX, Bytes::MAX);
    }

    /// `ResetCongestionSignals`.
    pub(super) fn reset_signals(&mut self) {
        (self.has_losses, self.latest_bandwidth, self.latest_in_flight) = (false, Rate::ZERO, Bytes::ZERO);
    }
}

/// How much may be in flight, as probes have found it.
#[derive(Debug, Clone)]
pub(super) struct LongTerm {
    /// `inflight_longterm`.
    pub(super) in_flight: Bytes,
    /// `prev_probe_too_high`: the last probe lost too much.
    pub(super) was_too_high: bool,
    /// `is_bw_probe_sample`: acknowledgements are those of packets that probed.
    pub(super) is_probing: bool,
}

impl Default for LongTerm {
    fn default() -> Self {
        Self { in_flight: Bytes::MAX, was_too_high: false, is_probing: false }
    }
}

/// What is restored if losses were spurious.
#[derive(Debug, Clone, Default)]
pub(super) struct Undo {
    /// `undo_state`: the state that a loss ended.
    pub(super) state: Option<State>,
    bandwidth: Rate,
    short_in_flight: Bytes,
    long_in_flight: Bytes,
}

impl Bbr {
    /// `UpdateLatestDeliverySignals`.
    pub(super) fn update_latest_delivery(&mut self) {
        let (sample, latest) = (&self.sample, &mut self.short_term);
        latest.latest_bandwidth = latest.latest_bandwidth.max(sample.rate.unwrap_or(Rate::ZERO));
        latest.latest_in_flight = latest.latest_in_flight.max(sample.delivered);
        latest.ended_round = sample.delivered > Bytes::ZERO && sample.prior_delivered >= latest.round_ends_at;
        if latest.ended_round {
            latest.round_ends_at = self.delivery.delivered();
        }
    }

    /// `AdvanceLatestDeliverySignals`.
    pub(super) fn advance_latest_delivery(&mut self) {
        if self.short_term.ended_round {
            self.short_term.latest_bandwidth = self.sample.rate.unwrap_or(Rate::ZERO);
            self.short_term.latest_in_flight = self.sample.delivered;
        }
    }

    /// `UpdateCongestionSignals` and `AdaptLowerBoundsFromCongestion`: once a round trip, a reduction if it had losses.
    pub(super) fn adapt_short_term(&mut self) {
        let (max_bw, window) = (self.max_bw.get(), self.window);
        let limits = &mut self.short_term;
        if !limits.ended_round {
            return;
        }
        if limits.has_losses && !self.state.probes_bandwidth() {
            let bandwidth = if limits.bandwidth == Rate::MAX { max_bw } else { limits.bandwidth };
            let in_flight = if limits.in_flight == Bytes::MAX { window } else { limits.in_flight };
            limits.bandwidth = limits.latest_bandwidth.max(bandwidth.scale(BETA));
            limits.in_flight = limits.latest_in_flight.max(in_flight.scale(BETA));
        }
        limits.has_losses = false;
    }

    /// `CheckStartupHighLoss`, at the end of a round trip that was all in recovery.
    pub(super) fn check_startup_losses(&mut self) {
        if !self.short_term.ended_round {
            return;
        }
        let has_many = self.short_term.losses >= STARTUP_LOSSES && self.short_term.began_in_recovery;
        if self.state == State::Startup && has_many && lost_too_much(self.sample.lost, self.sample.in_flight) {
            self.undo.state = Some(State::Startup);
            self.full_pipe.reached = true;
            self.long_term.in_flight = self.bdp(1.0).max(self.short_term.latest_in_flight);
        }
        (self.short_term.losses, self.short_term.began_in_recovery) = (0, self.is_recovering);
    }

    /// `NoteLoss`.
    pub(super) fn note_loss(&mut self) {
        self.short_term.losses += 1;
        if !std::mem::replace(&mut self.short_term.has_losses, true) {
            self.short_term.round_ends_at = self.delivery.delivered();
            self.short_term.began_in_recovery = self.is_recovering;
            self.save_undo();
        }
    }

    /// `HandleLostPacket`: `bytes` were lost, with `lost` the last one of them.
    pub(super) fn on_lost_packet(&mut self, now: Time, bytes: Bytes, lost: &LostPacket) {
        if !self.long_term.is_probing || !lost_too_much(lost.lost, lost.in_flight) {
            return;
        }
        self.long_term.was_too_high = true;
        self.long_term.is_probing = false; // one reaction to each probe
        if !lost.is_app_limited {
            self.long_term.in_flight = in_flight_at_loss(bytes, lost).max(self.target_in_flight().scale(BETA));
        }
        if self.state == State::Up {
            self.undo.state = Some(State::Up);
            self.start_down(now);
        }
    }

    /// `InflightWithHeadroom`.
    pub(super) fn in_flight_with_headroom(&self) -> Bytes {
        let in_flight = self.long_term.in_flight;
        if in_flight == Bytes::MAX {
            return in_flight;
        }
        in_flight.saturating_sub(in_flight.scale(HEADROOM).max(self.packet)).max(self.min_window())
    }

    /// `SaveStateUponLoss`.
    pub(super) fn save_undo(&mut self) {
        self.undo = Undo {
            state: None,
            bandwidth: self.short_term.bandwidth,
            short_in_flight: self.short_term.in_flight,
            long_in_flight: self.long_term.in_flight,
        };
    }

    /// `HandleSpuriousLossDetection`.
    pub(super) fn undo_losses(&mut self) {
        let undo = std::mem::take(&mut self.undo);
        self.restore_window();
        self.short_term.has_losses = false;
        self.full_pipe.restart(Rate::ZERO);
        self.short_term.bandwidth = self.short_term.bandwidth.max(undo.bandwidth);
        self.short_term.in_flight = self.short_term.in_flight.max(undo.short_in_flight);
        self.long_term.in_flight = self.long_term.in_flight.max(undo.long_in_flight);
        let leaves = self.state != State::ProbeRtt && undo.state.is_some_and(|state| state != self.state);
        match undo.state {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_pipe.reached = false;
                if leaves {
                    self.state = State::Startup;
                }
            }
            Some(State::Up) if leaves => self.start_refill(),
            _ => {}
        }
    }
}

/// `IsInflightTooHigh`.
pub(super) fn lost_too_much(lost: Bytes, in_flight: Bytes) -> bool {
    lost > in_flight.scale(THRESHOLD)
}

/// `InflightAtLoss`: the bytes in flight at which the share of lost bytes passed the threshold, if `bytes` were lost
/// one after the other.
fn in_flight_at_loss(bytes: Bytes, lost: &LostPacket) -> Bytes {
    let before = lost.in_flight.saturating_sub(bytes);
    let lost_before = lost.lost.saturating_sub(bytes);
    let prefix = (THRESHOLD * before.as_f64() - lost_before.as_f64()) / (1.0 - THRESHOLD);
    Bytes::new((before.as_f64() + prefix).max(0.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::super::tests::flow_in;
    use super::*;
    use crate::delivery_rate::RateSample;
    use crate::testing::{PACKET, ack};
    use crate::units::Duration;

    #[test]
    fn more_than_two_percent_of_the_bytes_in_flight_are_too_many() {
        for (lost, in_flight, is_too_much) in [(0, 0, false), (2, 100, false), (3, 100, true), (1, 49, true)] {
            assert_eq!(lost_too_much(PACKET * lost, PACKET * in_flight), is_too_much, "{lost} of {in_flight}");
        }
    }

    #[test]
    fn losses_pass_the_threshold_where_two_percent_are_lost() {
        // 100 packets in flight, of which the last four are lost: 96 + x with x / (96 + x) = 0.02, so x = 1.96. If one
        // was lost before: (1 + x) / (96 + x) = 0.02, so x = 0.94.
        for (lost, expected) in [(4, 97.96), (5, 96.94)] {
            let lost = LostPacket { in_flight: PACKET * 100, lost: PACKET * lost, is_app_limited: false };
            let packets = in_flight_at_loss(PACKET * 4, &lost).as_f64() / PACKET.as_f64();
            assert!((packets - expected).abs() < 0.01, "{packets}");
        }
    }

    /// An acknowledgement whose sample has `delivered` packets at `rate` packets a second.
    fn acknowledge(bbr: &mut Bbr, delivered: u64, rate: u64, ends_round: bool) {
        bbr.delivery.on_ack(Time::ZERO, &ack(1));
        let prior_delivered = if ends_round { bbr.delivery.delivered() } else { Bytes::ZERO };
        let rate = Some(Rate::of(PACKET * rate, Duration::from_secs(1)));
        bbr.sample = RateSample { delivered: PACKET * delivered, rate, prior_delivered, ..RateSample::default() };
        bbr.update_latest_delivery();
        bbr.adapt_short_term();
        bbr.advance_latest_delivery();
    }

    /// The short-term limits, in packets a second and packets.
    fn limits(bbr: &Bbr) -> (f64, f64) {
        let packets = |bytes: f64| (bytes / PACKET.as_f64() * 10.0).round() / 10.0;
        (packets(bbr.short_term.bandwidth.as_bps_f64() / 8.0), packets(bbr.short_term.in_flight.as_f64()))
    }

    #[test]
    fn losses_lower_short_term_limits_by_30_percent_a_round_trip() {
        // 1000 packets a second and a window of 40.
        let mut bbr = flow_in(State::Cruise);
        acknowledge(&mut bbr, 1, 10, true);
        acknowledge(&mut bbr, 1, 10, true);
        assert_eq!((bbr.short_term.bandwidth, bbr.short_term.in_flight), (Rate::MAX, Bytes::MAX), "no losses");
        bbr.note_loss();
        acknowledge(&mut bbr, 1, 10, false);
        assert_eq!(bbr.short_term.bandwidth, Rate::MAX, "at the end of the round trip");
        acknowledge(&mut bbr, 1, 10, true);
        assert_eq!(limits(&bbr), (700.0, 28.0));
        acknowledge(&mut bbr, 1, 10, true);
        assert_eq!(limits(&bbr), (700.0, 28.0), "one reduction for the losses of one round trip");
        bbr.note_loss();
        acknowledge(&mut bbr, 1, 10, true);
        assert_eq!(limits(&bbr), (490.0, 19.6));
    }
}
