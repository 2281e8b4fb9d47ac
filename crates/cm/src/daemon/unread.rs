//! Notices that wait because a client reads slowly.
//!
//! The client's own calls cause most notices, so a client that calls and does not read has itself to blame if too many
//! wait. Two kinds come without a call: a flow's share has changed, or the contents of its headers, which the receiver
//! can cause as often as it likes. Of these only the latest of each flow waits.

use std::collections::{BTreeMap, VecDeque};

use crate::message::Notice;

/// The maximum number of notices that wait for a client; beyond it the session ends.
pub(super) const MAX_UNREAD: usize = 64 * 1024;

/// The kind of a notice of which only the latest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Share,
    Header,
}

impl State {
    fn of(notice: &Notice) -> Option<Self> {
        match notice {
            Notice::Change(_) => Some(Self::Share),
            Notice::Header(_) => Some(Self::Header),
            _ => None,
        }
    }
}

/// The waiting notices of a client, oldest first.
#[derive(Debug, Default)]
pub(super) struct Unread {
    notices: VecDeque<(u32, Notice)>,
    /// The number of notices that have been removed.
    removed: u64,
    /// The position of the waiting notice about a flow's state, counted from the first notice of all.
    states: BTreeMap<(u32, State), u64>,
}

impl Unread {
    pub(super) fn is_empty(&self) -> bool {
        self.notices.is_empty()
    }

    /// Adds a notice. Returns false if too many wait.
    pub(super) fn push(&mut self, id: u32, notice: Notice) -> bool {
        if let Some(state) = State::of(&notice) {
            let next = self.removed + self.notices.len() as u64;
            let position = *self.states.entry((id, state)).or_insert(next);
            if let Some(earlier) = self.notices.get_mut((position - self.removed) as usize) {
                *earlier = (id, notice);
                return true;
            }
        }
        self.notices.push_back((id, notice));
        self.notices.len() <= MAX_UNREAD
    }

    /// The oldest notice.
    pub(super) fn first(&self) -> Option<&(u32, Notice)> {
        self.notices.front()
    }

    /// Removes the oldest notice.
    pub(super) fn remove_first(&mut self) {
        let Some((id, notice)) = self.notices.pop_front() else { return };
        self.removed += 1;
        if let Some(state) = State::of(&notice) {
            self.states.remove(&(id, state));
        }
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Rate;

    use super::*;
    use crate::message::PathState;

    fn change(bps: u64) -> Notice {
        Notice::Change(PathState { rate: Rate::from_bps(bps), ..PathState::default() })
    }

    fn all(unread: &mut Unread) -> Vec<(u32, Notice)> {
        std::iter::from_fn(|| unread.first().copied().inspect(|_| unread.remove_first())).collect()
    }

    #[test]
    fn only_the_latest_state_of_a_flow_waits() {
        let mut unread = Unread::default();
        let grant = Notice::Grant { bytes: 1 };
        for (id, notice) in [(1, grant), (1, change(5)), (2, change(6)), (1, grant), (1, change(7))] {
            assert!(unread.push(id, notice));
        }
        assert_eq!(all(&mut unread), [(1, grant), (1, change(7)), (2, change(6)), (1, grant)]);
        assert!(unread.push(1, change(8)) && unread.push(1, Notice::Header(None)) && unread.push(1, change(9)));
        assert_eq!(all(&mut unread), [(1, change(9)), (1, Notice::Header(None))]);
        assert!(unread.states.is_empty());
    }

    #[test]
    fn a_receiver_that_resets_again_and_again_fills_no_queue() {
        let mut unread = Unread::default();
        for _ in 0..1000 {
            assert!((0..256).all(|flow| unread.push(flow, Notice::Header(None))));
        }
        assert_eq!(unread.notices.len(), 256);
        let calls = (0..=MAX_UNREAD).take_while(|_| unread.push(1, Notice::Grant { bytes: 1 }));
        assert_eq!(calls.count(), MAX_UNREAD - 256);
    }
}
