//! Congestion episodes: one reaction to all losses and marks of one window of data.
//!
//! `recover` is the highest number sent at the time of the last reaction. A loss of a packet up to `recover` belongs to
//! that episode (RFC 6582 section 3.2, step 2). The RFC compares sequence numbers; here packet numbers are compared,
//! which also distinguish a retransmission from the original. Marks cause the same reaction as losses, once a window of
//! data (RFC 3168 section 6.1.2). Marks and losses share the episode, so that a window with both causes one reaction.

use crate::{Ack, Loss, LossKind};

/// The last episode.
#[derive(Debug, Clone, Default)]
pub(crate) struct Episode {
    recover: Option<u64>,
}

impl Episode {
    /// Whether `loss` starts an episode, which then includes all packets sent up to now. A timeout always starts one.
    pub(crate) fn starts(&mut self, loss: &Loss) -> bool {
        let is_known = loss.recovering || self.includes(loss.number);
        self.start_if(loss.kind == LossKind::Persistent || !is_known, loss.last_sent)
    }

    /// Whether `ack` reports marks that start an episode, which then includes all packets sent up to now.
    pub(crate) fn starts_with_marks(&mut self, ack: &Ack<'_>) -> bool {
        let Some(number) = ack.last_marked() else { return false };
        self.start_if(!ack.recovering && !self.includes(number), ack.last_sent)
    }

    fn includes(&self, number: u64) -> bool {
        self.recover.is_some_and(|recover| number <= recover)
    }

    fn start_if(&mut self, starts: bool, last_sent: u64) -> bool {
        if starts {
            self.recover = Some(last_sent);
        }
        starts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{loss, mark};

    #[test]
    fn a_window_with_marks_and_losses_starts_one_episode() {
        let lost = |episode: &mut Episode, number, last| episode.starts(&loss(LossKind::Transient, number, last));
        let marked = |episode: &mut Episode, number, last| episode.starts_with_marks(&mark(number, last));
        let mut episode = Episode::default();
        assert!(lost(&mut episode, 3, 20));
        assert!(!marked(&mut episode, 20, 24));
        assert!(marked(&mut episode, 21, 30));
        assert!(!lost(&mut episode, 30, 34));
        assert!(lost(&mut episode, 31, 40));
    }

    #[test]
    fn in_recovery_only_a_timeout_starts_an_episode() {
        let mut episode = Episode::default();
        assert!(!episode.starts(&Loss { recovering: true, ..loss(LossKind::Transient, 30, 40) }));
        assert!(episode.starts(&loss(LossKind::Persistent, 3, 40)));
        assert!(episode.starts(&loss(LossKind::Persistent, 3, 40)));
        assert!(!episode.starts(&loss(LossKind::Transient, 40, 41)));
    }
}
