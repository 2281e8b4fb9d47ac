//! Congestion episodes: one reaction to all losses and marks of one window of data.
//!
//! `recover` is the highest number sent at the time of the last reaction. A loss of a packet up to `recover` belongs to
//! that episode (RFC 6582 section 3.2, step 2). The RFC compares sequence numbers; here packet numbers are compared,
//! which also distinguish a retransmission from the original. Marks cause the same reaction as losses, once a window of
//! data (RFC 3168 section 6.1.2). Marks and losses share the episode, so that a window with both causes one reaction.
//!
//! After marks the window does not grow until a packet beyond `recover` arrives. With RFC 3168 all acknowledgements of
//! that round trip have an ECN-Echo, and none of them increases the window (section 6.1.2); RFC 9002 (section 7.3.2)
//! says the same without echoes. After a loss, recovery stops the growth in the same way. *Deviations*: delay does not
//! reduce the window in that round trip either (`vegas`, `fast`, `ledbat`), and after a timeout late acknowledgements with
//! marks from before it increase it.

use crate::{Ack, Loss, LossKind};

/// The last episode.
#[derive(Debug, Clone, Default)]
pub(crate) struct Episode {
    recover: Option<u64>,
    /// Whether marks started it, and no packet beyond `recover` has arrived.
    is_marked: bool,
}

impl Episode {
    /// Whether `loss` starts an episode, which then includes all packets sent up to now. A timeout always starts one.
    pub(crate) fn starts(&mut self, loss: &Loss) -> bool {
        let is_known = loss.recovering || self.includes(loss.number);
        let starts = loss.kind == LossKind::Persistent || !is_known;
        self.is_marked &= !starts;
        self.start_if(starts, loss.last_sent)
    }

    /// Whether `ack` reports marks that start an episode, which then includes all packets sent up to now.
    pub(crate) fn starts_with_marks(&mut self, ack: &Ack<'_>) -> bool {
        let Some(number) = ack.last_marked() else { return false };
        let starts = !ack.recovering && !self.includes(number);
        self.is_marked |= starts;
        self.start_if(starts, ack.last_sent)
    }

    /// Whether `ack` must not increase the window: marks started this episode, and it reports no later packet.
    pub(crate) fn stops_growth(&mut self, ack: &Ack<'_>) -> bool {
        let counted = ack.mark_count.map(|count| count.number);
        let mut numbers = ack.arrivals.iter().map(|arrival| arrival.number).chain(counted);
        self.is_marked &= !numbers.any(|number| !self.includes(number));
        self.is_marked
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
    fn growth_stops_for_packets_sent_before_the_reaction_to_marks() {
        let arrives = |episode: &mut Episode, number| episode.stops_growth(&mark(number, number + 9));
        let mut episode = Episode::default();
        assert!(!arrives(&mut episode, 1));
        assert!(episode.starts_with_marks(&mark(2, 11)));
        assert!(arrives(&mut episode, 3));
        assert!(arrives(&mut episode, 11));
        assert!(!arrives(&mut episode, 12));
        assert!(!arrives(&mut episode, 11), "reordered: packets of a later round trip have arrived");
        assert!(episode.starts_with_marks(&mark(13, 22)));
        assert!(episode.starts(&loss(LossKind::Persistent, 14, 22)));
        assert!(!arrives(&mut episode, 15), "the timeout is a reaction of its own");
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
