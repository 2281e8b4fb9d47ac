//! Telling reordering from loss by counts alone, for receivers whose packets have no numbers: section 4.2.2.
//!
//! ```text
//! a response counts less or more than was sent:       begin to add up both
//! the sums differ, and the last reduction is
//! a round trip ago:                                   reduce the window
//! two responses in a row count what was sent:         forget the sums; if they are equal, the reduction was for nothing
//! ```
//!
//! Its weakness, for which the paper gave it up: a packet that is duplicated hides a lost one, and a reduction that was
//! right is undone.

use rampmeter_units::{Duration, Time};

/// What to do about a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    Fine,
    /// Packets seem lost: reduce the window.
    Reduce,
    /// They were not: undo the last reduction.
    Undo,
}

/// The sums since a response first counted something else than was sent.
#[derive(Debug, Default)]
pub(crate) struct Reordering {
    sums: Option<Sums>,
    reduced_at: Option<Time>,
}

#[derive(Debug)]
struct Sums {
    sent: u64,
    received: u64,
    /// Responses in a row that counted what was sent.
    equal: u8,
    reduced: bool,
}

impl Reordering {
    /// A response counts `received` bytes between probes of the `sent` ones.
    pub(crate) fn judge(&mut self, now: Time, rtt: Duration, sent: u64, received: u64) -> Verdict {
        if self.sums.is_none() && sent == received {
            return Verdict::Fine;
        }
        let sums = self.sums.get_or_insert(Sums { sent: 0, received: 0, equal: 0, reduced: false });
        sums.sent += sent;
        sums.received += received;
        sums.equal = if sent == received { sums.equal + 1 } else { 0 };
        if sums.equal == 2 {
            let undo = sums.reduced && sums.sent == sums.received;
            self.sums = None;
            return if undo { Verdict::Undo } else { Verdict::Fine };
        }
        if sums.sent == sums.received || self.reduced_at.is_some_and(|at| now.since(at) < rtt) {
            return Verdict::Fine;
        }
        sums.reduced = true;
        self.reduced_at = Some(now);
        Verdict::Reduce
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Fine, Reduce, Undo};
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    /// Responses come twice a round trip: packets sent and counted.
    fn judge(responses: &[(u64, u64)]) -> Vec<Verdict> {
        let mut reordering = Reordering::default();
        let mut now = Time::ZERO;
        let one = |&(sent, received): &(u64, u64)| {
            now += RTT / 2;
            reordering.judge(now, RTT, sent, received)
        };
        responses.iter().map(one).collect()
    }

    /// Figure 9, period 1: four packets sent, three counted.
    #[test]
    fn figure_9_a_shortfall_reduces_the_window() {
        assert_eq!(judge(&[(4, 4), (4, 3)]), [Fine, Reduce]);
    }

    /// Period 2: the packet that was overtaken by its probe is counted now.
    #[test]
    fn figure_9_a_late_packet_undoes_the_reduction_if_nothing_more_is_lost() {
        assert_eq!(judge(&[(4, 3), (4, 5), (4, 4), (4, 4)]), [Reduce, Fine, Fine, Undo]);
        assert_eq!(judge(&[(4, 3), (4, 4), (4, 4), (4, 4)]), [Reduce, Fine, Fine, Fine], "it was lost");
    }

    /// Period 3: three of five. A round trip after the last reduction there is another.
    #[test]
    fn figure_9_a_further_shortfall_reduces_it_again_a_round_trip_later() {
        assert_eq!(judge(&[(4, 3), (4, 5), (5, 3)]), [Reduce, Fine, Reduce]);
        assert_eq!(judge(&[(4, 3), (5, 3)]), [Reduce, Fine], "but not sooner");
    }

    /// "Since the CM cannot identify this from the information it has, it takes the conservative approach".
    #[test]
    fn figure_9_neither_reduction_is_undone_then() {
        assert_eq!(judge(&[(4, 3), (4, 5), (5, 3), (4, 4), (4, 4), (4, 4)]), [Reduce, Fine, Reduce, Fine, Fine, Fine]);
    }

    #[test]
    fn a_duplicate_hides_a_loss() {
        assert_eq!(judge(&[(4, 3), (4, 5), (4, 4), (4, 4)])[3], Undo, "the fifth may be a copy of another");
    }
}
