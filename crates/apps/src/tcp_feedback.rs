//! What the kernel's TCP tells (`TCP_INFO`) as what the Congestion Manager wants to hear (`cm_update`).
//!
//! ```text
//! acknowledged, with or without a gap        received
//! the kernel begins to repair                lost, TRANSIENT      once for each time that it begins
//! it sends again                             lost, and as many sent
//! its retransmission timer runs out          all lost, PERSISTENT
//! packets arrived with marks                 ECN
//! ```
//!
//! The kernel goes on repairing losses by itself, as the paper's TCP/CM does; what it sends again is told afterwards. A
//! probe of the last segment (RFC 8985) is no sign of congestion, unless the kernel then finds that it repaired a loss.

use rampmeter_cm::{Feedback, LossKind};
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
            repeated: info.repeated_bytes,
            marked: info.marked,
            repair: info.repair,
            backoff: info.backoff,
            rtt: Duration::from_micros(info.rtt_us.into()),
        }
    }
}

/// What is new since the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct News {
    /// For `cm_update`.
    pub(crate) feedback: Option<Feedback>,
    /// For `cm_notify`, afterwards: bytes that were sent again.
    pub(crate) sent_again: u64,
}

/// One connection's books.
#[derive(Debug, Clone, Default)]
pub(crate) struct Books {
    /// Bytes that the congestion manager takes to be under way.
    under_way: u64,
    last: Reading,
}

impl Books {
    /// Of a connection that stands at `reading`, with nothing under way.
    pub(crate) fn new(reading: Reading) -> Self {
        Self { under_way: 0, last: reading }
    }

    /// So many new bytes were sent.
    pub(crate) fn sent(&mut self, bytes: u64) {
        self.under_way += bytes;
    }

    /// Bytes that the congestion manager takes to be under way.
    pub(crate) fn under_way(&self) -> u64 {
        self.under_way
    }

    /// What is new.
    pub(crate) fn read(&mut self, mut now: Reading) -> News {
        // Segments are not all of the same size, so what arrived beyond gaps is an estimate: it never takes back.
        now.arrived = now.arrived.max(self.last.arrived);
        let last = std::mem::replace(&mut self.last, now);
        let received = (now.arrived - last.arrived).min(self.under_way);
        self.under_way -= received;
        let repeated = now.repeated.saturating_sub(last.repeated);
        let begins = |state| now.repair == state && last.repair != state;
        let (kind, lost, sent_again) = if begins(TcpInfo::LOSS) || now.backoff > last.backoff {
            (Some(LossKind::Persistent), self.under_way, repeated)
        } else if now.repair == TcpInfo::LOSS {
            (None, 0, repeated)
        } else if now.repair == TcpInfo::RECOVERY || last.repair == TcpInfo::RECOVERY {
            let kind = begins(TcpInfo::RECOVERY).then_some(LossKind::Transient);
            (kind, repeated.min(self.under_way), repeated.min(self.under_way))
        } else if now.marked > last.marked {
            (Some(LossKind::Ecn), 0, 0)
        } else if begins(TcpInfo::REDUCED) {
            (Some(LossKind::Transient), 0, 0)
        } else {
            (None, 0, 0)
        };
        self.under_way = self.under_way - lost + sent_again;
        let is_news = received > 0 || lost > 0 || kind.is_some();
        let feedback = is_news.then(|| Feedback {
            received: Bytes::new(received),
            lost: Bytes::new(lost),
            kind,
            rtt: Some(now.rtt).filter(|rtt| received > 0 && *rtt > Duration::ZERO),
        });
        News { feedback, sent_again }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(arrived: u64, repeated: u64, repair: u8) -> Reading {
        Reading { arrived, repeated, repair, rtt: Duration::from_millis(20), ..Reading::default() }
    }

    fn feedback(received: u64, lost: u64, kind: Option<LossKind>) -> Option<Feedback> {
        let rtt = (received > 0).then_some(Duration::from_millis(20));
        Some(Feedback { received: Bytes::new(received), lost: Bytes::new(lost), kind, rtt })
    }

    #[test]
    fn what_arrives_is_told_once() {
        let mut books = Books::default();
        books.sent(3000);
        assert_eq!(
            books.read(reading(2000, 0, TcpInfo::OPEN)),
            News { feedback: feedback(2000, 0, None), sent_again: 0 }
        );
        assert_eq!(books.read(reading(2000, 0, TcpInfo::OPEN)), News::default());
        assert_eq!(books.under_way(), 1000);
    }

    #[test]
    fn one_repair_is_one_sign_of_congestion_and_what_is_sent_again_is_under_way_again() {
        let mut books = Books::default();
        books.sent(10_000);
        let news = books.read(reading(3000, 1000, TcpInfo::RECOVERY));
        assert_eq!(news, News { feedback: feedback(3000, 1000, Some(LossKind::Transient)), sent_again: 1000 });
        let news = books.read(reading(5000, 2000, TcpInfo::RECOVERY));
        assert_eq!(news, News { feedback: feedback(2000, 1000, None), sent_again: 1000 });
        let news = books.read(reading(10_000, 2000, TcpInfo::OPEN));
        assert_eq!((news.feedback, books.under_way()), (feedback(5000, 0, None), 0));
    }

    #[test]
    fn a_timeout_loses_all_and_each_repetition_is_under_way_anew() {
        let mut books = Books::default();
        books.sent(5000);
        let news = books.read(reading(0, 1000, TcpInfo::LOSS));
        assert_eq!(news, News { feedback: feedback(0, 5000, Some(LossKind::Persistent)), sent_again: 1000 });
        let news = books.read(reading(1000, 3000, TcpInfo::LOSS));
        assert_eq!(news, News { feedback: feedback(1000, 0, None), sent_again: 2000 });
        assert_eq!(books.under_way(), 2000);
        let again = Reading { backoff: 1, ..reading(1000, 3000, TcpInfo::LOSS) };
        assert_eq!(books.read(again).feedback, feedback(0, 2000, Some(LossKind::Persistent)));
    }

    #[test]
    fn a_probe_of_the_tail_is_no_congestion_and_a_mark_is() {
        let mut books = Books::default();
        books.sent(1000);
        assert_eq!(books.read(reading(0, 1000, TcpInfo::OPEN)), News::default());
        let marked = Reading { marked: 1, ..reading(1000, 1000, TcpInfo::REDUCED) };
        assert_eq!(books.read(marked).feedback, feedback(1000, 0, Some(LossKind::Ecn)));
    }
}
