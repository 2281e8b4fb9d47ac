//! Translates the kernel's `TCP_INFO` into feedback for the Congestion Manager (`cm_update`).
//!
//! ```text
//! bytes delivered, with or without a gap     received
//! loss recovery starts                       lost, TRANSIENT      once per recovery
//! retransmissions                            lost, and as many sent        with the next cm_notify
//! the retransmission timer expires           all lost, PERSISTENT
//! written, but the receiver has no room      not in flight until sent
//! packets arrived with marks                 ECN
//! ```
//!
//! The kernel still retransmits by itself, as the paper's TCP/CM does; retransmissions are reported afterwards. A tail
//! loss probe (RFC 8985) is no sign of congestion, unless the kernel then finds that it has repaired a loss.

use rampmeter_cm::{Feedback, LossMode};
use rampmeter_net::TcpInfo;
use rampmeter_units::{Bytes, Duration};

/// The values of `TCP_INFO` that are used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reading {
    /// Bytes that arrived, including those beyond gaps.
    arrived: u64,
    /// Retransmitted bytes.
    retransmitted: u64,
    /// Bytes that were written and not sent.
    unsent: u64,
    /// Packets that arrived with marks.
    marked: u32,
    /// The state of loss recovery ([`TcpInfo::RECOVERY`] and so on).
    recovery_state: u8,
    /// The number of times in a row that the timer has expired.
    backoff: u8,
    rtt: Duration,
}

impl From<&TcpInfo> for Reading {
    fn from(info: &TcpInfo) -> Self {
        Self {
            arrived: info.acked_bytes + u64::from(info.sacked) * u64::from(info.segment),
            retransmitted: info.retransmitted_bytes,
            unsent: info.unsent.into(),
            marked: info.marked,
            recovery_state: info.ca_state,
            backoff: info.backoff,
            rtt: Duration::from_micros(info.rtt_us.into()),
        }
    }
}

/// The byte counts of one connection.
///
/// The congestion manager's bytes in flight are the bytes reported as sent, less those reported as delivered or lost.
/// They must be zero when all bytes have arrived: a remainder would occupy the window forever. So retransmitted bytes
/// are *unreported* until they can be reported, an arrival may settle them earlier, and there are never more bytes in
/// flight than have been written and have not arrived.
#[derive(Debug, Clone, Default)]
pub(crate) struct ByteCounts {
    /// Bytes that were written, and how many of them have arrived.
    written: u64,
    arrived: u64,
    /// The congestion manager's bytes in flight.
    in_flight: u64,
    /// Bytes sent, or sent again, that are not reported to the congestion manager yet.
    unreported: u64,
    /// Bytes that the kernel has not sent because the receiver has no room: a receiver that reads nothing must not occupy
    /// the window that it shares with others.
    unsent: u64,
    last: Reading,
}

impl ByteCounts {
    /// The counts of a connection at `reading`, with nothing in flight.
    pub(crate) fn new(reading: Reading) -> Self {
        Self { last: reading, ..Self::default() }
    }

    /// `bytes` new bytes were sent. Returns the number of bytes for `cm_notify`, which includes unreported ones.
    pub(crate) fn on_sent(&mut self, bytes: u64) -> u64 {
        // As many bytes as one report can have; the others follow with the next one.
        let unreported = self.unreported.min(rampmeter_cm::limits::MAX_PACKET_BYTES.saturating_sub(bytes));
        self.unreported -= unreported;
        let reported = bytes + unreported;
        self.written += bytes;
        self.in_flight += reported;
        reported
    }

    /// Whether there are unreported bytes.
    pub(crate) fn has_unreported(&self) -> bool {
        self.unreported > 0
    }

    /// Bytes that were written and have not arrived.
    pub(crate) fn unacknowledged(&self) -> u64 {
        self.written.saturating_sub(self.arrived)
    }

    /// The new feedback, for `cm_update`.
    pub(crate) fn read(&mut self, mut now: Reading) -> Option<Feedback> {
        // Segments differ in size, so the bytes beyond gaps are an estimate, which must not decrease.
        now.arrived = now.arrived.max(self.last.arrived);
        let last = std::mem::replace(&mut self.last, now);
        let arrived = now.arrived - last.arrived;
        self.arrived += arrived;
        let received = arrived.min(self.in_flight);
        self.in_flight -= received;
        let retransmitted = now.retransmitted.saturating_sub(last.retransmitted);
        let begins = |state| now.recovery_state == state && last.recovery_state != state;
        // The timer that asks a receiver for room backs off, too.
        let has_timed_out = now.recovery_state == TcpInfo::LOSS && now.backoff > last.backoff;
        let (mode, mut lost) = if begins(TcpInfo::LOSS) || has_timed_out {
            (Some(LossMode::Persistent), self.in_flight)
        } else if now.recovery_state == TcpInfo::RECOVERY || last.recovery_state == TcpInfo::RECOVERY {
            (begins(TcpInfo::RECOVERY).then_some(LossMode::Transient), retransmitted.min(self.in_flight))
        } else if now.marked > last.marked {
            (Some(LossMode::Ecn), 0)
        } else {
            (begins(TcpInfo::REDUCED).then_some(LossMode::Transient), 0)
        };
        // A tail loss probe counts as sent and as lost at once.
        if now.recovery_state >= TcpInfo::RECOVERY || last.recovery_state >= TcpInfo::RECOVERY {
            self.unreported += retransmitted;
        }
        // With a closed window all that was sent has arrived.
        let is_closed = now.unsent >= self.unacknowledged();
        let held = if is_closed { self.unacknowledged() } else { 0 };
        let unsent = std::mem::replace(&mut self.unsent, held);
        self.unreported += unsent.saturating_sub(self.unsent);
        let sent = self.unacknowledged() - self.unsent;
        self.unreported = self.unreported.min(sent);
        lost = lost.max(self.in_flight.saturating_sub(sent - self.unreported));
        self.in_flight -= lost;
        (received > 0 || lost > 0 || mode.is_some()).then(|| Feedback {
            received: Bytes::new(received),
            lost: Bytes::new(lost),
            mode,
            rtt: Some(now.rtt).filter(|rtt| received > 0 && *rtt > Duration::ZERO),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reading(arrived: u64, retransmitted: u64, recovery_state: u8) -> Reading {
        Reading { arrived, retransmitted, recovery_state, rtt: Duration::from_millis(20), ..Reading::default() }
    }

    #[allow(clippy::unnecessary_wraps, reason = "it is compared with optional feedback")]
    fn feedback(received: u64, lost: u64, mode: Option<LossMode>) -> Option<Feedback> {
        let rtt = (received > 0).then_some(Duration::from_millis(20));
        Some(Feedback { received: Bytes::new(received), lost: Bytes::new(lost), mode, rtt })
    }

    #[test]
    fn delivered_bytes_are_reported_once() {
        let mut counts = ByteCounts::default();
        assert_eq!(counts.on_sent(3000), 3000);
        assert_eq!(counts.read(reading(2000, 0, TcpInfo::OPEN)), feedback(2000, 0, None));
        assert_eq!(counts.read(reading(2000, 0, TcpInfo::OPEN)), None);
        assert_eq!(counts.unacknowledged(), 1000);
    }

    #[test]
    fn one_recovery_is_one_episode() {
        let mut counts = ByteCounts::default();
        counts.on_sent(10_000);
        assert_eq!(
            counts.read(reading(3000, 1000, TcpInfo::RECOVERY)),
            feedback(3000, 1000, Some(LossMode::Transient))
        );
        assert_eq!(counts.read(reading(5000, 2000, TcpInfo::RECOVERY)), feedback(2000, 1000, None));
        assert_eq!(counts.on_sent(1000), 3000);
        assert_eq!(counts.read(reading(11_000, 2000, TcpInfo::OPEN)), feedback(6000, 0, None));
        assert_eq!((counts.in_flight, counts.unreported), (0, 0));
    }

    #[test]
    fn a_timeout_loses_all_and_retransmissions_are_in_flight() {
        let mut counts = ByteCounts::default();
        counts.on_sent(5000);
        let all = feedback(0, 5000, Some(LossMode::Persistent));
        assert_eq!(counts.read(reading(0, 1000, TcpInfo::LOSS)), all);
        assert_eq!(counts.on_sent(0), 1000);
        assert_eq!(counts.read(reading(1000, 3000, TcpInfo::LOSS)), feedback(1000, 0, None));
        assert_eq!(counts.on_sent(0), 2000);
        let again = Reading { backoff: 1, ..reading(1000, 3000, TcpInfo::LOSS) };
        assert_eq!(counts.read(again), feedback(0, 2000, Some(LossMode::Persistent)));
    }

    #[test]
    fn a_mark_is_congestion_and_a_tail_loss_probe_is_not() {
        let mut counts = ByteCounts::default();
        counts.on_sent(1000);
        assert_eq!(counts.read(reading(0, 1000, TcpInfo::OPEN)), None);
        let marked = Reading { marked: 1, ..reading(1000, 1000, TcpInfo::REDUCED) };
        assert_eq!(counts.read(marked), feedback(1000, 0, Some(LossMode::Ecn)));
    }

    #[test]
    fn a_receiver_without_room_has_nothing_in_flight_and_no_losses() {
        let mut counts = ByteCounts::default();
        counts.on_sent(3000);
        let full = Reading { unsent: 1000, ..reading(1000, 0, TcpInfo::OPEN) };
        assert_eq!(counts.read(full), feedback(1000, 0, None), "1000 of 2000 have been sent");
        let closed = Reading { unsent: 1000, ..reading(2000, 0, TcpInfo::OPEN) };
        assert_eq!(counts.read(closed), feedback(1000, 1000, None));
        assert_eq!(counts.in_flight, 0);
        for backoff in 1..9 {
            assert_eq!(counts.read(Reading { backoff, ..closed }), None, "the kernel asks for room");
        }
        assert_eq!(counts.read(reading(2000, 0, TcpInfo::OPEN)), None);
        assert_eq!((counts.has_unreported(), counts.on_sent(0)), (true, 1000), "there is room, and they are sent");
        assert_eq!(counts.read(reading(3000, 0, TcpInfo::OPEN)), feedback(1000, 0, None));
    }

    proptest! {
        /// With any values from the kernel, and reports at any time: when all bytes have arrived, nothing is in flight,
        /// neither here nor in the congestion manager.
        #[test]
        fn nothing_stays_in_flight(
            steps in prop::collection::vec(
                (0..3000_u64, 0..3000_u64, 0..3000_u64, 0..5_u8, 0..2_u8, any::<bool>()),
                1..60,
            ),
        ) {
            let (mut counts, mut reported, mut now) = (ByteCounts::default(), 0, Reading::default());
            let subtract = |reported: &mut u64, feedback: Option<Feedback>| {
                let feedback = feedback.unwrap_or_default();
                *reported = reported.checked_sub((feedback.received + feedback.lost).as_u64()).unwrap();
            };
            let mut written = 0;
            for (sent, arrives, retransmitted, recovery_state, backoff, reports) in steps {
                if reports {
                    written += sent;
                    reported += counts.on_sent(sent);
                }
                now.arrived = (now.arrived + arrives).min(written);
                now.retransmitted += retransmitted;
                (now.recovery_state, now.backoff) = (recovery_state, backoff);
                subtract(&mut reported, counts.read(now));
                prop_assert_eq!(reported, counts.in_flight);
                prop_assert!(counts.in_flight + counts.unreported <= written - now.arrived);
            }
            now.arrived = written;
            subtract(&mut reported, counts.read(now));
            prop_assert_eq!((reported, counts.unreported, counts.unacknowledged()), (0, 0, 0));
        }
    }
}
