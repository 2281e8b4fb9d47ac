//! What the kernel's TCP tells (`TCP_INFO`) as what the Congestion Manager wants to hear (`cm_update`).
//!
//! ```text
//! acknowledged, with or without a gap        received
//! the kernel begins to repair                lost, TRANSIENT      once for each time that it begins
//! it sends again                             lost, and as many sent        with the next cm_notify
//! its retransmission timer runs out          all lost, PERSISTENT
//! packets arrived with marks                 ECN
//! ```
//!
//! The kernel goes on repairing losses by itself, as the paper's TCP/CM does; what it sends again is told afterwards. A
//! probe of the last segment (RFC 8985) is no sign of congestion, unless the kernel then finds that it repaired a loss.

use rampmeter_cm::{Feedback, LossMode};
use rampmeter_net::TcpInfo;
use rampmeter_units::{Bytes, Duration};

/// What matters here of a `TCP_INFO`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reading {
    /// Bytes that arrived, also beyond gaps.
    arrived: u64,
    /// Bytes sent again.
    repeated: u64,
    /// Packets that arrived marked.
    marked: u32,
    /// How it is about repairs ([`TcpInfo::RECOVERY`] and so on).
    repair: u8,
    /// Times in a row that the timer has run out.
    backoff: u8,
    rtt: Duration,
}

impl From<&TcpInfo> for Reading {
    fn from(info: &TcpInfo) -> Self {
        Self {
            arrived: info.acked_bytes + u64::from(info.sacked) * u64::from(info.segment),
            repeated: info.retransmitted_bytes,
            marked: info.marked,
            repair: info.ca_state,
            backoff: info.backoff,
            rtt: Duration::from_micros(info.rtt_us.into()),
        }
    }
}

/// One connection's books.
///
/// The congestion manager counts as under way what it was told was sent, less what it was told arrived or was lost. That
/// must come to nothing when all has arrived: what were left over would lie in its window for good. So what was sent again
/// is *owed* until it can be told, an arrival may settle it before, and no more is ever under way than has been written and
/// has not arrived.
#[derive(Debug, Clone, Default)]
pub(crate) struct Books {
    /// Bytes that were written, and how many of them have arrived.
    written: u64,
    arrived: u64,
    /// Bytes that the congestion manager takes to be under way.
    under_way: u64,
    /// Bytes sent again that it has not been told of.
    owed: u64,
    last: Reading,
}

impl Books {
    /// Of a connection that stands at `reading`, with nothing under way.
    pub(crate) fn new(reading: Reading) -> Self {
        Self { last: reading, ..Self::default() }
    }

    /// So many new bytes were sent. Says how many are to be told (`cm_notify`): those owed come with them.
    pub(crate) fn sent(&mut self, bytes: u64) -> u64 {
        // As much as can be told at once; the rest comes with the next.
        let owed = self.owed.min(rampmeter_cm::limits::MAX_PACKET_BYTES.saturating_sub(bytes));
        self.owed -= owed;
        let told = bytes + owed;
        self.written += bytes;
        self.under_way += told;
        told
    }

    /// Whether there are bytes that the congestion manager has not been told of.
    pub(crate) fn owes(&self) -> bool {
        self.owed > 0
    }

    /// Bytes that were written and have not arrived.
    pub(crate) fn unacknowledged(&self) -> u64 {
        self.written.saturating_sub(self.arrived)
    }

    /// What is new, for `cm_update`.
    pub(crate) fn read(&mut self, mut now: Reading) -> Option<Feedback> {
        // Segments are not all of the same size, so what arrived beyond gaps is an estimate: it never takes back.
        now.arrived = now.arrived.max(self.last.arrived);
        let last = std::mem::replace(&mut self.last, now);
        let arrived = now.arrived - last.arrived;
        self.arrived += arrived;
        let received = arrived.min(self.under_way);
        self.under_way -= received;
        let repeated = now.repeated.saturating_sub(last.repeated);
        let begins = |state| now.repair == state && last.repair != state;
        let (mode, mut lost) = if begins(TcpInfo::LOSS) || now.backoff > last.backoff {
            (Some(LossMode::Persistent), self.under_way)
        } else if now.repair == TcpInfo::RECOVERY || last.repair == TcpInfo::RECOVERY {
            (begins(TcpInfo::RECOVERY).then_some(LossMode::Transient), repeated.min(self.under_way))
        } else if now.marked > last.marked {
            (Some(LossMode::Ecn), 0)
        } else {
            (begins(TcpInfo::REDUCED).then_some(LossMode::Transient), 0)
        };
        // A probe of the tail is as much sent as given up.
        if now.repair >= TcpInfo::RECOVERY || last.repair >= TcpInfo::RECOVERY {
            self.owed += repeated;
        }
        self.owed = self.owed.min(self.unacknowledged());
        lost = lost.max(self.under_way.saturating_sub(self.unacknowledged() - self.owed));
        self.under_way -= lost;
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

    fn reading(arrived: u64, repeated: u64, repair: u8) -> Reading {
        Reading { arrived, repeated, repair, rtt: Duration::from_millis(20), ..Reading::default() }
    }

    #[allow(clippy::unnecessary_wraps, reason = "it is compared with news, of which there may be none")]
    fn feedback(received: u64, lost: u64, mode: Option<LossMode>) -> Option<Feedback> {
        let rtt = (received > 0).then_some(Duration::from_millis(20));
        Some(Feedback { received: Bytes::new(received), lost: Bytes::new(lost), mode, rtt })
    }

    #[test]
    fn what_arrives_is_told_once() {
        let mut books = Books::default();
        assert_eq!(books.sent(3000), 3000);
        assert_eq!(books.read(reading(2000, 0, TcpInfo::OPEN)), feedback(2000, 0, None));
        assert_eq!(books.read(reading(2000, 0, TcpInfo::OPEN)), None);
        assert_eq!(books.unacknowledged(), 1000);
    }

    #[test]
    fn one_repair_is_one_sign_of_congestion_and_what_is_sent_again_is_told_with_the_next_packet() {
        let mut books = Books::default();
        books.sent(10_000);
        assert_eq!(books.read(reading(3000, 1000, TcpInfo::RECOVERY)), feedback(3000, 1000, Some(LossMode::Transient)));
        assert_eq!(books.read(reading(5000, 2000, TcpInfo::RECOVERY)), feedback(2000, 1000, None));
        assert_eq!(books.sent(1000), 3000);
        assert_eq!(books.read(reading(11_000, 2000, TcpInfo::OPEN)), feedback(6000, 0, None));
        assert_eq!((books.under_way, books.owed), (0, 0));
    }

    #[test]
    fn a_timeout_loses_all_and_what_is_sent_again_is_under_way_anew() {
        let mut books = Books::default();
        books.sent(5000);
        let all = feedback(0, 5000, Some(LossMode::Persistent));
        assert_eq!(books.read(reading(0, 1000, TcpInfo::LOSS)), all);
        assert_eq!(books.sent(0), 1000);
        assert_eq!(books.read(reading(1000, 3000, TcpInfo::LOSS)), feedback(1000, 0, None));
        assert_eq!(books.sent(0), 2000);
        let again = Reading { backoff: 1, ..reading(1000, 3000, TcpInfo::LOSS) };
        assert_eq!(books.read(again), feedback(0, 2000, Some(LossMode::Persistent)));
    }

    #[test]
    fn a_probe_of_the_tail_is_no_congestion_and_a_mark_is() {
        let mut books = Books::default();
        books.sent(1000);
        assert_eq!(books.read(reading(0, 1000, TcpInfo::OPEN)), None);
        let marked = Reading { marked: 1, ..reading(1000, 1000, TcpInfo::REDUCED) };
        assert_eq!(books.read(marked), feedback(1000, 0, Some(LossMode::Ecn)));
    }

    proptest! {
        /// Whatever the kernel says, and whenever we can tell: when all has arrived nothing is under way, neither here nor
        /// in the congestion manager's own books.
        #[test]
        fn nothing_stays_under_way(
            steps in prop::collection::vec((0..3000_u64, 0..3000_u64, 0..3000_u64, 0..5_u8, 0..2_u8, any::<bool>()), 1..60)
        ) {
            let (mut books, mut told, mut now) = (Books::default(), 0, Reading::default());
            let hear = |told: &mut u64, feedback: Option<Feedback>| {
                let feedback = feedback.unwrap_or_default();
                *told = told.checked_sub((feedback.received + feedback.lost).as_u64()).unwrap();
            };
            let mut written = 0;
            for (sent, arrives, repeated, repair, backoff, tells) in steps {
                if tells {
                    written += sent;
                    told += books.sent(sent);
                }
                now.arrived = (now.arrived + arrives).min(written);
                now.repeated += repeated;
                (now.repair, now.backoff) = (repair, backoff);
                hear(&mut told, books.read(now));
                prop_assert_eq!(told, books.under_way);
                prop_assert!(books.under_way + books.owed <= written - now.arrived);
            }
            now.arrived = written;
            hear(&mut told, books.read(now));
            prop_assert_eq!((told, books.owed, books.unacknowledged()), (0, 0, 0));
        }
    }
}
