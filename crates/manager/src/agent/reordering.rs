//! Distinguishes reordering from loss by byte counts alone, for packets without sequence numbers (section 4.2.2).
//!
//! ```text
//! a response counts less or more than was sent:       begin to add up both
//! the sums differ, and the last reduction is
//! a round trip ago:                                   reduce the window
//! two responses in a row count what was sent:         discard the sums; if they are equal, undo the reduction
//! ```
//!
//! This has a weakness, for which the paper rejects it: a duplicate hides a loss, and a justified reduction is undone.

use rampmeter_units::{Duration, Time};

/// What to do with the window after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowAction {
    /// Leave the window unchanged.
    NoChange,
    /// Packets seem to be lost: reduce the window.
    Reduce,
    /// They were reordered: undo the last reduction.
    Undo,
}

/// The sums since the first response that differed from what was sent.
#[derive(Debug, Default)]
pub(crate) struct Reordering {
    sums: Option<Sums>,
    reduced_at: Option<Time>,
}

#[derive(Debug)]
struct Sums {
    sent: u64,
    received: u64,
    /// Consecutive responses that matched what was sent.
    matching: u8,
    reduced: bool,
}

impl Reordering {
    /// Handles a response: `received` of `sent` bytes were counted between two probes.
    pub(crate) fn on_response(&mut self, now: Time, rtt: Duration, sent: u64, received: u64) -> WindowAction {
        if self.sums.is_none() && sent == received {
            return WindowAction::NoChange;
        }
        let sums = self.sums.get_or_insert(Sums { sent: 0, received: 0, matching: 0, reduced: false });
        sums.sent += sent;
        sums.received += received;
        sums.matching = if sent == received { sums.matching + 1 } else { 0 };
        if sums.matching == 2 {
            let undo = sums.reduced && sums.sent == sums.received;
            self.sums = None;
            return if undo { WindowAction::Undo } else { WindowAction::NoChange };
        }
        if sums.sent == sums.received || self.reduced_at.is_some_and(|at| now.since(at) < rtt) {
            return WindowAction::NoChange;
        }
        sums.reduced = true;
        self.reduced_at = Some(now);
        WindowAction::Reduce
    }
}

#[cfg(test)]
mod tests {
    use super::WindowAction::{NoChange, Reduce, Undo};
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    /// Responses arrive twice a round trip, with these numbers of packets sent and counted.
    fn on_response(responses: &[(u64, u64)]) -> Vec<WindowAction> {
        let mut reordering = Reordering::default();
        let mut now = Time::ZERO;
        let one = |&(sent, received): &(u64, u64)| {
            now += RTT / 2;
            reordering.on_response(now, RTT, sent, received)
        };
        responses.iter().map(one).collect()
    }

    #[test]
    fn figure_9_reduces_the_window_and_undoes_it() {
        // Period 1: four packets sent, three counted.
        assert_eq!(on_response(&[(4, 4), (4, 3)]), [NoChange, Reduce]);
        // Period 2: the packet that its probe overtook is counted now, or it was lost. A fifth may also be a copy.
        assert_eq!(on_response(&[(4, 3), (4, 5), (4, 4), (4, 4)]), [Reduce, NoChange, NoChange, Undo]);
        assert_eq!(on_response(&[(4, 3), (4, 4), (4, 4), (4, 4)]), [Reduce, NoChange, NoChange, NoChange]);
        // Period 3: three of five. A round trip after the last reduction, and not sooner, the window is reduced again.
        assert_eq!(on_response(&[(4, 3), (4, 5), (5, 3)]), [Reduce, NoChange, Reduce]);
        assert_eq!(on_response(&[(4, 3), (5, 3)]), [Reduce, NoChange]);
        // "Since the CM cannot identify this from the information it has, it takes the conservative approach".
        let conservative = on_response(&[(4, 3), (4, 5), (5, 3), (4, 4), (4, 4), (4, 4)]);
        assert_eq!(conservative, [Reduce, NoChange, Reduce, NoChange, NoChange, NoChange]);
    }
}
