//! Once a window of data: which losses and marks were answered already.
//!
//! `recover` is the highest number sent when the last loss was answered. A loss of a packet up to `recover` belongs to
//! that episode (RFC 6582 section 3.2, step 2; the RFC compares sequence numbers, we compare packet numbers, which also
//! tell a retransmission from the original). A mark is answered like a loss and once a window of data, too (RFC 3168
//! section 6.1.2): marks and losses share the episode, so that a window with both is answered once.

use crate::{Loss, LossKind};

/// The episode that was answered last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Episode {
    recover: Option<u64>,
}

impl Episode {
    /// Whether `loss` calls for an answer; the episode is then all that has been sent up to now. That the timer ran out
    /// always does.
    pub(crate) fn begins(&mut self, loss: &Loss) -> bool {
        let answered = loss.recovering || self.recover.is_some_and(|recover| loss.number <= recover);
        let begins = loss.kind == LossKind::Persistent || !answered;
        if begins {
            self.recover = Some(loss.last_sent);
        }
        begins
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Bytes;

    use super::*;

    fn loss(kind: LossKind, number: u64, last_sent: u64) -> Loss {
        let (bytes, flight) = (Bytes::new(1000), Bytes::new(16_000));
        Loss { kind, bytes, flight, number, last_sent, recovering: false, repeated: false }
    }

    #[test]
    fn a_window_with_marks_and_losses_is_answered_once() {
        for kinds in [[LossKind::Ecn, LossKind::Transient], [LossKind::Transient, LossKind::Ecn]] {
            let mut episode = Episode::default();
            assert!(episode.begins(&loss(kinds[0], 3, 20)));
            assert!(!episode.begins(&loss(kinds[1], 20, 24)));
            assert!(episode.begins(&loss(kinds[1], 21, 30)));
        }
    }

    #[test]
    fn what_is_lost_while_losses_are_repaired_was_answered_but_a_timeout_always_counts() {
        let mut episode = Episode::default();
        assert!(!episode.begins(&Loss { recovering: true, ..loss(LossKind::Transient, 30, 40) }));
        assert!(episode.begins(&loss(LossKind::Persistent, 3, 40)));
        assert!(episode.begins(&loss(LossKind::Persistent, 3, 40)));
        assert!(!episode.begins(&loss(LossKind::Transient, 40, 41)));
    }
}
