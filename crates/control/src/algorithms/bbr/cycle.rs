//! The cycle in which BBR probes for bandwidth: Down, Cruise, Refill, Up (section "ProbeBW").

use rampmeter_units::{Bytes, Duration, Rate, Time};

use super::losses::lost_too_much;
use super::{Bbr, State};

/// `ack_phase`: what acknowledgements say about the last probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Acks {
    /// `ACKS_INIT`: nothing.
    #[default]
    Init,
    /// `ACKS_REFILLING`: the path is being filled for a probe.
    Refilling,
    /// `ACKS_PROBE_STARTING`: the probe has started, and its packets are not acknowledged yet.
    Starting,
    /// `ACKS_PROBE_FEEDBACK`: the probe's packets are being acknowledged.
    Feedback,
    /// `ACKS_PROBE_STOPPING`: the probe has ended, and its last packets are being acknowledged.
    Stopping,
}

/// The state of the cycle.
#[derive(Debug, Clone)]
pub(super) struct Cycle {
    pub(super) acks: Acks,
    /// `cycle_stamp`: when it started.
    started: Time,
    /// `bw_probe_wait`: how long it is until it probes.
    wait: Duration,
    /// A cycle has ended since the last ProbeRTT.
    has_ended: bool,
    /// `rounds_since_probe_up`.
    pub(super) rounds_since_up: u64,
    /// `prev_probe_precautionary`: the last probe ended at the long-term limit that losses had set before.
    was_precautionary: bool,
    /// `bw_probe_up_rounds`: the number of round trips in which the long-term limit has grown.
    up_rounds: u32,
    /// `bw_probe_up_acked`: bytes acknowledged since it grew.
    up_acked: Bytes,
    /// `probe_up_acked_per_inc`: the bytes acknowledged for each packet by which the limit grows.
    acked_per_packet: Bytes,
}

impl Default for Cycle {
    fn default() -> Self {
        Self {
            acks: Acks::Init,
            started: Time::ZERO,
            wait: Duration::ZERO,
            has_ended: false,
            rounds_since_up: 0,
            was_precautionary: false,
            up_rounds: 0,
            up_acked: Bytes::ZERO,
            acked_per_packet: Bytes::MAX,
        }
    }
}

impl Bbr {
    /// `CheckDrainDone` and `UpdateProbeBWCyclePhase`.
    pub(super) fn update_cycle(&mut self, now: Time, delivered: Bytes) {
        let in_flight = self.delivery.in_flight();
        if self.state == State::Drain {
            let is_over = self.rounds.count > self.drain_started + 3;
            if is_over || in_flight <= self.in_flight_for(1.0) {
                self.start_down(now);
            }
        }
        if !self.full_pipe.reached || self.adapt_long_term(delivered) {
            return;
        }
        match self.state {
            State::Down | State::Cruise if self.is_time_to_probe(now) => self.start_refill(),
            State::Down if self.is_time_to_cruise() => self.state = State::Cruise,
            State::Refill if self.rounds.is_start => {
                self.long_term.is_probing = true;
                self.start_up();
            }
            State::Up => self.check_up(now),
            _ => {}
        }
    }

    /// `StartProbeBW_DOWN`.
    pub(super) fn start_down(&mut self, now: Time) {
        self.short_term.reset_signals();
        self.cycle.acked_per_packet = Bytes::MAX;
        // PickProbeWait
        self.cycle.rounds_since_up = self.random.below(2);
        self.cycle.wait = Duration::from_secs(2) + Duration::from_secs(1).scale(self.random.uniform());
        self.cycle.started = now;
        self.cycle.acks = Acks::Stopping;
        self.start_round();
        self.state = State::Down;
    }

    /// `StartProbeBW_REFILL`.
    pub(super) fn start_refill(&mut self) {
        self.short_term.reset_limits();
        (self.cycle.up_rounds, self.cycle.up_acked, self.cycle.was_precautionary) = (0, Bytes::ZERO, false);
        self.cycle.acks = Acks::Refilling;
        self.start_round();
        self.state = State::Refill;
    }

    /// `StartProbeBW_UP`.
    fn start_up(&mut self) {
        self.cycle.acks = Acks::Starting;
        self.start_round();
        self.full_pipe.restart(self.sample.rate.unwrap_or(Rate::ZERO));
        self.state = State::Up;
        self.double_growth();
    }

    /// `IsTimeToProbeBW`: after 2 to 3 s, or as many round trips as Reno would need to recover a window.
    fn is_time_to_probe(&self, now: Time) -> bool {
        let packets = self.target_in_flight().as_u64() / self.packet.as_u64().max(1);
        now > self.cycle.started + self.cycle.wait || self.cycle.rounds_since_up >= packets.min(63)
    }

    /// `IsTimeToCruise`.
    fn is_time_to_cruise(&self) -> bool {
        let in_flight = self.delivery.in_flight();
        let bdp = self.max_bw.get().bytes_in(self.min_rtt.value);
        in_flight <= self.in_flight_with_headroom() && in_flight <= bdp.max(self.in_flight_for(0.0))
    }

    /// Ends a probe (`IsTimeToGoDown`) at the limit that the last one set, or if the path is full.
    fn check_up(&mut self, now: Time) {
        if self.long_term.was_too_high && self.delivery.in_flight() >= self.long_term.in_flight {
            self.cycle.was_precautionary = true;
        } else if self.is_limited_by_long_term() {
            self.full_pipe.restart(self.sample.rate.unwrap_or(Rate::ZERO)); // the limit, not the path, is full
            return;
        } else if !self.full_pipe.now {
            return;
        }
        self.long_term.was_too_high = false; // no high losses yet
        self.start_down(now);
    }

    fn is_limited_by_long_term(&self) -> bool {
        self.is_window_limited() && self.window >= self.long_term.in_flight
    }

    /// `AdaptLongTermModel`. Returns whether it has decided about the next state.
    fn adapt_long_term(&mut self, delivered: Bytes) -> bool {
        if self.rounds.is_start && self.cycle.acks == Acks::Starting {
            self.cycle.acks = Acks::Feedback;
        }
        if self.rounds.is_start && self.cycle.acks == Acks::Stopping {
            self.long_term.is_probing = false;
            self.cycle.acks = Acks::Init;
            if self.state.is_in_cycle() && !self.is_limited() {
                self.max_bw.advance();
                self.cycle.has_ended = true;
            }
            if self.state.is_in_cycle() && self.cycle.was_precautionary && !self.long_term.was_too_high {
                self.start_refill();
                return true;
            }
        }
        if !lost_too_much(self.sample.lost, self.sample.in_flight) && self.long_term.in_flight < Bytes::MAX {
            self.long_term.in_flight = self.long_term.in_flight.max(self.sample.in_flight);
            if self.state == State::Up {
                self.raise_long_term(delivered);
            }
        }
        false
    }

    /// ProbeRTT starts. A cycle that takes longer than the time between two of them ends here.
    pub(super) fn end_unfinished_cycle(&mut self) {
        if !std::mem::take(&mut self.cycle.has_ended) && !self.sample.is_app_limited {
            self.max_bw.advance();
        }
    }

    /// `ProbeInflightLongtermUpward`: in each round trip twice as many packets as in the last one.
    fn raise_long_term(&mut self, delivered: Bytes) {
        if !self.is_limited_by_long_term() {
            return;
        }
        let cycle = &mut self.cycle;
        cycle.up_acked += delivered;
        let packets = cycle.up_acked.as_u64() / cycle.acked_per_packet.as_u64().max(1);
        cycle.up_acked -= cycle.acked_per_packet * packets;
        self.long_term.in_flight += self.packet * packets;
        if self.rounds.is_start {
            self.double_growth();
        }
    }

    /// `RaiseInflightLongtermSlope`.
    fn double_growth(&mut self) {
        let growth = 1 << self.cycle.up_rounds;
        self.cycle.up_rounds = (self.cycle.up_rounds + 1).min(30);
        self.cycle.acked_per_packet = (self.window / growth).max(self.packet);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::flow_in;
    use super::*;

    use crate::testing::PACKET;

    /// An acknowledgement of a packet, which ends a round trip or does not.
    fn acknowledge(bbr: &mut Bbr, ends_round: bool) {
        bbr.rounds.is_start = ends_round;
        bbr.update_cycle(Time::ZERO, PACKET);
    }

    #[test]
    fn a_probe_waits_as_many_round_trips_as_reno_needs_or_its_time() {
        // Reno needs a round trip for each packet of half a window. A path of 200 packets waits for 63.
        for (packets_a_ms, window, rounds) in [(1, 40, 20), (1, 12, 12), (10, 300, 63)] {
            let mut bbr = flow_in(State::Cruise);
            bbr.max_bw.add(Rate::of(PACKET * packets_a_ms, Duration::from_millis(1)));
            bbr.window = PACKET * window;
            bbr.cycle.wait = Duration::from_millis(2500);
            bbr.cycle.rounds_since_up = rounds - 1;
            let timeout = Time::ZERO + bbr.cycle.wait;
            assert!(!bbr.is_time_to_probe(timeout));
            assert!(bbr.is_time_to_probe(timeout + Duration::from_nanos(1)));
            bbr.cycle.rounds_since_up = rounds;
            assert!(bbr.is_time_to_probe(Time::ZERO), "{packets_a_ms} {window}");
        }
    }

    #[test]
    fn in_a_probe_the_long_term_limit_grows_by_1_2_4_and_8_packets() {
        let mut bbr = flow_in(State::Refill);
        bbr.long_term.in_flight = bbr.window;
        bbr.was_full = [true; 2];
        bbr.start_up();
        for growth in [1, 2, 4, 8] {
            let limit = bbr.long_term.in_flight;
            let acks = bbr.window.as_u64() / PACKET.as_u64();
            for n in 1..=acks {
                bbr.window = bbr.long_term.in_flight;
                acknowledge(&mut bbr, n == acks);
            }
            assert_eq!(bbr.long_term.in_flight, limit + PACKET * growth);
        }
        bbr.window = PACKET * 20; // the limit does not bind
        let limit = bbr.long_term.in_flight;
        (0..100).for_each(|_| acknowledge(&mut bbr, true));
        assert_eq!(bbr.long_term.in_flight, limit);
    }
}
