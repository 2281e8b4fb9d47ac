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

/// Time, then actor, in one integer, so that a comparison is one instruction.
type Key = u64;

/// Nobody.
const NEVER: Key = Key::MAX;

#[derive(Debug)]
pub(crate) struct Agenda {
    /// What meets in each node, the root's pair at place 1; the winner of pair `n` stands in pair `n / 2`, on side `n % 2`.
    pairs: Vec<[Key; 2]>,
    /// Low bits of a key that name the actor.
    actor_bits: u32,
    /// The last instant that a key can hold.
    last: Time,
}

impl Agenda {
    /// Nobody wakes up. With a thousand actors a wake-up can be half a year away, with a million five hours; what lies
    /// beyond [`Agenda::last`] never happens.
    pub(crate) fn new(actors: usize) -> Self {
        let leaves = actors.next_power_of_two().max(2);
        let actor_bits = leaves.trailing_zeros();
        let last = Time::from_nanos((NEVER >> actor_bits) - 1);
        Self { pairs: vec![[NEVER; 2]; leaves], actor_bits, last }
    }

    /// The last instant at which anybody can wake up.
    pub(crate) fn last(&self) -> Time {
        self.last
    }

    fn key(&self, actor: Actor, at: Time) -> Key {
        if at > self.last { NEVER } else { at.as_nanos() << self.actor_bits | u64::from(actor) }
    }

    /// The actor's place: a pair and a side, in one number.
    fn leaf(&self, actor: Actor) -> usize {
        self.pairs.len() + actor as usize
    }

    /// Wakes `actor` at `at`, unless it wakes up earlier anyway.
    pub(crate) fn wake(&mut self, actor: Actor, at: Time) {
        let key = self.key(actor, at);
        let mut node = self.leaf(actor);
        // Up to where somebody else is earlier: mostly not far.
        while node > 1 && key < self.pairs[node / 2][node % 2] {
            self.pairs[node / 2][node % 2] = key;
            node /= 2;
        }
    }

    /// When the next wake-up is, and whose; [`Time::MAX`] if nobody wakes up.
    pub(crate) fn next(&self) -> (Time, Actor) {
        let [a, b] = self.pairs[1];
        let first = a.min(b);
        let at = if first == NEVER { Time::MAX } else { Time::from_nanos(first >> self.actor_bits) };
        (at, (first & !(NEVER << self.actor_bits)) as Actor)
    }

    /// `actor` has done what it was woken for and wants to wake up at `at` next; [`Time::MAX`] for never.
    pub(crate) fn set(&mut self, actor: Actor, at: Time) {
        let mut winner = self.key(actor, at);
        let mut node = self.leaf(actor);
        while node > 1 {
            let pair = &mut self.pairs[node / 2];
            pair[node % 2] = winner;
            winner = pair[0].min(pair[1]);
            node /= 2;
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

    #[test]
    fn a_thousand_actors_can_sleep_for_half_a_year_and_for_ever() {
        let mut agenda = Agenda::new(1000);
        assert!(agenda.last() > at(180 * 24 * 3600 * 1_000_000_000));
        agenda.wake(999, agenda.last());
        assert_eq!(agenda.next(), (agenda.last(), 999));
        agenda.set(999, Time::MAX);
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
