//! Who wakes up next: a tournament.
//!
//! ```text
//!              7 @ 12 ns                 every actor has a leaf; every node holds the earlier of its two
//!         3 @ 15       7 @ 12            children, so the root is who wakes up next
//!       2 @ 40 3 @ 15 6 @ 33 7 @ 12
//! ```
//!
//! Each actor has one wake-up at a time, so a change is a walk from one leaf to the root whose steps are the same
//! whatever they find: unlike a heap's, they leave the processor nothing to guess. Ten thousand actors take fourteen.
//!
//! Actors are small numbers. At the same instant the lower number comes first.

use rampmeter_units::Time;

/// An actor's place in its simulation: links first, then hosts.
pub(crate) type Actor = u32;

/// Time and actor in one integer, so that a comparison is one.
type Key = u128;

#[derive(Debug)]
pub(crate) struct Agenda {
    /// The root is node 1; the children of `n` are `2n` and `2n + 1`; the second half are the leaves.
    nodes: Vec<Key>,
}

fn key(at: Time, actor: Actor) -> Key {
    u128::from(at.as_nanos()) << 32 | u128::from(actor)
}

fn time(key: Key) -> Time {
    Time::from_nanos((key >> 32) as u64)
}

impl Agenda {
    /// Nobody wakes up.
    pub(crate) fn new(actors: usize) -> Self {
        Self { nodes: vec![key(Time::MAX, 0); 2 * actors.next_power_of_two().max(1)] }
    }

    fn leaf(&self, actor: Actor) -> usize {
        self.nodes.len() / 2 + actor as usize
    }

    /// Wakes `actor` at `at`, unless it wakes up earlier anyway.
    pub(crate) fn wake(&mut self, actor: Actor, at: Time) {
        let key = key(at, actor);
        let mut node = self.leaf(actor);
        // Up to where somebody else is earlier: mostly not far.
        while node > 0 && key < self.nodes[node] {
            self.nodes[node] = key;
            node /= 2;
        }
    }

    /// When the next wake-up is, and whose; [`Time::MAX`] if nobody wakes up.
    pub(crate) fn next(&self) -> (Time, Actor) {
        let first = self.nodes[1];
        (time(first), first as Actor)
    }

    /// `actor` has done what it was woken for and wants to wake up at `at` next; [`Time::MAX`] for never.
    pub(crate) fn set(&mut self, actor: Actor, at: Time) {
        let mut winner = key(at, actor);
        let mut node = self.leaf(actor);
        self.nodes[node] = winner;
        while node > 1 {
            winner = winner.min(self.nodes[node ^ 1]);
            node /= 2;
            self.nodes[node] = winner;
        }
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Stream;

    use super::*;

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    #[test]
    fn actors_wake_by_time_then_by_number_at_the_earliest_time_asked_for() {
        let mut agenda = Agenda::new(5);
        for (actor, time) in [(3, 5), (1, 5), (2, 9), (2, 7), (0, 20), (0, 30)] {
            agenda.wake(actor, at(time));
        }
        for expected in [(at(5), 1), (at(5), 3), (at(7), 2), (at(20), 0)] {
            assert_eq!(agenda.next(), expected);
            agenda.set(expected.1, Time::MAX);
        }
        assert_eq!(agenda.next().0, Time::MAX);
    }

    /// Against a list that is searched.
    #[test]
    fn it_behaves_like_a_list() {
        let mut random = Stream::from_seed(3);
        let mut agenda = Agenda::new(40);
        let mut list = vec![Time::MAX; 40];
        let mut now = Time::ZERO;
        for _ in 0..20_000 {
            let actor = random.below(40) as usize;
            let time = at(now.as_nanos() + random.below(1000));
            agenda.wake(actor as Actor, time);
            list[actor] = list[actor].min(time);
            if random.chance(0.9) {
                let first = (0..40).min_by_key(|&actor| (list[actor], actor)).unwrap();
                assert_eq!(agenda.next(), (list[first], first as Actor));
                now = list[first];
                let sleeps = random.chance(0.3);
                list[first] = if sleeps { Time::MAX } else { at(now.as_nanos() + random.below(1000)) };
                agenda.set(first as Actor, list[first]);
            }
        }
    }
}
