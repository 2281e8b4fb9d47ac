//! Validation of ECN (RFC 9000 section 13.4.2): whether packets arrive with the codes with which they left.
//!
//! ```text
//!          a packet arrives with its code, or marked
//! Testing ───────────────────────────────────────────► Capable
//!  │   │   a packet arrives with another code            │  ▲
//!  │   └───────────────────────────────────► Failed ◄────┘  │ as from Testing
//!  │ four timeouts, nothing has arrived         ▲           │
//!  └─────────────────────────────────────► Unknown ─────────┘
//!                 a packet that left without a code arrives first
//! ```
//!
//! A router that marks does not drop. Where the path clears the codes behind such a router, packets with a code are
//! never dropped, and no mark comes back: a sender without validation takes the whole path. After a failure packets leave
//! as Not-ECT, and marks are ignored. RFC 9000 compares counts of codes; receipts report the code of each packet, so a
//! single receipt decides.
//!
//! - A mark (CE) is valid for a packet that left with a code, also if all packets are marked: a full queue may do that.
//! - A path that turns CE back into ECT(0) cannot be distinguished from one without marks by a sender of ECT(0).
//! - Packets have a code until the test ends. RFC 9000 allows to stop after ten of them, or after three times the PTO,
//!   which is here the second retransmission timeout. Here it is the fourth: of 40 flows that begin over RED
//!   (`studies/vcp/classic_ecn.toml`), 4 have two or three such timeouts by congestion.
//! - A new path is tested anew, the same path is not.

use rampmeter_control::Arrival;
use rampmeter_units::{Ecn, Time};

/// The number of timeouts in a row, without any arrival, after which packets leave without a code.
const MAX_TIMEOUTS: u32 = 4;

/// What is known about ECN on the path of a connection (RFC 9000 appendix A.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EcnState {
    /// Packets leave with their code. None of them has been reported yet.
    #[default]
    Testing,
    /// Packets leave as Not-ECT: nothing has arrived of those with a code, which may be lost because of it.
    Unknown,
    /// Packets leave with their code, and arrive with it.
    Capable,
    /// Packets leave as Not-ECT: the path changes codes, or loses packets with a code.
    Failed,
}

impl EcnState {
    /// Its name in qlog.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Testing => "testing",
            Self::Unknown => "unknown",
            Self::Capable => "capable",
            Self::Failed => "failed",
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct EcnValidation {
    state: EcnState,
    /// The code that packets are to have; `None` before the first one.
    code: Option<Ecn>,
    /// Packets that were sent later had to have this code, on this path.
    since: Time,
    /// `Unknown` only: packets that were sent later left as Not-ECT.
    stopped: Time,
}

impl EcnValidation {
    pub(crate) fn state(&self) -> EcnState {
        self.state
    }

    /// Whether a packet with a code may be in flight: without one, marks are faults of the path.
    pub(crate) fn expects_marks(&self) -> bool {
        self.code.is_some_and(Ecn::is_capable) && self.state != EcnState::Failed
    }

    /// A packet leaves that is to have `code`. Returns the code that it gets.
    pub(crate) fn on_sent(&mut self, now: Time, code: Ecn) -> Ecn {
        if self.code.is_some_and(|before| before != code) {
            (self.state, self.since) = (EcnState::Testing, now);
        }
        self.code = Some(code);
        match self.state {
            EcnState::Testing | EcnState::Capable => code,
            EcnState::Unknown | EcnState::Failed => Ecn::NotEct,
        }
    }

    /// Receipts of packets have arrived.
    pub(crate) fn on_arrivals(&mut self, now: Time, arrivals: &[Arrival]) {
        let Some(code) = self.code.filter(|_| self.expects_marks()) else { return };
        for arrival in arrivals {
            if arrival.sent_at <= self.since {
                continue;
            }
            let left_without = self.state == EcnState::Unknown && arrival.sent_at > self.stopped;
            if left_without || (arrival.ecn != code && arrival.ecn != Ecn::Ce) {
                self.state = EcnState::Failed;
                return;
            }
            if self.state == EcnState::Unknown {
                self.since = now; // packets that left as Not-ECT until now say nothing
            }
            self.state = EcnState::Capable;
        }
    }

    /// The retransmission timer has expired `timeouts` times since packets arrived.
    pub(crate) fn on_timeout(&mut self, now: Time, timeouts: u32) {
        if self.state == EcnState::Testing && self.expects_marks() && timeouts >= MAX_TIMEOUTS {
            (self.state, self.stopped) = (EcnState::Unknown, now);
        }
    }

    /// Packets take another path from now on.
    pub(crate) fn on_new_path(&mut self, now: Time) {
        (self.state, self.since) = (EcnState::Testing, now);
    }

    /// Why packets leave without their code, as a message for the user.
    pub(crate) fn degraded_reason(&self) -> Option<&'static str> {
        (self.state == EcnState::Failed)
            .then_some("the path changes ECN codes, or loses packets that have one: sends without ECN")
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Duration;

    use super::*;

    fn ms(n: u64) -> Time {
        Time::ZERO + Duration::from_millis(n)
    }

    /// A packet that left at `sent` and arrived with `ecn`.
    fn arrival(sent: u64, ecn: Ecn) -> Arrival {
        Arrival { sent_at: ms(sent), ecn, ..Arrival::default() }
    }

    /// A sender of `code` from 1 ms on, to which arrivals are reported at 100 ms.
    fn after(code: Ecn, arrivals: &[Arrival]) -> EcnValidation {
        let mut validation = EcnValidation::default();
        assert_eq!(validation.on_sent(ms(1), code), code);
        validation.on_arrivals(ms(100), arrivals);
        validation
    }

    #[test]
    fn only_the_own_code_and_marks_are_valid() {
        for code in [Ecn::Ect0, Ecn::Ect1] {
            for arrived in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
                let mut validation = after(code, &[arrival(1, arrived)]);
                let is_valid = arrived == code || arrived == Ecn::Ce;
                assert_eq!(validation.state() == EcnState::Capable, is_valid, "{code:?} {arrived:?}");
                assert_eq!(validation.on_sent(ms(101), code), if is_valid { code } else { Ecn::NotEct });
                assert_eq!(validation.expects_marks(), is_valid);
            }
        }
    }

    #[test]
    fn a_capable_path_that_begins_to_clear_codes_fails() {
        let mut validation = after(Ecn::Ect1, &[arrival(1, Ecn::Ect1)]);
        validation.on_arrivals(ms(200), &[arrival(101, Ecn::Ce), arrival(102, Ecn::NotEct), arrival(103, Ecn::Ect1)]);
        assert_eq!(validation.state(), EcnState::Failed);
        validation.on_arrivals(ms(300), &[arrival(104, Ecn::Ect1)]);
        assert_eq!(validation.state(), EcnState::Failed, "the same path is not tested again");
    }

    #[test]
    fn packets_without_a_code_are_not_validated() {
        let mut validation = after(Ecn::NotEct, &[arrival(1, Ecn::Ce), arrival(2, Ecn::Ect0)]);
        validation.on_timeout(ms(300), MAX_TIMEOUTS);
        assert_eq!(validation.state(), EcnState::Testing);
        assert!(!validation.expects_marks());
    }

    #[test]
    fn a_path_that_loses_packets_with_a_code_fails() {
        let mut validation = after(Ecn::Ect0, &[]);
        validation.on_timeout(ms(300), MAX_TIMEOUTS - 1);
        assert_eq!(validation.on_sent(ms(300), Ecn::Ect0), Ecn::Ect0);
        validation.on_timeout(ms(900), MAX_TIMEOUTS);
        assert_eq!((validation.on_sent(ms(901), Ecn::Ect0), validation.state()), (Ecn::NotEct, EcnState::Unknown));
        validation.on_arrivals(ms(1000), &[arrival(901, Ecn::NotEct)]);
        assert_eq!(validation.state(), EcnState::Failed);
    }

    #[test]
    fn late_packets_of_the_test_make_an_unknown_path_capable() {
        let mut validation = after(Ecn::Ect0, &[]);
        validation.on_timeout(ms(900), MAX_TIMEOUTS);
        assert_eq!(validation.on_sent(ms(901), Ecn::Ect0), Ecn::NotEct);
        validation.on_arrivals(ms(1000), &[arrival(1, Ecn::Ect0)]);
        assert_eq!((validation.on_sent(ms(1001), Ecn::Ect0), validation.state()), (Ecn::Ect0, EcnState::Capable));
        validation.on_arrivals(ms(1100), &[arrival(901, Ecn::NotEct), arrival(1001, Ecn::Ect0)]);
        assert_eq!(validation.state(), EcnState::Capable);
    }

    #[test]
    fn a_new_path_and_a_new_code_are_tested_without_old_packets() {
        let mut validation = after(Ecn::Ect0, &[arrival(1, Ecn::NotEct)]);
        validation.on_new_path(ms(200));
        assert_eq!(validation.on_sent(ms(201), Ecn::Ect0), Ecn::Ect0);
        validation.on_arrivals(ms(300), &[arrival(150, Ecn::NotEct)]);
        assert_eq!(validation.state(), EcnState::Testing);
        validation.on_arrivals(ms(301), &[arrival(201, Ecn::Ect0)]);
        assert_eq!(validation.state(), EcnState::Capable);
        assert_eq!(validation.on_sent(ms(400), Ecn::Ect1), Ecn::Ect1);
        validation.on_arrivals(ms(500), &[arrival(399, Ecn::Ect0)]);
        assert_eq!(validation.state(), EcnState::Testing);
    }
}
