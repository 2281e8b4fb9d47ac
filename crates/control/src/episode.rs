//! Once a window of data: which losses and marks were answered already.
//!
//! `recover` is the highest number sent when the last loss was answered. A loss of a packet up to `recover` belongs to
//! that episode (RFC 6582 section 3.2, step 2; the RFC compares sequence numbers, we compare packet numbers, which also
//! tell a retransmission from the original). A mark is answered like a loss and once a window of data, too (RFC 3168
//! section 6.1.2): marks and losses share the episode, so that a window with both is answered once.

use crate::{Ack, Loss, LossKind};

/// The episode that was answered last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Episode {
    recover: Option<u64>,
}

impl Episode {
    /// Whether `loss` calls for an answer; the episode is then all that has been sent up to now. That the timer ran out
    /// always does.
    pub(crate) fn begins(&mut self, loss: &Loss) -> bool {
        let answered = loss.recovering || self.includes(loss.number);
        self.begins_if(loss.kind == LossKind::Persistent || !answered, loss.last_sent)
    }

    /// Whether the marks of `ack`, if it tells of any, call for an answer; likewise.
    pub(crate) fn begins_with_marks(&mut self, ack: &Ack<'_>) -> bool {
        let Some(number) = ack.last_marked() else { return false };
        self.begins_if(!ack.recovering && !self.includes(number), ack.last_sent)
    }

    fn includes(&self, number: u64) -> bool {
        self.recover.is_some_and(|recover| number <= recover)
    }

    fn begins_if(&mut self, begins: bool, last_sent: u64) -> bool {
        if begins {
            self.recover = Some(last_sent);
        }
        begins
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{loss, mark};

    #[test]
    fn a_window_with_marks_and_losses_is_answered_once() {
        let lost = |episode: &mut Episode, number, last| episode.begins(&loss(LossKind::Transient, number, last));
        let marked = |episode: &mut Episode, number, last| episode.begins_with_marks(&mark(number, last));
        let mut episode = Episode::default();
        assert!(lost(&mut episode, 3, 20));
        assert!(!marked(&mut episode, 20, 24));
        assert!(marked(&mut episode, 21, 30));
        assert!(!lost(&mut episode, 30, 34));
        assert!(lost(&mut episode, 31, 40));
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
