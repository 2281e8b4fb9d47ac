//! The next actor to wake up: a tournament tree in groups of eight.
//!
//! ```text
//!   last round          [ 12 ns, 15 ns, ... ]             every actor has an entry in the first round; the earliest of
//!                        /            \                   each group is entered in the next round, and the earliest of
//!   first round   [ 40, 12, ... ] [ 15, 33, ... ] ...     the last round is the next wake-up
//! ```
//!
//! Each actor has one wake-up at a time. When it changes, the minimum of its group is computed again, and so on up.
//! Unlike in a heap, these steps have no branches to mispredict. A group is one cache line, and ten thousand actors
//! need five rounds. At the same instant the lower actor comes first.

use rampmeter_units::Time;

/// The index of an actor: links first, then hosts, then aggregates.
pub(crate) type Actor = u32;

/// Time, then actor, in one integer, so that a comparison is one instruction.
type Key = u64;

/// No wake-up.
const NEVER: Key = Key::MAX;

/// Entries of a group.
const GROUP: usize = 8;

#[derive(Debug)]
pub(crate) struct Agenda {
    /// The groups of all rounds, the first round first.
    groups: Vec<[Key; GROUP]>,
    /// The index of each round's first group.
    rounds: Vec<usize>,
    /// The earliest wake-up.
    first: Key,
    /// The number of low bits of a key that hold the actor.
    actor_bits: u32,
    last: Time,
}

impl Agenda {
    /// An agenda without wake-ups.
    pub(crate) fn new(actors: usize) -> Self {
        let mut rounds = Vec::new();
        let (mut start, mut players) = (0, actors.max(2));
        let actor_bits = players.next_power_of_two().trailing_zeros();
        while players > 1 {
            rounds.push(start);
            players = players.div_ceil(GROUP);
            start += players;
        }
        let last = Time::from_nanos((NEVER >> actor_bits) - 1);
        Self { groups: vec![[NEVER; GROUP]; start], rounds, first: NEVER, actor_bits, last }
    }

    /// The last instant at which an actor can wake up: half a year with a thousand actors, five hours with a million.
    pub(crate) fn last(&self) -> Time {
        self.last
    }

    fn key(&self, actor: Actor, at: Time) -> Key {
        if at > self.last { NEVER } else { at.as_nanos() << self.actor_bits | u64::from(actor) }
    }

    /// The time and the actor of the next wake-up; [`Time::MAX`] if there is none.
    pub(crate) fn next(&self) -> (Time, Actor) {
        let at = if self.first == NEVER { Time::MAX } else { Time::from_nanos(self.first >> self.actor_bits) };
        (at, (self.first & !(NEVER << self.actor_bits)) as Actor)
    }

    /// Wakes `actor` at `at`, unless it has an earlier wake-up.
    pub(crate) fn wake(&mut self, actor: Actor, at: Time) {
        let key = self.key(actor, at);
        let mut place = actor as usize;
        for start in &self.rounds {
            let earliest = &mut self.groups[start + place / GROUP][place % GROUP];
            if *earliest <= key {
                return; // an earlier wake-up of this actor or, mostly, of another one
            }
            *earliest = key;
            place /= GROUP;
        }
        self.first = self.first.min(key);
    }

    /// Sets the next wake-up of `actor`, after it has run, to `at`; [`Time::MAX`] for never.
    pub(crate) fn set(&mut self, actor: Actor, at: Time) {
        let mut winner = self.key(actor, at);
        let mut place = actor as usize;
        for start in &self.rounds {
            let group = &mut self.groups[start + place / GROUP];
            group[place % GROUP] = winner;
            let [a, b, c, d, e, f, g, h] = *group;
            winner = a.min(b).min(c.min(d)).min(e.min(f).min(g.min(h)));
            place /= GROUP;
        }
        self.first = winner;
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Random;

    use super::*;

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    #[test]
    fn actors_wake_by_earliest_time_then_by_number() {
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
    fn a_thousand_actors_can_sleep_half_a_year() {
        let mut agenda = Agenda::new(1000);
        assert!(agenda.last() > at(180 * 24 * 3600 * 1_000_000_000));
        agenda.wake(999, agenda.last());
        assert_eq!(agenda.next(), (agenda.last(), 999));
        agenda.set(999, Time::MAX);
        assert_eq!(agenda.next().0, Time::MAX);
    }

    #[test]
    fn it_behaves_like_a_linear_search() {
        let mut random = Random::from_seed(3);
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
